"""Lags, over random positions and sums."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions import lag
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.lag import LATEST_OFFSET, MAX_OFFSET, UNKNOWN_OFFSET_SUM

__all__: list[str] = []

MODES = st.sampled_from(["proposal", "kafka"])
OFFSETS = st.one_of(st.integers(0, 20), st.integers(0, MAX_OFFSET))


@decision("LAG-001", position=OFFSETS, end=OFFSETS, asked=st.booleans(), mode=MODES)
def is_end_less_position(probe: Probe, position: int, end: int, asked: bool, mode: Mode) -> None:
    """Compute a lag with a known position and a known end."""
    answer = probe.call(lag.current_lag, position, end, asked=asked, mode=mode)
    probe.expect((end - position, False), tuple(answer))


@decision("LAG-002", end=st.none() | OFFSETS, asked=st.booleans(), mode=MODES)
def no_position_no_lag(probe: Probe, end: int | None, asked: bool, mode: Mode) -> None:
    """Compute a lag without a position."""
    answer = probe.call(lag.current_lag, None, end, asked=asked, mode=mode)
    probe.expect((None, mode == "kafka" and end is None and not asked), tuple(answer))


@decision("LAG-003", position=OFFSETS, asked=st.booleans())
def asks_once(probe: Probe, position: int, asked: bool) -> None:
    """Compute a lag with an unknown end, before and after the request for the end."""
    answer = probe.call(lag.current_lag, position, None, asked=asked, mode="kafka")
    probe.expect((None, not asked), tuple(answer))


@decision("LAG-012", position=OFFSETS, asked=st.booleans())
def never_asks(probe: Probe, position: int, asked: bool) -> None:
    """Compute a lag with an unknown end, as proposed."""
    answer = probe.call(lag.current_lag, position, None, asked=asked)
    probe.expect((None, False), tuple(answer))


@decision("LAG-008", offsets=st.lists(st.none() | OFFSETS, max_size=5))
def sums(probe: Probe, offsets: list[int | None]) -> None:
    """Add up the offsets of a task's changelogs."""
    found = probe.call(lag.offset_sum, offsets)
    exact = sum(each for each in offsets if each is not None)
    probe.expect(min(exact, MAX_OFFSET), found)


@decision("LAG-009", reported=st.none() | OFFSETS, end=OFFSETS)
def of_clients(probe: Probe, reported: int | None, end: int) -> None:
    """Compute the lag of a client from its report."""
    found = probe.call(lag.task_lag, reported, end)
    behind = end - (reported or 0)
    probe.expect(behind if behind >= 0 else end, found)
    for sentinel in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
        probe.expect(sentinel, probe.call(lag.task_lag, sentinel, end))


@decision("LAG-010", behind=OFFSETS, acceptable=OFFSETS)
def who_is_caught_up(probe: Probe, behind: int, acceptable: int) -> None:
    """Compute which clients may take a task over."""
    found = probe.call(lag.is_caught_up, behind, acceptable)
    probe.expect(behind <= acceptable or acceptable == MAX_OFFSET, found)
    probe.expect(expected=True, found=probe.call(lag.is_caught_up, LATEST_OFFSET, acceptable))
    found = probe.call(lag.is_caught_up, UNKNOWN_OFFSET_SUM, acceptable)
    probe.expect(acceptable == MAX_OFFSET, found)
