"""Every sentence of the page that somebody signs, against the releases it is about.

The page is read from left to right. A rule takes the next sentence and computes again, by brute force from
the rows of the releases, from the plan or from the form, what it says. A sentence without a rule fails.
"""

import re
from fractions import Fraction

import pytest
from tests.audit.evidence_cases import CASES, publish
from tests.audit.evidence_page import Page, Truth, ages_of
from tests.audit.evidence_rules import check_words, is_pair, rounded
from tests.switch import quick_or_all

from elldelta.audit import evidence, evidence_page


@pytest.fixture(autouse=True)
def no_pdf(monkeypatch):
    """The same sections are printed; `test_evidence` looks at that."""
    monkeypatch.setattr(evidence, "as_pdf", lambda *_, **__: b"")


def number(text):
    return int(text.replace(",", ""))


def check_table(truth, section, table):
    """The rows of a table, computed again."""
    header, *rows = table
    about, record = truth.about, truth.record
    if section == "Who publishes what to whom":
        expected = [(name, about[name]) for name in ("publisher", "recipients", "purpose")]
        expected += [("releases", ", ".join(path.name for path in truth.new)), ("date", "2026-01-02")]
        assert rows == [*expected, ("review", about["review"]), ("expires", about["expires"])]
    elif section == "Columns":
        assert [row[:1] for row in rows] == [("age",), *((name,) for name in truth.columns)]
        assert all(set(row) == {"age", *truth.columns} for path in truth.new for row in truth.rows[path])
    elif section == "What was checked, and found":
        for row, path in zip(rows, truth.new, strict=True):
            classes, manifest = truth.classes(path), truth.manifests[path]
            assert row[0] == path.name
            assert [number(cell) for cell in row[1:5]] == [
                len(truth.rows[path]), len(classes), min(len(set(values)) for values in classes.values()),
                min(map(len, classes.values())),
            ]  # fmt: skip
            assert (row[5] == "yes") == truth.plan.is_certified
            repeated = 0 if manifest.persons is None else manifest.persons["records_repeated"]
            assert number(row[6]) == manifest.records_read - manifest.records_released - repeated
    elif section == "Inference":
        assert header == ("read by", "largest share", "largest gain", "a probability if")
        reference, shares, bayes = rows
        assert reference[0] == truth.reference_words
        assert rounded(reference[1], truth.baseline, 3)
        of = "the records of a class" if truth.alone else "linked records"
        each = "record of the class" if truth.alone else "linked record"
        assert (shares[0], bayes[0]) == (f"shares of {of}", "Bayes' rule")
        assert shares[3] == f"every {each} is equally likely to be the person's"
        of = "the release" if truth.alone else "each release"
        more = "" if truth.alone else ", and none of them is in two releases"
        assert bayes[3] == f"the other people of {of} are independent draws from the reference{more}"
        for row, by in ((shares, "shares"), (bayes, "bayes")):
            surest, pairs = truth.led(by)
            assert rounded(row[1], surest, 3)
            gain = re.fullmatch(r"from ([\d.]+ %) to ([\d.]+ %)", row[2])
            assert any(is_pair(gain[1], gain[2], pair, 3) for pair in pairs)
    elif section == "Identification risk":
        for row, path in zip(rows, truth.new, strict=True):
            sizes = truth.sizes(path)
            risky = sum(n for n in sizes if 1 / n > about["threshold"])
            assert row[0] == path.name
            assert 0 <= Fraction(row[1]) - truth.risk(path) < Fraction(1, 10**4)
            assert row[4] == ("ABOVE" if path in truth.above else "not above")
            if truth.manifests[path].persons is not None:  # nobody else knows the persons of every class
                assert row[2:4] == ("–", "–")
                continue
            assert 0 <= Fraction(row[2]) - Fraction(len(sizes), sum(sizes)) < Fraction(1, 10**4)
            assert row[3] == f"{risky:,} of {sum(sizes):,}"
            assert (risky > 0) == (path in truth.above)
    elif section == "Five Safes":
        left = []
        for column in truth.columns:
            truth.on(column)
            left.append(str(truth.fewest))
        truth.on(truth.columns[0])
        safe = dict(row[:2] for row in rows)
        assert (
            safe.pop("Safe data")
            == f"At least {' and '.join(left)} {'value' if left == ['1'] else 'values'} left after linking; "
            "see above for all numbers."
        )
        said = {
            "Safe projects": "purpose",
            "Safe people": "people",
            "Safe settings": "setting",
            "Safe outputs": "outputs",
        }
        assert safe == {name: about[key] for name, key in said.items()}
    elif section == "Checklist for an expert determination":
        assert rows == [tuple(row) for row in evidence_page._CHECKLIST]
    elif section == "What was lost":
        for row, path in zip(rows, truth.new, strict=True):
            manifest = truth.manifests[path]
            assert row[1] == f"{len(truth.rows[path]):,} of {manifest.records_read:,}"
            lost = (manifest.records_suppressed, manifest.records_quarantined, manifest.records_left_out)
            assert tuple(map(number, row[2:5])) == lost
            together = sum(
                len({truth.base(age) for age in ages_of(label)})
                for label in truth.classes(path)
                if len({truth.base(age) for age in ages_of(label)}) > 1
            )
            assert row[6] == ("–" if truth.plan.moving is None else str(together))
            assert row[7] == f"{manifest.loss:.4f}"
            repeated = 0 if row[5] == "–" else number(row[5])
            assert (row[5] == "–") == (manifest.persons is None)
            assert manifest.records_read == len(truth.rows[path]) + sum(lost) + repeated
    elif section == "Versions and digests":
        told = dict(rows)
        assert told["this record (evidence.json)"] == record["digest"]
        assert told["plan"] == truth.plan.digest
        for path in truth.new:
            assert told[f"{path.name}: content"] == truth.manifests[path].content_digest
    else:
        assert section == "Names and signatures"
        assert [row[0] for row in rows] == about["signatures"]
        assert all(cell == "" for row in rows for cell in row[1:])


