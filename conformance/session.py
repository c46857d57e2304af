"""A whole run: the plan, the outcomes as they come in, and the records that they make."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from streamproof.conformance.catalogue import Requirement, load_catalogue
from streamproof.conformance.engine import Engine
from streamproof.conformance.registry import Check, load_checks
from streamproof.conformance.results import (
    CheckRecord,
    Failure,
    RequirementResult,
    SubjectInfo,
    SubjectVerdict,
)
from streamproof.conformance.run import CheckOutcome
from streamproof.conformance.settings import Settings
from streamproof.conformance.verdicts import (
    applicable,
    failure_of,
    result_of,
    untested_result,
    verdict_of,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import UsageError

__all__ = ["Observer", "Session", "select_requirements", "verify_command"]


def select_requirements(only: Iterable[str]) -> list[Requirement]:
    """The requirements of the catalogue that ``only`` names, by id or area; all if it is empty.

    Raises:
        UsageError: something in ``only`` is neither an id nor an area.
    """
    catalogue = load_catalogue()
    wanted = list(only)
    for name in wanted:
        if not any(name in (each.id, each.area) for each in catalogue.values()):
            raise UsageError(
                f"There is no requirement or area {name!r}; "
                "`streamproof requirements` lists them all."
            )
    return [
        each
        for each in catalogue.values()
        if not wanted or each.id in wanted or each.area in wanted
    ]


def verify_command(subjects: Iterable[str], settings: Settings, only: Iterable[str] = ()) -> str:
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
    return shlex.join([*words, "--seed", str(settings.seed)])


class Observer:
    """Is told what happens in a session; each method may be overridden, and none must be."""

    def started(self, subject: str, check: Check) -> None:
        """A check has started."""

    def ended(self, subject: str, outcome: CheckOutcome) -> None:
        """A check has ended."""

    def record(self, record: CheckRecord | RequirementResult | Failure) -> None:
        """A record of the run log is there."""


def _check_record(subject: str, outcome: CheckOutcome) -> CheckRecord:
    return CheckRecord(
        subject=subject,
        check=outcome.check,
        examples=outcome.evidence.examples,
        operations=outcome.evidence.operations,
        crash_points=dict(sorted(outcome.evidence.crash_points.items())),
        duration_s=round(outcome.duration_s, 3),
    )


class Session:
    """Verifies subjects; the records of one are complete when ``run`` returns.

    Args:
        infos: the subjects, loaded.
        settings: what the run was asked for.
        requirements: which requirements to test.
    """

    def __init__(
        self,
        infos: Mapping[str, SubjectInfo],
        settings: Settings,
        requirements: list[Requirement],
    ) -> None:
        self.settings = settings
        self.requirements = requirements
        self.results: dict[str, list[RequirementResult]] = {name: [] for name in infos}
        self.failures: list[Failure] = []
        self._capabilities = {
            name: Capabilities(**info.capabilities)  # type: ignore[arg-type]  # It came from one.
            for name, info in infos.items()
        }
        self._outcomes: dict[str, dict[str, CheckOutcome]] = {name: {} for name in infos}

    def plan(self) -> list[tuple[str, Check]]:
        """Which checks are to be run on which subjects: heavy ones first, so that none is late."""
        checks = load_checks()
        plan: list[tuple[str, Check]] = []
        for subject in self.results:
            wanted = {name for each in self._applicable(subject) for name in each.checks}
            chosen = [check for name, check in checks.items() if name in wanted]
            plan += [(subject, check) for check in sorted(chosen, key=lambda c: -c.weight)]
        return plan

    def run(self, engine: Engine, observer: Observer) -> None:
        """Run the plan; each result is given to the observer as soon as it is final."""
        for subject in self.results:
            for requirement in self.requirements:
                result = untested_result(
                    subject,
                    requirement,
                    self._capabilities[subject],
                    self.settings.guarantee,
                    self.settings.spec,
                )
                if result is not None:
                    self._finish(subject, result, observer)

        def on_outcome(subject: str, outcome: CheckOutcome) -> None:
            self._outcomes[subject][outcome.check] = outcome
            observer.ended(subject, outcome)
            observer.record(_check_record(subject, outcome))
            for requirement in self._applicable(subject):
                if outcome.check in requirement.checks:
                    self._try_to_finish(subject, requirement, observer)

        engine.run(self.plan(), on_outcome, observer.started)

    def failures_worst_first(self) -> list[Failure]:
        """The failures: of a MUST before others, and of core requirements before extended ones."""
        return sorted(self.failures, key=lambda each: (each.level != "MUST", not each.core))

    def verdicts(self) -> list[SubjectVerdict]:
        """The verdict on each subject."""
        return [verdict_of(subject, results) for subject, results in self.results.items()]

    def _applicable(self, subject: str) -> list[Requirement]:
        return applicable(
            self.requirements,
            self._capabilities[subject],
            self.settings.guarantee,
            self.settings.spec,
        )

    def _try_to_finish(self, subject: str, requirement: Requirement, observer: Observer) -> None:
        """Make the result of a requirement if all checks that test it have ended."""
        done = self._outcomes[subject]
        if any(name not in done for name in requirement.checks):
            return
        outcomes = [done[name] for name in requirement.checks]
        self._finish(subject, result_of(subject, requirement, outcomes), observer)
        reproduce = verify_command([subject], self.settings, [requirement.id])
        failure = failure_of(subject, requirement, outcomes, reproduce)
        if failure is not None:
            self.failures.append(failure)
            observer.record(failure)

    def _finish(self, subject: str, result: RequirementResult, observer: Observer) -> None:
        self.results[subject].append(result)
        observer.record(result)
