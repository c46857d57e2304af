"""Instances: a process with its threads, and the disk that outlives it.

Sources: Kafka, KafkaStreams; KIP-671 for threads that are replaced.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.disks import InstanceDisk, SimulatedDisk
from streamproof.sim.releases import LATEST, PREPARING_IN_PLACE, ROLLING_OVER, Release
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.format_rebuild import FormatRebuild
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.take_over import TakeOver
from streamproof.stores.errors import ProcessorStateError

__all__ = ["Instance"]

_SUPERVISED_MS = 1_000
"""How long until a process that has ended by itself is started again."""


class Instance:
    """One process of the application, started again and again on the same disk.

    Args:
        application: the application that the instance runs.
        name: of the instance, and of each of its processes.
        threads: how many stream threads it has.
        disk: the disk, which outlives the process; by default a new one with model stores.
        drift_ppm: how much faster its clock runs than the time of the world, in millionths.
        release: the release of the next process.

    Attributes:
        release: the release of the next process.
        disk: the disk, which outlives the process.
        host: the current process; ``None`` without one.
        threads: the threads of the current process.
        is_paused: whether the current process is paused.
        is_retired: whether no further process is started, for now.
        state_directory: that of the current or the last process; ``None`` before the first.
        rebuild: builds the newer format of the stores; ``None`` unless an upgrade needs that.
        take_over: follows the copies of a new instance; ``None`` for an instance that is not new.
    """

    def __init__(
        self,
        application: Application,
        name: str,
        threads: int = 1,
        *,
        disk: InstanceDisk | None = None,
        drift_ppm: int = 0,
        release: Release = LATEST,
    ) -> None:
        self._application = application
        self._count = threads
        self._drift_ppm = drift_ppm
        self.name = name
        self.release = release
        self.disk = SimulatedDisk(application.world, name) if disk is None else disk
        self.host: Host | None = None
        self.threads: list[StreamThread] = []
        self.is_paused = False
        self.is_retired = False
        self.state_directory: StateDirectory | None = None
        self.rebuild: FormatRebuild | None = None
        self.take_over: TakeOver | None = None
        self._global_table: GlobalTable | None = None

    def start(self) -> None:
        """Start a process, unless one runs, or the instance is retired.

        The process ends at once if the files of a store cannot be opened.
        """
        if self.host is not None or self.is_retired:
            return
        application, world = self._application, self._application.world
        self.disk.release = self.release
        if self.release == ROLLING_OVER and world.defect("rebuilds-in-a-roll-over"):
            self.disk.release = PREPARING_IN_PLACE
        self.host = world.host(self.name, drift_ppm=self._drift_ppm)
        world.trace.emit(
            "instance.started",
            self.name,
            drift_ppm=self._drift_ppm,
            release=self.release.name,
            manages_offsets=self.release.manages_offsets,
            upgrade_from=self.release.upgrade_from,
            formats=list(self.release.formats),
            upgrade_mode=self.release.upgrade_mode,
            leaves_group=application.config.leaves_group(default=self.release.leaves_group),
        )
        directory = StateDirectory(world, self.host, self.disk, application.task_config)
        self.state_directory = directory
        # The scan takes no locks, so it must end before the threads start. Their first reports to
        # the group contain the offset sums of the scan.
        try:
            directory.clean_outdated(application.config.state_cleanup_dir_max_age_ms)
            directory.initialize_startup_stores(application.tasks)
            table = application.global_table(self.host, directory, self._start_over)
            self._global_table = table
        except ProcessorStateError:
            self.crash()
            return
        self.threads = []
        for number in range(self._count):
            self.threads.append(self._thread(self.host, directory, table, number))
        self._prepare(self.host)
        delay_ms = application.config.state_cleanup_delay_ms
        self.host.start(directory.clean(delay_ms, self._is_running))

    def _prepare(self, host: Host) -> None:
        """Start the background tasks of an upgrade of formats, if the release is part of one."""
        release, application = self.disk.release, self._application
        self.rebuild = None
        self.take_over = None
        if not release.names_formats or release.upgrade_mode == "roll_over":
            return
        waits = not release.upgrade_mode and application.config.live_format == "assignment"
        if release.upgrade_mode or waits:
            self.rebuild = FormatRebuild(
                application,
                host,
                self._rebuilt_tasks,
                self._is_settled,
                is_first_bounce=bool(release.upgrade_mode),
            )
            host.start(self.rebuild.run())
        if not release.upgrade_mode:
            self.take_over = TakeOver(application, host, self._open_tasks, self._has_copies_alone)
            host.start(self.take_over.run())

    @property
    def changelogs(self) -> set[str]:
        """The changelog partitions of all tasks of the application."""
        tasks = self._application.tasks.values()
        return {changelog for each in tasks for changelog in each.changelogs.values()}

    def _open_tasks(self) -> list[StreamTask]:
        return [task for thread in self.threads for task in thread.tasks.values()]

    def _rebuilt_tasks(self) -> list[StreamTask]:
        tasks = self._open_tasks()
        if self._application.world.defect("rebuilds-active-tasks-alone"):
            return [task for thread in self.threads for task in thread.active]
        return tasks

    def _has_copies_alone(self) -> bool:
        return self._is_settled() and not any(thread.active for thread in self.threads)

    def _is_running(self) -> bool:
        """Whether all threads run (Kafka: KafkaStreams.State.RUNNING)."""
        return all(thread.is_running for thread in self.threads)

    def _is_settled(self) -> bool:
        return all(thread.has_opened_all for thread in self.threads)

    def _thread(
        self, host: Host, directory: StateDirectory, table: GlobalTable | None, number: int
    ) -> StreamThread:
        thread = StreamThread(
            self._application,
            host,
            directory,
            number,
            replace=partial(self._replace, host, directory, table, number),
            limits=self._application.uncommitted_limits(self._count),
            release=self.disk.release,
            global_table=table,
        )
        if self.is_paused:
            thread.pause()
        return thread

    def _replace(
        self, host: Host, directory: StateDirectory, table: GlobalTable | None, number: int
    ) -> None:
        self.threads[number] = self._thread(host, directory, table, number)

    def pause(self) -> None:
        """Process and restore nothing until the instance is resumed or restarts (KIP-834).

        Unlike a process that stands still, a paused one stays a member, commits, and keeps its
        tasks.

        Source: Kafka, KafkaStreams#pause.
        """
        if self.host is not None and not self.is_paused:
            self._application.world.trace.emit("instance.paused", self.name)
            self.is_paused = True
            for thread in self.threads:
                thread.pause()

    def resume(self) -> None:
        """Go on after a pause. An instance that is not paused does not change."""
        if self.is_paused:
            self._application.world.trace.emit("instance.resumed", self.name)
            self.is_paused = False
            for thread in self.threads:
                thread.resume()

    def crash(self) -> None:
        """Kill the process: its memory is lost, and flushed data stays on the disk."""
        if self.host is not None:
            self._end("instance.crashed")
            self.disk.crash()

    @property
    def global_table(self) -> GlobalTable | None:
        """The global stores of the current process; ``None`` without any."""
        return self._global_table

    def _start_over(self) -> None:
        """End the process, and start another one soon, as whoever looks after it does."""
        self.crash()
        self._application.world.time.process(self._start_later())

    def _start_later(self) -> Steps:
        yield self._application.world.time.timeout(_SUPERVISED_MS)
        self.start()

    def lose_power(self) -> None:
        """Switch the machine off: some of the data that was flushed and not synced is lost, too.

        Without a process, nothing happens.

        Raises:
            UsageError: the disk has real stores on it.
        """
        if self.host is not None:
            self._end("instance.crashed")
            self.disk.lose_power()

    def stop(self) -> Steps:
        """Let the process commit, close everything, leave the group, and end.

        The event of the stop lists locks and stores that the process should have released.
        """
        host, directory = self.host, self.state_directory
        if host is None or directory is None:
            return
        # Ask all threads before waiting for any, so that they stop at the same time.
        for thread in self.threads:
            thread.stop()
        for thread in self.threads:
            yield thread.stopped
        # The process may have died during the wait, and another one may have started.
        if self.host is host:
            if self._global_table is not None:
                self._global_table.close()
            self._end("instance.stopped", leaks=directory.leaks)
            directory.close()

    def _end(self, event: str, **attributes: Any) -> None:
        self._application.world.trace.emit(event, self.name, **attributes)
        if self.host is not None:
            self.host.crash()
        self.host = None
        self._global_table = None
        self.rebuild = None
        self.take_over = None
        self.threads = []
        self.is_paused = False
