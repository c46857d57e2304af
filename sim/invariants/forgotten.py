"""What the logs have given up: the records before their start, and old tombstones.

Kafka promises a tombstone only for ``delete.retention.ms``, and records only for ``retention.ms``.
A store that comes later may lack rows, or have rows that were deleted, and nobody made a mistake.
Which tombstones may be gone follows from the compactions alone: the first one that meets a
tombstone decides until when it stays, and a later one may take it (KIP-534).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamproof.sim.invariants.visible_records import Visible, VisibleRecord
from streamproof.sim.trace import Event

__all__ = ["Forgotten"]


class Forgotten:
    """What readers of the logs may have missed.

    Args:
        visible: the records that a restoration may have read.

    Attributes:
        starts: by partition, the first offset that its log still has, if it has deleted any.
        resets: by input, the offset of its last reset.
        has_lost_rows: whether a task began to run with a row too many, or too few.
    """

    def __init__(self, visible: Visible) -> None:
        self._visible = visible
        self._retention_ms = 0
        # By partition, when it was compacted, and up to which offset.
        self._compactions: dict[str, list[tuple[int, int]]] = {}
        # By partition, the offset before which tombstones may be gone.
        self._tombstones: dict[str, int] = {}
        # By input, the spans that a reset went past, first and last offset.
        self._skipped: dict[str, list[range]] = {}
        self.starts: dict[str, int] = {}
        self.resets: dict[str, int] = {}
        self.has_lost_rows = False

    @property
    def observers(self) -> Mapping[str, Callable[[Event], None]]:
        """By kind of event, the observer of such events."""
        return {
            "application.started": self._start,
            "log.compacted": self._compact,
            "log.deleted": self._delete,
            "store.running": self._run,
        }

    @property
    def has_skipped_inputs(self) -> bool:
        """Whether a reset went past records that were not committed by then."""
        return bool(self._skipped)

    def lacks_any(self, partition: str) -> bool:
        """Whether the log of a partition may have given up what readers would have to see."""
        return partition in self.starts or bool(self._tombstones.get(partition))

    def may_lack(self, partition: str, record: VisibleRecord) -> bool:
        """Whether the log of a partition may have given a record up that no later one replaces."""
        if record.offset < self.starts.get(partition, 0):
            return True
        return record.value is None and record.offset < self._tombstones.get(partition, 0)

    def has_skipped(self, partition: str) -> bool:
        """Whether a reset went past records of a partition."""
        return partition in self._skipped

    def is_skipped(self, partition: str, offset: int) -> bool:
        """Whether a reset went past a record."""
        return any(offset in each for each in self._skipped.get(partition, ()))

    def reset(self, event: Event, committed: int) -> None:
        """Note that an input is read from another offset.

        Args:
            event: the reset.
            committed: the committed offset of the input.
        """
        self.resets[event.partition] = event.offset
        span = range(max(committed, event.attributes["position"]), event.offset)
        if any(each.offset in span for each in self._visible(event.partition, span.start)):
            self._skipped.setdefault(event.partition, []).append(span)

    def explains(
        self,
        partition: str,
        key: bytes,
        there: bytes | None,
        wanted: bytes | None,
        *,
        unlogged: Iterable[bytes | None] = (),
    ) -> bool:
        """Whether a store may have another value because the log gave the wanted one up.

        Args:
            partition: the log.
            key: the key.
            there: the value in the store.
            wanted: the value that the log says.
            unlogged: values of the key that the store may have without any record in the log.
        """
        if not self.lacks_any(partition):
            return False
        start = self.starts.get(partition, 0)
        before = set(unlogged)
        for each in self._visible(partition, 0):
            if each.key != key:
                continue
            if each.value == wanted and self.may_lack(partition, each):
                is_absent = there is None and each.offset < start
                if there in before or is_absent:
                    return True
            before.add(each.value)
        return False

    def _start(self, event: Event) -> None:
        self._retention_ms = event.attributes.get("topic_delete_retention_ms", 0)

    def _compact(self, event: Event) -> None:
        done = self._compactions.setdefault(event.partition, [])
        due = event.time - self._retention_ms
        met = max((offset for time, offset in done if time <= due), default=0)
        before = self._tombstones.get(event.partition, 0)
        self._tombstones[event.partition] = max(before, min(met, event.offset))
        done.append((event.time, event.offset))

    def _delete(self, event: Event) -> None:
        self.starts[event.partition] = max(event.offset, self.starts.get(event.partition, 0))

    def _run(self, event: Event) -> None:
        partition = event.partition
        if self.has_lost_rows or not self.lacks_any(partition):
            return
        rows = dict(event.attributes["rows"])
        fold = {each.key: each.value for each in self._visible(partition, 0)}
        self.has_lost_rows = any(
            rows.get(key) != value and self.explains(partition, key, rows.get(key), value)
            for key, value in fold.items()
        )
