"""The transaction coordinator: which producer may write, and how a transaction ends.

A transaction is decided first. After that its markers are written, one partition at a time: in
between, one partition shows the transaction and another does not. A decision stands, even if the
network loses the reply.

There are two versions of the protocol. In version 1 a producer keeps its epoch from one transaction
to the next, so that a late request of the one before may be taken for one of the next. In version
2, each decision raises the epoch, so that the brokers refuse whatever arrives after it (KIP-890).

Sources: KIP-98, KIP-447, KIP-890; Kafka, TransactionCoordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from streamproof.sim.broker_errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)

__all__ = [
    "CoordinatedTransaction",
    "Marker",
    "ProducerIdentity",
    "TransactionCoordinator",
    "TransactionState",
    "TransactionVersion",
]

TransactionVersion = Literal[1, 2]
"""The version of the protocol, ``transaction.version``; 2 is the default since Kafka 4.0."""


class TransactionState(Enum):
    """The state of a transaction."""

    EMPTY = "none was begun"
    ONGOING = "records may be added"
    PREPARE_COMMIT = "it will be committed"
    PREPARE_ABORT = "it will be aborted"
    COMPLETE_COMMIT = "it was committed, and all markers are written"
    COMPLETE_ABORT = "it was aborted, and all markers are written"


IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""The states in which a new transaction may begin."""


