"""The records of a check: what it tried, which promises it found broken, and how it ended."""

from __future__ import annotations

from msgspec import Struct, field

from streamproof.conformance.saved_failures import SavedChoices

__all__ = ["CheckEvidence", "CheckFinding", "CheckOutcome", "Effort"]


class CheckEvidence(Struct, kw_only=True):
    """How much a check tried.

    Attributes:
        examples: the number of generated programs, or 1 for a plain example.
        operations: the number of calls on the subject.
        crash_points: the number of crashes by kind of crash point.
        wiped: the number of crashes after which the store asked to be wiped, as a store without
            transactions may.
        exercised: the requirements that were tested and held at least once.
        untried: by requirement that could not be tested, the reason: what never came about.
        lacking: what this machine lacks to try all of the check, and what to do about it; empty if
            it lacks nothing.
        left_out: what the check could not try because of the way in which the store works, and
            why; empty if it left out nothing.
        reached: names of the situations that the check reached: pairs of calls with their kinds
            of answers, crash points, states. A search stops when it reaches nothing new.
        situations: by name, how often each situation of interest occurred in simulated worlds, 0
            included.
        digest: a digest of all events in simulated worlds; empty without any world.
    """

    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = field(default_factory=dict)
    wiped: int = 0
    exercised: set[str] = field(default_factory=set)
    untried: dict[str, str] = field(default_factory=dict)
    lacking: str = ""
    left_out: str = ""
    reached: set[str] = field(default_factory=set)
    situations: dict[str, int] = field(default_factory=dict)
    digest: str = ""


class Effort(Struct, frozen=True, kw_only=True):
    """The effort of a check until it first found a promise broken, without the shrinking.

    Attributes:
        seconds: the time since the start of the check.
        examples: the number of programs and crashes, the last one included.
        crashes: the number of kills and losses of power among them.
    """

    seconds: float
    examples: int
    crashes: int


class CheckFinding(Struct, frozen=True, kw_only=True):
    """A broken promise, as a check reports it.

    Attributes:
        shape: the way in which it is broken; see :mod:`streamproof.conformance.failure_shapes`.
        traceback: the part of the subject in the traceback, if the subject raised.
        choices: the choices that break it again.
        is_large: whether the check has left it to the run to make the failure small.
    """

    requirement: str
    tried: str
    expected: str
    found: str
    program: str
    shape: str = ""
    traceback: str = ""
    choices: SavedChoices = SavedChoices()
    is_large: bool = False


class CheckOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one check.

    Attributes:
        findings: broken promises, at most one for each requirement and shape.
        first: by requirement, the effort until it was first found broken.
        skipped: why this machine cannot run the check; empty if it ran.
        unusable: why the subject cannot be verified at all; empty if it can.
        suite_error: the traceback of an error in the suite itself; empty without one.
        subject_error: how the subject prevented an answer: it hung, or died.
        round: the round of the search, counted from 0.
        replayed: the name of the saved failure that was replayed; empty for a search.
    """

    check: str
    evidence: CheckEvidence
    findings: list[CheckFinding] = field(default_factory=list)
    first: dict[str, Effort] = field(default_factory=dict)
    skipped: str = ""
    unusable: str = ""
    suite_error: str = ""
    subject_error: str = ""
    duration_s: float = 0.0
    round: int = 0
    replayed: str = ""
