"""What is done to the instances of a real application: starts, kills, stops, and freezes.

Each act on a process is written into a recording of its own, as the processes write theirs.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from streamproof.scenarios.kafka.application import READY, RUNNING_S, RUNS, Application
from streamproof.scenarios.kafka.processes import TOLD_S, RealProcess
from streamproof.scenarios.kafka.real_disks import RealDisk, store_of
from streamproof.scenarios.kafka.recording import SUFFIX

__all__ = ["ConfiguredInstances", "Health", "Instances", "RealNemesis"]


Health = Literal["starting", "up", "failed"]
"""The state of a process that has not ended."""


class Instances(Protocol):
    """Starts the instances of an application, and knows how they are.

    Attributes:
        starting_s: an instance that is not running after so many seconds counts as started.
    """

    starting_s: float

    @property
    def is_ready(self) -> bool:
        """Whether all is there that later starts need."""

    def begin(self, name: str) -> RealProcess:
        """Start an instance, without waiting for it."""

    def health(self, name: str, process: RealProcess) -> Health:
        """How a process of an instance is, which has not ended."""


class _Standing(NamedTuple):
    """A process of an instance that waits until it may begin.

    Attributes:
        process: the process.
        go: the file that it waits for.
    """

    process: RealProcess
    go: Path

    @property
    def is_ready(self) -> bool:
        """Whether it waits, or never will."""
        return READY in self.process.log.splitlines() or not self.process.is_running


class ConfiguredInstances:
    """The instances of one of our own applications.

    The group misses an instance that is down for longer than its session, and on a busy machine a
    JVM takes longer than that to start. So the JVMs of later starts are there from the first one
    on, and wait.

    Args:
        application: the application.
        settings: the settings of Kafka Streams.
        place: a directory for the files that processes wait for.
        disks: the disks of the instances that may be full or lose their power.
        restarts: how often each instance is meant to start again.
    """

    # An instance may wait for others.
    starting_s = RUNNING_S

    def __init__(
        self,
        application: Application,
        settings: Mapping[str, str],
        place: Path,
        disks: Mapping[str, RealDisk] = MappingProxyType({}),
        restarts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._application = application
        self._settings = settings
        self._place = place
        self._disks = disks
        self._restarts = restarts
        self._standing: dict[str, deque[_Standing]] = {}
        self._unready: list[_Standing] = []
        self._up: set[int] = set()

    @property
    def is_ready(self) -> bool:
        """Whether the JVMs of later starts wait."""
        self._unready = [each for each in self._unready if not each.is_ready]
        return not self._unready

    def begin(self, name: str) -> RealProcess:
        """Start an instance, without waiting for it."""
        if name not in self._standing:
            process = self._start(name)
            wanted = range(self._restarts.get(name, 0))
            self._standing[name] = deque(self._stand_by(name, number) for number in wanted)
            self._unready += self._standing[name]
            return process
        if not self._standing[name]:
            return self._start(name)
        standing = self._standing[name].popleft()
        self._prepare_disk(name)
        standing.go.touch()
        return standing.process

    def _stand_by(self, name: str, number: int) -> _Standing:
        go = self._place / f"go-{name}-{number}"
        return _Standing(self._start(name, go), go)

    def _start(self, name: str, go: Path | None = None) -> RealProcess:
        environment = self._prepare_disk(name)
        return self._application.begin(name, self._settings, environment=environment, go=go)

    def _prepare_disk(self, name: str) -> Mapping[str, str]:
        """See to it that a process can use the disk of its instance; its environment."""
        disk = self._disks.get(name)
        return disk.begin() if disk is not None else {}

    def health(self, _: str, process: RealProcess) -> Health:
        """How a process of an instance is: it tells so in its log."""
        if process.pid not in self._up and RUNS in process.log.splitlines():
            self._up.add(process.pid)
        return "up" if process.pid in self._up else "starting"


@dataclass
class _Instance:
    """One instance.

    Attributes:
        process: its process; ``None`` while it is down.
        phase: ``up``, ``down``, ``starting``, ``stopping`` or ``frozen``.
        since: when the phase began, by the monotonic clock.
        has_been_refused: whether a full disk has refused a write since it is full.
    """

    process: RealProcess | None = None
    phase: str = "down"
    since: float = 0.0
    has_been_refused: bool = False


class RealNemesis:
    """Acts on the instances of an application. No call waits for a process.

    Args:
        instances: starts them.
        recording: the directory for recordings.
        names: the instances.
        disks: the disks of the instances that may be full or lose their power.
    """

    def __init__(
        self,
        instances: Instances,
        recording: Path,
        names: list[str],
        disks: Mapping[str, RealDisk] = MappingProxyType({}),
    ) -> None:
        self._starts = instances
        self._recording = recording
        self._instances = {name: _Instance() for name in names}
        self._disks = disks
        self._file = recording / f"driver{SUFFIX}"
        # By instance, what it is still to do, and since when it does the first of that.
        self._commands: dict[str, deque[str]] = {name: deque() for name in names}
        self._waiting: dict[str, float] = {}
        self._write({"about": "driver"})

    @property
    def names(self) -> list[str]:
        """The instances."""
        return list(self._instances)

    @property
    def up(self) -> list[str]:
        """The instances that are running."""
        return [name for name, each in self._instances.items() if each.phase == "up"]

    @property
    def pids(self) -> list[int]:
        """The ids of the processes of the instances."""
        every = (each.process for each in self._instances.values())
        return [process.pid for process in every if process is not None]

    @property
    def is_busy(self) -> bool:
        """Whether an instance is starting or stopping, or carries out a command."""
        phases = {each.phase for each in self._instances.values()}
        is_moving = bool(phases & {"starting", "stopping"})
        return is_moving or bool(self._waiting) or not self._starts.is_ready

    @property
    def is_commanding(self) -> bool:
        """Whether an instance carries out a command."""
        return bool(self._waiting)

    def start(self, name: str) -> None:
        """Start an instance, unless it is up; one that is stopping starts once it is down."""
        each = self._instances[name]
        if each.phase == "down":
            self._forget_commands(name)
            each.process = self._starts.begin(name)
            self._enter(each, "starting")

    def crash(self, name: str) -> None:
        """Kill an instance (SIGKILL)."""
        each = self._instances[name]
        if each.process is not None:
            with self._still(name):
                each.process.kill()
            each.process = None
            self._forget_commands(name)
            self.tell("instance.crashed", name)
            self._enter(each, "down")

    def lose_power(self, name: str, seed: int) -> None:
        """Switch the machine of an instance off, as ``RealDisk.lose_power``, unless it is down."""
        if self._instances[name].process is not None:
            self.crash(name)
            self.tell("disk.power_lost", name, flushes=self._disks[name].lose_power(seed))

    def fill(self, name: str) -> None:
        """Let the disk of an instance be full."""
        self.tell("disk.filled", name)
        self._instances[name].has_been_refused = False
        self._disks[name].fill()

    def empty(self, name: str) -> None:
        """Let the disk of an instance have space again."""
        if name in self._disks and self._disks[name].empty():
            self.tell("disk.emptied", name)

    def stop(self, name: str) -> None:
        """Ask an instance to stop (SIGTERM)."""
        each = self._instances[name]
        if each.process is not None and each.phase in ("up", "starting"):
            each.process.terminate()
            self._enter(each, "stopping")

    def freeze(self, name: str) -> None:
        """Let an instance stand still (SIGSTOP)."""
        each = self._instances[name]
        if each.process is not None and each.phase in ("up", "starting"):
            with self._still(name):
                each.process.freeze()
            self.tell("instance.stood_still", name)
            self._enter(each, "frozen")

    def thaw(self, name: str) -> None:
        """Let a frozen instance go on (SIGCONT), as a zombie if it was missed meanwhile."""
        each = self._instances[name]
        if each.process is not None and each.phase == "frozen":
            self.tell("instance.went_on", name)
            each.process.thaw()
            self._enter(each, "up")
            self._give_command(name)

    def command(self, name: str, words: str) -> None:
        """Let the recorder in an instance do something: ``pause``, ``resume`` or ``flush TASK``.

        An instance that stands still does it once it goes on, and one that is down never.
        """
        if self._instances[name].phase in ("up", "frozen"):
            self._commands[name].append(words)
            self._give_command(name)

    def _give_command(self, name: str) -> None:
        """Give an instance its next command, unless it stands still or has one."""
        is_up = self._instances[name].phase == "up"
        if is_up and self._commands[name] and name not in self._waiting:
            unfinished = self._recording / f"new-{name}"
            unfinished.write_text(self._commands[name][0], "utf-8")
            unfinished.rename(self._recording / f"tell-{name}")
            self._waiting[name] = time.monotonic()

    def look(self) -> list[str]:
        """Take in what has become of the instances; what went wrong, in words."""
        wrong = []
        for name, each in self._instances.items():
            process = each.process
            self._look_at_disk(name, each)
            if process is None or each.phase == "frozen":
                continue
            if not process.is_running:
                # On a full disk an instance may well give up.
                if each.phase != "stopping" and not each.has_been_refused:
                    wrong.append(f"{name} ended by itself. {process.told()}")
                each.process = None
                self._forget_commands(name)
                self._enter(each, "down")
            elif each.phase in ("starting", "up"):
                wrong += self._look_at(name, each, self._starts.health(name, process))
        return wrong + self._look_at_commands()

    def _look_at_disk(self, name: str, each: _Instance) -> None:
        """Record the first write that a full disk refuses."""
        if name in self._disks and not each.has_been_refused:
            file = self._disks[name].refused
            if file:
                each.has_been_refused = True
                self.tell("disk.full", name, store=store_of(file))

    def _look_at(self, name: str, each: _Instance, health: Health) -> list[str]:
        """Take in how a process is; what went wrong, in words."""
        is_late = time.monotonic() > each.since + self._starts.starting_s
        if each.phase == "starting" and (is_late or health == "up"):
            self._enter(each, "up")
        if health != "failed" or each.process is None:
            return []
        told = each.process.told()
        self.crash(name)
        return [f"{name} went to the state ERROR. {told}"]

    def _look_at_commands(self) -> list[str]:
        """Take in the answers to commands; what went wrong, in words."""
        wrong = []
        for name, since in list(self._waiting.items()):
            answer = self._recording / f"told-{name}"
            if answer.exists():
                error = answer.read_text("utf-8")
                if error:
                    wrong.append(f"{name} could not carry out a command: {error}")
            elif time.monotonic() > since + TOLD_S:
                wrong.append(f"{name} did not carry out a command in {TOLD_S:g} s")
            else:
                continue
            self._commands[name].popleft()
            self._forget_given(name)
            self._give_command(name)
        return wrong

    def tell(self, kind: str, actor: str, **attributes: Any) -> None:
        """Record an event that this program causes."""
        self._write({"actor": actor, "kind": kind, "attributes": attributes})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps({"at": time.monotonic_ns(), **line})
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def _forget_commands(self, name: str) -> None:
        self._commands[name].clear()
        self._forget_given(name)

    def _forget_given(self, name: str) -> None:
        self._waiting.pop(name, None)
        for each in ("tell", "told"):
            (self._recording / f"{each}-{name}").unlink(missing_ok=True)

    def _still(self, name: str) -> AbstractContextManager[None]:
        """No system call of an instance ends half recorded: a later loss of power needs all."""
        return self._disks[name].still() if name in self._disks else nullcontext()

    @staticmethod
    def _enter(instance: _Instance, phase: str) -> None:
        instance.phase, instance.since = phase, time.monotonic()
