"""The page of evidence as words, and the truth about releases by brute force from their rows."""

import functools
from fractions import Fraction
from html.parser import HTMLParser

import pyarrow.parquet as pq
from tests.audit.evidence_cases import AGES
from tests.oracles import belief, exposure

from elldelta.release import manifest_path
from elldelta.release.manifest import read_manifest


class Page(HTMLParser):
    """The words of a page: (section, kind, content) in their order."""

    def __init__(self, text):
        super().__init__()
        self.blocks, self.section, self.inside, self.words = [], "", [], ""
        self.table, self.row, self.in_picture = None, None, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "svg":
            self.in_picture += 1
        if tag == "figure":
            self.blocks.append((self.section, "picture", dict(attributes)["aria-label"]))
        if tag == "table":
            self.table = []
        if tag == "tr":
            self.row = []
        if tag in ("title", "style", "h1", "h2", "p", "li", "td", "th", "footer"):
            self.words = ""

    def handle_data(self, data):
        if not self.in_picture:
            self.words += data

    def handle_endtag(self, tag):
        words = " ".join(self.words.split())
        if tag == "svg":
            self.in_picture -= 1
        elif tag == "h2":
            self.section = words
        elif tag in ("h1", "p", "li", "footer"):
            self.blocks.append((self.section, tag, words))
        elif tag in ("td", "th"):
            self.row.append(words)
        elif tag == "tr":
            self.table.append(tuple(self.row))
        elif tag == "table":
            self.blocks.append((self.section, "table", self.table))
        self.words = (
            "" if tag in ("h1", "h2", "p", "li", "td", "th", "footer", "title", "style") else self.words
        )


def ages_of(label):
    """The ages that a label of our releases means."""
    if label == "*":
        return set(range(AGES))
    if label.startswith("<="):
        return set(range(int(label[2:]) + 1))
    if label.endswith("+"):
        return set(range(int(label[:-1]), AGES))
    first, _, last = label.partition("-")
    return set(range(int(first), int(last or first) + 1))


