"""Lag, recovery, restoration and commits: examples of decisions, on plain data.

What holds of every decision is in ``streamproof.conformance.runtime_checks``.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.decisions.commits import (
    Uncommitted,
    commit_is_due,
    committable_offset,
    needs_commit,
    next_iterations,
    share_of,
)
from streamproof.sim.decisions.lag import (
    LATEST_OFFSET,
    MAX_OFFSET,
    UNKNOWN_OFFSET_SUM,
    LagAnswer,
    current_lag,
    is_caught_up,
    offset_sum,
    task_lag,
)
from streamproof.sim.decisions.recovery import (
    OFFSET_UNKNOWN,
    Closing,
    FoundStore,
    Recovery,
    Traits,
    commits_after,
    opening,
    wipes_after,
)
from streamproof.sim.decisions.restore_range import (
    end_of,
    is_complete,
    remaining_after,
)

EOS = Traits(exactly_once=True, transactional=False)
EOS_TRANSACTIONAL = Traits(exactly_once=True, transactional=True)
ALOS = Traits(exactly_once=False, transactional=False)
ALOS_TRANSACTIONAL = Traits(exactly_once=False, transactional=True)
ALL = [EOS, EOS_TRANSACTIONAL, ALOS, ALOS_TRANSACTIONAL]


class TestLag:
    """How far somebody is behind."""

    @pytest.mark.parametrize(
        ("position", "end", "asked", "answer"),
        [
            (None, None, False, LagAnswer(None, False)),
            (None, 9, False, LagAnswer(None, False)),
            (5, None, False, LagAnswer(None, False)),
            (5, None, True, LagAnswer(None, False)),
            (5, 9, False, LagAnswer(4, False)),
            (5, 9, True, LagAnswer(4, False)),
            (9, 9, False, LagAnswer(0, False)),
            # A seek keeps the end that was known before.
            (12, 9, False, LagAnswer(-3, False)),
        ],
    )
    def test_of_a_consumer(
        self, position: int | None, end: int | None, answer: LagAnswer, *, asked: bool
    ) -> None:
        """Known only with a position and an end; as shipped, the end is asked for once."""
        assert current_lag(position, end, asked=asked) == answer
        shipped = current_lag(position, end, asked=asked, mode="kafka")
        asks = end is None and not asked
        assert shipped == answer._replace(ask_for_end=asks)

    def test_the_sum_of_a_task(self) -> None:
        """Unknown offsets count as 0, and the sum stops at the largest offset."""
        assert offset_sum([3, None, 4]) == 7
        assert offset_sum([]) == 0
        assert offset_sum([MAX_OFFSET, 1]) == MAX_OFFSET

    @pytest.mark.parametrize(
        ("reported", "end", "lag"),
        [
            (LATEST_OFFSET, 100, LATEST_OFFSET),
            (UNKNOWN_OFFSET_SUM, 100, UNKNOWN_OFFSET_SUM),
            (None, 100, 100),
            (0, 100, 100),
            (99, 100, 1),
            (100, 100, 0),
            # More than there is: the client counts as one that has nothing.
            (101, 100, 100),
        ],
    )
    def test_of_a_client(self, reported: int | None, end: int, lag: int) -> None:
        """As the leader of the group sees it."""
        assert task_lag(reported, end) == lag

    def test_who_is_caught_up(self) -> None:
        """A running active is; one whose lag is not known is not, unless nobody cares."""
        assert is_caught_up(LATEST_OFFSET, 0)
        assert is_caught_up(10, 10)
        assert not is_caught_up(11, 10)
        assert not is_caught_up(UNKNOWN_OFFSET_SUM, 10)
        assert is_caught_up(UNKNOWN_OFFSET_SUM, MAX_OFFSET)


class TestRecovery:
    """What is trusted, and what is wiped."""

    @pytest.mark.parametrize("traits", ALL)
    def test_a_committed_offset_is_gone_on_from(self, traits: Traits) -> None:
        """With the next one; the store was closed."""
        start = Recovery(wipe=False, restore_from=42)
        assert opening(traits, FoundStore(offset=41, empty=False)) == start

    @pytest.mark.parametrize("traits", ALL)
    def test_nothing_there_is_restored_from_the_start(self, traits: Traits) -> None:
        """An empty directory is no reason to distrust it."""
        assert opening(traits, FoundStore(offset=None, empty=True)) == Recovery(wipe=False)

    @pytest.mark.parametrize(
        "found",
        [FoundStore(offset=41, empty=False, unclean=True), FoundStore(offset=None, empty=False)],
    )
    def test_what_is_distrusted(self, found: FoundStore) -> None:
        """Only under exactly-once, and only without transactions, is it wiped."""
        assert [opening(traits, found).wipe for traits in ALL] == [True, False, False, False]

    @pytest.mark.parametrize("traits", ALL)
    def test_known_to_have_no_offset(self, traits: Traits) -> None:
        """A store that got no record before it was closed is healthy (KAFKA-19712)."""
        assert opening(traits, FoundStore(OFFSET_UNKNOWN, empty=False)) == Recovery(wipe=False)

    def test_what_has_no_changelog_or_no_files_is_not_asked(self) -> None:
        """There is nothing to restore from, or nothing that was left."""
        for traits in (EOS._replace(logged=False), EOS._replace(persistent=False)):
            assert opening(traits, FoundStore(None, empty=False)) == Recovery(wipe=False)

    def test_a_store_without_changelog_that_was_not_closed_is_distrusted(self) -> None:
        """The store says so itself, and does not know whether it has a changelog."""
        found = FoundStore(None, empty=False, unclean=True)

        assert opening(EOS._replace(logged=False), found) == Recovery(wipe=True)
        assert opening(EOS._replace(persistent=False), found) == Recovery(wipe=False)

    @pytest.mark.parametrize(
        ("closing", "commits"),
        [
            (Closing.COMMIT, [False, True, True, True]),
            (Closing.RESTORED, [True] * 4),
            (Closing.CLEAN, [True] * 4),
            (Closing.DIRTY, [False] * 4),
            (Closing.CORRUPTED, [False] * 4),
        ],
    )
    def test_when_offsets_are_committed(self, closing: Closing, commits: list[bool]) -> None:
        """For EOS, EOS with transactions, ALOS, ALOS with transactions."""
        assert [commits_after(traits, closing) for traits in ALL] == commits

    @pytest.mark.parametrize(
        ("closing", "wipes"),
        [
            (Closing.COMMIT, [False] * 4),
            (Closing.RESTORED, [False] * 4),
            (Closing.CLEAN, [False] * 4),
            (Closing.DIRTY, [True, False, False, False]),
            (Closing.CORRUPTED, [True, True, False, False]),
        ],
    )
    def test_when_files_are_deleted(self, closing: Closing, wipes: list[bool]) -> None:
        """For EOS, EOS with transactions, ALOS, ALOS with transactions."""
        assert [wipes_after(traits, closing) for traits in ALL] == wipes

    @given(st.sampled_from(list(Closing)), st.sampled_from(ALL))
    def test_nothing_is_committed_and_wiped(self, closing: Closing, traits: Traits) -> None:
        """Whoever is distrusted gets no offset that vouches for it."""
        assert not (commits_after(traits, closing) and wipes_after(traits, closing))


class TestRestoration:
    """Where it begins and ends."""

    def test_the_end_of_a_source_topic_is_what_was_committed(self) -> None:
        """Of any other changelog it is the end of the log."""
        assert end_of(100) == 100
        assert end_of(100, 60, is_source=True) == 60
        assert end_of(100, None, is_source=True) == 0
        assert end_of(50, 60, is_source=True) == 50

    @pytest.mark.parametrize(
        ("end", "position", "buffered", "complete"),
        [
            (0, 0, [], True),
            (10, 9, [], False),
            # The last offset is a marker: no record, but the position is past it.
            (10, 10, [], True),
            (10, 10, [9], False),
            (10, 12, [10, 11], True),
        ],
    )
    def test_the_position_decides(
        self, end: int, position: int, buffered: list[int], *, complete: bool
    ) -> None:
        """And what was fetched but not applied (KAFKA-10167, KAFKA-12951)."""
        assert is_complete(end, position, buffered) is complete

    def test_the_rest_comes_to_zero(self) -> None:
        """In offsets, so that gaps do not leave one (KAFKA-20711)."""
        assert remaining_after(10, None, 4) == 6
        assert remaining_after(10, 6, 4) == 3
        assert remaining_after(10, 9, 4) == 0
        assert remaining_after(10, 11, 4) == 0


class TestCommits:
    """When, and what."""

    def test_the_interval_has_to_be_over(self) -> None:
        """Exactly the interval is not yet more than it."""
        assert not commit_is_due(100, 0, commit_interval_ms=100)
        assert commit_is_due(101, 0, commit_interval_ms=100)

    def test_what_is_staged_forces_a_commit(self) -> None:
        """More than the limit for records or for bytes, and only if there is one."""
        for limit, staged, due in ((10, 11, True), (10, 10, False), (0, 11, False), (-1, 1, False)):
            for records in (True, False):
                found = commit_is_due(
                    1,
                    0,
                    commit_interval_ms=100,
                    staged=Uncommitted(staged, 0) if records else Uncommitted(0, staged),
                    limits=Uncommitted(limit, -1) if records else Uncommitted(-1, limit),
                )
                assert found is due

    def test_threads_share_the_limits(self) -> None:
        """Equally; a limit that is too small to be shared is 1, and no limit stays none."""
        assert share_of(Uncommitted(-1, 100), 3) == Uncommitted(-1, 33)
        assert share_of(Uncommitted(2, 0), 3) == Uncommitted(1, 0)

    def test_a_marker_at_the_end_is_committed_too(self) -> None:
        """Else the lag would never be 0 (KAFKA-6607)."""
        assert needs_commit(4, 6)
        assert not needs_commit(4, 5)
        assert not needs_commit(None, 6)
        assert not needs_commit(4, None)

    def test_what_is_buffered_is_not_committed(self) -> None:
        """The next record to process is the first in the buffer, else the next to fetch."""
        assert committable_offset(7, 12) == 7
        assert committable_offset(None, 12) == 12
        assert committable_offset(None, None) is None

    def test_iterations(self) -> None:
        """One more if nothing else was to be done, else half of it, and at least one."""
        for late, interrupted in itertools.product((False, True), repeat=2):
            after = next_iterations(9, late_for_poll=late, interrupted=interrupted)
            assert after == (4 if late or interrupted else 10)
        assert next_iterations(1, late_for_poll=True, interrupted=False) == 1