_DECIDED = {
    True: (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
    False: (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
}


@dataclass(frozen=True)
class ProducerIdentity:
    """The identity of a producer. Each instance of a transactional id has its own epoch."""

    producer: int
    epoch: int

    def raised(self) -> ProducerIdentity:
        """The same producer in its next epoch."""
        return ProducerIdentity(self.producer, self.epoch + 1)


class Marker(NamedTuple):
    """A marker to be written, into a partition or for the offsets of a group."""

    transactional_id: str
    target: str
    identity: ProducerIdentity
    commit: bool


@dataclass
class CoordinatedTransaction:
    """A transactional id and its transaction, as the coordinator knows them.

    Attributes:
        targets: the partitions and groups that take part, in the order in which they came.
        unmarked: the targets whose marker is still to be written.
        deadline: when the transaction is aborted unless it has ended, in milliseconds.
        timeout_ms: how long a transaction may take, in milliseconds.
        last_used: when the id was used last, in milliseconds.
        version: the version of the protocol that its producer speaks.
        ended: the producer that has asked for the last decision, to recognise it when it asks
            again; ``None`` if the coordinator has decided by itself.
    """

    identity: ProducerIdentity
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    deadline: int = 0
    targets: list[str] = field(default_factory=list)
    unmarked: list[str] = field(default_factory=list)
    last_used: int = 0
    version: TransactionVersion = 1
    ended: ProducerIdentity | None = None


class TransactionCoordinator:
    """Decides transactions. The caller writes the markers that follow.

    Args:
        fences: whether a new producer ends the transaction of its predecessor, as it must.
        raises_epochs: whether each decision raises the epoch in version 2, as it must.

    Attributes:
        is_away: whether it moves to another broker now, and refuses every request until then.
    """

    def __init__(self, *, fences: bool = True, raises_epochs: bool = True) -> None:
        self._fences = fences
        self._raises_epochs = raises_epochs
        self.is_away = False
        self._transactions: dict[str, CoordinatedTransaction] = {}
        self._unwritten: list[Marker] = []
        self._next_producer = 0

    def new_producer(self) -> ProducerIdentity:
        """A producer without transactions, which nobody fences."""
        self._next_producer += 1
        return ProducerIdentity(self._next_producer, 0)

    def of(self, transactional_id: str) -> CoordinatedTransaction | None:
        """What is known of a transactional id; ``None`` before its first producer."""
        return self._transactions.get(transactional_id)

    def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        now: int = 0,
        *,
        version: TransactionVersion = 1,
    ) -> ProducerIdentity:
        """A new producer for a transactional id; its predecessor is fenced from now on.

        Args:
            transactional_id: the id.
            timeout_ms: how long a transaction may take, in milliseconds.
            now: the time, in milliseconds.
            version: the version of the protocol that the producer speaks.

        Raises:
            CoordinatorNotAvailableError: try again.
            ConcurrentTransactionsError: the transaction of the predecessor must end first. If it
                was open, it is being aborted: try again once its markers are written.
        """
        self._require_here()
        found = self._transactions.get(transactional_id)
        if found is None:
            identity = self.new_producer()
            self._transactions[transactional_id] = CoordinatedTransaction(
                identity, timeout_ms, last_used=now, version=version
            )
            return identity
        found.last_used = now
        if not self._fences:
            return found.identity
        if found.state is TransactionState.ONGOING:
            self._decide(transactional_id, found, commit=False, fence=True)
        if found.state not in IDLE:
            raise _not_complete(transactional_id)
        found.state = TransactionState.EMPTY
        found.identity = found.identity.raised()
        found.timeout_ms, found.version = timeout_ms, version
        return found.identity

    def raise_epoch(self, transactional_id: str, identity: ProducerIdentity) -> ProducerIdentity:
        """Give a producer its next epoch, after the abort of a record that it has given up.

        Without that, the record might still arrive, and count as one of the next transaction.

        Raises:
            ProducerFencedError: the producer is not the last one of its id.
            ConcurrentTransactionsError: the transaction before is not complete yet.

        Source: KIP-360.
        """
        found = self._current(transactional_id, identity)
        if found.state not in IDLE:
            raise _not_complete(transactional_id)
        found.state = TransactionState.EMPTY
        found.identity = found.identity.raised()
        return found.identity

    def require_open(
        self, transactional_id: str, identity: ProducerIdentity, partition: str
    ) -> None:
        """Refuse a record for a partition that is not part of the open transaction.

        Raises:
            ProducerFencedError: the producer is not the last one of its id.
            InvalidTxnStateError: the partition is not part of an open transaction of the producer.

        Source: KIP-890, "Verification of partitions"; since Kafka 3.6.
        """
        found = self._current(transactional_id, identity)
        if found.state is not TransactionState.ONGOING or partition not in found.targets:
            raise InvalidTxnStateError(
                f"{transactional_id} has no open transaction with {partition}, so the record is "
                "not taken. Add the partition to the transaction first."
            )

    def add(
        self, transactional_id: str, identity: ProducerIdentity, targets: Iterable[str], now: int
    ) -> bool:
        """Take partitions, or groups, into the transaction; return whether that begins it.

        Raises:
            ProducerFencedError: the producer is not the last one of its id.
            ConcurrentTransactionsError: the transaction before is not complete yet.
        """
        found = self._current(transactional_id, identity)
        if found.state not in (*IDLE, TransactionState.ONGOING):
            raise _not_complete(transactional_id)
        begins = found.state in IDLE
        if begins:
            found.state = TransactionState.ONGOING
            found.deadline = now + found.timeout_ms
        found.last_used = now
        found.targets += [each for each in targets if each not in found.targets]
        return begins

    def end(self, transactional_id: str, identity: ProducerIdentity, *, commit: bool) -> bool:
        """Decide a transaction; whether that is new.

        To ask for the same end again is no mistake: the reply was lost.

        Raises:
            ProducerFencedError: the producer is not the last one of its id.
            InvalidTxnStateError: no transaction is open, or its other end was decided.
            ConcurrentTransactionsError: the transaction before is not complete yet.
        """
        self._require_here()
        known = self._transactions.get(transactional_id)
        if known is not None and known.ended == identity and known.state in _DECIDED[commit]:
            return False
        found = self._current(transactional_id, identity)
        if found.version == 2 and not commit and found.state is not TransactionState.ONGOING:
            self._abort_nothing(transactional_id, found)
            return False
        if found.state in _DECIDED[commit]:
            return False
        if found.state is not TransactionState.ONGOING:
            raise InvalidTxnStateError(
                f"{transactional_id} cannot {'commit' if commit else 'abort'}: "
                f"its transaction is {found.state.name}. Only an ongoing transaction can end."
            )
        self._decide(transactional_id, found, commit=commit)
        found.ended = identity
        return True

    def _abort_nothing(self, transactional_id: str, found: CoordinatedTransaction) -> None:
        """Raise the epoch without a transaction: a record that was given up may still arrive.

        Raises:
            ConcurrentTransactionsError: the transaction before is not complete yet.

        Source: Kafka, TransactionCoordinator#endTransaction, for transactions without a partition.
        """
        if found.state not in IDLE:
            raise _not_complete(transactional_id)
        found.ended, found.state = found.identity, TransactionState.COMPLETE_ABORT
        if self._raises_epochs:
            found.identity = found.identity.raised()

    def idle_since(self, time: int) -> list[str]:
        """The transactional ids that have no transaction, and were not used since a time."""
        return [
            name
            for name, each in self._transactions.items()
            if each.state in IDLE and each.last_used <= time
        ]

    def forget(self, transactional_id: str) -> None:
        """Let a transactional id that has no transaction expire."""
        del self._transactions[transactional_id]

    def expire(self, now: int) -> list[str]:
        """Abort transactions that took too long; return the ids whose producers this fences.

        While the coordinator is away, nothing is decided.
        """
        if self.is_away:
            return []
        for each in self._transactions.values():
            if each.state not in IDLE:
                each.last_used = now
        late = [
            name
            for name, each in self._transactions.items()
            if each.state is TransactionState.ONGOING and now >= each.deadline
        ]
        for name in late:
            self._decide(name, self._transactions[name], commit=False, fence=True)
        return late

    def pending_markers(self) -> list[Marker]:
        """The markers that have to be written, in the order of their decisions."""
        return list(self._unwritten)

    def marked(self, marker: Marker) -> bool:
        """A marker was written; whether the transaction is complete by that."""
        found = self._transactions[marker.transactional_id]
        self._unwritten.remove(marker)
        found.unmarked.remove(marker.target)
        if found.unmarked:
            return False
        self._complete(found)
        return True

    def _current(self, transactional_id: str, identity: ProducerIdentity) -> CoordinatedTransaction:
        self._require_here()
        found = self._transactions.get(transactional_id)
        if found is None or found.identity.producer != identity.producer:
            raise InvalidPidMappingError(
                f"Transactional id {transactional_id} has expired since producer "
                f"{identity.producer} last used it: begin anew with another producer."
            )
        if found.identity != identity:
            raise ProducerFencedError(
                f"Producer {identity.producer} of epoch {identity.epoch} is not the last one of "
                f"{transactional_id}: another producer has begun, or the transaction took too "
                "long. Begin anew with another producer."
            )
        return found

    def _require_here(self) -> None:
        if self.is_away:
            raise CoordinatorNotAvailableError("The transaction coordinator moves: try again.")

    def _decide(
        self,
        transactional_id: str,
        found: CoordinatedTransaction,
        *,
        commit: bool,
        fence: bool = False,
    ) -> None:
        found.state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        found.unmarked = list(found.targets)
        found.ended = None
        if fence or (found.version == 2 and self._raises_epochs):
            # The markers carry the new epoch, so that the logs refuse the old one, too.
            found.identity = found.identity.raised()
        self._unwritten += [
            Marker(transactional_id, target, found.identity, commit) for target in found.unmarked
        ]
        if not found.unmarked:
            self._complete(found)

    @staticmethod
    def _complete(found: CoordinatedTransaction) -> None:
        committed = found.state is TransactionState.PREPARE_COMMIT
        found.state = (
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        )
        found.targets = []


def _not_complete(transactional_id: str) -> ConcurrentTransactionsError:
    return ConcurrentTransactionsError(
        f"The transaction of {transactional_id} before is not complete yet."
    )
