"""Pages that show what somebody types and what is printed: their blocks, and what is printed now."""

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from elldelta.cli.main import execute

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
LEFT_OUT = "..."


def blocks_of(text):
    """The kind and the text of every block of code, in their order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def section(page, heading):
    """One section of a page of the guide."""
    parts = re.split(r"^## ", (GUIDE / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    [text] = [part for part in parts if part.startswith(heading)]
    return text


def typed(block):
    """The commands of a block, each with the lines that the page shows after it."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def type_in(command):
    """What a line of the page prints: our command in this process, anything else in a shell."""
    if command.startswith("elldelta "):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert execute(shlex.split(command)[1:]) == 0, command
        return lines_of(printed.getvalue())
    shell = ["bash", "-c", command]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return lines_of(
        subprocess.run(
            shell, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}
        ).stdout
    )


def run_python(code, names):
    """What lines of Python print, with what lines before them have left."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)  # noqa: S102 (a page of our own)
    return lines_of(printed.getvalue())


def lines_of(printed):
    return [line.rstrip() for line in printed.splitlines()]


def check_commands(text):
    """Types every command of a text, and compares."""
    commands = [each for kind, block in blocks_of(text) if kind == "console" for each in typed(block)]
    assert len(commands) > 5
    for command, shown in commands:
        printed = type_in(command)
        assert matches(shown, printed), "\n".join([f"$ {command}", *printed])


def matches(shown, printed):
    """Whether the page shows what was printed; where it shows `...` any lines may stand."""
    parts = [list(part) for left_out, part in itertools.groupby(shown, LEFT_OUT.__eq__) if not left_out]
    if LEFT_OUT not in shown:
        return shown == printed
    if shown[0] != LEFT_OUT and printed[: len(parts[0])] != parts[0]:
        return False
    if shown[-1] != LEFT_OUT and printed[-len(parts[-1]) :] != parts[-1]:
        return False
    at = 0
    for part in parts:
        places = [n for n in range(at, len(printed)) if printed[n : n + len(part)] == part]
        if not places:
            return False
        at = places[0] + len(part)
    return True
