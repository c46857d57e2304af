"""Instances: a process with its threads, and the disk that outlives it.

Sources: Kafka, KafkaStreams; KIP-671 for threads that are replaced.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.disks import InstanceDisk, SimulatedDisk
from streamproof.sim.releases import LATEST, Release
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.format_rebuild import rebuild
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.stores.errors import ProcessorStateError

__all__ = ["Instance"]


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

    def start(self) -> None:
        """Start a process, unless one runs, or the instance is retired.

        The process ends at once if the files of a store cannot be opened.
        """
        if self.host is not None or self.is_retired:
            return
        application, world = self._application, self._application.world
        self.disk.release = self.release
        self.host = world.host(self.name, drift_ppm=self._drift_ppm)
        world.trace.emit(
            "instance.started",
            self.name,
            drift_ppm=self._drift_ppm,
            release=self.release.name,
            manages_offsets=self.release.manages_offsets,
            upgrade_from=self.release.upgrade_from,
            formats=list(self.release.formats),
        )
        directory = StateDirectory(world, self.host, self.disk, application.task_config)
        self.state_directory = directory
        # The scan takes no locks, so it must end before the threads start. Their first reports to
        # the group contain the offset sums of the scan.
        try:
            directory.initialize_startup_stores(application.tasks)
        except ProcessorStateError:
            self.crash()
            return
        table = application.global_table(self.host)
        self.threads = []
        for number in range(self._count):
            self.threads.append(self._thread(self.host, directory, table, number))
        if self.release.upgrade_mode == "in_place":
            self.host.start(rebuild(application, self.host, self._open_tasks))
        self.host.start(directory.clean(application.config.state_cleanup_delay_ms))

    def _open_tasks(self) -> list[StreamTask]:
        return [task for thread in self.threads for task in thread.tasks.values()]

    def _thread(
        self, host: Host, directory: StateDirectory, table: GlobalTable | None, number: int
    ) -> StreamThread:
        thread = StreamThread(
            self._application,
            host,
            directory,
            number,
            replace=partial(self._replace, host, directory, table, number),
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
            self._end("instance.stopped", leaks=directory.leaks)
            directory.close()

    def _end(self, event: str, **attributes: Any) -> None:
        self._application.world.trace.emit(event, self.name, **attributes)
        if self.host is not None:
            self.host.crash()
        self.host = None
        self.threads = []
        self.is_paused = False
