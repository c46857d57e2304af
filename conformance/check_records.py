"""The records of a check: what it tried, which promises it found broken, and how it ended."""

from __future__ import annotations

from msgspec import Struct, field

from streamproof.conformance.saved_failures import SavedChoices

__all__ = ["CheckEvidence", "CheckFinding", "CheckOutcome", "Effort"]


class CheckEvidence(Struct, kw_only=True):
    """How much a check tried.

    Attributes:
        examples: generated programs, or 1 for a plain example.
        operations: calls on the subject.
        crash_points: real kills by kind of crash point.
        exercised: the requirements that were put to the test and held at least once.
        reached: names of the situations that the check reached: pairs of calls with their kinds
            of answers, crash points, states. A search stops when it reaches nothing new.
        situations: by name, how often each situation of interest came about in simulated worlds;
            0 for those that never did.
        digest: a digest of all events in simulated worlds; empty if none was simulated.
    """

    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = field(default_factory=dict)
    exercised: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    situations: dict[str, int] = field(default_factory=dict)
    digest: str = ""


class Effort(Struct, frozen=True, kw_only=True):
    """What a check had spent when it first found a promise broken, before it shrank the failure.

    Attributes:
        seconds: since the check began.
        examples: programs and crashes, the last one included.
        crashes: how many of them were real kills or losses of power.
    """

    seconds: float
    examples: int
    crashes: int


class CheckFinding(Struct, frozen=True, kw_only=True):
    """A broken promise, as a check reports it.

    Attributes:
        shape: in which way it is broken; see :mod:`streamproof.conformance.shapes`.
        choices: how to break it again.
    """

    requirement: str
    tried: str
    expected: str
    found: str
    program: str
    shape: str = ""
    choices: SavedChoices = SavedChoices()


class CheckOutcome(Struct, frozen=True, kw_only=True):
    """What one check found out.

    Attributes:
        findings: broken promises, at most one for each requirement and shape.
        first: what it took to find each requirement broken for the first time.
        skipped: why this machine cannot run the check; empty if it ran.
        suite_error: the traceback of a fault of the suite itself; empty if there was none.
        subject_error: how the subject kept the check from an answer: it hung, or died.
        round: the round of the search, counted from 0.
        replayed: the name of the saved failure that was replayed; empty for a search.
    """

    check: str
    evidence: CheckEvidence
    findings: list[CheckFinding] = field(default_factory=list)
    first: dict[str, Effort] = field(default_factory=dict)
    skipped: str = ""
    suite_error: str = ""
    subject_error: str = ""
    duration_s: float = 0.0
    round: int = 0
    replayed: str = ""
