"""Key spaces side by side, none of which sees another one.

They are those of stores that are neighbours, of one task or of one name in two tasks, and those in
one database, behind prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, permutations, product
from typing import Any, NamedTuple

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord, TopicPartition
from streamproof.conformance.trial import Entry, Handle, Place, Trial
from streamproof.conformance.violations import SubjectRaised
from streamproof.conformance.windowed_trial import Timed
from streamproof.stores.key_spaces import cut
from streamproof.stores.windows import LONG_MAX, Windowed

NAMES = ("a", "a-b", "a.b", "a_b", "ab", "A")
"""Names of stores that Kafka allows. They are prefixes of each other, and differ in a separator or
in case alone, as names of files and tables must not."""

SEPARATORS = ("", "-", ".", "_")
"""What may stand between the name of a store and a key, and in a name as well."""


def completing(names: Sequence[str]) -> list[bytes]:
    """Keys that complete a name to what the key ``x`` makes of a longer name.

    Behind ``a``, with a dash in between, ``b-x`` gives the same bytes as ``x`` behind ``a-b``.
    """
    found = {
        f"{longer[len(name) + len(each) :]}{each}x".encode()
        for name, longer in permutations(names, 2)
        for each in SEPARATORS
        if longer.startswith(f"{name}{each}")
    }
    return sorted(found)


KEYS = (b"x", b"b", *completing(NAMES), b"\xff")
"""Keys that give the same bytes behind different names, and the ends of a key space."""

NEIGHBOURS = ("0_0", "0_1", "0_11")
"""The ids of tasks."""

INPUT = "input"
"""The topic of the input records that cause the writes of the n-th store: partition n."""

ALL_TIMES = (0, LONG_MAX)


class Scan(NamedTuple):
    """A way to read several keys, with its arguments."""

    method: str
    arguments: tuple[Any, ...] = ()


SCANS = {
    "key-value": (
        Scan("all"),
        Scan("reverse_all"),
        Scan("range", (None, None)),
        Scan("range", (b"b", None)),
        Scan("range", (None, b"bx")),
        Scan("reverse_range", (b"b", None)),
        Scan("prefix_scan", (b"",)),
        Scan("prefix_scan", (b"b",)),
    ),
    "window": (
        Scan("fetch_all", ALL_TIMES),
        Scan("backward_fetch_all", ALL_TIMES),
        Scan("fetch_range", (None, None, *ALL_TIMES)),
        Scan("fetch_range", (b"b", None, *ALL_TIMES)),
        Scan("backward_fetch_range", (None, b"bx", *ALL_TIMES)),
    ),
    "session": (
        Scan("find_sessions_between", ALL_TIMES),
        Scan("fetch_range", (None, None)),
        Scan("backward_fetch_range", (b"b", None)),
        Scan("find_sessions_range", (None, b"bx", *ALL_TIMES)),
    ),
}
"""Scans by the kind of the store. Those with an open side end where another store may begin."""


def by_key(entry: Entry) -> tuple[bytes, bytes]:
    """An entry of a scan by its plain key: each key has one window or session."""
    at, value = entry
    return (at.key if isinstance(at, Windowed) else at), value


@dataclass
class Neighbour:
    """A store beside others: its lab, its changelog, and what it must have.

    No two stores write the same entry, so an entry tells whose it is: ``written`` has them all.
    """

    t: Trial
    number: int
    place: Place
    changelog: TopicPartition
    store: Handle
    content: dict[bytes, bytes] = field(default_factory=dict)
    committed: dict[bytes, bytes] = field(default_factory=dict)
    written: set[tuple[bytes, bytes]] = field(default_factory=set)
    offset: int | None = None
    offsets: set[int] = field(default_factory=set)
    inputs: int = 0
    is_closed: bool = False

    def put(self, key: bytes, value: bytes) -> None:
        """Put, and note it."""
        self._process()
        self.store.put(key, value)
        self._note(key, value)

    def _note(self, key: bytes, value: bytes) -> None:
        self.content[key] = value
        self.written.add((key, value))

    def delete(self, key: bytes) -> None:
        """Delete, and note it."""
        self._process()
        self.store.delete(key)
        del self.content[key]

    def _process(self) -> None:
        """Let the next write come from the next record of the store's own input."""
        if self.t.lab.subject.capabilities.position:
            self.t.processing(self.inputs, topic=INPUT, partition=self.number, at=self.place)
            self.inputs += 1

    def commit(self, offset: int) -> None:
        """Commit an offset of the store's own changelog, and note it."""
        self.store.commit({self.changelog: offset})
        self.offset, self.committed = offset, dict(self.content)
        self.offsets.add(offset)

    def close(self) -> None:
        """Close the store, and note that the check itself has done so."""
        self.store.close()
        self.is_closed = True

    def reopen(self, *, persistent: bool, manages_offsets: bool) -> None:
        """Open a store in the same place, which has what was committed."""
        self.store, self.is_closed = self.t.open_at(self.place), False
        if not persistent:
            self.committed = {}
        if not (persistent and manages_offsets):
            self.offset = None
        self.content = dict(self.committed)

    def restore(self, key: bytes, deleted: bytes, offset: int) -> None:
        """Restore a value and a deletion, as the runtime does after an opening, and commit."""
        value = b"restored %d" % self.number
        records = [ChangelogRecord(key, value, offset - 1), ChangelogRecord(deleted, None, offset)]
        self.t.restore(self.store, records, at=self.place)
        self._note(key, value)
        self.content.pop(deleted, None)
        self.commit(offset)


