"""A cluster that is there already, whose brokers nobody here starts, kills or records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.followed_lines import Rest

__all__ = ["LEAST_SESSION_MS", "ExistingCluster", "WatchedRest", "await_deleted"]

LEAST_SESSION_MS = 6_000
"""The least ``session.timeout.ms`` of members that brokers take unless they are configured
otherwise (Kafka, ``group.min.session.timeout.ms``)."""

DELETED_S = 60.0
"""The most that deleting the topics and groups of a world may take, in seconds."""

POLL_S = 0.05
"""The time between two questions whether they are deleted, in seconds."""


class ExistingCluster(NamedTuple):
    """A cluster that is there already.

    Attributes:
        address: where clients reach it, as ``127.0.0.1:9092``.
        release: the release of the clients; that of the brokers does not count.
    """

    address: str
    release: str

    @property
    def address_of_instances(self) -> str:
        """Where instances reach it."""
        return self.address


class WatchedRest(Rest):
    """Whether an application has processed and committed all its input, seen from outside.

    Args:
        tasks: the inputs of each task.
        settle_s: how long the application goes on after that by the clock, in seconds.
        watched: the file with the newest look; ``Watch.java`` says what it has.
    """

    def __init__(self, tasks: Mapping[str, Iterable[str]], settle_s: float, watched: Path) -> None:
        super().__init__(tasks, settle_s)
        self._watched = watched
        self._known_at = 0.0

    def known_at(self, now: float) -> float:
        """When the newest look began, by the monotonic clock: something may have come since."""
        return self._known_at

    def is_reached(self, up: Iterable[str]) -> bool:
        """Whether all tasks run in these processes, and nothing is left to commit."""
        if not self._watched.exists():
            return False
        begun, *lines = self._watched.read_text("utf-8").splitlines()
        self._known_at = int(begun) / 1e9
        for line in lines:
            partition, end, visible, committed = line.split("\t")
            self._ends[partition] = int(end)
            self._records[partition] = int(visible)
            self._committed[partition] = int(committed)
        return super().is_reached(up)


def await_deleted(worlds: Path, address: str) -> None:
    """Wait until the topics and groups of all worlds that are over are deleted.

    Args:
        worlds: the directory with the directories of the worlds.
        address: the address of the cluster.

    Raises:
        UsageError: some are left; the message names them.
    """
    deadline = time.monotonic() + DELETED_S
    for world in worlds.glob("*/topics"):
        deleted = world.with_name("deleted")
        while not deleted.exists() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        error = deleted.read_text("utf-8") if deleted.exists() else "the brokers do not answer"
        if error:
            prefix = world.read_text("utf-8").splitlines()[0]
            raise UsageError(
                f"Topics and groups whose names begin with {prefix} are left on {address}: "
                f"{error}. Delete them."
            )
