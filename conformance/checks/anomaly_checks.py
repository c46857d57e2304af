"""Isolation anomalies: schedules of transactions and readers on one thread, judged by history.

The checks record every operation and find anomalies from that record alone; see
:mod:`streamproof.conformance.isolation_history` and ``docs/isolation.md``. A schedule is a list of
steps, so a failing schedule shrinks like any other program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple, cast

from hypothesis import strategies as st

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.isolation_history import (
    Anomaly,
    FoundAnomaly,
    IsolationHistory,
    ObservedTransaction,
    Read,
)
from streamproof.conformance.lab import CHANGELOG, IsolationLevel
from streamproof.conformance.trial import Handle, Trial

__all__ = ["KEYS", "AnomalyStage", "judge"]

KEYS = (b"a", b"b", b"c")
"""The keys of a schedule. All but the last have a value before the schedule begins."""

REQUIREMENTS = {
    Anomaly.DIRTY_READ: "ISO-009",
    Anomaly.ABORTED_READ: "ISO-010",
    Anomaly.INTERMEDIATE_READ: "ISO-011",
    Anomaly.FRACTURED_READ: "ISO-012",
    Anomaly.BACKWARD_READ: "ISO-013",
    Anomaly.LOST_WRITE: "ISO-014",
    Anomaly.CIRCULAR_FLOW: "ISO-015",
    Anomaly.DIRTY_WRITE: "ISO-015",
    Anomaly.STALE_READ: "ISO-016",
    Anomaly.INVENTED_VALUE: "ISO-017",
    Anomaly.OWN_WRITE_MISSED: "ISO-017",
    Anomaly.LONG_FORK: "ISO-018",
}
"""The requirement that forbids each anomaly to a READ_COMMITTED reader."""

ANY_OTHER = "ISO-016"
"""The requirement for an error, and for an anomaly whose own requirement does not apply: stale
reads."""

UNCOMMITTED_READERS = "ISO-019"
"""The requirement that forbids the anomalies that even READ_UNCOMMITTED does not permit."""

WITHOUT_TRANSACTIONS = "ISO-020"
"""The requirement that forbids every anomaly in a store where each put is a commit."""

Action = Literal["put", "get", "scan", "commit", "rollback"]


class ScheduleStep(NamedTuple):
    """One step of a schedule.

    Attributes:
        actor: ``w``, a writer in its transaction, or ``r``, a concurrent reader.
        number: the number of the actor, modulo the number of writers or readers.
    """

    actor: str
    number: int
    action: Action
    key: bytes = b""


def steps(text: str) -> list[ScheduleStep]:
    """Parse a schedule such as ``w0 put a, r0 get a, w0 commit``."""
    found = []
    for each in text.split(", "):
        who, action, *keys = each.split()
        key = keys[0].encode() if keys else b""
        found.append(ScheduleStep(who[0], int(who[1:]), cast(Action, action), key))
    return found


SCHEDULES = {
    "ISO-009": "w0 put a, r0 get a, r0 scan, w0 put c, r0 get c, w0 commit, r0 get a, r0 get c",
    "ISO-010": "w1 put a, w1 put c, w1 rollback, r0 get a, w1 put b, w1 commit, r0 get a, r0 get c",
    "ISO-011": "w0 put a, w0 put a, r0 get a, w0 put b, w0 put a, r0 get a, w0 commit, r0 get a",
    "ISO-012": "r0 get a, r0 get b, w0 put a, w0 put b, w0 commit, r0 get a, r0 get b, r0 scan",
    "ISO-013": "w0 put a, w0 commit, r0 get a, w0 put b, w0 commit, r0 get a, r0 scan, r0 get a",
    "ISO-014": "w1 get a, w1 put b, w2 put a, w2 commit, r0 get a, w1 commit, r0 get a",
    "ISO-015": "w1 put a, w2 put b, w1 get b, w2 get a, w1 commit, w2 commit, r0 scan",
    "ISO-016": "r0 get a, r0 get c, w0 put a, w0 put c, w0 commit, r0 get a, r0 get c",
    "ISO-017": "w1 put a, w1 get a, w2 put b, w2 commit, w1 get a, w1 scan, w1 put a, w1 get a",
    "ISO-019": "r1 get a, w0 put a, r1 get a, w0 put a, r1 scan, w0 commit, r1 get a, r1 scan",
    "ISO-020": "r0 get a, r1 get a, w0 put a, r0 get a, r1 get a, w0 put c, r0 scan, r1 scan",
}
"""For each requirement, a schedule that could break it. These run besides the random ones."""


def schedules(keys: tuple[bytes, ...] = KEYS) -> st.SearchStrategy[list[ScheduleStep]]:
    """Short schedules, with more puts and reads than commits and rollbacks."""
    put: tuple[Action, ...] = ("put", "put", "commit", "rollback", "get", "scan")
    look: tuple[Action, ...] = ("get", "get", "scan")
    step = st.one_of(
        st.builds(
            ScheduleStep,
            st.just("w"),
            st.integers(0, 2),
            st.sampled_from(put),
            st.sampled_from(keys),
        ),
        st.builds(
            ScheduleStep,
            st.just("r"),
            st.integers(0, 1),
            st.sampled_from(look),
            st.sampled_from(keys),
        ),
    )
    return st.lists(step, min_size=2, max_size=14)


class AnomalyStage:
    """A store with concurrent readers and writers, and the history of their operations.

    If the subject has views, the store writes and the views read. Otherwise transactions write and
    the store itself reads, as KIP-892 routes interactive queries. Explicit transactions also write,
    if the subject has them.
    """

    def __init__(self, t: Trial) -> None:
        can = t.lab.subject.capabilities
        self.t = t
        self.scans = can.scan
        self.direct = can.read_only_views and not can.transactional
        early = t.lab.guarantee == "at-least-once" and not self.direct
        self.level = IsolationLevel.READ_UNCOMMITTED if early else IsolationLevel.READ_COMMITTED
        self.history = IsolationHistory(early=early)
        self.values = 0
        self.commits = 0
        self.store = t.open()
        self.own: ObservedTransaction | None = None
        self.open: dict[int, tuple[Handle, ObservedTransaction]] = {}
        explicit = can.explicit_transactions and (
            t.run.settings.spec == "kips" or not can.read_only_views
        )
        self.slots = [1, 2] if explicit else []
        self.writers = [0, *self.slots] if can.read_only_views else self.slots
        self.begin_with(KEYS[:-1])
        if can.read_only_views:
            self.readers = [(self.store.view(level), level) for level in IsolationLevel]
            # The initial commit.
            self.readers.sort(key=lambda reader: reader[1].value)
        else:
            self.readers = [(self.store, IsolationLevel.READ_COMMITTED)]

    def begin_with(self, keys: tuple[bytes, ...]) -> None:
        """Write and commit the initial values of the schedule."""
        base = self.history.begin("the base")
        start = self.history.now()
        entries = [(key, self.new_value()) for key in keys]
        self.store.put_all(entries)
        base.writes = [(key, value, self.history.span(start)) for key, value in entries]
        self.store.commit({CHANGELOG: self.next_offset()})
        self.history.end([base], "committed", self.history.span(start))
        self.own = self.history.begin(self.store.label)

    def new_value(self) -> bytes:
        """A value that no earlier step wrote."""
        self.values += 1
        return b"%d" % self.values

    def next_offset(self) -> int:
        """The offset of the next commit."""
        self.commits += 1
        return self.commits

    # Writers.

    def transaction(self, number: int) -> tuple[Handle, ObservedTransaction]:
        """The target of a writer: the store, or the writer's open transaction."""
        if number == 0 and self.own is not None:
            return self.store, self.own
        if number not in self.open:
            start = self.history.now()
            handle = self.store.begin()
            told = self.history.begin(handle.label)
            told.began = self.history.span(start)
            self.open[number] = handle, told
        return self.open[number]

    def put(self, number: int, key: bytes) -> None:
        """Write a new value. If the store stages nothing, the put is a commit."""
        handle, told = self.transaction(number)
        value, start = self.new_value(), self.history.now()
        handle.put(key, value)
        span = self.history.span(start)
        if self.direct and number == 0:
            told = self.history.begin(f"the put of {value!r}")
            self.history.end([told], "committed", span)
        told.writes.append((key, value, span))

    def commit(self, number: int) -> None:
        """Commit a transaction. A commit of the store commits all open transactions (KIP-892)."""
        start = self.history.now()
        if number == 0:
            ended = [told for _, told in self.open.values()]
            ended += [self.own] if self.own is not None else []
            self.open.clear()
            self.store.commit({CHANGELOG: self.next_offset()})
        elif number in self.open:
            handle, told = self.open.pop(number)
            ended = [told]
            handle.commit({CHANGELOG: self.next_offset()})
        else:
            return
        self.history.end(ended, "committed", self.history.span(start))
        if number == 0:
            self.own = self.history.begin(self.store.label)

    def rollback(self, number: int) -> None:
        """Close a transaction. Writes to the store itself cannot be rolled back."""
        if number in self.open:
            handle, told = self.open.pop(number)
            start = self.history.now()
            handle.close()
            self.history.end([told], "rolled back", self.history.span(start))

    # Readers.

    def get(
        self, handle: Handle, level: IsolationLevel, key: bytes, own: ObservedTransaction | None
    ) -> None:
        """Read one key."""
        start = self.history.now()
        values = {key: handle.get(key)}
        self.tell(handle, level, start, values, own)

    def scan(self, handle: Handle, level: IsolationLevel, own: ObservedTransaction | None) -> None:
        """Read all keys."""
        start = self.history.now()
        found = dict(handle.scan("all"))
        self.tell(handle, level, start, dict.fromkeys(KEYS) | found, own)

    def tell(
        self,
        handle: Handle,
        level: IsolationLevel,
        start: int,
        values: dict[bytes, bytes | None],
        own: ObservedTransaction | None,
    ) -> None:
        place = len(self.t.lines) - 1
        span = self.history.span(start)
        self.history.read(Read(handle.label, level, span, values, own, place))

    # Schedules.

    def do(self, step: ScheduleStep) -> None:
        """Do one step, or skip it if the subject cannot do it."""
        actors = self.writers if step.actor == "w" else range(len(self.readers))
        number = actors[step.number % len(actors)]
        if step.action in ("put", "commit", "rollback"):
            act: Callable[..., None] = getattr(self, step.action)
            act(number, *([step.key] if step.action == "put" else []))
            return
        if step.actor == "w":
            (handle, own), level = self.transaction(number), self.level
            reader = own if not (self.direct and number == 0) else None
        else:
            (handle, level), reader = self.readers[number], None
        if step.action == "get":
            self.get(handle, level, step.key, reader)
        elif self.scans:
            self.scan(handle, level, reader)

    def look(self) -> None:
        """Read everything as every reader, so that lasting damage of the schedule shows."""
        for handle, level in self.readers:
            for key in KEYS:
                self.get(handle, level, key, None)
            if self.scans:
                self.scan(handle, level, None)

    def requirement(self, found: FoundAnomaly) -> str:
        """The requirement that forbids an anomaly."""
        run, requirement = self.t.run, REQUIREMENTS[found.anomaly]
        known = requirement in run.check.requirements and run.applies(requirement)
        blamed = self.blamed(found.read.level)
        return requirement if known and blamed == ANY_OTHER else blamed

    def blamed(self, level: IsolationLevel) -> str:
        """The requirement for a reader of a level whose finding has none of its own."""
        if self.direct:
            return WITHOUT_TRANSACTIONS
        if IsolationLevel.READ_UNCOMMITTED in (self.level, level):
            return UNCOMMITTED_READERS
        return ANY_OTHER

    def forbidden(self) -> list[FoundAnomaly]:
        """The anomalies that the readers' isolation levels do not permit, the gravest first."""
        if self.direct:
            # Without staging, both levels show every put at once.
            return self.history.forbidden(IsolationLevel.READ_COMMITTED)
        lowered = self.level is IsolationLevel.READ_UNCOMMITTED
        return self.history.forbidden(self.level if lowered else None)