class Street:
    """Stores that are open side by side, each with the same keys and other values."""

    def __init__(
        self, t: Trial, places: Sequence[Place], changelogs: Sequence[TopicPartition]
    ) -> None:
        self.t = t
        self.can = t.lab.subject.capabilities
        self.all = [
            Neighbour(t, number, place, changelog, t.open_at(place))
            for number, (place, changelog) in enumerate(zip(places, changelogs, strict=True))
        ]

    def _reopen(self, each: Neighbour) -> None:
        can = self.can
        each.reopen(persistent=can.persistent, manages_offsets=can.manages_offsets)

    def expect(self) -> None:
        """Demand of each store its own rows, offsets and position, and none of another."""
        kept = len(self.t.lines)
        for each in self.all:
            if not each.is_closed:
                self._expect_rows(each)
                self._expect_progress(each)
        # What was read and is right would only make a program long.
        del self.t.lines[kept:]

    def _expect_rows(self, each: Neighbour) -> None:
        for key in KEYS:
            self.t.expect(each.store.get(key), each.content.get(key))
        for scan in SCANS[self.can.kind]:
            if self.t.has(scan.method):
                self._expect_own(each, scan)

    def _expect_own(self, each: Neighbour, scan: Scan) -> None:
        """Demand of a scan that it yields no row of a neighbour.

        A scan that raises, or leaves out rows, does so in a store alone, too: other promises are
        about that.
        """
        try:
            found = each.store.scan(scan.method, *scan.arguments)
        except SubjectRaised:
            self.t.go_on_after_error()
            return
        strange = [entry for entry in found if by_key(entry) not in each.written]
        self.t.expect(strange, [])

    def _expect_progress(self, each: Neighbour) -> None:
        """Demand the store's own offset, and no offset and no position of a neighbour."""
        if self.can.manages_offsets:
            self.t.expect(each.store.committed_offset(each.changelog), each.offset)
            # A store with one partition is not asked about another one.
            for other in self.all if self.can.several_partitions else ():
                found = each.store.committed_offset(other.changelog)
                if other is not each and found in other.offsets:
                    self.t.expect(found, None)
        if self.can.position:
            strange = [at for at in each.store.position() if at != (INPUT, each.number)]
            self.t.expect(strange, [])

    def _adopt(self, each: Neighbour) -> None:
        """Take over what a store has, unless that is a neighbour's.

        Whether a store alone discards and restores what it should is a matter of other promises.
        """
        each.content = {}
        for key in KEYS:
            value = each.store.get(key)
            if value is not None:
                self.t.expect((key, value) in each.written, True)
                each.content[key] = value
        if self.can.manages_offsets:
            each.offset = each.store.committed_offset(each.changelog)

    def live(self, tried: str) -> None:
        """Write, delete, commit, close, reopen and restore each in turn; look at all of them."""
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
            self._reopen(each)
        self.expect()
        if self.can.transactional and t.run.settings.guarantee == "exactly-once":
            self._discard(tried)
        self._restore(tried)

    def _restore(self, tried: str) -> None:
        """Open all stores, then restore each while those before it have uncommitted writes."""
        for each in self.all:
            each.close()
        for each in self.all:
            self._reopen(each)
            self._adopt(each)
        self.t.claim(self.t.requirement, f"restore each of {tried}, then read all of them")
        for each in self.all:
            each.restore(KEYS[0], KEYS[1], 60 + 2 * each.number)
            self._adopt(each)
            each.put(KEYS[2], b"after %d" % each.number)
            self.expect()

    def _discard(self, tried: str) -> None:
        """Stage writes in all stores, commit the first, and close the others without a commit."""
        self.t.claim(
            self.t.requirement,
            f"write to each of {tried}, commit one, close the others, then read all of them",
        )
        for each in self.all:
            each.put(KEYS[0], b"staged %d" % each.number)
        self.all[0].commit(40)
        self.expect()
        for each in self.all[1:]:
            each.close()
            self.expect()
            self._reopen(each)
            self._adopt(each)
            self.expect()

    def expire(self, tried: str) -> None:
        """Let each store of windows or sessions in turn expire all it has; look at the next ones.

        Those are written to as well, because a put into an expired window comes too late.
        """
        if self.can.kind == "key-value":
            return
        t = self.t
        t.claim(t.requirement, f"let all rows of one of {tried} expire, then use the others")
        stores = [self._open_again(each) for each in self.all]
        early = stores[0].times.base
        late = early + 3 * max(self.can.retention_ms, self.can.segment_interval_ms)
        for each, store in zip(self.all, stores, strict=True):
            store.put(b"x", b"early", early)
            store.handle.commit({each.changelog: 100})
        for each, store in zip(self.all, stores, strict=True):
            store.put(b"x", b"late", late)
            store.handle.commit({each.changelog: 101})
            current = store
            if self.can.persistent:
                # An opening may delete what has expired meanwhile.
                store.handle.close()
                current = self._open_again(each)
            t.expect(current.get(b"x", late), b"late")
            key = b"y%d" % each.number
            for other in stores[each.number + 1 :]:
                t.expect(other.get(b"x", early), b"early")
                other.put(key, b"early", early)
                t.expect(other.get(key, early), b"early")

    def _open_again(self, each: Neighbour) -> Timed:
        """Open a store in the place of a neighbour, as a store of windows or sessions."""
        if not each.is_closed:
            each.close()
        return Timed(self.t, self.t.open_at(each.place, as_rows=False))


