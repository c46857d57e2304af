"""ERR-005: two processes in one directory. A lock passes, and a store without one is found."""

from __future__ import annotations

from pathlib import Path

from command_lines import SUBJECTS

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.stores.builtin import BUILTIN

SQLITE = SUBJECTS.parent.parent / "examples" / "sqlite_store.py"
REQUIREMENT = load_catalogue()["ERR-005"]


def asked(name: str) -> bool:
    """Whether the requirement is about a store."""
    capabilities = load_subject(name).capabilities
    return not REQUIREMENT.why_not_applicable(capabilities, "exactly-once", "kips")


RIGHT = [f"{SQLITE}:make", *filter(asked, BUILTIN)]


def outcomes(*subjects: str) -> dict[str, CheckOutcome]:
    """What the check finds out about stores."""
    found: dict[str, CheckOutcome] = {}
    settings = Settings(profile="smoke", seed=0)
    check = load_checks()["error.second_process"]
    with work_directory() as directory, Engine(settings, directory, jobs=2) as engine:
        engine.load(subjects)
        engine.run([(each, check) for each in subjects], found.__setitem__)
    return found


def test_right_stores_pass() -> None:
    """The built-in ones, the example, and a dictionary in a file with a lock."""
    locked = f"{SUBJECTS / 'locked_file_store.py'}:LockedFileStore"
    found = outcomes(*RIGHT, locked)

    assert found.keys() == {*RIGHT, locked}
    for name, outcome in found.items():
        assert (name, outcome.findings) == (name, [])
        assert (name, outcome.evidence.exercised) == (name, {"ERR-005"})


def test_a_file_without_a_lock_is_found() -> None:
    """The commit of the second process is lost, though a later offset covers it."""
    name = f"{SUBJECTS / 'file_store.py'}:FileStore"
    (finding,) = outcomes(name)[name].findings

    assert (finding.requirement, finding.shape) == ("ERR-005", "missing-value")
    assert finding.found == "[b'1', None, b'3', b'4']"


def test_a_database_that_is_not_locked_is_found(tmp_path: Path) -> None:
    """The writes of the second process make the next put of the first one fail."""
    store = tmp_path / "unlocked.py"
    store.write_text(SQLITE.read_text().replace('"BEGIN IMMEDIATE"', '"BEGIN"'))
    name = f"{store}:make"
    (finding,) = outcomes(name)[name].findings

    assert finding.requirement == "ERR-005"
    assert "database is locked" in finding.found
