"""Carries out one action of a timeline in a world."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from streamproof.scenarios.scenario import (
    AnyAction,
    Crash,
    Cut,
    Fault,
    Fill,
    Flush,
    Hold,
    Pause,
    Power,
    Query,
    Send,
    Start,
    Stop,
)
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.clients.external_producer import OutsideProducer
from streamproof.sim.disks import emit_flush
from streamproof.sim.instance_faults import Troubles
from streamproof.sim.instances import Instance
from streamproof.sim.nemesis import stop_in_time
from streamproof.sim.simulation import Stage
from streamproof.sim.topology import partition_for

__all__ = ["Performer"]


class Performer:
    """Carries out actions in one world.

    Args:
        stage: the world.
        fix: fixes every choice while its block runs.
    """

    def __init__(self, stage: Stage, fix: Callable[[int], AbstractContextManager[None]]) -> None:
        self._stage = stage
        self._fix = fix
        self._world = stage.world
        self._troubles = Troubles(stage.world, stage.application.network)
        self._instances = {each.name: each for each in stage.instances}
        self._sent = 0
        self._client = stage.queries.client("client")

    def perform(self, action: AnyAction) -> Steps:
        """Carry out an action to its end, the restart of a stopped process included."""
        match action:
            case Send():
                yield from self._send(action)
            case Query():
                yield from self._ask(action)
            case Fault():
                # The director arms faults; their sites make them happen.
                return
            case _:
                yield from self._act(action, self._instances[action.instance])

    def _act(self, action: AnyAction, instance: Instance) -> Steps:
        troubles = self._troubles
        match action:
            case Crash():
                instance.crash()
                yield from self._later(action.down_ms, Instance.start, instance)
            case Power():
                with self._fix(action.flushes):
                    instance.lose_power()
                yield from self._later(action.down_ms, Instance.start, instance)
            case Stop():
                yield from stop_in_time(self._world, instance)
                yield from self._later(action.down_ms, Instance.start, instance)
            case Start():
                instance.start()
            case Pause():
                troubles.pause(instance)
                yield from self._later(action.lasts_ms, troubles.resume, instance)
            case Cut():
                troubles.cut(instance)
                yield from self._later(action.lasts_ms, troubles.heal, instance)
            case Fill():
                troubles.fill(instance)
                yield from self._later(action.lasts_ms, troubles.empty, instance)
            case Hold():
                instance.pause()
                yield from self._later(action.lasts_ms, Instance.resume, instance)
            case Flush():
                self._flush(instance, action.task)

    def _later(
        self, after_ms: int | None, end: Callable[[Instance], None], instance: Instance
    ) -> Steps:
        if after_ms is not None:
            yield self._world.time.timeout(after_ms)
            end(instance)

    def _flush(self, instance: Instance, task_id: str) -> None:
        if instance.global_table is not None and not task_id:
            instance.global_table.flush()
        for thread in instance.threads:
            for task in thread.tasks.values():
                for holder in task.stores.values() if task_id in ("", task.id) else ():
                    flushed = instance.disk.fill_memtable(holder.database)
                    emit_flush(self._world.trace, thread.name, task.id, holder.changelog, flushed)

    def _ask(self, action: Query) -> Steps:
        for number in range(action.times):
            if number:
                yield self._world.time.timeout(action.every_ms)
            query = self._client.query(
                action.task,
                action.store,
                None if action.from_key is None else action.from_key.encode(),
                None if action.to_key is None else action.to_key.encode(),
                requires_active=action.requires_active,
                isolation=action.isolation,
                bounded=action.bounded,
            )
            yield from self._client.ask(query)

    def _send(self, action: Send) -> Steps:
        world, cluster = self._world, self._stage.application.cluster
        self._sent += 1
        producer = OutsideProducer(world, cluster, f"timeline-{self._sent}")
        count = len(cluster.partitions_of(action.topic))
        if action.transaction:
            yield from producer.begin()
        for each in action.records:
            key = each.key.encode()
            chosen = partition_for(key, count) if each.partition is None else each.partition
            value = None if each.value is None else each.value.encode()
            timestamp = world.now if each.timestamp is None else each.timestamp
            record = f"{action.topic}-{chosen}", key, value, timestamp
            if action.transaction:
                yield from producer.send_in_transaction(*record)
            else:
                producer.send(*record)
        if action.transaction:
            if action.open_ms:
                yield world.time.timeout(action.open_ms)
            yield from producer.end(commit=action.transaction == "commit")
