"""A whole run: it plans checks, takes their outcomes, and makes records of them."""

from __future__ import annotations

import itertools
import shlex
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from streamproof.conformance.budget import Search
from streamproof.conformance.canary import canary_task, require_caught
from streamproof.conformance.catalogue import (
    Binds,
    Requirement,
    load_catalogue,
    requirements_that_bind,
)
from streamproof.conformance.check_engine import CheckTask, Engine
from streamproof.conformance.check_loader import checks_for, checks_of
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_registry import Check
from streamproof.conformance.failure_groups import FailureGroup, group_failures
from streamproof.conformance.failure_shapes import MOST_SHAPES
from streamproof.conformance.known_failures import KnownFailures
from streamproof.conformance.results import (
    CheckRecord,
    Failure,
    Note,
    RequirementResult,
    SubjectInfo,
    SubjectVerdict,
)
from streamproof.conformance.saved_failures import Archive, Replay, SavedFailure, saved_from
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import binds_of
from streamproof.conformance.verdicts import (
    Found,
    applicable,
    by_shape,
    failures_of,
    not_asked,
    result_of,
    untested_result,
    verdict_of,
)
from streamproof.errors import UsageError
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.jvm.subjects import class_path_options

__all__ = [
    "Observer",
    "Session",
    "select_requirements",
    "still_fails",
    "verify_command",
    "why_untried",
]


def select_requirements(only: Iterable[str], binds: Binds = "store") -> list[Requirement]:
    """The requirements of one kind that ``only`` names, by id or area; all if it is empty.

    Raises:
        UsageError: an entry of ``only`` is neither an id nor an area, or is of the other kind.
    """
    catalogue = requirements_that_bind(binds)
    wanted = list(only)
    for name in wanted:
        if any(name in (each.id, each.area) for each in catalogue):
            continue
        if any(name in (each.id, each.area) for each in load_catalogue().values()):
            instead = "the runtime, not a store: ask `streamproof verify runtime` for it"
            if binds == "runtime":
                instead = "a store, not the runtime: ask `streamproof verify SUBJECT` for it"
            raise UsageError(f"{name} binds {instead}.")
        raise UsageError(
            f"There is no requirement or area {name!r}; `streamproof requirements` lists them all."
        )
    return [each for each in catalogue if not wanted or each.id in wanted or each.area in wanted]


def verify_command(
    subjects: Collection[str], settings: Settings, only: Iterable[str] = (), budget: str = ""
) -> str:
    """The command line that starts a run like this one."""
    words = ["streamproof", "verify", *subjects]
    defaults = Settings()
    for option in ("guarantee", "spec", "profile"):
        if getattr(settings, option) != getattr(defaults, option):
            words += [f"--{option}", getattr(settings, option)]
    if settings.operation_timeout_s != defaults.operation_timeout_s:
        words += ["--timeout", f"{settings.operation_timeout_s:g}"]
    if chosen := ",".join(only):
        words += ["--only", chosen]
    words += ["--seed", str(settings.seed)]
    if settings.round:
        words += ["--round", str(settings.round)]
    if budget:
        words += ["--budget", budget]
    words += class_path_options(subjects)
    return shlex.join(words)


class Observer:
    """Receives the events of a session; each method does nothing unless it is overridden."""

    def noticed(self, subject: str, requirement: str) -> None:
        """A check seems to see a requirement broken, and goes on to find the smallest program."""

    def ended(self, subject: str, outcome: CheckOutcome) -> None:
        """A check has ended."""

    def shrinking(self, subject: str, failures: int) -> None:
        """So many more failures of a subject are to be made small."""

    def shrunk(self, subject: str) -> None:
        """One of these failures is as small as can be."""

    def record(self, record: CheckRecord | RequirementResult | Failure | Note) -> None:
        """A record of the run log is complete."""


def _check_record(subject: str, outcome: CheckOutcome) -> CheckRecord:
    return CheckRecord(
        subject=subject,
        check=outcome.check,
        examples=outcome.evidence.examples,
        operations=outcome.evidence.operations,
        crash_points=dict(sorted(outcome.evidence.crash_points.items())),
        wiped=outcome.evidence.wiped,
        duration_s=round(outcome.duration_s, 3),
        situations=outcome.evidence.situations,
        digest=outcome.evidence.digest,
    )


