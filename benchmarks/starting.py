"""What whoever installs the package waits for: the first demo, which compiles, and every command after it.

An environment is made for this, with what the package needs and nothing else: where pandas is there, too,
some libraries load it. Whole commands, each in a process of its own, in processor time: Python starts,
libraries are loaded, files are read and written. The commands are those of the README's tour, on the files
that the demo leaves, and the default plan on UCI Adult. Beside them what is compiled and what that costs, and
what the dependencies take on the disk.
"""

import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks._adult import ADULT
from benchmarks._result import Fact

FIRST_ALLOWED, LATER_ALLOWED = 15.0, 1.5
"""Seconds of processor time."""
UNSAFE = 3
"""With this code an audit ends that finds people given away, as one of the tour does."""
HOME = Path(__file__).parents[1]
NOT_NEEDED = {"elldelta", "pip", "setuptools"}
"""What stands in a new environment beside the dependencies."""
ON_ADULT = (
    "schema infer adult.csv --qi sex,race,marital-status,age,education --sensitive occupation -o adult.toml",
    "estimate adult.csv --schema adult.toml -o adult.parquet",
    "plan adult.parquet --ell 5 --releases 2 --records 30000 -o adult.json",
)

_COMPILING = """
import json, sys, time
import numba.core.event as event
from elldelta.cli.main import execute

class Costs(event.Listener):
    # What the library compiles for a function of ours counts as part of it.
    def __init__(self):
        self.open, self.seconds = [], {}
    def on_start(self, begun):
        self.open.append([begun.data["dispatcher"].py_func, time.process_time(), 0.0])
    def on_end(self, ended):
        function, start, within = self.open.pop()
        spent = time.process_time() - start
        if function.__module__.startswith("elldelta"):
            self.seconds[function.__name__] = spent - within
            within = spent
        if self.open:
            self.open[-1][2] += within

costs = Costs()
with event.install_listener("numba:compile", costs):
    assert execute(sys.argv[1:]) == 0
print()
print(json.dumps(costs.seconds))
"""


def run():
    with tempfile.TemporaryDirectory(prefix="elldelta-bench-") as name:
        folder = Path(name)
        programs = installed(folder / "environment")
        yield from starting(folder, programs)
        yield from compiling(folder, programs)
        for package, n_bytes in dependencies(folder / "environment").items():
            yield Fact("dependencies", {"package": package, "bytes": n_bytes})


def installed(folder):
    """The folder of the programs of a new environment, in which nothing was compiled yet."""
    venv.create(folder, with_pip=True)
    programs = folder / Path(sys.executable).parent.name
    install = ["-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", "--editable", "."]
    subprocess.run([programs / "python", *install], cwd=HOME, check=True)
    return programs


def compiled_in(folder):
    """The environment variables of commands that find nothing compiled but what they leave in a folder."""
    return os.environ | {"NUMBA_CACHE_DIR": str(folder)}


def starting(folder, programs):
    """The first demo of an installation, the second, and the commands of the tour."""
    demo, variables = "demo --output demo --overwrite", compiled_in(folder / "compiled")
    first, again = (spent(folder, programs, demo, variables) for _ in range(2))
    yield Fact("starting", {"command": "demo, the first time", "seconds": first})
    yield Fact("starting", {"command": "demo, again", "seconds": again})
    yield "the first demo: processor time in seconds", first, FIRST_ALLOWED
    lines = [(line, folder / "demo") for line in tour()]
    if ADULT.exists():
        (folder / "adult.csv").symlink_to(ADULT)
        lines += [(line, folder) for line in ON_ADULT]
    slowest = 0.0
    for line, place in lines:
        seconds = spent(place, programs, line, variables)
        slowest = max(slowest, seconds)
        yield Fact("starting", {"command": line, "seconds": seconds})
    yield "the slowest command after it: processor time in seconds", slowest, LATER_ALLOWED


def tour():
    """The commands that the README takes a new user through."""
    readme = (HOME / "README.md").read_text(encoding="utf-8")
    shown = [line for line in readme.splitlines() if line.startswith("$ elldelta ")]
    return [line.removeprefix("$ elldelta ").partition(" #")[0].strip() for line in shown]


def compiling(folder, programs):
    """What each compiled function costs, its parts included that are compiled for it alone."""
    shown = subprocess.run(
        [programs / "python", "-c", _COMPILING, "demo", "--output", "other"],
        cwd=folder,
        env=compiled_in(folder / "compiled again"),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    costs = json.loads(shown.stdout.splitlines()[-1])
    for name, seconds in sorted(costs.items(), key=lambda item: -item[1]):
        yield Fact("compiling", {"function": name, "seconds": seconds})


def spent(folder, programs, line, variables):
    """The processor time of a whole command, of all its threads and processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [programs / "elldelta", *line.split()],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, UNSAFE):
        raise RuntimeError(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def dependencies(environment):
    """What all that the package needs, without extras, takes on the disk, the largest first."""
    found = {}
    [packages] = environment.glob("lib/python*/site-packages")
    for package in importlib.metadata.distributions(path=[str(packages)]):
        if package.name not in NOT_NEEDED:
            files = [package.locate_file(file) for file in package.files or ()]
            found[package.name] = sum(file.stat().st_size for file in files if file.is_file())
    return dict(sorted(found.items(), key=lambda item: -item[1]))
