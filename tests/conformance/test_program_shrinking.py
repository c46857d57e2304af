"""Long programs become short ones that still fail with the store, and pass with a right one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from streamproof.conformance import check_run
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.lab import Lab
from streamproof.conformance.program_shrinking import shorter, too_long
from streamproof.conformance.program_text import LONGEST_PROGRAM, ONLY_SHOWN, explained
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import Subject, load_subject
from streamproof.conformance.violations import violation_of
from streamproof.stores.host.client import kill_hosts

WRONG = "streamproof.conformance.mutants.store_mutants:empty_value_deletes"

HEAD = f'from streamproof import CHANGELOG, Lab\n\nlab = Lab({WRONG!r}, guarantee="exactly-once")\n'

Shorten = Callable[[str], str]


@pytest.fixture
def shorten(tmp_path: Path) -> Shorten:
    """Makes programs on a wrong store shorter."""
    numbers = count()

    def make_lab(subject: Subject) -> Lab:
        directory = tmp_path / f"t{next(numbers)}" / "task"
        directory.mkdir(parents=True)
        return Lab(subject, directory=directory)

    status = RunningCall(tmp_path / "status", create=True)
    return lambda lines: shorter(HEAD + lines, load_subject(WRONG), make_lab, status)


def test_what_does_not_matter_goes(shorten: Shorten) -> None:
    """Repeated lines, reads and commits, but not what the failure needs."""
    noise = "store.put(b'b', b'1')\nstore.get(b'b')\n" * 20
    found = shorten(
        f"store = lab.open()\n{noise}store.put(b'a', b'')\nstore.commit({{CHANGELOG: 1}})\n"
        "assert store.get(b'a') == b''  # found None\n"
    )
    assert found == (
        f'from streamproof import Lab\n\nlab = Lab({WRONG!r}, guarantee="exactly-once")\n'
        "store = lab.open()\nstore.put(b'a', b'')\nassert store.get(b'a') == b''  # found None\n"
    )


def test_one_wrong_answer_of_many_is_asserted(shorten: Shorten) -> None:
    """The one that a right store does not give."""
    puts = "".join(f"store.put(b'k{n}', b'{'' if n == 7 else n}')\n" for n in range(9))
    reads = "".join(f"answer_{n} = store.get(b'k{n}')\n" for n in range(9))
    names = ", ".join(f"answer_{n}" for n in range(9))
    values = ", ".join("None" if n == 7 else repr(str(n).encode()) for n in range(9))
    found = shorten(f"store = lab.open()\n{puts}{reads}assert [{names}] != [{values}]  # why\n")
    assert found.splitlines()[3:] == [
        "store = lab.open()",
        "store.put(b'k7', b'')",
        "answer_7 = store.get(b'k7')",
        "assert answer_7 != None  # why",
    ]


def test_what_counts_up_becomes_a_loop(shorten: Shorten) -> None:
    """If the failure needs all of it."""
    puts = "".join(f"store.put(b'key{n:03d}', b'')\n" for n in range(40))
    found = shorten(f"store = lab.open()\n{puts}assert len(list(store.all())) != 0  # why\n")
    assert "for n in range(0, 40):\n    store.put(b'key%03d' % n, b'')" in found
    assert len(found.splitlines()) < 10


@pytest.mark.parametrize(
    "last",
    [
        "assert store.get(b'a') == b'2'  # which no store does",
        "assert store.get(b'b') == b'1'  # which this store does",
        "lab.crash(print)",
    ],
)
def test_other_programs_stay_as_they_are(shorten: Shorten, last: str) -> None:
    """A right store must pass, the wrong one must fail, and no process may die."""
    lines = "store = lab.open()\n" + "store.put(b'b', b'1')\n" * 3 + last + "\n"
    assert shorten(lines) == HEAD + lines


def test_what_is_too_long() -> None:
    """Many lines, or one line several times in a row; and what stays long says so."""
    assert not too_long("a\nb\n\n\nc\n")
    assert too_long("a\nb\nb\n")
    long = "\n".join(f"line_{n}" for n in range(LONGEST_PROGRAM + 1))
    assert too_long(long)
    assert explained("a\nb\n") == "a\nb\n"
    assert explained(long).startswith("# This program is long, because")
    assert explained(explained(long)) == explained(long)


ROUNDABOUT = (
    f"{HEAD}store = lab.open()\nstore.put(b'b', b'1')\nstore.put(b'a', b'')\n"
    "assert store.get(b'a') == b''  # found None\n"
)
DIRECT = ROUNDABOUT.replace("store.put(b'b', b'1')\n", "").replace("CHANGELOG, ", "")
"""The same without a line that does not matter."""


def reported(directory: Path, *programs: str, is_whole: bool, name: str = WRONG) -> str:
    """The program of a finding that came up with these programs, one after the other."""
    status = RunningCall(directory / "status", create=True)
    check, subject = load_checks()["kv.put_then_get"], load_subject(name)
    run = CheckRun(check, subject, Settings(), directory, status)
    for program in programs:
        violation = violation_of("KV-008", "missing-value")("put", "b''", "None", program)
        run.record(violation, is_whole=is_whole)
    (finding,) = run.findings.values()
    return finding.program


@pytest.mark.parametrize(("is_whole", "program"), [(True, DIRECT), (False, ROUNDABOUT)])
def test_only_what_is_shrunk_already_stays(is_whole: bool, program: str, tmp_path: Path) -> None:
    """Hypothesis makes drawn programs small; others have all that a check did before."""
    assert reported(tmp_path, ROUNDABOUT, is_whole=is_whole) == program


HOSTED = f"cmd:{shlex.quote(sys.executable)} -P -m streamproof.host {WRONG}"
"""The wrong store in a process of its own, which opens one store after another."""


@pytest.fixture
def hosts_end() -> Iterator[None]:
    """Ends all hosts after a test."""
    yield
    kill_hosts()


@pytest.mark.usefixtures("hosts_end")
@pytest.mark.parametrize("end", ["", " --dir {dir}"], ids=["reopens", "one store each"])
def test_the_program_of_a_store_host_becomes_short(end: str, tmp_path: Path) -> None:
    """The check makes it shorter with hosts of its own, which have opened other stores before."""
    hosted = HOSTED + end
    roundabout, direct = (each.replace(repr(WRONG), repr(hosted)) for each in (ROUNDABOUT, DIRECT))
    assert reported(tmp_path, roundabout, is_whole=True, name=hosted) == direct


@pytest.mark.usefixtures("hosts_end")
def test_a_short_program_of_a_store_host_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anew: a host that keeps what it did for other programs may fail there alone."""
    vain = f"{HEAD}store = lab.open()\nassert store.name\n"
    monkeypatch.setattr(check_run, "shorter", lambda *_: vain.replace(repr(WRONG), repr(HOSTED)))
    program = ROUNDABOUT.replace(repr(WRONG), repr(HOSTED))
    assert reported(tmp_path, program, is_whole=True, name=HOSTED) == program


def test_a_shorter_program_that_does_not_fail_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is run; and none at all is no short one."""
    vain = f"{HEAD}store = lab.open()\nassert store.name\n"
    monkeypatch.setattr(
        check_run,
        "made_sure",
        lambda program, *_, **__: f"{ONLY_SHOWN}\n{program}" if program == vain else program,
    )
    assert reported(tmp_path, ROUNDABOUT, vain, "", is_whole=False) == ROUNDABOUT
