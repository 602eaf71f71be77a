"""The help of every command: few options at first, each in its panel, in words and not in names of Python."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest
from tests.docs.reference_page import all_commands, options_of

import elldelta
from elldelta.parameters import Panel

PANELS = get_args(Panel)
MOST_ESSENTIAL = 6
MOST_OPTIONS = 22


def panels_of(command):
    """The options of a command by their panels, as they are declared."""
    found = {}
    for option in options_of(command):
        found.setdefault(option.rich_help_panel, []).append(option.opts[0])
    return found


@pytest.mark.parametrize("name", all_commands())
def test_few_options_are_essential_and_every_option_has_a_panel(name):
    panels = panels_of(all_commands()[name])
    assert set(panels) <= set(PANELS)
    assert list(panels) == sorted(panels, key=PANELS.index)
    assert len(panels.get("Essential", [])) <= MOST_ESSENTIAL
    assert sum(map(len, panels.values())) <= MOST_OPTIONS


def test_options_that_commands_share_are_in_the_same_panel_everywhere():
    found = {}
    for command in all_commands().values():
        for panel, options in panels_of(command).items():
            for option in options:
                found.setdefault(option, set()).add(panel)
    shared = ("--json", "--overwrite", "--csv", "--engine", "--person", "--na", "--not-na", "--output")
    for option in shared:
        assert len(found[option]) == 1, option


@pytest.mark.parametrize("name", all_commands())
def test_help_fits_a_terminal_and_shows_no_name_of_python(elldelta, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    shown = elldelta(*name.split(), "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert not re.search(r"<\w|\bNone\b|list\[|\bbool\b|\bPath\b", shown.replace("None, ?", ""))
    for panel in panels_of(all_commands()[name]):
        assert f"─ {panel} ─" in shown
    assert f"elldelta {name}" in " ".join(shown.split("Example:")[1].split())


def test_every_example_of_the_help_names_options_that_exist():
    for name, command in all_commands().items():
        known = {text for option in command.params for text in (*option.opts, *option.secondary_opts)}
        used = re.findall(r"(?<!\S)--?[a-z][a-z-]*", command.epilog)
        assert set(used) <= known | {"--help"}, name
        assert Path(command.epilog.split()[1]).name == "elldelta"


def suggested_commands():
    """Every command that a text of the package suggests, with the file it stands in."""
    package = Path(elldelta.__file__).parent
    for path in (*package.rglob("*.py"), *package.rglob("*.html")):
        source = path.read_text(encoding="utf-8")
        texts = [source]
        if path.suffix == ".py":
            constants = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
            texts = [node.value for node in constants if isinstance(node.value, str)]
        for text in texts:
            for words in re.findall(r"\belldelta ([a-z][a-z-]*(?: [^\s'\"`<>).,;:]+)*)", text):
                yield path.name, words.split()


def test_commands_that_texts_suggest_exist():
    commands = all_commands()
    first_words = {name.split()[0] for name in commands}
    n_found = 0
    for place, words in suggested_commands():
        if words[0] not in first_words:
            continue  # the name of the package in a sentence
        name = " ".join(words[:2]) if " ".join(words[:2]) in commands else words[0]
        if name not in commands:
            continue  # a family of commands
        known = {text for option in commands[name].params for text in (*option.opts, *option.secondary_opts)}
        asked = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
        assert asked <= known | {"--help"}, (place, words)
        n_found += 1
    assert n_found > 20
