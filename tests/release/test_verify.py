"""What an outsider's check must notice: manifests that were rewritten and sealed again by somebody else."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.coins import COINS
from tests.release.hospital_tables import people

import elldelta as ed
from elldelta.agency.registration import registration_of
from elldelta.cli.main import execute
from elldelta.core.partition import Partition, sum_by_class
from elldelta.errors import DataError, FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, seal
from elldelta.plan.classes import Merged, class_labels
from elldelta.release import Published, recomputed, verify_published
from elldelta.release.content import content_digest, released_values
from elldelta.release.manifest import FORMAT_VERSION, KIND, manifest_path
from elldelta.release.manifest import moved as moves_of
from elldelta.schema.schema import Schema


@pytest.fixture(scope="module")
def model():
    past = people(8000, 0)
    return ed.estimate(past, Schema.infer(past, ["age", "zip"], "disease", widen={"age": "no"}))


@pytest.fixture
def released(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=2, records=3000, delta=0.01)
    path = tmp_path / "release.parquet"
    ed.release(people(3000, 1), plan, to=path)
    assert ed.verify(path, plan).is_certified
    return path, plan


def rewritten(path, **changes):
    """Rewrites the manifest of a release and seals it again, as an attacker can."""
    document = json.loads(manifest_path(path).read_text())
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    content.update(changes)
    manifest_path(path).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))


@pytest.mark.parametrize(
    "changes",
    [
        {"records_released": 1},
        {"records_left_out": -5},
        {"classes_published": 1},
        {"diversity": 50},
        {"releases": 99},
        {"ell": 1},
        {"failure_upper": 0.0},
        {"plan_kind": "probabilistic"},
        {"min_records": 7},
        {"ell": "3"},
        {"ledger": 1},
        {"ledger": {"sequence": "1", "hash": "sha256:" + "0" * 64, "owner": "a"}},
    ],
    ids=str,
)
def test_claims_that_the_table_or_the_plan_contradicts(released, changes):
    path, plan = released
    rewritten(path, **changes)
    with pytest.raises((FileError, RefusedError)):
        ed.verify(path, plan)


def test_another_schema_with_the_same_classes(released):
    """One disease in six spellings would look diverse."""
    path, plan = released
    schema = json.loads(manifest_path(path).read_text())["schema"]
    values = schema["sensitive"][0]["values"]
    schema["sensitive"][0]["values"] = [values[1], values[0], *values[2:]]
    published = ed.audit([path]).linkage.counts
    other = Schema.from_dict(schema)
    labels = plan.labels
    swapped = np.zeros((plan.n_classes, 6), dtype=np.int64)
    swapped[:] = published[:, [1, 0, 2, 3, 4, 5]]
    digest = content_digest(labels, other.sensitive.released_values().to_pylist(), swapped)
    rewritten(path, schema=schema, content_digest=digest)
    with pytest.raises(FileError, match=r"not follow the plan|not the one"):
        ed.verify(path, plan)


def test_a_probabilistic_release_must_have_the_plans_classes_and_records(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=2, records=3000, kind="probabilistic")
    path = tmp_path / "release.csv"
    ed.release(people(3000, 1), plan, to=path)
    ed.verify(path, plan)
    rewritten(path, classes={"shape": "runs", "starts": [0]})
    with pytest.raises(FileError):
        ed.verify(path, plan)


def test_merged_classes_with_equal_labels_are_refused(model, tmp_path):
    """Two groups with the same hull: records of one could be claimed for the other."""
    plan = ed.plan(model, ell=3, releases=2, records=3000, delta=0.01)
    path = tmp_path / "release.parquet"
    ed.release(people(3000, 1), plan, to=path)
    lows, highs = plan.classes.hulls(plan.schema)
    corners = np.lexsort((lows[:, 1], lows[:, 0]))
    group_of = np.zeros(plan.n_classes, dtype=int)
    group_of[corners[1:-1]] = 1  # both groups span nearly everything
    assert (highs >= lows).all()
    rewritten(
        path, classes={"shape": "merged", "base": plan.classes.to_dict(), "group_of": group_of.tolist()}
    )
    with pytest.raises(FileError):
        ed.verify(path, plan)


def test_a_manifest_tells_nothing_about_places_inside_classes(model, tmp_path):
    """The same counts by class, once spread out and once at one place: the same manifest."""
    plan = ed.plan(model, ell=3, releases=1, records=500)
    spread = people(600, 5)
    lows, _ = plan.classes.hulls(plan.schema)
    ranks = plan.schema.ranks(
        np.stack(
            [
                column.encode(__import__("pyarrow").array(spread[column.name]))
                for column in plan.schema.quasi_identifiers
            ],
            axis=1,
        )
    )
    corner = lows[plan.class_of(ranks)]
    squeezed = spread.assign(
        age=corner[:, 0] + 20, zip=np.array(plan.schema.quasi_identifiers[1].domain.values)[corner[:, 1]]
    )
    one, other = ed.release(spread, plan), ed.release(squeezed, plan)
    assert one.manifest.to_dict() == other.manifest.to_dict()


def test_outputs_and_inputs_must_be_different_files(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=1, records=500)
    source = tmp_path / "people.csv"
    people(600, 5).to_csv(source, index=False)
    before = source.read_bytes()
    (tmp_path / "sub").mkdir()
    with pytest.raises(ParameterError, match="input"):
        ed.release(source, plan, to=tmp_path / "sub" / ".." / "people.csv", overwrite=True)
    assert source.read_bytes() == before
    with pytest.raises(ParameterError, match="different files"):
        ed.release(source, plan, to=tmp_path / "out.csv", quarantine=tmp_path / "sub" / ".." / "out.csv")
    with pytest.raises(ParameterError, match="different files"):
        ed.release(source, plan, to=tmp_path / "out.csv", ledger=ed.Ledger(tmp_path / "out.csv", "o"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "sub"]


def test_a_pending_file_of_somebody_else_moves_nothing(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=1, records=500)
    ledger, precious = tmp_path / "book.ledger", tmp_path / "precious.txt"
    ed.release(people(600, 5), plan, to=tmp_path / "a.csv", ledger=ed.Ledger(ledger, "a"))
    precious.write_text("mine")
    found = precious.stat()
    content = {
        "n_bytes": ledger.stat().st_size,
        "hash": "sha256:" + "0" * 64,
        "overwrite": True,
        "files": [[str(precious), str(tmp_path / "b.csv"), found.st_ino, found.st_size, found.st_mtime_ns]],
    }
    (tmp_path / ".book.ledger.pending").write_bytes(as_bytes(seal("pending release", 1, content)))
    with pytest.raises(FileError, match="not written by a release"):
        ed.release(people(600, 6), plan, to=tmp_path / "b.csv", ledger=ed.Ledger(ledger, "b"))
    assert precious.read_text() == "mine"
    assert not (tmp_path / "b.csv").exists()


def read_rows(path):
    return pq.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)


def write_rows(table, path):
    (pq.write_table if path.suffix == ".parquet" else csv.write_csv)(table, path)


@pytest.mark.parametrize("check", [ed.verify, lambda path, plan: ed.audit([path]), registration_of])
def test_a_column_that_the_manifest_does_not_describe_is_refused(released, check):
    path, plan = released
    rows = read_rows(path)
    check(path, plan)
    write_rows(rows.append_column("name", pa.array(["Maria"] * rows.num_rows)), path)
    with pytest.raises(FileError, match="1 column that the manifest does not describe") as caught:
        check(path, plan)
    assert "Maria" not in str(caught.value)


@pytest.mark.parametrize("check", [ed.verify, lambda path, plan: ed.audit([path]), registration_of])
def test_what_lies_beside_the_columns_or_the_files_is_refused(released, check, tmp_path):
    path, plan = released
    rows = read_rows(path).to_pylist()
    late = tmp_path / "late.jsonl"  # a key far below the first lines, and one that is written twice
    lines = [json.dumps({**row, **({"name": "Maria"} if n == 2000 else {})}) for n, row in enumerate(rows)]
    lines[0] = lines[0].replace("{", '{"age": "Maria", ', 1)
    late.write_text("\n".join(lines))
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    (folder / f"part{path.suffix}").write_bytes(path.read_bytes())
    for other in (late, folder):
        manifest_path(other).write_bytes(manifest_path(path).read_bytes())
        with pytest.raises(FileError, match="cannot all be checked") as caught:
            check(other, plan)
        assert "Maria" not in str(caught.value)


def test_a_column_too_many_in_memory_is_refused(model):
    plan = ed.plan(model, ell=3, releases=2, records=3000, delta=0.01)
    made = ed.release(people(3000, 1), plan)
    assert ed.verify(made, plan).unchecked == ()
    made.table["name"] = "Maria"
    with pytest.raises(FileError, match="does not describe"):
        ed.verify(made, plan)


def test_the_order_is_checked(released):
    path, plan = released
    rows = read_rows(path)
    write_rows(rows.take(np.random.default_rng(0).permutation(rows.num_rows)), path)
    with pytest.raises(FileError, match="in another order"):
        ed.verify(path, plan)


TEXT = b"Maria Rossi has the flu. " * 500


def with_metadata(content):
    """A Parquet file with a text in the metadata of its end."""
    table, written = pq.read_table(pa.BufferReader(content)), pa.BufferOutputStream()
    with pq.ParquetWriter(written, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"note": TEXT})
    return written.getvalue().to_pybytes()


def before_the_end(content):
    """A Parquet file with a text between its columns and its end, where no reader looks."""
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:end] + TEXT + content[end:]


HIDDEN = {
    "metadata": (".parquet", with_metadata),
    "before the end": (".parquet", before_the_end),
    "a line of nothing": (".csv", lambda content: content + b"\n\n"),
    "spaces": (".csv", lambda content: content.replace(b"\n", b" \n", 5)),
    "quotes": (".csv", lambda content: content.replace(b",", b',"', 1).replace(b"\n", b'"\n', 1)),
    "ends of lines": (".csv", lambda content: content.replace(b"\n", b"\r\n", 40)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_stands_in_a_file_besides_its_rows_is_refused(model, name, tmp_path):
    end, hide = HIDDEN[name]
    plan, path = ed.plan(model, ell=3, releases=2, records=3000), tmp_path / f"release{end}"
    ed.release(people(3000, 1), plan, to=path)
    assert ed.verify(path, plan).unchecked == ()
    path.write_bytes(hide(path.read_bytes()))
    with pytest.raises((FileError, DataError)) as caught:
        ed.verify(path, plan)
    assert "Maria" not in str(caught.value)


def test_a_sensitive_value_that_nobody_knows_is_one_more_difference_from_the_manifest(model, tmp_path):
    plan, path = ed.plan(model, ell=3, releases=2, records=3000), tmp_path / "release.csv"
    ed.release(people(3000, 1), plan, to=path)
    head, row, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    doctored = row.replace(row.strip().rpartition(",")[2], "Maria")
    path.write_text("".join([head, doctored, *rest]), encoding="utf-8")
    with pytest.raises(FileError, match="is not the one its manifest describes") as caught:
        ed.verify(path, plan)
    assert "'disease' holds 1 different value that the manifest does not know" in str(caught.value)
    assert "Maria" not in str(caught.value)


def test_a_file_that_another_version_has_written_is_compared_row_by_row(released):
    path, plan = released
    written = pq.read_metadata(path).created_by.encode()
    path.write_bytes(path.read_bytes().replace(written, written[:-1] + b"x"))
    [sentence] = ed.verify(path, plan).unchecked
    assert "does not say that this version of Arrow wrote it" in sentence
    path.write_bytes(before_the_end(path.read_bytes()))
    assert ed.verify(path, plan).unchecked == (sentence,)
    assert any(sentence in found.words for found in ed.audit([path]).assumptions)
    as_text = path.read_bytes()
    path.write_bytes(as_text.replace(written[:-1] + b"x", written[:-1] + b"\xff"))  # which is no text
    assert ed.verify(path, plan).unchecked == (sentence,)
    path.write_bytes(with_metadata(as_text).replace(written, written[:-1] + b"x"))
    with pytest.raises(FileError, match="something stands in the file besides them"):
        ed.verify(path, plan)
    rows = read_rows(path)
    write_rows(rows.take(pa.array([*range(1, rows.num_rows), 0])), path)
    path.write_bytes(path.read_bytes().replace(written, written[:-1] + b"x"))
    with pytest.raises(FileError, match="in another order"):
        ed.verify(path, plan)


def _refusing(*_, **__):
    raise OSError("Page was smaller than expected at Maria")
    yield


def _as_bytes(file, *_, **__):
    yield from (
        file.read().cast(pa.schema([(name, pa.binary()) for name in file.schema_arrow.names])).to_batches()
    )


@pytest.mark.parametrize(
    ("reads", "problem"),
    [(_refusing, "Not all of its rows can be read"), (_as_bytes, "stands in the file besides them")],
    ids=["refused", "as bytes"],
)
def test_rows_that_the_engine_reads_and_others_do_not_are_refused(released, monkeypatch, reads, problem):
    """Damaged pages and types that DuckDB takes and Arrow does not."""
    path, plan = released
    written = pq.read_metadata(path).created_by.encode()
    path.write_bytes(path.read_bytes().replace(written, written[:-1] + b"x"))
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", reads)
    with pytest.raises(FileError, match=problem) as caught:
        ed.verify(path, plan)
    assert "Maria" not in str(caught.value)


def test_a_name_of_a_column_that_is_no_text_is_refused(released, monkeypatch):
    def strange(_):
        return b"\xff".decode()

    path, plan = released
    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(strange))
    with pytest.raises(FileError, match="is not a whole Parquet file"):
        ed.verify(path, plan)


def test_what_is_not_checked_without_the_plan_is_said(released):
    path, plan = released
    for changes in ({"releases": 99}, {"failure_upper": 0.0}, {"delta": 0.5}, {"min_records": 1}):
        rewritten(path, **changes)
        [sentence] = ed.verify(path).unchecked
        assert "was not compared with the plan" in sentence
        if changes != {"min_records": 1}:
            with pytest.raises(FileError):
                ed.verify(path, plan)


@pytest.mark.parametrize("software", ["Maria Rossi has the flu", "elldelta 1 " + "x" * 100, "", "elldelta"])
def test_a_manifest_has_no_room_for_a_text(released, software):
    path, plan = released
    rewritten(path, software=software)
    with pytest.raises(FileError, match="changed or damaged"):
        ed.verify(path, plan)


FORGED = {
    "loss": lambda claim: claim / 2,
    "loss left out": lambda claim: None,
    "records_left_out": lambda claim: 3,
    "unknown": lambda claim: {"age": 3},
    "nulls": lambda claim: {"age": 3},
}


@pytest.mark.parametrize("name", FORGED)
def test_numbers_of_a_manifest_are_computed_again(released, name):
    path, plan = released
    field = name.split()[0]
    claim = json.loads(manifest_path(path).read_text())[field]
    rewritten(path, **{field: FORGED[name](claim)})
    with pytest.raises(FileError, match="manifest is wrong"):
        ed.verify(path, plan)


def test_the_range_that_loss_is_measured_over_is_the_plans(released):
    path, plan = released
    claim = json.loads(manifest_path(path).read_text())
    rewritten(path, seen=[[low, high - 1] for low, high in claim["seen"]])
    with pytest.raises(FileError, match="wrong about the information that is lost"):
        ed.verify(path)
    with pytest.raises(FileError, match="does not follow the plan") as caught:
        ed.verify(path, plan)
    assert "seen" in caught.value.found


def with_left_out(path, n):
    """The loss that a manifest has to state once it claims that so many records more are left out."""
    claim = json.loads(manifest_path(path).read_text())
    return (claim["loss"] * claim["records_released"] + n) / (claim["records_released"] + n)


def test_what_nobody_can_compute_again_is_shown_as_the_owners_word(released):
    path, plan = released
    claims = {"records_read": 5000, "records_quarantined": 2000, "unknown": {"age": 2000}}
    rewritten(path, **claims)
    with pytest.raises(FileError, match="wrong about the information that is lost"):
        ed.verify(path, plan)
    rewritten(path, **claims, loss=with_left_out(path, 2000))
    checked = ed.verify(path, plan)
    assert checked.claimed["records_read"] == 5000
    assert checked.claimed["records_quarantined"] == 2000
    assert any("owner's word" in said and "5,000" in said for said in checked.sentences)


@pytest.fixture
def moved(model, tmp_path):
    plan = ed.plan(model, ell=3, releases=2, records=3000, merge_risk=0.2)
    path = tmp_path / "release.parquet"
    made = ed.release(people(1500, 1), plan, to=path, **COINS).manifest.moving
    assert 0 < made["classes_together"] <= plan.n_classes
    assert ed.verify(path, plan).is_certified
    assert ed.verify(path, plan).claimed["announced"] == COINS["announced"]
    return path, plan


MOVED = {
    "rho": 0.5,
    "q": 0.5,
    "merge_risk": 0.1,
    "k1": 2.0,
    "odds_upper": 1.0,
    "classes_planned": 3,
    "classes_together": 0,
}


@pytest.mark.parametrize("name", [*MOVED, None])
def test_how_classes_moved_is_computed_again(moved, name):
    path, plan = moved
    own = json.loads(manifest_path(path).read_text())["moving"]
    assert own.keys() == {*MOVED, "announced"}
    rewritten(path, moving=None if name is None else {**own, name: MOVED[name]})
    with pytest.raises(FileError, match="is not the one its manifest describes"):
        ed.verify(path, plan)


@pytest.mark.parametrize("moving", [5, "x", {}, [], {"rho": 0.05}, {"rho": -1.0}], ids=str)
def test_what_says_nothing_of_moves_is_refused_where_it_is_read(moved, moving):
    path, plan = moved
    own = json.loads(manifest_path(path).read_text())["moving"]
    rewritten(path, moving={**own, **moving} if moving == {"rho": -1.0} else moving)
    for options in ((), (plan,)):
        with pytest.raises(FileError, match="changed or damaged"):
            ed.verify(path, *options)


def grouped(plan, table, group_of):
    """A release of other unions of the plan's classes, with the manifest that it would have."""
    counts = estimated(plan, table)
    classes = Merged(plan.classes, group_of)
    shown = sum_by_class(counts, Partition(group_of))
    digest = content_digest(class_labels(plan.schema, classes), released_values(plan.schema), shown)
    bare = replace(plan, moving=None)  # nothing is said of moves, which need nodes
    manifest = replace(recomputed(bare, classes, shown, digest), plan_digest=plan.digest)
    return Published("forged", plan.schema, classes, shown, manifest)


