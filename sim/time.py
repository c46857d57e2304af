"""Virtual time: a simpy environment in which no event comes first by accident."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import simpy
from simpy.core import StopSimulation
from simpy.events import NORMAL, EventPriority

from streamproof.sim.choices import Choices

__all__ = ["TIE_WINDOW", "VirtualTime"]

TIE_WINDOW = 8
"""How many of the events that are due at the same moment a choice picks the next one from.

Several choices can still bring about any order. With a limit, the price of an event does not grow
with the number of events that are due with it.
"""

_AT_ONCE = EventPriority(-1)
"""Before every event that simpy schedules for the same moment."""


class VirtualTime(simpy.Environment):
    """An environment whose ties are broken by choices; its unit is the millisecond.

    Simpy takes events of one moment in the order in which they were scheduled. Nothing in the real
    world keeps that order, and code that is right only in that order has a mistake that must show.
    Events that simpy puts first, such as the start of a process, stay first.

    Attributes:
        is_stopped: whether no further step is taken; ``run`` then returns.
    """

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._choices = choices
        self.is_stopped = False

    def step(self) -> None:
        """Process one of the events that are due.

        Raises:
            EmptySchedule: nothing is left to do.
            StopSimulation: the time was stopped.
        """
        if self.is_stopped:
            raise StopSimulation(None)
        queue: list[Any] = self._queue
        if len(queue) > 1:
            first = queue[0]
            moment = first[0]
            # What comes next in a heap is in one of these two places; and at the same moment as
            # what is NORMAL, which comes last, there is only what is NORMAL, too.
            if first[1] == NORMAL and (
                queue[1][0] == moment or (len(queue) > 2 and queue[2][0] == moment)
            ):
                self._break_tie(queue)
        try:
            super().step()
        except BaseException as error:
            # Simpy raises a copy of what an actor has raised, and names the original as the cause.
            # Hypothesis recognises its own exceptions by attributes that the copy lacks.
            if type(error.__cause__) is type(error):
                raise error.__cause__ from error.__cause__.__cause__
            raise

    def stop(self) -> None:
        """Take no further step; the one that is going on ends."""
        self.is_stopped = True

    def _break_tie(self, queue: list[Any]) -> None:
        moment = queue[0][0]
        due = [heappop(queue)]
        while len(due) < TIE_WINDOW and queue and queue[0][0] == moment:
            due.append(heappop(queue))
        chosen = due.pop(self._choices.below(len(due)))
        for entry in due:
            heappush(queue, entry)
        heappush(queue, (moment, _AT_ONCE, *chosen[2:]))