def changelogs_of_tasks() -> list[TopicPartition]:
    """The changelog partition of the store in each of the tasks."""
    return [CHANGELOG._replace(partition=int(each.partition("_")[2])) for each in NEIGHBOURS]


def changelogs_of_names() -> list[TopicPartition]:
    """The changelog partition of each of the stores in the task."""
    return [TopicPartition(f"streamproof-{each}-changelog", 0) for each in NAMES]


@check("LIFE-007")
def tasks_are_apart(t: Trial) -> None:
    """Open stores of one name in several tasks; write, commit, close, reopen and restore each."""
    t.claim("LIFE-007", "open stores of one name in several tasks")
    street = Street(t, [*map(t.other_task, NEIGHBOURS)], changelogs_of_tasks())
    street.live("several tasks")
    street.expire("several tasks")


@check("LIFE-004", "LIFE-022")
def stores_of_a_task_are_apart(t: Trial) -> None:
    """Open stores of similar names in one task; write, commit, close, reopen and restore each."""
    t.claim("LIFE-022", "open stores of similar names in one task directory")
    street = Street(t, [*map(t.named, NAMES)], changelogs_of_names())
    for name, each in zip(NAMES, street.all, strict=True):
        t.claim("LIFE-004", "read the name of a store that was made with this name")
        t.expect(each.store.read("name"), name)
    t.claim("LIFE-022", "use stores of similar names in one task directory")
    street.live("several stores of a task")
    street.expire("several stores of a task")


BETWEEN = (b"|", b":", b"/", b"-", b".", b"_", b"#", b",", b" ", b"\x00", b"\x1f", b"\xff")
"""What a store may put between a prefix and a key."""

PIECES = (b"a", b"b", b"c", b"ab", b"bc", b"ca")
"""Of these the keys around a separator are made."""

MOST_PAIRS = 12
"""The most pairs of keys around one separator: a store may keep two keys apart by chance."""


def alike_when_joined(separator: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of keys that are cut into pairs which the separator joins to the same bytes.

    ``a`` and ``b|c`` are one of two keys, ``a|b`` and ``c`` the other.
    """
    for first, middle, last in product(PIECES, repeat=3):
        one = first, middle + separator + last
        other = first + separator + middle, last
        if all(cut(b"".join(pair)) == pair for pair in (one, other)):
            yield b"".join(one), b"".join(other)


@check("KV-011")
def keys_around_separators(t: Trial) -> None:
    """Put keys that are one where a store joins prefix and key with a separator; delete some."""
    t.claim("KV-011", "put two keys around a separator, commit, then get each of them")
    store = t.open()
    pairs = [pair for each in BETWEEN for pair in islice(alike_when_joined(each), MOST_PAIRS)]
    content = {key: b"%d" % number for number, key in enumerate(chain.from_iterable(pairs))}
    for key, value in content.items():
        store.put(key, value)
    store.commit({CHANGELOG: len(content)})
    for key, value in content.items():
        t.expect(store.get(key), value)
    t.claim("KV-011", "delete one of two keys around a separator, commit, then get the other one")
    gone = {one for one, _ in pairs}
    for key in sorted(gone):
        store.delete(key)
    store.commit({CHANGELOG: 2 * len(content)})
    for key, value in content.items():
        t.expect(store.get(key), None if key in gone else value)
