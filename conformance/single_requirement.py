"""Verifies single requirements on demand, for a test runner."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from streamproof.conformance.catalogue import Requirement
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import checks_for, checks_of
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.results import Failure, RequirementResult
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import binds_of
from streamproof.conformance.verdicts import failure_of, result_of, untested_result
from streamproof.conformance.verify_session import select_requirements, verify_command
from streamproof.conformance.work_directory import work_directory
from streamproof.errors import UsageError
from streamproof.stores.capabilities import Capabilities

__all__ = ["Verifier", "assert_kept"]


class Verifier:
    """Keeps an engine for each subject and settings, and each check's outcome."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._engines: dict[tuple[str, bytes], tuple[Engine, Capabilities]] = {}
        self._outcomes: dict[tuple[str, bytes, str], CheckOutcome] = {}

    def verify(
        self, subject: str, requirement: Requirement | str, settings: Settings | None = None
    ) -> tuple[RequirementResult, Failure | None]:
        """The result of one requirement, and its failure if it has one.

        Args:
            subject: the subject, as ``streamproof verify`` takes it.
            requirement: the requirement, or its id.
            settings: the settings of the check; by default those of ``streamproof verify``, with
            seed 0.

        Raises:
            UsageError: the subject cannot be loaded, or the requirement does not apply to it.
        """
        settings = settings or Settings()
        if isinstance(requirement, str):
            (requirement,) = select_requirements([requirement], binds_of(subject))
        if binds_of(subject) != requirement.binds:
            raise UsageError(f"{requirement.id} binds a {requirement.binds}, and not {subject!r}.")
        engine, capabilities = self._engine(subject, settings)
        untested = untested_result(
            subject, requirement, capabilities, settings.guarantee, settings.spec
        )
        if untested is not None:
            return untested, None
        names = checks_of(requirement, subject, capabilities)
        outcomes = [self._outcome(engine, subject, settings, name) for name in names]
        command = verify_command([subject], settings, [requirement.id])
        return (
            result_of(subject, requirement, outcomes),
            failure_of(subject, requirement, outcomes, command),
        )

    def close(self) -> None:
        """End all processes and delete all directories."""
        self._stack.close()
        self._engines.clear()

    def _engine(self, subject: str, settings: Settings) -> tuple[Engine, Capabilities]:
        key = (subject, _key(settings))
        if key not in self._engines:
            directory: Path = self._stack.enter_context(work_directory())
            engine = self._stack.enter_context(Engine(settings, directory, jobs=1))
            info = engine.load([subject])[subject]
            capabilities = Capabilities(**info.capabilities)  # type: ignore[arg-type]
            self._engines[key] = engine, capabilities
        return self._engines[key]

    def _outcome(
        self, engine: Engine, subject: str, settings: Settings, check: str
    ) -> CheckOutcome:
        key = (subject, _key(settings), check)
        if key not in self._outcomes:

            def keep(_: str, outcome: CheckOutcome) -> None:
                self._outcomes[key] = outcome

            engine.run([(subject, checks_for(subject)[check])], keep)
        return self._outcomes[key]


def _key(settings: Settings) -> bytes:
    return repr(settings).encode()


def assert_kept(
    verifier: Verifier, subject: str, settings: Settings, requirement: Requirement
) -> None:
    """Fail, or skip with the reason, unless the subject keeps the requirement."""
    __tracebackhide__ = True
    try:
        result, failure = verifier.verify(subject, requirement, settings)
    except UsageError as error:
        pytest.exit(f"streamproof: {error}", returncode=3)
    if failure is not None:
        trace = f"{failure.traceback}\n\n" if failure.traceback else ""
        pytest.fail(
            f"{failure.subject} breaks {failure.requirement}: {failure.title}\n"
            f"promise   {failure.promise}\ntried     {failure.tried}\n"
            f"expected  {failure.expected}\nfound     {failure.found}\n\n"
            f"{trace}{failure.program}\nreproduce: {failure.reproduce}",
            pytrace=False,
        )
    if result.status == "error":
        pytest.fail(f"{requirement.id} got no answer: {result.reason}", pytrace=False)
    if result.status != "pass":
        pytest.skip(f"{result.status}: {result.reason}")
