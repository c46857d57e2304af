"""The report of a thread to its group, in its metadata version, and the decision if it leads.

Source: Kafka, StreamsPartitionAssignor.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simpy.events import Event

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Host
from streamproof.sim.application import Application
from streamproof.sim.decisions.lag import LATEST_OFFSET, UNKNOWN_OFFSET_SUM
from streamproof.sim.decisions.versions import (
    EARLIEST_PROBEABLE_VERSION,
    FORMATS_VERSION,
    Answer,
    Spoken,
    answers_of,
    next_version,
    readable,
)
from streamproof.sim.releases import Release
from streamproof.sim.state_directory import StateDirectory, next_offset_sum
from streamproof.sim.tasks.assignor import (
    Subscription,
    ThreadAssignment,
    described,
    encoded,
    forget_partial,
    mirroring,
    said_formats,
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
        self._release = release
        used = release.used_version
        if self._world.defect("ignores-upgrade-from"):
            used = release.metadata_version
        self.spoken = Spoken(used, release.metadata_version)

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
        formats = self._formats()
        self._world.trace.emit(
            "thread.subscribed",
            self._actor,
            owned=sorted(owned),
            sums=sums,
            used=self.spoken.used,
            supported=self.spoken.supported,
            formats=said_formats(formats),
        )
        spoken = readable(*self.spoken)
        return Subscription(self._host.name, tuple(sorted(owned)), sums, spoken, formats)

    def _formats(self) -> dict[str, tuple[int, ...]] | None:
        """The formats that the disk has, by store; ``None`` if the report has no place for them.

        After the second bounce of an upgrade in place the disk has both formats of a store, and in
        a roll-over the newer one alone (KIP-258). That is how a leader tells the two apart.
        """
        if not self._release.names_formats or self.spoken.used < FORMATS_VERSION:
            return None
        stores = sorted(
            {name for each in self._application.tasks.values() for name in each.changelogs}
        )
        self._directory.tell_formats(self._actor)
        if self._world.defect("names-formats-of-the-release"):
            return dict.fromkeys(stores, self._release.formats)
        return {name: self._directory.formats(name) for name in stores}

    def _sum_of(self, task: StreamTask) -> int:
        unknown = any(each.offset is None for each in task.stores.values())
        if unknown and self._world.defect("takes-unknown-for-latest"):
            return LATEST_OFFSET
        return next_offset_sum(task)

    def hear(self, answer: Answer, generation: int) -> bool:
        """Take over the metadata version; return whether another rebalance must follow at once.

        Args:
            answer: the versions of the assignment.
            generation: that of the assignment.
        """
        found = next_version(self.spoken.used, answer)
        self._world.trace.emit(
            "thread.answered",
            self._actor,
            version=answer.version,
            commonly_supported=answer.commonly_supported,
            generation=generation,
            empty=answer.probing,
        )
        if not self._world.defect("keeps-its-version"):
            self.spoken = self.spoken._replace(used=found.version)
        return found.rejoin

    # The decision of the leader.

    def lead(
        self, subscriptions: Mapping[str, Subscription], generation: int
    ) -> Generator[Event, Any, dict[str, ThreadAssignment]]:
        """Assign, as the leader of the group."""
        ends = yield from self._ends()
        believed = self._believed(subscriptions, ends)
        try:
            answers = self._answers(believed)
        except UsageError as error:
            # Nobody gets a task until the operator has restarted a member (KAFKA-6054).
            self._world.trace.emit("group.refused", self._actor, reason=str(error))
            oldest = min(each.spoken.used for each in subscriptions.values())
            empty = ThreadAssignment(answer=Answer(oldest, oldest, probing=True))
            return dict.fromkeys(subscriptions, empty)
        too_new = sorted(member for member, each in answers.items() if each.probing)
        if too_new:
            # The leader cannot read these reports, so their members have to report again.
            self._world.marks.sometimes("a metadata version was probed")
            version = min(each.version for each in answers.values())
            self._world.trace.emit(
                "group.probed",
                self._actor,
                version=version,
                generation=generation,
                members=too_new,
            )
            if self._world.defect("probes-everyone"):
                empty = ThreadAssignment(answer=answers[too_new[0]])
                return dict.fromkeys(subscriptions, empty)
        self._world.marks.sometimes(
            "a leader did not know the lag of a client",
            holds=any(UNKNOWN_OFFSET_SUM in each.sums.values() for each in believed.values()),
        )
        application = self._application
        shares = share_out(
            believed, ends, application.stateless, application.config.assignor, answers
        )
        self._world.trace.emit(
            "group.assigned",
            self._actor,
            generation=generation,
            version=min(each.version for each in answers.values()),
            **described(subscriptions, shares),
            ends=ends,
            stateless=sorted(application.stateless),
        )
        return shares.threads

    def _answers(self, subscriptions: Mapping[str, Subscription]) -> dict[str, Answer]:
        """The versions of each member's answer."""
        mirrors = set(mirroring(subscriptions.values()))
        if self._world.defect("answers-all-in-one-version"):
            mirrors = set()
        answers = answers_of(
            {member: each.spoken for member, each in subscriptions.items()},
            self.spoken.supported,
            [member for member, each in subscriptions.items() if each.process in mirrors],
        )
        if self._world.defect("misnames-the-leaders-version"):
            wrong = EARLIEST_PROBEABLE_VERSION
            for member in [name for name, each in answers.items() if each.probing]:
                answers[member] = answers[member]._replace(commonly_supported=wrong)
        return answers

    def _ends(self) -> Generator[Event, Any, dict[str, int]]:
        """The sum of the ends of its changelogs, by stateful task.

        A changelog that is an input ends at the committed offset: a copy cannot know more.

        Source: Kafka, StreamsPartitionAssignor#populateClientStatesMap and ChangelogTopics.
        """
        application, logs = self._application, self._application.cluster.logs
        group = application.cluster.group(application.topology.application_id)
        by_log = self._world.defect("takes-ends-of-inputs")

        def end(changelog: str, inputs: Sequence[str]) -> int:
            if changelog not in inputs or by_log:
                return logs[changelog].end
            committed = group.committed(changelog) or 0
            self._world.marks.sometimes(
                "a leader took a committed offset for the end of an input",
                holds=committed < logs[changelog].end,
            )
            return committed

        def ends() -> dict[str, int]:
            return {
                name: sum(end(each, spec.inputs) for each in spec.changelogs.values())
                for name, spec in application.tasks.items()
                if spec.changelogs
            }

        found: dict[str, int] = yield from application.network.call(
            self._host, "list offsets", ends
        )
        return found

    def _believed(
        self, subscriptions: Mapping[str, Subscription], ends: Mapping[str, int]
    ) -> Mapping[str, Subscription]:
        """The reports, as a leader with a defect understands them."""
        if self._world.defect("does-not-wait-for-owner"):
            return {name: replace(each, owned=()) for name, each in subscriptions.items()}
        if self._world.defect("lets-mirrors-work"):
            return {name: replace(each, formats=None) for name, each in subscriptions.items()}
        if self._world.defect("begins-anew-without-need"):
            return forget_partial(subscriptions, ends, self._application.config.assignor)
        return subscriptions
