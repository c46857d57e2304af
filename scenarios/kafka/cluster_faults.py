"""Faults between instances and brokers: lost and late requests, cuts, and brokers that die."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from streamproof.errors import UsageError
from streamproof.scenarios.kafka import proxy
from streamproof.scenarios.kafka.cluster import COMING_UP_S, Broker, is_ready, start_again
from streamproof.scenarios.kafka.processes import TOLD_S, Processes
from streamproof.scenarios.kafka.proxy import DISTURBED, NETWORK, ArmedFault
from streamproof.scenarios.scenario import Fault

__all__ = ["FAILED_OVER", "SITES", "Brokers", "start_proxy"]

FAILED_OVER = "broker.failed_over"

SITES = frozenset(
    {
        "broker.marker_delayed",
        FAILED_OVER,
        "network.late",
        "network.reply_lost",
        "network.request_lost",
        "network.slow",
    }
)
"""The faults of the simulator that a proxy and the nemesis can make."""

PROXY_S = 60.0
"""The most that a proxy may take to come up on a busy machine, in seconds."""

POLL_S = 0.01
"""The time between two looks at a proxy that is coming up, in seconds."""

ROLES = ("groups", "transactions")
"""The coordinators on a broker."""


def start_proxy(processes: Processes, recording: Path, targets: list[int]) -> list[int]:
    """Start a proxy, and return the ports on which it listens, one for each target.

    Args:
        processes: what it belongs to.
        recording: the directory where it records what happens, and takes commands.
        targets: ports of the loopback address.

    Raises:
        UsageError: it does not come up.
    """
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
    """The broker of a world with the proxy before it. No call waits for a process.

    Args:
        processes: what the broker belongs to.
        broker: the broker.
        recording: the directory for recordings.
        tell: records an event, given its kind, its actor and its attributes.
    """

    def __init__(
        self, processes: Processes, broker: Broker, recording: Path, tell: Callable[..., None]
    ) -> None:
        self._processes = processes
        self._broker = broker
        self._recording = recording
        self._tell = tell
        self._commands: list[str] = []
        self._told_until = 0.0
        self._back_until = 0.0
        self._starts = 1

    @property
    def is_commanding(self) -> bool:
        """Whether the proxy carries out a command."""
        return bool(self._commands)

    @property
    def is_down(self) -> bool:
        """Whether the broker is being started again."""
        return self._back_until > 0

    @property
    def is_disturbed(self) -> bool:
        """Whether a client has not noticed a loss yet, or a request is still held up."""
        return (self._recording / DISTURBED).exists()

    def cut(self, name: str) -> None:
        """Separate an instance from the brokers: nothing passes in either direction."""
        self._command(f"cut {name}")

    def heal(self, name: str) -> None:
        """Connect an instance again."""
        self._command(f"heal {name}")

    def arm(self, number: int, fault: Fault) -> None:
        """Make a fault happen at its next passes; one of the broker happens now."""
        if fault.site == FAILED_OVER:
            self.fail_over()
            (self._recording / f"fired-{number}").touch()
            return
        is_delay = fault.site in ("network.late", "network.slow", "broker.marker_delayed")
        # As the simulator counts: the least delay is 1 ms.
        ms = fault.amount + 1 if is_delay else 0
        armed = ArmedFault(
            number, fault.site, fault.whom, fault.what, fault.nth - 1, fault.times, ms
        )
        self._command(f"fault {msgspec.json.encode(armed).decode()}")

    def fail_over(self) -> None:
        """Kill the broker (SIGKILL), and start it again on its directory and port."""
        self._broker.process.kill()
        for role in ROLES:
            self._tell("coordinator.away", "brokers", what=role)
        self._starts += 1
        self._broker = start_again(self._processes, self._broker, self._starts)
        self._back_until = time.monotonic() + COMING_UP_S

    def look(self) -> None:
        """Take in what has become of the broker and of the proxy.

        Raises:
            UsageError: one of them has ended, or does not answer.
        """
        self._look_at_the_broker()
        self._look_at_the_proxy()

    def _look_at_the_broker(self) -> None:
        process = self._broker.process
        if not process.is_running:
            raise UsageError(f"The broker ended by itself. {process.told()}")
        if not self.is_down:
            return
        if is_ready(self._broker.address):
            self._back_until = 0.0
            for role in ROLES:
                self._tell("coordinator.back", "brokers", what=role)
        elif time.monotonic() > self._back_until:
            raise UsageError(f"The broker did not come up again. {process.told()}")

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
