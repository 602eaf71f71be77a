"""Plans by region: as by hand, the same wherever they are made, and as good as any other plan."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from tests.coins import COINS
from tests.oracles import regions as oracle

import elldelta as ed
from elldelta.core.box_tree import CutTree
from elldelta.core.generalize.bounds import SharpBound, evaluate
from elldelta.core.ladder import STEP
from elldelta.core.partition import Partition
from elldelta.engines.workers import Workers
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.model import read_past, split_model, with_hierarchies
from elldelta.plan.consistency import check_numbers
from elldelta.plan.plan import Plan
from elldelta.plan.planner import Planner, make_plan
from elldelta.plan.wish import Wish
from elldelta.schema.hierarchy import HierarchyRows
from elldelta.schema.schema import Categories, Column, Integers, Schema

STATES = tuple("ABCDEFG")
SICK = tuple(f"d{place}" for place in range(8))
ASKED = {"ell": 3, "releases": 2, "records": 4000}


def table(seed, n, shares=(0.3, 0.25, 0.2, 0.15, 0.06, 0.035, 0.005)):
    rng = np.random.default_rng(seed)
    state = rng.choice(len(shares), n, p=shares)
    sick = (rng.geometric(0.3, n) - 1 + state) % len(SICK)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 50, n),
            "state": np.array(STATES)[state],
            "sex": rng.choice(["F", "M"], n),
            "disease": np.array(SICK)[sick],
        }
    )


SCHEMA = Schema(
    (
        Column("age", Integers(0, 99)),
        Column("state", Categories(STATES)),
        Column("sex", Categories(("F", "M"))),
    ),
    Column("disease", Categories(SICK)),
)


@pytest.fixture(scope="module")
def model():
    return ed.estimate(table(1, 12_000), SCHEMA)


@pytest.fixture(scope="module")
def regional(model, tmp_path_factory):
    return split_model(model, "state", tmp_path_factory.mktemp("split") / "model")


@pytest.fixture(scope="module")
def plan(regional):
    return ed.plan(regional, **ASKED)


@dataclass(frozen=True)
class Shuffled(Workers):
    """Does the last job first; hands results out in their order."""

    def run(self, job, n_jobs, progress=None):
        found = {number: job(number) for number in reversed(range(n_jobs))}
        yield from (found[number] for number in range(n_jobs))


def lengths(plan):
    return tuple(high - low + 1 for low, high in plan.seen)


def areas_of(plan, place):
    return [range(low, high + 1) for low, high in oracle.separating_cuts(plan.classes.tree, place)]


@pytest.mark.parametrize(
    ("wish", "limit", "bound"),
    [
        ({}, 0.02, {"checked_by": "owner"}),
        ({"kind": "probabilistic"}, 0.02, {"checked_by": "nobody", "rounds_down": True}),
        ({"merge_risk": 0.1}, 0.1, {"checked_by": "owner", "per_class": True}),
    ],
    ids=str,
)
def test_the_classes_are_those_of_each_region_by_hand(model, regional, wish, limit, bound):
    made = ed.plan(regional, **ASKED, **wish)
    areas = areas_of(made, 1)
    expected = oracle.by_hand(model, 1, lengths(made), areas, limit, **ASKED, **{"per_class": False, **bound})
    assert len(areas) >= 5
    assert made.n_classes > 2 * len(areas)
    np.testing.assert_array_equal(made.class_of(model.ranks), expected)


def test_only_what_cannot_stand_alone_is_planned_together(regional, plan):
    """Every class lies in one area; areas of several regions could not be cut within their shares."""
    areas = areas_of(plan, 1)
    assert [len(area) for area in areas] == [1, 1, 1, 1, 1, 2]
    lows, highs = plan.hulls
    for low, high in zip(lows[:, 1], highs[:, 1], strict=True):
        assert sum(area[0] <= low and high <= area[-1] for area in areas) == 1
    past = regional.to_distribution()
    for rows, stands_alone in ([5], True), ([6], False):
        shares = past.mass[rows].sum(axis=0) / past.total
        bound = SharpBound(3, 4000, 2, 0.02 * float(shares.sum()), checked_by="owner")
        failure = bound.evaluate(replace(past, mass=past.mass[rows])).reached
        assert (failure <= 0.02 * shares.sum()) == stands_alone


def test_the_failure_is_not_more_than_it_says(model, regional):
    """Of all classes together, from the definition: the exact chance to miss more than is allowed."""
    plan = ed.plan(regional, ell=2, releases=2, records=300)
    cells = model.counts.by_class(plan.class_of(model.ranks), plan.n_classes)
    [column] = plan.columns
    failure = Fraction(0)
    for row, witnesses in zip(cells.tolist(), column.witnesses, strict=True):
        shares = [Fraction(row[value], model.n_records) for value in witnesses]
        failure += oracle.chance_to_miss(shares, plan.records, (len(witnesses) - 2) // 2)
    assert plan.n_classes > 5
    assert 1e-6 < 2 * failure <= plan.failure_upper <= 2 * plan.delta
    check_numbers(plan)


WISHES = [
    {},
    {"kind": "probabilistic"},
    {"merge_risk": 0.1},
    {"k": 40},
    {"min_records": 2},
    {"owners": 3, "releases": None},
    {"closeness": 0.4},
    {"closeness": 0.4, "closeness_to": "overall", "ell": None},
]


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_a_single_region_is_planned_as_the_whole(wish, tmp_path):
    """To the last byte; plans of several regions keep what is asked, too."""
    whole = ed.estimate(table(2, 4000, (1.0,)), SCHEMA)
    single = split_model(whole, "state", tmp_path / "single")
    asked = {**ASKED, **wish}
    expected = ed.plan(whole, **asked)
    assert ed.plan(single, **asked).digest == expected.digest


@pytest.mark.parametrize("wish", WISHES[2:], ids=str)
def test_every_wish_is_kept_by_region(model, regional, wish):
    made = check_numbers(ed.plan(regional, **{**ASKED, **wish}))
    whole = ed.plan(model, **{**ASKED, **wish})
    assert made.failure_upper <= made.n_planned * made.delta
    assert 4 <= made.n_classes <= 1.1 * whole.n_classes
    assert made.loss(regional) == made.loss(model) > 0.0


def test_it_is_the_same_wherever_regions_are_planned(regional, plan):
    assert make_plan(regional, Wish(**ASKED), workers=Shuffled()) == plan
    assert ed.plan(regional.folder, **ASKED, processes=2).file_content == plan.file_content


def test_the_order_of_regions_does_not_matter(model, plan, tmp_path):
    """Named in another order, regions that stand alone have the same classes."""
    state = replace(SCHEMA.quasi_identifiers[1], domain=Categories(STATES[::-1]))
    schema = replace(
        SCHEMA, quasi_identifiers=(SCHEMA.quasi_identifiers[0], state, SCHEMA.quasi_identifiers[2])
    )
    backwards = split_model(ed.estimate(table(1, 12_000), schema), "state", tmp_path / "backwards")
    other = ed.plan(backwards, **ASKED)
    alone = [{label for label in each.labels if label[1] in STATES[:5]} for each in (plan, other)]
    assert alone[0] == alone[1]
    assert len(alone[0]) > 20


def test_places_of_regions_may_be_far_apart(tmp_path):
    """The cuts are those of regions side by side, in the middle of what lies between."""
    apart = 300_000_000
    found = []
    for step in (1, apart):
        columns = (
            Column("age", Integers(0, 99)),
            Column("state", Integers(0, 6 * step)),
            Column("sex", Categories(("F", "M"))),
        )
        own = table(1, 12_000)
        own["state"] = [STATES.index(state) * step for state in own["state"]]
        whole = ed.estimate(own, Schema(columns, Column("disease", Categories(SICK))))
        found.append(ed.plan(split_model(whole, "state", tmp_path / str(step)), **ASKED).classes.tree)
    near, far = found
    assert far.attributes.tolist() == near.attributes.tolist()
    at_state = near.attributes == 1
    assert far.places[~at_state].tolist() == near.places[~at_state].tolist()
    assert far.places[at_state].tolist() == (near.places[at_state] * apart + (apart - 1) // 2).tolist()


def test_regions_follow_a_hierarchy(model, tmp_path):
    """North (A to D) and South are cut first; regions that are planned together are siblings."""
    rows = tuple(
        (
            state,
            f"{'North' if state < 'E' else 'South'} {place // 2}",
            "North" if state < "E" else "South",
            "*",
        )
        for place, state in enumerate(STATES)
    )
    tree = split_model(with_hierarchies(model, {"state": HierarchyRows(rows)}), "state", tmp_path / "tree")
    made = ed.plan(tree, **ASKED)
    labels = {label[1] for label in made.labels}
    assert {"A", "B", "C", "D"} <= labels
    assert isinstance(made.schema.quasi_identifiers[1].cut_tree, CutTree)
    first = made.classes.tree
    assert (first.attributes[0], first.places[0]) == (1, 3)


def test_moving_classes_move_up_across_regions(model, regional):
    made = ed.plan(regional, **ASKED, merge_risk=0.2)
    tree = made.classes.tree
    assert tree.attributes[0] == 1
    released = ed.release(table(5, 300), made, **COINS)
    assert released.manifest.classes.n_classes < made.n_classes
    assert ed.verify(released, plan=made)


def test_releases_of_it_are_admitted_verified_and_audited(plan, tmp_path):
    files = [tmp_path / f"{owner}.parquet" for owner in ("first", "second")]
    for seed, file in enumerate(files, start=11):
        ledger = ed.Ledger(tmp_path / "ledger", file.stem)
        assert ed.release(table(seed, 4000), plan, to=file, ledger=ledger).manifest.diversity >= 3
        assert ed.verify(file, plan=plan)
    audit = ed.audit(files)
    assert audit.diversity_min_any >= 3


def test_people_may_move_inside_their_region(tmp_path):
    age, state, sex = SCHEMA.quasi_identifiers
    moving = replace(SCHEMA, quasi_identifiers=(replace(age, changes=True), state, sex))
    model = ed.estimate(table(1, 12_000), moving)
    regional = split_model(model, "state", tmp_path / "moving")
    made = check_numbers(ed.plan(regional, **ASKED))
    [column], ranges = made.columns, made.promises[0].ranges
    assert len(set(ranges.tolist())) >= 5
    for number in set(ranges.tolist()):
        assert len({tuple(column.witnesses[place]) for place in np.flatnonzero(ranges == number)}) == 1
    assert len(set(map(tuple, column.witnesses))) > 1
    by_age = split_model(model, "age", tmp_path / "age")
    for wish, parts in ({"movers": "any"}, regional), ({}, by_age):
        with pytest.raises(RefusedError, match="move across regions"):
            ed.plan(parts, **ASKED, **wish)


def test_a_region_too_small_for_witnesses_in_common_is_planned_with_another(tmp_path):
    """Most of 40 people have one value: two more that they could rely on occur less than five times."""
    rng = np.random.default_rng(5)
    columns = (
        Column("region", Categories(("A", "B"))),
        Column("job", Categories(("p", "q", "r")), changes=True),
    )
    people = pd.DataFrame(
        {
            "region": ["A"] * 960 + ["B"] * 40,
            "job": rng.choice(["p", "q", "r"], 1000),
            "sick": [*rng.choice(["u", "v", "w", "x"], 960), *"u" * 33, *"v" * 4, *"w" * 3],
        }
    )
    model = ed.estimate(people, Schema(columns, Column("sick", Categories(("u", "v", "w", "x")))))
    asked = {"ell": 3, "releases": 1, "records": 3000, "delta": 0.2}
    whole, parts = ed.plan(model, **asked), ed.plan(split_model(model, "region", tmp_path / "model"), **asked)
    assert check_numbers(parts).n_classes == whole.n_classes > 1


def test_what_needs_the_whole_is_refused(model, regional, plan):
    with pytest.raises(ParameterError, match="not made by region"):
        ed.plan(regional, **ASKED, kind="paper")
    with pytest.raises(ParameterError, match="belong into its schema"):
        ed.plan(regional, **ASKED, hierarchies={"state": "states.csv"})
    with pytest.raises(ParameterError, match="plan the regions"):
        ed.plan(model, **ASKED, processes=2)
    with pytest.raises(RefusedError, match="No classes keep"):
        ed.plan(regional, **{**ASKED, "records": 10})
    with ed.connect() as duckdb, pytest.raises(ParameterError, match="cannot plan regions"):
        ed.plan(regional, **ASKED, engine=duckdb)
    with ed.connect() as duckdb, pytest.raises(ParameterError, match="not on both"):
        ed.plan(regional, **ASKED, engine=duckdb, processes=2)


def test_frontiers_and_drift(regional, plan):
    [row] = ed.frontier(regional, ell=3, releases=2, records=[4000]).rows
    assert dict(row.classes) == {"certified": plan.n_classes}
    with pytest.raises(FileError, match="not a model in one file"):
        ed.read_model(regional.folder)


def test_several_sensitive_columns(tmp_path):
    rng = np.random.default_rng(4)
    records = table(4, 8000)
    records["income"] = rng.choice(["low", "middle", "high"], 8000)
    schema = replace(SCHEMA, also_sensitive=(Column("income", Categories(("low", "middle", "high"))),))
    model = ed.estimate(records, schema)
    regional = split_model(model, "state", tmp_path / "several")
    made = check_numbers(ed.plan(regional, **{**ASKED, "ell": {"disease": 3, "income": 2}}))
    assert made.n_classes > len(regional.regions)
    assert made.failure_upper <= 0.02
    assert Plan.from_dict(made.to_dict()) == made


def test_persons_with_several_values_need_a_certified_plan_by_region_too(tmp_path):
    visits = table(1, 6000).assign(who=lambda rows: np.arange(len(rows)) // 2)
    regional = split_model(ed.estimate(visits, SCHEMA, person="who"), "state", tmp_path / "persons")
    assert check_numbers(ed.plan(regional, **ASKED)).n_classes > 5
    with pytest.raises(RefusedError, match="not made from persons with several values"):
        ed.plan(regional, **ASKED, kind="probabilistic")


def test_groups_of_values(tmp_path):
    rows = HierarchyRows(tuple((value, f"group {place // 2}", "*") for place, value in enumerate(SICK)))
    schema = replace(SCHEMA, sensitive=replace(SCHEMA.sensitive, hierarchy=rows.checked(Categories(SICK))))
    regional = split_model(ed.estimate(table(1, 12_000), schema), "state", tmp_path / "grouped")
    made = check_numbers(ed.plan(regional, **ASKED))
    assert made.n_classes > 5
    groups = made.schema.sensitive.value_groups
    assert all(len(set(groups[list(values)])) == len(values) for values in made.columns[0].witnesses)


@pytest.mark.parametrize("noise", [{"epsilon": 2.0}, {"epsilon": 2.0, "delta_dp": 1e-4}], ids=str)
def test_models_with_noise_are_split(noise, tmp_path):
    pytest.importorskip("opendp")
    model = ed.estimate(table(1, 12_000), SCHEMA, domains_are_public=True, **noise)
    regional = split_model(model, "state", tmp_path / "noisy")
    made = check_numbers(ed.plan(read_past(regional.folder), **ASKED))
    assert made.past == model.noise
    assert regional.n_records == model.n_records
    assert made.n_classes > 2


def test_a_part_that_was_exchanged_is_noticed(model, tmp_path):
    parts = split_model(model, "state", tmp_path / "model")
    first, second = (parts.folder / region.file_name for region in parts.regions[:2])
    first.write_bytes(second.read_bytes())
    with pytest.raises(FileError, match="has been changed"):
        ed.plan(read_past(parts.folder), **ASKED)
    with pytest.raises(FileError, match="has been changed"):
        ed.plan(parts.folder, **ASKED, processes=2)


def test_all_of_what_may_fail_is_shared_out(tmp_path):
    """1,001 past records are told as 1,010: shares of them would leave a part of delta to nobody."""
    whole = ed.estimate(table(2, 1001), SCHEMA)
    regional = split_model(whole, "state", tmp_path / "model")
    wish = Wish(ell=5, releases=2, records=20, delta=0.2)
    planner = Planner(whole, wish)
    one = planner.distribution.generalized(Partition.single(whole.n_combinations))
    [least] = evaluate((SharpBound(5, 20, 2, checked_by="owner", fewest_past=STEP),), one)
    for model in (whole, regional):
        assert make_plan(model, replace(wish, delta=1.001 * least.reached / 2)).n_classes == 1
        with pytest.raises(RefusedError):
            make_plan(model, replace(wish, delta=0.999 * least.reached / 2))
