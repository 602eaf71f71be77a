"""The command `elldelta`: collects the commands and turns every error into a message and an exit code.

Exit codes: 0 done; 2 bad input; 3 refused, because the guarantee would not hold; 4 our own bug;
130 interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from elldelta.cli.streams import guard_streams
from elldelta.errors import ElldeltaError, InputError, InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells use it."""

IMPORT_SECONDS = 0.05
"""After so long it is looked again whether an import has ended."""


def execute(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code; never raises."""
    try:
        return _execute(arguments)
    except KeyboardInterrupt:
        return _interrupted()


def _execute(arguments: Sequence[str]) -> int:
    import typer

    from elldelta.cli import output
    from elldelta.cli.app import app
    from elldelta.cli.commands import load_commands
    from elldelta.cli.streams import ReaderGoneError

    load_commands()
    as_json = "--json" in arguments
    try:
        result = typer.main.get_command(app).main(
            args=list(arguments) or ["--help"], prog_name="elldelta", standalone_mode=False
        )
        with contextlib.suppress(ReaderGoneError):  # who reads no further still learns the exit code
            sys.stdout.flush()  # what is left in it may find no room either
    except ElldeltaError as error:
        output.print_error(error, as_json=as_json)
        return error.exit_code
    except typer.TyperException as error:
        remedy = "Add --help to the command to see how it is used."
        output.print_error(InputError(error.format_message(), remedy=remedy), as_json=as_json)
        return InputError.exit_code
    except typer.Abort:
        return _interrupted()
    except ReaderGoneError:
        return 0
    except Exception as error:  # noqa: BLE001 (the last line of defence, see below)
        output.print_error(_bug(error), as_json=as_json)
        return InternalError.exit_code
    if result == INTERRUPTED:  # the option parser turns Ctrl-C into an exit code
        return _interrupted()
    return result if isinstance(result, int) else 0


def _interrupted() -> int:
    sys.stderr.write("Interrupted. Nothing was left half written.\n")
    return INTERRUPTED


def run() -> None:
    """The console script."""
    # Large plans are millions of numbers: looking among them for garbage took a tenth of the time.
    gc.set_threshold(100_000, 50, 100)
    guard_streams()
    listen()
    code = execute(sys.argv[1:])
    if code == INTERRUPTED:
        # What was being computed, or compiled, goes on beside us, and must not meet an interpreter that ends.
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a full disk, or nobody who reads
                stream.flush()
        os._exit(code)
    _stop_alarm()  # an interpreter that ends takes our handlers away, and then it would be killed
    sys.exit(code)


def listen() -> None:
    """Makes Ctrl-C end the command at a safe moment.

    A polite end is an end like it: temporary files, which may hold records, are removed. What this process
    was started to ignore, as by nohup, it goes on to ignore.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _interrupt)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Ends the command; inside an import, which would swallow that or stay half done, a moment later."""
    if hasattr(signal, "SIGALRM") and _is_importing(frame):
        signal.setitimer(signal.ITIMER_REAL, IMPORT_SECONDS)
        return
    _stop_alarm()  # nothing may interrupt the cleaning up
    raise KeyboardInterrupt


def _stop_alarm() -> None:
    """Forgets that it was to be looked again."""
    if hasattr(signal, "SIGALRM"):
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether something is being imported for the command."""
    while frame is not None and frame.f_code is not execute.__code__:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _bug(error: Exception) -> InternalError:
    """Describes an unforeseen exception by its type and place only: its text might quote a record."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-4:])
    return InternalError(
        "elldelta met a situation it does not understand. This is a bug of ours.",
        found=f"{type(error).__name__} in {places}.",
        remedy="Please report the command and this line; no data are in it.",
    )
