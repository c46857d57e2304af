"""Steering: the part of the space that the next world is drawn from follows from what is lacking.

Every second world is drawn from the whole space. Each of the others is drawn for the goal that the
fewest worlds have reached so far, and that the fewest worlds were drawn for: a goal that is out of
reach does not take the worlds of the others.

The worlds depend on the seeds alone. So what a world shows counts for the draws of later worlds
only ``BEHIND`` worlds later, when it has ended for any number of processes.

Source: Groce et al., Swarm Testing (2012), for the plain worlds; Böhme et al., Coverage-based
Greybox Fuzzing as Markov Chain (2016), for energy that goes to what is seldom reached.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.situations import GOALS

__all__ = ["BEHIND", "Steering"]

BEHIND = 32
"""After how many worlds the draws know what a world has reached."""


class Steering:
    """Chooses the goals of worlds, one after the other.

    Args:
        space: the plans that may be drawn.
        behind: how many worlds may be drawn before the first of them tells what it has reached.
    """

    def __init__(self, space: PlanSpace, behind: int = BEHIND) -> None:
        self._behind = behind
        # By goal, how many worlds have reached it, and how many were drawn for it.
        self._worlds = Counter({name: 0 for name, each in GOALS.items() if space.meet(each)})
        self._reached: deque[frozenset[str]] = deque()
        self._drawn = 0

    def next_goal(self) -> str:
        """The goal that the next world is drawn for; empty for the whole space."""
        self._drawn += 1
        if self._drawn > self._behind + 1:
            # Exactly the worlds before, and not all that are known: these depend on the machine.
            self._worlds.update(self._reached.popleft() & self._worlds.keys())
        if self._drawn % 2 or not self._worlds:
            return ""
        # Equal counts go by the order of the goals.
        goal = min(self._worlds, key=self._worlds.__getitem__)
        self._worlds[goal] += 1
        return goal

    def reached(self, names: Iterable[str]) -> None:
        """Learn what the next world has reached, in the order in which the goals were chosen.

        Args:
            names: the names of situations and of invariants.
        """
        self._reached.append(frozenset(names))
