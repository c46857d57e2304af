"""Carries out a timeline with real processes, each action at its time or right after its event.

A process stands still at an event that an action waits for, until the action is done. So "right
after the third record" means exactly that, also for a kill. The time of the scenario is real time,
but stands still while an instance starts or stops and while records are sent: that may take
seconds, and none in a simulation.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.patience import Patience
from streamproof.scenarios.director import matches
from streamproof.scenarios.kafka.application import RealRecord, line_of
from streamproof.scenarios.kafka.cluster_faults import Brokers
from streamproof.scenarios.kafka.followed_lines import Followed, Rest
from streamproof.scenarios.kafka.nemesis import RealNemesis
from streamproof.scenarios.kafka.real_settings import SLOW_UPDATER
from streamproof.scenarios.kafka.real_upgrades import UpgradedInstances
from streamproof.scenarios.scenario import (
    AnyAction,
    Crash,
    Cut,
    Fault,
    Fill,
    Flush,
    Hold,
    Occurrence,
    OnInstance,
    Pause,
    Power,
    Send,
    Start,
    Stop,
)
from streamproof.sim.topology import partition_for
from streamproof.sim.trace import Event

__all__ = ["RealDirector", "write_holds"]

TICK_S = 0.002
"""The time between two looks at the recordings, in seconds."""

NEVER_S = 10.0
"""Once an application has rested for so long, an event that an action waits for never comes."""

REST_S = 40.0
"""How long an application may take to come to rest, in seconds."""

SETTLED_S = 0.5
"""How long a rest must last, in seconds."""

DISTURBED_S = 60.0
"""A client that has not noticed a loss after so many seconds never does."""

BOUNCE_MS = 500
"""How long an instance is down between two releases, in milliseconds of the scenario."""

SEND_S = 60.0
"""How long sending may take, in seconds, besides the time for which a transaction stays open. It
takes a moment, and much longer on a busy machine."""


def write_holds(timeline: Sequence[AnyAction], recording: Path) -> None:
    """Tell the recorders at which events to stand still: where an action follows at once."""
    lines = []
    for number, action in enumerate(timeline):
        if action.when is not None and not action.after_ms:
            lines.append(_hold_of(number, action.when))
    (recording / "holds.tsv").write_text("".join(f"{each}\n" for each in lines), "utf-8")


def _hold_of(number: int, when: Occurrence) -> str:
    offset = "" if when.offset is None else str(when.offset)
    words = [str(number), when.kind, when.actor, when.task, when.partition, offset]
    # Bytes are written otherwise there, so texts do not count; the director counts all the same.
    words += [
        f"{name}={json.dumps(value)}"
        for name, value in when.attributes.items()
        if isinstance(value, bool | int)
    ]
    return "\t".join(words)


class RealDirector:
    """Carries out a timeline, and then waits until the application rests.

    Args:
        timeline: the actions.
        nemesis: acts on the instances.
        recording: the directory with the recordings.
        sender: the directory of the client that sends records.
        topics: the inputs, each with its number of partitions.
        rest: knows whether the application has processed all its input.
        never_s: once the application has rested for so many seconds, an event that an action waits
            for never comes.
        rest_s: how many seconds the application may be silent before it comes to rest in the end.
        most_s: how many seconds it may take to come to rest in all, while it has a processor.
        brokers: makes faults between the instances and the brokers, if there are any.
        followed: reads the recordings while they are written; by default, all of the directory.
        upgrade: the instances, if they go through an upgrade.

    Attributes:
        undone: the numbers of the actions that have not happened.
        wrong: what went wrong with the processes, in words.
        has_come_to_rest: whether the application has processed all its input in the end.
    """

    def __init__(
        self,
        timeline: Sequence[AnyAction],
        nemesis: RealNemesis,
        recording: Path,
        sender: Path,
        topics: Mapping[str, int],
        *,
        rest: Rest,
        never_s: float = NEVER_S,
        rest_s: float = REST_S,
        most_s: float = REST_S,
        brokers: Brokers | None = None,
        followed: Followed | None = None,
        upgrade: UpgradedInstances | None = None,
    ) -> None:
        self._timeline = timeline
        self._nemesis = nemesis
        self._recording = recording
        self._sender = sender
        self._topics = topics
        self._never_s = never_s
        self._rest_s = rest_s
        self._most_s = most_s
        self._brokers = brokers
        self._upgrade = upgrade
        # When no fault of the network was to be noticed by anyone.
        self._calm = time.monotonic()
        # When an event was last seen.
        self._moved = time.monotonic()
        self._followed = followed or Followed(recording)
        self._rest = rest
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._left = {
            number: each.when.nth for number, each in enumerate(timeline) if each.when is not None
        }
        self._now_ms = 0.0
        self._looked = time.monotonic()
        self._sent = count()
        # By the number of a file, until when it must be sent.
        self._sending: dict[int, float] = {}
        # Those that take no time in a simulation: no transaction stays open.
        self._prompt: set[int] = set()
        self._rested: float | None = None
        # The actions right after an event, and the files that let the processes there go on.
        self._immediate: list[Callable[[], None]] = []
        self._held: list[str] = []
        self._cut: set[str] = set()
        self.has_come_to_rest = False
        self.undone = set(range(len(timeline)))
        self.wrong: list[str] = []

    def run(self) -> None:
        """Start all instances, carry out the timeline, heal, and wait until all is at rest.

        Raises:
            UsageError: the instances do not start, or records cannot be sent.
        """
        at_once = {
            number
            for number, each in enumerate(self._timeline)
            if isinstance(each, Fault) and each.when is None and not each.at
        }
        for number in at_once:
            self._action(number, self._timeline[number])()
        self._until(lambda: not self._is_commanding)
        for name in self._nemesis.names:
            self._nemesis.start(name)
        self._until(lambda: not self._is_busy)
        # An action may follow an event of the start itself, such as a commit.
        is_hurt = len(self.undone) < len(self._timeline) - len(at_once)
        if set(self._nemesis.up) != set(self._nemesis.names) and not is_hurt:
            raise UsageError(" ".join(self.wrong) or "The instances do not start.")
        self._now_ms = 0.0
        self._plan_all(at_once)
        self._until(self._is_done)
        self._release_all()
        self._heal()
        self._moved = time.monotonic()
        settled_s = SETTLED_S + self._rest.settle_s
        self._until(lambda: self._has_rested(settled_s) or self._is_silent(), self._most_s)
        self.has_come_to_rest = self._has_rested(settled_s)
        self.undone |= {
            number
            for number, each in enumerate(self._timeline)
            if isinstance(each, Fault) and not (self._recording / f"fired-{number}").exists()
        }

    def _plan_all(self, done: Collection[int]) -> None:
        """Plan what has a time: the actions but those that are done, and the upgrade."""
        for number, action in enumerate(self._timeline):
            if action.when is None and number not in done:
                self._plan(action.at or 0, self._action(number, action))
        if self._upgrade is not None:
            for bounce in self._upgrade.bounces:
                self._plan(bounce.at_ms, self._bouncing(self._upgrade, bounce.instance))

    @property
    def _is_commanding(self) -> bool:
        """Whether a process carries out a command."""
        is_so = self._brokers is not None and self._brokers.is_commanding
        return self._nemesis.is_commanding or is_so

    @property
    def _is_disturbed(self) -> bool:
        """Whether a fault of the network has consequences that are still to come."""
        is_so = self._brokers is not None and self._brokers.is_disturbed
        if not is_so:
            self._calm = time.monotonic()
        return is_so and time.monotonic() < self._calm + DISTURBED_S

    @property
    def _is_busy(self) -> bool:
        """Whether something is under way that takes no time in a simulation."""
        is_commanding = self._brokers is not None and self._brokers.is_commanding
        return self._nemesis.is_busy or is_commanding or bool(self._prompt)

    def _is_silent(self) -> bool:
        return time.monotonic() > self._moved + self._rest_s

    def _is_done(self) -> bool:
        if self._due or self._sending or self._is_busy or self._is_disturbed:
            return False
        is_over = self._has_rested(self._never_s) or self._is_silent() or not self._nemesis.up
        return not self._left or is_over

    def _heal(self) -> None:
        for name in self._nemesis.names:
            self._nemesis.thaw(name)
            self._nemesis.empty(name)
            self._nemesis.start(name)
            if name in self._cut:
                self._heal_network(name)
        self._until(lambda: not self._is_busy)
        self._nemesis.tell("world.healed", "nemesis")

    def _until(self, is_over: Callable[[], bool], patience_s: float = float("inf")) -> None:
        """Let everything go on until something is so, or for so long.

        The time in which an instance waits for a processor does not count.
        """
        begun, patience = time.monotonic(), Patience(patience_s)
        while not is_over():
            if patience.is_over(time.monotonic() - begun, lambda: self._nemesis.pids):
                break
            self._turn()
            time.sleep(TICK_S)

    def _turn(self) -> None:
        """Take in what happened since the last turn, and do what is due."""
        now = time.monotonic()
        if not self._is_busy:
            self._now_ms += 1000 * (now - self._looked)
        self._looked = now
        for each in self._followed.new():
            self._moved = now
            self._rest.see(each.event)
            self._see(each.event)
            if each.go:
                self._held.append(each.go)
        self._look()
        while self._immediate and not self._is_commanding:
            self._immediate.pop(0)()
        if not self._is_commanding:
            # What an action at this moment asks of a process is done by now.
            for go in self._held:
                (self._recording / go).touch()
            self._held.clear()
        while self._due and self._due[0][0] <= self._now_ms and not self._is_busy:
            heapq.heappop(self._due)[2]()
        if self._rest.is_reached(self._nemesis.up) and not self._is_disturbed:
            self._rested = self._rested or now
        else:
            self._rested = None

    def _look(self) -> None:
        """Take in what has become of the processes and of what is sent."""
        self.wrong += self._nemesis.look()
        if self._brokers is not None:
            self._brokers.look()
        for number, deadline in list(self._sending.items()):
            self._take_answer(number, deadline)

    def _has_rested(self, duration_s: float) -> bool:
        # By the last look: on a busy machine, much may have happened since.
        known_at = self._rest.known_at(self._looked)
        return self._rested is not None and known_at > self._rested + duration_s

    def _see(self, event: Event) -> None:
        """Do what waits for an event."""
        for number in list(self._left):
            action = self._timeline[number]
            when = action.when
            if when is None or not matches(when, event):
                continue
            self._left[number] -= 1
            if self._left[number]:
                continue
            del self._left[number]
            (self._recording / f"over-{number}").touch()
            carry_out = self._action(number, action)
            if action.after_ms:
                self._plan(self._now_ms + action.after_ms, carry_out)
            else:
                self._immediate.append(carry_out)

    def _release_all(self) -> None:
        """Hold no process any more."""
        for number in range(len(self._timeline)):
            (self._recording / f"over-{number}").touch()

    def _plan(self, at_ms: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_ms, next(self._number), what))

    def _later(self, after_ms: int | None, what: Callable[[str], None], name: str) -> None:
        if after_ms is not None:
            self._plan(self._now_ms + after_ms, lambda: what(name))

    def _action(self, number: int, action: AnyAction) -> Callable[[], None]:
        def carry_out() -> None:
            self.undone.discard(number)
            if isinstance(action, Send):
                self._send(action)
            elif isinstance(action, OnInstance):
                self._act(action)
            elif isinstance(action, Fault) and action.site == SLOW_UPDATER:
                self._slow_down(number, action)
            elif isinstance(action, Fault) and self._brokers is not None:
                self._brokers.arm(number, action)

        return carry_out

    def _slow_down(self, number: int, fault: Fault) -> None:
        """Let the recorders make the next batches of restorations slow."""
        words = (fault.whom, fault.nth, fault.times, fault.amount)
        unfinished = self._recording / f"unfinished-slow-{number}"
        unfinished.write_text("\t".join(map(str, words)), "utf-8")
        unfinished.rename(self._recording / f"slow-{number}")

    def _act(self, action: OnInstance) -> None:
        nemesis, name = self._nemesis, action.instance
        match action:
            case Crash():
                nemesis.crash(name)
                self._later(action.down_ms, nemesis.start, name)
            case Power():
                nemesis.lose_power(name, action.seed)
                self._later(action.down_ms, nemesis.start, name)
            case Fill():
                nemesis.fill(name)
                self._later(action.lasts_ms, nemesis.empty, name)
            case Stop():
                nemesis.stop(name)
                self._later(action.down_ms, nemesis.start, name)
            case Start():
                nemesis.start(name)
            case Pause():
                nemesis.freeze(name)
                self._later(action.lasts_ms, nemesis.thaw, name)
            case Cut() if self._brokers is not None:
                self._brokers.cut(name)
                self._cut.add(name)
                self._later(action.lasts_ms, self._heal_network, name)
            case Hold():
                nemesis.command(name, "pause")
                self._later(action.lasts_ms, self._resume, name)
            case Flush():
                nemesis.command(name, f"flush {action.task}")

    def _bouncing(self, upgrade: UpgradedInstances, name: str) -> Callable[[], None]:
        def bounce() -> None:
            # The other release is set before the stop, so that each later start is of it.
            upgrade.upgrade(name)
            self._nemesis.stop(name)
            self._later(BOUNCE_MS, self._nemesis.start, name)

        return bounce

    def _heal_network(self, name: str) -> None:
        if self._brokers is not None and name in self._cut:
            self._cut.remove(name)
            self._brokers.heal(name)

    def _resume(self, name: str) -> None:
        self._nemesis.command(name, "resume")

    def _send(self, action: Send) -> None:
        partitions = self._topics[action.topic]
        lines = [f"{action.transaction}\t{action.open_ms}"]
        for each in action.records:
            key = each.key.encode()
            chosen = partition_for(key, partitions) if each.partition is None else each.partition
            value = None if each.value is None else each.value.encode()
            timestamp = int(self._now_ms) if each.timestamp is None else each.timestamp
            lines.append(line_of(action.topic, chosen, RealRecord(-1, key, value, timestamp)))
        number = next(self._sent)
        unfinished = self._sender / "unfinished"
        unfinished.write_text("".join(f"{each}\n" for each in lines), "utf-8")
        unfinished.rename(self._sender / f"send-{number}")
        if not action.open_ms:
            self._prompt.add(number)
        self._sending[number] = time.monotonic() + SEND_S + action.open_ms / 1000

    def _take_answer(self, number: int, deadline: float) -> None:
        answer = self._sender / f"sent-{number}"
        if not answer.exists():
            if time.monotonic() > deadline:
                raise UsageError("Records cannot be sent: the brokers do not answer.")
            return
        # What was sent may not be in the recordings that were read.
        self._rested = None
        del self._sending[number]
        self._prompt.discard(number)
        error = answer.read_text("utf-8")
        if error:
            raise UsageError(f"Records cannot be sent: {error}")
