"""``streamproof explore --on kafka``: what a person sees, and how it ends."""

from __future__ import annotations

import shlex
import time

from rich.console import Console
from rich.text import Text

from streamproof.commands.explore_progress import WorldsProgress
from streamproof.exit_codes import ExitCode
from streamproof.runs.real_exploration import (
    RealExploreRequest,
    RealFinding,
    new_real_runs,
    open_real_exploration,
    real_finding,
)
from streamproof.scenarios.exploration_findings import findings
from streamproof.scenarios.exploration_ledger import Ledger
from streamproof.scenarios.kafka.real_worlds import FOUND
from streamproof.scenarios.kafka.shared_broker import SharedBroker
from streamproof.sim.exploration import Explored
from streamproof.sim.plan_space import PlanSpace

__all__ = ["explore_for_real"]

LINE_EVERY = 10
"""Where the output is no terminal, a line is printed after every 10 worlds."""


def explore_for_real(console: Console, request: RealExploreRequest) -> int:
    """Play worlds, look into failures, and sum up; returns the exit code.

    Raises:
        UsageError: something in the request is wrong, or no broker can be started.
    """
    space, ledger = open_real_exploration(request)
    written: list[RealFinding] = []
    with ledger:
        if ledger.runs:
            console.print(f"{len(ledger.runs):,} runs were done before; this goes on after them.")
        try:
            with SharedBroker(request.release, existing=request.bootstrap) as broker:
                with _Progress(console, ledger, request) as progress:
                    for each in new_real_runs(broker, ledger, space, request):
                        progress.ran(each)
                _print_summary(console, ledger)
                written += (
                    _looked_into(console, broker, each, space, request)
                    for each in findings(ledger.runs)
                )
        except KeyboardInterrupt:
            _print_interrupted(console, ledger, request)
            return ExitCode.INTERRUPTED
    problems = [each for each in ledger.runs if each.problem]
    if not written and problems:
        first = problems[0]
        told = f"✗ seed {first.seed} came to no end: {first.problem}"
        console.print(Text(told, style="red"), soft_wrap=True)
        return ExitCode.SUITE_ERROR
    if not written:
        console.print("Nothing was found.")
        return ExitCode.SUCCESS
    console.print(Text(f"Reproduce: {_command(written[0], request.release)}"), soft_wrap=True)
    return ExitCode.FAILURE


def _looked_into(
    console: Console,
    broker: SharedBroker,
    run: Explored,
    space: PlanSpace,
    request: RealExploreRequest,
) -> RealFinding:
    def tell(what: str) -> None:
        if console.is_terminal:
            console.print(f"seed {run.seed} is {what} ...")

    found = real_finding(broker, run, space, request, tell)
    simulated = found.simulated or "not found in simulated worlds of this plan"
    before, after = found.actions
    console.print(
        f"{found.scenario}: came again in {found.again.times} of {found.again.plays} plays; "
        f"{after} of {before} actions are left; simulated: {simulated}; "
        f"recorded: {found.recording}.",
        soft_wrap=True,
    )
    return found


def _command(worst: RealFinding, release: str) -> str:
    """The command that shows a failure: by a play if it came again, or else by its recording."""
    if not worst.again.times:
        return shlex.join(["streamproof", "replay", str(worst.recording)])
    target = f"{worst.scenario}@{FOUND}"
    return shlex.join(["streamproof", "replay", target, "--on", f"kafka@{release}"])


def _print_summary(console: Console, ledger: Ledger) -> None:
    events = sum(each.events for each in ledger.runs)
    failed = sum(bool(each.violations) for each in ledger.runs)
    tried = {name for each in ledger.runs for name in each.tried}
    came = f"{failed:,} of them broken, in {len(findings(ledger.runs))} ways"
    console.print(
        f"{len(ledger.runs):,} worlds, {events:,} events; {came if failed else 'none broken'}. "
        f"{len(tried)} invariants were tried."
    )
    problems = sum(bool(each.problem) for each in ledger.runs)
    if problems:
        console.print(f"{problems} of the worlds came to no end, and were not judged.")


def _print_interrupted(console: Console, ledger: Ledger, request: RealExploreRequest) -> None:
    console.print(
        f"Interrupted after {len(ledger.runs):,} worlds, which are kept in {ledger.path}. The "
        "same command goes on.",
        soft_wrap=True,
    )
    worst = next(iter(findings(ledger.runs)), None)
    if worst is not None:
        recording = request.out / f"recording-{worst.seed}"
        console.print(Text(f"Reproduce: streamproof replay {recording}"), soft_wrap=True)


class _Progress(WorldsProgress):
    """Shows how far the plays are, and how much of the budget is left."""

    def __init__(self, console: Console, ledger: Ledger, request: RealExploreRequest) -> None:
        super().__init__(console, ledger, "starting a broker", LINE_EVERY)
        self._request = request

    def _line_now(self) -> str:
        took = time.monotonic() - self._began
        rate = 60 * self._ran / max(took, 0.001)
        budget, runs = self._request.budget_s, self._request.runs
        left = f"{max(budget - took, 0):.0f} s left" if budget else f"of {runs}"
        return f"{self._ran} worlds, {left}, {rate:.1f}/min, {len(self._shapes)} found"
