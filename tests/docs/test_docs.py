"""The documentation names only what exists, and leaves out nothing that does."""

import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest
from tests.docs.reference_page import PAGE as COMMANDS_PAGE
from tests.docs.reference_page import SHARED, all_commands, render

import elldelta

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = sorted(DOCS.rglob("*.md"))

MOST_WORDS = 50_000
"""What documentation may have: more than that nobody reads."""

DOTTED_NAME = re.compile(r"\b(?:elldelta|ed)(?:\.[A-Za-z_]\w*)+")
NAV_PAGE = re.compile(r"^\s*- (?:[^:\n]+: )?(\S+\.md)\s*$", re.MULTILINE)
SHARED_OPTIONS = {"--help", "-h"}


def names_of(page):
    """Every dotted name of ours on a page; examples write `ed` for `elldelta`."""
    names = DOTTED_NAME.findall(page.read_text(encoding="utf-8"))
    return sorted({re.sub(r"^ed\.", "elldelta.", name) for name in names})


def resolve(dotted):
    """Imports the longest module prefix and looks up the rest; raises if a part does not exist."""
    parts = dotted.split(".")
    for n_parts in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n_parts]))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("elldelta"):
                raise
            continue
        for part in parts[n_parts:]:
            found = _member(found, part)
        return found
    raise ModuleNotFoundError(dotted)


def _member(owner, name):
    if name in getattr(owner, "__dataclass_fields__", {}):
        return owner.__dataclass_fields__[name]
    return getattr(owner, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_name_in_the_documentation_exists(page):
    for name in names_of(page):
        resolve(name)


PATH_NAME = re.compile(r"`((?:src|tests|benchmarks|docs|deploy|integrations)/[\w./-]+)`")


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.stem)
def test_every_path_in_the_documentation_exists(page):
    made = ("benchmarks/results",)  # by a run of the benchmarks
    for path in PATH_NAME.findall(page.read_text(encoding="utf-8")):
        assert path.startswith(made) or (ROOT / path).exists(), path


def test_a_name_that_does_not_exist_is_noticed():
    for name in ("elldelta.core.nothing.greedy", "elldelta.paper.best_case"):
        with pytest.raises((AttributeError, ModuleNotFoundError)):
            resolve(name)


def test_the_theory_names_the_functions_of_the_paper():
    named = {name for page in PAGES if page.parent.name == "theory" for name in names_of(page)}
    assert {
        "elldelta.core.diversity.diversity",
        "elldelta.core.linkage.link",
        "elldelta.paper.worst_case",
        "elldelta.core.sample_size.Mechanism.records",
        "elldelta.paper.compose",
        "elldelta.core.partition.greedy",
        "elldelta.paper.generalize_independent",
    } <= named


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    for name in set(elldelta.__all__) - {"__version__"}:
        public = inspect.unwrap(getattr(elldelta, name))  # a room that is a verb, too
        if public.__module__ == "elldelta.errors":  # they have a page of their own, all of them
            continue
        assert f"::: {public.__module__}.{name}\n" in text, name


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    listed = NAV_PAGE.findall(CONFIG.partition("\nnav:\n")[2])
    assert len(listed) == len(set(listed))
    notebooks = {path.relative_to(DOCS).with_suffix(".md").as_posix() for path in DOCS.rglob("*.ipynb")}
    assert set(listed) == {page.relative_to(DOCS).as_posix() for page in PAGES} | notebooks


NETWORK_ASSET = re.compile(
    r"""!\[[^\]]*\]\(\s*(?:https?:)?//"""  # a picture
    r"""|<(?:script|img|iframe|link|source|video|audio)\b[^>]*(?:src|href)\s*=\s*["']?(?:https?:)?//"""
    r"""|@import|url\(\s*["']?(?:https?:)?//"""  # a style sheet
    r"""|^```\s*mermaid""",  # drawn by a script from elsewhere
    re.IGNORECASE | re.MULTILINE,
)


def test_pages_load_nothing_from_the_network():
    sources = [*PAGES, *DOCS.rglob("*.css"), *DOCS.rglob("*.js"), *DOCS.rglob("*.html")]
    for source in sources:
        assert not NETWORK_ASSET.search(source.read_text(encoding="utf-8")), source.name
    assert re.search(r"^  font: false$", CONFIG, re.MULTILINE)
    assert "analytics" not in CONFIG
    assert not re.search(r"https?://", CONFIG)


@pytest.mark.parametrize(
    "line",
    [
        "![logo](https://example.org/logo.png)",
        '<script async src="//example.org/x.js"></script>',
        "src: url('https://example.org/font.woff2')",
        "```mermaid",
    ],
)
def test_an_asset_from_the_network_is_noticed(line):
    assert NETWORK_ASSET.search(line)
    assert not NETWORK_ASSET.search("See [the paper](https://example.org/paper.pdf).")


def test_the_documentation_stays_as_short_as_somebody_can_read():
    n_words = {page.relative_to(DOCS).as_posix(): len(page.read_text("utf-8").split()) for page in PAGES}
    assert sum(n_words.values()) <= MOST_WORDS, sorted(n_words.items(), key=lambda each: -each[1])[:10]


def test_the_reference_of_commands_says_what_help_says():
    """If this fails, run: python tests/docs/reference_page.py."""
    assert COMMANDS_PAGE.read_text(encoding="utf-8") == render()


def test_every_command_and_option_is_in_the_reference():
    text = COMMANDS_PAGE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `elldelta ([^`]+)`$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert sections.keys() == all_commands().keys()
    for name, command in all_commands().items():
        documented = set(re.findall(r"`(--?[a-zA-Z][\w-]*)[^`]*`", sections[name]))
        spellings = {text for option in command.params for text in (*option.opts, *option.secondary_opts)}
        existing = {text for text in spellings if text.startswith("-")} - {*SHARED}
        assert existing <= documented, (name, existing - documented)


TYPED = re.compile(r"^(?:\$ )?elldelta ((?:[^\n\\]|\\\n|\\(?!\n))*)", re.MULTILINE)


def typed_on(page):
    """Every command that a page shows in a block of code, as words."""
    for block in re.findall(
        r"^ *```\w*\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in TYPED.findall(re.sub(r"^ +(?=elldelta|\$ )", "", block, flags=re.MULTILINE)):
            yield shlex.split(line.replace("\\\n", " ").partition(" > ")[0].rstrip("& "), comments=True)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_command_that_is_shown_can_be_typed(page):
    commands = all_commands()
    for words in typed_on(page):
        if words[0].startswith("-"):
            continue
        name = next(text for n in (2, 1) if (text := " ".join(words[:n])) in commands)
        own = {
            option
            for parameter in commands[name].params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        asked = {word for word in words if re.match(r"--?[a-z]", word)} - SHARED_OPTIONS
        assert asked <= own, (name, asked - own)
