"""Random programs against the oracle, with the store reopened at any time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from operator import attrgetter
from typing import Any, ClassVar, cast

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import SearchStrategy

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.generators import Generators
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.stores.capabilities import Capabilities

__all__ = ["random_programs"]

FEW_KEYS = 8
"""The keys of most operations: a few, so that programs overwrite, delete and put again."""


@check("KV-015", "RANGE-015", "OFFSET-013", "COMMIT-008", raw=True, weight=50)
def random_programs(run: CheckRun) -> None:
    """Run random programs on the store and on a dictionary, and compare every answer."""
    machine = type(
        "StoreMachineOfThisRun",
        (StoreMachine,),
        {"run": run, "can": run.subject.capabilities, **_strategies(run.generators())},
    )
    # Even the shortest search uses every rule at least once.
    run.shrinking(lambda: every_rule_once(machine))
    limits = run.settings.limits
    settings = run.hypothesis_settings(limits.model_programs, limits.model_steps)
    hypothesis.seed(run.seed)(machine)
    run.shrinking(lambda: run_state_machine_as_test(machine, settings=settings))


def every_rule_once(machine: type[StoreMachine]) -> None:
    """A program that uses every rule that the subject supports."""
    program = machine()
    can = program.can
    try:
        program.restore([(b"a", b"1"), (b"b", b"2"), (b"b", None)])
        program.put(b"c", b"3")
        program.put_any(b"d", None)
        program.put_all([(b"e", b"5"), (b"c", None)])
        program.put_if_absent(b"a", b"6")
        program.delete(b"a")
        program.get(b"e")
        if can.scan:
            program.scan_all()
        if can.ranges:
            program.scan(b"a", b"z")
        if can.ranges and can.reverse:
            program.scan_backward(None, b"z")
        program.commit()
        if can.manages_offsets:
            program.ask_offset()
        if can.persistent:
            program.reopen()
    finally:
        program.teardown()


def _strategies(generators: Generators) -> dict[str, SearchStrategy[Any]]:
    """The strategies that machines draw from, made once for all programs."""
    few = st.sampled_from(generators.edge_keys[:FEW_KEYS])
    return {
        "few_keys": few,
        "any_key": st.one_of(few, generators.keys()),
        "values": generators.values(),
        "bounds": generators.bounds(),
    }


# The draws depend on the subject, which only the running machine knows.
KEYS = st.runner().flatmap(attrgetter("few_keys"))
ANY_KEY = st.runner().flatmap(attrgetter("any_key"))
VALUES = st.runner().flatmap(attrgetter("values"))
BOUNDS = st.runner().flatmap(attrgetter("bounds"))
WRITES = st.lists(st.tuples(KEYS, st.one_of(st.none(), VALUES)), max_size=4)


def able(*capabilities: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A precondition on the capabilities of the subject."""
    return precondition(lambda m: all(getattr(m.can, name) for name in capabilities))


