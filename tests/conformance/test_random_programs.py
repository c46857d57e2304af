"""The oracle of random programs on key-value stores, and the search for programs that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.random_steps import EffortSpent, Player, Steps, step
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.store_oracle import Choices, Scan, StoreOracle
from streamproof.conformance.subject import load_subject
from streamproof.conformance.violations import violation_of
from streamproof.conformance.windows_oracle import Ageing
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.windows import Window, Windowed


@pytest.fixture
def oracle() -> StoreOracle:
    """A store that stages its writes, with ``a`` committed."""
    found = StoreOracle(stages=True)
    found.write(found.own, b"a", b"1")
    found.commit(found.own)
    return found


def scan(oracle: StoreOracle, choices: Choices, *, backward: bool = False) -> Scan:
    return Scan(
        oracle.keys, choices, lambda _: True, lambda cell: cell, backward=backward, ordered=True
    )


def test_a_store_reads_its_staged_write(oracle: StoreOracle) -> None:
    oracle.write(oracle.own, b"a", b"2")

    assert oracle.in_store(b"a") == {b"2"}


def test_a_committed_view_hides_a_staged_write(oracle: StoreOracle) -> None:
    oracle.write(oracle.own, b"a", b"2")

    assert oracle.in_committed_view(b"a") == {b"1"}


def test_an_uncommitted_view_may_show_a_staged_write(oracle: StoreOracle) -> None:
    oracle.write(oracle.begin(), b"a", b"2")

    assert oracle.in_any_view(b"a") == {b"1", b"2"}


def test_a_transaction_may_read_the_content_as_of_its_begin(oracle: StoreOracle) -> None:
    transaction = oracle.begin()
    oracle.write(oracle.own, b"a", b"2")
    oracle.commit(oracle.own)

    assert oracle.in_transaction(transaction)(b"a") == {b"1", b"2"}


def test_a_transaction_reads_no_write_of_another(oracle: StoreOracle) -> None:
    transaction = oracle.begin()
    oracle.write(oracle.begin(), b"a", b"2")

    assert oracle.in_transaction(transaction)(b"a") == {b"1"}


def test_a_rolled_back_write_is_gone(oracle: StoreOracle) -> None:
    transaction = oracle.begin()
    oracle.write(transaction, b"a", None)
    oracle.forget(transaction)

    assert oracle.in_store(b"a") == {b"1"}


def test_a_key_of_two_writers_is_contested(oracle: StoreOracle) -> None:
    oracle.write(oracle.own, b"a", b"2")
    oracle.write(oracle.begin(), b"a", b"3")

    assert oracle.contested() == {b"a": {b"2", b"3"}}


def test_a_transaction_replaces_a_direct_write() -> None:
    oracle = StoreOracle(stages=False)
    transaction = oracle.begin()
    oracle.write(transaction, b"a", b"1")
    oracle.write(oracle.own, b"a", b"2")
    oracle.commit(transaction)

    assert oracle.in_store(b"a") == {b"1"}


def two_keys(oracle: StoreOracle) -> StoreOracle:
    oracle.write(oracle.own, b"b", b"2")
    return oracle


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([(b"a", b"1"), (b"b", b"2")], False),
        ([(b"b", b"2")], True),
        ([(b"a", b"1")], True),
        ([(b"b", b"2"), (b"a", b"1")], True),
        ([(b"a", b"1"), (b"a", b"1"), (b"b", b"2")], True),
        ([(b"a", b"other"), (b"b", b"2")], True),
        ([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], True),
    ],
)
def test_a_scan_yields_each_entry_once_in_order(
    oracle: StoreOracle, entries: list[tuple[bytes, bytes]], wrong: bool
) -> None:
    expected = scan(two_keys(oracle), oracle.in_store)

    assert bool(expected.take(entries, to_end=True)) is wrong


def test_a_backward_scan_begins_at_the_end(oracle: StoreOracle) -> None:
    expected = scan(two_keys(oracle), oracle.in_store, backward=True)

    assert not expected.take([(b"b", b"2"), (b"a", b"1")], to_end=True)


@pytest.mark.parametrize("entries", [[(b"a", b"1")], [(b"a", b"1"), (b"b", b"2")]])
def test_a_weak_iterator_may_show_a_later_delete(
    oracle: StoreOracle, entries: list[tuple[bytes, bytes]]
) -> None:
    expected = scan(two_keys(oracle), oracle.in_store)
    oracle.weak.append(expected)
    oracle.write(oracle.own, b"b", None)

    assert not expected.take(entries, to_end=True)


def test_a_weak_iterator_does_not_go_back(oracle: StoreOracle) -> None:
    expected = scan(two_keys(oracle), oracle.in_store)
    oracle.weak.append(expected)
    expected.take([(b"a", b"1"), (b"b", b"2")], to_end=False)
    oracle.write(oracle.own, b"aa", b"3")

    assert expected.take([(b"aa", b"3")], to_end=True)


# The player.


class Adding:
    """Adds numbers, and fails at 7 or more."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.total = 0

    @step(number="number")
    def add(self, number: int) -> None:
        self.calls.append("add")
        self.total += number
        assert self.total < 7

    @step(lambda offered: offered)
    def clear(self) -> None:
        self.calls.append("clear")
        self.total = 0


