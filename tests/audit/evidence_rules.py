"""What every sentence on the page of evidence must agree with: one rule for each, computed by brute force."""
# ruff: noqa: E501 (sentences stand here as they are read)

import json
import re
from fractions import Fraction

from tests.audit.evidence_cases import AGES

import elldelta as ed
from elldelta.audit import evidence_page
from elldelta.audit.result import LIMITS


def rounded(text, truth, digits):
    """Whether a percentage is the truth rounded up, and 100 only if it is all."""
    number = Fraction(text.removesuffix(" %")) / 100
    assert number >= truth - Fraction(1, 10**9), (text, float(truth))
    assert (number == 1) == (truth == 1), (text, float(truth))
    step = Fraction(1, 10**digits)
    assert number - truth < step, (text, float(truth))
    return True


RULES = []


def rule(pattern):
    """A sentence, and what it must be compared with."""

    def keep(check):
        RULES.append((re.compile(pattern), check))
        return check

    return keep


NUMBER = r"([\d,.]+)"
NAME = r"([\w.]+)"
SHARE = r"([\d.]+ %)"


@rule(r"(disease|state): ")
def _column(truth, match):
    truth.on(match[1])


@rule(r"Of '(disease|state)':")
def _of_column(truth, match):
    truth.on(match[1])


@rule(
    r"Safe (by itself|against linking), in (distinct values and shares|distinct values|shares): "
    r"(?:at least (\d+) values are left (in every class|for everybody) \((\d+) were promised\))?(?:, and )?"
    r"(?:shares of linked records stay within ([\d.]+) percentage points of (.*?) \(([\d.]+) allowed\))?"
    r"(, even if the attacker knows which releases the person is in)?\."
)
def _safe(truth, match):
    column = truth.column
    assert truth.holds
    truth.on(column)
    assert truth.record["holds"] is True
    assert (match[1] == "by itself") == (match[9] is None) == truth.alone
    assert (match[3] is not None) == (truth.ell > 1 or not truth.is_near)
    assert (match[6] is not None) == truth.is_near
    if match[3]:
        assert (int(match[3]), int(match[5])) == (truth.fewest, truth.ell)
        assert (match[4] == "in every class") == truth.alone
    if match[6]:
        assert match[7] == truth.reference_words
        limit = Fraction(str(truth.column_plan.closeness.limit))
        assert Fraction(match[8]) == 100 * limit
        assert truth.distance <= Fraction(match[6]) / 100 <= min(limit, truth.distance + Fraction(1, 100))
    says = {
        (True, False): "distinct values",
        (False, True): "shares",
        (True, True): "distinct values and shares",
    }
    assert match[2] == says[match[3] is not None, match[6] is not None]


@rule(r" But if everybody whom")
def _never_a_proviso(truth, match):
    raise AssertionError("Safe, and a question is open.")


@rule(r"Not safe: for at least one person only (\d+) (value is|values are) left; (\d+) were promised\.")
def _too_few(truth, match):
    assert (int(match[1]), int(match[3])) == (truth.fewest, truth.ell)
    assert (match[2] == "value is") == (truth.fewest == 1)
    assert truth.fewest < truth.ell
    assert truth.record["holds"] is False


@rule(
    r"Not safe: shares of linked records differ by up to ([\d.]+) percentage points from (.*?) \(([\d.]+) allowed\)\."
)
def _too_far(truth, match):
    assert truth.distance > Fraction(str(truth.column_plan.closeness.limit)) == Fraction(match[3]) / 100
    assert rounded(f"{match[1]} %", truth.distance, 2)
    assert match[2] == truth.reference_words
    assert truth.record["holds"] is False


@rule(
    rf"Not safe by the form: in (.*?) the identification risk is up to ([\d.]+), and at most {NUMBER} is accepted\."
)
def _risky(truth, match):
    assert match[1].split(", ") == [path.name for path in truth.above]
    assert Fraction(match[3]) == truth.threshold
    highest = max(map(truth.risk, truth.above))
    assert 0 <= Fraction(match[2]) - highest < Fraction(1, 10**4)
    assert highest > truth.threshold
    assert truth.record["holds"] is False


def is_isolated(truth, outer, inner, fewest, below):
    assert int(below) == max(truth.ell, 2)
    found = [n for a, b, n in truth.differences() if (a, b) == (outer, inner)]
    assert min(found) == int(fewest) < int(below)