def check_page(truth):
    """Every block of the page."""
    page = Page((truth.folder / "out" / "evidence.html").read_text(encoding="utf-8"))
    for section, kind, content in page.blocks:
        if section not in ("Linkability", "Inference"):
            truth.on(truth.columns[0])
        if kind == "table":
            check_table(truth, section, content)
        elif kind == "h1":
            assert content == f"Evidence: {truth.about['title']}"
        elif kind == "footer":
            by, digest = truth.record["software"], truth.record["digest"]
            assert content == f"Made by {by} on 2026-01-02. Record {digest[:23]}..."
        else:
            check_words(truth, content)
    listed = [content for section, kind, content in page.blocks if (section, kind) == ("The promise", "li")]
    assert listed == list(truth.plan.conditions)
    words = " ".join(str(content) for _, _, content in page.blocks)
    assert (
        ("Safe by itself" in words or "Safe against linking" in words) == truth.record["holds"] == truth.holds
    )
    assert "believ" not in words


@pytest.mark.parametrize("name", CASES)
def test_every_sentence_of_the_page_is_true(name, tmp_path):
    record, plan, names, published = publish(tmp_path, **CASES[name])
    check_page(Truth(record, plan, names, published, tmp_path))
    assert any("quasi-identifiers" in text for text in plan.conditions)
    assert any("same value" in text for text in plan.conditions)


@pytest.mark.parametrize("seed", range(quick_or_all(2, 8)))
def test_every_sentence_is_true_of_random_publications(seed, tmp_path):
    how = {
        "seed": 50 + seed,
        "skew": 0.3 + 0.1 * (seed % 4),
        "published": seed % 3,
        "items": 1 + seed % 2,
        "n": 500 + 100 * seed,
        "threshold": round(0.002 * 3**seed, 6) if seed < 5 else 0.5,
        "wish": {"closeness": 0.5, "releases": 2} if seed % 2 else {"ell": 3},
        "contained": "?" if seed % 2 else "no",
    }
    record, plan, names, published = publish(tmp_path, **how)
    check_page(Truth(record, plan, names, published, tmp_path))


def test_a_sentence_without_a_rule_fails(tmp_path):
    record, plan, names, published = publish(tmp_path)
    page = tmp_path / "out" / "evidence.html"
    text = page.read_text(encoding="utf-8")
    truth = Truth(record, plan, names, published, tmp_path)
    for old, new in (
        ("No ledger was named.", "No ledger was named. It is safe by our standards."),
        ("(2 were promised)", "(3 were promised)"),
        (
            "No release lies above the threshold.",
            "At least one release lies above the threshold. No class of a plan made with --k 12 does.",
        ),
        ("<td>not above</td>", "<td>ABOVE</td>"),
    ):
        assert old in text
        page.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(AssertionError):
            check_page(truth)
    page.write_text(text, encoding="utf-8")
    check_page(truth)
