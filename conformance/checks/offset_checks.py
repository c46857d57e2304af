"""Changelog offsets that a store manages itself."""

from __future__ import annotations

from collections.abc import Mapping

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
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped, Violation

OTHERS = (OTHER_CHANGELOG, TopicPartition("another-topic", 0))
"""Partitions of the same topic and of another one."""

LONGEST_TOPIC = 249
"""The length of the longest name that Kafka allows for a topic."""


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


def _committed(store: Handle) -> tuple[int | None, int | None]:
    """The committed offsets of both partitions."""
    return store.committed_offset(CHANGELOG), store.committed_offset(OTHER_CHANGELOG)


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
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 7})
    _expect_none(t, store, *OTHERS)
    if t.lab.subject.capabilities.persistent:
        store = t.reopen(store)
        _expect_none(t, store, *OTHERS)


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
    """Commit the offsets of two partitions, then of one."""
    t.claim("OFFSET-004", "commit two partitions, then one of them")
    store = t.open()
    store.commit({CHANGELOG: 5, OTHER_CHANGELOG: 9})
    t.expect(_committed(store), (5, 9))
    store.commit({CHANGELOG: 6})
    t.expect(_committed(store), (6, 9))
    store = t.reopen(store)
    t.expect(_committed(store), (6, 9))


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
    """Commit None for one partition."""
    t.claim("OFFSET-006", "commit None for one of two partitions")
    store = t.open()
    store.commit({CHANGELOG: 5, OTHER_CHANGELOG: 9})
    store.commit({CHANGELOG: None})
    t.expect(
        (store.committed_offset(CHANGELOG), store.committed_offset(OTHER_CHANGELOG)), (None, 9)
    )
    store = t.reopen(store)
    t.expect(
        (store.committed_offset(CHANGELOG), store.committed_offset(OTHER_CHANGELOG)), (None, 9)
    )


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
    """Commit partitions with similar names."""
    t.claim("OFFSET-010", "commit partitions with similar names, then read the offset of each")
    partitions = [
        TopicPartition("app-store-changelog", 1),
        TopicPartition("app-store-changelog", 11),
        TopicPartition("app-store-changelog-1", 1),
        TopicPartition("app-store-changelog1", 1),
        TopicPartition("app.store_changelog", 1),
        TopicPartition("status", 0),
        TopicPartition("position", 0),
        # Kafka's longest names of topics, and numbers beyond a byte and two bytes.
        *(TopicPartition("t" * (LONGEST_TOPIC - 1) + end, 1) for end in "ab"),
        *(TopicPartition("app-store-changelog", number) for number in (257, 2**16 + 1, 2**31 - 1)),
        TopicPartition("APP-store-changelog", 1),
    ]
    offsets = {each: 2**31 + number for number, each in enumerate(partitions)}
    store = t.open()
    store.commit(offsets)
    for each, offset in offsets.items():
        t.expect(store.committed_offset(each), offset)
    store = t.reopen(store)
    for each, offset in offsets.items():
        t.expect(store.committed_offset(each), offset)


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
    """Commit offsets of the changelog and of input partitions together."""
    t.claim("OFFSET-016", "commit offsets of the changelog and of two inputs in one map")
    store = t.open()
    inputs = [TopicPartition("input", 0), TopicPartition("other-input", 7)]
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 5, inputs[0]: 17, inputs[1]: 3})
    expected = [5, 17, 3]
    t.expect([store.committed_offset(each) for each in (CHANGELOG, *inputs)], expected)
    store = t.reopen(store)
    t.expect([store.committed_offset(each) for each in (CHANGELOG, *inputs)], expected)
    t.claim("OFFSET-016", "commit the changelog alone after the changelog and two inputs")
    store.commit({CHANGELOG: 6})
    t.expect([store.committed_offset(each) for each in (CHANGELOG, *inputs)], [6, 17, 3])


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