@rule(
    r"Not safe while the form leaves open whether one table's population, or a class of it, is contained in "
    rf"another's \(contained\): if everybody whom {NAME} shows in these classes is also in {NAME}, {NAME} minus {NAME} isolates people with as few as (\d+) of (\d+) values\."
)
def _open(truth, match):
    assert truth.about["contained"] == []
    assert match[1] == match[4]
    assert match[2] == match[3]
    is_isolated(truth, match[3], match[4], match[5], match[6])
    assert truth.record["holds"] is False


@rule(rf"Not safe: {NAME} minus {NAME} isolates people with as few as (\d+) of (\d+) values\.")
def _isolated(truth, match):
    assert [sorted(pair.split(",")) for pair in truth.about["contained"]] == [sorted(match.group(1, 2))]
    is_isolated(truth, *match.groups())
    assert truth.record["holds"] is False


@rule(
    rf"At worst one value has {SHARE} of (the records of a class|the linked records, in the worst group of releases)\. "
    rf"By Bayes' rule one has a probability of (at most )?{SHARE}, if the other people of (the release|each release) are "
    r"independent draws from the reference(, and none of them is in two releases)?\. The reference is (.*?): at most "
    rf"{SHARE} for one value\. Largest gain over it: from {SHARE} to {SHARE} in shares, from {SHARE} to (at most )?"
    rf"{SHARE} by Bayes' rule\."
)
def _surest(truth, match):
    shares, bayes = truth.led("shares"), truth.led("bayes")
    assert rounded(match[1], shares[0], 3)
    assert rounded(match[4], bayes[0], 3)
    assert match[3] is match[12] is None  # few releases: every group was asked
    assert (
        (match[2] == "the records of a class")
        == (match[5] == "the release")
        == (match[6] is None)
        == truth.alone
    )
    assert match[7] == truth.reference_words
    assert rounded(match[8], truth.baseline, 3)
    for (before, after), (_, pairs) in (((match[9], match[10]), shares), ((match[11], match[13]), bayes)):
        assert any(is_pair(before, after, pair) for pair in pairs)


def is_pair(before, after, pair, digits=3):
    try:
        return rounded(after, pair[0], digits) and rounded(before, pair[1], digits)
    except AssertionError:
        return False


@rule(r"There is no limit on how sure a guess can be; closeness would set one\.")
def _no_limit(truth, match):
    assert not truth.is_near


@rule(r"The plan sets no limit on how sure a guess can be; closeness would\.")
def _none_promised(truth, match):
    assert not truth.is_near


@rule(
    r"Also, shares of linked records (?:stay within|differ by up to) ([\d.]+) percentage points (?:of|from) (.*?) \(([\d.]+) allowed\)\."
)
def _also_near(truth, match):
    limit = Fraction(str(truth.column_plan.closeness.limit))
    assert Fraction(match[3]) == 100 * limit
    assert ("stay within" in match[0]) == (truth.distance <= limit)
    assert 0 <= Fraction(match[1]) / 100 - truth.distance < Fraction(1, 100)
    assert match[2] == truth.reference_words


@rule(r"Every release was read again and compared with its manifest and with the plan\.")
def _verified(truth, match):
    for path in truth.new:
        assert ed.verify(path, truth.plan).plan_digest == truth.plan.digest


@rule(r"Linked with what is published already: (.*?)\.$")
def _published(truth, match):
    named = [path.name for path in truth.files[: truth.n_old]]
    assert match[1] == (", ".join(named) or "none was named")


@rule(
    rf"Bar chart: records by the number of sensitive values left, from (\d+) to (\d+)\. {NUMBER} of {NUMBER} lie below (\d+)\."
)
def _histogram(truth, match):
    rows = truth.linked_classes()
    left = [sum(n > 0 for n in row) for row in rows]
    records = [sum(row) for row in rows]
    below = sum(n for n, own in zip(records, left, strict=True) if own < truth.ell)
    told = [int(text.replace(",", "")) for text in match.groups()]
    assert told == [min(left), max(left), below, sum(records), truth.ell]


