"""Kinds of events of the application as a whole, and of instances with their disks and networks."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Absent, Attribute, Effect, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import RECORDS
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.run_state import FoldedProcess, Moment, process_of
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER

__all__ = ["INSTANCE_KINDS"]

STANDS_STILL, IS_CUT_OFF, IS_FULL = "stands still", "is cut off", "has a full disk"


def _minor_at_the_start(event: Event, look: Look) -> Look:
    return look._replace(weight=1) if event.time == 0 else look


def _said_leaks(leaks: object) -> str:
    return f", and still in use is: {plain(leaks)}" if leaks else " cleanly"


def _application_started(moment: Moment, event: Event) -> None:
    moment.settings = event.attributes


def _instance_started(moment: Moment, event: Event) -> None:
    more = event.attributes
    # The machine is the same, and so is its network.
    kept = moment.process(event.actor).troubles - {STANDS_STILL}
    moment.processes[event.actor] = FoldedProcess(
        since=event.time,
        troubles=kept,
        release=more["release"],
        manages_offsets=more["manages_offsets"],
    )


def _instance_paused(moment: Moment, event: Event) -> None:
    moment.process(event.actor).is_paused = event.kind == "instance.paused"


def _instance_ended(moment: Moment, event: Event) -> None:
    process = moment.process(event.actor)
    process.is_up = process.is_paused = False
    process.since, process.threads = event.time, {}
    moment.tasks = {
        key: each for key, each in moment.tasks.items() if process_of(key[0]) != event.actor
    }
    for store in moment.stores_of(event.actor):
        store.lose_memory()
    moment.stores = {
        key: each
        for key, each in moment.stores.items()
        if key[0] != event.actor or each.is_persistent
    }


def _power_lost(moment: Moment, event: Event) -> None:
    for store in moment.stores_of(event.actor):
        if event.attributes["flushes"] and store.flushes:
            store.is_certain = False
        store.flushes.clear()


def _disk_full(moment: Moment, event: Event) -> None:
    """A store that is closing at this moment loses the data in memory."""
    suspended = {
        task
        for (thread, task), each in moment.tasks.items()
        if process_of(thread) == event.actor and each.state == "SUSPENDED"
    }
    name = event.attributes["store"].removesuffix(NEWER)
    for store in moment.stores_of(event.actor):
        if store.task in suspended and store.name == name:
            store.has_failed = True


def _begins(trouble: str) -> Effect:
    """Something goes wrong with an instance from now on."""

    def begin(moment: Moment, event: Event) -> None:
        moment.process(event.actor).troubles |= {trouble}

    return begin


def _ends(trouble: str) -> Effect:
    """Something does not go wrong with an instance any more."""

    def end(moment: Moment, event: Event) -> None:
        moment.process(event.actor).troubles -= {trouble}

    return end


INSTANCE_KINDS = (
    EventKind(
        name="application.started",
        meaning="The configuration of the run, and its tasks.",
        actor="application",
        attributes={
            "tasks": Attribute(list[str], "the ids of all tasks"),
            "exactly_once": Attribute(bool, "the guarantee"),
            "transactional": Attribute(bool, "whether stores stage their writes (KIP-892)"),
            "max_task_idle_ms": Attribute(int, "`max.task.idle.ms`"),
            "max_uncommitted_bytes": Attribute(int, "`statestore.uncommitted.max.bytes`"),
            "max_uncommitted_records": Attribute(int, "`statestore.uncommitted.max.records`"),
            "store_rules": Attribute(str, "the rules for stores that stage: proposal or kafka"),
            "statestore_cache_max_bytes": Attribute(int, "`statestore.cache.max.bytes`"),
            "partitions": Attribute(dict[str, int], "how many partitions each topic has"),
            "changelogs": Attribute(
                dict[str, list[str]], "by stateful task, its changelog partitions"
            ),
            "sources": Attribute(list[str], "the changelog partitions that are inputs"),
            "num_standby_replicas": Attribute(int, "`num.standby.replicas`"),
            "max_warmup_replicas": Attribute(int, "`max.warmup.replicas`"),
            "acceptable_recovery_lag": Attribute(int, "`acceptable.recovery.lag`"),
            "probing_rebalance_interval_ms": Attribute(int, "`probing.rebalance.interval.ms`"),
            "commit_interval_ms": Attribute(int, "`commit.interval.ms`"),
            "default_query_isolation": Attribute(
                str,
                "`default.interactive.query.isolation.level`; empty for the default: the level of "
                "the context (KIP-892), or READ_UNCOMMITTED by the rules of Kafka",
            ),
            "metrics_recording_level": Attribute(str, "`metrics.recording.level`"),
            "live_format": Attribute(
                str,
                "what decides which format of a store is live: `assignment` or `configuration`",
            ),
            "task_timeout_ms": Attribute(int, "`task.timeout.ms`"),
            "topic_delete_retention_ms": Attribute(int, "`delete.retention.ms` of the changelogs"),
            "auto_offset_reset": Attribute(str, "`auto.offset.reset`: earliest or latest"),
            "handlers": Attribute(
                dict[str, str],
                "what becomes of records with a bad `timestamp`, at their `deserialization` or "
                "`processing`: `fail` or `continue`; of outputs at their `production`, or `retry`; "
                "and the topic of `dead_letters`",
            ),
            "output_max_message_bytes": Attribute(
                int, "`max.message.bytes` of the output topics, in bytes"
            ),
            "state_cleanup_delay_ms": Attribute(int, "`state.cleanup.delay.ms`"),
            "state_cleanup_dir_max_age_ms": Attribute(
                int, "`state.cleanup.dir.max.age.ms` (KIP-1259); -1 for none"
            ),
        },
        look=Look("world", "", "^", "other", 1, "the application has tasks {tasks}"),
        footprint=Absent("the settings are the same for every event after them"),
        effect=_application_started,
    ),
    EventKind(
        name="disk.emptied",
        meaning="A disk has space again.",
        actor="process",
        look=Look("disk", "", "^", "starts", 2, "the disk has space again"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=_ends(IS_FULL),
    ),
    EventKind(
        name="disk.filled",
        meaning="A disk is full from now on.",
        actor="process",
        look=Look("disk", "", "!", "faults", 3, "the disk is full from now on"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=_begins(IS_FULL),
    ),
    EventKind(
        name="disk.full",
        meaning="A write was refused, because the disk is full.",
        actor="process",
        attributes={"store": Attribute(str, "the store that was written")},
        look=Look("disk", "", "!", "faults", 3, "the disk is full: {store} cannot be written"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=_disk_full,
    ),
    EventKind(
        name="disk.listed",
        meaning="The directories of stores on a disk, when a thread reports them or has tasks.",
        actor="thread",
        attributes={
            "places": Attribute(
                dict[str, list[str]], "by task, `<store>`, and `<store>-v2` for the newer format"
            )
        },
        look=Look("disk", "", ".", "other", 0, "the disk has {places}"),
        footprint=Absent("the events of stores tell how the directories came about"),
        effect=Absent("only the store that is served is kept"),
    ),
    EventKind(
        name="disk.power_lost",
        meaning="The power failed: data that was flushed but not synced may be lost.",
        actor="process",
        attributes={"flushes": Attribute(int, "how many flushes were lost")},
        look=Look(
            "disk", "", "!", "faults", 3, "the power fails: {flushes} unsynced flushes are lost"
        ),
        footprint=Footprint(
            writes=("process {process}", "files {process}"), reads=("process {process}",)
        ),
        effect=_power_lost,
    ),
    EventKind(
        name="instance.crashed",
        meaning="A process was killed: its memory is gone.",
        actor="process",
        look=Look(
            "instance", "", "!", "faults", 3, "{actor} is killed: what was in memory only is gone"
        ),
        footprint=Footprint(writes=("process {process}", "members")),
        effect=_instance_ended,
    ),
    EventKind(
        name="instance.paused",
        meaning="The tasks of a process are paused; it stays in the group.",
        actor="process",
        look=Look("instance", "", "z", "starts", 2, "{actor} is asked to pause its tasks"),
        footprint=Footprint(writes=("held {process}",)),
        effect=_instance_paused,
    ),
    EventKind(
        name="instance.prepared",
        meaning="A process logs at INFO that all its stores have the newer format beside the live "
        "one.",
        actor="process",
        attributes={
            "stores": Attribute(
                dict[str, int], "by changelog, the last offset that the newer format has"
            )
        },
        look=Look("instance", "", "^", "starts", 3, "{actor} logs that its stores are prepared"),
        footprint=Absent("`store.rebuilt` tells what was built"),
        effect=Absent("only the store that is served is kept"),
    ),
    EventKind(
        name="instance.ready",
        meaning="A process logs at INFO that its copies are ready to take over.",
        actor="process",
        attributes={
            "copies": Attribute(dict[str, int], "by changelog, the last offset that the copy has")
        },
        look=Look("instance", "", "^", "starts", 3, "{actor} logs that it is ready to take over"),
        footprint=Absent("`store.restored` tells what was copied"),
        effect=Absent("`store.restored` tells what the stores hold"),
    ),
    EventKind(
        name="instance.retired",
        meaning="An operator stops an old instance for good, in a roll-over.",
        actor="process",
        look=Look("instance", "", "v", "starts", 3, "{actor} is about to be stopped for good"),
        footprint=Footprint(reads=("process {process}",)),
        effect=Absent("`instance.stopped` tells that the process has ended"),
    ),
    EventKind(
        name="instance.resumed",
        meaning="The tasks of a process resume.",
        actor="process",
        look=Look("instance", "", "^", "starts", 2, "{actor} is asked to resume its tasks"),
        footprint=Footprint(writes=("held {process}",)),
        effect=_instance_paused,
    ),
    EventKind(
        name="instance.started",
        meaning="A process starts on the disk of an instance.",
        actor="process",
        attributes={
            "drift_ppm": Attribute(int, "how fast its clock is, in millionths"),
            "release": Attribute(str, "the version of Kafka Streams"),
            "manages_offsets": Attribute(bool, "whether stores keep their own offsets (KIP-1035)"),
            "upgrade_from": Attribute(str, "`upgrade.from`; empty if it is not set"),
            "formats": Attribute(
                list[int], "the store formats that it supports: 1, and 2 with timestamps"
            ),
            "upgrade_mode": Attribute(str, "`upgrade.mode` (KIP-258); empty if it is not set"),
            "leaves_group": Attribute(
                bool, "whether its threads leave the group when it stops (KIP-1153)"
            ),
        },
        look=Look("instance", "", "^", "starts", 3, "{actor} starts, with release {release}"),
        adapted=_minor_at_the_start,
        footprint=Footprint(
            writes=("process {process}", "begun {process}", "members"), reads=("process {process}",)
        ),
        effect=_instance_started,
    ),
    EventKind(
        name="instance.stood_still",
        meaning="A process stands still, as in a long garbage collection.",
        actor="process",
        look=Look("instance", "", "z", "faults", 3, "{actor} stands still without noticing"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=_begins(STANDS_STILL),
    ),
    EventKind(
        name="instance.stopped",
        meaning="A process has committed, closed everything, and ended.",
        actor="process",
        attributes={"leaks": Attribute(list[str], "what is still locked or open", _said_leaks)},
        look=Look("instance", "", "v", "starts", 3, "{actor} is stopped{leaks}"),
        footprint=Footprint(writes=("process {process}", "members")),
        effect=_instance_ended,
    ),
    EventKind(
        name="instance.went_on",
        meaning="A process that stood still goes on without having noticed.",
        actor="process",
        look=Look("instance", "", "^", "faults", 3, "{actor} goes on as if no time had passed"),
        footprint=Footprint(writes=("trouble {process}",), reads=("trouble {process}",)),
        effect=_ends(STANDS_STILL),
    ),
    EventKind(
        name="upgrade.awaited",
        meaning="An operator has waited for a message in the logs of all these instances.",
        actor="nemesis",
        attributes={
            "message": Attribute(str, "`instance.prepared` or `instance.ready`"),
            "instances": Attribute(list[str], "the instances"),
        },
        look=Look("world", "", "^", "starts", 2, "an operator has waited for {instances}"),
        footprint=Absent("the messages themselves are events"),
        effect=Absent("the messages themselves are events"),
    ),
    EventKind(
        name="network.connected",
        meaning="An instance is connected to the brokers again.",
        actor="process",
        look=Look("instance", "", "^", "starts", 3, "{actor} can reach the brokers again"),
        footprint=Footprint(writes=("trouble {process}",), reads=("trouble {process}",)),
        effect=_ends(IS_CUT_OFF),
    ),
    EventKind(
        name="network.cut",
        meaning="An instance is separated from the brokers.",
        actor="process",
        look=Look("instance", "", "!", "faults", 3, "{actor} cannot reach the brokers"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=_begins(IS_CUT_OFF),
    ),
    EventKind(
        name="network.reply_lost",
        meaning="A request was carried out, and its reply was lost.",
        actor="process",
        attributes={"what": Attribute(str, "which request")},
        look=Look("instance", "", "?", "faults", 2, "{what} is carried out, but its reply is lost"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=Absent("no requests are kept"),
    ),
    EventKind(
        name="network.request_held",
        meaning="A request is held up, by the network or by the broker that it is for.",
        actor="process",
        attributes={
            "what": Attribute(str, "which request"),
            "held_ms": Attribute(int, "how long it is held up, in milliseconds"),
        },
        look=Look("instance", "", "?", "faults", 2, "{what} is held up for {held_ms} ms"),
        footprint=Footprint(writes=("trouble {process}", "held {process} {what}")),
        effect=Absent("no requests are kept"),
    ),
    EventKind(
        name="network.request_late",
        meaning="A request is carried out that its sender has given up, or has not outlived.",
        actor="brokers",
        attributes={
            "sender": Attribute(str, "the process that has sent it"),
            "what": Attribute(str, "which request"),
            "refusal": Attribute(str, "the error of the brokers; empty if they accept it"),
        },
        look=Look("world", "", "!", "faults", 2, "{what} of {sender} arrives late"),
        footprint=Footprint(reads=("held {sender} {what}",)),
        effect=Absent("no requests are kept"),
    ),
    EventKind(
        name="network.request_lost",
        meaning="A request was lost before it was carried out.",
        actor="process",
        attributes={"what": Attribute(str, "which request")},
        look=Look("instance", "", "?", "faults", 2, "{what} is lost before it is carried out"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=Absent("no requests are kept"),
    ),
    EventKind(
        name="workload.ended",
        meaning="All records of a topic were sent.",
        actor="workload",
        attributes={"topic": Attribute(str, "the topic"), "records": RECORDS},
        look=Look("world", "", "v", "other", 1, "all {records} are sent to {topic}"),
        footprint=Absent("`log.appended` has told each record"),
        effect=Absent("`log.appended` has told each record"),
    ),
    EventKind(
        name="world.healed",
        meaning="All faults end here.",
        actor="nemesis",
        look=Look("world", "", "^", "starts", 2, "all faults end here"),
        footprint=Absent("the end of all faults explains no violation"),
        effect=Absent("each fault ends with an event of its own"),
    ),
)
