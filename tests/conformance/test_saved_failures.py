"""Failures as files: made again by themselves, and first thing in the next run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_lines import CommandLine, Ended
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.conformance.crash.crash_records import CrashKind, CrashPoint
from streamproof.conformance.crash.program import ProgramBuilder, random_program
from streamproof.conformance.results import Note
from streamproof.conformance.saved_failures import (
    FORMAT,
    Archive,
    SavedChoices,
    SavedFailure,
    clear_failures,
    folder_of,
    read_bank,
    read_failure,
)
from streamproof.conformance.value_codec import decode_value, encode_value
from streamproof.errors import UsageError
from streamproof.sim.world_plan import WORLD_VERSION

MODEL = settings.get_profile("conformance")

WRONG = """
from streamproof.stores.memory import InMemoryKeyValueStore

class Store(InMemoryKeyValueStore):
    def get(self, key):
        value = super().get(key)
        return None if value == b"x" * 300 else value

def make():
    return Store("mine")
"""
RIGHT = WRONG.replace('value == b"x" * 300', "False")

STORE = "mine.py:make"
POWER = "streamproof.conformance.mutants.power_mutants"
CHECKED = ("--only", "KV-001,KV-002,KV-011", "--seed", "1")


def saved(**changes: Any) -> SavedFailure:
    """A saved failure."""
    fields = {
        "format": FORMAT,
        "tool_version": "0.1.0",
        "guarantee": "exactly-once",
        "spec": "kips",
        "profile": "quick",
        "seed": 1,
        "round": 0,
        "timeout_s": 20.0,
        "subject": "in-memory",
        "requirement": "KV-001",
        "shape": "missing-value",
        "program": "print()",
        **changes,
    }
    texts = dict.fromkeys(("check", "title", "tried", "expected", "found", "reproduce"), "")
    return SavedFailure(choices=SavedChoices(), **{**texts, **fields})


# Files.


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    """As a program for a person, and as data for the next run, in the bank as well."""
    archive = Archive(tmp_path / "out", tmp_path / "bank")
    place = archive.save(saved())
    assert place == "failures/in-memory/KV-001-missing-value.json"
    assert read_failure(tmp_path / "out" / place) == saved()
    assert (tmp_path / "out" / place).with_suffix(".py").read_text() == "print()"
    assert read_bank(tmp_path / "bank", ["in-memory", "rocksdb"]) == ([saved()], [])


def test_the_bank_keeps_the_shorter_program(tmp_path: Path) -> None:
    """Unless what it has does not fail any more."""
    archive = Archive(tmp_path / "out", tmp_path / "bank")

    def banked() -> str:
        ((entry,), _) = read_bank(tmp_path / "bank", ["in-memory"])
        return entry.program

    archive.save(saved(program="longer"))
    archive.save(saved(program="short"))
    assert banked() == "short"
    archive.save(saved(program="longer"))
    assert banked() == "short"
    archive.save(saved(program="longer"), renew=True)
    assert banked() == "longer"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b"{}", b'{"format": "1"}', b"[" * 100_000],
    ids=["empty", "cut", "list", "binary", "no-fields", "wrong-type", "deep"],
)
def test_a_broken_entry_is_warned_of_and_left_alone(content: bytes, tmp_path: Path) -> None:
    """The others are used."""
    archive = Archive(tmp_path / "out", tmp_path / "bank")
    archive.save(saved())
    broken = tmp_path / "bank" / "in-memory" / "KV-002-missing-value.json"
    broken.write_bytes(content)
    entries, ((subject, warning),) = read_bank(tmp_path / "bank", ["in-memory"])
    assert entries == [saved()]
    assert subject == "in-memory"
    assert str(broken) in warning
    archive.save(saved(requirement="KV-002"))
    assert broken.read_bytes() == content


def test_an_entry_in_the_wrong_place_is_warned_of(tmp_path: Path) -> None:
    """Somebody has copied it there, and it says nothing about this subject."""
    Archive(tmp_path / "out", tmp_path / "bank").save(saved())
    (tmp_path / "bank" / "in-memory").rename(tmp_path / "bank" / "rocksdb")
    entries, warnings = read_bank(tmp_path / "bank", ["rocksdb"])
    assert entries == []
    assert [subject for subject, _ in warnings] == ["rocksdb"]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """Rather than read wrongly."""
    path = tmp_path / "new.json"
    path.write_bytes(msgspec.json.encode(saved(format=99)))
    with pytest.raises(UsageError, match=r"newer streamproof \(0.1.0\).* Upgrade"):
        read_failure(path)


def an_old_file(path: Path) -> None:
    """Save a failure as the first format had it: without a version, and with other checks."""
    old = msgspec.to_builtins(saved(format=1, check="kv.put_then_get", reproduce="streamproof"))
    del old["tool_version"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(old))


def test_an_older_format_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Its check may have another name now, and other things done with its choices."""
    an_old_file(tmp_path / "old.json")
    with pytest.raises(UsageError, match=r"older .* format 1, .* find the failure again: stream"):
        read_failure(tmp_path / "old.json")


