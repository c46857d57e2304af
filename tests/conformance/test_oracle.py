"""The oracle against a model that is more naive still."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, TopicPartition
from streamproof.conformance.oracle import Commit, History, Write, fold, merge_offsets

MODEL = settings.get_profile("conformance")

KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.none() | st.sampled_from([b"", b"1", b"2"])
PARTITIONS = st.sampled_from([CHANGELOG, OTHER_CHANGELOG])
WRITES = st.lists(st.builds(Write, PARTITIONS, st.integers(0, 9), KEYS, VALUES), max_size=8)
OFFSETS = st.dictionaries(PARTITIONS, st.none() | st.integers(0, 5), max_size=2)
STEPS = st.lists(
    st.one_of(st.builds(Write, PARTITIONS, st.integers(0, 9), KEYS, VALUES), OFFSETS), max_size=12
)


def last_value(writes: list[Write], key: bytes) -> bytes | None:
    """The value of the last write to a key, found by looking through all of them."""
    return next((write.value for write in reversed(writes) if write.key == key), None)


def history_from(steps: list[Write | dict[TopicPartition, int | None]]) -> History:
    """A history in which each step is a write or a commit."""
    history = History(exact=True)
    for step in steps:
        if isinstance(step, Write):
            history.write(step)
        else:
            history.commit(step)
    return history


def test_a_delete_removes_and_a_put_brings_back() -> None:
    """The smallest folds."""
    put, delete = Write(CHANGELOG, 0, b"a", b"1"), Write(CHANGELOG, 1, b"a", None)
    assert fold([]) == {}
    assert fold([put]) == {b"a": b"1"}
    assert fold([put, delete]) == {}
    assert fold([delete, put]) == {b"a": b"1"}
    assert fold([Write(CHANGELOG, 0, b"a", b"")]) == {b"a": b""}


def test_a_copy_covers_what_its_offset_covers() -> None:
    """All writes up to the last one of its partition that it has reached."""
    writes = [
        Write(CHANGELOG, 0, b"a", b"1"),
        Write(OTHER_CHANGELOG, 0, b"b", b"2"),
        Write(CHANGELOG, 2, b"c", b"3"),
        Write(CHANGELOG, 3, b"d", b"4"),
    ]
    history = History(exact=False)
    history.write(*writes)
    for offset in (-1, 1, 2, 3):
        history.commit_copy(CHANGELOG, offset)
    assert [(each.writes, each.offsets[CHANGELOG]) for each in history.commits[1:]] == [
        (0, -1),
        (1, 1),
        (3, 2),
        (4, 3),
    ]


def test_the_position_is_that_of_the_last_write_by_partition() -> None:
    """Restored writes have no input record, and so no position."""
    history = History(exact=True)
    history.write(Write(CHANGELOG, 1, b"a", b"1"), restored=True)
    history.write(Write(CHANGELOG, 3, b"a", b"2"), Write(OTHER_CHANGELOG, 0, b"b", None))
    history.write(Write(CHANGELOG, 5, b"a", None))
    assert [history.position_after(count) for count in range(5)] == [
        {},
        {},
        {0: 3},
        {0: 3, 1: 0},
        {0: 5, 1: 0},
    ]


@MODEL
@given(WRITES)
def test_fold_keeps_the_last_value_of_each_key(writes: list[Write]) -> None:
    """A fold is a lookup of the last write, key by key."""
    expected = {key: last_value(writes, key) for key in (b"a", b"b", b"c")}
    assert fold(writes) == {key: value for key, value in expected.items() if value is not None}


def test_merging_offsets() -> None:
    """An empty map forgets all, None forgets one; nothing is changed in place."""
    before = {CHANGELOG: 1, OTHER_CHANGELOG: 2}
    assert merge_offsets(before, {}) == {}
    assert merge_offsets(before, {CHANGELOG: None}) == {OTHER_CHANGELOG: 2}
    assert merge_offsets(before, {CHANGELOG: 0}) == {CHANGELOG: 0, OTHER_CHANGELOG: 2}
    assert merge_offsets({}, {OTHER_CHANGELOG: None}) == {}
    assert before == {CHANGELOG: 1, OTHER_CHANGELOG: 2}


@MODEL
@given(st.dictionaries(PARTITIONS, st.integers(0, 5)), OFFSETS)
def test_merging_agrees_with_a_lookup(
    offsets: dict[TopicPartition, int], committed: dict[TopicPartition, int | None]
) -> None:
    """Each partition on its own: what the commit says of it, or else what was there."""
    merged = merge_offsets(offsets, committed)
    for partition in (CHANGELOG, OTHER_CHANGELOG):
        expected = committed.get(partition, offsets.get(partition)) if committed else None
        assert merged.get(partition) == expected


def test_a_history_starts_with_the_empty_commit() -> None:
    """Before anything was committed, no offset and no content is legal."""
    history = History(exact=True)
    assert history.candidates({}) == [Commit(0, {})]
    assert history.content_at(history.commits[0]) == {}
    assert history.candidates({CHANGELOG: 0}) == []


def test_two_histories_share_nothing() -> None:
    """A mutable default would carry commits from one crash to the next."""
    History(exact=True).commit({CHANGELOG: 1})
    assert History(exact=True).commits == [Commit(0, {})]


@MODEL
@given(STEPS)
def test_commits_and_candidates(steps: list[Write | dict[TopicPartition, int | None]]) -> None:
    """Every commit is a candidate for the offsets that it left, and for no others."""
    history = history_from(steps)
    offsets: dict[TopicPartition, int] = {}
    written: list[Write] = []
    naive = [(0, dict(offsets))]
    for step in steps:
        if isinstance(step, Write):
            written.append(step)
            continue
        offsets = {} if not step else {**offsets, **step}  # type: ignore[dict-item]
        offsets = {key: value for key, value in offsets.items() if value is not None}
        naive.append((len(written), offsets))
    assert [(commit.writes, commit.offsets) for commit in history.commits] == naive
    for count, left in naive:
        assert Commit(count, left) in history.candidates(left)
        assert all(commit.offsets == left for commit in history.candidates(left))


@MODEL
@given(STEPS)
def test_values_since_a_commit(steps: list[Write | dict[TopicPartition, int | None]]) -> None:
    """The committed value, or any that was written later: each prefix of the rest may count."""
    history = history_from(steps)
    for commit in history.commits:
        committed, later = history.writes[: commit.writes], history.writes[commit.writes :]
        expected = {
            key: {last_value(committed + later[:end], key) for end in range(len(later) + 1)}
            for key in {write.key for write in history.writes}
        }
        assert history.values_since(commit) == expected
        assert history.content_at(commit) == fold(committed)


def test_values_since_a_commit_are_in_the_order_of_writing() -> None:
    """So a broken state is always told by the same key, however Python hashes."""
    history = History(exact=True)
    keys = [b"%d" % number for number in range(50)]
    for offset, key in enumerate([*keys, *reversed(keys)]):
        history.write(Write(CHANGELOG, offset, key, b"value"))
    assert list(history.values_since(history.commits[0])) == keys


@MODEL
@given(WRITES)
def test_values_ever(writes: list[Write]) -> None:
    """Everything that was written to a key, deletes included, and nothing else."""
    found = history_from(list(writes)).values_ever()
    pairs = {(key, value) for key, values in found.items() for value in values}
    assert pairs == {(write.key, write.value) for write in writes}
    assert all(found.values())
