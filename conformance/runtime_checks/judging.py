"""Runs one check of the runtime once more, as the programs of reports do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.results import Guarantee, Spec
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.runtime_checks.probe import Probe
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import RUNTIME, load_subject
from streamproof.conformance.violations import Skipped, Violation
from streamproof.conformance.wrong_directory import end_untried

__all__ = ["judge"]


def judge(
    name: str,
    drawn: Mapping[str, Any] | None = None,
    *,
    guarantee: Guarantee = "exactly-once",
    spec: Spec = "kips",
    seed: int = 0,
    round: int = 0,  # noqa: A002 - the option of `verify` has this name.
    defect: str = "",
) -> None:
    """Ask the runtime what a check asks, once, and return if all answers are right.

    Args:
        name: the name of the check.
        drawn: the values that the check draws.
        guarantee: the guarantee of the run.
        spec: the normative text of the run.
        seed: the seed of the run.
        round: the round of the run.
        defect: the mistake that the runtime makes; empty for none.

    Raises:
        AssertionError: an answer is wrong.
        NotTriedError: in pytest, the situation of the check did not come about.
    """
    check = load_checks("runtime")[name]
    settings = Settings(guarantee=guarantee, spec=spec, seed=seed, round=round)
    subject = load_subject(f"{RUNTIME}:{defect}" if defect else RUNTIME)
    body = check.function.__wrapped__  # type: ignore[attr-defined]
    with TemporaryDirectory() as directory:
        status = RunningCall(Path(directory) / "status", create=True)
        run = CheckRun(check, subject, settings, Path(directory), status)
        try:
            body(Probe(run, check.requirements[0], drawn or {}), **(drawn or {}))
        except Violation as broken:
            raise AssertionError(str(broken)) from None
        except Skipped as reason:
            end_untried(str(reason))
        if run.evidence.untried:
            end_untried("; ".join(run.evidence.untried.values()))
