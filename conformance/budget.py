"""A search that runs for a given time, and spends it on the checks that still learn something.

First, every check runs once. Then the checks that search (properties, random programs, crashes)
take turns, in rounds with seeds of their own. A check *learns* when a round reaches something new:
a pair of calls with a new kind of answer, a crash point, a state of the oracle, or a new shape of a
broken promise. A check that learned in its last round takes every turn. A check that learned
nothing in n rounds in a row takes one turn in 2^n, and at least one turn in 32.

The seed of the run, the check and the number of the round determine the actions of a round. Only
the number of rounds depends on the machine.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from streamproof.conformance.check_engine import CheckTask
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_registry import Check
from streamproof.errors import UsageError

__all__ = ["Search", "parse_duration"]

RAREST = 5
"""The largest n in "one turn in 2^n". Without a limit, a check that has learned nothing for a while
would never get the chance to learn again."""

NAMED = 5
"""The most checks that the summary names."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds, from ``90s``, ``10m`` or ``1.5h``.

    Raises:
        UsageError: the text has another form, or means no time at all.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise UsageError(f"--budget {text!r} is no length of time; write 90s, 10m or 1h.")
    return seconds


@dataclass
class _Arm:
    """One check of one subject, and the results of its rounds.

    Attributes:
        rounds: the number of rounds begun after the first.
        idle: the number of rounds in a row that reached nothing new.
        grew: the number of new things that the last round reached.
    """

    subject: str
    check: Check
    rounds: int = 0
    idle: int = 0
    grew: int = 0
    given_up: bool = False
    reached: set[str] = field(default_factory=set)


class Search:
    """The rounds after the first.

    Args:
        plan: the checks of the first round.
        budget_s: the seconds from now on in which rounds may begin.
        first: the number of the first round.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        plan: Iterable[tuple[str, Check]],
        budget_s: float,
        first: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._arms = {
            (subject, check.name): _Arm(subject, check)
            for subject, check in plan
            if check.raw or check.given is not None
        }
        self._first = first
        self._clock = clock
        self._begun = clock()
        self._budget_s = budget_s
        self._examples = self._kills = 0

    def tasks(self) -> Iterator[CheckTask]:
        """The rounds, until the time is up."""
        for sweep in itertools.count():
            turns = [each for each in self._arms.values() if not each.given_up]
            if not turns:
                return
            for arm in turns:
                if self._clock() - self._begun >= self._budget_s:
                    return
                if sweep % 2 ** min(arm.idle, RAREST) == 0:
                    arm.rounds += 1
                    yield CheckTask(arm.subject, arm.check, self._first + arm.rounds)

    def take(self, subject: str, outcome: CheckOutcome) -> None:
        """Record the outcome of a round, the first round included."""
        self._examples += outcome.evidence.examples
        self._kills += sum(outcome.evidence.crash_points.values())
        arm = self._arms.get((subject, outcome.check))
        if arm is None:
            return
        reached = {f"{each.requirement} {each.shape}" for each in outcome.findings}
        reached |= outcome.evidence.reached
        arm.grew = len(reached - arm.reached)
        arm.idle = 0 if arm.grew else arm.idle + 1
        arm.reached |= reached
        # A check that hung or could not run would most likely do so again, and cost the time of
        # other checks.
        arm.given_up = bool(outcome.subject_error or outcome.suite_error or outcome.skipped)

    def summary(self) -> str:
        """A sentence about the search: its extent, and the checks that were still learning."""
        arms = list(self._arms.values())
        growing = sorted((each for each in arms if each.grew), key=lambda each: -each.grew)
        total = sum(len(each.reached) for each in arms)
        rounds = sum(each.rounds for each in arms)
        names = [
            f"{each.check.name} of {each.subject} ({each.grew} new in round {each.rounds})"
            for each in growing[:NAMED]
        ]
        more = f" and {len(growing) - NAMED} more" if len(growing) > NAMED else ""
        end = (
            f"Still learning: {', '.join(names)}{more}" if names else "No check was still learning"
        )
        return (
            f"{self._clock() - self._begun:.0f} s, {rounds:,} rounds after the first: "
            f"{self._examples:,} examples, {self._kills:,} kills, {total:,} distinct things "
            f"reached (calls and answers, places to crash at, states). {end}."
        )