def judge(stage: AnomalyStage, tried: str, otherwise: str = "") -> None:
    """Fail with the gravest anomaly in the history, if the history has any.

    Args:
        stage: the stage with the history to judge.
        tried: the text of the claim.
        otherwise: the requirement to blame for any anomaly; empty to choose it by the anomaly.
    """
    t = stage.t
    for found in stage.forbidden():
        t.claim(otherwise or stage.requirement(found), tried)
        if found.read.place:
            # Later lines do not belong to this failure.
            del t.lines[found.read.place + 1 :]
        name, _, _ = found.anomaly.value.partition(":")
        t.fail(f"no {name}", found.text, found.anomaly.name.lower().replace("_", "-"))


def play(t: Trial, schedule: list[ScheduleStep]) -> None:
    """Run a schedule and judge its history."""
    stage = AnomalyStage(t)
    for step in schedule:
        stage.do(step)
    stage.look()
    judge(stage, "interleave transactions and readers")


@check(*SCHEDULES, raw=True, weight=10)
def interleaved(run: CheckRun) -> None:
    """Interleave transactions and readers, and look for anomalies in the values they read."""
    run.run_property(play, {"schedule": schedules()})
    for requirement, text in SCHEDULES.items():
        if run.applies(requirement):
            run.shrinking(functools.partial(play_one, run, requirement, steps(text)))


def play_one(run: CheckRun, requirement: str, schedule: list[ScheduleStep]) -> None:
    """Run the schedule that could break one requirement."""
    with run.trial(requirement) as t:
        play(t, schedule)
        t.claim(requirement, run.check.tried)
        t.held()
