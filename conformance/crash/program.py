"""Programs for crashes: a fixed list of operations on the stores of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, Lab
from streamproof.conformance.oracle import Write
from streamproof.conformance.program_text import render
from streamproof.stores.api import ChangelogRecord, RecordMetadata, TopicPartition

OPENING = ("open", "open_older", "open_preparing", "upgrade")
ENDS = (*OPENING, "close")
REPLAYING = ("restore", "catch_up", "resume")

ROW_KEY = b"row%05d"
"""The key of the n-th of many rows."""

ROW_BYTES = 80
"""The size of the value of each of many rows, in bytes."""

INPUT_TOPIC = "input"
"""The topic of the input records that cause the writes of a program."""

__all__ = ["OPENING", "REPLAYING", "Operation", "Program", "ProgramBuilder", "random_program"]


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        name: ``open``, ``get``, ``put``, ``delete``, ``put_all``, ``commit``, ``flush``, ``close``
            or ``restore``; ``put_many`` puts many rows, one by one;
            ``catch_up`` replays what comes after the committed offset;
            ``resume`` does so in batches, and stops after some of them;
            ``open_older`` opens the store that wrote the older format, and ``upgrade`` opens
            the subject for the first time after it; ``open_preparing`` opens the subject while
            an upgrade in place is being prepared, and ``rebuild`` fills the new format;
            ``leave_checkpoint`` leaves offsets as versions before KIP-1035 do.
        arguments: the arguments of the store's method.
        writes: the changelog records behind the operation.
        store: the number of the store of the task.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    writes: tuple[Write, ...] = ()
    store: int = 0

    def perform(self, lab: Lab, store: Any) -> Any:
        """Perform the operation, and return the store that is open afterwards."""
        if self.name in OPENING:
            return getattr(lab, self._opener("rows"))()
        if self.name == "leave_checkpoint":
            lab.leave_checkpoint(*self.arguments)
            return store
        if record := self.record:
            lab.processing(*record)
        else:
            lab.idle()
        if self.name in REPLAYING:
            getattr(lab, self.name)(store, *self._replayed())
        elif self.name == "put_many":
            for write in self.writes:
                store.put(write.key, write.value)
        elif self.name == "flush":
            flush = getattr(store, "flush", None)
            if flush is not None:
                flush()
        else:
            getattr(store, self.name)(*self.arguments)
        return store

    def _opener(self, usual: str) -> str:
        """The method of a lab that opens the store; ``usual`` opens the subject as it is."""
        return usual if self.name in ("open", "upgrade") else self.name

    @property
    def record(self) -> RecordMetadata | None:
        """The input record that caused the writes, with the partition and offset of the last write.

        Restored records have no input record: their offsets belong to the changelog alone.
        """
        if not self.writes or self.name in ("restore", "resume"):
            return None
        partition, offset = self.writes[-1][:2]
        return RecordMetadata(INPUT_TOPIC, partition.partition, offset)

    def source(self, opener: str = "open") -> str:
        """The operation as a line of Python; ``opener`` is the method of the lab that opens."""
        store, lab = (f"{each}_{self.store}" if self.store else each for each in ("store", "lab"))
        if self.name in OPENING:
            return f"{store} = {lab}.{self._opener(opener)}()"
        if self.name == "leave_checkpoint":
            return f"{lab}.{self.name}({render(*self.arguments)})"
        if self.name in REPLAYING:
            return f"{lab}.{self.name}({store}, {', '.join(map(render, self._replayed()))})"
        if self.name == "put_many":
            count, filler = self.arguments
            return (
                f"for n in range({count}): {store}.put({ROW_KEY!r} % n, {filler!r} * {ROW_BYTES})"
            )
        return f"{store}.{self.name}({', '.join(map(render, self.arguments))})"

    def _replayed(self) -> list[Any]:
        """The arguments of the lab's replaying method, besides the store."""
        if self.name == "resume":
            records, *sizes = self.arguments
            return [list(records), *sizes]
        return [list(self.arguments)]

    def resumed(self, changelog: Sequence[ChangelogRecord]) -> Operation:
        """This operation; a replay without records gets the changelog."""
        if self.name == "catch_up" and not self.arguments:
            return replace(self, arguments=tuple(changelog))
        if self.name == "resume" and not self.arguments[0]:
            return replace(self, arguments=(tuple(changelog), *self.arguments[1:]))
        return self


@dataclass(frozen=True)
class Program:
    """A list of operations, the first of which opens the store."""

    operations: tuple[Operation, ...]

    @property
    def keys(self) -> list[bytes]:
        """All written keys, sorted."""
        return sorted({write.key for each in self.operations for write in each.writes})

    @property
    def stores(self) -> list[int]:
        """The numbers of the used stores, sorted."""
        return sorted({each.store for each in self.operations})

    def of(self, store: int) -> Program:
        """The operations on one of the stores."""
        return Program(tuple(each for each in self.operations if each.store == store))

    def resumed(self, changelog: Sequence[ChangelogRecord]) -> Program:
        """The program after a crash that left this changelog to replay."""
        return Program(tuple(each.resumed(changelog) for each in self.operations))

    @property
    def alternates(self) -> bool:
        """Whether each store is closed before it is opened again."""
        ends = [
            [each.name != "close" for each in self.of(store).operations if each.name in ENDS]
            for store in self.stores
        ]
        return all(first != second for opened in ends for first, second in pairwise(opened))

    def __len__(self) -> int:
        return len(self.operations)


