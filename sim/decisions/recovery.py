"""What a task does with files that it finds or leaves: use them, restore the rest, or wipe them.

The rules depend on the guarantee, on whether the store stages its writes in transactions (KIP-892),
and on whether the store keeps its offsets itself (KIP-1035) or in a checkpoint file beside it.

Sources: KIP-892 and KIP-1035; Kafka, ProcessorStateManager, TaskManager, RocksDBStore.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.lag import MAX_OFFSET

__all__ = [
    "OFFSET_UNKNOWN",
    "Closing",
    "FoundStore",
    "Recovery",
    "Traits",
    "closing_in_doubt",
    "commits_after",
    "opening",
    "wipes_after",
]

OFFSET_UNKNOWN = -4
"""The offset that is committed for a store without an offset, to say that it is known to have none.

Without any committed offset, a store with data looks like one that has crashed.
"""


class Traits(NamedTuple):
    """The properties of a store and its task that the rules depend on.

    Attributes:
        exactly_once: the guarantee of the task.
        transactional: the store stages its writes until the commit.
        logged: the store has a changelog.
        persistent: the content of the store outlives the process.
        rules: the rules for stores that stage: those of KIP-892, or those of Kafka.
    """

    exactly_once: bool
    transactional: bool
    logged: bool = True
    persistent: bool = True
    rules: Mode = "proposal"


class FoundStore(NamedTuple):
    """The state of a store when it is opened.

    Attributes:
        offset: the committed offset, or ``OFFSET_UNKNOWN``; ``None`` without a committed offset.
        empty: whether the directory of the task was empty.
        unclean: whether the store says that it was not closed.
    """

    offset: int | None
    empty: bool
    unclean: bool = False


class Recovery(NamedTuple):
    """What to do with the store.

    Attributes:
        wipe: the content cannot be trusted: raise TaskCorruptedError, delete, and start over.
        restore_from: the first offset of the changelog to apply; 0 is its start.
    """

    wipe: bool
    restore_from: int = 0


class Closing(Enum):
    """How a task ends."""

    COMMIT = "a periodic commit, and the task goes on"
    RESTORED = "a commit while it restores, or once it has restored"
    CLEAN = "closed, suspended or handed to the other role"
    DIRTY = "closed after an error that is not the store's, or after it was fenced"
    CORRUPTED = "closed because its content cannot be trusted"


def opening(traits: Traits, found: FoundStore) -> Recovery:
    """Decide what to do with a store when it is opened.

    Under exactly-once a store that was not closed cleanly may have writes of an aborted
    transaction, and no replay removes them. A store that stages its writes cannot have any. Under
    at-least-once a replay of the changelog repairs every state.
    """
    if not traits.persistent:
        return Recovery(wipe=False)
    distrusted = traits.exactly_once and not traits.transactional
    if distrusted and found.unclean:
        # A store that says so itself does not know whether it has a changelog.
        return Recovery(wipe=True)
    if not traits.logged:
        return Recovery(wipe=False)
    if found.offset is None:
        return Recovery(wipe=distrusted and not found.empty)
    if found.offset == OFFSET_UNKNOWN:
        return Recovery(wipe=False)
    return Recovery(wipe=False, restore_from=min(found.offset + 1, MAX_OFFSET))


def commits_after(traits: Traits, closing: Closing) -> bool:
    """Whether the offsets are committed to the store.

    Under exactly-once a store that does not stage its writes gets no commit while the task runs: an
    offset would vouch for data of a transaction that may still be aborted.
    """
    if closing is Closing.COMMIT:
        return traits.transactional or not traits.exactly_once
    return closing in (Closing.RESTORED, Closing.CLEAN)


def closing_in_doubt(traits: Traits) -> Closing:
    """How a task ends whose commit got no answer: nobody knows whether it took place.

    A store that stages its writes has none of the commit in doubt, and goes on from its own offset.
    So KIP-892 keeps the store, while Kafka marks it as corrupted like any other.
    """
    kept = traits.exactly_once and traits.transactional and traits.rules == "proposal"
    return Closing.DIRTY if kept else Closing.CORRUPTED


def wipes_after(traits: Traits, closing: Closing) -> bool:
    """Whether the directory of the task is deleted after it was closed."""
    if not traits.exactly_once:
        return False
    if closing is Closing.DIRTY:
        return not traits.transactional
    return closing is Closing.CORRUPTED