def played(*, offered: bool = True, effort: int = 100, most: int = 3) -> list[Adding]:
    """The objects of the programs that were played, up to the smallest that failed."""
    steps = Steps(Adding, {"number": st.integers(0, most)}, offered)
    player = Player(steps, 10, effort)
    begun: list[Adding] = []

    def begin() -> Adding:
        begun.append(Adding())
        return begun[-1]

    @hypothesis.settings(max_examples=100, database=None)
    @hypothesis.given(st.data())
    def program(data: st.DataObject) -> None:
        player.play(data.draw, begin)

    with contextlib.suppress(AssertionError, EffortSpent):
        program()
    return begun


def test_a_step_that_is_not_offered_is_never_done() -> None:
    calls = [call for each in played(offered=False, most=0) for call in each.calls]

    assert set(calls) == {"add"}


def test_a_failing_program_ends_small() -> None:
    assert played(effort=100_000)[-1].calls == ["add"] * 3


def test_a_spent_player_plays_no_new_program() -> None:
    assert len(played(effort=10, most=0)) == 10


def test_a_search_without_effort_ends_with_the_smallest_that_failed(tmp_path: Path) -> None:
    """Nothing is played after that but this program, which is also the one that is saved."""
    run = CheckRun(
        load_checks()["model.random_programs"],
        load_subject("rocksdb"),
        Settings(),
        tmp_path,
        RunningCall(tmp_path / "status", create=True),
    )
    totals: list[int] = []
    begun: list[Adding] = []
    steps = Steps(Adding, {"number": st.integers(0, 9)}, True)

    def begin() -> Adding:
        begun.append(Adding())
        return begun[-1]

    def new_body() -> Callable[[DataObject], None]:
        player = Player(steps, 10, 40)

        def body(data: DataObject) -> None:
            try:
                player.play(data.draw, begin)
            except AssertionError as error:
                totals.append(begun[-1].total)
                program = f"assert {begun[-1].total} < 7"
                raise violation_of("KV-015")("add", "less", "more", program) from error

        return body

    run.run_programs(new_body, 10)
    (failure,) = run.findings.values()

    assert totals[-1] == min(totals)
    assert failure.program == f"assert {totals[-1]} < 7"
    assert len(failure.choices.examples) == 1


class TestTimes:
    """What a reader of windows may get while the stream time is staged, or forgotten."""

    FIRST, FAR = (Windowed(b"a", Window(start, start + 10)) for start in (1000, 2000))

    @pytest.fixture
    def windows(self) -> StoreOracle:
        """A store with a retention of 1000 ms, and a committed window that has not expired."""
        can = Capabilities(kind="window", retention_ms=1000, expiry="record")
        found = StoreOracle(stages=True, ageing=Ageing(can))
        found.write(found.own, self.FIRST, b"1")
        found.commit(found.own)
        return found

    def test_a_staged_time_lets_nothing_expire_for_others(self, windows: StoreOracle) -> None:
        transaction = windows.begin()
        windows.write(transaction, self.FAR, b"2")

        assert windows.in_transaction(transaction)(self.FIRST) == {None}
        assert windows.in_store(self.FIRST) == windows.in_committed_view(self.FIRST) == {b"1"}

    def test_a_rollback_undoes_the_time(self, windows: StoreOracle) -> None:
        transaction = windows.begin()
        windows.write(transaction, self.FAR, b"2")
        windows.forget(transaction)

        assert windows.in_store(self.FIRST) == {b"1"}
        assert windows.keeps(windows.own, self.FIRST)

    def test_a_late_write_is_dropped(self, windows: StoreOracle) -> None:
        windows.write(windows.own, self.FAR, b"2")

        assert windows.keeps(windows.own, self.FIRST) is False

    def test_a_reopened_store_may_have_forgotten_the_time(self, windows: StoreOracle) -> None:
        windows.write(windows.own, self.FAR, b"2")
        windows.commit(windows.own)
        windows.close()

        assert windows.in_store(self.FIRST) == {None, b"1"}
        assert windows.keeps(windows.own, self.FIRST) is None

    def test_an_open_iterator_may_miss_what_expires(self, windows: StoreOracle) -> None:
        opened = scan(windows, windows.in_store)
        windows.scans.append(opened)
        windows.write(windows.own, self.FAR, b"2")

        assert not opened.take([], to_end=True)