class Truth:
    """What the releases show, from their rows alone; and what plan, form and manifests say."""

    def __init__(self, record, plan, names, published, folder):
        self.record, self.plan, self.folder = record, plan, folder
        self.about = record["about"]
        self.files, self.n_old = names, published
        self.new = names[published:]
        self.rows = {path: pq.read_table(path).to_pylist() for path in names}
        self.manifests = {
            path: read_manifest(manifest_path(path)) for path in names if manifest_path(path).exists()
        }
        self.columns = list(plan.schema.sensitive_names)
        self.on(self.columns[0])
        self.alone = len(names) == 1

    def on(self, column):
        """The same, with the further sentences about one of several sensitive columns."""
        self.column = column
        self.values = self.plan.schema.for_column(self.columns.index(column)).sensitive.value_labels

    @property
    def plain(self):
        return self._plain(self.column)

    @property
    def column_plan(self):
        return self.plan.columns[self.columns.index(self.column)]

    def classes(self, path):
        """Per label the values of its records."""
        found = {}
        for row in self.rows[path]:
            found.setdefault(row["age"], []).append(row[self.column])
        return found

    @functools.cache  # noqa: B019 (it lives as long as its test)
    def _plain(self, column):
        """Per release: the class of every age, and counts by class and value; a last one for no class."""
        found = []
        for path in self.files:
            classes = self.classes(path)
            labels = list(classes)
            counts = [[classes[label].count(value) for value in self.values] for label in labels]
            of = [
                next((n for n, label in enumerate(labels) if age in ages_of(label)), len(labels))
                for age in range(AGES)
            ]
            found.append((of, [*counts, [0] * len(self.values)]))
        return found

    @property
    def ell(self):
        """The largest number of values that a release promises."""
        place = self.columns.index(self.column)
        return max(
            [item.ell, *(unit["ell"] for unit in item.also)][place] for item in self.manifests.values()
        )

    @property
    def fewest(self):
        plain = self.plain
        left = [exposure.fewest_in_any_group(plain, age) for age in range(AGES)]
        return min((n for n in left if n), default=None)

    @property
    def is_near(self):
        return self.column_plan.closeness is not None

    def base(self, age):
        lows, highs = self.plan.classes.hulls(self.plan.schema)
        return next(n for n in range(len(lows)) if lows[n, 0] <= age <= highs[n, 0])

    def reference(self, age):
        if not self.is_near:
            return [sum(row[s] for _, rows in self.plain for row in rows) for s in range(len(self.values))]
        rows = self.column_plan.closeness.references
        return (rows[0] if len(rows) == 1 else rows[self.base(age)]).tolist()

    def chances(self, age):
        """How somebody else of each release falls on the values, in the class of that age."""
        if not self.is_near:
            return [belief.shares(self.reference(age))] * len(self.files)
        found = []
        for of, _ in self.plain:
            bases = {self.base(other) for other in range(AGES) if of[other] == of[age]}
            masses = self.column_plan.closeness.past_sizes
            example = {self.base(other): self.reference(other) for other in range(AGES)}
            found.append(
                [
                    sum(Fraction(int(masses[b])) * belief.shares(example[b])[s] for b in bases)
                    for s in range(len(self.values))
                ]
            )
        return found

    def led(self, by):
        """The largest number and the largest gain with what was before, by shares or by Bayes' rule."""
        return self._led(by, self.column)

    @functools.cache  # noqa: B019 (it lives as long as its test)
    def _led(self, by, column):
        plain, found = self.plain, []
        for age in range(AGES):
            reference = self.reference(age)
            if by == "shares":
                every = belief.led_by_shares(plain, age)
            else:
                every = belief.led_by_odds(plain, age, reference, self.chances(age))
            before = belief.shares(reference)
            found += [(after, old) for row in every for after, old in zip(row, before, strict=True) if after]
        gain = max(after - old for after, old in found)
        return max(after for after, _ in found), [pair for pair in found if pair[0] - pair[1] == gain]

    @property
    def baseline(self):
        return max(max(belief.shares(self.reference(age))) for age in range(AGES))

    @property
    def distance(self):
        plain = self.plain
        found = [belief.furthest(plain, age, self.reference(age)) for age in range(AGES)]
        return max(one for one in found if one is not None)

    @property
    def reference_words(self):
        return (
            "what the plan says about the class"
            if self.is_near
            else "the overall distribution of the releases"
        )

    def sizes(self, path):
        return [len(values) for values in self.classes(path).values()]

    def fewest_in(self, path):
        """The fewest of a class: persons where they were counted, which is the owner's word, or records."""
        persons, fewest = self.manifests[path].persons, min(self.sizes(path))
        if persons is None:
            return fewest
        assert persons["persons_per_class"] <= fewest
        return persons["persons_per_class"]

    def risk(self, path):
        return Fraction(1, self.fewest_in(path))

    @property
    def threshold(self):
        return Fraction(str(self.about["threshold"]))

    @property
    def above(self):
        return [path for path in self.new if 1 / self.fewest_in(path) > self.about["threshold"]]

    def linked_classes(self):
        return list(exposure.linkage_classes(self.plain).values())

    def differences(self):
        """(outer, inner, values): what equal classes of two releases differ by, where the counts nest."""
        found = []
        for a in self.files:
            for b in self.files:
                if a == b:
                    continue
                one, other = self.classes(a), self.classes(b)
                for label in one.keys() & other.keys():
                    rest = [one[label].count(v) - other[label].count(v) for v in self.values]
                    if min(rest) >= 0 and any(rest):
                        found.append((a.name, b.name, sum(n > 0 for n in rest)))
        return found

    @property
    def have_the_same_classes(self):
        return len({frozenset(self.classes(path)) for path in self.files}) == 1

    @property
    def holds(self):
        """Whether everything that is promised or asked for holds, for every column."""
        good = not self.above
        for column in self.columns:
            self.on(column)
            good &= self.fewest >= self.ell
            good &= not self.is_near or self.distance <= Fraction(str(self.column_plan.closeness.limit))
            told = self.linked_part["subtraction"]
            good &= told["status"] != "found" and (told["status"], told["because"]) != (
                "possible",
                "unanswered",
            )
            if self.have_the_same_classes and told["status"] == "not found":
                below = [n for *_, n in self.differences() if n < max(self.ell, 2)]
                assert not below
        self.on(self.columns[0])
        return good

    @property
    def linked_part(self):
        every = (self.record["linked"], *self.record["linked"].get("also", ()))
        return every[self.columns.index(self.column)]
