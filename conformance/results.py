"""The results of a run as plain data: the records from which every report is made.

The run log has one JSON object a line, each with a ``type``: one ``header``, then ``check``,
``result``, ``failure`` and ``note`` records as they become known, and one ``footer``. These types
are its schema.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

__all__ = [
    "SCHEMA_VERSION",
    "CheckRecord",
    "Failure",
    "Footer",
    "Guarantee",
    "Header",
    "Level",
    "Note",
    "Profile",
    "Record",
    "RequirementResult",
    "Spec",
    "Status",
    "Strength",
    "SubjectInfo",
    "SubjectVerdict",
    "Verdict",
]

SCHEMA_VERSION = 2
"""Raised when a record changes in a way that an older reader would misread."""

Level = Literal["MUST", "SHOULD", "MAY"]
Guarantee = Literal["exactly-once", "at-least-once"]
Spec = Literal["kips", "kafka-4.3", "kafka-4.4"]
Profile = Literal["smoke", "quick", "full"]

Status = Literal["pass", "known", "fail", "error", "skip", "unsupported", "untested"]
"""The result of one requirement.

``pass``: tried, and held. ``fail``: broken, with a program that shows it. ``known``: broken, but
only in ways that the file of known failures lists, with a reason. ``error``: no answer, because
the subject hung or died, or the suite itself failed. ``skip``: not tried on this machine.
``unsupported``: the subject does not claim the capability, or the requirement does not apply under
the chosen guarantee or spec. ``untested``: no check exists, for a written reason.
"""

Verdict = Literal["success", "partial", "failure", "error"]
"""``failure``: a MUST is broken. ``error``: no MUST is broken, but a check gave no answer.
``partial``: a SHOULD or MAY is broken, a failure is known, a core requirement was skipped, this
machine could not try a MUST, a result is missing, or nothing was tried. ``success``: none of
these."""

Strength = Literal["strong", "moderate", "weak", "example only", ""]
"""The strength of the evidence for a ``pass``; empty for any other status.