def estimated(plan, table):
    model = ed.estimate(table, plan.schema)
    return model.counts.by_class(plan.class_of(model.ranks), plan.n_classes)


def test_only_nodes_of_the_tree_are_published_together(moved, model):
    """Unions of neighbours that are no node, and unions under a plan whose classes are fixed."""
    _, plan = moved
    tree, table = plan.classes.tree, people(30_000, 3)
    firsts, behind = tree.leaf_ranges
    nodes = set(zip(firsts.tolist(), behind.tolist(), strict=True))
    first = next(leaf for leaf in range(tree.n_leaves - 1) if (leaf, leaf + 2) not in nodes)
    group_of = np.arange(tree.n_leaves) - (np.arange(tree.n_leaves) > first)
    with pytest.raises(FileError, match="does not follow the plan"):
        verify_published(grouped(plan, table, group_of), plan)
    pair = next(first for first, behind in nodes if behind == first + 2)
    group_of = np.arange(tree.n_leaves) - (np.arange(tree.n_leaves) > pair)
    fixed = replace(plan, moving=None, promise="", conditions=())
    verify_published(with_moves(grouped(plan, table, group_of), plan), plan)
    with pytest.raises(FileError, match="does not follow the plan"):
        verify_published(grouped(fixed, table, group_of), fixed)


