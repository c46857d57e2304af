"""Stores that are neighbours: of one task, or of one name in two tasks. None sees another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, TopicPartition
from streamproof.conformance.trial import Handle, Trial

NAMES = ("a", "a-b", "a.b", "ab", "A")
"""Names of stores that Kafka allows. They are prefixes of each other, and differ in a separator or
in case alone, as names of files and tables must not."""

KEYS = (b"x", b"-bx", b"b-x", b".b-x", b"b", b"bx")
"""Keys that give the same bytes behind different names, with and without a separator."""

NEIGHBOURS = ("0_0", "0_1", "0_11")
"""The ids of tasks."""


@dataclass
class Neighbour:
    """A store beside others: how to open it, its changelog, and what it must have."""

    opens: Callable[[], Handle]
    changelog: TopicPartition
    store: Handle
    content: dict[bytes, bytes] = field(default_factory=dict)
    offset: int | None = None
    is_closed: bool = False

    def put(self, key: bytes, value: bytes) -> None:
        """Put, and note it."""
        self.store.put(key, value)
        self.content[key] = value

    def delete(self, key: bytes) -> None:
        """Delete, and note it."""
        self.store.delete(key)
        del self.content[key]

    def commit(self, offset: int) -> None:
        """Commit an offset of the store's own changelog, and note it."""
        self.store.commit({self.changelog: offset})
        self.offset = offset

    def close(self) -> None:
        """Close the store, and note that the check itself has done so."""
        self.store.close()
        self.is_closed = True

    def reopen(self, *, persistent: bool) -> None:
        """Open a store in the same place."""
        self.store, self.is_closed = self.opens(), False
        if not persistent:
            self.content.clear()


class Street:
    """Stores that are open side by side, each with the same keys and other values."""

    def __init__(
        self, t: Trial, opens: Sequence[Callable[[], Handle]], changelogs: Sequence[TopicPartition]
    ) -> None:
        self.t = t
        self.can = t.lab.subject.capabilities
        self.all = [
            Neighbour(each, changelog, each())
            for each, changelog in zip(opens, changelogs, strict=True)
        ]

    def expect(self) -> None:
        """Demand of each store its own rows and offsets, and none of another."""
        for each in self.all:
            if each.is_closed:
                continue
            for key in KEYS:
                self.t.expect(each.store.get(key), each.content.get(key))
            if self.can.scan and self.can.kind == "key-value":
                found = sorted(each.store.scan("all"))
                self.t.expect(found, sorted(each.content.items()))
            if self.can.manages_offsets:
                for other in self.all:
                    expected = each.offset if other is each else None
                    self.t.expect(each.store.committed_offset(other.changelog), expected)

    def live(self, tried: str) -> None:
        """Write, delete, commit, close and reopen each in turn; look at all of them each time."""
        t, requirement = self.t, self.t.requirement
        t.claim(requirement, f"write to each of {tried}, then read all of them")
        for number, each in enumerate(self.all):
            for key in KEYS:
                each.put(key, b"%d:%s" % (number, key))
        self.expect()
        t.claim(requirement, f"commit and delete in each of {tried}, then read all of them")
        for number, each in enumerate(self.all):
            each.commit(10 + number)
            each.delete(KEYS[number % len(KEYS)])
            self.expect()
        for number, each in enumerate(self.all):
            each.commit(20 + number)
        t.claim(requirement, f"close and reopen each of {tried}, then read all of them")
        for each in self.all[::-1]:
            each.close()
            self.expect()
            each.reopen(persistent=self.can.persistent)
        self.expect()


@check("LIFE-007")
def tasks_are_apart(t: Trial) -> None:
    """Open stores of one name in several tasks, and write, commit, close and reopen each."""
    t.claim("LIFE-007", "open stores of one name in several tasks")
    opens = [partial(t.open_other_task, each) for each in NEIGHBOURS]
    changelogs = [CHANGELOG._replace(partition=int(each.partition("_")[2])) for each in NEIGHBOURS]
    Street(t, opens, changelogs).live("several tasks")


@check("LIFE-004", "LIFE-022")
def stores_of_a_task_are_apart(t: Trial) -> None:
    """Open stores of similar names in one task, and write, commit, close and reopen each."""
    t.claim("LIFE-022", "open stores of similar names in one task directory")
    opens = [partial(t.open_named, each) for each in NAMES]
    street = Street(
        t, opens, [TopicPartition(f"streamproof-{each}-changelog", 0) for each in NAMES]
    )
    for name, each in zip(NAMES, street.all, strict=True):
        t.claim("LIFE-004", "read the name of a store that was made with this name")
        t.expect(each.store.read("name"), name)
    t.claim("LIFE-022", "use stores of similar names in one task directory")
    street.live("several stores of a task")
