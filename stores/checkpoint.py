"""Kafka's checkpoint file: changelog offsets as text, replaced as a whole.

.. code-block:: text

    0                                  the version of the format
    1                                  how many offsets follow
    app-store-changelog 0 1234         topic, partition and offset

Source: Kafka, org.apache.kafka.streams.state.internals.OffsetCheckpoint.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from streamproof.stores.api import StateStoreContext, TopicPartition
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.synced_directories import sync_directory

__all__ = [
    "OFFSET_UNKNOWN",
    "TASK_CHECKPOINT",
    "OffsetCheckpoint",
    "StoreCheckpoint",
    "changelog_partition",
    "smallest_offsets",
]

TASK_CHECKPOINT: Final = ".checkpoint"
"""The file in the directory of a task that holds the offsets of all its stores."""

OFFSET_UNKNOWN = -4
"""Stands for an unknown offset, where a file must hold a number."""

_VERSION = 0
_REMEDY = "Delete the file and the store's directory, and restore from the changelog."


class OffsetCheckpoint:
    """Reads and writes one checkpoint file.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def read(self, *, strict: bool = False) -> dict[TopicPartition, int]:
        """The offsets in the file; empty without a file.

        Offsets that no file may have (negative, and not OFFSET_UNKNOWN) are left out.

        Args:
            strict: whether such an offset, a repeated partition, and a last line without an end are
                errors. A caller that deletes the file after reading must not lose an entry.

        Raises:
            ProcessorStateError: the file is unreadable or malformed; the message names the file and
                the line.
        """
        try:
            text = self.path.read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except PermissionError as error:
            # The file may be whole: nobody must delete it for want of a permission.
            raise ProcessorStateError(
                f"{self.path.parent} cannot be read: {error}. Check that the path is a writable "
                "directory, and that this user may read its files."
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ProcessorStateError(f"{self.path} cannot be read: {error}. {_REMEDY}") from error
        lines = text.splitlines()
        if self._number(lines, 1, "the version") != _VERSION:
            raise self._malformed(1, f"the version is {lines[0]}, but must be {_VERSION}")
        expected = self._number(lines, 2, "the number of offsets")
        entries = [self._entry(number, line) for number, line in enumerate(lines[2:], start=3)]
        if len(entries) != expected:
            raise self._malformed(2, f"expected {expected} offsets, but found {len(entries)}")
        if strict:
            self._require_sound(entries)
            if not text.endswith("\n"):
                raise self._malformed(len(lines), "the line does not end; it may have been cut off")
        return {partition: offset for partition, offset in entries if _may_be_stored(offset)}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file, or delete it if ``offsets`` is empty; durable on return.

        A crash leaves the old file or the new one, never a mixture.

        Raises:
            ProcessorStateError: an offset is negative and not OFFSET_UNKNOWN, or the file
                cannot be written.
        """
        for partition, offset in offsets.items():
            if not _may_be_stored(offset):
                raise ProcessorStateError(
                    f"Offset {offset} of {partition} cannot be written to {self.path}. Give an "
                    f"offset of at least 0, or {OFFSET_UNKNOWN} for an unknown one."
                )
        if not offsets:
            self.delete()
            return
        lines = [str(_VERSION), str(len(offsets))]
        lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        try:
            self._replace("\n".join([*lines, ""]).encode())
        except OSError as error:
            raise ProcessorStateError(
                f"{self.path} cannot be written: {error}. Check that its directory exists and is "
                "writable, and that the disk has space."
            ) from error

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Replace the file by a file without these partitions; durable on return.

        Raises:
            ProcessorStateError: the file is malformed, or it cannot be written.
        """
        offsets = self.read(strict=True)
        kept = {each: offset for each, offset in offsets.items() if each not in partitions}
        if len(kept) < len(offsets):
            self.write(kept)

    def delete(self) -> None:
        """Delete the file, if it exists."""
        try:
            self.path.unlink(missing_ok=True)
            if self.path.parent.is_dir():
                sync_directory(self.path.parent)
        except OSError as error:
            raise ProcessorStateError(
                f"{self.path} cannot be deleted: {error}. Check the permissions of its directory."
            ) from error

    def _replace(self, content: bytes) -> None:
        temporary = self.path.with_name(self.path.name + ".tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        # Without this, the rename itself may be undone by a loss of power.
        sync_directory(self.path.parent)

    def _number(self, lines: list[str], number: int, what: str) -> int:
        try:
            return int(lines[number - 1])
        except (IndexError, ValueError):
            found = repr(lines[number - 1]) if len(lines) >= number else "nothing"
            raise self._malformed(number, f"expected {what}, but found {found}") from None

    def _entry(self, number: int, line: str) -> tuple[TopicPartition, int]:
        parts = line.split()
        try:
            topic, partition, offset = parts
            return TopicPartition(topic, int(partition)), int(offset)
        except ValueError:
            raise self._malformed(
                number, f"expected 'topic partition offset', but found {line!r}"
            ) from None

    def _require_sound(self, entries: list[tuple[TopicPartition, int]]) -> None:
        seen = set()
        for number, (partition, offset) in enumerate(entries, start=3):
            if not _may_be_stored(offset):
                raise self._malformed(number, f"offset {offset} is negative")
            if partition in seen:
                raise self._malformed(number, f"{partition} occurs twice")
            seen.add(partition)

    def _malformed(self, line: int, problem: str) -> ProcessorStateError:
        return ProcessorStateError(f"{self.path}, line {line}: {problem}. {_REMEDY}")


class StoreCheckpoint(OffsetCheckpoint):
    """The entries of one store in a checkpoint file, which may have entries of other stores.

    The store may know its changelog by another topic than the file.

    Args:
        path: the file.
        topic: the changelog topic of the store in the file.
        own_topic: the same topic as the store knows it.
    """

    def __init__(self, path: Path, topic: str, own_topic: str) -> None:
        super().__init__(path)
        self._topic = topic
        self._own_topic = own_topic

    @property
    def exists(self) -> bool:
        """Whether the file has an entry of the store."""
        return bool(self.read())

    def read(self, *, strict: bool = False) -> dict[TopicPartition, int]:
        """The offsets of the store in the file; empty without any."""
        entries = super().read(strict=strict)
        return {
            TopicPartition(self._own_topic, each.partition): offset
            for each, offset in entries.items()
            if each.topic == self._topic
        }

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the entries of the store, and keep those of others; durable on return."""
        own = {
            TopicPartition(self._topic, each.partition): offset for each, offset in offsets.items()
        }
        super().write({**self._of_others(), **own})

    def delete(self) -> None:
        """Delete the entries of the store, and the file if it has no others."""
        others = self._of_others()
        if others:
            super().write(others)
        else:
            super().delete()

    def _of_others(self) -> dict[TopicPartition, int]:
        entries = super().read(strict=True)
        return {each: offset for each, offset in entries.items() if each.topic != self._topic}


def _may_be_stored(offset: int) -> bool:
    return offset >= 0 or offset == OFFSET_UNKNOWN


def smallest_offsets(
    one: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The partitions of both, each with the smaller of its offsets.

    The smaller offset never promises a record that the store lacks. OFFSET_UNKNOWN is the smallest
    of all.
    """
    return {
        each: min(one.get(each, offset), other.get(each, offset))
        for each, offset in {**one, **other}.items()
    }


def changelog_partition(context: StateStoreContext, store_name: str) -> TopicPartition | None:
    """The changelog partition of a store. Its number is that of the task.

    ``None`` if the id of the task does not end in a number, as for global stores.
    """
    _, _, partition = context.task_id.rpartition("_")
    if not partition.isdecimal():
        return None
    return TopicPartition(context.changelog_topic(store_name), int(partition))
