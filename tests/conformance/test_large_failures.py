"""Several checks find the same failure of a store, and the run makes one of them small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamproof.conformance.check_engine import Engine
from streamproof.conformance.program_text import LONGEST_PROGRAM, ONLY_SHOWN
from streamproof.conformance.results import Failure
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import Observer, Session, select_requirements
from streamproof.conformance.work_directory import work_directory

SIDE_FILE = f"{Path(__file__).resolve().parents[2] / 'examples' / 'sqlite_side_file.py'}:make"


class Keeping(Observer):
    """Keeps what happens."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def shrinking(self, subject: str, failures: int) -> None:
        self.events += ["shrinking"] * failures

    def shrunk(self, subject: str) -> None:
        self.events.append("shrunk")

    def record(self, record: Any) -> None:
        self.events.append(record)

    @property
    def failures(self) -> list[Failure]:
        """The failures in the order in which they were recorded."""
        return [each for each in self.events if isinstance(each, Failure)]


def run(observer: Observer, only: str = "CRASH-004", **settings: Any) -> Session:
    """A run on a store that writes its offsets beside its database."""
    asked = Settings(profile="smoke", seed=1, **settings)
    with work_directory() as directory, Engine(asked, directory, jobs=2) as engine:
        session = Session(engine.load([SIDE_FILE]), asked, select_requirements([only]))
        session.run(engine, observer)
    return session


def test_one_of_several_findings_is_made_small() -> None:
    """Once, and after all checks of the requirement; others that found it are named."""
    seen = Keeping()
    run(seen)
    (failure,) = seen.failures
    assert failure.requirement == "CRASH-004"
    assert failure.also_found_by
    assert ONLY_SHOWN not in failure.program
    assert len(failure.program.splitlines()) <= LONGEST_PROGRAM
    marks = [each for each in seen.events if isinstance(each, str)]
    assert marks == ["shrinking", "shrunk"]
    assert seen.events.index("shrunk") < seen.events.index(failure)


def test_what_nobody_made_small_is_recorded_all_the_same() -> None:
    """If the run ends early, a failure has a program of which nobody is sure."""

    class Interrupting(Keeping):
        """Ends the run before a failure is small."""

        def shrunk(self, subject: str) -> None:
            raise KeyboardInterrupt

    seen = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        run(seen)
    (failure,) = seen.failures
    assert (failure.requirement, failure.shape) == ("CRASH-004", "early-value")
    assert ONLY_SHOWN in failure.program


def test_a_failure_that_does_not_come_again_keeps_its_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check that repeats it, and finds nothing, takes nothing away."""
    seen = Keeping()
    take = Session._take_small

    def found_nothing(session: Session, subject: str, outcome: Any, observer: Observer) -> None:
        outcome.findings.clear()
        take(session, subject, outcome, observer)

    monkeypatch.setattr(Session, "_take_small", found_nothing)
    session = run(seen)
    (failure,) = seen.failures
    assert ONLY_SHOWN in failure.program
    assert [each.status for each in session.results[SIDE_FILE]] == ["fail"]


def test_failures_beside_what_was_asked_are_made_small() -> None:
    """A check that is asked for one promise sees others broken."""
    seen = Keeping()
    run(seen, "CRASH-001")
    assert {"CRASH-004"} <= {each.requirement for each in seen.failures}
    assert not any(ONLY_SHOWN in each.program for each in seen.failures)


def test_a_run_that_makes_nothing_small_waits_for_nothing() -> None:
    """It only tells what is broken."""
    seen = Keeping()
    run(seen, shrinks=False)
    assert [each.requirement for each in seen.failures] == ["CRASH-004"]
    assert not any(isinstance(each, str) for each in seen.events)
