"""The whole journey through the command line, from records on disk to releases that were linked."""

import csv
import itertools
import json
import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.audit import brute_force
from tests.oracles import paper
from tests.release.hospital_tables import (
    NAMES,
    QUASI_IDENTIFIERS,
    SENSITIVE,
    SMALL_PLAN,
    make_rows,
    read_rows,
    write_csv,
    write_parquet,
    write_table,
)
from tests.typed_page import check_commands, matches, section

ROOT = Path(__file__).parents[2]
ADULT = ROOT.parent / "shared" / "data" / "adult.csv"
needs_adult = pytest.mark.skipif(not ADULT.exists(), reason="../shared/data/adult.csv is not there")

PLAN_KEYS = {
    "classes", "records", "columns", "delta", "releases", "failure_upper", "kind", "digest",
}  # fmt: skip
AUDIT_KEYS = {
    "releases", "ell", "diversity_min", "classes_linked", "share_below", "share_exposed", "histogram",
}  # fmt: skip


def infer(elldelta, source, target, **options):
    return elldelta(
        "schema", "infer", source, "--qi", ",".join(options.get("qi", QUASI_IDENTIFIERS)),
        "--sensitive", options.get("sensitive", SENSITIVE), "-o", target, "--json",
        "--widen", "age=no",
    ).json  # fmt: skip