@rule(
    rf"Every class of these releases holds at least {NUMBER} (records|persons): by the quasi-identifiers alone nobody is told apart from {NUMBER} others\."
)
def _singled(truth, match):
    fewest = min(map(truth.fewest_in, truth.new))
    assert [int(match[place].replace(",", "")) for place in (1, 3)] == [fewest, fewest - 1]
    assert fewest > 1
    assert (match[2] == "persons") == (truth.manifests[truth.new[0]].persons is not None)


@rule(
    r"A class of these releases holds a single person's record: whoever is known to be in it is told apart from all others, and what the class shows is theirs\."
)
def _single(truth, match):
    assert min(map(truth.fewest_in, truth.new)) == 1


@rule(
    r"(?:One release was read by itself; whoever is in it|(\d+) releases were put side by side, in every group of them\. Whoever is in some) is left with at least (\d+) sensitive values? \((\d+) promised\)\."
)
def _linkable(truth, match):
    assert (match[1] is None) == truth.alone
    assert match[1] is None or int(match[1]) == len(truth.files)
    assert (int(match[2]), int(match[3])) == (truth.fewest, truth.ell)


@rule(r"The releases were made under (\d+) plans: no plan promises anything about linking them\.")
def _several_plans(truth, match):
    assert int(match[1]) == len({each.plan_digest for each in truth.manifests.values()}) > 1


@rule(r"Subtraction: not tried, because there is no other release\.")
def _not_tried(truth, match):
    assert truth.alone


@rule(
    r"Subtraction: not found\. No release minus another isolates a group that shows fewer than (\d+) values\."
)
def _not_found(truth, match):
    assert int(match[1]) == max(truth.ell, 2)
    assert not [n for *_, n in truth.differences() if n < int(match[1])]


@rule(
    rf"Subtraction: possible\. If everybody whom {NAME} shows in these classes is also in {NAME}, {NAME} minus {NAME} isolates people with as few as "
    r"(\d+) of (\d+) values\. Counts allow it; (nobody has said whether it is so|by the answer that "
    r"was given it is not so)\."
)
def _possible(truth, match):
    assert (match[1], match[2]) == (match[4], match[3])
    is_isolated(truth, match[3], match[4], match[5], match[6])
    assert ("nobody has said" in match[7]) == (truth.about["contained"] == [])
    assert truth.about["contained"] in ([], ["no"])


@rule(
    rf"Subtraction: found\. One population is said to be contained in the other, and {NAME} minus {NAME} isolates people with as few as (\d+) of (\d+) values\."
)
def _found(truth, match):
    is_isolated(truth, *match.groups())
    assert truth.about["contained"] not in ([], ["no"])


@rule(
    r"Is one table's population, or a class of it, contained in another's\? The publisher's answer: (.*?)\.$"
)
def _answer(truth, match):
    assert match[1] == ("; ".join(truth.about["contained"]) or "not answered")


@rule(
    rf"One divided by the size of a class: the chance that a record of the class is that of somebody who is known to be in the table\. The threshold that was set is {NUMBER}\.$"
)
def _threshold(truth, match):
    assert Fraction(match[1]) == truth.threshold


@rule(r"At least one release lies above the threshold\. No class of a plan made with --k (\d+) does\.")
def _above(truth, match):
    assert truth.above
    assert Fraction(1, int(match[1])) <= truth.threshold < Fraction(1, int(match[1]) - 1)


@rule(r"No release lies above the threshold\.")
def _below(truth, match):
    assert not truth.above


@rule(
    r"(\d+) releases are named here, and the promise is about at most (\d+)\. What linking all of them shows is computed below\."
)
def _not_covered(truth, match):
    assert (int(match[1]), int(match[2])) == (len(truth.files), truth.plan.releases)
    assert len(truth.files) > truth.plan.releases


@rule(
    r"(\d+) releases are named here and no ledger: the promise is about releases that one ledger has admitted\. What linking shows is computed below\."
)
def _no_ledger_of_owners(truth, match):
    assert truth.plan.owners is not None
    assert truth.record["ledger"] is None


@rule(r"The plan does not carry a signature of an agency\.")
def _not_signed(truth, match):
    assert not (truth.folder / "plan.json.sig").exists()


@rule(r"No ledger was named\.")
def _no_ledger(truth, match):
    assert truth.record["ledger"] is None