@dataclass
class ProgramBuilder:
    """Builds a program and gives each write the next offset of its partition.

    Offsets have gaps, as transaction markers leave them in a real changelog.
    """

    operations: list[Operation] = field(default_factory=lambda: [Operation("open")])
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    gap: int = 1
    start: int = 0

    def _write(self, key: bytes, value: bytes | None, partition: TopicPartition) -> Write:
        offset = self.ends.get(partition, self.start - 1) + self.gap
        self.ends[partition] = offset
        return Write(partition, offset, key, value)

    def put(
        self, key: bytes, value: bytes | None, partition: TopicPartition = CHANGELOG
    ) -> ProgramBuilder:
        """Put a value, or delete with ``None``."""
        write = self._write(key, value, partition)
        if value is None:
            self.operations.append(Operation("delete", (key,), (write,)))
        else:
            self.operations.append(Operation("put", (key, value), (write,)))
        return self

    def put_all(self, entries: Sequence[tuple[bytes, bytes | None]]) -> ProgramBuilder:
        """Put several values at once."""
        writes = tuple(self._write(key, value, CHANGELOG) for key, value in entries)
        self.operations.append(Operation("put_all", (list(entries),), writes))
        return self

    def put_many(self, count: int, filler: bytes) -> ProgramBuilder:
        """Put ``count`` rows of ``ROW_BYTES`` bytes, one by one."""
        value = filler * ROW_BYTES
        writes = tuple(self._write(ROW_KEY % number, value, CHANGELOG) for number in range(count))
        self.operations.append(Operation("put_many", (count, filler), writes))
        return self

    def commit(self, offsets: Mapping[TopicPartition, int | None] | None = None) -> ProgramBuilder:
        """Commit everything so far, by default with the offsets that the writes have reached."""
        chosen = dict(self.ends) if offsets is None else dict(offsets)
        self.operations.append(Operation("commit", (chosen,)))
        return self

    def commit_alone(self, *partitions: TopicPartition) -> ProgramBuilder:
        """Commit offsets that moved on without any write, as behind the markers of transactions."""
        for partition in partitions or (CHANGELOG,):
            self.ends[partition] = self.ends.get(partition, -1) + 4
        return self.commit()

    def leave_checkpoint(self, offsets: Mapping[TopicPartition, int]) -> ProgramBuilder:
        """Leave offsets as versions before KIP-1035 do."""
        self.ends |= offsets
        self.operations.append(Operation("leave_checkpoint", (dict(offsets),)))
        return self

    def restore(self, entries: Sequence[tuple[bytes, bytes | None]]) -> ProgramBuilder:
        """Apply a batch of changelog records."""
        writes = tuple(self._write(key, value, CHANGELOG) for key, value in entries)
        records = tuple(write.record() for write in writes)
        self.operations.append(Operation("restore", records, writes))
        return self

    def read(self, key: bytes) -> ProgramBuilder:
        """Get a key. A read may write, because some stores upgrade entries on reading them."""
        self.operations.append(Operation("get", (key,)))
        return self

    def catch_up(self) -> ProgramBuilder:
        """Replay the part of the changelog so far that the store lacks, and commit."""
        self.operations.append(Operation("catch_up", tuple(self._changelog())))
        return self

    def resume(
        self, batch: int, batches: int, entries: Sequence[tuple[bytes, bytes | None]] = ()
    ) -> ProgramBuilder:
        """Restore ``batches`` batches of ``batch`` records after the committed offset.

        Each batch is committed. ``entries`` is the whole changelog; in a program that continues
        after a crash, it is what the crash left.
        """
        writes = tuple(self._write(key, value, CHANGELOG) for key, value in entries)
        records = tuple(write.record() for write in writes)
        self.operations.append(Operation("resume", (records, batch, batches), writes))
        return self

    def rebuild(self, start: int, end: int) -> ProgramBuilder:
        """Fill the new format with the records ``start`` to ``end``, exclusive, of the changelog.

        The bounds count records, because the offsets have gaps.
        """
        records = self._changelog()[start:end]
        self.operations.append(Operation("rebuild", (CHANGELOG, records)))
        return self

    def _changelog(self) -> list[ChangelogRecord]:
        return [
            write.record()
            for operation in self.operations
            for write in operation.writes
            if write.partition == CHANGELOG
        ]

    def then(self, *names: str) -> ProgramBuilder:
        """Add operations without arguments."""
        self.operations.extend(Operation(name) for name in names)
        return self

    def build(self) -> Program:
        """The program."""
        return Program(tuple(self.operations))


def random_program(
    random: Random,
    *,
    commits: int,
    partitions: Sequence[TopicPartition] = (CHANGELOG,),
    first_offset: int = 0,
) -> Program:
    """Puts, overwrites, deletes, re-puts and batches over few keys, with commits in between.

    The offsets of ``partitions`` begin with ``first_offset`` or a little later.
    """
    builder = ProgramBuilder(gap=random.choice((1, 1, 3)), start=first_offset)
    keys = [b"a", b"ab", b"b", b"\xff", b"k1", b"k2"]
    for number in range(commits):
        for step in range(random.randint(1, 4)):
            key = random.choice(keys)
            value = b"%d.%d" % (number, step)
            kind = random.random()
            partition = random.choice(partitions)
            if kind < 0.25:
                builder.put(key, None, partition)
            elif kind < 0.4:
                batch = random.sample(keys, 3)
                builder.put_all(
                    [(each, None if random.random() < 0.3 else value) for each in batch]
                )
            else:
                builder.put(key, value, partition)
        builder.commit()
        if random.random() < 0.3:
            builder.then("flush")
    # Uncommitted writes at the end: they must not survive on their own.
    builder.put(random.choice(keys), b"uncommitted").put(random.choice(keys), None)
    return builder.build()


PARTITIONS = (CHANGELOG, OTHER_CHANGELOG)
"""The partitions of a store with several partitions, such as a global store."""
