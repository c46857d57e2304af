"""What a run finds out, as plain data: the records that every report is made from.

The run log is one JSON object a line, each with a ``type``: one ``header``, then ``check``,
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
"""What became of one requirement.

``pass``: tried, and held. ``fail``: broken, with a program that shows it. ``known``: broken, too,
but only in ways that the file of known failures lists, with a reason. ``error``: no answer,
because the subject hung or died, or the suite itself failed. ``skip``: could not be tried on this
machine. ``unsupported``: the subject does not claim the capability, or the requirement does
not hold under the chosen guarantee or spec. ``untested``: no check exists, for a written reason.
"""

Verdict = Literal["success", "partial", "failure", "error"]
"""``failure``: a MUST is broken. ``error``: no MUST is broken, but a check gave no answer.
``partial``: a SHOULD or MAY is broken, a failure is known, a core requirement was skipped, a result
is missing, or nothing was tried. ``success``: none of these."""

Strength = Literal["strong", "moderate", "weak", "example only", ""]
"""How much a ``pass`` is worth; empty where there is none.

A *search* is 25 generated programs or 100 crashes, or more. ``strong``: there was a search, and
checks of the requirement are known to catch at least one deliberately wrong store. ``moderate``:
one of the two. ``weak``: programs were generated or processes were killed, but fewer.
``example only``: the same few programs are run every time.
"""


class SubjectInfo(Struct, frozen=True, kw_only=True):
    """Who was judged.

    Attributes:
        name: how the subject is named in this run: what the user wrote.
        description: one line, from the subject's documentation.
        package: the distribution it comes from, if that could be told.
        version: the version of that distribution.
        capabilities: what it claims, by name.
    """

    name: str
    description: str = ""
    package: str = ""
    version: str = ""
    capabilities: dict[str, bool | int | str] = field(default_factory=dict)


class Header(Struct, frozen=True, kw_only=True, tag="header", tag_field="type"):
    """The first line: what was run, by what, on what.

    Attributes:
        run_id: names the run; made from the start time and the seed.
        started_at: UTC, ISO 8601.
        seed: every random decision of the run follows from it.
        command: a command line that starts the same run.
        requirements: the ids of all requirements that the run will give a result for.
        platform: versions of Python, the operating system and the libraries that matter.
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
    """What became of one requirement for one subject, and on how much evidence.

    Attributes:
        subject: the name of the subject.
        requirement: the id, ``AREA-NNN``.
        title: a few words.
        promise: the promise in full.
        source: proposal and section, and the Kafka class or test where one shipped.
        reason: why the status is not ``pass``, in one line; for ``pass``, which part of the
            evidence could not be had on this machine, if any.
        checks: the checks that tested it.
        examples: how many generated programs were run.
        operations: how many calls on the subject were made.
        crash_points: how many real kills there were, by kind of crash point
            (``boundary``, ``line``, ``syscall``).
        duration_s: seconds spent in its checks.
        strength: how much a ``pass`` is worth; see :data:`Strength`.
        mutants: how many deliberately wrong stores it is known to catch.
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
    duration_s: float = 0.0
    strength: Strength = ""
    mutants: int = 0


class CheckRecord(Struct, frozen=True, kw_only=True, tag="check", tag_field="type"):
    """One check that has ended.

    A check may serve several requirements; summed over checks, evidence is counted once.

    Attributes:
        check: ``module.function``.
        examples: how many generated programs were run.
        operations: how many calls on the subject were made.
        crash_points: how many real kills there were, by kind of crash point.
        duration_s: seconds spent in it.
        situations: how often each interesting situation came about in simulated worlds; what
            never did is 0.
        digest: stands for everything that happened in simulated worlds; empty without any.
    """

    subject: str
    check: str
    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = field(default_factory=dict)
    duration_s: float = 0.0
    situations: dict[str, int] = field(default_factory=dict)
    digest: str = ""


class Failure(Struct, frozen=True, kw_only=True, tag="failure", tag_field="type"):
    """One way in which a promise is broken, with all that is needed to understand and repeat it.

    Attributes:
        check: the check that has the smallest program for it.
        tried: what the check did, in one sentence.
        program: the smallest program found that shows it: runnable Python.
        expected: what the promise demands here.
        found: what the subject did.
        reproduce: the command that runs this check again with the same seed.
        shape: what tells it from other ways in which the promise is broken, such as
            ``stale-value``.
        also_found_by: other checks that found the same.
        saved: the file to run just this again with ``streamproof replay``, from the directory
            of the log; empty if it was not saved.
        known: why it does not count, from the file of known failures; empty if it does.
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
    also_found_by: list[str] = field(default_factory=list)
    saved: str = ""
    known: str = ""


class Note(Struct, frozen=True, kw_only=True, tag="note", tag_field="type"):
    """Something that a reader should know besides the results.

    Attributes:
        kind: ``fixed``: a failure of the bank does not fail any more. ``warning``: something in
            the bank or among the known failures is not as it should be. ``search``: what a
            search within a given time came to.
        subject: whom it is about; empty if it is about the run.
    """

    kind: Literal["fixed", "warning", "search"]
    text: str
    subject: str = ""


class SubjectVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one subject, with how many requirements got which status.

    Attributes:
        verdict: see :data:`Verdict`.
        summary: the verdict in one sentence.
        core: counts by status over core requirements.
        extended: counts by status over the others.
    """

    subject: str
    verdict: Verdict
    summary: str
    core: dict[Status, int]
    extended: dict[Status, int]


class Footer(Struct, frozen=True, kw_only=True, tag="footer", tag_field="type"):
    """The last line; a log without one is a run that died, and never a pass.

    Attributes:
        verdict: the worst verdict of all subjects.
        exit_code: what the command ended with.
        reproduce: the command that reproduces the worst finding, or the whole run.
        canary: by which requirement the store was caught that every run must find wrong.
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