A *search* has at least 25 generated programs or 100 crashes. ``strong``: the checks searched, and
they are known to catch at least one deliberately wrong store. ``moderate``: one of the two.
``weak``: the checks generated programs or killed processes, but fewer. ``example only``: the checks
run the same few programs every time.
"""


class SubjectInfo(Struct, frozen=True, kw_only=True):
    """The subject of a run.

    Attributes:
        name: the name that the user wrote for the subject.
        description: one line from the subject's documentation.
        package: the distribution of the subject, if it is known.
        version: the version of that distribution.
        capabilities: the claims of the subject, by name.
        inferred: whether the subject declares no claims, so that its methods told them.
        unclaimed: capabilities that the subject does not claim, each with a method of the subject
            that suggests it.
    """

    name: str
    description: str = ""
    package: str = ""
    version: str = ""
    capabilities: dict[str, bool | int | str] = field(default_factory=dict)
    inferred: bool = False
    unclaimed: dict[str, str] = field(default_factory=dict)


class Header(Struct, frozen=True, kw_only=True, tag="header", tag_field="type"):
    """The first line: the settings of the run, its subjects, and the machine.

    Attributes:
        run_id: the name of the run, made from the start time and the seed.
        started_at: the start time in UTC, as ISO 8601.
        seed: the seed of every random decision of the run.
        command: a command line that starts the same run.
        requirements: the ids of all requirements that the run will give a result for.
        platform: the versions of Python, the operating system and the important libraries.
    """

    schema_version: int
    run_id: str
    tool_version: str
    started_at: str
    seed: int
    profile: Profile
    guarantee: Guarantee
    spec: Spec
    only: list[str]
    command: str
    subjects: list[SubjectInfo]
    requirements: list[str] = field(default_factory=list)
    platform: dict[str, str] = field(default_factory=dict)


class RequirementResult(Struct, frozen=True, kw_only=True, tag="result", tag_field="type"):
    """The result of one requirement for one subject, with its evidence.

    Attributes:
        subject: the name of the subject.
        requirement: the id, ``AREA-NNN``.
        title: the title of the requirement.
        promise: the promise in full.
        source: the proposal and section, and the Kafka class or test if one shipped.
        reason: why the status is not ``pass``, in one line; for ``pass``, the evidence that this
            machine could not give, if any.
        checks: the checks of the requirement.
        examples: the number of generated programs.
        operations: the number of calls on the subject.
        crash_points: the number of crashes, by kind of crash point. ``boundary``, ``line``,
            ``syscall`` and ``process`` are real kills, ``derived`` are states of kills that a
            recording tells, ``power`` are losses of power, and ``enospc`` and ``eio`` calls that
            failed.
        wiped: the number of crashes after which the store asked to be wiped, as a store without
            transactions may: the other promises then rest on a restored store.
        duration_s: the seconds spent in the checks.
        lacking: what this machine lacks to try all of the requirement, with a remedy; empty if it
            lacks nothing.
        strength: the strength of a ``pass``; see :data:`Strength`.
        mutants: the number of deliberately wrong stores that the requirement is known to catch.
    """

    subject: str
    requirement: str
    title: str
    promise: str
    source: str
    level: Level
    core: bool
    status: Status
    reason: str = ""
    checks: list[str] = field(default_factory=list)
    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = field(default_factory=dict)
    wiped: int = 0
    duration_s: float = 0.0
    lacking: str = ""
    strength: Strength = ""
    mutants: int = 0


class CheckRecord(Struct, frozen=True, kw_only=True, tag="check", tag_field="type"):
    """One check that has ended.

    A check may test several requirements. A sum over checks therefore counts evidence once, but a
    sum over results may count it several times.

    Attributes:
        check: the name of the check, ``module.function``.
        examples: the number of generated programs.
        operations: the number of calls on the subject.
        crash_points: the number of crashes, by kind of crash point.
        wiped: the number of crashes after which the store asked to be wiped.
        duration_s: the seconds spent in the check.
        situations: how often each interesting situation occurred in simulated worlds, 0 included.
        digest: a digest of all events in simulated worlds; empty without any world.
    """

    subject: str
    check: str
    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = field(default_factory=dict)
    wiped: int = 0
    duration_s: float = 0.0
    situations: dict[str, int] = field(default_factory=dict)
    digest: str = ""


class Failure(Struct, frozen=True, kw_only=True, tag="failure", tag_field="type"):
    """One way in which a promise is broken, with the data to understand and to repeat it.

    Attributes:
        check: the check with the smallest program for the failure.
        tried: the actions of the check, in one sentence.
        program: the smallest program found that shows the failure: runnable Python.
        expected: the behaviour that the promise demands here.
        found: the behaviour of the subject.
        reproduce: the command that runs this check again with the same seed.
        shape: the way in which the promise is broken, such as ``stale-value``; another way is
            another failure.
        traceback: the part of the subject in the traceback, outermost call first; empty if the
            subject raised nothing.
        also_found_by: other checks that found the same failure.
        saved: the file for ``streamproof replay``, relative to the directory of the log; empty if
            the failure was not saved.
        known: why the failure does not count, from the file of known failures; empty if it counts.
    """

    subject: str
    requirement: str
    check: str
    title: str
    promise: str
    source: str
    level: Level
    core: bool = True
    tried: str
    program: str
    expected: str
    found: str
    reproduce: str
    shape: str = ""
    traceback: str = ""
    also_found_by: list[str] = field(default_factory=list)
    saved: str = ""
    known: str = ""


class Note(Struct, frozen=True, kw_only=True, tag="note", tag_field="type"):
    """A note to the reader, besides the results.

    Attributes:
        kind: ``fixed``: a failure of the bank does not fail any more. ``warning``: the bank or the
            list of known failures needs attention. ``search``: the extent of a search within a
            given time. ``claims``: what was not asked, because the subject does not claim it.
        subject: the subject of the note; empty if the note is about the run.
    """

    kind: Literal["fixed", "warning", "search", "claims"]
    text: str
    subject: str = ""


class SubjectVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one subject, with how many requirements got which status.

    Attributes:
        verdict: see :data:`Verdict`.
        summary: the verdict in one sentence.
        untried: how much this machine could not try, why, and the remedy, in one sentence; empty if
            it lacks nothing.
        core: counts by status over core requirements.
        extended: counts by status over the others.
        of_core: in a run of a part of the requirements, the number of core requirements that apply
            to the subject in a whole run; 0 in a whole run.
    """

    subject: str
    verdict: Verdict
    summary: str
    core: dict[Status, int]
    extended: dict[Status, int]
    untried: str = ""
    of_core: int = 0

    @property
    def sentence(self) -> str:
        """The summary, and what this machine could not try."""
        return "; ".join(filter(None, (self.summary, self.untried)))


class Footer(Struct, frozen=True, kw_only=True, tag="footer", tag_field="type"):
    """The last line; a log without one is a run that died, and never a pass.

    Attributes:
        verdict: the worst verdict of all subjects.
        exit_code: the exit code of the command.
        reproduce: the command that reproduces the worst finding, or the whole run.
        canary: the requirement that caught the canary, which every run must find wrong.
    """

    finished_at: str
    duration_s: float
    verdict: Verdict
    exit_code: int
    verdicts: list[SubjectVerdict]
    reproduce: str
    canary: str = ""


Record = Header | CheckRecord | RequirementResult | Failure | Note | Footer
"""Any line of a run log."""
