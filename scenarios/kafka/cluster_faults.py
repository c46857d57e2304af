"""Faults between instances and brokers: lost and late requests, cuts, and brokers that die."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.armed_faults import DISTURBED, EMPTY_FETCH, NETWORK, ArmedFault
from streamproof.scenarios.kafka.cluster import Broker
from streamproof.scenarios.kafka.moving_coordinators import MovingCoordinators
from streamproof.scenarios.kafka.processes import TOLD_S, Processes
from streamproof.scenarios.scenario import Fault

__all__ = ["FAILED_OVER", "SITES_OF_PROXY", "Brokers", "start_proxy"]

FAILED_OVER = "broker.failed_over"
"""The fault for which a second broker is killed, so that its coordinators move to the first one."""

SITES_OF_PROXY = frozenset(
    {
        "broker.marker_delayed",
        EMPTY_FETCH,
        "network.late",
        "network.reply_lost",
        "network.request_lost",
        "network.slow",
    }
)
"""The faults of the simulator that a proxy can make."""

PROXY_S = 60.0
"""The most that a proxy may take to come up on a busy machine, in seconds."""

POLL_S = 0.01
"""The time between two looks at a proxy that is coming up, in seconds."""


def start_proxy(processes: Processes, recording: Path, targets: list[int]) -> list[int]:
    """Start a proxy, and return the ports on which it listens, one for each target.

    Args:
        processes: what it belongs to.
        recording: the directory where it records what happens, and takes commands.
        targets: ports of the loopback address.

    Raises:
        UsageError: it does not come up.
    """
    # Imported here, because few of those who read about faults start a proxy.
    from streamproof.scenarios.kafka import proxy

    words = [sys.executable, "-P", "-m", proxy.__name__, str(recording)]
    process = processes.start(NETWORK, [*words, *map(str, targets)])
    deadline = time.monotonic() + PROXY_S
    ports = recording / "proxy"
    while not ports.exists():
        if not process.is_running or time.monotonic() > deadline:
            raise UsageError(f"The proxy before the broker does not come up. {process.told()}")
        time.sleep(POLL_S)
    return [int(each) for each in ports.read_text("utf-8").split()]


class Brokers:
    """The brokers of a world, and the proxy before them. No call waits for a process.

    Args:
        broker: the broker that is recorded.
        recording: the directory for recordings.
        topics: the ids of the topics that the application does not make itself.
        coordinators: those that are to move, if any are.
    """

    def __init__(
        self,
        broker: Broker,
        recording: Path,
        topics: Mapping[str, bytes],
        coordinators: MovingCoordinators | None = None,
    ) -> None:
        self._broker = broker
        self._recording = recording
        self._topics = topics
        self._coordinators = coordinators
        self._commands: list[str] = []
        self._told_until = 0.0

    @property
    def is_commanding(self) -> bool:
        """Whether the proxy or a broker carries out a command."""
        is_moving = self._coordinators is not None and self._coordinators.is_commanding
        return bool(self._commands) or is_moving

    @property
    def is_disturbed(self) -> bool:
        """Whether a loss was not noticed yet, a request is held up, or coordinators are away."""
        are_away = self._coordinators is not None and self._coordinators.are_away
        return are_away or (self._recording / DISTURBED).exists()

    def cut(self, name: str) -> None:
        """Separate an instance from the brokers: nothing passes in either direction."""
        self._command(f"cut {name}")

    def heal(self, name: str) -> None:
        """Connect an instance again."""
        self._command(f"heal {name}")

    def arm(self, number: int, fault: Fault) -> None:
        """Make a fault happen at its next passes; one of a broker happens now."""
        if fault.site == FAILED_OVER and self._coordinators is not None:
            self._coordinators.move()
            (self._recording / f"fired-{number}").touch()
            return
        is_delay = fault.site in ("network.late", "network.slow", "broker.marker_delayed")
        # As the simulator counts: the least delay is 1 ms.
        ms = fault.amount + 1 if is_delay else 0
        armed = ArmedFault(
            number,
            fault.site,
            self._log(fault.whom) if fault.site == EMPTY_FETCH else fault.whom,
            fault.what,
            fault.nth - 1,
            fault.times,
            ms,
            fault.amount,
        )
        self._command(f"fault {msgspec.json.encode(armed).decode()}")

    def _log(self, partition: str) -> str:
        """The name of a log in an answer to a fetch; empty for any."""
        topic, _, number = partition.rpartition("-")
        return f"{self._topics[topic].hex()}-{number}" if partition else ""

    def look(self) -> None:
        """Take in what has become of the brokers and of the proxy.

        Raises:
            UsageError: one of them has ended, or does not answer.
        """
        process = self._broker.process
        if not process.is_running:
            raise UsageError(f"The broker ended by itself. {process.told()}")
        if self._coordinators is not None:
            self._coordinators.look()
        self._look_at_the_proxy()

    def _look_at_the_proxy(self) -> None:
        if not self._commands:
            return
        answer = self._recording / f"told-{NETWORK}"
        if answer.exists():
            answer.unlink()
            del self._commands[0]
            self._give()
        elif time.monotonic() > self._told_until:
            raise UsageError(f"The proxy did not carry out a command in {TOLD_S:g} s.")

    def _command(self, words: str) -> None:
        self._commands.append(words)
        if len(self._commands) == 1:
            self._give()

    def _give(self) -> None:
        """Give the proxy the first command that it has not carried out."""
        if self._commands:
            unfinished = self._recording / f"new-{NETWORK}"
            unfinished.write_text(self._commands[0], "utf-8")
            unfinished.rename(self._recording / f"tell-{NETWORK}")
            self._told_until = time.monotonic() + TOLD_S
