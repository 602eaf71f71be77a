"""Models by region: counted part by part, split, written whole or not at all, and read with suspicion."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import DataError, ElldeltaError, FileError, ParameterError
from elldelta.files import as_bytes, seal
from elldelta.model import (
    estimate_by_region,
    merge_models,
    model_from_bytes,
    read_past,
    read_regions,
    split_model,
    write_model,
)
from elldelta.model.regions import FORMAT_VERSION, HEAD, KIND
from elldelta.plan.classes import seen_ranges
from elldelta.schema.schema import Categories, Column, Integers, Schema

SCHEMA = Schema(
    (
        Column("age", Integers(0, 99)),
        Column("state", Categories(("A", "B", "C", "D")), "category"),
        Column("day", Integers(0, 9), "suppress"),
    ),
    Column("disease", Categories(("flu", "cold", "gout"))),
)


def table(n=900, seed=1):
    """Nobody lives in B; some state is missing, some day, and some age is outside its domain."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 102, n),
            "state": rng.choice(["A", "C", "D", None], n),
            "day": pd.Series(rng.integers(0, 10, n)).astype("Int64").mask(rng.random(n) < 0.05),
            "disease": rng.choice(["flu", "cold", "gout"], n, p=[0.7, 0.2, 0.1]),
        }
    )


@pytest.fixture
def whole():
    return ed.estimate(table(), SCHEMA, unknown="quarantine")


@pytest.fixture
def split(whole, tmp_path):
    return split_model(whole, "state", tmp_path / "split")


@pytest.mark.parametrize("by", ["age", "state", "day"])
def test_it_is_counted_as_the_whole_is_split(whole, by, tmp_path):
    counted = estimate_by_region(table(), SCHEMA, by, tmp_path / "counted", unknown="quarantine")
    split = split_model(whole, by, tmp_path / "split")
    assert counted == split == read_past(tmp_path / "counted") == read_regions(tmp_path / "split")
    assert {path.name for path in tmp_path.iterdir()} == {"counted", "split"}
    assert {path.name for path in split.folder.iterdir()} == {
        HEAD,
        *(region.file_name for region in split.regions),
    }


def test_what_it_says_is_what_the_whole_says(whole, split):
    assert [region.position for region in split.regions] == [0, 2, 3, 4]  # 4: the state is missing
    assert split.accounting == whole.accounting
    assert split.accounting.n_suppressed > 0
    assert split.accounting.n_quarantined > 0
    assert seen_ranges(split) == seen_ranges(whole)
    assert split.to_dict() == {**whole.to_dict(), "digest": split.digest, "by": "state", "regions": 4}
    np.testing.assert_array_equal(
        split.to_distribution().value_marginal, whole.to_distribution().value_marginal
    )
    merged = merge_models(list(split.models()))
    np.testing.assert_array_equal(merged.counts.dense(), whole.counts.dense())
    np.testing.assert_array_equal(merged.ranks, whole.ranks)


def test_batches_are_kept_apart_and_put_together(whole, split, tmp_path, monkeypatch):
    """Many small batches, as of a large table: the parts are the same."""
    monkeypatch.setattr("elldelta.engines.duckdb._BATCH_ROWS", 50)
    with ed.connect(threads=1) as engine:
        made = estimate_by_region(
            table(), SCHEMA, "state", tmp_path / "small", unknown="quarantine", engine=engine
        )
    assert made == split


def test_several_sensitive_columns(tmp_path):
    schema = replace(SCHEMA, also_sensitive=(Column("income", Categories(("low", "high"))),))
    records = table().assign(income=lambda found: np.where(found["age"] % 3 == 0, "low", "high"))
    counted = estimate_by_region(records, schema, "state", tmp_path / "counted", unknown="quarantine")
    whole = ed.estimate(records, schema, unknown="quarantine")
    assert counted == split_model(whole, "state", tmp_path / "split")


def test_what_cannot_be_split_is_refused_before_anything_is_written(whole, split, tmp_path):
    with pytest.raises(ParameterError, match="values of a quasi-identifier"):
        split_model(whole, "disease", tmp_path / "new")
    with pytest.raises(ParameterError, match="values of a quasi-identifier"):
        estimate_by_region(table(), SCHEMA, "disease", tmp_path / "new")
    with pytest.raises(FileError, match="replaces nothing"):
        split_model(whole, "state", split.folder)
    with pytest.raises(DataError, match="outside their domains"):
        estimate_by_region(table(), SCHEMA, "state", tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir()} == {"split"}


