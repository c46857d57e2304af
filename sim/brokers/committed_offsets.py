"""The committed offsets of a group, and who may commit them.

Sources: KIP-447 (offsets in transactions); Kafka, OffsetMetadataManager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from streamproof.sim.broker_errors import CoordinatorNotAvailableError, UnstableOffsetCommitError

__all__ = ["NO_TIMES", "CommittedOffsets"]

NO_TIMES: Mapping[str, int] = MappingProxyType({})
"""Offsets that are committed without metadata."""


class CommittedOffsets(ABC):
    """The offsets of a group. Each protocol of groups says which members may commit.

    Attributes:
        is_away: whether the coordinator is moving to another broker. It then refuses every request
            with CoordinatorNotAvailableError, and leaves no member out.
    """

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        # By producer: the offsets that count once its transaction is committed.
        self._pending: dict[int, dict[str, int]] = {}
        # The same for the metadata: the time that a partition had reached.
        self._times: dict[str, int] = {}
        self._pending_times: dict[int, dict[str, int]] = {}
        self.is_away = False

    @abstractmethod
    def _require_owner(self, member_id: str, epoch: int, partitions: Iterable[str]) -> None:
        """Refuse the offsets of a member if another member may own a partition by now.

        Raises:
            IllegalGenerationError: another member may.
        """

    @abstractmethod
    def hear_of_all(self, now: int) -> None:
        """Restart the wait for the members, as a coordinator does that has just moved here."""

    def _accept(self, member_id: str, epoch: int, partitions: Iterable[str]) -> None:
        self._require_here()
        self._require_owner(member_id, epoch, partitions)

    def _require_here(self) -> None:
        if self.is_away:
            raise CoordinatorNotAvailableError("The group coordinator moves: try again.")

    def commit(
        self,
        member_id: str,
        epoch: int,
        offsets: Mapping[str, int],
        *,
        times: Mapping[str, int] = NO_TIMES,
    ) -> None:
        """Commit offsets by partition. A member may commit while the others join.

        Args:
            member_id: the member that commits.
            epoch: the generation or the epoch of the member.
            offsets: the offsets by partition.
            times: as metadata, the times that some of the partitions have reached (KAFKA-7994).

        Raises:
            IllegalGenerationError: another member may own a partition by now.
        """
        self._accept(member_id, epoch, offsets)
        self._committed.update(offsets)
        self._times.update(times)

    def commit_in_transaction(
        self,
        producer: int,
        member_id: str,
        epoch: int,
        offsets: Mapping[str, int],
        *,
        times: Mapping[str, int] = NO_TIMES,
    ) -> None:
        """Add offsets to a producer's transaction. They count once the transaction is committed.

        Raises:
            IllegalGenerationError: another member may own a partition by now (KIP-447).
        """
        self._accept(member_id, epoch, offsets)
        self._pending.setdefault(producer, {}).update(offsets)
        self._pending_times.setdefault(producer, {}).update(times)

    def end_transaction(self, producer: int, *, commit: bool) -> dict[str, int]:
        """End a producer's transaction, as its marker says; return the offsets that it commits."""
        offsets = self._pending.pop(producer, {})
        times = self._pending_times.pop(producer, {})
        if not commit:
            return {}
        self._committed.update(offsets)
        self._times.update(times)
        return offsets

    def committed(self, partition: str, *, require_stable: bool = False) -> int | None:
        """The committed offset of a partition; ``None`` without one.

        Raises:
            UnstableOffsetCommitError: with ``require_stable``, a transaction that is not complete
                has another offset of the partition.
        """
        self._require_here()
        if require_stable and any(partition in each for each in self._pending.values()):
            raise UnstableOffsetCommitError(
                f"An offset of {partition} is in a transaction that is not complete yet."
            )
        return self._committed.get(partition)

    def committed_time(self, partition: str) -> int | None:
        """The committed time of a partition; ``None`` without one."""
        return self._times.get(partition)
