"""Output records that the brokers will never take: the handler decides, and nobody else.

That a record is too large is a fact of its topic, and no word of the runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from streamproof.sim.decisions.refusals import is_left_out
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event
from streamproof.sim.workloads import OVERSIZED_BYTES

__all__ = ["HandlersDecideOnOutputs"]


class HandlersDecideOnOutputs(Invariant):
    """A refused output record ends its thread, unless the handler says to continue (KIP-210)."""

    name = "a refused output record ends its thread, unless the handler says to continue"
    requirement = "TASK-080"
    situation = "an output record was too large for its topic"
    drawn_from: ClassVar = {
        "topologies": ["stateless"],
        "settings": {
            "output_max_message_bytes": [OVERSIZED_BYTES],
            "production_exception_handler": ["continue"],
        },
        "workload": {"oversized": [0.1]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # Empty where the events do not tell; only a refusal asks for its handler.
        self._handlers: Mapping[str, Any] = {}
        # By thread, the refusal about which nothing has been decided.
        self._refused: dict[str, Event] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "output.refused": self._refuse,
            "task.processed": self._go_on,
            "thread.committed": self._go_on,
            "thread.died": self._die,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._handlers = event.attributes["handlers"]
        yield from ()

    def _leaves_out(self) -> bool:
        return is_left_out(self._handlers["production"])

    def _refuse(self, event: Event) -> Iterator[str]:
        self.tried = True
        self._refused[event.actor] = event
        yield from ()

    def _go_on(self, event: Event) -> Iterator[str]:
        refused = self._refused.pop(event.actor, None)
        if refused is not None and not self._leaves_out():
            yield (
                f"{event.actor} goes on after {refused.partition} refused a record of "
                f"{refused.attributes['size']} bytes, although the handler says to fail"
            )

    def _die(self, event: Event) -> Iterator[str]:
        refused = self._refused.pop(event.actor, None)
        if refused is None or not self._leaves_out() or refused.time != event.time:
            return
        # A thread may die of something else in the same moment.
        if event.attributes["reason"] == "RecordRefusedError":
            yield (
                f"{event.actor} dies as {refused.partition} refuses a record of "
                f"{refused.attributes['size']} bytes, although the handler says to continue"
            )
