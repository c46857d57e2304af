"""Isolation on several threads: readers during commits, and concurrent transactions.

The scheduler decides how often the threads meet. The checks record all operations and fail a store
only for answers that no order of the operations explains, so no interleaving is a false alarm.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.anomaly_checks import KEYS, AnomalyStage, judge
from streamproof.conformance.isolation_history import ObservedTransaction, Read
from streamproof.conformance.lab import CHANGELOG, IsolationLevel
from streamproof.conformance.trial import SCAN_LIMIT, Trial, close_iterator

READS = 2_000
"""The number of reads after which a reader stops, which bounds the history."""

SWITCH_S = 1e-5
"""The time slice of a thread in seconds. A whole commit fits into Python's default of 5 ms."""


@contextlib.contextmanager
def switching_often() -> Iterator[None]:
    """Let threads take turns more often than Python does by default."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


class Crew:
    """Threads that read or write until they are stopped, and the errors that they raised."""

    def __init__(self, t: Trial) -> None:
        self.t = t
        self.done = threading.Event()
        self.errors: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Start ``work`` on a new thread, and return after the thread has started.

        The wait matters under a debugger or a coverage tracer: Python then refuses two threads
        that start at the same moment.
        """
        begun = threading.Event()

        def guarded() -> None:
            begun.set()
            try:
                work()
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        self.threads.append(thread)
        thread.start()
        begun.wait()

    def finish(self) -> None:
        """Wait for the threads. An error in any of them breaks the promise."""
        for thread in self.threads:
            with self.t.watching("a call on another thread"):
                thread.join()
        if self.errors:
            error = self.errors[0]
            self.t.fail("calls on several threads to succeed", f"{type(error).__name__}: {error}")


def keep_reading(stage: AnomalyStage, done: threading.Event, name: str, number: int) -> None:
    """Get one key after the other until the end, and also scan if a scan shows one state."""
    handle, level = stage.readers[number]
    # Without transactions, no commit spans several keys, so scans show nothing.
    scans = stage.scans and not stage.direct
    for turn in range(READS):
        if done.is_set():
            return
        start = stage.history.now()
        if scans and turn % 4 == 3:
            values = dict.fromkeys(KEYS) | scanned(handle.raw)
        else:
            values = {KEYS[turn % 3]: handle.raw.get(KEYS[turn % 3])}
        stage.history.read(Read(name, level, stage.history.span(start), values))


def scanned(reader: Any) -> dict[bytes, bytes]:
    """All entries of a reader. The iterator is closed afterwards."""
    iterator = reader.all()
    found = {bytes(key): value for key, value in islice(iterator, SCAN_LIMIT)}
    close_iterator(iterator)
    return found


@contextlib.contextmanager
def readers(stage: AnomalyStage, *levels: IsolationLevel) -> Iterator[None]:
    """Let two threads of each isolation level read in the meantime."""
    crew, done = Crew(stage.t), threading.Event()
    for number, (_, level) in enumerate(stage.readers):
        for _ in range(2 if level in levels else 0):
            crew.start(partial(keep_reading, stage, done, stage.t.label_for("reader"), number))
    try:
        yield
    finally:
        done.set()
        crew.finish()


@check(
    *("ISO-009", "ISO-011", "ISO-012", "ISO-013", "ISO-016", "ISO-019", "ISO-020"),
    raw=True,
    weight=8,
)
def readers_beside_commits(run: CheckRun) -> None:
    """Read from other threads while commits overwrite all keys, and look for anomalies."""
    promised = [each for each in run.check.requirements if run.applies(each)]
    with run.trial(promised[0]) as t, switching_often():
        stage, commits = AnomalyStage(t), run.settings.limits.concurrent_commits
        t.note("# From here on, readers on other threads get and scan.")
        kept = len(t.lines)
        with readers(stage, *IsolationLevel):
            for _ in range(commits):
                # One round is enough to show what each thread did.
                del t.lines[kept:]
                # The first key is written twice to have an intermediate value.
                for key in (KEYS[0], *KEYS):
                    stage.put(stage.writers[0], key)
                stage.commit(stage.writers[0])
        conclude(stage, promised)


@check("ISO-018", "ISO-021", raw=True, weight=8)
def transactions_beside_each_other(run: CheckRun) -> None:
    """Run transactions on two threads and readers on others, and look for anomalies."""
    promised = [each for each in run.check.requirements if run.applies(each)]
    with run.trial("ISO-021") as t, switching_often():
        stage, count = AnomalyStage(t), run.settings.limits.concurrent_commits
        t.note("# Two threads begin, commit and close transactions while other threads read.")
        with readers(stage, IsolationLevel.READ_COMMITTED):
            crew = Crew(t)
            for thread in range(2):
                crew.start(partial(many_transactions, stage, thread, count))
            crew.finish()
        conclude(stage, promised, "ISO-021")


def many_transactions(stage: AnomalyStage, thread: int, count: int) -> None:
    """Transactions that read, write and read again. Every fourth one is rolled back."""
    history = stage.history
    for number in range(count):
        start = history.now()
        raw = stage.store.raw.new_transaction()
        told = history.begin(f"transaction {number} of thread {thread}")
        told.began = history.span(start)
        read_inside(stage, raw, told, KEYS[0])
        for key in (KEYS[0], KEYS[1 + number % 2], KEYS[0]):
            value, start = f"{thread}.{number}.{len(told.writes)}".encode(), history.now()
            raw.put(key, value)
            told.writes.append((key, value, history.span(start)))
        for key in KEYS:
            read_inside(stage, raw, told, key)
        start = history.now()
        if number % 4 == 3:
            raw.close()
            history.end([told], "rolled back", history.span(start))
        else:
            # Two threads cannot agree on growing offsets, so the offset stays the same.
            raw.commit({CHANGELOG: stage.commits + 1})
            history.end([told], "committed", history.span(start))


def read_inside(stage: AnomalyStage, raw: Any, told: ObservedTransaction, key: bytes) -> None:
    """Get a key in a transaction."""
    start = stage.history.now()
    values = {key: raw.get(key)}
    span = stage.history.span(start)
    stage.history.read(Read(told.name, stage.level, span, values, told))


def conclude(stage: AnomalyStage, promised: list[str], otherwise: str = "") -> None:
    """Judge the history of the threads. Without an anomaly, all tested requirements held."""
    t = stage.t
    t.run.evidence.examples += len(stage.history.reads)
    t.note("# The check judges all their operations together.")
    judge(stage, t.run.check.tried, otherwise)
    for requirement in promised:
        t.claim(requirement, t.run.check.tried)
        t.held()
