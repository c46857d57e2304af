"""The position of a store: the input offsets that its content reflects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["PositionIsNotAhead"]


class PositionIsNotAhead(Invariant):
    """A position covers no input whose writes are not in the store (KIP-796, KAFKA-20760).

    The check runs when a store is found, when its task begins to run or changes its role, and when
    the store is closed cleanly, because nothing is staged at these times. Under exactly-once, a
    store that stages its writes has only those of committed inputs. Any other store may have those
    of inputs that were processed and not committed, and a corrupted one under at-least-once keeps
    its staged writes. No store has writes of unprocessed inputs. A restoration adds no input, so
    the position stays behind the restored records.
    """

    name = "the position of a store is not ahead of what is in it"
    requirement = "POS-101"
    situation = "a store with a position was looked at"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._is_strict = False
        # By input, the offset after the last processed record, and after the last committed one.
        self._processed: dict[str, int] = {}
        self._committed: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "task.processed": self._process,
            "thread.committed": self._commit,
            "offsets.committed": self._commit,
            "store.found": self._look,
            "store.running": self._look,
            "store.closing": self._look,
            "store.recycled": self._look,
        }

    def _start(self, event: Event) -> Iterator[str]:
        more = event.attributes
        self._is_strict = more["transactional"] and more["exactly_once"]
        yield from ()

    def _process(self, event: Event) -> Iterable[str]:
        if event.offset >= self._processed.get(event.partition, 0):
            self._processed[event.partition] = event.offset + 1
        return ()

    def _commit(self, event: Event) -> Iterable[str]:
        for partition, offset in event.attributes["offsets"].items():
            self._committed[partition] = max(offset, self._committed.get(partition, 0))
        return ()

    def _look(self, event: Event) -> Iterator[str]:
        what = "committed" if self._is_strict else "processed"
        bounds = self._committed if self._is_strict else self._processed
        self.tried |= bool(event.attributes["position"])
        for partition, offset in event.attributes["position"].items():
            bound = bounds.get(partition, 0)
            if offset >= bound:
                yield (
                    f"the store of {event.partition} in task {event.task} has the position "
                    f"{offset} of {partition}, which is {what} only up to {bound}"
                )
