"""The ledger file: admission, the chain, races, and what a crash leaves behind."""

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from elldelta.core.certificate import certify
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown, Values
from elldelta.errors import FileError, InternalError, ParameterError, RefusedError
from elldelta.files.temporary import create, staged_name
from elldelta.ledger.chain import parse_chain
from elldelta.ledger.ledger import OpenLedger, verify_ledger
from elldelta.ledger.lines import VoidLine, line_bytes
from elldelta.ledger.pending import Pending, pending_path

PLAN = "sha256:" + "1" * 64
VALUES = Values.of([[0, 1, 2, 3], [1, 2, 3, 4]], 5, ell=2, releases=2)
PROMISES = (VALUES,)
FULL = np.ones((2, 5), dtype=np.int64)


def without(*missing):
    """A table that shows everything but some (class, value) cells."""
    counts = FULL.copy()
    for base, value in missing:
        counts[base, value] = 0
    return Shown.of(counts)


def content(number):
    return f"sha256:{number:064d}"


def stage(folder, name, text="table"):
    """A file under a temporary name, as a release is written."""
    temporary = folder / staged_name(name)
    create(temporary, 0o600, folder=False)
    temporary.write_text(text)
    return {temporary: folder / name}


def publish(path, shown, *, owner="A", number=1, staged=None, promises=PROMISES, **options):
    with OpenLedger.open(path, PLAN, promises) as ledger:
        admission = ledger.check(certify(ledger.promises, shown), owner=owner, content_digest=content(number))
        return ledger.commit(admission, staged or {}, **options)


