"""Defects: named mistakes that the simulated runtime can be told to make.

Each is a bug that Kafka Streams once had, or a rule that it needs, taken away. All are off unless a
run switches them on. They show that the invariants can fail, and what a failure looks like.

Where the runtime asks ``world.defect(name)``, the mistake is made if the answer is yes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streamproof.stores.errors import UsageError

__all__ = ["DEFECTS", "Defect", "require_defects"]


class Defect(NamedTuple):
    """A mistake.

    Attributes:
        what: what goes wrong, in one sentence.
        requirement: the promise that is broken by it, of the invariant that must catch it.
        source: the ticket or the proposal.
        guarantees: under which it matters: ``EOS``, ``ALOS``, or both.
        transactional: whether it matters only to stores that stage their writes (True), only to
            those that do not (False), or to both (None).
    """

    what: str
    requirement: str
    source: str
    guarantees: tuple[str, ...] = ("EOS", "ALOS")
    transactional: bool | None = None


EOS = ("EOS",)
ALOS = ("ALOS",)

DEFECTS: dict[str, Defect] = {
    "keeps-unclean-store": Defect(
        "A store that was not closed is used under exactly-once, with writes that were aborted.",
        "TASK-003",
        "KAFKA-7192, KAFKA-9891",
        EOS,
        transactional=False,
    ),
    "restores-to-stable-end": Defect(
        "A restoration ends at the last stable offset, before a transaction that is decided later.",
        "TASK-001",
        "KAFKA-10167",
        EOS,
    ),
    "restores-aborted-records": Defect(
        "A restoration applies records of transactions that were aborted.",
        "TASK-001",
        "KAFKA-6782",
        EOS,
    ),
    "commits-store-first": Defect(
        "Stores commit before the transaction does, and vouch for what may still be aborted.",
        "TASK-003",
        "KIP-892",
        EOS,
        transactional=True,
    ),
    "ignores-generation": Defect(
        "The group takes offsets from members of an earlier generation.",
        "EOS-001",
        "KIP-447",
        EOS,
    ),
    "does-not-fence-producer": Defect(
        "A new producer joins the open transaction of the one before, which died.",
        "EOS-001",
        "KIP-98",
        EOS,
    ),
    "goes-on-after-commit-timeout": Defect(
        "After a commit without a reply the tasks go on as if it had been refused.",
        "EOS-001",
        "KAFKA-9274",
        EOS,
    ),
    "keeps-transaction-open": Defect(
        "A commit without offsets leaves the transaction open, until it takes too long.",
        "EOS-002",
        "KAFKA-14294",
        EOS,
    ),
    "drops-task-on-timeout": Defect(
        "A task whose committed offsets could not be fetched is forgotten.",
        "TASK-008",
        "KAFKA-17098",
    ),
    "drops-task-whose-lock-is-taken": Defect(
        "A task whose directory another thread still holds is forgotten.",
        "TASK-008",
        "KAFKA-8187",
    ),
    "dies-of-a-second-fault": Defect(
        "A time-out while another fault is handled ends the thread.",
        "TASK-008",
        "KAFKA-12523",
    ),
    "keeps-tasks-after-loss": Defect(
        "A member that the group has left out keeps its tasks, and what they have not committed.",
        "TASK-006",
        "KAFKA-9994",
    ),
    "closes-lost-tasks-cleanly": Defect(
        "Tasks that somebody else has by now are closed as if all of it were committed.",
        "TASK-002",
        "KAFKA-10198",
        EOS,
    ),
    "commits-fetched-offsets": Defect(
        "The committed offset is that of the next record to fetch, not to process.",
        "TASK-005",
        "KIP-447",
    ),
    "commits-last-record": Defect(
        "The committed offset stops behind the last record, before the marker that follows it.",
        "TASK-005",
        "KAFKA-6607",
    ),
    "fetches-unstable-offsets": Defect(
        "A task begins with the committed offset of before a transaction that is decided already.",
        "EOS-001",
        "KAFKA-17507, KIP-447",
        EOS,
    ),
    "does-not-wait-for-owner": Defect(
        "A task is given to its new owner before the old one has given it up.",
        "REBAL-002",
        "KIP-429",
    ),
    "keeps-stale-offset": Defect(
        "A store is closed cleanly with an offset from before its last writes.",
        "TASK-002",
        "KAFKA-13249",
        EOS,
    ),
    "commits-before-records-arrive": Defect(
        "Offsets are committed before the records that were written are confirmed.",
        "ALOS-001",
        "KIP-447",
        ALOS,
    ),
    "stages-without-bound": Defect(
        "Nobody looks at how much the stores have staged.",
        "TASK-010",
        "KIP-892",
        transactional=True,
    ),
}
"""All that there are, by name."""


def require_defects(names: Iterable[str]) -> frozenset[str]:
    """The defects of these names.

    Raises:
        UsageError: there is none of that name.
    """
    found = frozenset(names)
    for name in sorted(found - DEFECTS.keys()):
        raise UsageError(f"There is no defect {name!r}. There are: {', '.join(sorted(DEFECTS))}.")
    return found
