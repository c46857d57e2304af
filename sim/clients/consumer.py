"""The consumer: it fetches ahead, and knows its lag as well as its last fetch.

Sources: KIP-695, Consumer#currentLag; Kafka, KafkaConsumer, FetchCollector, SubscriptionState.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from simpy.events import Event

from streamproof.sim.broker_errors import BrokerError, OffsetOutOfRangeError, RequestTimeoutError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Fetched, Isolation, LogEntry
from streamproof.sim.decisions.lag import current_lag
from streamproof.sim.hosts import Host, Steps
from streamproof.sim.network import Network
from streamproof.sim.world import World
from streamproof.stores.errors import InvalidArgumentError

__all__ = ["FETCH_MAX_WAIT_MS", "MAX_POLL_RECORDS", "Consumer", "Polled"]

MAX_POLL_RECORDS = 1_000
"""``max.poll.records``, as Kafka Streams sets it."""

FETCH_MAX_WAIT_MS = 500
"""``fetch.max.wait.ms``: how long a fetch waits at the brokers for a record."""


class Polled(NamedTuple):
    """What a poll returns.

    Attributes:
        records: by partition, in order.
        next_offsets: of each partition whose position moved: it may have passed markers and
            aborted records, even if there is no record.
    """

    records: dict[str, list[LogEntry]]
    next_offsets: dict[str, int]


@dataclass
class _Partition:
    """What the consumer knows of an assigned partition.

    Attributes:
        position: the next offset that a poll returns; ``None`` while it is looked for.
        end: the high watermark or the last stable offset, as the last polled fetch said.
        fetched_end: the same, of a fetch that was not polled yet.
        end_asked: whether the end was asked for, and the answer is still to come.
        paused: whether it is neither fetched nor returned.
        completed: a fetch that brought something, and was not polled to its end.
        buffered: its records that were not polled yet.
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
        host: whose it is.
        network: the way to the brokers.
        cluster: the brokers.
        isolation: whether it sees what is not committed.
        max_poll_records: at most so many records in a poll.
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
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        self._isolation: Isolation = isolation
        self._max_poll_records = max_poll_records
        self._partitions: dict[str, _Partition] = {}
        # The partitions of which a fetch may bring something; of all others the brokers have said
        # that there is nothing yet, and tell when there is (KIP-227, fetch sessions).
        self._fetchable: dict[str, None] = {}
        # The partitions of which there is an answer that was not polled, as they came.
        self._fetched: dict[str, None] = {}
        self._failed: deque[tuple[str, OffsetOutOfRangeError]] = deque()
        self._arrived = world.time.event()
        self._changed = world.time.event()
        self._is_woken = False
        self._is_closed = False
        host.start(self._fetch_ahead())

    # What is assigned.

    @property
    def assignment(self) -> list[str]:
        """The assigned partitions."""
        return list(self._partitions)

    def assign(self, partitions: Iterable[str]) -> None:
        """Take exactly these partitions; what was assigned already keeps its state."""
        before, wanted = self._partitions, sorted(set(partitions))
        self._partitions = {each: before[each] for each in wanted if each in before}
        for each in before:
            if each not in self._partitions:
                self._cluster.stop_telling(each, self._may_fetch)
                self._fetched.pop(each, None)
        self._failed = deque(each for each in self._failed if each[0] in self._partitions)
        self.add(wanted)

    def add(self, partitions: Iterable[str]) -> None:
        """Take these partitions, too; they have no position yet."""
        for each in partitions:
            if each not in self._partitions:
                self._partitions[each] = _Partition()
                self._cluster.tell_of_records(each, self._may_fetch)

    def seek(self, partition: str, offset: int) -> None:
        """Go on from an offset.

        The known end of the partition stays as the last fetch told it, so that the lag may be
        stale until the next fetch.
        """
        state = self._of(partition)
        # What was fetched from another position is stale, and says nothing.
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
        """The next offset that a poll returns; ``None`` if there is no position yet."""
        return self._of(partition).position

    def known_end(self, partition: str) -> int | None:
        """The end of a partition as the last polled fetch said; ``None`` if it is not known."""
        return self._of(partition).end

    def current_lag(self, partition: str) -> int | None:
        """The records behind the position, as far as the consumer knows; it never blocks.

        ``None`` means that it is not known: then the end is asked for, so that it will be.

        Raises:
            InvalidArgumentError: the partition is not assigned.

        Source: KIP-695, Consumer#currentLag.
        """
        state = self._of(partition)
        lag, ask_for_end = current_lag(state.position, state.end, asked=state.end_asked)
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
        """The next records, or the progress without any; nothing if there is none in time.

        Raises:
            OffsetOutOfRangeError: a position is out of range; its partition is ``args[1]``.
        """
        deadline = self._world.now + timeout_ms
        while True:
            if self._failed:
                partition, error = self._failed.popleft()
                raise OffsetOutOfRangeError(str(error), partition)
            polled = self._collect()
            left = deadline - self._world.now
            if polled.next_offsets or left <= 0 or self._is_woken:
                self._is_woken = False
                return polled
            yield self._world.time.any_of([self._arrived, self._world.time.timeout(left)])

    def wakeup(self) -> None:
        """Let the poll that waits, or the next one, come back at once with what there is.

        Source: Kafka, Consumer#wakeup, which raises there.
        """
        self._is_woken = True
        if not self._arrived.triggered:
            self._arrived.succeed()

    def _collect(self) -> Polled:
        """What has been fetched, up to the limit."""
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
        """Fetch what is not buffered, all partitions in one request, as long as it is open."""
        time = self._world.time
        while not self._is_closed:
            self._fetchable = dict.fromkeys(self._wanted())
            if not self._fetchable:
                yield self._next_change()
                continue
            changed, wanted = self._next_change(), dict[str, int]()
            try:
                throttle_ms, found = yield from self._network.call(
                    self._host.name, "fetch", partial(self._fetch, wanted)
                )
            except RequestTimeoutError:
                self._fetchable |= dict.fromkeys(wanted)
                continue
            if throttle_ms:
                yield time.timeout(throttle_ms)
                continue
            if not self._take(wanted, found) and self._fetchable:
                # Nothing came, though there is something: the answer was cut short.
                yield time.any_of([changed, time.timeout(FETCH_MAX_WAIT_MS)])

    def _wanted(self) -> dict[str, int]:
        """The position of each partition that may be fetched."""
        wanted = {}
        for partition in self._fetchable:
            state = self._partitions.get(partition)
            if state is None or state.paused or state.completed is not None:
                continue
            if state.position is not None:
                wanted[partition] = state.position
        return wanted

    def _may_fetch(self, partition: str) -> None:
        """A fetch may bring something of a partition from now on."""
        self._fetchable[partition] = None
        self._wake()

    def _fetch(
        self, wanted: dict[str, int]
    ) -> tuple[int, dict[str, Fetched | OffsetOutOfRangeError]]:
        """Carried out at the brokers: one partition that is out of range does not hurt others.

        They answer with what there is when the request arrives, not when it was sent. With a quota
        that is used up it is nothing, and for how many milliseconds.

        Args:
            wanted: takes the positions of what is looked at.
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
        """Keep what was fetched, unless the position has changed; whether there is news."""
        news = False
        committed = self._isolation == "read_committed"
        for partition, position in wanted.items():
            fetched, state = found.get(partition), self._partitions.get(partition)
            if fetched is None:
                self._fetchable[partition] = None
                continue
            if state is None or state.position != position:
                continue
            if isinstance(fetched, OffsetOutOfRangeError):
                self._failed.append((partition, fetched))
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
                self._host.name,
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
            raise InvalidArgumentError(
                f"{partition} is not assigned to this consumer, which has: "
                f"{', '.join(self._partitions) or 'nothing'}."
            ) from None