def document(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def manifest_of(release):
    return document(f"{release}.manifest.json")


# Schema and model


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_schema_and_model_hold_what_the_records_say(elldelta, tmp_path, suffix):
    rows = make_rows(2000, seed=5)
    past = write_table(tmp_path / f"past.{suffix}", rows)
    schema, model = tmp_path / "schema.toml", tmp_path / "model.parquet"
    inferred = infer(elldelta, past, schema)
    assert inferred["quasi_identifiers"] == {
        name: len({row[name] for row in rows}) for name in QUASI_IDENTIFIERS
    }
    assert inferred["sensitive"] == {SENSITIVE: len({row[SENSITIVE] for row in rows})}
    assert inferred["dropped"] == [name for name in NAMES if name not in (*QUASI_IDENTIFIERS, SENSITIVE)]
    assert '"01001"' in schema.read_text(encoding="utf-8")

    estimated = elldelta("estimate", past, "--schema", schema, "-o", model, "--json").json
    combinations = {tuple(row[name] for name in QUASI_IDENTIFIERS) for row in rows}
    assert estimated["records"] == estimated["records_read"] == len(rows)
    assert estimated["combinations"] == len(combinations)

    shown = elldelta("model", "show", model, "--json").json
    diseases = Counter(row[SENSITIVE] for row in rows)
    # labels of values that could be mistaken for something else stand in quotes, inner quotes doubled
    spelt = {name.strip('"').replace('""', '"'): share for name, share in shown["marginal"].items()}
    assert spelt == pytest.approx({name: n / len(rows) for name, n in diseases.items()})
    assert shown["p_ell"] == pytest.approx(sorted((n / len(rows) for n in diseases.values()), reverse=True))
    assert shown["digest"] == estimated["digest"]
    for command in (("model", "show", model), ("estimate", past, "--schema", schema, "-o", tmp_path / "m")):
        assert f"{len(rows):,}" in elldelta(*command).out


def test_the_same_records_as_csv_and_as_parquet_are_the_same_model(elldelta, tmp_path):
    rows = make_rows(1500, seed=6)
    digests = set()
    for suffix in ("csv", "parquet"):
        past = write_table(tmp_path / f"past.{suffix}", rows)
        schema, model = tmp_path / f"{suffix}.toml", tmp_path / f"{suffix}.model.parquet"
        infer(elldelta, past, schema)
        digests.add(elldelta("estimate", past, "--schema", schema, "-o", model, "--json").json["digest"])
    assert len(digests) == 1


def test_models_add_up_and_a_folder_a_glob_and_a_list_are_one_table(elldelta, tmp_path):
    folder = tmp_path / "years"
    folder.mkdir()
    years = [
        write_table(folder / f"year{n}.{suffix}", make_rows(800, seed=n))
        for n, suffix in enumerate(("csv", "parquet", "csv"))
    ]
    schema = tmp_path / "schema.toml"
    infer(elldelta, folder, schema)
    parts = []
    for year in years:
        parts.append(tmp_path / f"{year.stem}.parquet")
        elldelta("estimate", year, "--schema", schema, "-o", parts[-1])
    merged = elldelta("model", "merge", *parts, "-o", tmp_path / "merged.parquet", "--json").json
    assert merged["records"] == 2400
    for number, sources in enumerate(([folder], [folder / "year*"], years)):
        whole = elldelta(
            "estimate", *sources, "--schema", schema, "-o", tmp_path / f"whole{number}.parquet", "--json"
        ).json
        assert whole["digest"] == merged["digest"]
    assert "2,400 records" in elldelta("model", "merge", *parts, "-o", tmp_path / "again.parquet").out


def test_a_schema_that_a_person_edited_decides(elldelta, story, tmp_path):
    edited = tmp_path / "edited.toml"
    text = story.schema.read_text(encoding="utf-8")
    edited.write_text(text.replace("width = 1\n", "width = 5\n"), encoding="utf-8")
    model = tmp_path / "model.parquet"
    estimated = elldelta("estimate", story.past, "--schema", edited, "-o", model, "--json").json
    assert estimated["combinations_possible"] == 5 * 2 * 3  # 12 ages in ranges of 5
    shown = elldelta("model", "show", model, "--json").json
    assert shown["quasi_identifiers"]["age"] == 3


# Plans


WAYS = (
    ("certified", ("--records", "2500")),
    ("probabilistic", ("--records", "2500")),
    ("paper", ("--records", "2500")),
    ("paper", ("--p", "0.004")),
    ("paper", ("--beta", "0.05")),
)


def rung_below(count):
    """Steps of 5, later of about a tenth in fives."""
    rung = 0
    while (above := rung + max(5, round(rung / 50) * 5)) <= count:
        rung = above
    return rung


@pytest.mark.parametrize(("kind", "way"), WAYS, ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_plan_keeps_its_word(elldelta, story, tmp_path, kind, way):
    target = tmp_path / "plan.json"
    made = elldelta(
        "plan", story.model, "--ell", "3", "--releases", "2", "--delta", "0.02", *way, "--kind", kind,
        "-o", target, "--json",
    ).json  # fmt: skip
    assert set(made) >= PLAN_KEYS
    assert (made["columns"][0]["ell"], made["delta"], made["releases"], made["kind"]) == (3, 0.02, 2, kind)
    assert 0 < made["failure_upper"] <= 2 * 0.02
    plan = document(target)
    assert plan["digest"] == made["digest"]
    assert len(set(brute_force.class_of(plan).values())) == made["classes"]
    if way[0] == "--records":
        assert made["records"] == 2500
    # the probabilities that the plan tells, counted by hand and rounded down
    with story.past.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    classes = brute_force.class_of(plan)
    values = plan["schema"]["sensitive"][0]["values"]
    counted = Counter(
        (classes[brute_force.combination_of(plan["schema"], row)], values.index(row[SENSITIVE]))
        for row in rows
    )
    [column] = plan["columns"]
    assert column["past_records"] == len(rows)
    told = iter(zip(column["witnesses"]["values"], column["past_counts"], strict=True))
    for index, length in enumerate(column["witnesses"]["counts"]):
        own = list(itertools.islice(told, length))
        assert length >= 3
        assert [count for _, count in own] == [rung_below(counted[index, value]) for value, _ in own]
        if kind == "paper":
            assert sum(count / len(rows) >= column["p"] * (1 - 1e-9) for _, count in own) >= 3
    if kind == "paper":  # Theorem 2, from the formula
        marginal = [n / len(rows) for n in Counter(row[SENSITIVE] for row in rows).values()]
        n_combinations = len({tuple(row[name] for name in QUASI_IDENTIFIERS) for row in rows})
        m = paper.m_bound(marginal, n_combinations, 3, column["p"])
        assert made["records"] >= float(
            paper.records(float(m), 3, made["failure_upper"] / 2, column["p"])
        ) * (1 - 1e-9)


def test_the_same_plan_twice_is_the_same_file(elldelta, story, tmp_path):
    again = tmp_path / "again.json"
    digest = elldelta("plan", story.model, *SMALL_PLAN, "-o", again, "--json").json["digest"]
    assert again.read_bytes() == story.plan.read_bytes()
    assert digest == story.document("plan.json")["digest"]
    other = tmp_path / "other.json"
    fewer = ["2400" if word == "2500" else word for word in SMALL_PLAN]
    assert elldelta("plan", story.model, *fewer, "-o", other, "--json").json["digest"] != digest


def test_a_plan_says_in_words_what_it_promises(elldelta, story, tmp_path):
    shown = elldelta("plan", story.model, *SMALL_PLAN, "-o", tmp_path / "plan.json", "--details").out
    assert "at least 3 values of 'disease'" in shown
    assert "2,500 records" in shown
    assert "certificate" in shown
    without = elldelta(
        *("plan", story.model, *SMALL_PLAN, "--kind", "probabilistic"),
        *("-o", tmp_path / "other.json", "--details"),
    ).out
    assert "except with probability at most" in without
    assert "0.01 per release" in without
    assert "certificate" not in without


def test_the_frontier_gives_the_classes_that_plans_have(elldelta, story, tmp_path):
    options = ("--ell", "3", "--releases", "2", "--delta", "0.02")
    picture = tmp_path / "frontier.png"
    result = elldelta(
        "frontier", story.model, *options, "--records", "20,500,2500,20000", "--picture", picture, "--json"
    ).json
    assert [point["records"] for point in result["points"]] == [20, 500, 2500, 20000]
    assert picture.read_bytes().startswith(b"\x89PNG")
    for kind in ("paper", "certified"):
        classes = [point["classes"][kind] or 0 for point in result["points"]]
        assert classes == sorted(classes)
        for point in result["points"]:
            code = 0 if point["classes"][kind] else 3  # what cannot be promised is refused
            made = elldelta(
                "plan", story.model, *options, "--records", point["records"], "--kind", kind,
                "--overwrite", "-o", tmp_path / "plan.json", "--json", code=code,
            )  # fmt: skip
            found = made.json if code == 0 else {"classes": None, "loss": None}
            assert all(found[name] == point[name][kind] for name in ("classes", "loss"))
    assert result["points"][0]["classes"]["paper"] is None
    empty = tmp_path / "empty.png"  # nothing to promise is no reason to fail
    points = elldelta("frontier", story.model, *options, "--records", "3", "--picture", empty, "--json").json[
        "points"
    ]
    nothing = {"paper": None, "certified": None}
    assert points == [{"records": 3, "classes": nothing, "loss": nothing}]
    assert empty.exists()
    assert "2,500" in elldelta("frontier", story.model, *options, "--records", "2500").out


def test_an_impossible_plan_says_what_is_possible(elldelta, story, tmp_path):
    target = tmp_path / "plan.json"
    refused = elldelta(
        "plan",
        story.model,
        "--ell",
        "5",
        "--releases",
        "1",
        "--records",
        "10",
        "--delta",
        "0.01",
        "-o",
        target,
        "--json",
        code=3,
    ).error
    assert refused["remedy"]
    assert not target.exists()


# Releases


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("owner", ["owner_a", "owner_b"])
def test_a_release_holds_what_the_plan_says_about_every_record(elldelta, story, tmp_path, owner, suffix):
    source, target = getattr(story, owner), tmp_path / f"release.{suffix}"
    result = elldelta("release", source, "--plan", story.plan, "-o", target, "--json").json
    rows = make_rows(3000, seed={"owner_a": 2, "owner_b": 3}[owner])
    header, released = read_rows(target)
    assert header == (*QUASI_IDENTIFIERS, SENSITIVE)
    assert Counter(released) == brute_force.release(story.document("plan.json"), rows)
    nothing = {"missing": 0, "outside": 0, "unpublished": 0}
    read = {"read": 3000, "lingering": 0, "released": len(released), "left_out": nothing, "repeated": 0}
    assert result["records"] == read
    assert len(released) == 3000
    manifest = manifest_of(target)
    assert manifest["plan_digest"] == result["plan_digest"] == story.document("plan.json")["digest"]
    shown = {}
    for row in released:
        shown.setdefault(row[:-1], set()).add(row[-1])
    assert result["diversity"] == manifest["diversity"] == min(map(len, shown.values()))
    assert result["classes_published"] == len(shown)

    checked = elldelta("verify", target, "--plan", story.plan, "--json").json
    assert checked["records"] == 3000
    assert checked["classes"] == len(shown)
    assert checked["diversity"] == result["diversity"]
    assert checked["k"] == min(Counter(row[:-1] for row in released).values())
    assert "It follows the plan you gave." in elldelta("verify", target, "--plan", story.plan).out


def test_parquet_and_csv_releases_of_the_same_records_have_the_same_content(elldelta, story, tmp_path):
    results = [
        elldelta("release", story.owner_a, "--plan", story.plan, "-o", tmp_path / name, "--json").json
        for name in ("r.csv", "r.parquet")
    ]
    assert results[0]["content_digest"] == results[1]["content_digest"]
    assert read_rows(tmp_path / "r.csv") == read_rows(tmp_path / "r.parquet")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_release_is_the_same_bytes_and_does_not_show_the_order_of_its_input(elldelta, tmp_path, suffix):
    rows = make_rows(3000, seed=4)
    past = write_csv(tmp_path / "past.csv", rows)
    schema, model, plan = (tmp_path / name for name in ("schema.toml", "model.parquet", "plan.json"))
    elldelta(
        "schema", "infer", past, "--qi", ",".join(QUASI_IDENTIFIERS), "--sensitive", SENSITIVE,
        "--widen", "age=no", "-o", schema,
    )  # fmt: skip
    elldelta("estimate", past, "--schema", schema, "-o", model)
    elldelta("plan", model, *SMALL_PLAN, "-o", plan)
    contents, manifests = {"csv": set(), "parquet": set()}, set()
    for turn in range(6):
        shuffled = random.Random(turn // 2).sample(rows, len(rows))
        kind = ("csv", "parquet")[turn % 2]
        source = write_table(tmp_path / f"owner{turn}.{kind}", shuffled)
        target = tmp_path / f"release{turn}.{suffix}"
        elldelta("release", source, "--plan", plan, "-o", target)
        contents[kind].add(target.read_bytes())
        manifests.add(Path(f"{target}.manifest.json").read_bytes())
    assert [len(found) for found in contents.values()] == [1, 1]
    assert len(manifests) == 1
    assert contents["csv"] == contents["parquet"]
    header, released = read_rows(target)
    assert header == (*QUASI_IDENTIFIERS, SENSITIVE)
    assert len(released) == 3000
    # the rows of a class stand together, and within a class those of a sensitive value
    groups = [row[:4] for row in released]
    assert len(set(groups)) == 1 + sum(a != b for a, b in itertools.pairwise(groups))


def test_a_combination_that_the_past_never_saw_falls_into_exactly_one_class(elldelta, tmp_path):
    gaps = {(code, age) for code in ("01002", "01005") for age in range(33, 38)} | {("01001", 30)}
    past = write_csv(tmp_path / "past.csv", make_rows(4000, seed=8, without=gaps))
    schema, model, plan = (tmp_path / name for name in ("schema.toml", "model.parquet", "plan.json"))
    infer(elldelta, past, schema)
    estimated = elldelta("estimate", past, "--schema", schema, "-o", model, "--json").json
    assert estimated["combinations"] == estimated["combinations_possible"] - 2 * len(gaps)
    elldelta("plan", model, *SMALL_PLAN, "-o", plan)
    rows = make_rows(4000, seed=9)
    unseen = [row for row in rows if (row["postal_code"], row["age"]) in gaps]
    assert len(unseen) > 100
    owner, target = write_parquet(tmp_path / "owner.parquet", rows), tmp_path / "release.csv"
    result = elldelta("release", owner, "--plan", plan, "-o", target, "--json").json
    assert result["records"]["released"] == 4000
    assert Counter(read_rows(target)[1]) == brute_force.release(document(plan), rows)


def test_missing_values_follow_the_policy_of_their_column(elldelta, tmp_path):
    rows = make_rows(4000, seed=10)
    rng = random.Random(10)
    for row in rows:
        if rng.random() < 0.1:
            row["gender"] = None
        if rng.random() < 0.05:
            row[SENSITIVE] = None
    past = write_csv(tmp_path / "past.csv", rows)
    schema, model, plan = (tmp_path / name for name in ("schema.toml", "model.parquet", "plan.json"))
    infer(elldelta, past, schema)  # gender: a category of its own; the sensitive column: left out
    estimated = elldelta("estimate", past, "--schema", schema, "-o", model, "--json").json
    without = sum(row[SENSITIVE] is None for row in rows)
    assert estimated["records_suppressed"] == without > 100
    elldelta(
        "plan", model, "--ell", "3", "--releases", "1", "--records", "3000", "--delta", "0.01", "-o", plan
    )
    target = tmp_path / "release.csv"
    result = elldelta("release", past, "--plan", plan, "-o", target, "--json").json
    assert result["records"]["left_out"]["missing"] == without
    assert result["records"]["released"] == 4000 - without
    kept = [row for row in rows if row[SENSITIVE] is not None]
    assert Counter(read_rows(target)[1]) == brute_force.release(document(plan), kept)
    assert manifest_of(target)["nulls"] == {SENSITIVE: without}


def test_too_few_records_are_refused_with_how_many_are_missing(elldelta, story, tmp_path):
    owner = write_csv(tmp_path / "owner.csv", make_rows(2417, seed=11))
    target = tmp_path / "out" / "release.parquet"
    target.parent.mkdir()
    refused = elldelta("release", owner, "--plan", story.plan, "-o", target, "--json", code=3).error
    assert "2,500" in refused["problem"]
    assert "83 are missing" in refused["found"]
    assert list(target.parent.iterdir()) == []


def test_a_class_with_too_few_values_is_refused(elldelta, story, tmp_path):
    rows = make_rows(3000, seed=12)
    for row in rows:
        row[SENSITIVE] = ("flu", "gout")[row["age"] % 2]
    owner, target = write_csv(tmp_path / "owner.csv", rows), tmp_path / "out" / "release.parquet"
    target.parent.mkdir()
    refused = elldelta("release", owner, "--plan", story.plan, "-o", target, "--json", code=3).error
    assert refused["found"]
    assert refused["remedy"]
    assert list(target.parent.iterdir()) == []


# Verification


@pytest.fixture
def release(elldelta, story, tmp_path):
    target = tmp_path / "release.csv"
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", target)
    return target


def test_verify_notices_a_changed_record(elldelta, story, release):
    lines = release.read_text(encoding="utf-8").splitlines(keepends=True)
    for changed in (lines[:-1], [*lines, lines[1]], [lines[0], *lines[2:], lines[-1]]):
        release.write_text("".join(changed), encoding="utf-8")
        found = elldelta("verify", release, "--plan", story.plan, "--json", code=2).error
        assert "manifest" in found["problem"]


def test_verify_notices_another_order(elldelta, release):
    header, *lines = release.read_text(encoding="utf-8").splitlines(keepends=True)
    release.write_text(header + "".join(random.Random(1).sample(lines, len(lines))), encoding="utf-8")
    assert "in another order" in elldelta("verify", release, "--json", code=2).error["found"]


def test_verify_notices_a_changed_manifest_another_plan_and_no_manifest(elldelta, story, release, tmp_path):
    other = tmp_path / "other.json"
    elldelta(
        "plan",
        story.model,
        "--ell",
        "3",
        "--releases",
        "1",
        "--records",
        "1000",
        "--delta",
        "0.01",
        "-o",
        other,
    )
    assert "another plan" in elldelta("verify", release, "--plan", other, "--json", code=2).error["problem"]
    manifest = Path(f"{release}.manifest.json")
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"records_read":3000', '"records_read":3001'), encoding="utf-8")
    assert manifest.read_text(encoding="utf-8") != text
    assert "digest" in elldelta("verify", release, "--json", code=2).error["found"]
    manifest.unlink()
    assert "manifest" in elldelta("verify", release, "--json", code=2).error["problem"]


# Audits


def check_audit(elldelta, releases, documents, ell=None):
    """One audit against the loop over all combinations."""
    wanted = ell or max(found["ell"] for found in documents)
    rows = [read_rows(path)[1] for path in releases]
    expected = brute_force.link(documents, rows, wanted)
    holds = brute_force.fewest_in_any(documents, rows) >= wanted  # somebody may be in some of them only
    options = ("--ell", ell) if ell else ()
    result = elldelta("audit", *releases, *options, "--json", code=0 if holds else 3).json
    assert set(result) >= AUDIT_KEYS
    for key, value in expected.items():
        assert result[key] == (pytest.approx(value) if isinstance(value, float) else value), key
    assert [found["records"] for found in result["releases"]] == [
        len(read_rows(path)[1]) for path in releases
    ]
    return result


def test_releases_of_one_plan_keep_the_promise(elldelta, story, tmp_path):
    releases = [tmp_path / "a.parquet", tmp_path / "b.csv"]
    for owner, target in zip((story.owner_a, story.owner_b), releases, strict=True):
        elldelta("release", owner, "--plan", story.plan, "-o", target)
    documents = [manifest_of(path) for path in releases]
    result = check_audit(elldelta, releases, documents)
    assert result["diversity_min"] >= result["ell"] == 3
    assert result["share_below"] == result["share_exposed"] == 0
    n_classes = len(set(brute_force.class_of(documents[0]).values()))
    assert result["classes_linked"] == n_classes  # the same classes meet only themselves
    assert "at least" in elldelta("audit", *releases).out
    check_audit(elldelta, releases[:1], documents[:1])
    check_audit(elldelta, releases, documents, ell=7)


def test_releases_of_different_plans_are_linked_where_their_classes_meet(elldelta, story, tmp_path):
    releases = []
    for number, records in enumerate((900, 500, 300)):
        plan, target = tmp_path / f"{number}.json", tmp_path / f"release{number}.parquet"
        elldelta(
            "plan",
            story.model,
            "--ell",
            "2",
            "--releases",
            "1",
            "--records",
            records,
            "--delta",
            "0.01",
            "-o",
            plan,
        )
        owner = write_csv(tmp_path / f"owner{number}.csv", make_rows(1000, seed=20 + number))
        elldelta("release", owner, "--plan", plan, "-o", target)
        releases.append(target)
    documents = [manifest_of(path) for path in releases]
    assert len({json.dumps(found["classes"]) for found in documents}) == 3
    for chosen in ((0, 1), (0, 2), (1, 2), (0, 1, 2), (2, 1, 0)):
        picked = [releases[index] for index in chosen]
        result = check_audit(elldelta, picked, [documents[index] for index in chosen])
        check_audit(elldelta, picked, [documents[index] for index in chosen], ell=6)
    assert result["classes_linked"] > max(len(brute_force.class_labels(found)) for found in documents)


def test_an_audit_that_finds_somebody_below_ell_says_so(elldelta, story, tmp_path):
    """Two tiny owners with coarse classes each, whose diseases hardly meet."""
    plan = tmp_path / "plan.json"
    elldelta(
        "plan", story.model, "--ell", "2", "--releases", "1", "--records", "40", "--delta", "0.1", "-o", plan
    )
    releases = []
    for number, diseases in enumerate((("flu", "gout", "asthma"), ("flu", "angina", "épilepsie"))):
        rows = make_rows(200, seed=30 + number)
        for index, row in enumerate(rows):
            row[SENSITIVE] = diseases[index % 3]
        releases.append(tmp_path / f"release{number}.csv")
        owner = write_csv(tmp_path / f"owner{number}.csv", rows)
        elldelta("release", owner, "--plan", plan, "-o", releases[-1])
    result = check_audit(elldelta, releases, [manifest_of(path) for path in releases])
    assert result["diversity_min"] == 1
    assert result["share_exposed"] == result["share_below"] == 1.0
    shown = elldelta("audit", *releases, code=3).out
    assert "Not safe" in shown
    assert "only 1 value is left; 2 were promised" in " ".join(shown.split())


def test_releases_without_manifest_are_understood_by_their_labels(elldelta, story, tmp_path):
    """One class per pair of labels, published by somebody else's software."""
    releases = []
    for seed, cut in ((40, 35), (41, 38)):
        header = "postal_code,gender,age,disease\n"
        lines = [
            f"*,{row['gender']},{'30-' + str(cut) if row['age'] <= cut else str(cut + 1) + '-41'},"
            f'"{row["disease"].replace(chr(34), chr(34) * 2)}"\n'
            for row in make_rows(300, seed=seed)
        ]
        releases.append(tmp_path / f"theirs{seed}.csv")
        releases[-1].write_text(header + "".join(lines), encoding="utf-8")
    refused = elldelta("audit", *releases, "--ell", "4", "--json", code=2).error
    assert refused["options"] == ["--columns"]
    code = 0
    result = elldelta("audit", *releases, "--ell", "4", "--columns", story.schema, "--json", code=code).json
    tables = [Counter(row[1:] for row in read_rows(path)[1]) for path in releases]
    counted = Counter()
    for gender in ("F", "M"):
        for first, second in (("30-35", "30-38"), ("36-41", "30-38"), ("36-41", "39-41")):
            smallest = [
                min(tables[0][gender, first, d], tables[1][gender, second, d])
                for d in {row[-1] for row in tables[0]}
            ]
            counted[sum(n > 0 for n in smallest)] += sum(smallest)
    assert {bar["diversity"]: bar["records"] for bar in result["histogram"]} == dict(counted)
    assert result["classes_linked"] == 6


# Composition


def test_composing_gives_back_what_the_plan_promises(elldelta, story, tmp_path):
    promised = story.document("plan.json")
    profile = elldelta("compose", f"{story.plan}:2", "--json").json["columns"][0]["profile"]
    failures = {point["ell"]: point["delta"] for point in profile}
    [column] = promised["columns"]
    assert failures[3] >= column["failure_upper"] * (1 - 0.011)  # past counts are rounded down
    unchecked = tmp_path / "unchecked.json"
    wish = ("--ell", "3", "--releases", "2", "--records", "2500", "--kind", "probabilistic")
    said = elldelta("plan", story.model, *wish, "-o", unchecked, "--json").json
    same = {
        point["ell"]: point["delta"]
        for point in elldelta("compose", f"{unchecked}:2", "--json").json["columns"][0]["profile"]
    }
    assert 0.99 * said["failure_upper"] < same[3] <= said["failure_upper"]  # which has three digits
    deltas = [point["delta"] for point in profile]
    assert deltas == sorted(deltas)
    once = elldelta("compose", story.plan, "--json").json["columns"][0]["profile"]
    for fewer, more in zip(once, profile, strict=True):
        assert fewer["delta"] <= more["delta"] * (1 + 1e-9)
    other = tmp_path / "other.json"
    elldelta(
        "plan",
        story.model,
        "--ell",
        "3",
        "--releases",
        "1",
        "--records",
        "20000",
        "--delta",
        "0.01",
        "-o",
        other,
    )
    mixed = elldelta("compose", f"{story.plan}:1", f"{other}:1", "--json").json
    assert mixed["releases"] == 2
    assert mixed["conditions"]
    assert "What must be true" in elldelta("compose", f"{story.plan}:2").out


def test_composing_a_certified_plan_says_that_nobody_has_checked_the_releases(elldelta, story, tmp_path):
    def conditions(*plans):
        return " ".join(elldelta("compose", *plans, "--json").json["conditions"])

    checked = "at least 3 values of 'disease' are left for whoever is in any 2 linked releases"
    assert checked in conditions(f"{story.plan}:2")
    assert checked in conditions(f"{story.plan}:1")
    for more in ((f"{story.plan}:3",), (f"{story.plan}:1", f"{story.plan}:1")):
        said = conditions(*more)  # a certificate promises nothing of these
        assert "Nobody has checked the releases" in said
        assert "for certain" not in said
    assert "Linking 2 releases that nobody has checked" in elldelta("compose", f"{story.plan}:2").out
    unchecked = tmp_path / "unchecked.json"
    wish = ("--ell", "3", "--releases", "2", "--records", "2500", "--kind", "probabilistic")
    elldelta("plan", story.model, *wish, "-o", unchecked)
    assert "certificate" not in conditions(f"{unchecked}:2")


# The demonstration


# Real records, a real process, and the page that tells it


@needs_adult
def test_adult_from_csv_to_audit(elldelta, tmp_path):
    """Real records: two owners hold one half each, and the agency has seen both in the past."""
    with ADULT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    schema, model, plan = (tmp_path / name for name in ("schema.toml", "model.parquet", "plan.json"))
    roles = {"qi": ("age", "sex", "race"), "sensitive": "occupation"}
    inferred = infer(elldelta, ADULT, schema, **roles)
    assert inferred["sensitive"] == {"occupation": 14}
    assert inferred["dropped"] == ["marital-status", "education", "native-country", "workclass"]
    estimated = elldelta("estimate", ADULT, "--schema", schema, "-o", model, "--json").json
    assert estimated["records"] == len(rows) == 30_162
    assert estimated["combinations"] == len({(row["age"], row["sex"], row["race"]) for row in rows})
    made = elldelta(
        "plan",
        model,
        "--ell",
        "5",
        "--releases",
        "2",
        "--records",
        "15000",
        "--delta",
        "0.01",
        "-o",
        plan,
        "--json",
    ).json
    assert made["classes"] > 50
    releases = []
    for number, part in enumerate((rows[:15_081], rows[15_081:])):
        owner = write_csv(tmp_path / f"owner{number}.csv", part)
        releases.append(tmp_path / f"release{number}.{('parquet', 'csv')[number]}")
        elldelta("release", owner, "--plan", plan, "-o", releases[-1])
        released = Counter(read_rows(releases[-1])[1])
        assert released == brute_force.release(document(plan), part)
        elldelta("verify", releases[-1], "--plan", plan)
    result = check_audit(elldelta, releases, [manifest_of(path) for path in releases])
    assert result["diversity_min"] >= 5


@pytest.mark.slow
def test_the_journey_in_processes_of_its_own(script, story, tmp_path):
    """What a person types, with nothing shared but files; silent on standard error, no colours in a pipe."""
    commands = [
        ["schema", "infer", story.past, "--qi", "postal_code,gender,age", "--sensitive", "disease",
         "--widen", "age=no", "-o", "schema.toml"],
        ["estimate", story.past, "--schema", "schema.toml", "-o", "model.parquet"],
        ["plan", "model.parquet", *SMALL_PLAN, "-o", "plan.json"],
        ["release", story.owner_a, "--plan", "plan.json", "-o", "a.parquet"],
        ["audit", "a.parquet"],
    ]  # fmt: skip
    for command in commands:
        finished = subprocess.run(
            [*script, *map(str, command)], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "COLUMNS": "100"},
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
        assert finished.stderr == ""
        assert "\x1b" not in finished.stdout
    assert (tmp_path / "plan.json").read_bytes() == story.plan.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.parquet", "a.parquet.manifest.json", "model.parquet", "plan.json", "schema.toml",
    ]  # fmt: skip


@needs_adult
def test_the_page_about_adult_is_what_the_commands_print(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copy(ADULT, tmp_path / "adult.csv")
    check_commands(section("journey.md", "Adult"))


def test_a_page_that_shows_something_else_is_noticed():
    printed = ["a", "b", "c", "d"]
    for shown in (
        ["a", "b", "c", "d"],
        ["a", "...", "d"],
        ["...", "c", "d"],
        ["a", "..."],
        ["...", "b", "..."],
    ):
        assert matches(shown, printed), shown
    for shown in (
        [],
        ["a", "b", "c"],
        ["a", "...", "c"],
        ["b", "..."],
        ["...", "c", "b", "..."],
        ["x", "..."],
    ):
        assert not matches(shown, printed), shown
