"""What brokers refuse, and what that means for a task: the names are Kafka's."""

from __future__ import annotations

from streamproof.errors import StreamproofError, UsageError

__all__ = [
    "BrokerError",
    "ConcurrentTransactionsError",
    "CoordinatorNotAvailableError",
    "DivergedError",
    "IllegalGenerationError",
    "InvalidPidMappingError",
    "InvalidTxnStateError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "ProducerFencedError",
    "RequestTimeoutError",
    "SubjectError",
    "UnstableOffsetCommitError",
    "UpdaterDiedError",
]


class BrokerError(StreamproofError):
    """A broker refused a request."""


class OffsetOutOfRangeError(BrokerError):
    """The offset is before the start of the log, or behind its end."""


class OutOfOrderSequenceError(BrokerError):
    """A producer's batch does not follow the one before it: something was lost in between."""


class ProducerFencedError(BrokerError):
    """Another producer with the same transactional id has begun: this one is a zombie."""


class InvalidTxnStateError(BrokerError):
    """The transaction is not in a state in which this can be done."""


class ConcurrentTransactionsError(BrokerError):
    """The transaction before is not completed yet: try again."""


class CoordinatorNotAvailableError(BrokerError):
    """The coordinator is moving to another broker: try again."""


class InvalidPidMappingError(BrokerError):
    """The transactional id has expired, or belongs to another producer: this one is fenced."""


class IllegalGenerationError(BrokerError):
    """The member is not of the current generation of the group, or not a member at all."""


class UnstableOffsetCommitError(BrokerError):
    """Offsets of the partition are in a transaction that is not completed yet: try again."""


class RequestTimeoutError(BrokerError):
    """No reply came in time: whether the request was carried out is not known."""


class UpdaterDiedError(StreamproofError):
    """The state updater of a thread has died, and all that it had has to begin anew."""


class SubjectError(StreamproofError):
    """A store has raised what no store may raise: the run ends, and the store is to blame."""


class DivergedError(UsageError):
    """Choices that were recorded do not fit the run: its version or configuration is another."""
