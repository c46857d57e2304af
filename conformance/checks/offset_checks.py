"""Changelog offsets that a store manages itself."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, TopicPartition
from streamproof.conformance.trial import Handle, Trial


def _committed(store: Handle) -> tuple[int | None, int | None]:
    """The committed offsets of both partitions."""
    return store.committed_offset(CHANGELOG), store.committed_offset(OTHER_CHANGELOG)


@check("OFFSET-001", "OFFSET-002")
def committed_offset_follows_commit(t: Trial) -> None:
    """Read the committed offset before and after commits."""
    store = t.open()
    t.claim("OFFSET-001", "read the committed offset of a new store")
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
    t.expect(store.committed_offset(OTHER_CHANGELOG), None)
    t.expect(store.committed_offset(TopicPartition("another-topic", 0)), None)


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


@check("OFFSET-008")
def last_commit_counts(t: Trial) -> None:
    """Commit a smaller offset than before, as after a wiped changelog."""
    t.claim("OFFSET-008", "commit a smaller offset than before")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 100})
    store.put(b"a", b"2")
    store.commit({CHANGELOG: 4})
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
    ]
    store = t.open()
    store.commit({each: number for number, each in enumerate(partitions)})
    for number, each in enumerate(partitions):
        t.expect(store.committed_offset(each), number)
    store = t.reopen(store)
    for number, each in enumerate(partitions):
        t.expect(store.committed_offset(each), number)


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
    """Read the committed offset of a store that does not manage offsets."""
    t.claim("OFFSET-012", "commit an offset to a store that does not manage offsets")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 5})
    t.expect(store.committed_offset(CHANGELOG), None)
    t.expect(store.get(b"a"), b"1")


@check("OFFSET-014")
def takes_over_a_checkpoint(t: Trial) -> None:
    """Open a store next to the .checkpoint of an older version, and hand over its offset.

    A store may read the file when it opens. For any other store the runtime reads the file and
    commits the offset before the first write.
    """
    t.claim("OFFSET-014", "open a store next to a .checkpoint, and hand over its offset")
    store = t.open()
    store.put(b"a", b"1")
    store.close()
    _leave_checkpoint(t, 41)
    store = t.open()
    value = store.get(b"a")
    if store.committed_offset(CHANGELOG) is None:
        store.commit({CHANGELOG: 41})
    t.expect(store.committed_offset(CHANGELOG), 41)
    store = t.reopen(store)
    t.expect(store.committed_offset(CHANGELOG), 41)
    t.expect(store.get(b"a"), value)
    t.claim("OFFSET-014", "open a store whose offset is behind that in a .checkpoint")
    store.commit({CHANGELOG: 50})
    store.close()
    _leave_checkpoint(t, 90)
    store = t.open()
    t.expect(store.committed_offset(CHANGELOG), 50)
    t.claim("OFFSET-014", "open a store next to a .checkpoint with the offset of another store")
    found = (t.lab.directory / ".checkpoint").read_text()
    t.expect_that(_OF_ANOTHER_STORE in found, f"{_OF_ANOTHER_STORE!r} still in the file", found)


_OF_ANOTHER_STORE = "streamproof-other-changelog 0 7"


def _leave_checkpoint(t: Trial, offset: int) -> None:
    """Write the file as versions before KIP-1035 do, for this store and another one."""
    content = f"0\n2\n{CHANGELOG.topic} {CHANGELOG.partition} {offset}\n{_OF_ANOTHER_STORE}\n"
    t.note(f'(lab.directory / ".checkpoint").write_text({content!r})')
    (t.lab.directory / ".checkpoint").write_text(content)
