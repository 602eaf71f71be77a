"""The whole story on generated hospitals, as `elldelta demo` tells it: what goes wrong, and what does not.

Nothing is staged: records are written to files, and every step after that is the one that users run.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.audit.audit import audit
from elldelta.audit.measures import summarize
from elldelta.audit.reader import ReleaseReader
from elldelta.audit.targets import find_people, values_left
from elldelta.core.diversity import n_groups_left
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.core.partition import Partition
from elldelta.engines import running
from elldelta.engines.task import part
from elldelta.errors import counted
from elldelta.files import AtomicFiles, check_writable, unwritable
from elldelta.ledger.publish import release
from elldelta.model import estimate, write_model
from elldelta.model.demo_hospitals import HOSPITALS, make_region
from elldelta.pages.charts import as_png, draw_before_after, draw_frontier, draw_largest_shares, draw_patients
from elldelta.pages.page import inline_svg, render
from elldelta.plan.frontier import frontier
from elldelta.plan.plan import write_plan
from elldelta.plan.planner import make_plan
from elldelta.plan.wish import Wish
from elldelta.schema.infer import propose
from elldelta.schema.schema_file import write_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from elldelta.engines import Engine, Progress
    from elldelta.plan.frontier import Frontier
    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema

ELL = 3
CLOSENESS = 0.3

SHARES = (
    "before linking: what a plan says of a class",
    "after linking, each hospital by itself",
    f"after linking, a plan for closeness {CLOSENESS:g}",
)


def run_demo(
    folder: Path, *, seed: int = 1, overwrite: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """Runs the story, writes its files and one page into a folder, and returns what the page shows.

    The files appear together at the end: a demonstration that was interrupted can be run again.
    """
    names = (
        "demo.html",
        "demo.png",
        "shares.png",
        "past.parquet",
        "schema.toml",
        "model.parquet",
        "plan.json",
    )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="elldelta-demo-") as work,
            AtomicFiles(overwrite=overwrite) as files,
        ):
            files.make_folder(folder)
            for name in names:
                check_writable(folder / name, overwrite=overwrite)
            numbers = _story(Path(work), np.random.default_rng(seed), progress)
            for path in sorted(Path(work).iterdir()):
                shutil.copyfile(path, files.stage(folder / path.name))
    except OSError as problem:  # the disk may also be full later
        raise unwritable(folder, problem) from None
    return {**numbers, "page": folder / "demo.html"}


def _story(folder: Path, rng: np.random.Generator, progress: Progress | None) -> dict[str, Any]:
    """The story in an empty folder."""
    region = make_region(rng)
    past = folder / "past.parquet"
    hospitals = [folder / f"hospital_{name.lower()}.parquet" for name in HOSPITALS]
    _write_tables([past, *hospitals], [region.past.table(), *(h.table() for h in region.hospitals)])
    with running(None) as engine:
        schema = propose(engine.open(past), ("postal_code", "gender", "age"), "disease").schema
        write_schema(schema, folder / "schema.toml")
        people = region.common.table()
        alone = _alone(folder, hospitals, schema)
        without = _side(alone, schema, people, engine)

        model = estimate(past, schema, engine=engine)
        write_model(model, folder / "model.parquet")
        records = min(len(hospital) for hospital in region.hospitals)
        wish = Wish(ell=ELL, releases=len(HOSPITALS), records=records)
        plan = make_plan(model, wish, progress=part(progress, 0.1, 0.3))
        write_plan(plan, folder / "plan.json")
        released = [folder / f"release_{name.lower()}.parquet" for name in HOSPITALS]
        for source, target in zip(hospitals, released, strict=True):
            release(source, plan, to=target, engine=engine)
        with_plan = _side(released, schema, people, engine)
        verdict = audit(released, engine=engine).verdict
        near = make_plan(model, Wish(closeness=CLOSENESS, releases=len(HOSPITALS), records=records))
        write_plan(near, folder / "plan_close.json")
        close = [folder / f"close_{name.lower()}.parquet" for name in HOSPITALS]
        for source, target in zip(hospitals, close, strict=True):
            release(source, near, to=target, engine=engine)
        shares = _largest_shares(near, people, alone, close, engine)
    asked: dict[str, Any] = {"ell": ELL, "delta": plan.delta, "releases": len(HOSPITALS)}
    tried = [records * factor // 8 for factor in (1, 2, 4, 8, 16, 32, 64)]
    curve = frontier(model, **asked, records=tried, progress=part(progress, 0.4, 1.0))
    [row] = (row for row in curve.rows if row.records == records)
    numbers: dict[str, Any] = {
        "table_2": table_2(),
        "ell": ELL,
        "n_hospitals": len(HOSPITALS),
        "n_records": records,
        "n_common": len(region.common),
        "promise": plan.promise,
        "conditions": plan.conditions,
        "classes": dict(row.classes),
        "loss": dict(row.losses),
        "without": without,
        "with_plan": with_plan,
        "verdict": verdict,
        "closeness": CLOSENESS,
        "shares": {name: _quantiles(numbers) for name, numbers in shares.items()},
    }
    before, after = (side["patients_by_values"] for side in (without, with_plan))
    titles = ("Each hospital by itself, linked", "One plan for all, linked")
    picture = draw_largest_shares(dict(zip(SHARES, shares.values(), strict=True)))
    (folder / "shares.png").write_bytes(as_png(picture))
    (folder / "demo.html").write_text(_page(numbers, curve, picture), encoding="utf-8")
    (folder / "demo.png").write_bytes(as_png(draw_before_after(before, after, ELL, titles)))
    return numbers


def table_2() -> tuple[int, int, int]:
    """The paper's Table 2: the diversity of both releases, of their linkage, and under common classes.

    Quasi-identifiers: (Male, 560012), (Male, 560011), (Female, 560010), (Female, 560008). Diseases: heart
    disease, lung infection, osteoporosis, cervical cancer, irritable bowel syndrome, amoebic dysentery.
    """
    first = np.zeros((4, 6), dtype=np.int64)
    first[[0, 1, 2, 2], [0, 1, 2, 3]] = 1
    second = np.zeros((4, 6), dtype=np.int64)
    second[[3, 3, 2, 2], [4, 1, 3, 5]] = 1
    own_classes = Partition(np.array([0, 0, 1, 2]))
    together = Partition.single(4)

    def left(partition: Partition, tables: Sequence[NDArray[np.int64]]) -> int:
        return link([ReleasedCounts.from_table(table, partition) for table in tables]).diversity or 0

    each = min(left(own_classes, [first]), left(own_classes, [second]))
    return each, left(own_classes, [first, second]), left(together, [first, second])


def _alone(folder: Path, hospitals: Sequence[Path], schema: Schema) -> list[Path]:
    """Every hospital anonymizes its own table, by itself."""
    import pyarrow.parquet as pq

    targets = [folder / f"alone_{name.lower()}.parquet" for name in HOSPITALS]
    tables = []
    for source in hospitals:
        table = pq.read_table(source)
        positions = np.stack(
            [
                column.encode(table.column(column.name).combine_chunks())
                for column in schema.quasi_identifiers
            ],
            axis=1,
        )
        values = schema.sensitive.encode(table.column(schema.sensitive.name).combine_chunks())
        tables.append(anonymize_alone(schema, positions, values, ELL))
    _write_tables(targets, tables)
    return targets


def _side(releases: Sequence[Path], schema: Schema, people: pa.Table, engine: Engine) -> dict[str, Any]:
    """What linking the releases shows: by itself, linked, and for the patients who are in all of them."""
    overlay = ReleaseReader(columns=schema, engine=engine).gather(releases, people)
    result = summarize(overlay, ELL)
    left = n_groups_left(values_left(overlay, find_people(overlay, people)) > 0, overlay.groups)
    numbers, patients = np.unique(left, return_counts=True)
    return {
        "diversity_each": [item.diversity or 0 for item in result.releases],
        "classes_each": [item.classes for item in result.releases],
        "diversity_linked": int(left.min()),
        "n_exposed": int((left == 1).sum()),
        "n_below": int((left < ELL).sum()),
        "patients_by_values": dict(zip(numbers.tolist(), patients.tolist(), strict=True)),
    }


def _largest_shares(
    plan: Plan, people: pa.Table, alone: Sequence[Path], close: Sequence[Path], engine: Engine
) -> dict[str, list[float]]:
    """The share of each patient's most frequent disease: as the plan says, and among linked records."""
    schema = plan.schema
    columns = [
        column.encode(people.column(column.name).combine_chunks()) for column in schema.quasi_identifiers
    ]
    [column] = plan.columns
    assert column.closeness is not None  # noqa: S101 (it was asked for)
    public = column.closeness.shares.max(axis=1)[plan.class_of(schema.ranks_of_columns(columns))]
    found = {"before": public.tolist()}
    for name, releases in (("without", alone), ("with_plan", close)):
        overlay = ReleaseReader(columns=schema, engine=engine).gather(releases, people)
        linked = values_left(overlay, find_people(overlay, people))
        linked = linked[linked.any(axis=1)]  # whoever was left out of a release is not linked
        found[name] = (linked.max(axis=1) / linked.sum(axis=1)).tolist()
    return found


