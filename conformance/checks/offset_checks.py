"""Changelog offsets that a store manages itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.lab import (
    CHANGELOG,
    CHECKPOINT_OF_ANOTHER,
    OTHER_CHANGELOG,
    TopicPartition,
)
from streamproof.conformance.program_text import render
from streamproof.conformance.reserved_keys import keys_in_imports, keys_on_disk
from streamproof.conformance.similar_partitions import LARGE_OFFSET, SIMILAR, TWINS
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped, Violation

OTHERS = (OTHER_CHANGELOG, TopicPartition("another-topic", 0))
"""Partitions of the same topic and of another one."""

BOTH_ORDERS = ((CHANGELOG, OTHER_CHANGELOG), (OTHER_CHANGELOG, CHANGELOG))
"""A store may be right as long as the lower partition comes first."""


def _expect_none(t: Trial, store: Handle, *partitions: TopicPartition) -> None:
    """Demand that the store has no committed offset of these partitions."""
    for each in partitions:
        t.expect(store.committed_offset(each), None)


def _expect_never_told(t: Trial, store: Handle) -> None:
    """Commit offsets to a store that tells none, and ask for each before and after.

    Reopen the store too.
    """
    every = (CHANGELOG, *OTHERS)
    several = t.lab.subject.capabilities.several_partitions
    for first in (0, 10):
        _expect_none(t, store, *every)
        store.put(b"a", b"%d" % first)
        store.commit({CHANGELOG: first})
        _expect_none(t, store, *every)
        store.commit(dict.fromkeys(every, first + 1) if several else {CHANGELOG: first + 1})
        _expect_none(t, store, *every)
        t.expect(store.get(b"a"), b"%d" % first)
        store = t.reopen(store)
    _expect_none(t, store, *every)


def _committed(store: Handle, partitions: Iterable[TopicPartition]) -> list[int | None]:
    """The committed offset of each of the partitions."""
    return [store.committed_offset(each) for each in partitions]


@check("OFFSET-001", "OFFSET-002")
def committed_offset_follows_commit(t: Trial) -> None:
    """Read the committed offset before and after commits."""
    store = t.open()
    t.claim("OFFSET-001", "read the committed offset of a new store")
    t.expect(store.committed_offset(CHANGELOG), None)
    store = t.reopen(store)
    t.expect(store.committed_offset(CHANGELOG), None)
    store.put(b"a", b"1")
    t.expect(store.committed_offset(CHANGELOG), None)
    t.claim("OFFSET-002", "commit an offset, then read it")
    store.commit({CHANGELOG: 0})
    t.expect(store.committed_offset(CHANGELOG), 0)
    store.put(b"a", b"2")
    t.claim("OFFSET-002", "write without a commit, then read the committed offset")
    t.expect(store.committed_offset(CHANGELOG), 0)
    store.commit({CHANGELOG: 7})
    t.expect(store.committed_offset(CHANGELOG), 7)


@check("OFFSET-009")
def unknown_partitions_have_none(t: Trial) -> None:
    """Read the offsets of partitions that were never committed."""
    t.claim("OFFSET-009", "commit one partition, then read the offsets of others")
    can, every = t.lab.subject.capabilities, (CHANGELOG, *OTHERS)
    for committed in every if can.several_partitions else every[:1]:
        others = [each for each in every if each != committed]
        store = t.open()
        store.put(b"a", b"1")
        store.commit({committed: 7})
        _expect_none(t, store, *others)
        if can.persistent:
            store = t.reopen(store)
            _expect_none(t, store, *others)
        store.close()
        t.wipe()


@check("OFFSET-003", given=lambda g: {"offset": g.offsets()})
def offset_survives_reopening(t: Trial, offset: int) -> None:
    """Commit an offset, close, and read the offset with a new store."""
    t.claim("OFFSET-003", "commit, close, and read the committed offset with a new store")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: offset})
    store = t.reopen(store)
    t.expect(store.committed_offset(CHANGELOG), offset)
    t.expect(store.get(b"a"), b"1")


@check("OFFSET-004")
def partitions_are_independent(t: Trial) -> None:
    """Commit the offsets of two partitions, then of one, and start with either of them."""
    t.claim("OFFSET-004", "commit two partitions, then one of them")
    for both in BOTH_ORDERS:
        first, second = both
        store = t.open()
        store.commit({first: 5, second: 9})
        t.expect(_committed(store, both), [5, 9])
        store.commit({first: 6})
        t.expect(_committed(store, both), [6, 9])
        store = t.reopen(store)
        t.expect(_committed(store, both), [6, 9])
        store.close()
        t.wipe()


@check("OFFSET-005")
def empty_commit_forgets(t: Trial) -> None:
    """Commit an empty map after offsets were committed."""
    t.claim("OFFSET-005", "commit an empty map, then read the committed offsets")
    store = t.open()
    store.put(b"a", b"1")
    offsets = {CHANGELOG: 5}
    if t.lab.subject.capabilities.several_partitions:
        offsets[OTHER_CHANGELOG] = 9
    store.commit(offsets)
    store.commit({})
    for partition in offsets:
        t.expect(store.committed_offset(partition), None)
    store = t.reopen(store)
    for partition in offsets:
        t.expect(store.committed_offset(partition), None)
    t.expect(store.get(b"a"), b"1")
    store.commit({CHANGELOG: 3})
    t.expect(store.committed_offset(CHANGELOG), 3)


@check("OFFSET-006")
def none_forgets_one(t: Trial) -> None:
    """Commit None for one partition: alone, before another one, and after it."""
    t.claim("OFFSET-006", "commit None for one of two partitions")
    for number, both in enumerate(BOTH_ORDERS):
        forgotten, kept = both
        store = t.open()
        store.commit({forgotten: 5, kept: 9})
        store.commit({forgotten: None})
        t.expect(_committed(store, both), [None, 9])
        store = t.reopen(store)
        t.expect(_committed(store, both), [None, 9])
        store.commit({kept: 10, forgotten: 6})
        moved = {forgotten: None, kept: 11}
        store.commit(moved if number else dict(reversed(moved.items())))
        t.expect(_committed(store, both), [None, 11])
        store.commit({forgotten: 7})
        store.commit(dict(reversed(moved.items())) if number else moved)
        t.expect(_committed(store, both), [None, 11])
        store = t.reopen(store)
        t.expect(_committed(store, both), [None, 11])
        store.close()
        t.wipe()


@check("OFFSET-007", given=lambda g: {"offset": g.offsets()})
def any_offset(t: Trial, offset: int) -> None:
    """Commit offsets from the whole range of a 64-bit integer."""
    t.claim("OFFSET-007", "commit an offset, then read it")
    store = t.open()
    # Always try the largest numbers of four and of eight bytes. Offsets that go back have their own
    # requirement.
    for each in sorted({offset, 2**31, 2**63 - 2}):
        store.put(b"a", b"%d" % each)
        store.commit({CHANGELOG: each})
        t.expect(store.committed_offset(CHANGELOG), each)


@check("OFFSET-008", "OFFSET-002")
def last_commit_counts(t: Trial) -> None:
    """Commit a smaller offset than before. A store may refuse that, but not keep the larger one."""
    t.claim("OFFSET-008", "commit a smaller offset than before")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 100})
    store.put(b"a", b"2")
    store.commit({CHANGELOG: 4})
    t.held()
    t.claim("OFFSET-002", "commit a smaller offset, which the store takes, then read the offset")
    t.expect(store.committed_offset(CHANGELOG), 4)
    store = t.reopen(store)
    t.expect(store.committed_offset(CHANGELOG), 4)


@check("OFFSET-010")
def partitions_are_told_apart(t: Trial) -> None:
    """Commit partitions with similar names: one after the other, together, and some alone."""
    store = t.open()
    t.claim("OFFSET-010", "commit a partition before and after a similar one, then read both")
    for pair in TWINS:
        one, other = pair
        store.commit({one: 7})
        t.expect(_committed(store, pair), [7, None])
        store.commit({other: 9})
        t.expect(_committed(store, pair), [7, 9])
        store.commit({one: LARGE_OFFSET})
        t.expect(_committed(store, pair), [LARGE_OFFSET, 9])
    t.claim("OFFSET-010", "commit partitions with similar names, then read the offset of each")
    offsets = {each: LARGE_OFFSET + number for number, each in enumerate(SIMILAR)}
    store.commit(offsets)
    t.expect(_committed(store, SIMILAR), [*offsets.values()])
    for part in (SIMILAR[::2], SIMILAR[1::2]):
        moved = {each: offsets[each] + len(SIMILAR) for each in part}
        store.commit(moved)
        offsets |= moved
        t.expect(_committed(store, SIMILAR), [*offsets.values()])
    store = t.reopen(store)
    t.expect(_committed(store, SIMILAR), [*offsets.values()])


@check("OFFSET-011")
def commit_without_writes(t: Trial) -> None:
    """Commit again without writes, as when control records advance the changelog."""
    t.claim("OFFSET-011", "commit a larger offset without any write in between")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 3})
    store.commit({CHANGELOG: 4})
    t.expect(store.committed_offset(CHANGELOG), 4)
    store = t.reopen(store)
    t.expect(store.committed_offset(CHANGELOG), 4)


@check("OFFSET-012")
def unmanaged_offsets_are_none(t: Trial) -> None:
    """Read the committed offsets of a store that does not manage offsets."""
    t.claim("OFFSET-012", "commit offsets to a store that does not manage offsets, and read them")
    _expect_never_told(t, t.open())


@check("OFFSET-015")
def volatile_store_has_no_offsets(t: Trial) -> None:
    """Read the committed offsets of a store that is not persistent."""
    t.claim("OFFSET-015", "commit offsets to a store that is not persistent, and read them")
    store = t.open()
    if not callable(getattr(store.raw, "committed_offset", None)):
        raise Skipped("the store has no committed_offset")
    _expect_never_told(t, store)


@check("OFFSET-016")
def offsets_of_input_and_changelog(t: Trial) -> None:
    """Commit offsets of the changelog and of input partitions together, in every order."""
    t.claim("OFFSET-016", "commit offsets of the changelog and of two inputs in one map")
    store = t.open()
    every = (CHANGELOG, TopicPartition("input", 0), TopicPartition("other-input", 7))
    offsets: dict[TopicPartition, int] = {}
    for number, order in enumerate(permutations(range(len(every)))):
        offsets = {every[each]: 10 * each + number for each in order}
        store.put(b"a", b"%d" % number)
        store.commit(offsets)
        t.expect(_committed(store, every), [offsets[each] for each in every])
    store = t.reopen(store)
    t.expect(_committed(store, every), [offsets[each] for each in every])
    t.claim("OFFSET-016", "commit the changelog alone after the changelog and two inputs")
    store.commit({CHANGELOG: 60})
    t.expect(_committed(store, every), [60, *(offsets[each] for each in every[1:])])


@check("OFFSET-014")
def takes_over_a_checkpoint(t: Trial) -> None:
    """Open a store next to the .checkpoint of an older version, which has its offset.

    A store that declares it takes the offset over when it opens. For any other store the runtime
    reads the file, and commits the offset before the first write.
    """
    t.claim("OFFSET-014", "open a store next to a .checkpoint with its offsets")
    can = t.lab.subject.capabilities
    left: dict[TopicPartition, int | None] = {CHANGELOG: 41}
    if can.several_partitions:
        left[OTHER_CHANGELOG] = 17
    store = t.open()
    store.put(b"a", b"1")
    store.close()
    _leave_checkpoint(t, left)
    store = t.open()
    value = store.get(b"a")
    if not can.imports_offsets:
        store.commit(left)
    for reopened in (False, True):
        store = t.reopen(store) if reopened else store
        for partition, offset in left.items():
            t.expect(store.committed_offset(partition), offset)
        t.expect(store.get(b"a"), value)
    if can.forgets_offsets:
        t.claim("OFFSET-014", "let a store forget the offsets of a .checkpoint, and open it again")
        store.commit({})
        store = t.reopen(store)
        for partition in left:
            t.expect(store.committed_offset(partition), None)
    t.claim("OFFSET-014", "open a store whose offset is behind that in a .checkpoint")
    store.commit({CHANGELOG: 50})
    store.close()
    _leave_checkpoint(t, {CHANGELOG: 90})
    store = t.open()
    if t.run.settings.spec == "kips":
        # Kafka commits the offset of the file over the one of the store (migrateLegacyOffsets).
        t.expect(store.committed_offset(CHANGELOG), 50)
    t.claim("OFFSET-014", "open a store next to a .checkpoint with the offset of another store")
    found = (t.lab.directory / ".checkpoint").read_text()
    kept = CHECKPOINT_OF_ANOTHER in found
    t.expect_that(kept, f"{CHECKPOINT_OF_ANOTHER!r} still in the file", found)


def _leave_checkpoint(t: Trial, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Write the file as versions before KIP-1035 do, for this store and another one."""
    t.note(f"lab.leave_checkpoint({render(dict(offsets))})")
    t.lab.leave_checkpoint(offsets)


