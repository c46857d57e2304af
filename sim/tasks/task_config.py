"""The configuration of all tasks of an application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.recovery import Traits
from streamproof.sim.decisions.refusals import MAX_MESSAGE_BYTES
from streamproof.sim.releases import LiveFormat
from streamproof.sim.segmented_store import SegmentOf
from streamproof.sim.tasks.record_handlers import RecordHandlers
from streamproof.sim.tasks.record_queues import BUFFERED_RECORDS_PER_PARTITION
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    TRANSACTIONAL_STATESTORES_CONFIG,
)

__all__ = ["TaskConfig"]


@dataclass(frozen=True)
class TaskConfig:
    """The configuration of all tasks of an application.

    Attributes:
        exactly_once: whether the guarantee is exactly-once.
        transactional: whether the stores can stage their writes until the commit.
        max_task_idle_ms: how long a task waits for an empty input.
        mode: the rules for waiting: those of the proposal, or those of Kafka.
        partitions: the number of partitions of each topic.
        buffered_records_per_partition: an input with more buffered records is paused.
        live_format: what decides which format of a store is live during an upgrade.
        defect: says whether the runtime makes a mistake, given its name.
        store_rules: the rules for stores that stage: those of KIP-892, or those of Kafka.
        application_id: the id of the application, with which the topics of changelogs begin.
        segmented: by store with a database for each segment, the segment of a key.
        handlers: what becomes of records that cannot be processed or written.
        output_max_message_bytes: the most bytes that the key and value of an output record have.
    """

    exactly_once: bool
    transactional: bool
    max_task_idle_ms: int
    mode: Mode
    partitions: Mapping[str, int]
    buffered_records_per_partition: int = BUFFERED_RECORDS_PER_PARTITION
    live_format: LiveFormat = "assignment"
    defect: Callable[[str], bool] = lambda _: False
    store_rules: Mode = "proposal"
    application_id: str = "streamproof"
    segmented: Mapping[str, SegmentOf] = field(default_factory=dict)
    handlers: RecordHandlers = field(default_factory=RecordHandlers)
    output_max_message_bytes: int = MAX_MESSAGE_BYTES

    @property
    def stages(self) -> bool:
        """Whether the stores stage their writes: as proposed, only under exactly-once."""
        return self.transactional and (self.exactly_once or self.store_rules == "kafka")

    @property
    def traits(self) -> Traits:
        """The properties of a persistent store that the rules of recovery depend on."""
        return Traits(self.exactly_once, self.stages, rules=self.store_rules)

    @property
    def store_configs(self) -> dict[str, Any]:
        """The configuration for stores, by Kafka's names."""
        configs: dict[str, Any] = {
            PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE if self.exactly_once else AT_LEAST_ONCE
        }
        if self.store_rules == "kafka":
            configs[TRANSACTIONAL_STATESTORES_CONFIG] = self.transactional
        return configs
