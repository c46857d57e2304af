"""The verdict on a store in a simulated world, by requirement."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.failure_shapes import shape_of_error
from streamproof.conformance.results import Guarantee, Spec
from streamproof.sim.broker_errors import SubjectError
from streamproof.sim.invariants import INVARIANTS, Invariant, InvariantViolation
from streamproof.sim.invariants.commits import StagedWritesAreBounded
from streamproof.sim.invariants.invariant import Observer
from streamproof.sim.invariants.kept_stores import OF_MODEL_STORES
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.aggregation import counted
from streamproof.sim.trace import Event
from streamproof.stores.capabilities import Capabilities, Durability

__all__ = [
    "SAME_TWICE",
    "Breach",
    "Situations",
    "breach_of",
    "breach_of_error",
    "invariants_for",
    "is_kept",
    "refused",
    "runtime_invariants_for",
]

OUTPUT, RESTORED, FOUND, VOUCHED = "PROTOCOL-001", "PROTOCOL-002", "PROTOCOL-003", "PROTOCOL-004"
NOT_LOST, KEPT, RUNS, RAISES = "PROTOCOL-005", "PROTOCOL-006", "PROTOCOL-007", "PROTOCOL-008"
BENEATH, AT_ONCE, OF_STANDBY, REACHED = "QUERY-001", "QUERY-002", "QUERY-003", "QUERY-004"
SAME_TWICE, TAKEN_OVER, KEPT_ALOS = "PROTOCOL-009", "PROTOCOL-010", "PROTOCOL-011"

_BLAME = {
    "EOS-001": (OUTPUT, "changed-output"),
    "EOS-002": (OUTPUT, "changed-output"),
    "EOS-003": (OUTPUT, "changed-output"),
    "TASK-001": (RESTORED, "changed-content"),
    "TASK-002": (VOUCHED, "changed-content"),
    "TASK-003": (FOUND, "changed-content"),
    "TASK-004": (VOUCHED, "changed-offset"),
    "TASK-005": (NOT_LOST, "lost-input"),
    "TASK-009": (RUNS, "wiped-after-close"),
    "ALOS-001": (NOT_LOST, "lost-write"),
    "ALOS-004": (NOT_LOST, "changed-output"),
    "QUERY-101": (BENEATH, "uncommitted-row"),
    "QUERY-102": (BENEATH, "changed-answer"),
    "QUERY-104": (AT_ONCE, "changed-answer"),
    "QUERY-110": (REACHED, "position-ahead"),
    "QUERY-111": (REACHED, "position-behind"),
    "QUERY-112": (REACHED, "position-back"),
    "QUERY-114": (OF_STANDBY, "changed-answer"),
    "QUERY-115": (BENEATH, "changed-range"),
    NOT_LOST: (NOT_LOST, "lost-count"),
    KEPT: (KEPT, "lower-offset"),
}
"""For the requirement of an invariant: the broken requirement of the store, and the shape. Every
other invariant is about the runtime, whose work the store has prevented; its requirement is the
shape."""


MOST_LINES = 12
"""The most lines about the events before a promise was broken."""


class Breach(NamedTuple):
    """A promise that a store has broken in a world."""

    requirement: str
    shape: str
    expected: str
    found: str


class DurableOffsetComesBack(Invariant):
    """A store still has its durable commits after the process has died.

    The durability level says when a commit is durable: at once, from the next flush on, or from
    the next clean close on.
    """

    name = "after a crash a store opens with the last offset that it has made durable"
    requirement = KEPT
    is_durable_at_once = True

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.committed": self._committed,
            "store.flushed": self._flushed,
            "store.opened": self._opened,
            "task.closed": self._closed,
            "task.wiped": self._gone,
            "state.cleaned": self._gone,
        }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, task and changelog: the committed offset and the durable offset.
        self._committed_to: dict[tuple[str, str], dict[str, int]] = {}
        self._durable: dict[tuple[str, str], dict[str, int]] = {}

    @staticmethod
    def _place(event: Event) -> tuple[str, str]:
        return event.process, event.task

    def _committed(self, event: Event) -> Iterator[str]:
        self._committed_to.setdefault(self._place(event), {})[event.partition] = event.offset
        if self.is_durable_at_once:
            yield from self._flushed(event)

    def _flushed(self, event: Event) -> Iterator[str]:
        place = self._place(event)
        offset = self._committed_to.get(place, {}).get(event.partition)
        if offset is not None:
            self._durable.setdefault(place, {})[event.partition] = offset
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        place = self._place(event)
        durable = self._durable.get(place, {}).get(event.partition, -1)
        self._committed_to.pop(place, None)
        # A store that reports "no offset yet" is as far as one that reports nothing.
        if max(event.offset, -1) < durable:
            yield (
                f"the store of {event.partition} in task {event.task} opened at offset "
                f"{event.offset}, although it had made {durable} durable on {place[0]}"
            )

    def _closed(self, event: Event) -> Iterator[str]:
        if event.attributes["closing"] == "CORRUPTED":
            yield from self._gone(event)

    def _gone(self, event: Event) -> Iterator[str]:
        self._committed_to.pop(self._place(event), None)
        self._durable.pop(self._place(event), None)
        yield from ()


class _AtTheNextFlush(DurableOffsetComesBack):
    """The same for a store whose commits are durable from the next flush on."""

    is_durable_at_once = False


class _AtTheNextClose(_AtTheNextFlush):
    """The same for a store whose commits are durable from the next clean close on."""

    def _flushed(self, event: Event) -> Iterator[str]:
        yield from ()

    def _closed(self, event: Event) -> Iterator[str]:
        yield from super()._closed(event)
        # A disk that is full when a store is closed makes the close of its task a dirty one.
        if event.attributes["closing"] == "CLEAN":
            place = self._place(event)
            self._durable.setdefault(place, {}).update(self._committed_to.get(place, {}))


_DURABLE: dict[Durability, type[DurableOffsetComesBack]] = {
    "close": _AtTheNextClose,
    "flush": _AtTheNextFlush,
    "process": DurableOffsetComesBack,
    "power": DurableOffsetComesBack,
}


class NothingIsLost(Invariant):
    """Under at-least-once each record counts at least once: none is lost, some may count again.

    A zombie may append an older count to a changelog as the last record, because the broker accepts
    it (see KIP-447). No store can prevent that, so such changelogs are skipped.
    """

    name = "each input record is counted at least once"
    requirement = NOT_LOST

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._partitions = 0
        self._counts = ""
        # The partition and the offset of each record that a handler has left out.
        self._left_out: set[tuple[str, int]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._start, "record.dropped": self._dropped}

    def _dropped(self, event: Event) -> Iterator[str]:
        self._left_out.add((event.partition, event.offset))
        yield from ()

    def _start(self, event: Event) -> Iterator[str]:
        if event.actor == "count":
            self._partitions = event.attributes["partitions"]["in"]
            self._counts = TOPOLOGIES["count"].topology(1).changelog("counts")
        yield from ()

    def at_end(self) -> Iterator[str]:
        """Compare the changelog with the input."""
        for number in range(self._partitions):
            if f"{self._counts}-{number}" in self.history.unseen.partitions:
                continue
            counts = {
                each.key: each.value for each in self.history.visible(f"{self._counts}-{number}")
            }
            taken = [
                each
                for each in self.history.visible(f"in-{number}")
                if (f"in-{number}", each.offset) not in self._left_out
            ]
            _, expected = counted(taken)
            for key, count in expected.items():
                found = int(counts.get(key) or b"0")
                if found < int(count):
                    yield f"in-{number} has {key!r} {int(count)} times, but the count is {found}"


def invariants_for(
    capabilities: Capabilities, guarantee: Guarantee, spec: Spec, *, transactional: bool
) -> tuple[type[Invariant], ...]:
    """The invariants of a world with a store inside.

    Args:
        capabilities: of the store.
        guarantee: the processing guarantee.
        spec: the spec.
        transactional: whether the store stages its writes.
    """
    exactly_once = guarantee == "exactly-once"
    own: list[type[Invariant]] = [] if exactly_once else [NothingIsLost]
    if is_kept(capabilities, exactly_once=exactly_once, transactional=transactional):
        own.append(_DURABLE[capabilities.durability])
    return (*runtime_invariants_for(capabilities, guarantee, spec), *own)


def runtime_invariants_for(
    capabilities: Capabilities, guarantee: Guarantee, spec: Spec
) -> tuple[type[Invariant], ...]:
    """The invariants that hold around any right store with these capabilities.

    Args:
        capabilities: of the store.
        guarantee: the processing guarantee.
        spec: the spec.
    """
    left_out = _not_asked(capabilities, guarantee, spec)
    # How a model store loses what it wrote, and how it counts what it stages, is known; of this
    # store, only its claims are.
    of_others = (*OF_MODEL_STORES, StagedWritesAreBounded)
    asked = [each for each in INVARIANTS if each not in of_others]
    return tuple(each for each in asked if each.requirement not in left_out)


def _not_asked(capabilities: Capabilities, guarantee: Guarantee, spec: Spec) -> set[str]:
    """The requirements of queries that do not depend on such a store, or that it need not keep.

    A view at READ_UNCOMMITTED may lack staged writes, and one at READ_COMMITTED may have writes
    that are staged under at-least-once, where nobody relies on them (KIP-892).
    """
    catalogue = load_catalogue()
    left_out = {
        requirement
        for requirement, (blamed, _) in _BLAME.items()
        if catalogue[blamed].area == "QUERY"
        and catalogue[blamed].why_not_applicable(capabilities, guarantee, spec)
    }
    return left_out | {"QUERY-105" if guarantee == "exactly-once" else "QUERY-102"}


def is_kept(capabilities: Capabilities, *, exactly_once: bool, transactional: bool) -> bool:
    """Whether a crash must not cost the content of the store, so that it is used again."""
    keeps = capabilities.persistent and capabilities.manages_offsets
    return keeps and (transactional or not exactly_once)


def breach_of(violation: InvariantViolation, situations: Situations) -> Breach:
    """The requirement that a store breaks if an invariant does not hold."""
    requirement, shape = _BLAME.get(violation.requirement, (RUNS, violation.requirement))
    if requirement == KEPT:
        requirement = situations.kept
    if requirement == NOT_LOST:
        requirement = situations.not_lost
    if requirement in {RESTORED, FOUND} and situations.was_standby(violation.event):
        requirement = TAKEN_OVER
    return Breach(requirement, shape, f"that {violation.invariant}", violation.message)


def breach_of_error(error: Exception) -> Breach:
    """The requirement that a store breaks if an error ends the world early."""
    if isinstance(error, SubjectError):
        cause = error.__cause__ or error
        match = re.search(r" from (\w+)\(\)", str(error))
        call = f"store.{match[1]}()" if match else "store.init()"
        shape = shape_of_error(cause, call)
        return Breach(RAISES, shape, "only errors that a store may raise", str(error))
    found = f"{type(error).__name__}: {error}"
    shape = shape_of_error(error, "store.get()")
    return Breach(RUNS, shape, "answers of the store that the runtime can work with", found)


def refused(times: int, situations: Situations) -> Breach:
    """The requirement that a store breaks if it asks for a wipe although it must be kept."""
    expected = "that the store can be used again after a crash"
    found = f"TaskCorruptedError from init(), {times} times"
    return Breach(situations.kept, "refused-opening", expected, found)


class Situations:
    """Records which requirements a world exercises.

    Args:
        exactly_once: the guarantee.
        kept: whether stores must be used again after a crash.
        standbys: whether the world has standbys besides those that only prepare a move.

    Attributes:
        kept: the requirement that a store is used again after a crash.
        not_lost: the requirement that no input is lost; under exactly-once, the output shows it.
        seen: the exercised requirements.
        lines: the last events of the stores and their processes, in words.
    """

    def __init__(self, *, exactly_once: bool, kept: bool, standbys: bool) -> None:
        self._exactly_once = exactly_once
        self._kept = kept
        self._has_standbys = standbys
        self.kept = KEPT if exactly_once else KEPT_ALOS
        self.not_lost = OUTPUT if exactly_once else NOT_LOST
        self._crashed: set[str] = set()
        # The tasks, by process, that are standbys or were standbys until they became active.
        self._standbys: set[tuple[str, str]] = set()
        self.seen: dict[str, None] = dict.fromkeys([RUNS, RAISES])
        self.lines: deque[str] = deque(maxlen=MOST_LINES)

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if event.kind in _TOLD:
            self.lines.append(_in_words(event))
        shown = self._shown_by_query(event) if event.kind == "query.served" else ()
        for requirement in (self._shown_by(event), *shown):
            if requirement:
                self.seen[requirement] = None

    def was_standby(self, event: Event | None) -> bool:
        """Whether an event is about a store that its process has kept as a standby."""
        return event is not None and (event.process, event.task) in self._standbys

    def _shown_by_query(self, event: Event) -> Iterator[str]:
        """The requirements that the answer to a query exercises."""
        more = event.attributes
        if not more["rows"]:
            return
        is_committed = more["isolation"] == "READ_COMMITTED"
        if not more["is_active"]:
            yield OF_STANDBY
        elif is_committed is self._exactly_once:
            yield BENEATH if is_committed else AT_ONCE
        if more["position"]:
            yield REACHED

    def _shown_by(self, event: Event) -> str:
        """The requirement that an event exercises; empty if it exercises none."""
        process, more = event.process, event.attributes
        if event.kind in _COMPARED:
            return _COMPARED[event.kind] if more["rows"] else ""
        if event.kind == "instance.crashed":
            self._crashed.add(process)
            self._standbys = {each for each in self._standbys if each[0] != process}
            return self.not_lost
        if event.kind == "store.opened" and self._kept and process in self._crashed:
            return self.kept if event.offset >= 0 else ""
        if event.kind == "update.start" and self._has_standbys:
            self._standbys.add((process, event.task))
        if event.kind == "restore.start" and (process, event.task) in self._standbys:
            return TAKEN_OVER
        return ""


_COMPARED = {"store.running": RESTORED, "store.found": FOUND, "store.closing": VOUCHED}
"""The events that report the content of a store, and the requirement that each exercises if the
store has entries."""

_TOLD = (
    "instance.crashed",
    "instance.started",
    "instance.stopped",
    "store.opened",
    "store.committed",
    "store.flushed",
    "task.wiped",
    "task.closed",
)
"""The events that the report of a failure shows."""


def _in_words(event: Event) -> str:
    offset = f"@{event.offset}" if event.offset >= 0 else ""
    where = f" {event.partition}{offset}" if event.partition else ""
    task = f" of task {event.task}" if event.task else ""
    return f"{event.time:,} ms: {event.actor} {event.kind}{where}{task}"
