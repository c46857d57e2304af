"""The legal contents of a store after a crash.

A *write* sets or deletes one key and has an offset in one changelog partition. A *commit*
declares that all writes before it belong together with a map of offsets. The *fold* of a list of
writes is the content after all of them. After a crash the store must be in one of the states
that :class:`History` calls legal. An operation that was interrupted may count or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamproof.stores.api import ChangelogRecord, TopicPartition

__all__ = [
    "Commit",
    "History",
    "Offsets",
    "Write",
    "changelog_of",
    "ends_of",
    "fold",
    "merge_offsets",
    "partitions_of",
]

Offsets = dict[TopicPartition, int]


class Write(NamedTuple):
    """One changelog record: the value ``None`` deletes the key."""

    partition: TopicPartition
    offset: int
    key: bytes
    value: bytes | None

    def record(self) -> ChangelogRecord:
        """The write as a record of its changelog partition."""
        return ChangelogRecord(self.key, self.value, self.offset)


def fold(writes: Iterable[Write]) -> dict[bytes, bytes]:
    """The content after a list of writes."""
    content: dict[bytes, bytes] = {}
    for write in writes:
        if write.value is None:
            content.pop(write.key, None)
        else:
            content[write.key] = write.value
    return content


def merge_offsets(offsets: Offsets, committed: Mapping[TopicPartition, int | None]) -> Offsets:
    """The committed offsets after one more commit.

    An empty map forgets all offsets, and ``None`` forgets one, as in Kafka's implementation.
    """
    if not committed:
        return {}
    merged = dict(offsets)
    for partition, offset in committed.items():
        if offset is None:
            merged.pop(partition, None)
        else:
            merged[partition] = offset
    return merged


@dataclass(frozen=True)
class Commit:
    """A commit: the number of writes before it, and all committed offsets after it."""

    writes: int
    offsets: Offsets


@dataclass
class History:
    """The writes and commits of a store until it crashed.

    Attributes:
        writes: all writes that had at least started, in order.
        restored: the restored writes among them, which have no input record.
        commits: all commits that had at least started; the first is the empty beginning.
        durable: the index of the commit that must survive according to the declared durability.
        replayed: the number of writes that a replay of the changelog has reached. They are
            committed in the changelog, so a store may hold them before its own commit.
        aborted: the writes before an earlier crash that never reached the changelog.
        exact: whether the content must be exactly that of one commit. If not, writes after the
            commit may count or not, and a replay must correct the content.
    """

    exact: bool
    writes: list[Write] = field(default_factory=list)
    restored: set[int] = field(default_factory=set)
    commits: list[Commit] = field(default_factory=lambda: [Commit(0, {})])
    durable: int = 0
    replayed: int = 0
    aborted: list[Write] = field(default_factory=list)

    def write(self, *writes: Write, restored: bool = False) -> None:
        """Record writes."""
        if restored:
            self.restored.update(range(len(self.writes), len(self.writes) + len(writes)))
        self.writes.extend(writes)

    def commit(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Record that a commit started."""
        merged = merge_offsets(self.commits[-1].offsets, offsets)
        self.commits.append(Commit(len(self.writes), merged))

    def commit_copy(self, partition: TopicPartition, offset: int) -> None:
        """Record that a copy, which is filled from one changelog partition, started a commit."""
        covered = [
            number
            for number, write in enumerate(self.writes)
            if write.partition == partition and write.offset <= offset
        ]
        self.commits.append(Commit(len(covered) and covered[-1] + 1, {partition: offset}))

    def candidates(self, offsets: Offsets) -> list[Commit]:
        """The commits after which these were the committed offsets."""
        return [commit for commit in self.commits if commit.offsets == offsets]

    def content_at(self, commit: Commit) -> dict[bytes, bytes]:
        """The exact content of the store at a commit."""
        return fold(self.writes[: commit.writes])

    def early_values(self, commit: Commit) -> dict[bytes, set[bytes | None]]:
        """For each key the values after a commit that a replay may have brought early."""
        early: dict[bytes, set[bytes | None]] = {}
        for write in self.writes[commit.writes : self.replayed]:
            early.setdefault(write.key, set()).add(write.value)
        return early

    def allows(self, commit: Commit, content: Mapping[bytes, bytes]) -> bool:
        """Whether this content is legal for an exact store at a commit."""
        expected, early = self.content_at(commit), self.early_values(commit)
        return all(
            content.get(key) in {expected.get(key), *early.get(key, ())}
            for key in {*expected, *content, *early}
        )

    def position_after(self, count: int) -> dict[int, int]:
        """The input offsets by partition after ``count`` writes."""
        return {
            write.partition.partition: write.offset
            for number, write in enumerate(self.writes[:count])
            if number not in self.restored
        }

    def values_since(self, commit: Commit) -> dict[bytes, set[bytes | None]]:
        """For each key the values it may have if writes after the commit may count or not.

        The keys are in the order in which they were first written.
        """
        content = self.content_at(commit)
        allowed: dict[bytes, set[bytes | None]] = {
            write.key: {content.get(write.key)} for write in self.writes
        }
        for write in self.writes[commit.writes :]:
            allowed[write.key].add(write.value)
        return allowed

    def values_ever(self) -> dict[bytes, set[bytes | None]]:
        """For each key every value that was ever written to it."""
        written: dict[bytes, set[bytes | None]] = {}
        for write in (*self.writes, *self.aborted):
            written.setdefault(write.key, set()).add(write.value)
        return written


def changelog_of(history: History) -> list[Write]:
    """The content of the changelog that a reader sees after the crash.

    Under exactly-once the transaction commits before the store does, and readers never see the
    aborted rest. Under at-least-once readers see every write.
    """
    if history.exact:
        return history.writes[: history.commits[-1].writes]
    return history.writes


def partitions_of(history: History) -> list[TopicPartition]:
    """All partitions of the writes and commits, sorted."""
    named = {write.partition for write in history.writes}
    for commit in history.commits:
        named.update(commit.offsets)
    return sorted(named)


def ends_of(changelog: list[Write]) -> dict[TopicPartition, int]:
    """The last offset of each partition."""
    return {write.partition: write.offset for write in changelog}
