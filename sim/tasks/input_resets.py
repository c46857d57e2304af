"""Where an input is read from if nobody knows the position, or the log has it no more.

Sources: Kafka, StreamThread#resetOffsets and ConsumerConfig (``auto.offset.reset``).
"""

from __future__ import annotations

from streamproof.sim.application import Application

__all__ = ["InputResets"]

NO_POSITION = -1
"""The position of an input for which the group has committed no offset."""


class InputResets:
    """Resets positions of inputs by the policy of the application, and tells of it.

    Args:
        application: the application.
        actor: the name of the thread, for the trace.
    """

    def __init__(self, application: Application, actor: str) -> None:
        self._application = application
        self._world = application.world
        self._actor = actor

    def start(self, task_id: str, partition: str, committed: int | None) -> int:
        """The offset to read an input from: the committed one, or that of the policy."""
        return self.reset(task_id, partition, NO_POSITION) if committed is None else committed

    def reset(self, task_id: str, partition: str, position: int) -> int:
        """The offset at which the policy lets the task go on.

        Args:
            task_id: the task that reads the input.
            partition: the input.
            position: the position that is gone; ``NO_POSITION`` without a committed offset.
        """
        target = self._target(partition)
        self._world.marks.sometimes(
            "an input was reset because its position was gone", holds=position != NO_POSITION
        )
        self._world.trace.emit(
            "input.reset",
            self._actor,
            task=task_id,
            partition=partition,
            offset=target,
            position=position,
        )
        return target

    def _target(self, partition: str) -> int:
        config, log = self._application.config, self._application.cluster.logs[partition]
        # A table whose first rows were passed over would differ from what a restoration brings.
        is_table = partition.rpartition("-")[0] in self._application.topology.tables
        is_earliest = is_table or config.auto_offset_reset == "earliest"
        if is_earliest or self._world.defect("ignores-reset-policy"):
            return log.log_start
        return log.last_stable_offset if config.exactly_once else log.end