class Session:
    """Verifies subjects; the records of one are complete when ``run`` returns.

    Args:
        infos: the subjects, loaded.
        settings: the settings of the run.
        requirements: which requirements to test.
        known: the failures that are known.
        archive: where failures are saved; without one, they are not.
        bank: failures of earlier runs, which the session replays before it searches.
        with_canary: whether the engine has loaded the canary, which then is tried first.

    Attributes:
        canary: by which requirement the canary was caught; empty before it was.
    """

    def __init__(
        self,
        infos: Mapping[str, SubjectInfo],
        settings: Settings,
        requirements: list[Requirement],
        *,
        known: KnownFailures | None = None,
        archive: Archive | None = None,
        bank: Iterable[SavedFailure] = (),
        with_canary: bool = False,
    ) -> None:
        self.settings = settings
        self.requirements = requirements
        self.results: dict[str, list[RequirementResult]] = {name: [] for name in infos}
        self.failures: list[Failure] = []
        self._infos = infos
        self._known = known or KnownFailures()
        self._archive = archive
        self._capabilities = {
            name: Capabilities(**info.capabilities)  # type: ignore[arg-type]  # It came from one.
            for name, info in infos.items()
        }
        self._asked = {name: self._applicable(name, self._asked_of(name)) for name in infos}
        self._bank = {(each.subject, each.name): each for each in bank if self._can_repeat(each)}
        self._mended: set[tuple[str, str]] = set()
        self._searching = False
        self._with_canary = with_canary
        self.canary = ""
        self._outcomes: dict[str, list[CheckOutcome]] = {name: [] for name in infos}
        self._failed: dict[tuple[str, str], list[Failure]] = {}
        # By subject and name: failures that wait to be made small, and what does that.
        self._large: dict[tuple[str, str], tuple[Requirement, Found]] = {}
        self._large_tasks: deque[CheckTask] = deque()

    def plan(self) -> list[tuple[str, Check]]:
        """The checks to run on each subject. Heavy checks start first, so that none ends late."""
        plan: list[tuple[str, Check]] = []
        for subject in self.results:
            wanted = {name for each in self._asked[subject] for name in each.checks}
            chosen = [check for name, check in checks_for(subject).items() if name in wanted]
            plan += [(subject, check) for check in sorted(chosen, key=lambda c: -c.weight)]
        return plan

    def run(self, engine: Engine, observer: Observer, budget_s: float = 0.0) -> None:
        """Replay saved failures, then run the plan, then search on until the budget is spent.

        Several checks may find the same failure. So without a budget, one of them is made small
        when all checks of its requirement have ended. A search reports at once what it finds.

        The observer receives each result as soon as it is final: without a budget as the run goes
        on, with a budget at the end of the search, even if an error ends it early.

        Args:
            engine: runs the checks; it has loaded the subjects.
            observer: receives what happens.
            budget_s: how long to search in all, in seconds; 0 runs the plan alone.

        Raises:
            CanaryError: the suite did not find the canary broken.
            UsageError: a subject cannot be verified at all; the message says why.
        """
        for subject in self.results:
            for requirement in self._asked_of(subject):
                result = untested_result(
                    subject,
                    requirement,
                    self._capabilities[subject],
                    self.settings.guarantee,
                    self.settings.spec,
                )
                if result is not None:
                    self._finish(subject, result, observer)

        search = Search(self.plan(), budget_s, self.settings.round) if budget_s else None
        self._searching = search is not None

        def on_outcome(subject: str, outcome: CheckOutcome) -> None:
            if outcome.unusable:
                raise UsageError(outcome.unusable)
            if subject not in self.results:
                self.canary = require_caught(outcome)
                return
            if outcome.replayed:
                self._take_small(subject, outcome, observer)
                return
            observer.ended(subject, outcome)
            self._take(subject, outcome, observer)
            if search is not None:
                search.take(subject, outcome)
            # A long search has many rounds, and nothing reads these names again.
            outcome.evidence.reached.clear()

        rounds = search.tasks() if search is not None else iter(())
        postpones = self.settings.shrinks and search is None
        try:
            self._repeat(engine, observer)
            canary = [canary_task()] if self._with_canary else []
            first = [CheckTask(*each, postpones=postpones) for each in self.plan()]
            plan = self._tasks(itertools.chain(canary, first, rounds))
            engine.run(plan, on_outcome, self._noticing(observer))
            # The last checks may have left large failures, too.
            engine.run(self._shrinking(), on_outcome)
        finally:
            # An error, or Ctrl-C, must not take a failure away that nobody has made small yet.
            self._finish_large(observer)
            if search is not None:
                self._finish_all(observer)
                observer.record(Note(kind="search", text=search.summary()))
        try:
            self._finish_beside(observer)
            engine.run(self._shrinking(), on_outcome)
        finally:
            self._finish_large(observer)
        self._note_at_the_end(observer)

    def _noticing(self, observer: Observer) -> Callable[[str, str], None]:
        """What passes on a requirement that seems broken, if the run asks for it."""
        asked = {each.id for each in self.requirements}

        def on_noticed(subject: str, requirement: str) -> None:
            is_asked = subject in self.results and requirement in asked
            if is_asked and not self._known.may_cover(subject, requirement):
                observer.noticed(subject, requirement)

        return on_noticed

    def _note_at_the_end(self, observer: Observer) -> None:
        """Record what the results do not say by themselves."""
        for subject, info in self._infos.items():
            for text in not_asked(info, self.results[subject]):
                observer.record(Note(kind="claims", subject=subject, text=text))
        for text in self._archive.problems if self._archive else ():
            observer.record(Note(kind="warning", text=text))
        for text in self._known.warnings(each for some in self.results.values() for each in some):
            observer.record(Note(kind="warning", text=text))

    def failure_groups(self) -> list[FailureGroup]:
        """The failures that count, by probable cause, the weightiest first.

        The time at which each was found has no influence, because it differs from run to run.
        """
        return group_failures(each for each in self.failures if not each.known)

    def verdicts(self) -> list[SubjectVerdict]:
        """The verdict on each subject."""
        return [
            verdict_of(
                subject,
                self._in_order(subject, results),
                self._of_core(subject),
                [each for each in self.failures if each.subject == subject],
            )
            for subject, results in self.results.items()
        ]

    def _in_order(
        self, subject: str, results: Iterable[RequirementResult]
    ) -> list[RequirementResult]:
        """The results in the order of the run, and after them those that nobody had asked for."""
        whole = requirements_that_bind(binds_of(subject))
        order = list(dict.fromkeys(each.id for each in (*self.requirements, *whole)))
        return sorted(results, key=lambda each: order.index(each.requirement))

    def _of_core(self, subject: str) -> int:
        """The core requirements of a whole run, if this run is a part of one; otherwise 0."""
        whole = requirements_that_bind(binds_of(subject))
        if len(self.requirements) == len(whole):
            return 0
        return sum(each.core for each in self._applicable(subject, whole))

    def _applicable(self, subject: str, requirements: Iterable[Requirement]) -> list[Requirement]:
        """The requirements that a check tests on a subject.

        Each has only the checks that have something to try in the subject.
        """
        capabilities = self._capabilities[subject]
        guarantee, spec = self.settings.guarantee, self.settings.spec
        return [
            msgspec.structs.replace(each, checks=checks_of(each, subject, capabilities))
            for each in applicable(requirements, capabilities, guarantee, spec)
        ]

    def _asked_of(self, subject: str) -> list[Requirement]:
        """The requirements of this run as a subject is asked for them.

        The simulated runtime and Kafka itself have the same requirements, and different checks.
        """
        own = {each.id: each for each in requirements_that_bind(binds_of(subject))}
        return [own.get(each.id, each) for each in self.requirements]

    # The bank.

    def _can_repeat(self, saved: SavedFailure) -> bool:
        """Whether a saved failure is about a subject and a requirement of this run."""
        check = checks_for(saved.subject).get(saved.check)
        same = (saved.guarantee, saved.spec) == (self.settings.guarantee, self.settings.spec)
        return (
            same
            and check is not None
            and saved.subject in self.results
            and any(
                each.id == saved.requirement and saved.check in each.checks
                for each in self._asked[saved.subject]
            )
        )

    def _repeat(self, engine: Engine, observer: Observer) -> None:
        """Replay the failures of the bank, and note which of them do not fail any more."""
        plan = [
            CheckTask(saved.subject, checks_for(saved.subject)[saved.check], replay=saved.replay())
            for saved in self._bank.values()
        ]
        outcomes: dict[tuple[str, str], CheckOutcome] = {}

        def on_outcome(subject: str, outcome: CheckOutcome) -> None:
            if outcome.unusable:
                raise UsageError(outcome.unusable)
            outcomes[subject, outcome.replayed] = outcome

        engine.run(plan, on_outcome)
        for key, saved in self._bank.items():
            outcome = outcomes[key]
            self._take(saved.subject, outcome, observer)
            if why := why_untried(saved, outcome):
                text = f"{saved.name} was not tried again, and stays in the bank: "
                text += f"{why.rstrip('.')}."
                observer.record(Note(kind="warning", subject=saved.subject, text=text))
            elif not still_fails(saved, outcome):
                self._mended.add(key)
                text = f"{saved.name} does not fail any more. It stays in the bank."
                observer.record(Note(kind="fixed", subject=saved.subject, text=text))

    # Large failures.

    def _tasks(self, plan: Iterable[CheckTask]) -> Iterator[CheckTask]:
        """The plan; what makes a failure small comes before the checks that have not begun."""
        for each in plan:
            yield from self._shrinking()
            yield each
        yield from self._shrinking()

    def _shrinking(self) -> Iterator[CheckTask]:
        """What makes failures small, each once."""
        while self._large_tasks:
            yield self._large_tasks.popleft()

    def _starts_shrinking(
        self,
        subject: str,
        requirement: Requirement,
        outcomes: Iterable[CheckOutcome],
        observer: Observer,
    ) -> bool:
        """Let the large failures of a requirement be made small; false if it has none.

        Several checks may have found the same failure, so one of each shape is made small.
        """
        shapes = sorted(by_shape(requirement.id, outcomes).items())[:MOST_SHAPES]
        easiest = {shape: min(found, key=_effort_to_repeat) for shape, found in shapes}
        large = {shape: found for shape, found in easiest.items() if found[1].is_large}
        for shape, (outcome, finding) in large.items():
            replay = Replay(
                name=f"{requirement.id}-{shape}",
                requirement=requirement.id,
                choices=finding.choices,
                profile=self.settings.profile,
                seed=self.settings.seed,
                round=outcome.round,
                shrinks=True,
            )
            self._large[subject, replay.name] = requirement, (outcome, finding)
            check = checks_for(subject)[outcome.check]
            self._large_tasks.append(CheckTask(subject, check, replay=replay))
        if large:
            observer.shrinking(subject, len(large))
        return bool(large)

    def _take_small(self, subject: str, outcome: CheckOutcome, observer: Observer) -> None:
        """Keep a failure that was made small; after the last one, finish its requirement."""
        observer.shrunk(subject)
        requirement, (origin, large) = self._large.pop((subject, outcome.replayed))
        for each in outcome.findings:
            if (each.requirement, each.shape) == (large.requirement, large.shape):
                origin.findings[origin.findings.index(large)] = each
        if (subject, requirement.id) not in self._large_requirements():
            mine = self._outcomes_for(subject, requirement)
            self._conclude(subject, requirement, mine, observer)

    def _large_requirements(self) -> dict[tuple[str, str], Requirement]:
        """The requirements that wait until their failures are small, by subject and id."""
        return {(subject, each.id): each for (subject, _), (each, _) in self._large.items()}

    def _finish_large(self, observer: Observer) -> None:
        """Make the results of requirements whose failures nobody makes small any more."""
        for (subject, _), requirement in self._large_requirements().items():
            mine = self._outcomes_for(subject, requirement)
            self._conclude(subject, requirement, mine, observer)

    # Results.

    def _take(self, subject: str, outcome: CheckOutcome, observer: Observer) -> None:
        """Keep an outcome, and finish the requirements that waited for it alone."""
        self._outcomes[subject].append(outcome)
        observer.record(_check_record(subject, outcome))
        for requirement in self._asked[subject]:
            if outcome.check not in requirement.checks or outcome.replayed:
                continue
            if not self._searching:
                self._try_to_finish(subject, requirement, observer)
            elif outcome.findings:
                # The result comes at the end of the search, but a failure is reported at once.
                outcomes = self._outcomes_for(subject, requirement)
                self._record_failures(subject, requirement, outcomes, observer)

    def _finish_all(self, observer: Observer) -> None:
        """Make the results of all requirements whose checks have all ended."""
        for subject in self.results:
            for requirement in self._asked[subject]:
                self._try_to_finish(subject, requirement, observer)

    def _try_to_finish(self, subject: str, requirement: Requirement, observer: Observer) -> None:
        """Make the result of a requirement if all checks that test it have ended."""
        outcomes = self._outcomes_for(subject, requirement)
        done = {each.check for each in outcomes if not each.replayed}
        is_done = all(name in done for name in requirement.checks)
        if is_done and not self._starts_shrinking(subject, requirement, outcomes, observer):
            self._conclude(subject, requirement, outcomes, observer)

    def _finish_beside(self, observer: Observer) -> None:
        """Make the results of broken requirements that this run was not asked for.

        A check tests several requirements. A failure that it has seen is a failure of the subject,
        also where ``--only`` names another of them.
        """
        for subject, outcomes in self._outcomes.items():
            broken = {each.requirement for outcome in outcomes for each in outcome.findings}
            broken -= {each.requirement for each in self.results[subject]}
            whole = requirements_that_bind(binds_of(subject))
            for requirement in self._applicable(subject, whole):
                if requirement.id in broken:
                    mine = self._outcomes_for(subject, requirement)
                    if not self._starts_shrinking(subject, requirement, mine, observer):
                        self._conclude(subject, requirement, mine, observer)

    def _conclude(
        self,
        subject: str,
        requirement: Requirement,
        outcomes: Sequence[CheckOutcome],
        observer: Observer,
    ) -> None:
        """Make the result of a requirement from these outcomes."""
        failures = self._record_failures(subject, requirement, outcomes, observer)
        result = result_of(subject, requirement, outcomes)
        if result.status == "fail" and all(each.known for each in failures):
            reason = f"{failures[0].known}; {result.reason}"
            result = msgspec.structs.replace(result, status="known", reason=reason)
        self._finish(subject, result, observer)

    def _outcomes_for(self, subject: str, requirement: Requirement) -> list[CheckOutcome]:
        """The outcomes that decide a requirement, in an order that is always the same."""
        checks = requirement.checks
        mine = [each for each in self._outcomes[subject] if each.check in checks]
        return sorted(mine, key=lambda o: (checks.index(o.check), o.round, o.replayed))

    def _record_failures(
        self,
        subject: str,
        requirement: Requirement,
        outcomes: Iterable[CheckOutcome],
        observer: Observer,
    ) -> list[Failure]:
        """Save and record each shape in which a requirement is broken, unknown failures first."""

        def reproduce(outcome: CheckOutcome) -> str:
            if outcome.replayed:
                return self._bank[subject, outcome.replayed].reproduce
            settings = msgspec.structs.replace(self.settings, round=outcome.round)
            return verify_command([subject], settings, [requirement.id])

        found = failures_of(subject, requirement, outcomes, reproduce)
        told = [
            (msgspec.structs.replace(failure, known=self._known.reason_for(failure)), origin)
            for failure, origin in found
        ]
        told.sort(key=lambda each: bool(each[0].known))
        failures = self._failed.setdefault((subject, requirement.id), [])
        for failure, origin in told:
            is_new = failure.shape not in {each.shape for each in failures}
            if is_new and len(failures) < MOST_SHAPES:
                failures.append(self._saved(failure, origin))
                self.failures.append(failures[-1])
                observer.record(failures[-1])
        return failures

    def _saved(self, failure: Failure, origin: Found) -> Failure:
        """Save a failure, and return it with its path."""
        if self._archive is None:
            return failure
        outcome, finding = origin
        again = self._bank.get((failure.subject, outcome.replayed))
        saved = saved_from(
            failure,
            finding.choices,
            guarantee=self.settings.guarantee,
            spec=self.settings.spec,
            profile=again.profile if again else self.settings.profile,
            seed=again.seed if again else self.settings.seed,
            round=again.round if again else outcome.round,
            timeout_s=self.settings.operation_timeout_s,
        )
        renew = (saved.subject, saved.name) in self._mended
        return msgspec.structs.replace(failure, saved=self._archive.save(saved, renew=renew))

    def _finish(self, subject: str, result: RequirementResult, observer: Observer) -> None:
        self.results[subject].append(result)
        observer.record(result)


def _effort_to_repeat(found: Found) -> tuple[bool, int, str]:
    """How much it takes to repeat a finding and to make it small: a small one takes nothing.

    The outcomes come in any order, so the name of the check decides in the end.
    """
    outcome, finding = found
    return finding.is_large, len(msgspec.json.encode(finding.choices)), outcome.check


def why_untried(saved: SavedFailure, outcome: CheckOutcome) -> str:
    """Why the replay of a saved failure shows nothing; empty if it fails, or could have failed."""
    if still_fails(saved, outcome):
        return ""
    return outcome.skipped or outcome.evidence.lacking


def still_fails(saved: SavedFailure, outcome: CheckOutcome) -> bool:
    """Whether a replayed failure still fails; a hang or a death counts as one."""
    return bool(outcome.subject_error or outcome.suite_error) or any(
        (each.requirement, each.shape) == (saved.requirement, saved.shape)
        for each in outcome.findings
    )
