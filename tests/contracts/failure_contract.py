"""How every engine must fail: clearly, without a partial file, without a cell in any message."""

import datetime as dt
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.contracts.placement import Placement, needs

from elldelta.audit.releases import Understanding
from elldelta.engines.table import withheld
from elldelta.errors import DataError, ElldeltaError, FileError, ParameterError
from elldelta.files import AtomicFiles, CsvFormat
from elldelta.model.counting import count
from elldelta.model.persons import count_persons
from elldelta.release.content import count_release
from elldelta.release.publishable import Publishable
from elldelta.release.quarantine import write_quarantine
from elldelta.release.rows import write_release
from elldelta.schema.infer import propose
from elldelta.schema.label_columns import rules_of, understand_column
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema

CANARY = "Canary7Secret"
SCHEMA = Schema((Column("a", Integers(0, 9)),), Column("s", Categories(("x", "y"))))


def everything_said(problem):
    """All texts that hang on to an exception: itself, its causes and contexts, and their tracebacks."""
    said, todo, seen = [], [problem], set()
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        said += [str(current), repr(current), repr(current.args), repr(vars(current))]
        said += traceback.format_exception(current)
        todo += [current.__cause__, current.__context__]
    return "\n".join(said)


def one_class(counted):
    counts = counted.counts
    labels = [tuple("*" for _ in counted.schema.names)] if counts.n_combinations else []
    shown = counts.by_class(np.zeros(counts.n_combinations, int), len(labels))
    return Publishable(counted.schema, None, labels, shown, counts.accounting)


def finished(run, patience):
    """What a process said; it is ended if it does not end by itself."""
    try:
        return run.communicate(timeout=patience)[0]
    finally:
        run.kill()


def snapshot(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()
    }


