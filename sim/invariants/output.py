"""The committed results of an application, against those of a run without faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamproof.sim.decisions.refusals import MAX_MESSAGE_BYTES, is_too_large, refusal
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.sim.trace import Event

__all__ = ["OutputIsThatOfARunWithoutFaults"]


class OutputIsThatOfARunWithoutFaults(Invariant):
    """Under exactly-once, faults leave no trace in committed outputs and changelogs.

    A topology that is not built in has no reference, and is not checked. Nor is a run in which
    readers have missed what the logs had given up by then: rows, tombstones or inputs.
    """

    name = "what is committed is what a run without faults commits"
    requirement = "EOS-003"
    situation = "an application came to its end after a fault"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._application = ""
        self._partitions: dict[str, int] = {}
        self._cached = False
        self._most_bytes = MAX_MESSAGE_BYTES

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._start}

    def _start(self, event: Event) -> Iterator[str]:
        self._application = event.actor
        self._partitions = event.attributes["partitions"]
        self._cached = event.attributes["statestore_cache_max_bytes"] > 0
        self._most_bytes = event.attributes["output_max_message_bytes"]
        yield from ()

    def at_end(self) -> Iterator[str]:
        """Compare everything that was ever committed, including records deleted since."""
        family = TOPOLOGIES.get(self._application)
        if family is None or not self.history.exactly_once:
            return
        forgotten = self.history.forgotten
        if forgotten.has_lost_rows or forgotten.has_skipped_inputs:
            return
        self.tried = self.history.has_failed
        logs = {
            f"{topic}-{number}": [
                each
                for each in self.history.visible(f"{topic}-{number}")
                # What cannot be processed leads to nothing.
                if not refusal(each.timestamp, each.value)
            ]
            for topic, count in self._partitions.items()
            for number in range(count)
        }
        topology = family.topology(self._partitions[family.topology(1).inputs[0]])
        # A task that does not wait long enough may process its inputs in another order.
        expected = family.expected(topology, logs, ordered=False)
        taken = expected.without(lambda key, value: is_too_large(key, value, self._most_bytes))
        yield from differences(taken, logs, cached=self._cached)