def test_the_bank_replaces_what_it_has_of_an_older_format(tmp_path: Path) -> None:
    """Nothing will read it again; what is newer may be of use to a newer version."""
    place = tmp_path / "bank" / "in-memory" / "KV-001-missing-value.json"
    an_old_file(place)
    archive = Archive(tmp_path / "out", tmp_path / "bank")
    archive.save(saved(program="a longer program"))
    assert read_failure(place).program == "a longer program"
    place.write_bytes(newer := msgspec.json.encode(saved(format=99)))
    archive.save(saved(program="short"))
    assert place.read_bytes() == newer


@pytest.mark.parametrize(
    "changes",
    [{"choices": SavedChoices(worlds=[{"seed": 1}])}, {"subject": "runtime"}],
    ids=["a world with a store", "the runtime"],
)
def test_a_failure_of_another_world_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    """The seed, or the world, would lead to another run."""
    path = tmp_path / "world.json"
    kept = msgspec.structs.replace(saved(world=WORLD_VERSION), **changes)
    path.write_bytes(msgspec.json.encode(kept))
    assert read_failure(path) == kept
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(kept, world=0)))
    with pytest.raises(UsageError, match=r"no version of the simulated world.*find the failure"):
        read_failure(path)


def test_subjects_never_share_a_folder() -> None:
    """Whatever their names have in common once they are names of folders."""
    names = ["a/b.py:c", "a-b.py-c", "a/b.py/c", "../a", "..", "x" * 300, "rocksdb"]
    folders = [folder_of(name) for name in names]
    assert len(set(folders)) == len(names)
    assert all("/" not in each and not each.startswith(".") for each in folders)
    assert max(map(len, folders)) < 100


@pytest.mark.parametrize(
    ("subject", "start"),
    [
        (
            f"{POWER}:renamed_before_it_is_synced",
            "mutants.power_mutants-renamed_before_it_is_synced-",
        ),
        (f"{'x' * 80}.stores:make", "stores-make-"),
        ("x" * 80, f"{'x' * 60}-"),
    ],
)
def test_a_long_name_is_cut_between_words(subject: str, start: str) -> None:
    assert folder_of(subject)[:-6] == start


def test_a_bank_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """It cut the names of its folders elsewhere."""
    long = msgspec.structs.replace(saved(), subject=f"{POWER}:renamed_before_it_is_synced")
    Archive(tmp_path, None).save(long)
    (folder,) = (tmp_path / "failures").iterdir()
    folder.rename(folder.with_name(f"oof.conformance.{folder.name}"))

    assert read_bank(tmp_path / "failures", [long.subject]) == ([long], [])


def test_clearing_removes_only_what_was_saved(tmp_path: Path) -> None:
    """Anything else in the folder is somebody's."""
    Archive(tmp_path, None).save(saved())
    mine = tmp_path / "failures" / "in-memory" / "notes.txt"
    mine.write_text("mine")
    clear_failures(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    mine.unlink()
    clear_failures(tmp_path)
    assert list(tmp_path.iterdir()) == []


@MODEL
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 9))
def test_a_program_survives_being_saved(random: Any, commits: int, n: int) -> None:
    """Through JSON and back, it is the same program with the same point."""
    pair = [random_program(random, commits=commits), CrashPoint("line", 1, n)]
    assert decode_value(json.loads(json.dumps(encode_value(pair)))) == pair


@pytest.mark.parametrize(
    "data", [{"Popen": {}}, {"bytes": "!"}, {"bytes": 3}, {"a": 1, "b": 2}, {"Write": {"x": 1}}, {}]
)
def test_what_is_no_program_is_refused(data: Any) -> None:
    """A file cannot make anything but programs."""
    with pytest.raises(UsageError, match="saved program"):
        decode_value([data])


def test_what_a_program_cannot_hold_is_not_saved() -> None:
    """Rather than saved as something else."""
    with pytest.raises(TypeError, match="holds set"):
        encode_value([{1}])


# Runs.


def verify(line: CommandLine, text: str, *options: str) -> Ended:
    """Verify a store of which this is the source."""
    (line.cwd / "mine.py").write_text(text)
    return line.verify(STORE, *CHECKED, *options, profile="quick")


