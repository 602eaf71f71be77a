"""Releases through a ledger, as owners run them: admission, differencing, refusals, and kill -9."""

import itertools
import json
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elldelta.cli.main import execute


def write_people(path, n_people, seed, n_values=8):
    rng = np.random.default_rng(seed)
    pq.write_table(
        pa.table(
            {
                "age": rng.integers(20, 60, n_people),
                "region": np.array(["n", "s", "e", "w"])[rng.integers(0, 4, n_people)],
                "disease": np.array([f"d{number}" for number in range(n_values)])[
                    rng.choice(
                        n_values, n_people, p=0.8 ** np.arange(n_values) / sum(0.8 ** np.arange(n_values))
                    )
                ],
            }
        ),
        path,
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A fine plan for two releases, and the records of several owners."""
    folder = tmp_path_factory.mktemp("world")
    write_people(folder / "past.parquet", 20_000, 0)
    for number in range(1, 6):
        write_people(folder / f"owner_{number}.parquet", 2_000, number)
    steps = (
        ("schema", "infer", "past.parquet", "--qi", "age,region", "--sensitive", "disease",
         "-o", "schema.toml"),
        ("estimate", "past.parquet", "--schema", "schema.toml", "-o", "model.parquet"),
        ("plan", "model.parquet", "--ell", "3", "--releases", "2", "--records", "2000",
         "-o", "plan.json"),
    )  # fmt: skip
    for step in steps:
        words = [str(folder / word) if "." in word and word[0] != "0" else word for word in step]
        assert execute([*words, "--json"]) == 0
    return folder


def release(world, folder, owner, source, *more):
    return execute(
        [
            "release", str(world / source), "--plan", str(world / "plan.json"),
            "-o", str(folder / f"{owner}_{source}"), "--ledger", str(folder / "book.ledger"),
            "--owner", owner, "--json", *more,
        ]
    )  # fmt: skip


def test_more_than_t_releases_are_admitted_and_every_group_is_safe(world, tmp_path, capsys):
    files = []
    for number in range(1, 6):
        assert release(world, tmp_path, f"o{number}", f"owner_{number}.parquet", "--leave-out") == 0
        files.append(str(tmp_path / f"o{number}_owner_{number}.parquet"))
    capsys.readouterr()
    assert execute(["audit", *files, "--json"]) == 0
    audit = json.loads(capsys.readouterr().out)
    assert audit["diversity_min_any"] >= 3
    assert execute(["ledger", "show", str(tmp_path / "book.ledger"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["releases"]) == 5
    assert shown["promises"][0]["room_min"] >= 0
    book = str(tmp_path / "book.ledger")
    plan = str(world / "plan.json")
    assert execute(["ledger", "verify", book, "--plan", plan, "--release", files[2], "--json"]) == 0
    assert execute(["verify", files[3], "--plan", plan, "--json"]) == 0


def test_a_second_release_of_an_owner_is_refused_and_other_people_have_another_owner(world, tmp_path, capsys):
    """Subtracting its two tables would show who came and went, whatever each of them shows."""
    assert release(world, tmp_path, "o", "owner_1.parquet") == 0
    before = (tmp_path / "book.ledger").read_bytes()
    capsys.readouterr()
    assert release(world, tmp_path, "o", "owner_2.parquet", "--leave-out") == 3
    assert "published under this plan before" in json.loads(capsys.readouterr().out)["error"]["problem"]
    assert (tmp_path / "book.ledger").read_bytes() == before
    assert not (tmp_path / "o_owner_2.parquet").exists()
    assert release(world, tmp_path, "o, second ward", "owner_2.parquet", "--leave-out") == 0


def test_the_same_release_is_not_admitted_twice(world, tmp_path):
    assert release(world, tmp_path, "o", "owner_1.parquet") == 0
    before = (tmp_path / "book.ledger").read_bytes()
    assert release(world, tmp_path, "o", "owner_1.parquet", "--overwrite") == 0
    assert (tmp_path / "book.ledger").read_bytes() == before


def test_a_refusal_leaves_everything_as_it_was(world, tmp_path, capsys):
    """Owners are refused by certificate or ledger; nothing is written."""
    write_people(tmp_path / "tiny.parquet", 40, 9)
    before = sorted(path.name for path in tmp_path.iterdir())
    code = execute(
        [
            "release", str(tmp_path / "tiny.parquet"), "--plan", str(world / "plan.json"),
            "-o", str(tmp_path / "out.parquet"), "--json",
        ]
    )  # fmt: skip
    assert code == 3
    assert "records" in json.loads(capsys.readouterr().out)["error"]["problem"]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "more", [("--ledger", "book.ledger"), ("--owner", "o")], ids=["no owner", "no ledger"]
)
def test_ledger_and_owner_go_together(world, tmp_path, capsys, more):
    code = execute(
        [
            "release", str(world / "owner_1.parquet"), "--plan", str(world / "plan.json"),
            "-o", str(tmp_path / "out.parquet"), *more, "--json",
        ]
    )  # fmt: skip
    assert code == 2
    assert "--owner" in json.loads(capsys.readouterr().out)["error"]["remedy"]


KILLED_AT_STEP = """
import os, signal, sys

left = int(sys.argv.pop(1))

def counted(call):
    def step(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return step

for name in ("fsync", "link", "replace", "unlink"):
    setattr(os, name, counted(getattr(os, name)))
from elldelta.cli.main import run
run()
"""
"""The command line, killed before a certain change on disk: the same one however fast the machine is."""


@pytest.mark.slow
def test_kill_9_leaves_the_old_state_or_the_whole_release(world, tmp_path):
    """Killed before each of its steps; after the next release everything that has a line has its files."""

    def run(number, step):
        target = tmp_path / f"release_{number}.parquet"
        finished = subprocess.run(
            [
                sys.executable, "-c", KILLED_AT_STEP, str(step), "release", str(world / "owner_1.parquet"),
                "--plan", str(world / "plan.json"), "--ledger", str(tmp_path / "book.ledger"), "--json",
                "-o", str(target), "--owner", f"o{number}",
            ],
            stdout=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
        # The table never lies there without its manifest.
        assert not target.exists() or target.with_name(target.name + ".manifest.json").exists()
        return finished.returncode

    steps = itertools.count(1, 2)  # every other one, for each takes a second
    for step in steps:
        code = run(step, step)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    last = next(steps)
    assert last > 9  # so many changes that there was something to interrupt
    assert run(last, 0) == 0
    lines = [json.loads(line) for line in (tmp_path / "book.ledger").read_text().splitlines()]
    owners = {line["owner"] for line in lines if "owner" in line}
    for number in range(1, last + 1):
        target = tmp_path / f"release_{number}.parquet"
        is_there = target.exists() and target.with_name(target.name + ".manifest.json").exists()
        assert is_there == (f"o{number}" in owners), number
    assert (
        execute(["ledger", "verify", str(tmp_path / "book.ledger"), "--plan", str(world / "plan.json")]) == 0
    )


def test_a_release_that_fits_the_copy_of_a_ledger_is_admitted_as_it_is(world, tmp_path, capsys):
    plan, book = str(tmp_path / "plan.json"), str(tmp_path / "book.ledger")
    ask = ["plan", str(world / "model.parquet"), "--ell", "3", "--records", "2000", "--owners", "2"]
    assert execute([*ask, "-o", plan, "--json"]) == 0
    first = ["release", str(world / "owner_4.parquet"), "--plan", plan, "-o", str(tmp_path / "4.parquet")]
    assert execute([*first, "--owner", "o4", "--ledger", book]) == 0
    for number in (1, 2, 3):
        source, target = str(world / f"owner_{number}.parquet"), str(tmp_path / f"{number}.parquet")
        into = ["release", source, "--plan", plan, "-o", target, "--owner", f"o{number}", "--leave-out"]
        before = (tmp_path / "book.ledger").read_bytes()
        assert execute([*into, "--ledger", book, "--ledger-copy", book]) == 2
        assert execute([*into, "--ledger-copy", book]) == 0
        assert "elldelta remote register" in capsys.readouterr().out
        assert (tmp_path / "book.ledger").read_bytes() == before
        tried = (tmp_path / f"{number}.parquet").read_bytes()
        assert execute([*into, "--ledger", book, "--overwrite"]) == 0
        assert (tmp_path / f"{number}.parquet").read_bytes() == tried
    capsys.readouterr()
    assert execute(["ledger", "show", book, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["owners"] == 4
    assert (shown["promises"][0]["room_min"], len(shown["releases"])) == (0, 4)
    assert execute(["ledger", "show", book]) == 0
    told = capsys.readouterr().out
    assert "one more value in " in told  # no word of a ledger that is full: others may come
    assert "is refused, others may come." in told


def test_classes_that_move_need_a_key_and_a_name(world, tmp_path, capsys):
    ask = [
        "plan",
        str(world / "model.parquet"),
        "--ell",
        "3",
        "--releases",
        "1",
        "--records",
        "2000",
        "--merge-risk",
        "0.2",
    ]
    assert execute([*ask, "-o", str(tmp_path / "plan.json"), "--json"]) == 0
    assert (
        execute(["signature", "key", str(tmp_path / "key.pem"), "--public", str(tmp_path / "key.pub")]) == 0
    )
    into = [
        "release", str(world / "owner_1.parquet"), "--plan", str(tmp_path / "plan.json"),
        "-o", str(tmp_path / "release.parquet"), "--overwrite", "--json",
    ]  # fmt: skip
    capsys.readouterr()
    for more in ([], ["--key", str(tmp_path / "key.pem")], ["--announced", "2026"]):
        assert execute([*into, *more]) == 2
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["options"] == ["--key", "--announced"]
    chosen = ["--key", str(tmp_path / "key.pem"), "--announced", "2026"]
    assert execute([*into, *chosen, "--leave-out"]) == 2
    found = []
    for _ in range(2):
        capsys.readouterr()
        assert execute([*into, *chosen]) == 0
        found.append((json.loads(capsys.readouterr().out), (tmp_path / "release.parquet").read_bytes()))
    assert found[0] == found[1]
    assert found[0][0]["moving"]["announced"] == "2026"
    assert execute(["verify", str(tmp_path / "release.parquet"), "--plan", str(tmp_path / "plan.json")]) == 0
