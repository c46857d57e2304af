"""Transactions and their records: each write is in one, none hangs, and each has its own epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.trace import Event

__all__ = ["EachTransactionHasItsEpoch", "EveryWriteIsInATransaction", "NoRecordHangs"]


class EveryWriteIsInATransaction(Invariant):
    """Under exactly-once, an application writes nothing that readers see before it commits.

    The logs of a run in which everything commits end as they should either way. So no comparison
    with a run without faults shows a write outside of the transaction.
    """

    name = "what an exactly-once application writes is in a transaction"
    requirement = "EOS-010"
    situation = "an application under exactly-once wrote a record"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # What only the application writes, of what has no name of Kafka's for a repartition topic.
        self._topics: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {"application.started": self._start, "log.appended": self._appended}

    def _start(self, event: Event) -> Iterable[str]:
        family = TOPOLOGIES.get(event.actor)
        self._topics = set(family.topology(1).outputs) if family else set()
        for changelogs in event.attributes["changelogs"].values():
            self._topics.update(map(_topic, changelogs))
        self._topics.difference_update(map(_topic, event.attributes["sources"]))
        return ()

    def _appended(self, event: Event) -> Iterable[str]:
        is_inside = event.attributes["transactional"]
        if is_inside and self.tried:
            return ()
        topic = _topic(event.partition)
        if topic not in self._topics and not topic.endswith("-repartition"):
            return ()
        self.tried = True
        record = f"the record at {event.offset} of {event.partition}"
        return [] if is_inside else [f"{record} is in no transaction"]


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


class NoRecordHangs(Invariant):
    """A transactional record is part of a transaction that the coordinator knows, and will end.

    Without that, nobody ever writes a marker for it, and readers of committed records stay before
    it for ever.
    """

    name = "a record is taken only into a transaction that is open"
    requirement = "EOS-008"
    situation = "a request arrived after its sender had given it up"
    drawn_from: ClassVar = {
        "guarantees": ["exactly-once"],
        "plan": {"activation": [0.5]},
        "settings": {"request_timeout_ms": [1_000], "max_block_ms": [2_000]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # The producers with an open transaction, and by id the last producer.
        self._open: set[int] = set()
        self._producers: dict[str, int] = {}
        # The producer and partition of records whose marker is not written yet: until then, the
        # partition takes more, and the marker covers them.
        self._unmarked: set[tuple[int, str]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {
            "transaction.begun": self._begun,
            "transaction.decided": self._decided,
            "transaction.timed_out": self._timed_out,
            "transaction.marker": self._marked,
            "log.appended": self._appended,
            "network.request_late": self._late,
        }

    def _begun(self, event: Event) -> Iterable[str]:
        producer = event.attributes["producer"]
        self._open.add(producer)
        self._producers[event.attributes["transactional_id"]] = producer
        return ()

    def _decided(self, event: Event) -> Iterable[str]:
        self._open.discard(event.attributes["producer"])
        return ()

    def _timed_out(self, event: Event) -> Iterable[str]:
        self._open.discard(self._producers.get(event.attributes["transactional_id"], -1))
        return ()

    def _marked(self, event: Event) -> Iterable[str]:
        # A new producer that aborts the transaction of its predecessor shows in the markers alone.
        producer = event.attributes["producer"]
        self._open.discard(producer)
        self._unmarked.discard((producer, event.partition))
        return ()

    def _late(self, event: Event) -> Iterable[str]:
        self.tried |= event.attributes["what"] == "produce"
        return ()

    def _appended(self, event: Event) -> Iterable[str]:
        more = event.attributes
        if not more["transactional"]:
            return ()
        where = more["producer"], event.partition
        if more["producer"] in self._open or where in self._unmarked:
            self._unmarked.add(where)
            return ()
        record = f"its record at {event.offset} of {event.partition}"
        return [f"producer {more['producer']} has no open transaction, but {record} was taken"]


class EachTransactionHasItsEpoch(Invariant):
    """In version 2, no two transactions of a producer have the same epoch."""

    name = "each transaction has an epoch of its own"
    requirement = "EOS-009"
    situation = "a producer began a second transaction in version 2 of the protocol"
    drawn_from: ClassVar = {
        "guarantees": ["exactly-once"],
        "settings": {"transaction_version": [2]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._epochs: dict[int, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"transaction.begun": self._begun} if self.history.exactly_once else {}

    def _begun(self, event: Event) -> Iterable[str]:
        more = event.attributes
        producer, epoch = more["producer"], more["epoch"]
        before = self._epochs.get(producer)
        self._epochs[producer] = epoch
        if before is None or more["version"] < 2:
            return ()
        self.tried = True
        if epoch > before:
            return ()
        where = f"in epoch {epoch}, after one in epoch {before}"
        return [f"producer {producer} begins a transaction {where}"]
