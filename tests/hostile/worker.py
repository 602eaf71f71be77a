"""Runs commands in a process that may die: each line in is a command, each line out a report.

python worker.py FOLDER < commands
"""

import contextlib
import io
import json
import os
import resource
import sys

from elldelta.cli.main import execute

MOST_MEMORY = 6 << 30


def main():
    os.chdir(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = execute(json.loads(line))
        report = {
            "code": code,
            "text": out.getvalue() + err.getvalue(),
        }
        sys.__stdout__.write(json.dumps(report) + "\n")
        sys.__stdout__.flush()


if __name__ == "__main__":
    main()
