"""Defects: named mistakes that the simulated runtime can be told to make.

Each is a bug that Kafka Streams once had, or a rule that it needs, taken away. All are off unless a
run switches them on. They show that the invariants can fail, and what a failure looks like.

Where the runtime asks ``world.defect(name)``, the mistake is made if the answer is yes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from streamproof.errors import UsageError

__all__ = ["DEFECTS", "Defect", "Guarantee", "require_defects"]

Guarantee = Literal["exactly-once", "at-least-once"]


class Defect(NamedTuple):
    """A mistake.

    Attributes:
        what: what goes wrong, in one sentence.
        requirement: the promise that is broken by it, of the invariant that must catch it.
        source: the ticket or the proposal.
        guarantees: the processing guarantees under which it does harm.
        transactional: whether it matters only to stores that stage their writes (True), only to
            those that do not (False), or to both (None).
        upgrade: the upgrade in which it matters, of ``UPGRADES``; empty if it is in any run.
    """

    what: str
    requirement: str
    source: str
    guarantees: tuple[Guarantee, ...] = ("exactly-once", "at-least-once")
    transactional: bool | None = None
    upgrade: str = ""


EOS: tuple[Guarantee] = ("exactly-once",)
ALOS: tuple[Guarantee] = ("at-least-once",)

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
        "EOS-003",
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
        "A commit without new offsets leaves the transaction open, until it takes too long.",
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
        "EOS-001",
        "KAFKA-9994",
        EOS,
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
    "purges-consumed-offsets": Defect(
        "Records of a repartition topic are deleted that were read, and not committed.",
        "TASK-012",
        "KAFKA-17635",
    ),
    "standby-passes-committed-offset": Defect(
        "A standby whose changelog is an input applies what its active task did not commit.",
        "STANDBY-001",
        "KAFKA-8755",
    ),
    "suspends-without-a-word": Defect(
        "A restoration that is interrupted is not told to be suspended.",
        "LISTEN-101",
        "KAFKA-15571",
    ),
    "counts-records-as-offsets": Defect(
        "What remains to be restored counts records, and so never comes to 0.",
        "METRIC-101",
        "KAFKA-20711",
        EOS,
    ),
    "commits-before-records-arrive": Defect(
        "Offsets are committed before the records that were written are confirmed.",
        "ALOS-001",
        "KIP-447",
        ALOS,
    ),
    "keeps-lock-after-cleaning": Defect(
        "The cleaner deletes the directory of a task, and keeps its lock.",
        "TASK-008",
        "KAFKA-16025",
    ),
    "forgets-last-use": Defect(
        "The cleaner takes a directory for old that was in use a moment ago.",
        "TASK-011",
        "KAFKA-20805",
    ),
    "leaves-startup-stores-open": Defect(
        "A store that was opened at the start is not closed by who did not open it.",
        "TASK-007",
        "KAFKA-18498, KAFKA-20663",
    ),
    "forgets-partition-times": Defect(
        "Stream time begins anew with each owner of a task, and takes what was too late before.",
        "EOS-003",
        "KAFKA-7994",
        EOS,
    ),
    "leaves-caches-unflushed": Defect(
        "A commit covers input whose updates are still in a record cache.",
        "EOS-003",
        "Kafka, ProcessorStateManager#flushCache",
        EOS,
        transactional=False,
    ),
    "chooses-by-largest-time": Defect(
        "The next record is of the input whose largest timestamp so far is the least.",
        "IDLE-001",
        "KAFKA-3514, KAFKA-8347",
    ),
    "ignores-lag": Defect(
        "A task does not wait for records of an empty input that the brokers are known to have.",
        "IDLE-002",
        "KIP-695, KAFKA-12268",
    ),
    "leaves-input-paused": Defect(
        "An input that was paused because its buffer was full is never resumed.",
        "TASK-005",
        "Kafka, StreamTask#resumePollingForPartitionsWithAvailableSpace",
    ),
    "global-table-reads-aborted": Defect(
        "A global store takes records of transactions that were aborted.",
        "EOS-003",
        "KAFKA-6782",
        EOS,
    ),
    "stages-without-bound": Defect(
        "Nobody looks at how much the stores have staged.",
        "TASK-010",
        "KIP-892",
        transactional=True,
    ),
    "takes-unknown-for-latest": Defect(
        "A copy whose offsets are not known is reported as a running active task is.",
        "ASSIGN-007",
        "KAFKA-10319",
    ),
    "reports-what-was-in-memory": Defect(
        "What a store in memory had counts as there still, after its task was closed.",
        "ASSIGN-007",
        "KAFKA-20893",
    ),
    "begins-anew-without-need": Defect(
        "If nobody is caught up with a task, it is given to who has nothing of it.",
        "ASSIGN-004",
        "KAFKA-13600",
    ),
    "keeps-its-version": Defect(
        "A member that is answered in an older metadata version goes on in its own.",
        "ASSIGN-011",
        "KIP-268",
        transactional=False,
        upgrade="sums-up",
    ),
    "keeps-checkpoint-while-running": Defect(
        "The checkpoint file of the end of a restoration stays there while the task runs.",
        "TASK-003",
        "KAFKA-20685, KAFKA-10362",
        EOS,
        transactional=False,
        upgrade="none-before-offsets",
    ),
    "position-of-staged-writes": Defect(
        "The position on the disk is that of staged writes, which a crash takes away.",
        "POS-101",
        "KAFKA-20760, KAFKA-20490",
        EOS,
        transactional=True,
    ),
    "takes-offsets-of-older-format": Defect(
        "The newer format of a store begins where the older one ends, and lacks all before that.",
        "TASK-003",
        "KIP-258",
        transactional=False,
        upgrade="format-offline",
    ),
    "lets-mirrors-work": Defect(
        "Instances of the newer format get active tasks while those of the older one are there.",
        "UPGRADE-105",
        "KIP-258",
        upgrade="format-roll-over",
        transactional=False,
    ),
    "forgets-to-look-again": Defect(
        "The rebalance that is due once copies have warmed up does not come about.",
        "ASSIGN-008",
        "KAFKA-10455",
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
