"""The clients of a stream thread: its consumer, producer, membership and state updater.

Sources: Kafka, StreamThread#create and StreamsConfig#getMainConsumerConfigs.
"""

from __future__ import annotations

from collections.abc import Callable

from streamproof.sim.actor_hosts import Host
from streamproof.sim.application import Application
from streamproof.sim.brokers.transaction_coordinator import TransactionVersion
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.clients.membership import Assign, Membership, MembershipConfig
from streamproof.sim.clients.streams_membership import StreamsMembership
from streamproof.sim.decisions.commits import Uncommitted
from streamproof.sim.releases import Release
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.tasks.assignor import Subscription, ThreadAssignment
from streamproof.sim.tasks.state_updater import StateUpdater, UpdaterConfig
from streamproof.sim.tasks.task_committer import Committer
from streamproof.stores.metrics import Metrics

__all__ = ["ThreadClients"]


class ThreadClients:
    """Makes the clients of one thread, with its names and the settings of the application.

    Args:
        application: the application.
        host: the process of the thread.
        disk: the state directory of the process.
        number: the number of the thread within the process.
        release: the release of the process, which decides what the application has no setting for.
    """

    def __init__(
        self,
        application: Application,
        host: Host,
        disk: StateDirectory,
        number: int,
        release: Release,
    ) -> None:
        self._application = application
        self._world = application.world
        self._config = application.config
        self._host = host
        self._disk = disk
        self._number = number
        self._name = f"{host.name}/thread-{number}"
        self._leaves = application.config.leaves_group(default=release.leaves_group)
        self._transaction_version: TransactionVersion = min(
            release.transaction_version, application.config.transaction_version
        )

    def consumer(self) -> Consumer:
        """The consumer of the inputs."""
        application = self._application
        return Consumer(
            self._world,
            self._host,
            application.network,
            application.cluster,
            isolation="read_committed" if self._config.exactly_once else "read_uncommitted",
            max_poll_records=self._config.max_poll_records,
            mode=self._config.idling,
        )

    def membership(
        self,
        describe: Callable[[], Subscription],
        assign: Assign[Subscription, ThreadAssignment],
        wake: Callable[[], None],
    ) -> Membership[Subscription, ThreadAssignment]:
        """The member of the group.

        Args:
            describe: makes the subscription.
            assign: makes the assignment, if the thread leads the group.
            wake: wakes the thread when something has changed.
        """
        config = MembershipConfig(
            self._application.topology.application_id,
            session_timeout_ms=self._config.session_timeout_ms,
            heartbeat_ms=self._config.heartbeat_interval_ms,
            instance_id=self._name if self._config.static_members else "",
            leaves=self._leaves,
            max_poll_interval_ms=self._config.max_poll_interval_ms,
        )
        kind = StreamsMembership if self._config.group_protocol == "streams" else Membership
        return kind(
            self._world,
            self._host,
            self._application.network,
            self._application.cluster,
            config,
            actor=self._name,
            describe=describe,
            assign=assign,
            wake=wake,
        )

    def committer(
        self,
        consumer: Consumer,
        membership: Membership[Subscription, ThreadAssignment],
        limits: Uncommitted,
    ) -> Committer:
        """The committer, with the producer.

        Args:
            consumer: the consumer whose positions are committed.
            membership: the member that fences a commit.
            limits: the most that the stores of the thread may stage.
        """
        application_id = self._application.topology.application_id
        transactional_id = f"{application_id}-{self._host.name}-{self._number}"
        return Committer(
            self._application,
            self._host,
            self._disk,
            consumer,
            membership,
            actor=self._name,
            transactional_id=transactional_id if self._config.exactly_once else "",
            transaction_version=self._transaction_version,
            limits=limits,
        )

    def updater(
        self, wake: Callable[[], None], registry: Metrics, predecessor: StateUpdater | None
    ) -> StateUpdater:
        """The state updater.

        Args:
            wake: wakes the thread when a task is restored, or has failed.
            registry: the metrics of the thread.
            predecessor: the state updater that has died, whose tasks the new one gets.
        """
        application = self._application
        reads_all = not self._config.exactly_once or self._world.defect("restores-aborted-records")
        config = UpdaterConfig(
            "read_uncommitted" if reads_all else "read_committed",
            application.topology.application_id,
            self._config.commit_interval_ms,
            self._config.idling,
            application.restore_listener,
            application.standby_listener,
            self._config.max_poll_records,
        )
        return StateUpdater(
            self._world,
            self._host,
            application.network,
            application.cluster,
            config,
            actor=f"{self._host.name}/updater-{self._number}",
            wake=wake,
            registry=registry,
            predecessor=predecessor,
        )
