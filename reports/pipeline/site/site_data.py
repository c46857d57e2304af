"""The rows that a report is made from: plain data of any origin.

A row is one line of a table over all runs. The rows do not depend on Spark, pandas or files. All
text in rows may come from a store under test, so a report shows the text and never trusts it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from streamproof.conformance.results import Level, Strength
from streamproof.conformance.verdict_rule import Outcome, Shown

__all__ = [
    "ChangeKind",
    "Day",
    "Distribution",
    "Flaky",
    "Promise",
    "ReadingProblem",
    "SiteCell",
    "SiteFailure",
    "SiteRows",
    "SiteRun",
    "SiteSubject",
    "StatusChange",
    "Unreached",
    "VerdictRow",
    "WorldFailure",
    "WorldTotals",
]

ChangeKind = Literal["broken", "fixed", "changed", "added", "removed"]
"""How the status of a requirement changed.

``broken``: the requirement fails now, and did not before. ``fixed``: it failed before, and was now
tried and held. ``changed``: any other change; a requirement that is skipped now is not fixed.
``added``: there was no result before. ``removed``: there is no result now.
"""


class SiteRun(Struct, frozen=True, kw_only=True):
    """One run that was read.

    Attributes:
        started_at: UTC, ISO 8601.
        command: a command line that starts the same run.
        verdict: the verdict at its end; ``incomplete`` if it died.
        path: the file that it was read from.
    """

    run_id: str
    started_at: str
    guarantee: str
    spec: str
    seed: int
    verdict: Outcome
    profile: str = ""
    tool_version: str = ""
    command: str = ""
    path: str = ""


class Promise(Struct, frozen=True, kw_only=True):
    """One requirement: what is promised, and how it is tested.

    Attributes:
        requirement: the id, ``AREA-NNN``.
        checks: the checks that test it, ``module.function``.
    """

    requirement: str
    title: str
    level: Level
    core: bool
    promise: str = ""
    source: str = ""
    checks: list[str] = field(default_factory=list)


class SiteCell(Struct, frozen=True, kw_only=True):
    """The result of one requirement for one version of a subject, over all its runs.

    Attributes:
        status: of all runs together: one failure is a failure, and a skip is never a pass.
        latest: of the newest run alone; where it is better than the status, runs do not agree.
        mutants: how many deliberately wrong stores the requirement is known to catch.
        runs: how many runs gave a result.
        seeds: how many different seeds these had.
        crash_points: how many processes were killed.
        wiped: after how many of these the store asked to be wiped.
        caught: how many runs that killed processes found it broken.
        low: the lower end of the 95 % interval of the probability that one kill shows a fault.
        high: its upper end; ``None``, as ``low``, where nothing was killed.
    """

    subject: str
    version: str
    guarantee: str
    requirement: str
    status: Shown
    spec: str = ""
    latest: Shown | None = None
    reason: str = ""
    strength: Strength = ""
    mutants: int = 0
    runs: int = 1
    seeds: int = 1
    examples: int = 0
    operations: int = 0
    crash_points: int = 0
    wiped: int = 0
    caught: int = 0
    low: float | None = None
    high: float | None = None


class SiteSubject(Struct, frozen=True, kw_only=True):
    """The description that one version of a subject gives of itself.

    Attributes:
        package: the distribution that it comes from.
        capabilities: what it claims, in words.
    """

    subject: str
    version: str
    package: str = ""
    description: str = ""
    capabilities: str = ""


class VerdictRow(Struct, frozen=True, kw_only=True):
    """The verdict on one version of a subject, over all its runs.

    Attributes:
        latest_at: when the last of them started, UTC, ISO 8601: what was tested last is newest.
    """

    subject: str
    version: str
    guarantee: str
    verdict: Outcome
    spec: str = ""
    latest_at: str = ""
    runs: int = 1


class SiteFailure(Struct, frozen=True, kw_only=True):
    """One way in which runs of one version found a promise broken, as the newest of them has it.

    Attributes:
        run_id: of that newest run.
        shape: what tells it from other ways in which the promise is broken.
        program: the smallest program found that shows it.
        reproduce: the command that runs the check again with the same seed.
        known: why it does not count; empty if it does.
        runs: how many runs of the version found it.
        of_baseline: whether a run of the baseline found it, and none that the report is on.
    """

    subject: str
    version: str
    guarantee: str
    requirement: str
    run_id: str
    spec: str = ""
    check: str = ""
    shape: str = ""
    tried: str = ""
    program: str = ""
    expected: str = ""
    found: str = ""
    reproduce: str = ""
    known: str = ""
    runs: int = 1
    of_baseline: bool = False


class StatusChange(Struct, frozen=True, kw_only=True):
    """One requirement whose status changed.

    Attributes:
        before: the status in the older version or the baseline; ``None`` if it has none.
        after: the status now; ``None`` if it has none.
        version_before: the version that it is compared with.
    """

    subject: str
    guarantee: str
    requirement: str
    kind: ChangeKind
    before: Shown | None
    after: Shown | None
    spec: str = ""
    version_before: str = ""
    version_after: str = ""


class Flaky(Struct, frozen=True, kw_only=True):
    """A requirement that one version of a subject kept in some runs and broke in others."""

    subject: str
    version: str
    guarantee: str
    requirement: str
    held: int
    broken: int
    spec: str = ""
    held_run: str = ""
    broken_run: str = ""
    held_seed: int = 0
    broken_seed: int = 0


class ReadingProblem(Struct, frozen=True, kw_only=True):
    """A file or a line that could not be read, and so is in no other table.

    Attributes:
        line: in the file, from 1; 0 if it is about the whole file.
    """

    path: str
    what: str
    line: int = 0
    kind: str = ""


class Unreached(Struct, frozen=True, kw_only=True):
    """An interesting situation that never came about in simulated worlds.

    Attributes:
        runs: how many runs looked for it.
    """

    situation: str
    runs: int = 0


class WorldTotals(Struct, frozen=True, kw_only=True):
    """Simulated worlds or scenarios of campaigns with the same settings.

    Attributes:
        kind: ``simulate``, or ``scenario``.
        subject: the store in them; empty for model stores.
        guarantee: the guarantee that they ran under; empty if they did not get that far.
        defect: the deliberate mistake of the runtime; empty if none.
        count: how many there were.
        held: how many kept every promise, or ended as their scenario expects.
        broken: how many broke a promise, or ended otherwise.
        silent: how many gave no answer: they raised, died or took too long.
        events: in all of them.
    """

    kind: str
    subject: str
    guarantee: str
    defect: str = ""
    count: int
    held: int
    broken: int
    silent: int
    events: int = 0


class WorldFailure(Struct, frozen=True, kw_only=True):
    """One way in which worlds or scenarios failed, with the shortest one that shows the failure.

    Attributes:
        kind: ``simulate``, or ``scenario``.
        outcome: ``fail``, or ``error`` if there was no answer.
        subject: the store in it; empty for model stores.
        scenario: ``NAME@VARIANT``; empty if it is none.
        defect: the deliberate mistake of the runtime; empty if none.
        requirement: that is broken; empty if a scenario came otherwise, or without an answer.
        shape: the name of the invariant.
        found: what is wrong, or why there is no answer.
        seed: of the world; -1 in a scenario.
        topology: of the simulated application.
        events: how many events there were in it.
        sequence: the event by which it was found; -1 at the end of the world.
        time: when that was, in virtual milliseconds; -1 at the end of the world.
        command: the command that shows the failure again.
        worlds: how many worlds show it.
    """

    kind: str
    outcome: Literal["fail", "error"]
    subject: str = ""
    scenario: str = ""
    defect: str = ""
    requirement: str = ""
    shape: str = ""
    found: str = ""
    title: str = ""
    expected: str = ""
    seed: int = -1
    guarantee: str = ""
    topology: str = ""
    events: int = 0
    sequence: int = -1
    time: int = -1
    command: str = ""
    worlds: int = 1


class Distribution(Struct, frozen=True, kw_only=True):
    """The quantiles of one measure of simulated runs.

    Attributes:
        measure: what was measured, such as ``duration of a restoration``.
        group: what it was measured of, such as a scenario.
        unit: such as ``ms``.
    """

    measure: str
    group: str
    unit: str
    count: int
    minimum: float
    p50: float
    p90: float
    p99: float
    maximum: float


class Day(Struct, frozen=True, kw_only=True):
    """How one subject did in all runs that started on one day, UTC: counts by status."""

    date: str
    subject: str
    guarantee: str
    counts: dict[Shown, int]
    spec: str = ""


class SiteRows(Struct, frozen=True, kw_only=True):
    """All rows that one report is made from.

    Attributes:
        changes: what changed since the baseline; without one, a report compares the newest
            version of each subject with the version before it.
        baseline: the name of the baseline on the command line; empty without one.
    """

    promises: tuple[Promise, ...] = ()
    cells: tuple[SiteCell, ...] = ()
    verdicts: tuple[VerdictRow, ...] = ()
    subjects: tuple[SiteSubject, ...] = ()
    runs: tuple[SiteRun, ...] = ()
    failures: tuple[SiteFailure, ...] = ()
    changes: tuple[StatusChange, ...] = ()
    flaky: tuple[Flaky, ...] = ()
    problems: tuple[ReadingProblem, ...] = ()
    unreached: tuple[Unreached, ...] = ()
    worlds: tuple[WorldTotals, ...] = ()
    world_failures: tuple[WorldFailure, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    days: tuple[Day, ...] = ()
    baseline: str = ""
