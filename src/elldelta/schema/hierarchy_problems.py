"""What can be wrong with a value hierarchy, found all at once and told with counts, names and lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from elldelta.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    Rows = Sequence[Sequence[str]]

ProblemKind = Literal[
    "empty",
    "shallow",
    "ragged",
    "unnamed",
    "duplicate",
    "root",
    "name",
    "missing",
    "torn",
    "interrupted",
    "ambiguous",
]

_FEW_NAMES = 3
_FEW_LINES = 5


@dataclass(frozen=True)
class Problem:
    """One kind of problem, wherever it occurs.

    Attributes:
        kind: A word for programs.
        words: What is wrong, with its count, without a full stop.
        count: How often.
        names: Some of the leaves or groups that it is about.
        lines: Where it occurs, rising; empty if it is about rows that are not there.
        example: A few more words about the first name.
    """

    kind: ProblemKind
    words: str
    count: int
    names: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    example: str = ""

    def sentence(self, unit: str = "line", *, naming: bool = True) -> str:
        """The problem as a sentence; `naming` says whether values of the column may appear in it."""
        text = self.words
        # Groups of a file have their names from its author; without lines they may be parts of values.
        if self.names and (naming or (self.kind == "ambiguous" and unit == "line")):
            example = self.example if naming else ""
            text += f": {_listed(self.names, _FEW_NAMES, repr)}" + (example and f"; {example}")
        if self.lines:
            plural = "s" if len(self.lines) > 1 else ""
            text += f" ({unit}{plural} {_listed(self.lines, _FEW_LINES, str)})"
        return text if text.endswith("...") else text + "."

    def to_dict(self, unit: str = "line") -> dict[str, Any]:
        """The problem as plain JSON values."""
        sentence = self.sentence(unit)
        return {"kind": self.kind, "problem": sentence, "count": self.count, "lines": list(self.lines)}


def structural_problems(rows: Rows, lines: Sequence[int]) -> tuple[Problem, ...]:
    """What is wrong with the rows of a hierarchy, whatever column they are for."""
    if not rows:
        return (Problem("empty", "There is no row", 1),)
    found = [*_ragged(rows, lines), *_unnamed(rows, lines), *_duplicates(rows, lines), *_roots(rows, lines)]
    regular = [index for index, row in enumerate(rows) if len(row) == usual_length(rows)]
    if usual_length(rows) < 2:
        found.append(Problem("shallow", "Rows name no group: a leaf and a root are the least", len(regular)))
    return (*found, *_names_of_two_groups([rows[i] for i in regular], [lines[i] for i in regular]))


def usual_length(rows: Rows) -> int:
    """The number of levels that most rows have; the larger one where two are equally common."""
    return max(Counter(len(row) for row in rows).items(), key=lambda item: (item[1], item[0]))[0]


def refusal(problem: str, found: Sequence[Problem], unit: str = "row", *, naming: bool = True) -> SchemaError:
    """The error that lists all problems; `naming` says whether values of the column may appear in it."""
    sentences = [each.sentence(unit, naming=naming) for each in found]
    numbered = (
        sentences if len(sentences) == 1 else [f"({n}) {sentence}" for n, sentence in enumerate(sentences, 1)]
    )
    return SchemaError(
        problem,
        found=" ".join(numbered),
        remedy="Rename these groups by what they hold: 20-24 must hold 20 to 24."
        if all(each.kind == "ambiguous" for each in found)
        else "Correct the rows; 'elldelta hierarchy check' lists every problem of a file.",
    )


def problem_of(
    kind: ProblemKind,
    found: Collection[object],
    words: tuple[str, str, str],
    names: Iterable[str] = (),
    lines: Iterable[int] = (),
    example: str = "",
) -> list[Problem]:
    """The problem that so many things share, if there are any.

    Args:
        kind: A word for programs.
        found: The things.
        words: What is said of one (`leaf has`), of several (`leaves have`), and of both.
        names: Some of the leaves or groups that it is about.
        lines: Where they occur.
        example: A few more words about the first name.
    """
    if not found:
        return []
    one, many, rest = words
    text = f"{len(found)} {one if len(found) == 1 else many} {rest}"
    return [Problem(kind, text, len(found), tuple(names), tuple(lines), example)]


def _ragged(rows: Rows, lines: Sequence[int]) -> list[Problem]:
    usual = usual_length(rows)
    at = [line for row, line in zip(rows, lines, strict=True) if len(row) != usual]
    words = ("row has", "rows have", f"another number of levels than {usual}, as most do")
    return problem_of("ragged", at, words, lines=at)


def _unnamed(rows: Rows, lines: Sequence[int]) -> list[Problem]:
    at = [line for row, line in zip(rows, lines, strict=True) if not all(row[1:])]
    return problem_of("unnamed", at, ("row has", "rows have", "a group without a name"), lines=at)


def _duplicates(rows: Rows, lines: Sequence[int]) -> list[Problem]:
    places: dict[str, list[int]] = {}
    for row, line in zip(rows, lines, strict=True):
        places.setdefault(row[0] if row else "", []).append(line)
    twice = {leaf: at for leaf, at in places.items() if len(at) > 1}
    words = ("leaf has", "leaves have", "more than one row")
    return problem_of("duplicate", twice, words, twice, _sorted(twice.values()))


def _roots(rows: Rows, lines: Sequence[int]) -> list[Problem]:
    tally = Counter(row[-1] for row in rows if row)
    if len(tally) < 2:
        return []
    root = tally.most_common(1)[0][0]
    at = [line for row, line in zip(rows, lines, strict=True) if row and row[-1] != root]
    words = f"Rows end in {len(tally)} different roots instead of one"
    return [Problem("root", words, len(tally), tuple(tally), tuple(at))]


def _names_of_two_groups(rows: Rows, lines: Sequence[int]) -> list[Problem]:
    """Names with two parents: at one level they stand for two groups, and nobody could tell which."""
    parents: dict[tuple[int, str], dict[str, list[int]]] = {}
    for row, line in zip(rows, lines, strict=True):
        # The leaves have their own check, and with two roots every group would be reported again.
        for level in range(1, len(row) - 2):
            parents.setdefault((level, row[level]), {}).setdefault(row[level + 1], []).append(line)
    torn = {key: above for key, above in parents.items() if len(above) > 1}
    at = _sorted(line for above in torn.values() for line in above.values())
    words = ("name stands", "names stand", "for two groups of the same level")
    return problem_of("name", torn, words, dict.fromkeys(name for _, name in torn), at)


def _sorted(groups: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(sorted({line for group in groups for line in group}))


def _listed(items: Sequence[object], few: int, as_text: Callable[[object], str]) -> str:
    text = ", ".join(as_text(item) for item in items[:few])
    return text + (", ..." if len(items) > few else "")