def _quantiles(numbers: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(numbers)), "largest": float(max(numbers)), "patients": len(numbers)}


def _write_tables(paths: Sequence[Path], tables: Sequence[pa.Table]) -> None:
    import pyarrow.parquet as pq

    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, compression="zstd")


def _page(numbers: dict[str, Any], curve: Frontier, shares: Figure) -> str:
    """One self-contained HTML page: no script, no network, opens from the file system."""
    left = {name: numbers[name]["patients_by_values"] for name in ("without", "with_plan")}
    highest = max(max(counts) for counts in left.values())
    classes = {kind: [row.classes[kind] for row in curve.rows] for kind in ("paper", "certified")}
    title = f"Classes against records (ℓ = {ELL}, {counted(len(HOSPITALS), 'release')})"
    return render(
        "demo.html",
        numbers=numbers,
        pictures={
            name: inline_svg(draw_patients(counts, ELL, highest), name) for name, counts in left.items()
        },
        shares=inline_svg(shares, "shares"),
        frontier=inline_svg(draw_frontier([row.records for row in curve.rows], classes, title), "frontier"),
    )


def mondrian(
    positions: NDArray[np.int64], values: NDArray[np.int64], sizes: tuple[int, ...], ell: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]]:
    """Halves boxes at the median while both halves show at least ell values: a plain Mondrian.

    It is what a hospital does that makes its own table diverse and nothing else. Do not publish with it.

    Yields:
        The records of each final box, and its lowest and highest position in each attribute.
    """
    stack = [(np.arange(len(values)), np.zeros(len(sizes), np.int64), np.array(sizes, np.int64) - 1)]
    while stack:
        rows, low, high = stack.pop()
        for attribute in np.argsort(-(high - low) / np.maximum(np.array(sizes) - 1, 1), kind="stable"):
            along = positions[rows, attribute]
            cut = int(np.median(along))
            left = along <= cut
            halves = (rows[left], rows[~left])
            if cut < high[attribute] and all(np.unique(values[half]).size >= ell for half in halves):
                upper, lower = high.copy(), low.copy()
                upper[attribute], lower[attribute] = cut, cut + 1
                stack += [(halves[0], low, upper), (halves[1], lower, high)]
                break
        else:
            yield rows, low, high


def anonymize_alone(
    schema: Schema, positions: NDArray[np.int64], values: NDArray[np.int64], ell: int
) -> pa.Table:
    """A release that is ell-diverse by itself, with labels as the schema writes them."""
    import pyarrow as pa

    columns: list[list[str]] = [[] for _ in schema.names]
    shown: list[NDArray[np.int64]] = []
    for rows, low, high in mondrian(positions, values, schema.sizes, ell):
        for place, column in enumerate(schema.quasi_identifiers):
            columns[place] += [column.label(int(low[place]), int(high[place]))] * len(rows)
        shown.append(np.sort(values[rows]))
    sensitive = schema.sensitive.released_values().take(pa.array(np.concatenate(shown)))
    return pa.table({**dict(zip(schema.names, columns, strict=True)), schema.sensitive.name: sensitive})
