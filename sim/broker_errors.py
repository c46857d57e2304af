"""The errors of brokers and of the simulated runtime. The names are Kafka's."""

from __future__ import annotations

from streamproof.errors import StreamproofError, UsageError

__all__ = [
    "BrokerError",
    "ConcurrentTransactionsError",
    "CoordinatorNotAvailableError",
    "DivergedError",
    "FencedMemberEpochError",
    "IllegalGenerationError",
    "InvalidPidMappingError",
    "InvalidTxnStateError",
    "NotLeaderOrFollowerError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "PatchError",
    "ProducerFencedError",
    "RequestTimeoutError",
    "SubjectError",
    "TaskTimeoutError",
    "UnreleasedInstanceIdError",
    "UnstableOffsetCommitError",
    "UpdaterDiedError",
]


class BrokerError(StreamproofError):
    """A broker refused a request."""


class OffsetOutOfRangeError(BrokerError):
    """The offset is before the start of the log, or behind its end."""


class NotLeaderOrFollowerError(BrokerError):
    """The broker does not lead the partition just now: try again."""


class OutOfOrderSequenceError(BrokerError):
    """A producer's batch does not follow the batch before it: records between them were lost."""


class ProducerFencedError(BrokerError):
    """Another producer has begun under the same transactional id: this one is a zombie."""


class InvalidTxnStateError(BrokerError):
    """The state of the transaction does not allow the request."""


class ConcurrentTransactionsError(BrokerError):
    """The transaction before is not complete yet: try again."""


class CoordinatorNotAvailableError(BrokerError):
    """The coordinator is moving to another broker: try again."""


class InvalidPidMappingError(BrokerError):
    """The transactional id has expired, or belongs to another producer: this one is fenced."""


class IllegalGenerationError(BrokerError):
    """The member is not of the current generation of the group, or not a member at all."""


class FencedMemberEpochError(IllegalGenerationError):
    """The member is behind its epoch: it gives up all tasks and joins anew (KIP-848)."""


class UnreleasedInstanceIdError(BrokerError):
    """Another process has the name of the static member, and has not left (KIP-848)."""


class UnstableOffsetCommitError(BrokerError):
    """Offsets of the partition are in a transaction that is not completed yet: try again."""


class RequestTimeoutError(BrokerError):
    """No reply came in time. Whether the request was carried out is unknown."""


class UpdaterDiedError(StreamproofError):
    """The state updater of a thread has died, and all of its tasks must start over."""


class TaskTimeoutError(StreamproofError):
    """The requests of a task got no answer for ``task.timeout.ms``: its thread ends (KIP-572)."""


class SubjectError(StreamproofError):
    """A store raised an error that it must not raise: the run ends, and the store is at fault."""


class PatchError(UsageError):
    """A function that replaces one of the runtime has failed: the run says nothing."""


class DivergedError(UsageError):
    """Recorded choices do not fit the run: its version or its configuration has changed."""
