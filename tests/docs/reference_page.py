"""The reference page of commands, made from what `--help` shows; as a program it writes the page."""

import re
from pathlib import Path
from typing import get_args

import typer

from elldelta.cli.app import app
from elldelta.cli.commands import load_commands
from elldelta.parameters import Panel

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
SHARED = (
    "--json", "--overwrite", "--csv", "--engine", "--person", "--na", "--not-na", "--hierarchy",
    "--database", "--data", "--require-epsilon", "--log-level",
    "--server", "--token-file", "--insecure-http", "--timeout",
)  # fmt: skip
"""Options that mean the same wherever they occur, explained once; the last four are those of `remote`."""

INTRODUCTION = """\
# Commands

`elldelta COMMAND --help` shows the same as this page, and `elldelta --version` the version. Results go to
standard output, remarks and errors to standard error. An error says what is wrong, what was found and what to
do. Every command but `serve` and `worker` has `--json`; those that may replace a file have `--overwrite`.

|Exit code|Meaning|
|---|---|
|0|done|
|2|bad input: a parameter, a file or a table cannot be used|
|3|refused: the guarantee would not hold|
|4|a bug of ours|
|130|interrupted|

## Options that several commands share

Commands that read tables take files (`.csv`, `.tsv`, `.parquet`, `.feather`, `.jsonl`, also `.gz`), folders,
patterns such as `2024-*.parquet`, standard input (`-`), or with `--engine postgres` a table or a query
([engines](../guide/engines.md)). The last four options belong to all commands of `elldelta remote`.

"""


def all_commands():
    """Every command by what is typed after `elldelta`."""

    def walk(command, words):
        children = getattr(command, "commands", {})
        if not children:
            yield " ".join(words), command
        for name, child in children.items():
            yield from walk(child, [*words, name])

    load_commands()
    return dict(walk(typer.main.get_command(app), []))


def options_of(command):
    """The options of a command, in their order."""
    return [each for each in command.params if each.param_type_name == "option"]


def render():
    """The whole page."""
    commands = all_commands()
    shared = {each.opts[0]: each for command in commands.values() for each in options_of(command)}
    parts = [INTRODUCTION + _table(["Option", "Meaning"], [_row(shared[name]) for name in SHARED])]
    alike = {"frontier": commands["plan"]}
    parts += [section(name, command, alike.get(name)) for name, command in commands.items()]
    return "\n".join(parts)


def section(name, command, alike=None):
    """What the page says of a command; options are named only that `alike` explains in the same words."""
    explained = {_row(each) for each in options_of(alike)} if alike else ()
    example = command.epilog.removeprefix("Example: ")
    lines = [f"## `elldelta {name}`", "", _code(command.help), "", "```", example, "```", ""]
    also = [each.opts[0] for each in options_of(command) if each.opts[0] in SHARED[2:-4]]
    rows = []
    for panel in get_args(Panel):
        here = [
            _row(each)
            for each in options_of(command)
            if each.rich_help_panel == panel and each.opts[0] not in SHARED and _row(each) not in explained
        ]
        rows += [(f"**{panel}**", ""), *here] if here else []
    if rows[1:] and all(cells[1] for cells in rows[1:]) and rows[0][0] == "**Essential**":
        rows = rows[1:]  # one panel needs no heading
    if rows:
        lines.append(_table(["Option", "Meaning"], rows))
    if explained:
        named = ", ".join(f"`{each.opts[0]}`" for each in options_of(command) if _row(each) in explained)
        lines += [f"And, as in `elldelta {alike.name}`: {named}.", ""]
    if also:
        lines += [f"And {', '.join(f'`{option}`' for option in also)}.", ""]
    return "\n".join(lines)


def _row(option):
    names = ", ".join(f"`{text}`" for text in (*option.opts, *option.secondary_opts))
    words = _code(option.help or "")
    if option.required:
        words += " Required."
    elif option.default not in (None, "", False, ()) and not option.is_flag and "[default" not in words:
        words += f" Default: `{option.default}`."
    return names, words


def _code(text):
    """A text of the help, with what is typed set as code."""
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", " ".join(text.split("\n\n")))
    text = re.sub(r"'(elldelta [^']*)'", r"`\1`", text)
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"|{'|'.join(cells)}|\n" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