def with_moves(published, plan):
    moving = moves_of(plan, published.classes, "a name")
    return replace(published, manifest=replace(published.manifest, moving=moving))


def test_a_fixed_release_that_leaves_records_out_must_say_so(released):
    path, plan = released
    rewritten(path, records_read=3003, records_left_out=3)
    for options in ((), (plan,)):
        with pytest.raises(FileError, match="records that are left out"):
            ed.verify(path, *options)
    rewritten(path, records_read=3003, records_left_out=3, leave_out=True, loss=with_left_out(path, 3))
    assert ed.verify(path, plan).claimed["records_left_out"] == 3


def test_a_class_below_k_is_noticed_without_the_plan(released):
    path, plan = released
    rewritten(path, k=10_000)
    with pytest.raises(RefusedError, match="10,000 records in every class"):
        ed.verify(path)
    with pytest.raises(FileError, match="disagree on k"):
        ed.verify(path, plan)


def test_whoever_asks_computes_the_failure_of_the_plan_again(model, tmp_path, capsys):
    """No promise of a certified plan rests on it, so that reading one does not take the time."""
    plan = ed.plan(model, ell=3, releases=2, records=3000)
    forged = replace(
        plan, columns=(replace(plan.columns[0], failure_upper=1e-12),), promise="", conditions=()
    )
    ed.write_plan(forged, tmp_path / "forged.json")
    path = tmp_path / "release.csv"
    ed.release(people(3000, 1), forged, to=path)
    command = ["verify", str(path), "--plan", str(tmp_path / "forged.json")]
    assert execute(command) == 0
    assert execute([*command, "--plan-numbers"]) == 2
    assert "contradicts itself" in capsys.readouterr().err
    assert execute(["verify", str(path), "--plan-numbers"]) == 2
    assert "without --plan" in capsys.readouterr().err


def test_numbers_that_were_computed_again_are_told(model, tmp_path, capsys):
    plan, path = tmp_path / "plan.json", tmp_path / "release.csv"
    ed.write_plan(ed.plan(model, ell=3, releases=2, records=3000), plan)
    ed.release(people(3000, 1), plan, to=path)
    assert execute(["verify", str(path), "--plan", str(plan), "--plan-numbers"]) == 0
    assert f"The numbers of {plan}, computed again, are what it says." in capsys.readouterr().out.replace(
        "\n", " "
    )