def test_nothing_is_left_of_a_folder_that_is_not_whole(whole, tmp_path, monkeypatch):
    written = []

    def fail(model, path, **how):
        written.append(path)
        if len(written) == 3:
            raise KeyboardInterrupt
        write_model(model, path, **how)

    monkeypatch.setattr("elldelta.model.regions.write_model", fail)
    with pytest.raises(KeyboardInterrupt):
        split_model(whole, "state", tmp_path / "new")
    monkeypatch.setattr("elldelta.model.regions.write_model", lambda model, path, **_: path.read_bytes())
    with pytest.raises(FileError):
        estimate_by_region(table(), SCHEMA, "state", tmp_path / "new", unknown="quarantine")
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_records_has_no_regions(tmp_path):
    with pytest.raises(DataError, match="no record to estimate from"):
        estimate_by_region(table().iloc[:0], SCHEMA, "state", tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def _doubled(head):
    head["accounting"] |= {"n_read": 2 * head["accounting"]["n_read"]}


def _negative(head):
    records = head["seen"][0][1]
    records[:2] = [-1, records[0] + records[1] + 1]


CHANGES = {
    "other regions": lambda head: head.update(by="age"),
    "no column": lambda head: head.update(by="nobody"),
    "a region less": lambda head: head["regions"].pop(),
    "other totals": lambda head: head["totals"].__setitem__(0, 1),
    "negative totals": lambda head: head["totals"].__setitem__(
        slice(0, 2), [-1, sum(head["totals"][:2]) + 1]
    ),
    "totals of other values": lambda head: head["totals"].pop(),
    "more records": _doubled,
    "fewer than no records of an age": _negative,
    "a region without a combination": lambda head: head["regions"][0].update(n_combinations=0),
    "ages that do not rise": lambda head: [numbers.reverse() for numbers in head["seen"][0]],
    "a position that is none": lambda head: head["seen"][0][0].append(1000),
    "a text": lambda head: head.update(seen="all"),
    "a digest that is none": lambda head: head["regions"][0].update(digest="../0"),
    "no accounting": lambda head: head.pop("accounting"),
    "another key": lambda head: head.update(more=1),
    "another place": lambda head: head["regions"][0].update(file_name="/etc/passwd"),
}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_head_that_contradicts_itself_is_refused(split, change):
    head = json.loads((split.folder / HEAD).read_text())
    sealed = {key: head.pop(key) for key in ("kind", "format", "digest")}
    CHANGES[change](content := head)
    (split.folder / HEAD).write_bytes(as_bytes({**sealed, **content}))
    with pytest.raises(FileError, match="has been changed"):
        read_past(split.folder)
    (split.folder / HEAD).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))
    with pytest.raises(ElldeltaError) as refused:
        read_past(split.folder)
    assert refused.value.exit_code == 2


def _another_value(head):
    """The same records of each region, with another value; so also in all regions together."""
    totals = head["totals"]
    totals[0], totals[1] = totals[0] + 1, totals[1] - 1


def _with_noise(head):
    """A plan would tell exact counts, and say that noise hides them."""
    noisy = ed.estimate(table().dropna(), SCHEMA, unknown="quarantine", epsilon=0.5, domains_are_public=True)
    head["noise"] = noisy.noise_head()


@pytest.mark.parametrize(
    "change",
    [_another_value, lambda head: head["regions"][0].update(n_combinations=1), _with_noise],
    ids=["values", "combinations", "noise"],
)
def test_a_part_that_is_not_what_the_head_says_is_refused(split, change):
    head = json.loads((split.folder / HEAD).read_text())
    content = {key: value for key, value in head.items() if key not in ("kind", "format", "digest")}
    change(content)
    (split.folder / HEAD).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))
    read = read_past(split.folder)
    with pytest.raises(FileError, match="not the one that the head"):
        list(read.models())


def test_a_folder_without_a_head_or_a_part_is_refused(split, tmp_path):
    part = split.folder / split.regions[1].file_name
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(FileError, match="Copy the whole folder again"):
        list(read_past(split.folder).models())
    part.unlink()
    with pytest.raises(FileError, match=f"Missing: 1 of 4 regions, such as {part.name}"):
        read_past(split.folder)
    (split.folder / HEAD).unlink()
    with pytest.raises(FileError, match=f"There is no {HEAD} in it"):
        read_past(split.folder)


def test_all_regions_added_up_are_the_model_that_was_split(whole, split):
    merged = merge_models([split.folder])
    assert merged == whole
    assert merged.accounting.n_suppressed > 0, "no part knows what was left out of all"
    assert merge_models([split, whole]) == merge_models([whole, whole])
    noisy = ed.estimate(table().dropna(), SCHEMA, unknown="quarantine", epsilon=0.5, domains_are_public=True)
    assert merge_models([split_model(noisy, "state", split.folder.with_name("noisy"))]) == noisy


def test_one_region_is_no_model(split, tmp_path):
    """It does not say what was left out, whether persons were counted, and what noise is about."""
    files = [split.folder / region.file_name for region in split.regions]
    contents = [path.read_bytes() for path in files]
    for reads, found in ((ed.read_model, files[0]), (model_from_bytes, contents[0]), (merge_models, files)):
        with pytest.raises(FileError, match="one region of a model by region"):
            reads(found)
    with pytest.raises(FileError, match="one region of a model by region"):
        ed.plan(files[0], ell=2, releases=1, records=100)


@pytest.mark.parametrize("values", [["flu"], ["flu", "cold"]], ids=["repeated", "further"])
def test_no_way_through_regions_forgets_that_persons_were_counted(values, tmp_path):
    records = pd.DataFrame({"who": np.arange(400) // 2, "state": np.repeat(["A", "C"], 200), "age": 30})
    records["disease"] = np.resize([*values, *values][:2], 400)
    schema = replace(SCHEMA, quasi_identifiers=SCHEMA.quasi_identifiers[:2])
    whole = ed.estimate(records, schema, person="who")
    split = split_model(whole, "state", tmp_path / "split")
    for model in (whole, split, merge_models([split])):
        assert model.counts_persons
        assert bool(model.accounting.n_further) == (len(values) > 1)


def test_a_folder_is_not_named_like_a_file(whole, tmp_path):
    for makes in (
        lambda: split_model(whole, "state", tmp_path / "model.parquet"),
        lambda: estimate_by_region(table(), SCHEMA, "state", tmp_path / "model.parquet"),
    ):
        with pytest.raises(ParameterError, match="is a folder"):
            makes()
    assert not list(tmp_path.iterdir())


def test_models_by_region_are_told_in_words(split):
    assert split.facts()["regions"] == "4, by state"
    with pytest.raises(FileError, match="not a model in one file"):
        ed.read_model(split.folder)