class StoreMachine(RuleBasedStateMachine):
    """The store and its oracle: the live content, the committed content and the offset."""

    run: ClassVar[CheckRun]
    can: ClassVar[Capabilities]
    few_keys: ClassVar[SearchStrategy[bytes]]
    any_key: ClassVar[SearchStrategy[bytes]]
    values: ClassVar[SearchStrategy[bytes]]
    bounds: ClassVar[SearchStrategy[bytes | None]]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.t = self.stack.enter_context(self.run.trial("KV-015"))
        self.store = self.t.open()
        self.content: dict[bytes, bytes] = {}
        self.touched: set[bytes] = set()
        self.dirty = False
        self.offset = -1
        self.committed: dict[bytes, bytes] = {}
        self.committed_offset: int | None = None

    def teardown(self) -> None:
        """Close the store and delete its directory."""
        self.stack.close()

    def written(self, key: bytes, value: bytes | None) -> None:
        """Note a write, which takes the next offset."""
        self.offset += 1
        self.dirty = True
        self.touched.add(key)
        self.content.pop(key, None)
        if value is not None:
            self.content[key] = value

    def between(self, low: bytes | None, high: bytes | None) -> list[tuple[bytes, bytes]]:
        """The entries within inclusive bounds."""
        return [
            (key, self.content[key])
            for key in sorted(self.content)
            if (low is None or low <= key) and (high is None or key <= high)
        ]

    def check_content(self) -> None:
        """Read every key that the program has written."""
        for key in sorted(self.touched):
            self.t.expect(self.store.get(key), self.content.get(key))

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        """Put one of the common keys."""
        self.t.claim("KV-015", "a random program")
        self.store.put(key, value)
        self.written(key, value)

    @rule(key=ANY_KEY, value=st.one_of(st.none(), VALUES))
    def put_any(self, key: bytes, value: bytes | None) -> None:
        """Put any key, or None for its value."""
        self.t.claim("KV-015", "a random program")
        self.store.put(key, value)
        self.written(key, value)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        """Delete a key, which may be absent."""
        self.t.claim("KV-015", "a random program")
        self.t.expect(self.store.delete(key), self.content.get(key))
        self.written(key, None)

    @rule(key=KEYS, value=VALUES)
    def put_if_absent(self, key: bytes, value: bytes) -> None:
        """Put a key only if it is absent."""
        self.t.claim("KV-015", "a random program")
        self.t.expect(self.store.put_if_absent(key, value), self.content.get(key))
        if key not in self.content:
            self.written(key, value)

    @rule(entries=WRITES)
    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Put a batch."""
        self.t.claim("KV-015", "a random program")
        self.store.put_all(entries)
        for key, value in entries:
            self.written(key, value)

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        """Get a key."""
        self.t.claim("KV-015", "a random program")
        self.t.expect(self.store.get(key), self.content.get(key))

    @able("ranges")
    @rule(low=BOUNDS, high=BOUNDS)
    def scan(self, low: bytes | None, high: bytes | None) -> None:
        """Read a range."""
        self.t.claim("RANGE-015", "a random program that scans")
        self.t.expect(self.store.scan("range", low, high), self.between(low, high))

    @able("ranges", "reverse")
    @rule(low=BOUNDS, high=BOUNDS)
    def scan_backward(self, low: bytes | None, high: bytes | None) -> None:
        """Read a range backward."""
        self.t.claim("RANGE-015", "a random program that scans")
        found = self.store.scan("reverse_range", low, high)
        self.t.expect(found, self.between(low, high)[::-1])

    @able("scan")
    @rule()
    def scan_all(self) -> None:
        """Read everything, in any order."""
        self.t.claim("RANGE-015", "a random program that scans")
        self.t.expect(sorted(self.store.scan("all")), self.between(None, None))

    @precondition(lambda self: cast(StoreMachine, self).dirty)
    @rule()
    def commit(self) -> None:
        """Commit. Commits without writes have their own requirement and check."""
        self.t.claim("COMMIT-008", "a random program with commits")
        self.offset += 1
        self.commit_at(self.offset)

    def commit_at(self, offset: int) -> None:
        """Commit all writes so far with an offset."""
        self.store.commit({CHANGELOG: offset})
        self.dirty = False
        self.committed = dict(self.content)
        self.committed_offset = offset
        self.check_content()

    @able("manages_offsets")
    @rule()
    def ask_offset(self) -> None:
        """Ask for the committed offset."""
        self.t.claim("OFFSET-013", "a random program that reads the committed offset")
        self.t.expect(self.store.committed_offset(CHANGELOG), self.committed_offset)

    @precondition(lambda self: not cast(StoreMachine, self).dirty)
    @rule(entries=WRITES)
    def restore(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Restore before the first write, and commit at once, as the runtime does."""
        self.t.claim("KV-015", "a random program that restores")
        records = []
        for key, value in entries:
            self.written(key, value)
            records.append(ChangelogRecord(key, value, self.offset))
        self.t.restore(self.store, records)
        if records:
            self.commit_at(self.offset)

    @able("persistent")
    @rule()
    def reopen(self) -> None:
        """Close the store and open a new one in the same directory."""
        if self.dirty and not self.run.exact:
            # The store may keep or lose uncommitted writes; the runtime commits before it closes.
            self.commit()
        self.t.claim("COMMIT-008", "a random program that closes and reopens the store")
        self.store = self.t.reopen(self.store)
        # Under exactly-once, a transactional store discards uncommitted writes.
        self.content = dict(self.committed)
        self.dirty = False
        self.check_content()
        if self.can.manages_offsets:
            self.ask_offset()
