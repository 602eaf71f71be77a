"""Records of an owner who calls things differently from the plan."""

import polars as pl
from tests.release.hospital_tables import make_rows

import elldelta as ed


def test_a_release_of_other_words_is_the_same(elldelta, story, tmp_path):
    rows = make_rows(3000, seed=2)
    renamed = {"gender": {"F": "female", "M": "male"}}
    other = [
        {
            ("Age" if name == "age" else name): renamed.get(name, {}).get(value, value)
            for name, value in row.items()
        }
        for row in rows
    ]
    table = tmp_path / "other.parquet"
    pl.DataFrame(other).write_parquet(table)
    words = ("--map", "Age=age", "--map", "gender:female=F", "--map", "gender: male = M")
    for name, source, options in (("a.csv", story.owner_a, ()), ("b.csv", table, words)):
        elldelta("release", source, "--plan", story.plan, "-o", tmp_path / name, *options)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    manifests = [(tmp_path / f"{name}.csv.manifest.json").read_bytes() for name in "ab"]
    assert manifests[0] == manifests[1]  # own words are nobody's business
    made = ed.release(
        pl.DataFrame(other),
        story.plan,
        columns={"Age": "age"},
        values={"gender": {"female": "F", "male": "M"}},
    )
    assert made.table.write_csv() == (tmp_path / "a.csv").read_text()
    release = ("release", table, "--plan", story.plan, "-o", tmp_path / "c.csv", "--json")
    assert "--map" in elldelta(*release, code=2).error["options"]
    assert "--map" in elldelta(*release, "--map", "Age=age", code=2).error["options"]
    for wrong in ("Age", "Age=", "=age", "gender:=F", ":"):
        assert elldelta(*release, "--map", wrong, code=2).error["problem"].startswith("--map")
    assert elldelta(*release, "--map", "Age=age", "--map", "Age=gender", code=2).error
    assert not (tmp_path / "c.csv").exists()
