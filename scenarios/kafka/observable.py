"""Which kinds of events are recorded of real processes, and which cannot be observed, with why.

The recorder itself lists the kinds that an application and a broker tell; a test holds these lists
and ``KINDS`` together, so that a new kind has to be put on one side.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BEFORE_OFFSETS",
    "MERGED",
    "OF_BROKERS",
    "OF_SIMULATED_PROCESSORS",
    "OF_THE_DRIVER",
    "UNOBSERVED",
]

OF_BROKERS = frozenset(
    {
        "log.appended",
        "log.compacted",
        "log.deleted",
        "offsets.added",
        "offsets.committed",
        "transaction.decided",
        "transaction.marker",
    }
)
"""What a recorded broker tells: whatever is written to its logs."""

MERGED = frozenset({"application.started", "instance.crashed"})
"""What follows from the recordings as a whole."""

OF_THE_DRIVER = frozenset(
    {
        "broker.refused",
        "broker.stalled",
        "coordinator.away",
        "coordinator.back",
        "disk.emptied",
        "disk.filled",
        "disk.full",
        "disk.power_lost",
        "instance.retired",
        "instance.stood_still",
        "instance.went_on",
        "network.connected",
        "network.cut",
        "network.reply_lost",
        "network.request_held",
        "network.request_late",
        "network.request_lost",
        "upgrade.awaited",
        "workload.ended",
        "world.healed",
    }
)
"""What happens only if whoever plays a scenario makes it happen, who then records it."""

UNOBSERVED: Mapping[str, str] = {
    "disk.listed": "Kafka has no formats of stores side by side",
    "global.applied": "the recorder does not follow global stores",
    "global.committed": "the recorder does not follow global stores",
    "global.flushed": "the recorder does not follow global stores",
    "global.opened": "the recorder does not follow global stores",
    "global.restored": "the recorder does not follow global stores",
    "global.wiped": "the recorder does not follow global stores",
    "group.assigned": "the recorder does not see what the leader decides",
    "group.commit_refused": "the recorder does not see what the coordinator of a group decides",
    "group.left_out": "the recorder does not see why a member joins again",
    "group.member_joined": "the recorder does not see what the coordinator of a group decides",
    "group.member_left": "the recorder does not see what the coordinator of a group decides",
    "group.member_left_out": "the recorder does not see what the coordinator of a group decides",
    "group.probed": "the recorder does not see what the leader decides",
    "group.reconciled": "the recorder does not see what the coordinator of a group decides",
    "group.refused": "the recorder does not see what the leader decides",
    "group.targeted": "the recorder does not see what the coordinator of a group decides",
    "input.reset": "the recorder does not see why a consumer seeks",
    "instance.prepared": "Kafka has no upgrade in place",
    "instance.ready": "Kafka has no roll-over",
    "output.refused": "the recorder does not follow the handler of production exceptions",
    "query.answered": "the recorder does not follow queries",
    "query.asked": "the recorder does not follow queries",
    "query.lost": "the recorder does not follow queries",
    "query.refused": "the recorder does not follow queries",
    "query.sent": "the recorder does not follow queries",
    "query.served": "the recorder does not follow queries",
    "record.dropped": "the recorder does not follow handlers of exceptions",
    "store.flushed": "RocksDB flushes by itself, in native code",
    "store.segment_flushed": "RocksDB flushes by itself, in native code",
    "store.rebuilt": "Kafka has no formats of stores side by side",
    "task.timed_out": "the recorder does not see which requests time out",
    "thread.answered": "the recorder does not read assignments",
    "thread.metrics": "nobody reads the metrics",
    "thread.polled_late": "the recorder does not see when a thread polls",
    "thread.timed_out": "the recorder does not see which requests time out",
    "transaction.begun": "the recorder does not see what the coordinator adds to a transaction",
    "transaction.id_expired": "the recorder does not see which transactional ids expire",
    "transaction.timed_out": "in a log, this looks like any other abort",
    "updater.died": "the recorder does not see how a state updater ends",
    "updater.failed": "the recorder does not see why a state updater gives up a task",
    "updater.metrics": "nobody reads the metrics",
    "updater.turned": "the recorder does not see what a state updater is busy with",
}
"""The kinds that are never recorded, each with the reason."""

_LAST_OFFSETS = "before 4.3, Kafka reports closed tasks by their last offsets, not by the next ones"

BEFORE_OFFSETS: Mapping[str, str] = {
    "ASSIGN-007": _LAST_OFFSETS,
    "ASSIGN-012": _LAST_OFFSETS,
    "ASSIGN-014": _LAST_OFFSETS,
}
"""The requirements that do not bind releases whose stores keep no offsets, with the reasons.

Source: Kafka 3.9, TaskManager#taskOffsetSums, which adds up what the checkpoint file has.
"""

OF_SIMULATED_PROCESSORS: Mapping[str, str] = {
    "ALOS-004": "the processors of the simulator tell the output, and a recorded application has "
    "its own"
}
"""The requirements that no recording is judged by, with the reasons."""