@rule(
    rf"The ledger has {NUMBER} lines with the one that opens it; its chain is intact\. The fullest class can lose (\d+) more "
    rf"values? of 'disease'; {NUMBER} of {NUMBER} classes can lose none\. Last line: (\S+)$"
)
def _ledger(truth, match):
    lines = (truth.folder / "the.ledger").read_text(encoding="utf-8").splitlines()
    assert int(match[1]) == len(lines) == len(truth.files) + 1
    room = []
    for base in range(truth.plan.n_classes):
        ages = [age for age in range(AGES) if truth.base(age) == base]
        witnesses = truth.plan.columns[0].witnesses[base]
        left = set(witnesses)
        for of, counts in truth.plain:
            left &= {s for s in witnesses if counts[of[ages[0]]][s]}
        room.append(len(left) - truth.plan.columns[0].ell)
    assert int(match[2]) == min(room)
    assert (int(match[3]), int(match[4])) == (sum(n == 0 for n in room), len(room))
    assert match[5] == json.loads(lines[-1]).get("digest", match[5])


@rule(rf"{NAME}: It is line {NUMBER} of a ledger, of '(.*?)', which was compared with it\.$")
def _line(truth, match):
    lines = (truth.folder / "the.ledger").read_text(encoding="utf-8").splitlines()
    line = json.loads(lines[int(match[2])])
    manifest = next(item for path, item in truth.manifests.items() if path.name == match[1])
    assert (line["sequence"], line["owner"]) == (int(match[2]), match[3])
    assert line["content_digest"] == manifest.content_digest


@rule(rf"{NAME}: The owner's word, which the file cannot show: (.*?)\.$")
def _word(truth, match):
    manifest = next(item for path, item in truth.manifests.items() if path.name == match[1])
    for name, number in re.findall(rf"([a-z ]+) {NUMBER}(?:, |$)", match[2]):
        key = name.strip().replace(" ", "_")
        said = getattr(manifest, key, None) if key not in (manifest.persons or {}) else manifest.persons[key]
        assert said == int(number.replace(",", "")), key


STATIC = {
    *evidence_page._NOT_PROMISED,
    *LIMITS,
    "Columns that are not listed are not published. The reasons are the publisher's.",
    "What must be true for that:",
    "Can one person's record be told apart from all others?",
    "That shows nothing about people whose whole class shares a value. A value that occurs once in a class points at "
    "one record for whoever knows that value.",
    "Can records about one person in several tables be put together, and what does that show?",
    "This is about the releases that are named here. Linking with other sources by the quasi-identifiers is possible, "
    "and leads to classes, not to records.",
    "Can the sensitive value of somebody be inferred, with what certainty?",
    "The number of values that are left bounds what can be excluded, not how likely each of them is: look at the "
    "largest share and the largest gain, in both readings.",
    "The number does not show what is learned without knowing the record, which is under Inference; and it is an "
    "upper bound for somebody who does not know who is in the table.",
    "What the manifests say:",
    "Whoever signs has read what this does not promise, and decides.",
    "Every release is the one that its manifest describes: its content was compared.",
}
"""Sentences that say nothing about these releases: no number, no verdict."""


def static_of(truth):
    """Sentences that were written elsewhere, and are compared with what was written there."""
    plan = ed.read_plan(truth.folder / "plan.json")
    told = {f"{path.name}: {' '.join(item.sentences)}" for path, item in truth.manifests.items()}
    named = "raw.parquet: no manifest was there; the labels were understood by the schema given."
    mixed = {
        "raw.parquet: the labels mean what is listed; no manifest says so. The classes of the other releases are those of "
        "their manifests, with which their content was compared."
    }
    ledger = set() if truth.record["ledger"] is None else {truth.record["ledger"]["promise"]}
    return {*STATIC, plan.promise, *plan.conditions, *told, *mixed, *ledger, named}


def check_words(truth, words):
    """Reads a text from left to right, rule by rule."""
    rest, known = words, static_of(truth)
    while rest := rest.lstrip():
        fixed = max((text for text in known if rest.startswith(text)), key=len, default=None)
        if fixed is not None:
            rest = rest[len(fixed) :]
            continue
        for pattern, check in RULES:
            match = pattern.match(rest)
            if match:
                check(truth, match)
                rest = rest[match.end() :]
                break
        else:
            raise AssertionError(f"No rule knows what is true of: {rest}")
