"""Random programs against the oracle, with the store reopened at any time."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.registry import check
from streamproof.conformance.run import CheckRun, hypothesis_settings


@check("KV-015", "RANGE-015", "OFFSET-013", "COMMIT-008", raw=True, weight=50)
def random_programs(run: CheckRun) -> None:
    """Run random programs on the store and on a dictionary, and compare every answer."""
    machine = machine_for(run)
    settings = hypothesis_settings(
        run.settings.limits.model_programs, run.settings.limits.model_steps
    )
    hypothesis.seed(run.seed)(machine)
    run.shrinking(lambda: run_state_machine_as_test(machine, settings=settings))


def machine_for(run: CheckRun) -> type[RuleBasedStateMachine]:
    """A state machine over the subject; its rules depend on what the subject can do."""
    can = run.subject.capabilities
    generators = run.generators()
    keys = st.sampled_from(generators.edge_keys[:8])
    any_keys = st.one_of(keys, generators.keys())
    values = generators.values()

    class Machine(RuleBasedStateMachine):
        """The store beside a dictionary: live content, committed content, committed offset."""

        def __init__(self) -> None:
            super().__init__()
            self.stack = ExitStack()
            self.t = self.stack.enter_context(run.trial("KV-015"))
            self.store = self.t.open()
            self.content: dict[bytes, bytes] = {}
            self.committed: dict[bytes, bytes] = {}
            self.offset = -1
            self.dirty = False
            self.touched: set[bytes] = set()
            self.committed_offset: int | None = None

        def teardown(self) -> None:
            self.stack.close()

        def write(self, key: bytes, value: bytes | None) -> None:
            self.offset += 1
            self.dirty = True
            self.touched.add(key)
            self.content.pop(key, None)
            if value is not None:
                self.content[key] = value

        def sorted_between(self, low: bytes | None, high: bytes | None) -> list[Any]:
            return [
                (key, self.content[key])
                for key in sorted(self.content)
                if (low is None or low <= key) and (high is None or key <= high)
            ]

        @rule(key=keys, value=values)
        def put(self, key: bytes, value: bytes) -> None:
            self.t.claim("KV-015", "a random program")
            self.store.put(key, value)
            self.write(key, value)

        @rule(key=any_keys, value=st.one_of(st.none(), values))
        def put_any(self, key: bytes, value: bytes | None) -> None:
            self.t.claim("KV-015", "a random program")
            self.store.put(key, value)
            self.write(key, value)

        @rule(key=keys)
        def delete(self, key: bytes) -> None:
            self.t.claim("KV-015", "a random program")
            self.t.expect(self.store.delete(key), self.content.get(key))
            self.write(key, None)

        @rule(key=keys, value=values)
        def put_if_absent(self, key: bytes, value: bytes) -> None:
            self.t.claim("KV-015", "a random program")
            self.t.expect(self.store.put_if_absent(key, value), self.content.get(key))
            if key not in self.content:
                self.write(key, value)

        @rule(entries=st.lists(st.tuples(keys, st.one_of(st.none(), values)), max_size=5))
        def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
            self.t.claim("KV-015", "a random program")
            self.store.put_all(entries)
            for key, value in entries:
                self.write(key, value)

        @rule(key=keys)
        def get(self, key: bytes) -> None:
            self.t.claim("KV-015", "a random program")
            self.t.expect(self.store.get(key), self.content.get(key))

        @precondition(lambda self: can.ranges)
        @rule(low=generators.bounds(), high=generators.bounds(), reverse=st.booleans())
        def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> None:
            self.t.claim("RANGE-015", "a random program that scans")
            expected = self.sorted_between(low, high)
            if reverse and can.reverse:
                self.t.expect(self.store.scan("reverse_range", low, high), expected[::-1])
            else:
                self.t.expect(self.store.scan("range", low, high), expected)

        @precondition(lambda self: can.scan)
        @rule()
        def scan_all(self) -> None:
            self.t.claim("RANGE-015", "a random program that scans")
            self.t.expect(sorted(self.store.scan("all")), self.sorted_between(None, None))

        @precondition(lambda self: self.dirty)
        @rule()
        def commit(self) -> None:
            """Commits without writes are a promise of their own, with a check of their own."""
            self.t.claim("COMMIT-008", "a random program with commits")
            self.offset += 1
            self.commit_at(self.offset)

        def commit_at(self, offset: int) -> None:
            self.store.commit({CHANGELOG: offset})
            self.dirty = False
            self.committed = dict(self.content)
            self.committed_offset = offset
            self.check_content()

        @precondition(lambda self: can.manages_offsets)
        @rule()
        def ask_offset(self) -> None:
            self.t.claim("OFFSET-013", "a random program that asks for the committed offset")
            self.t.expect(self.store.committed_offset(CHANGELOG), self.committed_offset)

        @precondition(lambda self: not self.dirty)
        @rule(entries=st.lists(st.tuples(keys, st.one_of(st.none(), values)), max_size=4))
        def restore(self, entries: list[tuple[bytes, bytes | None]]) -> None:
            """Restoration happens before anything is written; it is committed at once."""
            self.t.claim("KV-015", "a random program that restores")
            records = []
            for key, value in entries:
                self.write(key, value)
                records.append(ChangelogRecord(key, value, self.offset))
            self.t.restore(self.store, records)
            if records:
                self.commit_at(self.offset)

        @precondition(lambda self: can.persistent)
        @rule()
        def reopen(self) -> None:
            self.t.claim("COMMIT-008", "a random program that closes and reopens the store")
            self.store = self.t.reopen(self.store)
            if run.exact:
                self.content = dict(self.committed)
                self.dirty = False
            self.check_content()
            if can.manages_offsets:
                self.t.claim("OFFSET-013", "a random program that reopens the store")
                self.t.expect(self.store.committed_offset(CHANGELOG), self.committed_offset)

        def check_content(self) -> None:
            for key in sorted(self.touched):
                self.t.expect(self.store.get(key), self.content.get(key))

    return Machine
