"""Coordinators of groups and of transactions that move, because their broker is killed.

They are on the second of two brokers. Their logs are on both. Before the kill all other logs are
left to the first one, so that nothing else moves and no other request has to wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.cluster import ROLES, Broker, coordinator_of, start_again
from streamproof.scenarios.kafka.processes import TOLD_S, Processes

__all__ = ["MovingCoordinators"]

MOVED_S = 120.0
"""Coordinators move in 3 s, and much later on a busy machine."""

ASK_S = 0.05
"""The time between two questions where the coordinators are, in seconds."""


class MovingCoordinators:
    """The coordinators on the second broker. No call waits for a process.

    Args:
        processes: what the brokers belong to.
        first: the broker to which the coordinators move.
        second: the broker that is killed.
        sender: the directory of the client that sends records, and places logs.
        tell: records an event, given its kind, its actor and its attributes.
    """

    def __init__(
        self,
        processes: Processes,
        first: Broker,
        second: Broker,
        sender: Path,
        tell: Callable[..., None],
    ) -> None:
        self._processes = processes
        self._first = first
        self._second = second
        self._sender = sender
        self._tell = tell
        self._state: Literal["there", "placing", "away"] = "there"
        # When the state must be over, and when to ask for the coordinators again.
        self._until = 0.0
        self._ask_at = 0.0

    @property
    def is_commanding(self) -> bool:
        """Whether logs are taken off the second broker."""
        return self._state == "placing"

    @property
    def are_away(self) -> bool:
        """Whether they have not moved yet, although their broker is killed."""
        return self._state == "away"

    def move(self) -> None:
        """Kill the second broker (SIGKILL), which starts again once its coordinators have moved."""
        (self._sender / "place").touch()
        self._enter("placing", TOLD_S)

    def look(self) -> None:
        """Take in what has become of the second broker and its coordinators.

        Raises:
            UsageError: the broker has ended by itself, or the coordinators do not move.
        """
        if self._state == "placing":
            self._look_at_the_logs()
        elif self._state == "away":
            self._look_at_the_coordinators()
        elif not self._second.process.is_running:
            raise UsageError(f"The second broker ended by itself. {self._second.process.told()}")

    def _enter(self, state: Literal["placing", "away"], lasts_s: float) -> None:
        self._state = state
        self._until = time.monotonic() + lasts_s

    def _look_at_the_logs(self) -> None:
        answer = self._sender / "placed"
        if answer.exists():
            error = answer.read_text("utf-8")
            if error:
                raise UsageError(f"Logs cannot be taken off the second broker: {error}")
            self._second.process.kill()
            for role in ROLES:
                self._tell("coordinator.away", "brokers", what=role)
            self._enter("away", MOVED_S)
        elif time.monotonic() > self._until:
            raise UsageError(f"Logs were not taken off the second broker in {TOLD_S:g} s.")

    def _have_moved(self) -> bool:
        try:
            return all(coordinator_of(self._first.address, role) == 1 for role in ROLES)
        except OSError:
            # The first broker is too busy to answer, and is asked again.
            return False

    def _look_at_the_coordinators(self) -> None:
        now = time.monotonic()
        if now < self._ask_at:
            return
        self._ask_at = now + ASK_S
        if self._have_moved():
            for role in ROLES:
                self._tell("coordinator.back", "brokers", what=role)
            self._second = start_again(self._processes, self._second)
            self._state = "there"
        elif now > self._until:
            raise UsageError(
                "The coordinators of the broker that was killed did not move to the other one. "
                f"{self._first.process.told()}"
            )
