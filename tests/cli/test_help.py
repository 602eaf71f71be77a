"""The help of every command: few options at first, each in its panel, in words and not in names of Python."""

import re
from pathlib import Path
from typing import get_args

import pytest
from tests.docs.reference_page import all_commands, options_of

from elldelta.parameters import Panel

PANELS = get_args(Panel)
MOST_ESSENTIAL = 6
MOST_OPTIONS = 20


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