def bad_files(folder):
    """Name, file, and the error it must lead to; every cell carries the canary."""
    good = pa.table({"a": [1, 2], "s": [CANARY, "x"], "name": [CANARY, CANARY]})
    pq.write_table(good, folder / "good.parquet")
    whole = (folder / "good.parquet").read_bytes()
    (folder / "truncated.parquet").write_bytes(whole[: len(whole) * 2 // 3])
    # The end is whole, the pages are not: only reading the records shows it.
    start = whole.index(b"PAR1") + 4
    (folder / "scrambled.parquet").write_bytes(whole[:start] + bytes(60) + whole[start + 60 :])
    (folder / "text.parquet").write_text(f"a,s\n1,{CANARY}\n" * 20)
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "latin.csv").write_bytes(f"a,s\n1,{CANARY}\xe9\n".encode("latin-1"))
    (folder / "latin_header.csv").write_bytes(f"a,{CANARY}\xe9\n1,x\n".encode("latin-1"))
    (folder / "ragged.csv").write_text(f"a,s\n1,x\n{CANARY}\n1,x,{CANARY}\n")
    (folder / "long.csv").write_text(f"a,s\n1,x\n2,x,{CANARY}\n")
    (folder / "quote.csv").write_text(f'a,s\n1,"{CANARY}\n2,x\n')
    (folder / "huge.csv").write_text(f"a,s\n1,{CANARY * 300_000}\n")
    (folder / "no_header.csv").write_text(f"{CANARY},{CANARY}2\n1,x\n")
    (folder / "twice.csv").write_text(f"{CANARY},s,{CANARY}\n1,x,2\n")
    (folder / "missing.csv").write_text(f"a,b\n1,{CANARY}\n")
    (folder / "broken.csv.gz").write_bytes(gzip.compress(f"a,s\n1,{CANARY}\n".encode() * 99)[:40])
    (folder / "strange.xyz").write_text(CANARY)
    pq.write_table(pa.table([[1], ["x"], [2]], names=["a", "s", "a"]), folder / "twice.parquet")
    return {
        "truncated.parquet": FileError,
        "scrambled.parquet": FileError,
        "text.parquet": FileError,
        "empty.parquet": FileError,
        "empty.csv": FileError,
        "latin.csv": FileError,
        "latin_header.csv": FileError,
        "ragged.csv": FileError,
        "long.csv": FileError,
        "quote.csv": FileError,
        "huge.csv": FileError,
        "no_header.csv": DataError,
        "twice.csv": DataError,
        "twice.parquet": DataError,
        "missing.csv": DataError,
        "broken.csv.gz": FileError,
        "strange.xyz": FileError,
        "none.csv": FileError,
        "none.parquet": FileError,
        "none*.csv": FileError,
        "good.parquet": DataError,
    }


class FailureContract(Placement):
    """Subclasses give `start`, which starts the engine, and the name that another process starts it by."""

    patience = 300
    """Seconds after which another process counts as stuck."""
    no_room = "There is no room"
    """What is said when the limit on the size of files is reached."""

    @pytest.fixture
    def engine_settings(self):
        """What another process must say to start the engine."""
        return {"threads": 2}

    def test_bad_files_are_refused_without_a_cell_and_stay_as_they_are(self, engine, tmp_path):
        needs(engine, "files")
        files = bad_files(tmp_path)
        if "formats" not in engine.capabilities:
            files = {name: error for name, error in files.items() if name.endswith(".parquet")}
        before = snapshot(tmp_path)
        for name, expected in files.items():
            with pytest.raises(ElldeltaError) as refusal:
                count(engine.open(tmp_path / name), SCHEMA)
            assert type(refusal.value) is expected, (name, refusal.value)
            assert refusal.value.exit_code == 2
            assert refusal.value.problem, name
            assert refusal.value.found, name
            assert refusal.value.remedy, name
            assert CANARY not in everything_said(refusal.value), name
        assert snapshot(tmp_path) == before

    def test_lines_of_broken_csv_files_are_named(self, engine, tmp_path):
        needs(engine, "formats")
        bad_files(tmp_path)
        with pytest.raises(FileError, match="Line 3"):
            count(engine.open(tmp_path / "ragged.csv"), SCHEMA)

    def test_sources_of_the_wrong_type(self, engine):
        for source in (7, None):
            with pytest.raises(ParameterError):
                engine.open(source)

    def test_sources_that_are_none(self, engine, tmp_path):
        needs(engine, "files")
        (tmp_path / "empty").mkdir()
        first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
        pq.write_table(pa.table({"a": [1], "s": ["x"]}), first)
        pq.write_table(pa.table({"b": [1], "t": ["x"]}), second)
        for source in (tmp_path / "empty", [], [first, tmp_path / "*.parquet"]):
            with pytest.raises(FileError):
                engine.open(source)
        with pytest.raises(DataError, match="no column in common"):
            engine.open([first, second])
        pq.write_table(pa.table({"a": [1], "t": ["x"]}), second)
        with pytest.raises(DataError, match="others lack it"):
            count(engine.open([first, second]), SCHEMA)
        for wrong in ({"encoding": "klingon"}, {"separator": ";;"}, {"separator": '"'}, {"quote": "\n"}):
            with pytest.raises(ParameterError):
                CsvFormat(**wrong)

    @pytest.mark.parametrize("kind", ["text", "typed", "csv"])
    def test_the_canary_is_in_no_message(self, engine, tmp_path, kind):
        cells = [CANARY, CANARY, None]
        table = pa.table(dict.fromkeys(("i", "d", "c", "b", "s", "k"), cells))
        if kind == "typed":
            table = table.set_column(0, "i", pa.array([["x", CANARY]] * 3))
        source = table
        if kind == "csv":
            source = tmp_path / "t.csv"
            needs(engine, "formats")
            source.write_text("i,d,c,b,s,k\n" + f"{','.join([CANARY] * 6)}\n,,,,,\n" * 3)
        domains = {
            "i": Integers(0, 9),
            "d": Dates(dt.date(2000, 1, 1), dt.date(2001, 1, 1)),
            "c": Categories(("x",)),
            "b": Bins((0, 1)),
        }
        said = []
        for name, domain in domains.items():
            for nulls in ("refuse", "suppress"):
                schema = Schema((Column(name, domain, nulls),), Column("s", Categories(("x",)), nulls))
                with pytest.raises(ElldeltaError) as refusal:
                    count(engine.open(source), schema)
                said.append(everything_said(refusal.value))
        with pytest.raises(ElldeltaError) as refusal:
            propose(engine.open(source), ["i"], "s", most_categories=0)
        said.append(everything_said(refusal.value))
        with pytest.raises(ElldeltaError) as refusal:
            propose(engine.open(source), ["c"], "s", bins={"c": f"width:{CANARY}"})
        said.append(everything_said(refusal.value))
        strange = understand_column("c", [{CANARY}], rules_of(Column("c", Categories(("x",)))))
        with pytest.raises(ElldeltaError) as refusal:
            Understanding((strange,), ("x",), np.zeros(1, np.int64), ()).check()
        said.append(everything_said(refusal.value))
        assert CANARY not in "\n".join(said)

    def test_a_mixed_data_frame_is_refused_without_a_cell(self, engine):
        import pandas as pd

        with pytest.raises(DataError) as refusal:
            engine.open(pd.DataFrame({"a": [1, CANARY, b"x"]}, dtype=object))
        assert CANARY not in everything_said(refusal.value)

    def test_files_that_cannot_be_one_table_fail_without_a_cell(self, engine, tmp_path):
        needs(engine, "files")
        pq.write_table(pa.table({"a": [[1], [2]], "s": ["x", CANARY]}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"a": [CANARY, CANARY], "s": ["x", "y"]}), tmp_path / "2.parquet")
        with pytest.raises(ElldeltaError) as refusal:
            count(engine.open(tmp_path), SCHEMA)
        assert refusal.value.exit_code == 2
        assert CANARY not in everything_said(refusal.value)

    @pytest.mark.parametrize("suffix", ["parquet", "csv"])
    def test_refused_outputs_leave_everything_as_it_was(self, engine, tmp_path, suffix):
        table = pa.table({"a": [1, 2, 99], "s": ["x", "y", "x"], "name": [CANARY] * 3})
        counted = count(engine.open(table), SCHEMA, unknown="quarantine")
        existing = tmp_path / f"old.{suffix}"
        existing.write_text("precious")

        def write(path, second=None, problem=None):
            with AtomicFiles() as files:
                write_release(one_class(counted), path, files)
                if second:
                    write_quarantine(counted, second, files)
                if problem:
                    raise problem

        attempts = [
            ({"path": existing}, FileError),
            ({"path": tmp_path / f"new.{suffix}", "second": existing}, FileError),
            ({"path": tmp_path / "none" / f"new.{suffix}"}, FileError),
            ({"path": tmp_path / "new.xyz"}, FileError),
            ({"path": tmp_path / "new.csv.gz"}, ParameterError),
            ({"path": tmp_path / f"new.{suffix}", "problem": KeyboardInterrupt()}, KeyboardInterrupt),
        ]
        for arguments, expected in attempts:
            with pytest.raises(expected) as refusal:
                write(**arguments)
            assert CANARY not in everything_said(refusal.value)
            assert [path.name for path in tmp_path.iterdir()] == [existing.name]
            assert existing.read_text() == "precious"
        write(tmp_path / f"new.{suffix}", tmp_path / f"bad.{suffix}")
        assert len(list(tmp_path.iterdir())) == 3
        assert (tmp_path / f"bad.{suffix}").stat().st_mode & 0o077 == 0  # whole records: for their owner only

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_an_input_that_changes_after_counting_is_noticed(self, engine, tmp_path, suffix):
        needs(engine, "files" if suffix == "parquet" else "formats")
        path = tmp_path / f"t.{suffix}"

        def fill(n):
            table = pa.table({"a": [99, 98][:n], "s": ["x", "y"][:n], "name": ["n"] * n})
            pq.write_table(table, path) if suffix == "parquet" else pacsv.write_csv(table, path)

        fill(2)
        counted = count(engine.open(path), SCHEMA, unknown="quarantine")
        fill(1)
        with pytest.raises(ElldeltaError) as refusal, AtomicFiles() as files:
            write_quarantine(counted, tmp_path / "q.parquet", files)
        assert "meanwhile" in str(refusal.value)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    def test_classes_that_do_not_fit_the_table_are_refused(self, engine):
        counted = count(engine.open(pa.table({"a": [1, 2], "s": ["x", "y"]})), SCHEMA)
        account = counted.counts.accounting
        for shown in ([[1, 1], [0, 0]], [[1, 1, 0]], [1, 1]):
            with pytest.raises(ParameterError, match="1 class and 2 sensitive values are counted"):
                Publishable(SCHEMA, None, [("*",)], np.array(shown), account)
        for labels in ([("*", "*")], [("*",), ("*",)]):
            with pytest.raises(ParameterError, match="labels of its own"):
                Publishable(SCHEMA, None, labels, np.ones((len(labels), 2), int), account)

    def test_a_release_without_the_columns_is_refused(self, engine):
        with pytest.raises(DataError, match="missing"):
            count_release(engine.open(pa.table({"a": ["*"]})), ["a"], "s")

    @pytest.mark.parametrize("suffix", ["parquet", "csv"])
    @pytest.mark.parametrize("written", ["release", "quarantine"])
    def test_a_full_disk_is_named_and_leaves_nothing(self, engine_settings, tmp_path, suffix, written):
        with self._child(engine_settings, "full", tmp_path / f"TURN.{suffix}", written) as run:
            said = finished(run, self.patience)
        assert run.returncode == 2, said
        assert re.search(self.no_room, said), said
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("moment", ["count", "quarantine", "release"])
    def test_an_interrupt_is_heard_and_leaves_nothing(self, engine_settings, tmp_path, moment):
        with self._child(engine_settings, moment, tmp_path / "TURN.parquet", moment) as run:
            first = run.stdout.readline()
            time.sleep(0.4)
            run.send_signal(signal.SIGINT)
            said = finished(run, self.patience)
        assert first == "ready\n"
        assert run.returncode == 130, said
        assert list(tmp_path.iterdir()) == []

    def test_what_goes_wrong_while_cleaning_up_does_not_hide_an_interrupt(self, engine, monkeypatch):
        table = engine.open(self.place(engine, pa.table({"a": [1, 99], "s": ["x", "y"], "p": [1, 2]})))
        counted = count(table, SCHEMA, unknown="quarantine")

        def interrupted(_):
            raise KeyboardInterrupt
            yield

        def broken(*_):
            raise withheld(RuntimeError())

        monkeypatch.setattr(engine, "fetch", interrupted)
        monkeypatch.setattr(engine, "discard", broken)
        for read in (
            lambda: count(table, SCHEMA),
            lambda: list(table.count_texts(["a"])),
            lambda: count_persons(counted, "p"),
            lambda: propose(table, ["a"], "s"),
        ):
            with pytest.raises(KeyboardInterrupt):
                read()

    def _child(self, engine_settings, *arguments):
        return subprocess.Popen(
            [sys.executable, "-W", "error", Path(__file__).with_name("failing_run.py"), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "ENGINE": self.engine_name, "ENGINE_SETTINGS": json.dumps(engine_settings)},
        )
