"""Random programs on windows and sessions against their oracle, with expiry and reopenings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from operator import attrgetter
from typing import ClassVar, cast

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import SearchStrategy

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.generators import TICKS, among
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.trial import Entry
from streamproof.conformance.windowed_trial import Times
from streamproof.conformance.windows_oracle import Entries, WindowedContent
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windows import LONG_MAX, Window, Windowed

__all__ = ["random_session_programs", "random_window_programs"]

FEW_KEYS = 5
"""The keys of programs: a few, so that windows of one key meet."""

MARKER = b"stream time"
"""The key that programs put after a reopening, so that a store that forgot the time regains it."""


@check("WIN-052", raw=True, weight=50)
def random_window_programs(run: CheckRun) -> None:
    """Run random programs on a window store and on its oracle, and compare every answer."""
    run_programs(run, WindowMachine)


@check("SESS-047", raw=True, weight=50)
def random_session_programs(run: CheckRun) -> None:
    """Run random programs on a session store and on its oracle, and compare every answer."""
    run_programs(run, SessionMachine)


def run_programs(run: CheckRun, base: type[TimedMachine]) -> None:
    """Run a program that uses every rule, then random programs."""
    generators = run.generators()
    values = generators.values()
    if not run.subject.capabilities.retain_duplicates:
        # A tombstone means nothing to a store that retains duplicates.
        values = st.one_of(st.none(), values)
    attributes = {
        "run": run,
        "keys": st.sampled_from(generators.edge_keys[:FEW_KEYS]),
        "key_ranges": generators.key_ranges(),
        "values": values,
    }
    machine = type(f"{base.__name__}OfThisRun", (base,), attributes)

    def every_rule_once() -> None:
        program = machine()
        try:
            program.every_rule()
        finally:
            program.teardown()

    # Even the shortest search uses every rule at least once.
    run.shrinking(every_rule_once)
    limits = run.settings.limits
    settings = run.hypothesis_settings(limits.model_programs, limits.model_steps)
    seeded = hypothesis.seed(run.seed)(machine)
    run.shrinking(lambda: run_state_machine_as_test(seeded, settings=settings))


# The draws depend on the subject and on the current time of the program.
RUNNER = st.runner()
KEYS = RUNNER.flatmap(attrgetter("keys"))
KEY_RANGES = RUNNER.flatmap(attrgetter("key_ranges"))
TIMES = RUNNER.flatmap(lambda m: among(m.some_times()))
BOUNDS = RUNNER.flatmap(lambda m: among((-1, 0, *m.some_times(), LONG_MAX)))
VALUES = RUNNER.flatmap(attrgetter("values"))


@st.composite
def windows_of_keys(draw: st.DrawFn) -> Windowed:
    """A key and its window, or a session, which may be longer than the retention."""
    machine = cast(TimedMachine, draw(RUNNER))
    times = among(machine.some_times())
    return machine.some_windowed(draw(machine.keys), lambda: draw(times))


WINDOWED = windows_of_keys()


def able(holds: Callable[[TimedMachine], bool]) -> Callable[..., Callable[..., None]]:
    """A precondition on the machine."""
    return precondition(lambda m: holds(cast(TimedMachine, m)))


class TimedMachine(RuleBasedStateMachine):
    """A store and its oracle: the live and the committed content."""

    run: ClassVar[CheckRun]
    keys: ClassVar[SearchStrategy[bytes]]
    key_ranges: ClassVar[SearchStrategy[tuple[bytes | None, bytes | None]]]
    values: ClassVar[SearchStrategy[bytes | None]]
    requirement: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.t = self.stack.enter_context(self.run.trial(self.requirement))
        self.t.claim(self.requirement, "a random program")
        self.can = self.run.subject.capabilities
        self.times = Times(self.can)
        self.store = self.t.open_store()
        self.content = WindowedContent(self.times)
        self.committed: dict[Windowed, tuple[bytes, ...]] = {}
        self.dirty = False
        self.offset = 0
        self.uncounted = 0

    def teardown(self) -> None:
        """Close the store and delete its directory."""
        self.stack.close()

    def some_times(self) -> tuple[int, ...]:
        """Times within one retention, around the expiry, and a little later."""
        now = self.content.stream_time
        edges = {self.times.first_kept(now), self.times.first_readable(now)}
        around = {edge - back for edge in edges for back in (0, 1)}
        later = {now + 1, now + self.times.interval_ms, now + self.can.retention_ms}
        early = (self.times.at(tick) for tick in range(TICKS))
        return (*early, *sorted(time for time in around | later | {now} if time >= 0))

    def some_windowed(self, key: bytes, draw_time: Callable[[], int]) -> Windowed:
        """A window of a key, at drawn times."""
        return self.times.windowed(key, draw_time())

    def every_rule(self) -> None:
        """Use every rule that the subject supports."""
        raise NotImplementedError

    def write(self, windowed: Windowed, value: bytes | None) -> None:
        """Write to the store."""
        raise NotImplementedError

    def changelog_key(self, windowed: Windowed) -> bytes:
        """The key of the changelog record of a write."""
        raise NotImplementedError

    def compare(self, found: list[Entry], expected: Entries, *, backward: bool = False) -> None:
        """Compare a scan. Sessions that tie may come in any order."""
        forward = found[::-1] if backward else found
        arranged = [sorted(each, key=lambda entry: entry[0]) for each in (forward, expected)]
        self.t.expect(*arranged)
        ordered = self.times.in_order(windowed for windowed, _ in forward)
        self.t.expect_that(ordered, "the declared order", found)

    def count_anew(self) -> None:
        """Restart the count: a new store starts at 0, and a batch may drop its records in order."""
        self.uncounted = self.content.dropped - self.store.read("dropped_records")

    def kept(self, windowed: Windowed, value: bytes | None) -> None:
        """Note a write, which takes the next offset."""
        self.offset += 1
        self.dirty = True
        self.content.put(windowed, value)

    @rule(windowed=WINDOWED, value=VALUES)
    def put(self, windowed: Windowed, value: bytes | None) -> None:
        """Put or delete."""
        self.write(windowed, value)
        self.kept(windowed, value)

    @rule(writes=st.lists(st.tuples(WINDOWED, VALUES), min_size=2, max_size=6))
    def put_several(self, writes: list[tuple[Windowed, bytes | None]]) -> None:
        """Put and delete several entries, so that reads find enough."""
        for windowed, value in writes:
            self.put(windowed, value)

    @rule()
    def count(self) -> None:
        """Read the number of dropped records."""
        found = self.store.read("dropped_records")
        self.t.expect(found, self.content.dropped - self.uncounted)

    @able(lambda self: self.dirty)
    @rule()
    def commit(self) -> None:
        """Commit all writes so far."""
        self.store.commit({CHANGELOG: self.offset})
        self.committed = dict(self.content.rows)
        self.dirty = False

    # With duplicates, a tombstone deletes a single value, and no writer sends one. Another check
    # tests how a reopened store continues to number its duplicates.
    @able(lambda self: not self.dirty and not self.can.retain_duplicates)
    @rule(writes=st.lists(st.tuples(WINDOWED, VALUES), max_size=4))
    def restore(self, writes: list[tuple[Windowed, bytes | None]]) -> None:
        """Restore before the first write, and commit at once, as the runtime does."""
        batch = []
        for windowed, value in writes:
            self.kept(windowed, value)
            batch.append(ChangelogRecord(self.changelog_key(windowed), value, self.offset))
        self.t.restore(self.store, batch)
        self.count_anew()
        if batch:
            self.commit()

    @able(lambda self: self.can.persistent and not self.can.retain_duplicates)
    @rule()
    def reopen(self) -> None:
        """Close the store and open a new one in the same directory."""
        if self.dirty and not self.run.exact:
            # The store may keep or lose uncommitted writes; the runtime commits before it closes.
            self.commit()
        self.store = self.t.reopen_store(self.store)
        # Under exactly-once, a transactional store discards uncommitted writes.
        self.content.rows = dict(self.committed)
        self.dirty = False
        self.count_anew()
        if self.content.stream_time >= 0:
            self.put(self.times.windowed(MARKER, self.content.stream_time), b"")


class WindowMachine(TimedMachine):
    """Windows."""

    requirement = "WIN-052"

    def every_rule(self) -> None:
        """Use every rule that the subject supports."""
        at = self.times.at
        first, last = self.times.windowed(b"a", at(0)), self.times.windowed(b"b", at(15))
        if not self.can.retain_duplicates:
            self.restore([(first, b"1"), (last, b"2"), (first, b"3")])
            self.fetch(b"a", at(0))
        self.put_several([(self.times.windowed(b"a", at(9)), b"4")])
        for backward in (False, True):
            self.fetch_between(b"a", at(0), at(15), backward=backward)
            self.fetch_range((b"a", None), -1, LONG_MAX, backward=backward)
            self.read_all(backward=backward)
        self.put(self.times.windowed(b"a", at(15) + 1), b"5")
        self.count()
        self.commit()
        if self.can.persistent and not self.can.retain_duplicates:
            self.reopen()
        self.read_all(backward=False)

    def write(self, windowed: Windowed, value: bytes | None) -> None:
        """Write to the store."""
        self.store.put(windowed.key, value, windowed.window.start)

    def changelog_key(self, windowed: Windowed) -> bytes:
        """The key of the changelog record of a write."""
        return window_key(windowed.key, windowed.window.start)

    def held(self, low: bytes | None, high: bytes | None, first: int, last: int) -> Entries:
        """The entries within inclusive bounds."""
        return [
            (windowed, value)
            for windowed, value in self.content.entries()
            if (low is None or low <= windowed.key)
            and (high is None or windowed.key <= high)
            and first <= windowed.window.start <= last
        ]

    @able(lambda self: not self.can.retain_duplicates)
    @rule(key=KEYS, start=TIMES)
    def fetch(self, key: bytes, start: int) -> None:
        """Fetch one window."""
        expected = self.content.get(self.times.windowed(key, start))
        self.t.expect(self.store.fetch(key, start), expected)

    @rule(key=KEYS, first=BOUNDS, last=BOUNDS, backward=st.booleans())
    def fetch_between(self, key: bytes, first: int, last: int, *, backward: bool) -> None:
        """Fetch the windows of one key."""
        method = "backward_fetch_between" if backward else "fetch_between"
        held = self.held(key, key, first, last)
        expected = [(windowed.window.start, value) for windowed, value in held]
        found = self.store.scan(method, key, first, last)
        self.t.expect(found, expected[::-1] if backward else expected)

    @rule(keys=KEY_RANGES, first=BOUNDS, last=BOUNDS, backward=st.booleans())
    def fetch_range(
        self, keys: tuple[bytes | None, bytes | None], first: int, last: int, *, backward: bool
    ) -> None:
        """Fetch the windows of several keys."""
        method = "backward_fetch_range" if backward else "fetch_range"
        found = self.store.scan(method, *keys, first, last)
        self.compare(found, self.held(*keys, first, last), backward=backward)

    @rule(backward=st.booleans())
    def read_all(self, *, backward: bool) -> None:
        """Read everything."""
        found = self.store.scan("backward_all" if backward else "all")
        self.compare(found, self.content.entries(), backward=backward)


class SessionMachine(TimedMachine):
    """Sessions."""

    requirement = "SESS-047"

    def some_windowed(self, key: bytes, draw_time: Callable[[], int]) -> Windowed:
        """A session of a key, which may be longer than the retention."""
        one, other = draw_time(), draw_time()
        return Windowed(key, Window(min(one, other), max(one, other)))

    def every_rule(self) -> None:
        """Use every rule that the subject supports."""
        at = self.times.at
        first, last = Windowed(b"a", Window(at(0), at(4))), Windowed(b"b", Window(at(2), at(15)))
        self.restore([(first, b"1"), (last, b"2"), (first, b"3")])
        self.fetch_session(first)
        self.put_several([(Windowed(b"a", Window(at(1), at(9))), b"4")])
        for backward in (False, True):
            self.fetch(b"a", backward=backward)
            self.fetch_range((b"a", None), backward=backward)
            self.find_sessions(b"a", at(4), at(1), backward=backward)
            self.find_sessions_range((None, b"b"), -1, at(2), backward=backward)
        self.find_sessions_between(at(4), at(15))
        self.put(Windowed(b"a", Window(at(5), at(15) + 5)), b"5")
        self.remove(Windowed(b"a", Window(at(1), at(9))))
        self.count()
        self.commit()
        if self.can.persistent:
            self.reopen()
        self.fetch_range((None, None), backward=False)

    def write(self, windowed: Windowed, value: bytes | None) -> None:
        """Write to the store."""
        self.store.put(windowed, value)

    def changelog_key(self, windowed: Windowed) -> bytes:
        """The key of the changelog record of a write."""
        return session_key(windowed.key, *windowed.window)

    def held(
        self,
        low: bytes | None,
        high: bytes | None,
        earliest_end: int = 0,
        latest_start: int = LONG_MAX,
    ) -> Entries:
        """The sessions that a search finds."""
        return [
            (windowed, value)
            for windowed, value in self.content.entries()
            if (low is None or low <= windowed.key)
            and (high is None or windowed.key <= high)
            and windowed.window.end >= earliest_end
            and windowed.window.start <= latest_start
        ]

    # The store decides whether removals of expired or future sessions count.
    @rule(windowed=WINDOWED)
    def remove(self, windowed: Windowed) -> None:
        """Remove a past session that has not expired."""
        now = self.content.stream_time
        if self.times.first_readable(now) <= windowed.window.end <= now:
            self.store.remove(windowed)
            self.kept(windowed, None)

    @rule(windowed=WINDOWED)
    def fetch_session(self, windowed: Windowed) -> None:
        """Fetch one session."""
        found = self.store.fetch_session(windowed.key, *windowed.window)
        self.t.expect(found, self.content.get(windowed))

    @rule(key=KEYS, backward=st.booleans())
    def fetch(self, key: bytes, *, backward: bool) -> None:
        """Fetch all sessions of one key."""
        found = self.store.scan("backward_fetch" if backward else "fetch", key)
        self.compare(found, self.held(key, key), backward=backward)

    @rule(keys=KEY_RANGES, backward=st.booleans())
    def fetch_range(self, keys: tuple[bytes | None, bytes | None], *, backward: bool) -> None:
        """Fetch all sessions of several keys."""
        found = self.store.scan("backward_fetch_range" if backward else "fetch_range", *keys)
        self.compare(found, self.held(*keys), backward=backward)

    @rule(key=KEYS, earliest=BOUNDS, latest=BOUNDS, backward=st.booleans())
    def find_sessions(self, key: bytes, earliest: int, latest: int, *, backward: bool) -> None:
        """Find the overlapping sessions of one key."""
        method = "backward_find_sessions" if backward else "find_sessions"
        found = self.store.scan(method, key, earliest, latest)
        self.compare(found, self.held(key, key, earliest, latest), backward=backward)

    @rule(keys=KEY_RANGES, earliest=BOUNDS, latest=BOUNDS, backward=st.booleans())
    def find_sessions_range(
        self, keys: tuple[bytes | None, bytes | None], earliest: int, latest: int, *, backward: bool
    ) -> None:
        """Find the overlapping sessions of several keys."""
        method = "backward_find_sessions_range" if backward else "find_sessions_range"
        found = self.store.scan(method, *keys, earliest, latest)
        self.compare(found, self.held(*keys, earliest, latest), backward=backward)

    @rule(earliest=BOUNDS, latest=BOUNDS)
    def find_sessions_between(self, earliest: int, latest: int) -> None:
        """Find the sessions of all keys that end between two times."""
        found = self.store.scan("find_sessions_between", earliest, latest)
        held = self.held(None, None, earliest)
        self.compare(found, [entry for entry in held if entry[0].window.end <= latest])