def visible(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "releases.ledger"


class TestAdmission:
    @pytest.mark.parametrize("again", ["klinik Sued", "KLINIK SUED", "Klinik  Sued"])
    def test_another_spelling_makes_no_second_owner(self, path, again):
        publish(path, without((0, 0)), owner="Klinik Sued", number=1)
        before = path.read_bytes()
        with pytest.raises(RefusedError, match="nearly that of"):
            publish(path, without((0, 0)), owner=again, number=2)
        assert path.read_bytes() == before
        publish(path, without((0, 0)), owner="Klinik Sued 2", number=2)

    @pytest.mark.parametrize(
        "name", ["\u041dosp-A", "H\u043esp-A", "\uff28osp-A", "Hosp\u2010A", "Klinik S\u00fcd"]
    )
    def test_a_name_with_letters_that_look_like_others_is_refused(self, path, name):
        publish(path, without((0, 0)), owner="Hosp-A", number=1)
        before = path.read_bytes()
        with pytest.raises(ParameterError, match="ASCII"):
            publish(path, without((0, 0)), owner=name, number=2)
        assert path.read_bytes() == before

    def test_the_union_of_misses_decides(self, path):
        publish(path, without((0, 0)), owner="A", number=1)
        publish(path, without((0, 0)), owner="B", number=2)  # misses nothing new
        publish(path, without((0, 1)), owner="C", number=3)
        before = path.read_bytes()
        with pytest.raises(RefusedError, match="break what the plan promises") as refusal:
            publish(path, without((0, 2)), owner="D", number=4)
        assert refusal.value.found == "Too few of the values of 'sensitive' that the plan counts on."
        assert refusal.value.remedy
        assert path.read_bytes() == before
        publish(path, without((1, 4)), owner="D", number=4)
        report = verify_ledger(path, plan_digest=PLAN, promises=PROMISES)
        assert report.n_releases == 4
        assert report.owners == ("A", "B", "C", "D")
        assert report.room.tolist() == [0, 1]
        assert "4 releases" in report.promise
        assert "at least 2" in report.promise

    def test_for_people_who_move_the_worst_class_of_each_release_counts(self, path):
        moving = (Values.of([[0, 1, 2, 3]] * 2, 5, ell=2, releases=2, ranges=np.zeros(2, int)),)
        tables = [FULL.copy() for _ in range(3)]
        tables[0][0, 0] = tables[1][1, 1] = tables[2][0, 2] = 0
        made = [Shown.of(table) for table in tables]
        publish(path, made[0], owner="A", number=1, promises=moving)
        publish(path, made[1], owner="B", number=2, promises=moving)
        with pytest.raises(
            RefusedError, match="break what the plan promises"
        ):  # class by class there is room for it
            publish(path, made[2], owner="C", number=3, promises=moving)
        report = verify_ledger(path, plan_digest=PLAN, promises=moving)
        assert report.room.tolist() == [0, 0]
        assert "also if they move" in report.promise
        still = (Values.of([[0, 1, 2, 3]] * 2, 5, ell=2, releases=2),)
        with pytest.raises(FileError, match="other rules"):  # nobody goes on with it as if people stayed
            publish(path, made[2], owner="C", number=3, promises=still)

    def test_more_releases_than_the_certificate_promises(self, path):
        for number in range(10):
            publish(path, without((0, 0), (1, 1)), owner=f"owner {number}", number=number)
        assert verify_ledger(path).n_releases == 10 > VALUES.releases

    def test_the_same_release_twice_is_one(self, path, tmp_path):
        first = publish(path, without((0, 0)), staged=stage(tmp_path, "a.csv"))
        again = publish(path, without((0, 0)), staged=stage(tmp_path, "copy.csv"))
        assert again == first
        assert verify_ledger(path).n_releases == 1
        assert (tmp_path / "a.csv").exists()
        assert (tmp_path / "copy.csv").exists()
        publish(path, without((0, 0)), owner="B")
        assert verify_ledger(path).n_releases == 2

    def test_an_owner_publishes_once_and_its_classes_are_written_down(self, path):
        merged = Shown.of(FULL, Partition.single(2))
        publish(path, merged, owner="A", number=1)
        before = path.read_bytes()
        for again in (without(), Shown.of(2 * FULL, Partition.single(2))):
            with pytest.raises(RefusedError, match="published under this plan before") as refusal:
                publish(path, again, owner="A", number=2)
            assert "another name" in refusal.value.remedy
        assert path.read_bytes() == before
        publish(path, without(), owner="B", number=2)
        publish(path, merged, owner="A", number=1)  # the very same once more, as after a crash
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.chain.n_releases == 2
            assert [entry.merged for entry in ledger.chain.active] == [((0, 1),), ()]
            assert [ledger.has_published(owner) for owner in "ABC"] == [True, True, False]

    def test_suppression_is_written_down(self, path):
        counts = FULL.copy()
        counts[1] = [5, 0, 0, 0, 0]
        entry = publish(path, Shown.of(counts, left_out=[False, True]))
        assert entry.suppressed == (1,)
        assert entry.misses == ()
        assert entry.certified

    def test_a_release_beyond_its_allowance_is_marked(self, path):
        entry = publish(path, without((0, 0), (0, 1)))
        assert not entry.certified
        assert entry.misses == ((0, 0, 1),)

    def test_misses_are_told_in_terms_of_the_plan(self, path):
        publish(path, without((0, 0)), owner="A", number=1)
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            counts = FULL.copy()
            counts[0, 1] = 0
            shown = Shown.of(counts)
            assert certify(ledger.state.left(), shown).is_certified
            entry = ledger.commit(
                ledger.check(certify(ledger.promises, shown), owner="B", content_digest=content(2)), {}
            )
        assert entry.misses == ((0, 1),)

    @pytest.mark.parametrize("owner", ["", " A", "a\nb", "x" * 201])
    def test_names_that_are_no_names(self, path, owner):
        with pytest.raises(ParameterError, match="owner"):
            publish(path, without(), owner=owner)

    def test_a_check_from_before_another_commit_is_not_committed(self, path):
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            old = ledger.check(certify(PROMISES, without((0, 0))), owner="A", content_digest=content(1))
            other = certify(PROMISES, without((0, 1)))
            ledger.commit(ledger.check(other, owner="B", content_digest=content(2)), {})
            with pytest.raises(InternalError, match="changed"):
                ledger.commit(old, {})
        with pytest.raises(InternalError, match="closed"):
            ledger.commit(old, {})

    def test_other_plans_and_other_rules(self, path):
        publish(path, without())
        with pytest.raises(FileError, match="another plan") as refusal:
            OpenLedger.open(path, "sha256:" + "2" * 64, PROMISES)
        assert "one ledger per plan" in refusal.value.remedy
        with pytest.raises(FileError, match="another plan"):
            verify_ledger(path, plan_digest="sha256:" + "2" * 64)
        strict = (Values(VALUES.witnesses, VALUES.allowances, 2, 2, min_records=3),)
        with pytest.raises(FileError, match="other rules"):
            OpenLedger.open(path, PLAN, strict)
        fewer = (Values.of([[0, 1, 2], [1, 2, 3, 4]], 5, ell=2, releases=2),)
        with pytest.raises(FileError, match="other rules"):
            OpenLedger.open(path, PLAN, fewer)

    def test_misses_that_are_no_witnesses_are_noticed(self, path):
        publish(path, without((0, 0)))
        other = (Values.of([[4, 1, 2, 3], [1, 2, 3, 4]], 5, ell=2, releases=2),)
        with pytest.raises(FileError, match="does not fit"):
            OpenLedger.open(path, PLAN, other)

    def test_no_personal_values(self, path):
        publish(path, without((0, 0)))
        assert not any(str(path.parent) in line for line in path.read_text().splitlines())
        assert not pending_path(path).exists()


class TestChain:
    @pytest.fixture
    def lines(self, path):
        for number in range(4):
            publish(path, without((0, number % 2)), owner=f"o{number}", number=number)
        return path.read_bytes().splitlines(keepends=True)

    def refused(self, path, match="changed or damaged"):
        before = path.read_bytes()
        with pytest.raises(FileError, match=match):
            verify_ledger(path)
        with pytest.raises(FileError, match=match):
            OpenLedger.open(path, PLAN, PROMISES)
        assert path.read_bytes() == before

    def test_every_edit_of_a_byte_is_noticed(self, path, lines):
        whole = b"".join(lines)
        rng = np.random.default_rng(5)
        for place in rng.integers(0, len(whole) - 1, 150):
            edited = bytearray(whole)
            edited[place] ^= 1 << int(rng.integers(0, 7))
            path.write_bytes(bytes(edited))
            with pytest.raises(FileError):
                verify_ledger(path)
            with pytest.raises(FileError):
                OpenLedger.open(path, PLAN, PROMISES)

    @pytest.mark.parametrize(
        "order", [[0, 2, 1, 3, 4], [0, 1, 2, 4, 3], [0, 1, 2, 3, 3, 4], [0, 1, 3, 4], [1, 2]]
    )
    def test_moved_repeated_and_removed_lines(self, path, lines, order):
        path.write_bytes(b"".join(lines[number] for number in order))
        self.refused(path, "changed or damaged|not a ledger")

    def test_a_line_with_a_new_hash_still_breaks_the_chain(self, path, lines):
        document = json.loads(lines[2])
        document.pop("hash")
        previous = document.pop("previous")
        document["misses"] = []
        path.write_bytes(b"".join([*lines[:2], line_bytes(document, previous)[0], *lines[3:]]))
        self.refused(path)

    def test_lines_cut_off_at_the_end_show_to_whoever_knows_the_hash(self, path, lines):
        head = verify_ledger(path).head
        assert verify_ledger(path, head=head).n_releases == 4
        path.write_bytes(b"".join(lines[:-1]))
        assert verify_ledger(path).n_releases == 3  # a chain by itself cannot tell
        with pytest.raises(FileError, match="must hold"):
            verify_ledger(path, head=head)

    def test_a_header_that_would_fill_the_memory(self, path, lines):
        document = json.loads(lines[0])
        del document["hash"], document["previous"]
        path.write_bytes(
            line_bytes({**document, "values": [{**document["values"][0], "values": [0, 10**12]}]}, None)[0]
        )
        self.refused(path)

    @pytest.mark.parametrize("number", [0, 1])
    def test_a_line_without_one_of_its_keys(self, path, lines, number):
        """Also one that is mostly empty: every key is always written."""
        document = {key: value for key, value in json.loads(lines[number]).items() if key != "hash"}
        previous = document.pop("previous")
        assert line_bytes(document, previous)[0] == lines[number]
        for name in document:
            without = {key: value for key, value in document.items() if key != name}
            path.write_bytes(
                b"".join([*lines[:number], line_bytes(without, previous)[0], *lines[number + 1 :]])
            )
            self.refused(path, "changed or damaged|not a ledger|another version")

    def test_a_release_that_is_out_cannot_be_taken_back(self, path, lines):
        """Whoever keeps the ledger could make room for others that way; the release can still be linked."""
        kept = json.loads(lines[1])["hash"]
        void = VoidLine(len(lines), 1).to_dict()
        path.write_bytes(b"".join([*lines, line_bytes(void, verify_ledger(path).head)[0]]))
        assert verify_ledger(path, head=json.loads(lines[2])["hash"]).n_releases == 3
        with pytest.raises(FileError, match="does not count"):
            verify_ledger(path, head=kept)

    def test_only_a_release_that_is_there_can_be_taken_back(self, path, lines):
        head = verify_ledger(path).head
        for voids in (0, len(lines), len(lines) + 1, -1, "1", [1], None):  # the first line, and itself, too
            void = VoidLine(len(lines), voids).to_dict()
            path.write_bytes(b"".join([*lines, line_bytes(void, head)[0]]))
            self.refused(path)
        line, head = line_bytes(VoidLine(len(lines), 1).to_dict(), head)
        again = VoidLine(len(lines) + 1, len(lines)).to_dict()
        path.write_bytes(b"".join([*lines, line, line_bytes(again, head)[0]]))
        self.refused(path)

    def test_a_broken_last_line_without_a_commit_is_damage(self, path, lines):
        path.write_bytes(b"".join(lines)[:-10])
        self.refused(path)

    def test_a_missing_last_newline_is_put_back(self, path, lines):
        path.write_bytes(b"".join(lines)[:-1])
        assert verify_ledger(path).n_releases == 4
        with OpenLedger.open(path, PLAN, PROMISES):
            pass
        assert path.read_bytes() == b"".join(lines)

    def test_a_ledger_that_never_kept_its_promise(self, path, lines):
        header, previous = lines[0], json.loads(lines[0])["hash"]
        document = {
            key: value for key, value in json.loads(lines[1]).items() if key not in ("hash", "previous")
        }
        forged = line_bytes({**document, "misses": [[0, 0, 1, 2]]}, previous)[0]
        path.write_bytes(header + forged)
        self.refused(path, "does not keep its promise")

    @pytest.mark.parametrize(
        "text", ["", "\n", "notes of mine\n", "{}\n", "[1]", '{"kind":"elldelta plan"}\n']
    )
    def test_other_files(self, path, text):
        path.write_text(text)
        self.refused(path, "not a ledger")

    def test_other_versions_and_missing_files(self, path):
        path.write_bytes(line_bytes({"kind": "elldelta ledger", "format": 2, "sequence": 0}, None)[0])
        self.refused(path, "another version")
        path.unlink()
        with pytest.raises(FileError, match="no ledger"):
            verify_ledger(path)
        with pytest.raises(FileError, match="folder"):
            OpenLedger.open(path.parent / "none" / "x", PLAN, PROMISES)


class TestCommit:
    def test_files_and_line_appear_together(self, path, tmp_path):
        entry = publish(path, without(), staged={**stage(tmp_path, "a.json"), **stage(tmp_path, "a.csv")})
        assert visible(tmp_path) == ["a.csv", "a.json", "releases.ledger"]
        assert verify_ledger(path).head == entry.hash

    def test_a_file_in_the_way_is_refused_before_the_line(self, path, tmp_path):
        (tmp_path / "a.csv").write_text("precious")
        with pytest.raises(FileError, match="exists"):
            publish(path, without(), staged=stage(tmp_path, "a.csv"))
        assert verify_ledger(path).n_releases == 0
        assert (tmp_path / "a.csv").read_text() == "precious"
        publish(path, without(), staged=stage(tmp_path, "a.csv"), overwrite=True)
        assert (tmp_path / "a.csv").read_text() == "table"

    def test_a_name_that_cannot_be_given_takes_the_release_back(self, path, tmp_path, monkeypatch):
        replace = Path.replace

        def fail_for_csv(self, target):
            if Path(target).name == "a.csv":
                raise OSError(5, "broken")
            return replace(self, target)

        monkeypatch.setattr(Path, "replace", fail_for_csv)
        staged = {**stage(tmp_path, "a.json"), **stage(tmp_path, "a.csv")}
        with pytest.raises(FileError, match="cannot be written"):
            publish(path, without((0, 0), (0, 1)), staged=staged)
        assert not (tmp_path / "a.json").exists()
        assert not pending_path(path).exists()
        report = verify_ledger(path)
        assert (report.n_lines, report.n_releases) == (
            1,
            0,
        )  # nothing of it stays, whose hash could be guessed
        assert report.room.tolist() == [2, 2]
        monkeypatch.setattr(Path, "replace", replace)
        assert visible(tmp_path) == ["releases.ledger"]
        publish(path, without((0, 2), (0, 3)), owner="A", number=2, staged=stage(tmp_path, "a.csv"))
        assert verify_ledger(path).n_releases == 1

    def test_a_half_replaced_release_is_completed_later(self, path, tmp_path, monkeypatch):
        (tmp_path / "a.json").write_text("old")
        replace = Path.replace
        monkeypatch.setattr(
            Path,
            "replace",
            lambda self, target: (
                (_ for _ in ()).throw(OSError(5, "broken"))
                if Path(target).name == "a.csv"
                else replace(self, target)
            ),
        )
        staged = {**stage(tmp_path, "a.json"), **stage(tmp_path, "a.csv")}
        with pytest.raises(FileError, match="not all of its files"):
            publish(path, without(), staged=staged, overwrite=True)
        monkeypatch.setattr(Path, "replace", replace)
        assert verify_ledger(path).is_pending
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "completed"
        assert (tmp_path / "a.csv").read_text() == "table"

    def test_a_full_disk_leaves_the_old_ledger(self, path, tmp_path, monkeypatch):
        publish(path, without())
        before = path.read_bytes()
        pwrite = os.pwrite

        def short(descriptor, data, offset):
            pwrite(descriptor, data[: len(data) // 2], offset)
            raise OSError(28, "full")

        monkeypatch.setattr(os, "pwrite", short)
        with pytest.raises(FileError, match="no room"):
            publish(path, without(), owner="B", number=2, staged=stage(tmp_path, "b.csv"))
        assert path.read_bytes() == before
        assert not (tmp_path / "b.csv").exists()
        assert not pending_path(path).exists()

    def test_a_full_disk_names_the_file_that_has_no_room(self, path, tmp_path, monkeypatch):
        def full(self, target):
            raise OSError(28, "full")

        staged = stage(tmp_path, "b.csv")
        with monkeypatch.context() as patched:
            publish(path, without())
            replace = Path.replace
            patched.setattr(
                Path, "replace", lambda own, to: (full if to.name == "b.csv" else replace)(own, to)
            )
            with pytest.raises(FileError, match=r"no room for .*b\.csv"):
                publish(path, without(), owner="B", number=2, staged=staged)

    @pytest.mark.parametrize("moment", ["append", "place"])
    def test_an_interrupt_leaves_all_or_nothing(self, path, tmp_path, monkeypatch, moment):
        if moment == "append":
            monkeypatch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        else:
            place, calls = Pending.place, []

            def interrupted(self):
                calls.append(1)
                if len(calls) == 1:
                    raise KeyboardInterrupt
                return place(self)

            monkeypatch.setattr(Pending, "place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            publish(path, without(), staged=stage(tmp_path, "a.csv"))
        assert verify_ledger(path).n_releases == (moment == "place")
        assert (tmp_path / "a.csv").exists() == (moment == "place")
        assert not pending_path(path).exists()


class TestRecovery:
    """Every state that a crash can leave, made by hand."""

    def crash(self, path, tmp_path, *, share=1.0, placed=0):
        """A commit that stopped: a share of the line written, some files renamed."""
        staged = {**stage(tmp_path, "a.json", "manifest"), **stage(tmp_path, "a.csv")}
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            verdict = certify(PROMISES, without((0, 0), (0, 1)))
            admission = ledger.check(verdict, owner="A", content_digest=content(7))
            pending = Pending.of(path, ledger.chain.n_bytes, admission.entry.hash, staged, overwrite=False)
            pending.begin()
            line, _ = line_bytes(admission.entry.to_dict(), ledger.chain.head)
        with path.open("ab") as file:
            file.write(line[: round(share * len(line))])
        for file in pending.files[:placed]:
            file.temporary.rename(file.final)
        return staged

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
    def test_before_the_line(self, path, tmp_path, share):
        publish(path, without(), owner="B")
        before = path.read_bytes()
        self.crash(path, tmp_path, share=share)
        assert verify_ledger(path).n_releases == 1
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "undone"
            assert len(ledger.chain.active) == 1
        assert path.read_bytes() == before
        assert visible(tmp_path) == ["releases.ledger"]

    def test_a_torn_line_that_has_its_newline(self, path, tmp_path):
        self.crash(path, tmp_path, share=0.5)
        with path.open("ab") as file:
            file.write(b"\0\0\0\n")
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "undone"
        assert verify_ledger(path).n_releases == 0

    @pytest.mark.parametrize("placed", [0, 1, 2])
    def test_after_the_line(self, path, tmp_path, placed):
        self.crash(path, tmp_path, placed=placed)
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "completed"
            assert not ledger.state.admits(without((0, 2)))
        assert visible(tmp_path) == ["a.csv", "a.json", "releases.ledger"]
        assert (tmp_path / "a.csv").read_text() == "table"
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered is None

    def test_a_release_that_was_moved_away_keeps_counting(self, path, tmp_path):
        self.crash(path, tmp_path, placed=2)
        (tmp_path / "a.csv").rename(tmp_path / "published.csv")
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "incomplete"
            assert len(ledger.chain.active) == 1

    def test_a_stranger_under_the_final_name_is_not_overwritten(self, path, tmp_path):
        self.crash(path, tmp_path)
        (tmp_path / "a.csv").write_text("precious")
        with pytest.raises(FileError, match="exists"):
            OpenLedger.open(path, PLAN, PROMISES)
        assert (tmp_path / "a.csv").read_text() == "precious"
        (tmp_path / "a.csv").unlink()
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "completed"

    def test_a_voided_release_stays_away(self, path, tmp_path):
        self.crash(path, tmp_path)
        chain = parse_chain(path.read_bytes(), "x")
        with path.open("ab") as file:
            file.write(line_bytes(VoidLine(2, 1).to_dict(), chain.head)[0])
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "undone"
        assert visible(tmp_path) == ["releases.ledger"]

    def test_a_torn_void_completes_the_release(self, path, tmp_path):
        self.crash(path, tmp_path)
        chain = parse_chain(path.read_bytes(), "x")
        with path.open("ab") as file:
            file.write(line_bytes(VoidLine(2, 1).to_dict(), chain.head)[0][:20])
        with OpenLedger.open(path, PLAN, PROMISES) as ledger:
            assert ledger.recovered == "completed"
        assert verify_ledger(path).n_releases == 1

    def test_an_edited_pending_file_is_refused(self, path, tmp_path):
        self.crash(path, tmp_path)
        pending = pending_path(path)
        pending.write_bytes(pending.read_bytes().replace(b"a.csv", b"b.csv"))
        with pytest.raises(FileError, match="changed"):
            OpenLedger.open(path, PLAN, PROMISES)


def race(path, name, barrier, results):
    """One of two processes that both want the last place."""
    value = {"A": 2, "B": 3}[name]
    barrier.wait()
    try:
        publish(path, without((0, value)), owner=name, number=value, staged=stage(path.parent, f"{name}.csv"))
        results.put((name, "won"))
    except RefusedError:
        results.put((name, "lost"))


def test_two_processes_race_for_the_last_place(tmp_path):
    context = multiprocessing.get_context("fork")
    winners = set()
    for turn in range(20):
        folder = tmp_path / str(turn)
        folder.mkdir()
        path = folder / "l"
        publish(path, without((0, 0)), owner="first", number=0)  # room for one more miss in class 0
        barrier, results = context.Barrier(2), context.Queue()
        processes = [context.Process(target=race, args=(path, name, barrier, results)) for name in "AB"]
        for process in processes:
            process.start()
        outcome = dict(results.get(timeout=300) for _ in processes)
        for process in processes:
            process.join()
        assert sorted(outcome.values()) == ["lost", "won"]
        winner = next(name for name, result in outcome.items() if result == "won")
        winners.add(winner)
        report = verify_ledger(path, plan_digest=PLAN, promises=PROMISES)
        assert report.owners == tuple(sorted((winner, "first")))
        assert (folder / f"{winner}.csv").exists()
        assert not (folder / f"{'B' if winner == 'A' else 'A'}.csv").exists()


def test_two_processes_begin_the_same_ledger(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    results = context.Queue()

    def begin(number):
        barrier.wait()
        publish(tmp_path / "l", without(), owner=f"o{number}", number=number)
        results.put(number)

    processes = [context.Process(target=begin, args=(number,)) for number in range(2)]
    for process in processes:
        process.start()
    assert {results.get(timeout=300) for _ in processes} == {0, 1}
    for process in processes:
        process.join()
    assert verify_ledger(tmp_path / "l").n_releases == 2


def test_a_locked_ledger_is_waited_for(path):
    with OpenLedger.open(path, PLAN, PROMISES):
        with pytest.raises(FileError, match="in use"):
            OpenLedger.open(path, PLAN, PROMISES, timeout=0.05)
        with pytest.raises(FileError, match="in use"):
            verify_ledger(path, timeout=0.05)
    with OpenLedger.open(path, PLAN, PROMISES, timeout=0.05):
        pass


def test_without_flock_ledgers_are_read_only(path, monkeypatch):
    publish(path, without())
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(FileError, match="lock files"):
        OpenLedger.open(path, PLAN, PROMISES)
    assert verify_ledger(path).n_releases == 1


def publish_for_ever(folder, ready):
    ready.set()
    for number in range(10_000):
        staged = {
            **stage(folder, f"{number}.json", "m" * 20_000),
            **stage(folder, f"{number}.csv", "t" * 50_000),
        }
        publish(folder / "l", without((0, number % 2)), owner=f"o{number}", number=number, staged=staged)


def test_kill_at_random_moments_leaves_all_or_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    rng = np.random.default_rng(11)
    outcomes = []
    for turn in range(60):
        folder = tmp_path / str(turn)
        folder.mkdir()
        ready = context.Event()
        process = context.Process(target=publish_for_ever, args=(folder, ready))
        process.start()
        ready.wait()
        while turn % 2 and not (folder / "l").exists():  # in every other turn surely not before it has begun
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0.0, 0.1)))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        process.close()
        if not (folder / "l").exists():
            continue
        with OpenLedger.open(folder / "l", PLAN, PROMISES) as ledger:
            outcomes.append(ledger.recovered or "clean")
            numbers = {int(entry.content_digest[7:]) for entry in ledger.chain.active}
        verify_ledger(folder / "l", plan_digest=PLAN, promises=PROMISES)
        assert numbers == set(range(len(numbers)))
        for kind, size in (("json", 20_000), ("csv", 50_000)):
            files = list(folder.glob(f"[0-9]*.{kind}"))
            assert numbers == {int(file.stem) for file in files}
            assert all(file.stat().st_size == size for file in files)
        assert not pending_path(folder / "l").exists()
    assert set(outcomes) <= {"clean", "completed", "undone"}
    assert len(outcomes) >= 30
