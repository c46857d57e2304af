"""The report of a thread to its group, in its metadata version, and the decision if it leads.

Source: Kafka, StreamsPartitionAssignor.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import replace
from typing import Any

from simpy.events import Event

from streamproof.sim.actor_hosts import Host
from streamproof.sim.application import Application
from streamproof.sim.decisions.lag import LATEST_OFFSET
from streamproof.sim.decisions.versions import Answer, Spoken, answer_of, next_version
from streamproof.sim.releases import Release
from streamproof.sim.state_directory import StateDirectory, next_offset_sum
from streamproof.sim.tasks.assignor import (
    Subscription,
    ThreadAssignment,
    described,
    encoded,
    forget_partial,
    share_out,
)
from streamproof.sim.tasks.stream_task import StreamTask, TaskState

__all__ = ["PartitionAssignor"]


class PartitionAssignor:
    """The part of a thread that reports to the group, and leads it.

    Args:
        application: the application.
        host: the process.
        directory: the state directory of the process.
        release: the release of the process.
        actor: the name of the thread.

    Attributes:
        spoken: the metadata version that the thread uses now, and the newest one that it supports.
    """

    def __init__(
        self,
        application: Application,
        host: Host,
        directory: StateDirectory,
        release: Release,
        *,
        actor: str,
    ) -> None:
        self._application = application
        self._world = application.world
        self._host = host
        self._directory = directory
        self._actor = actor
        self._formats = release.formats
        self.spoken = Spoken(release.used_version, release.metadata_version)

    # The report.

    def subscription(self, tasks: Mapping[str, StreamTask], owned: Collection[str]) -> Subscription:
        """The report of the thread.

        Args:
            tasks: the tasks of the thread, standbys included.
            owned: the active tasks that the thread has, or was assigned.
        """
        sums = self._directory.sums(self._actor)
        for task in tasks.values():
            if not task.spec.changelogs:
                continue
            if task.state is TaskState.RUNNING:
                sums[task.id] = LATEST_OFFSET
            elif task.stores:
                sums[task.id] = self._sum_of(task)
        sums = encoded(sums, self.spoken.used)
        self._world.trace.emit(
            "thread.subscribed",
            self._actor,
            owned=sorted(owned),
            sums=sums,
            used=self.spoken.used,
            supported=self.spoken.supported,
        )
        return Subscription(self._host.name, tuple(sorted(owned)), sums, self.spoken, self._formats)

    def _sum_of(self, task: StreamTask) -> int:
        unknown = any(each.offset is None for each in task.stores.values())
        if unknown and self._world.defect("takes-unknown-for-latest"):
            return LATEST_OFFSET
        return next_offset_sum(task)

    def hear(self, answer: Answer) -> bool:
        """Take over the metadata version; return whether another rebalance must follow at once."""
        found = next_version(self.spoken.used, answer)
        self._world.trace.emit(
            "thread.answered",
            self._actor,
            version=answer.version,
            commonly_supported=answer.commonly_supported,
        )
        if not self._world.defect("keeps-its-version"):
            self.spoken = self.spoken._replace(used=found.version)
        return found.rejoin

    # The decision of the leader.

    def lead(
        self, subscriptions: Mapping[str, Subscription], generation: int
    ) -> Generator[Event, Any, dict[str, ThreadAssignment]]:
        """Assign, as the leader of the group."""
        answer = answer_of((each.spoken for each in subscriptions.values()), self.spoken.supported)
        if answer.probing:
            # The leader cannot read some of the reports. So nothing changes, and all report again.
            self._world.marks.sometimes("a metadata version was probed")
            self._world.trace.emit("group.probed", self._actor, version=answer.version)
            return dict.fromkeys(subscriptions, ThreadAssignment(answer=answer, is_probe=True))
        ends = yield from self._ends()
        believed = self._believed(subscriptions, ends)
        application = self._application
        shares = share_out(
            believed, ends, application.stateless, application.config.assignor, answer
        )
        self._world.trace.emit(
            "group.assigned",
            self._actor,
            generation=generation,
            version=answer.version,
            **described(subscriptions, shares),
            ends=ends,
            stateless=sorted(application.stateless),
        )
        return shares.threads

    def _ends(self) -> Generator[Event, Any, dict[str, int]]:
        """The sum of the ends of its changelogs, by stateful task."""
        application, logs = self._application, self._application.cluster.logs

        def ends() -> dict[str, int]:
            return {
                name: sum(logs[each].end for each in spec.changelogs.values())
                for name, spec in application.tasks.items()
                if spec.changelogs
            }

        found: dict[str, int] = yield from application.network.call(
            self._host.name, "list offsets", ends
        )
        return found

    def _believed(
        self, subscriptions: Mapping[str, Subscription], ends: Mapping[str, int]
    ) -> Mapping[str, Subscription]:
        """The reports, as a leader with a defect understands them."""
        if self._world.defect("does-not-wait-for-owner"):
            return {name: replace(each, owned=()) for name, each in subscriptions.items()}
        if self._world.defect("lets-mirrors-work"):
            return {name: replace(each, formats=(1, 2)) for name, each in subscriptions.items()}
        if self._world.defect("begins-anew-without-need"):
            return forget_partial(subscriptions, ends, self._application.config.assignor)
        return subscriptions
