"""The handlers of an application for records that cannot be processed.

Sources: KIP-161, KIP-1033, KIP-1034; Kafka, RecordQueue#updateHead, RecordDeserializer, StreamTask.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamproof.errors import StreamproofError
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.decisions.refusals import Handler, ProductionHandler, Refusal, refusal

__all__ = ["RecordHandlers", "RecordRefusedError"]


class RecordRefusedError(StreamproofError):
    """A handler says to fail at a record or at its output (Kafka: StreamsException)."""


@dataclass(frozen=True)
class RecordHandlers:
    """What becomes of records that cannot be processed.

    Attributes:
        timestamp: ``FailOnInvalidTimestamp``, or ``LogAndSkipOnInvalidTimestamp``.
        deserialization: ``LogAndFailExceptionHandler``, or ``LogAndContinueExceptionHandler``.
        processing: the same for processors.
        production: what becomes of output records that the brokers will never take.
        dead_letters: the topic that gets the records that are left out; empty for none.
    """

    timestamp: Handler = "fail"
    deserialization: Handler = "fail"
    processing: Handler = "fail"
    production: ProductionHandler = "retry"
    dead_letters: str = ""

    def reason_to_drop(self, record: LogEntry) -> Refusal:
        """Why a record is left out; empty if it is to be processed.

        Raises:
            RecordRefusedError: the record cannot be processed, and the handler says to fail.
        """
        reason = refusal(record.timestamp, record.value)
        if reason and getattr(self, reason) == "fail":
            raise RecordRefusedError(
                f"The record at {record.offset} cannot be processed ({reason}). Mend the input, or "
                f"let the handler for {reason} continue."
            )
        return reason
