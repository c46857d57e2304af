"""Kinds of events of transactions."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import APPENDED, ID, PRODUCER, RECORD
from streamproof.sim.invariants.log_history import GROUP_TARGET
from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event

__all__ = ["TRANSACTION_KINDS"]

_LOSS = ("thread {loser}", "process {loser_process}")
_COMMIT = Attribute(
    bool, "whether it was committed", lambda commit: "commits" if commit else "aborts"
)


def _crossed_if_aborted(event: Event, look: Look) -> Look:
    return look._replace(glyph="x") if event.attributes.get("commit") is False else look


def _marker_in_its_lane(event: Event, look: Look) -> Look:
    # A marker in the offsets of a group has no offset in a log.
    look = look._replace(lane="groups") if event.offset < 0 else look
    return _crossed_if_aborted(event, look)


def _transaction_decided(moment: Moment, event: Event) -> None:
    more = event.attributes
    transaction = moment.transaction(more["producer"])
    transaction.name = more["transactional_id"]
    transaction.state = "committing" if more["commit"] else "aborting"
    for log in moment.logs.values():
        log.decide(more["producer"], commit=more["commit"])


def _transaction_timed_out(moment: Moment, event: Event) -> None:
    for transaction in moment.transactions.values():
        if transaction.name == event.attributes["transactional_id"] and not transaction.is_over:
            transaction.state = "aborting"


def _transaction_marker(moment: Moment, event: Event) -> None:
    more = event.attributes
    producer, commit = more["producer"], more["commit"]
    if not event.partition.startswith(GROUP_TARGET):
        moment.log(event.partition).mark(producer, event.offset, commit=commit)
    transaction = moment.transaction(producer)
    transaction.name = more["transactional_id"]
    transaction.marked.append(event.partition)
    state = ("committed", "committing") if commit else ("aborted", "aborting")
    transaction.state = state[0] if more["complete"] else state[1]


TRANSACTION_KINDS = (
    EventKind(
        name="transaction.begun",
        meaning="The coordinator takes the first partition, or group, into a transaction.",
        actor="brokers",
        attributes={
            "transactional_id": ID,
            "producer": PRODUCER,
            "epoch": Attribute(int, "the epoch of the producer"),
            "version": Attribute(
                int, "the version of the protocol: in 2, each transaction has its own epoch"
            ),
        },
        look=Look(
            "transactions", "sender", "+", "transactions", 1, "{transactional_id} begins one"
        ),
        footprint=Footprint(writes=("begun {producer}",)),
        effect=Absent("the records of the transaction tell of it"),
    ),
    EventKind(
        name="transaction.decided",
        meaning="A transaction was committed or aborted; markers follow.",
        actor="brokers",
        attributes={"transactional_id": ID, "producer": PRODUCER, "commit": _COMMIT},
        look=Look("transactions", "sender", "C", "transactions", 2, "{transactional_id} {commit}"),
        adapted=_crossed_if_aborted,
        footprint=Footprint(
            writes=(
                *RECORD,
                "fate {partition} {offset}",
                "input {input} {offset}",
                "decided {owner}",
            ),
            reads=(
                f"{APPENDED} | appended {{partition}} {{kept}} | processed {{input}} {{offset}}",
                *_LOSS,
            ),
        ),
        effect=_transaction_decided,
    ),
    EventKind(
        name="transaction.id_expired",
        meaning="A transactional id expired, because it was unused for long.",
        actor="brokers",
        attributes={"transactional_id": ID},
        look=Look(
            "transactions",
            "",
            "F",
            "transactions",
            2,
            "{transactional_id} expires: nobody used it",
        ),
        footprint=Footprint(writes=("ended {transactional_id}",)),
        effect=Absent("the last transaction of the producer is kept under its id"),
    ),
    EventKind(
        name="transaction.marker",
        meaning="A marker was appended: it tells a partition, or a group, how a transaction ended.",
        actor="brokers",
        about="partition offset?",
        attributes={
            "producer": PRODUCER,
            "transactional_id": ID,
            "commit": _COMMIT,
            "complete": Attribute(bool, "whether this is the last marker of the transaction"),
        },
        look=Look(
            "log",
            "transactions",
            "C",
            "transactions",
            1,
            "{transactional_id} {commit}, as {partition} shows",
        ),
        adapted=_marker_in_its_lane,
        footprint=Footprint(
            writes=RECORD,
            reads=(
                f"fate {{partition}} {{offset}} | {APPENDED}",
                "ended {transactional_id}",
                *_LOSS,
            ),
        ),
        effect=_transaction_marker,
    ),
    EventKind(
        name="transaction.timed_out",
        meaning="A transaction was aborted because it took too long.",
        actor="brokers",
        attributes={"transactional_id": ID},
        look=Look(
            "transactions",
            "",
            "x",
            "transactions",
            3,
            "{transactional_id} took too long: it is aborted",
        ),
        footprint=Footprint(writes=("ended {transactional_id}",), reads=("members",)),
        effect=_transaction_timed_out,
    ),
)
