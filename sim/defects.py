"""Defects: named mistakes that a run can switch on in the simulated runtime.

Each defect is a bug that Kafka Streams once had, or removes a rule that Kafka Streams needs. All
defects are off by default. They show that the invariants can fail, and how a failure looks.

The runtime asks ``world.defect(name)`` at the place of each mistake, and makes the mistake if the
answer is yes.
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
        what: the mistake, in one sentence.
        requirement: the requirement that the defect breaks and whose invariant must catch it.
        source: the ticket or the proposal.
        guarantees: the processing guarantees under which the defect does harm.
        transactional: whether the defect harms only stores that stage their writes (True), only
            stores that do not (False), or both (None).
        upgrade: the upgrade in which the defect does harm, one of ``UPGRADES``; empty for any run.
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
        "A task uses a store that was not closed and holds aborted writes.",
        "TASK-003",
        "KAFKA-7192, KAFKA-9891",
        EOS,
        transactional=False,
    ),
    "restores-to-stable-end": Defect(
        "A restoration stops at the last stable offset, before a transaction that commits later.",
        "TASK-001",
        "KAFKA-10167",
        EOS,
    ),
    "restores-aborted-records": Defect(
        "A restoration applies records of aborted transactions.",
        "TASK-001",
        "KAFKA-6782",
        EOS,
    ),
    "commits-store-first": Defect(
        "Stores commit before the transaction, so their offsets cover writes that may still abort.",
        "TASK-003",
        "KIP-892",
        EOS,
        transactional=True,
    ),
    "ignores-generation": Defect(
        "The group accepts offsets from members of an earlier generation.",
        "EOS-001",
        "KIP-447",
        EOS,
    ),
    "does-not-fence-producer": Defect(
        "A new producer joins the open transaction of its dead predecessor.",
        "EOS-003",
        "KIP-98",
        EOS,
    ),
    "goes-on-after-commit-timeout": Defect(
        "After a commit without a reply, the tasks go on as if the broker had refused the commit.",
        "EOS-001",
        "KAFKA-9274",
        EOS,
    ),
    "keeps-transaction-open": Defect(
        "A commit without new offsets leaves the transaction open until it times out.",
        "EOS-002",
        "KAFKA-14294",
        EOS,
    ),
    "drops-task-on-timeout": Defect(
        "A thread forgets a task if it could not fetch the committed offsets of the task.",
        "TASK-008",
        "KAFKA-17098",
    ),
    "drops-task-whose-lock-is-taken": Defect(
        "A thread forgets a task if another thread still holds the task directory.",
        "TASK-008",
        "KAFKA-8187",
    ),
    "dies-of-a-second-fault": Defect(
        "A time-out during the handling of another fault ends the thread.",
        "TASK-008",
        "KAFKA-12523",
    ),
    "keeps-tasks-after-loss": Defect(
        "A member that the group has removed keeps its tasks and their uncommitted results.",
        "EOS-001",
        "KAFKA-9994",
        EOS,
    ),
    "closes-lost-tasks-cleanly": Defect(
        "A thread closes lost tasks as clean, as if all their writes were committed.",
        "TASK-002",
        "KAFKA-10198",
        EOS,
    ),
    "commits-fetched-offsets": Defect(
        "A commit takes the offset of the next record to fetch, not of the next record to process.",
        "TASK-005",
        "KIP-447",
    ),
    "commits-last-record": Defect(
        "The committed offset stops after the last record, before the marker that follows.",
        "TASK-005",
        "KAFKA-6607",
    ),
    "fetches-unstable-offsets": Defect(
        "A task starts with a committed offset from before a transaction that is already decided.",
        "EOS-001",
        "KAFKA-17507, KIP-447",
        EOS,
    ),
    "does-not-wait-for-owner": Defect(
        "A new owner gets a task before the old owner has given it up.",
        "REBAL-002",
        "KIP-429",
    ),
    "keeps-stale-offset": Defect(
        "A clean close stores an offset from before the last writes of the store.",
        "TASK-002",
        "KAFKA-13249",
        EOS,
    ),
    "purges-consumed-offsets": Defect(
        "The runtime deletes records of a repartition topic that are read but not committed.",
        "TASK-012",
        "KAFKA-17635",
    ),
    "standby-passes-committed-offset": Defect(
        "A standby of an input topic applies records that its active task did not commit.",
        "STANDBY-001",
        "KAFKA-8755",
    ),
    "suspends-without-a-word": Defect(
        "The listener does not hear of the suspension of an interrupted restoration.",
        "LISTEN-101",
        "KAFKA-15571",
    ),
    "counts-records-as-offsets": Defect(
        "The metric of the remaining restoration counts records, so it never reaches 0.",
        "METRIC-101",
        "KAFKA-20711",
        EOS,
    ),
    "commits-before-records-arrive": Defect(
        "A task commits offsets before the brokers confirm its written records.",
        "ALOS-001",
        "KIP-447",
        ALOS,
    ),
    "keeps-lock-after-cleaning": Defect(
        "The cleaner deletes the directory of a task but keeps its lock.",
        "TASK-008",
        "KAFKA-16025",
    ),
    "forgets-last-use": Defect(
        "The cleaner treats a directory as old that was in use a moment ago.",
        "TASK-011",
        "KAFKA-20805",
    ),
    "leaves-startup-stores-open": Defect(
        "No thread closes a store that the process opened at its start.",
        "TASK-007",
        "KAFKA-18498, KAFKA-20663",
    ),
    "forgets-partition-times": Defect(
        "Stream time restarts with each owner of a task, so the task accepts late records again.",
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
        "The next record comes from the input whose largest timestamp so far is the smallest.",
        "IDLE-001",
        "KAFKA-3514, KAFKA-8347",
    ),
    "ignores-lag": Defect(
        "A task does not wait for records of an empty input although the brokers have some.",
        "IDLE-002",
        "KIP-695, KAFKA-12268",
    ),
    "leaves-input-paused": Defect(
        "A task never resumes an input that it paused because of a full buffer.",
        "TASK-005",
        "Kafka, StreamTask#resumePollingForPartitionsWithAvailableSpace",
    ),
    "global-table-reads-aborted": Defect(
        "A global store applies records of aborted transactions.",
        "EOS-003",
        "KAFKA-6782",
        EOS,
    ),
    "stages-without-bound": Defect(
        "The thread ignores how many bytes its stores have staged.",
        "TASK-010",
        "KIP-892",
        transactional=True,
    ),
    "takes-unknown-for-latest": Defect(
        "A member reports a copy with unknown offsets as a running active task.",
        "ASSIGN-007",
        "KAFKA-10319",
    ),
    "reports-what-was-in-memory": Defect(
        "A member still reports the content of an in-memory store after its task was closed.",
        "ASSIGN-007",
        "KAFKA-20893",
    ),
    "begins-anew-without-need": Defect(
        "If no client is caught up, the leader gives a task to a client without any state.",
        "ASSIGN-004",
        "KAFKA-13600",
    ),
    "keeps-its-version": Defect(
        "A member that gets an answer in an older metadata version keeps using its own version.",
        "ASSIGN-011",
        "KIP-268",
        transactional=False,
        upgrade="sums-up",
    ),
    "keeps-checkpoint-while-running": Defect(
        "The checkpoint file from the end of a restoration stays on disk while the task runs.",
        "TASK-003",
        "KAFKA-20685, KAFKA-10362",
        EOS,
        transactional=False,
        upgrade="none-before-offsets",
    ),
    "position-of-staged-writes": Defect(
        "The position on the disk covers staged writes that a crash discards.",
        "POS-101",
        "KAFKA-20760, KAFKA-20490",
        EOS,
        transactional=True,
    ),
    "takes-offsets-of-older-format": Defect(
        "The newer format of a store starts at the end of the older one and lacks its content.",
        "TASK-003",
        "KIP-258",
        transactional=False,
        upgrade="format-offline",
    ),
    "lets-mirrors-work": Defect(
        "Instances with the newer format get active tasks while older instances remain.",
        "UPGRADE-105",
        "KIP-258",
        upgrade="format-roll-over",
        transactional=False,
    ),
    "forgets-to-look-again": Defect(
        "The rebalance that is due after copies have warmed up never happens.",
        "ASSIGN-008",
        "KAFKA-10455",
    ),
}
"""All defects, by name."""


def require_defects(names: Iterable[str]) -> frozenset[str]:
    """The defects of these names.

    Raises:
        UsageError: no defect has one of the names.
    """
    found = frozenset(names)
    for name in sorted(found - DEFECTS.keys()):
        raise UsageError(
            f"There is no defect {name!r}. Choose one of: {', '.join(sorted(DEFECTS))}."
        )
    return found
