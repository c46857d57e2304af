"""A search that runs for a given time, and spends it on the checks that still learn something.

After every check has run once, the checks that search (properties, random programs, crashes) take
turns, in rounds with seeds of their own. A check *learns* when a round reaches something that
none before it did: a call after another with another kind of answer, a place to crash at, a state
that the oracle had not seen, a promise broken in a new shape. One that learned in its last round
takes every turn. One that learned nothing in n rounds in a row takes one turn in 2^n, and at least
one in 32.

The seed of the run, the check and the number of the round determine what a round does. Only the
number of rounds depends on the machine.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from streamproof.conformance.check_engine import CheckTask
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.registry import Check
from streamproof.errors import UsageError

__all__ = ["Search", "parse_duration"]

RAREST = 5
"""A check that does not learn any more takes one turn in two to the power of this."""

NAMED = 5
"""How many checks the summary names."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds, from ``90s``, ``10m`` or ``1.5h``.

    Raises:
        UsageError: it is none of these, or nothing.
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
        rounds: how many were begun after the first.
        idle: how many in a row have reached nothing new.
        grew: how much the last one reached that was new.
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
        budget_s: for how many seconds rounds are begun, from now on.
        first: the number of the first round.
        clock: tells the time in seconds.
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
        """The rounds, as long as there is time."""
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
        """Take the outcome of a round, the first one included."""
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
        # A check that hung, or cannot run on this machine, would do so again.
        arm.given_up = bool(outcome.subject_error or outcome.suite_error or outcome.skipped)

    def summary(self) -> str:
        """What the search reached, and which checks would learn more in more time."""
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
            f"Still growing: {', '.join(names)}{more}" if names else "Nothing was growing any more"
        )
        return (
            f"{self._clock() - self._begun:.0f} s, {rounds:,} rounds after the first: "
            f"{self._examples:,} examples, {self._kills:,} kills, {total:,} distinct things "
            f"reached (calls and answers, places to crash at, states). {end}."
        )
