"""The consumer: it fetches ahead, and knows its lag from its last fetch.

Sources: KIP-695, Consumer#currentLag; Kafka, KafkaConsumer, FetchCollector, SubscriptionState.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import BrokerError, OffsetOutOfRangeError, RequestTimeoutError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Fetched, Isolation, LogEntry
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.lag import current_lag
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = ["FETCH_MAX_WAIT_MS", "MAX_POLL_RECORDS", "Consumer", "IllegalStateError", "Polled"]

MAX_POLL_RECORDS = 1_000
"""``max.poll.records``, as Kafka Streams sets it."""

FETCH_MAX_WAIT_MS = 500
"""``fetch.max.wait.ms``: how long a fetch waits at the brokers for a record."""


class IllegalStateError(Exception):
    """The state of the consumer does not allow the call (Kafka: IllegalStateException)."""


class Polled(NamedTuple):
    """The result of a poll.

    Attributes:
        records: the records by partition, in order.
        next_offsets: the positions that have moved, by partition. A position may pass markers and
            aborted records without returning a record.
    """

    records: dict[str, list[LogEntry]]
    next_offsets: dict[str, int]


@dataclass
class _Partition:
    """The state of an assigned partition.

    Attributes:
        position: the next offset that a poll returns; ``None`` while the consumer looks for it.
        end: the high watermark or the last stable offset, as the last polled fetch said.
        fetched_end: the same, from a fetch that was not polled yet.
        end_asked: whether the consumer has asked for the end, and waits for the answer.
        paused: whether the partition is neither fetched nor returned.
        completed: a fetch with news that was not polled to its end.
        buffered: the records of that fetch that were not polled yet.
    """

    position: int | None = None
    end: int | None = None
    fetched_end: int | None = None
    end_asked: bool = False
    paused: bool = False
    completed: Fetched | None = None
    buffered: deque[LogEntry] = field(default_factory=deque)


class Consumer:
    """A consumer of one thread.

    Args:
        world: the world.
        host: the process of the consumer.
        network: the way to the brokers.
        cluster: the brokers.
        isolation: whether the consumer sees uncommitted records.
        max_poll_records: the largest number of records in a poll.
        mode: whether ``current_lag`` only reads what is known, as KIP-695 proposes, or also
            requests an unknown end, as Kafka ships it.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        *,
        isolation: Isolation,
        max_poll_records: int = MAX_POLL_RECORDS,
        mode: Mode = "proposal",
    ) -> None:
        self._mode: Mode = mode
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        self._isolation: Isolation = isolation
        self._max_poll_records = max_poll_records
        self._partitions: dict[str, _Partition] = {}
        # The partitions that a fetch may bring news of. The brokers have said that the others have
        # none, and say when they do (KIP-227, fetch sessions).
        self._fetchable: dict[str, None] = {}
        # The partitions with an answer that was not polled yet, in the order of the answers.
        self._fetched: dict[str, None] = {}
        self._failed: deque[tuple[str, OffsetOutOfRangeError]] = deque()
        self._arrived = world.time.event()
        self._changed = world.time.event()
        self._is_woken = False
        self._is_closed = False
        host.start(self._fetch_ahead())

    # Assignment and positions.

    @property
    def assignment(self) -> list[str]:
        """The assigned partitions."""
        return list(self._partitions)

    def assign(self, partitions: Iterable[str]) -> None:
        """Take exactly these partitions. One that was assigned before keeps its state."""
        before, wanted = self._partitions, sorted(set(partitions))
        self._partitions = {each: before[each] for each in wanted if each in before}
        for each in before:
            if each not in self._partitions:
                self._cluster.stop_telling(each, self._may_fetch)
                self._fetched.pop(each, None)
        self._failed = deque(each for each in self._failed if each[0] in self._partitions)
        self.add(wanted)

    def add(self, partitions: Iterable[str]) -> None:
        """Take these partitions as well. A new one has no position yet."""
        for each in partitions:
            if each not in self._partitions:
                self._partitions[each] = _Partition()
                self._cluster.tell_of_records(each, self._may_fetch)

    def seek(self, partition: str, offset: int) -> None:
        """Go on from an offset.

        The known end of the partition is that of the last fetch, so the lag may be stale until the
        next fetch.
        """
        state = self._of(partition)
        # Records that were fetched from another position are stale, and so is the end.
        state.position, state.completed, state.fetched_end = offset, None, None
        state.buffered.clear()
        self._failed = deque(each for each in self._failed if each[0] != partition)
        self._may_fetch(partition)

    def pause(self, partitions: Iterable[str]) -> None:
        """Neither fetch nor return records of these partitions."""
        for each in partitions:
            self._of(each).paused = True

    def resume(self, partitions: Iterable[str]) -> None:
        """Fetch and return their records again."""
        for each in partitions:
            self._of(each).paused = False
            self._may_fetch(each)

    def paused(self) -> list[str]:
        """The partitions that are paused."""
        return [each for each, state in self._partitions.items() if state.paused]

    def position(self, partition: str) -> int | None:
        """The next offset that a poll returns; ``None`` without a position."""
        return self._of(partition).position

    def known_end(self, partition: str) -> int | None:
        """The end of a partition as the last polled fetch said; ``None`` if it is not known."""
        return self._of(partition).end

    def current_lag(self, partition: str) -> int | None:
        """The number of records behind the position, from memory: the call never blocks.

        ``None`` means that the lag is not known. As proposed, the next fetch brings the end. As
        shipped, the consumer then also asks for the end, in the background.

        Raises:
            IllegalStateError: the partition is not assigned.

        Source: KIP-695, Consumer#currentLag.
        """
        state = self._of(partition)
        lag, ask_for_end = current_lag(
            state.position, state.end, asked=state.end_asked, mode=self._mode
        )
        if ask_for_end:
            state.end_asked = True
            self._host.start(self._ask_for_end(partition, state))
        return lag

    def close(self) -> None:
        """Stop fetching."""
        self._is_closed = True
        self.assign([])
        self._wake()

    # Polling.

    def poll(self, timeout_ms: int) -> Generator[Event, Any, Polled]:
        """The next records, or a position that moved without records; empty if the time runs out.

        Raises:
            OffsetOutOfRangeError: a position, ``args[2]``, is out of range in its partition,
                ``args[1]``.
        """
        deadline = self._world.now + timeout_ms
        while True:
            if self._failed:
                raise self._failed.popleft()[1]
            polled = self._collect()
            left = deadline - self._world.now
            if polled.next_offsets or left <= 0 or self._is_woken:
                self._is_woken = False
                return polled
            yield self._world.time.any_of([self._arrived, self._world.time.timeout(left)])

    def wakeup(self) -> None:
        """Make the waiting poll, or the next one, return at once with the records that it has.

        Source: Kafka, Consumer#wakeup. There the poll raises instead.
        """
        self._is_woken = True
        if not self._arrived.triggered:
            self._arrived.succeed()

    def _collect(self) -> Polled:
        """The fetched records, up to the limit of a poll."""
        records: dict[str, list[LogEntry]] = {}
        next_offsets: dict[str, int] = {}
        left = self._max_poll_records
        for partition in list(self._fetched):
            state = self._partitions[partition]
            if state.fetched_end is not None:
                state.end, state.fetched_end, state.end_asked = state.fetched_end, None, False
            completed = state.completed
            if completed is None:
                del self._fetched[partition]
                continue
            if state.paused or not left:
                continue
            taken = [state.buffered.popleft() for _ in range(min(left, len(state.buffered)))]
            if taken:
                records[partition] = taken
                left -= len(taken)
            if state.buffered:
                state.position = taken[-1].offset + 1
            else:
                state.position, state.completed = completed.next_offset, None
                del self._fetched[partition]
                self._may_fetch(partition)
            next_offsets[partition] = state.position
        if self._arrived.triggered:
            self._arrived = self._world.time.event()
        return Polled(records, next_offsets)

    # Fetching.

    def _fetch_ahead(self) -> Steps:
        """Fetch all partitions without buffered records, in one request, until it is closed."""
        time = self._world.time
        while not self._is_closed:
            self._fetchable = dict.fromkeys(self._wanted())
            if not self._fetchable:
                yield self._next_change()
                continue
            changed, wanted = self._next_change(), dict[str, int]()
            try:
                throttle_ms, found = yield from self._network.call(
                    self._host, "fetch", partial(self._fetch, wanted)
                )
            except RequestTimeoutError:
                self._fetchable |= dict.fromkeys(wanted)
                continue
            if throttle_ms:
                yield time.timeout(throttle_ms)
                continue
            if not self._take(wanted, found) and self._fetchable:
                # The answer was cut short to nothing, although the brokers have records.
                yield time.any_of([changed, time.timeout(FETCH_MAX_WAIT_MS)])

    def _wanted(self) -> dict[str, int]:
        """The positions of the partitions that may be fetched."""
        wanted = {}
        for partition in self._fetchable:
            state = self._partitions.get(partition)
            if state is None or state.paused or state.completed is not None:
                continue
            if state.position is not None:
                wanted[partition] = state.position
        return wanted

    def _may_fetch(self, partition: str) -> None:
        """Note that a fetch may bring news of a partition from now on."""
        self._fetchable[partition] = None
        self._wake()

    def _fetch(
        self, wanted: dict[str, int]
    ) -> tuple[int, dict[str, Fetched | OffsetOutOfRangeError]]:
        """Carry a fetch out, at the brokers. One partition out of range does not hurt the others.

        The answer is the state of the logs when the request arrives, not when it was sent. Without
        quota the answer has no records, but the number of milliseconds to wait.

        Args:
            wanted: takes the positions of the partitions that the brokers look at.
        """
        found: dict[str, Fetched | OffsetOutOfRangeError] = {}
        throttle_ms = self._cluster.throttle_ms()
        if throttle_ms:
            return throttle_ms, found
        wanted |= self._wanted()
        self._fetchable.clear()
        most = self._max_poll_records
        for partition, position in wanted.items():
            try:
                fetched = self._cluster.fetch(partition, position, self._isolation, most)
            except OffsetOutOfRangeError as error:
                found[partition] = error
            else:
                if fetched is not None:
                    found[partition] = fetched
        return 0, found

    def _take(
        self,
        wanted: Mapping[str, int],
        found: Mapping[str, Fetched | OffsetOutOfRangeError],
    ) -> bool:
        """Keep the answer, unless the position has changed; return whether it brings news."""
        news = False
        committed = self._isolation == "read_committed"
        committed &= not self._world.defect("counts-open-transactions-as-lag")
        for partition, position in wanted.items():
            fetched, state = found.get(partition), self._partitions.get(partition)
            if fetched is None:
                self._fetchable[partition] = None
                continue
            if state is None or state.position != position:
                continue
            if isinstance(fetched, OffsetOutOfRangeError):
                error = OffsetOutOfRangeError(str(fetched), partition, position)
                self._failed.append((partition, error))
                state.position = None
                news = True
                continue
            end = fetched.last_stable_offset if committed else fetched.high_watermark
            state.fetched_end = end
            self._fetched[partition] = None
            if fetched.next_offset > position:
                state.completed = fetched
                state.buffered.extend(fetched.records)
                news = True
            elif end > position:
                self._fetchable[partition] = None
        if news and not self._arrived.triggered:
            self._arrived.succeed()
        return news

    def _ask_for_end(self, partition: str, state: _Partition) -> Steps:
        """Ask the brokers for the end of a partition (Kafka: ListOffsets)."""
        log = self._cluster.logs[partition]
        committed = self._isolation == "read_committed"
        try:
            end = yield from self._network.call(
                self._host,
                "list offsets",
                lambda: log.last_stable_offset if committed else log.end,
            )
        except BrokerError:
            # The next call may ask again (KAFKA-20131).
            state.end_asked = False
            return
        if state.end_asked:
            state.end, state.end_asked = end, False

    def _next_change(self) -> Event:
        if self._changed.triggered:
            self._changed = self._world.time.event()
        return self._changed

    def _wake(self) -> None:
        if not self._changed.triggered:
            self._changed.succeed()

    def _of(self, partition: str) -> _Partition:
        try:
            return self._partitions[partition]
        except KeyError:
            raise IllegalStateError(
                f"{partition} is not assigned to this consumer. Use one of: "
                f"{', '.join(self._partitions) or 'none'}."
            ) from None