@check("OFFSET-017", raw=True, weight=3)
def no_key_is_reserved(run: CheckRun) -> None:
    """Write keys that the store may keep for itself: from its code, and from its own files."""
    keys = _keys_of_the_store(run)
    # As many keys of the same sizes, with names that no store reserves.
    plain = tuple((b"plain%d" % number).ljust(len(key), b".") for number, key in enumerate(keys))
    if _fails(run, plain):
        raise Skipped("as many keys with other names fail as well, so no name is to blame")
    if _fails(run, keys):
        for key in keys:
            if _fails(run, (key,)):
                keys = (key,)
                break
    run.shrinking(lambda: _write_keys(run, keys))


def _keys_of_the_store(run: CheckRun) -> tuple[bytes, ...]:
    """The keys in the code of the store, and in the files that a commit and a close leave."""
    with run.trial("OFFSET-017") as t:
        store = t.open()
        store.put(b"k", b"v")
        store.commit({CHANGELOG: 4})
        written = keys_on_disk(t.lab.directory)
        store.close()
        written += keys_on_disk(t.lab.directory)
    return tuple(dict.fromkeys((*keys_in_imports(run.subject.module), *written)))


def _fails(run: CheckRun, keys: tuple[bytes, ...]) -> bool:
    try:
        _write_keys(run, keys)
    except Violation:
        return True
    return False


def _write_keys(run: CheckRun, keys: tuple[bytes, ...]) -> None:
    """Write, commit, reopen and delete keys; each answer and the offset must be right."""
    with run.trial("OFFSET-017") as t:
        store = t.open()
        store.put(b"other", b"v")
        store.commit({CHANGELOG: 4})
        for key in keys:
            store.put(key, b"v")
        t.expect(store.committed_offset(CHANGELOG), 4)
        store.commit({CHANGELOG: 5})
        _expect_values(t, store, keys, b"v", 5)
        store = t.reopen(store)
        _expect_values(t, store, keys, b"v", 5)
        for key in keys:
            store.delete(key)
        store.commit({CHANGELOG: 6})
        _expect_values(t, store, keys, None, 6)
        _expect_values(t, t.reopen(store), keys, None, 6)


def _expect_values(
    t: Trial, store: Handle, keys: tuple[bytes, ...], value: bytes | None, offset: int
) -> None:
    for key in keys:
        t.expect(store.get(key), value)
    t.expect(store.committed_offset(CHANGELOG), offset)