def notes(ended: Ended) -> list[Note]:
    """What a run notes."""
    return ended.log.notes


def replay(line: CommandLine, path: Path | str) -> tuple[int, str]:
    """Run a saved failure again."""
    with line.start("replay", str(path), "--work-dir", str(line.work)) as process:
        stdout, stderr = process.communicate(timeout=60)
    line.expect_nothing_left()
    return process.returncode, stdout + stderr


def test_a_failure_is_kept_until_it_is_mended_and_after(command_line: CommandLine) -> None:
    """Found once, it is tried first in the next run, of fewer examples, and by itself."""
    found = verify(command_line, WRONG)
    assert found.code == 1
    failure = found.failures["KV-011"]
    assert failure.shape == "missing-value"
    file = found.out / failure.saved
    (entry,) = (command_line.cwd / ".streamproof" / "bank").rglob("KV-011*.json")
    assert read_failure(entry) == read_failure(file)
    assert replay(command_line, file)[0] == 1

    program = [sys.executable, file.with_suffix(".py")]
    ran = subprocess.run(program, cwd=command_line.cwd, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"  # found None\n" in ran.stderr

    # In a profile that would not find it, from another seed, it is found again.
    again = command_line.verify(STORE, "--only", "KV-011")
    assert again.code == 1
    assert again.failures["KV-011"].program == failure.program
    checks = [each.check for each in again.log.checks]
    assert checks.count(failure.check) == 2
    assert notes(again) == []

    kept = file.read_bytes(), entry.read_bytes()
    mended = verify(command_line, RIGHT)
    assert mended.code == 0
    assert [note.kind for note in notes(mended)] == ["fixed"]
    assert "KV-011-missing-value does not fail any more" in mended.stdout
    assert entry.read_bytes() == kept[1]
    assert replay(command_line, entry) == (
        0,
        f"{STORE} KV-011-missing-value: does not fail any more.\n",
    )
    # The failures of the run before are not taken for those of this one.
    assert not (mended.out / "failures").exists()


def test_choices_that_do_not_fit_any_more(command_line: CommandLine) -> None:
    """The check has changed since, so that they are no input of it: nothing fails, or breaks."""
    found = verify(command_line, WRONG, "--no-bank")
    file = found.out / found.failures["KV-011"].saved
    old = read_failure(file)
    assert old.choices.examples
    changed = msgspec.structs.replace(old, choices=SavedChoices(examples=["AA=="]))
    file.write_bytes(msgspec.json.encode(changed))
    assert replay(command_line, file)[0] == 0


def test_without_a_bank_nothing_is_kept(command_line: CommandLine) -> None:
    """Neither beside the project nor elsewhere; elsewhere if so asked."""
    assert verify(command_line, WRONG, "--no-bank").code == 1
    assert not (command_line.cwd / ".streamproof").exists()
    assert verify(command_line, WRONG, "--bank", "elsewhere").code == 1
    assert not (command_line.cwd / ".streamproof").exists()
    assert list((command_line.cwd / "elsewhere").rglob("KV-011*.json"))


def test_a_broken_bank_does_not_stop_a_run(command_line: CommandLine) -> None:
    """It is warned of in the log and on the terminal."""
    folder = command_line.cwd / "bank" / "in-memory"
    folder.mkdir(parents=True)
    (folder / "KV-001-missing-value.json").write_text("{")
    ended = command_line.verify("in-memory", "--only", "KV-001", "--bank", "bank")
    assert ended.code == 0
    assert [note.kind for note in notes(ended)] == ["warning"]
    assert "KV-001-missing-value.json" in ended.stdout


def test_an_older_entry_of_the_bank_is_warned_of(command_line: CommandLine) -> None:
    """The run goes on without it; to replay it alone is a usage error."""
    path = command_line.cwd / "bank" / "in-memory" / "KV-001-missing-value.json"
    an_old_file(path)
    ended = command_line.verify("in-memory", "--only", "KV-001", "--bank", "bank")
    assert ended.code == 0
    (note,) = notes(ended)
    assert note.kind == "warning"
    assert "an older streamproof saved this failure in format 1" in note.text
    code, text = replay(command_line, path)
    assert code == 3
    assert "find the failure again" in text


def test_a_crash_is_made_again(command_line: CommandLine) -> None:
    """From its program and its point, in far less time than it took to find."""
    mutant = "streamproof.conformance.mutants.store_mutants:data_flushed_alone"
    found = command_line.verify(mutant, "--only", "CRASH-004", "--no-bank")
    assert found.code == 1
    file = found.out / found.failures["CRASH-004"].saved
    assert read_failure(file).choices.crashes
    code, text = replay(command_line, file)
    assert code == 1
    assert "still fails" in text
    assert "lab.crash(doomed)" in text
    # The store without the mistake keeps the promise at the same point.
    right = msgspec.structs.replace(read_failure(file), subject="rocksdb-transactional")
    file.write_bytes(msgspec.json.encode(right))
    assert replay(command_line, file)[0] == 0


@pytest.mark.parametrize(
    ("mutant", "requirement", "losses"),
    [
        ("offsets_synced_and_data_not", "POWER-001", 1),
        ("recovery_syncs_nothing", "POWER-016", 2),
        ("directory_made_without_a_sync", "POWER-014", 1),
    ],
)
def test_a_loss_of_power_is_made_again(
    mutant: str, requirement: str, losses: int, command_line: CommandLine
) -> None:
    """From its programs and from what was lost of them, one after the other."""
    found = command_line.verify(f"{POWER}:{mutant}", "--only", requirement, "--no-bank")
    assert found.code == (2 if requirement == "POWER-014" else 1)
    file = found.out / found.failures[requirement].saved
    assert len(read_failure(file).choices.losses) == losses
    code, text = replay(command_line, file)
    assert code == 1
    assert "still fails" in text
    assert "lab.power_loss(doomed" in text
    # The store without the mistake keeps the promise.
    right = msgspec.structs.replace(read_failure(file), subject=f"{POWER}:durable")
    file.write_bytes(msgspec.json.encode(right))
    assert replay(command_line, file)[0] == 0
    # Where calls cannot be recorded, nothing is known; it must not be taken for mended.
    command_line.environment["PATH"] = str(command_line.cwd)
    code, text = replay(command_line, file)
    assert code == 2
    assert "cannot be tried here: no C compiler (cc, gcc or clang) was found" in text


def a_saved_crash(kind: CrashKind) -> SavedFailure:
    """A failure of a right store, as if it had once been found at a point of this kind."""
    program = ProgramBuilder().put(b"a", b"1").commit().then("close", "open").build()
    crash = encode_value([program, CrashPoint(kind, len(program) - 1, 1)])
    requirement, shape = "CRASH-012", "missing-value"
    failure = saved(
        subject="rocksdb-transactional",
        requirement=requirement,
        shape=shape,
        check="crash.while_opening",
    )
    choices = SavedChoices(crashes=[crash], requirement=requirement, shape=shape)
    return msgspec.structs.replace(failure, choices=choices)


@pytest.mark.parametrize("kind", ["syscall", "eio"])
def test_without_a_compiler_a_saved_crash_is_not_tried(
    kind: CrashKind, command_line: CommandLine
) -> None:
    """It is no failure of the store and not mended either, and the bank keeps it as it is."""
    failure = a_saved_crash(kind)
    entry = command_line.cwd / ".streamproof/bank" / failure.subject / f"{failure.name}.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(msgspec.json.encode(failure))
    assert replay(command_line, entry) == (
        0,
        f"{failure.subject} {failure.name}: does not fail any more.\n",
    )
    before = entry.read_bytes()
    why = "no C compiler (cc, gcc or clang) was found; install gcc or clang"

    command_line.environment["PATH"] = str(command_line.cwd)
    told = f"{failure.subject} {failure.name}: cannot be tried here: {why}.\n"
    assert replay(command_line, entry) == (2, told)
    ended = command_line.verify(failure.subject, "--only", "CRASH-012")
    assert ended.failures == {}
    result = ended.results["CRASH-012"]
    assert result.status == "skip"
    assert result.reason == f"{failure.name} was not tried again: {why}"
    assert ended.code == 2
    text = f"{failure.name} was not tried again, and stays in the bank: {why}."
    assert [(each.kind, each.text) for each in notes(ended)] == [("warning", text)]
    assert entry.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"check": "kv.gone"}, "kv.gone"), ({"subject": "nowhere:make"}, "nowhere")],
)
def test_a_failure_that_cannot_be_made_again(
    changes: dict[str, str], text: str, command_line: CommandLine, tmp_path: Path
) -> None:
    """A usage error, as is a file that is none."""
    path = tmp_path / "failure.json"
    path.write_bytes(msgspec.json.encode(saved(**{"check": "kv.put_then_get", **changes})))
    code, printed = replay(command_line, path)
    assert code == 3
    assert text in printed
    path.write_text("nothing")
    assert replay(command_line, path)[0] == 3
    assert replay(command_line, tmp_path / "absent.json")[0] == 3
