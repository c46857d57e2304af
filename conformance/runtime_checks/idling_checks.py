"""Idling: whether a task may process, and which record is next (KIP-695), over random inputs."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions import idling
from streamproof.sim.decisions.idling import Input, Mode

__all__: list[str] = []

NOW = 1_000_000
"""The time of a first decision, in milliseconds."""

LAGS = st.sampled_from([None, -2, -1, 0, 1, 5])
INPUTS = st.lists(st.tuples(st.integers(0, 2), LAGS), min_size=1, max_size=4).map(
    lambda some: [Input(f"in-{number}", *each) for number, each in enumerate(some)]
)
IDLE_MS = st.sampled_from([0, 1, 100, 60_000])
MODES = st.sampled_from(["proposal", "kafka"])


def _lacks(each: Input) -> bool:
    """Whether an input is empty although the broker has, or may have, records of the input."""
    return not each.buffered and (each.lag is None or each.lag > 0)


@decision(
    "IDLE-001",
    heads=st.lists(st.integers(-1, 4), max_size=5).map(
        lambda times: [(f"in-{number}", time) for number, time in enumerate(times)]
    ),
)
def least_head_first(probe: Probe, heads: list[tuple[str, int]]) -> None:
    """Choose the next record among random heads."""
    chosen = probe.call(idling.next_partitions, heads)
    least = min((time for _, time in heads), default=0)
    probe.expect(sorted(name for name, time in heads if time == least), sorted(chosen))


@decision("IDLE-002", inputs=INPUTS, idle_ms=IDLE_MS, mode=MODES, waited=st.integers(0, 10**9))
def waits_until_caught_up(
    probe: Probe, inputs: list[Input], idle_ms: int, mode: Mode, waited: int
) -> None:
    """Decide, at any time, while empty inputs have a lag or an unknown lag."""
    lacking = [each.partition for each in inputs if _lacks(each)]
    deadlines = dict.fromkeys(lacking, NOW)
    found = probe.call(
        idling.ready_to_process,
        inputs,
        deadlines,
        now=NOW + waited,
        max_task_idle_ms=idle_ms,
        mode=mode,
    )
    probe.demand(
        f"no processing while {lacking} lack records", "ready", holds=not (lacking and found.ready)
    )


@decision("IDLE-003", inputs=INPUTS, deadline=st.integers(0, 2 * NOW))
def never_waits(probe: Probe, inputs: list[Input], deadline: int) -> None:
    """Decide with max.task.idle.ms = -1 and a buffered record."""
    inputs = [*inputs, Input("full", 1, 0)]
    found = probe.call(
        idling.ready_to_process, inputs, {"in-0": deadline}, now=NOW, max_task_idle_ms=-1
    )
    probe.expect((True, {}), (found.ready, found.waiting))


@decision("IDLE-004", buffered=st.lists(st.integers(0, 2), max_size=4), mode=MODES)
def no_idling_with_zero(probe: Probe, buffered: list[int], mode: Mode) -> None:
    """Decide with max.task.idle.ms = 0 when all empty inputs have caught up."""
    inputs = [Input(f"in-{number}", each, 0) for number, each in enumerate(buffered)]
    inputs.append(Input("full", 1, 3))
    found = probe.call(idling.ready_to_process, inputs, {}, now=NOW, max_task_idle_ms=0, mode=mode)
    probe.expect((True, {}), (found.ready, found.waiting))


@decision("IDLE-005", idle_ms=st.integers(1, 60_000), waited=st.integers(0, 120_000), mode=MODES)
def idles_for_its_time(probe: Probe, idle_ms: int, waited: int, mode: Mode) -> None:
    """Decide when an empty input has caught up, and again after a while."""
    inputs = [Input("full", 1, 0), Input("empty", 0, 0)]
    # The idle time does not begin while the lag is unknown, however long that takes.
    lacking = [inputs[0], Input("empty", 0, None)]
    first = probe.call(
        idling.ready_to_process, lacking, {}, now=0, max_task_idle_ms=idle_ms, mode=mode
    )
    second = probe.call(
        idling.ready_to_process,
        inputs,
        first.deadlines,
        now=NOW,
        max_task_idle_ms=idle_ms,
        mode=mode,
    )
    probe.expect((False, {"empty": "idling"}), (second.ready, second.waiting))
    third = probe.call(
        idling.ready_to_process,
        inputs,
        second.deadlines,
        now=NOW + waited,
        max_task_idle_ms=idle_ms,
        mode=mode,
    )
    probe.expect(waited >= idle_ms, third.ready)
    probe.expect(("empty",) if waited >= idle_ms else (), third.enforced)


@decision(
    "IDLE-006",
    idle_ms=st.integers(1, 60_000),
    state=st.sampled_from([(1, 0), (0, None), (0, 1), (2, 7)]),
    mode=MODES,
)
def idle_time_begins_anew(
    probe: Probe, idle_ms: int, state: tuple[int, int | None], mode: Mode
) -> None:
    """Decide after an awaited input got records or fell behind and is empty again."""
    idle = [Input("full", 1, 0), Input("empty", 0, 0)]
    between = [idle[0], Input("empty", *state)]
    ready, deadlines = True, dict[str, int]()
    for inputs, now in ((idle, NOW), (between, NOW + idle_ms), (idle, NOW + 2 * idle_ms)):
        ready, _, _, deadlines = probe.call(
            idling.ready_to_process,
            inputs,
            deadlines,
            now=now,
            max_task_idle_ms=idle_ms,
            mode=mode,
        )
    probe.expect((False, {"empty": NOW + 3 * idle_ms}), (ready, deadlines))


@decision("IDLE-007", idle_ms=st.integers(1, 60_000), empty=st.integers(2, 5))
def side_by_side(probe: Probe, idle_ms: int, empty: int) -> None:
    """Decide with several empty inputs that have caught up at the same time."""
    inputs = [Input("full", 1, 0)] + [Input(f"empty-{number}", 0, 0) for number in range(empty)]
    first = probe.call(idling.ready_to_process, inputs, {}, now=NOW, max_task_idle_ms=idle_ms)
    second = probe.call(
        idling.ready_to_process,
        inputs,
        first.deadlines,
        now=NOW + idle_ms,
        max_task_idle_ms=idle_ms,
    )
    probe.expect((False, True), (first.ready, second.ready))


@decision("IDLE-008", lags=st.lists(LAGS, max_size=4), idle_ms=st.sampled_from([-1, 0, 100]))
def nothing_to_process(probe: Probe, lags: list[int | None], idle_ms: int) -> None:
    """Decide without any buffered record, long after every idle time."""
    inputs = [Input(f"in-{number}", 0, lag) for number, lag in enumerate(lags)]
    deadlines = dict.fromkeys((each.partition for each in inputs), 0)
    found = probe.call(
        idling.ready_to_process, inputs, deadlines, now=NOW, max_task_idle_ms=idle_ms
    )
    probe.expect(expected=False, found=found.ready)


@decision("IDLE-009", inputs=INPUTS, idle_ms=IDLE_MS, mode=MODES)
def says_why(probe: Probe, inputs: list[Input], idle_ms: int, mode: Mode) -> None:
    """Read the reasons of a task that is not ready."""
    inputs = [*inputs, Input("full", 1, 0)]
    found = probe.call(
        idling.ready_to_process, inputs, {}, now=NOW, max_task_idle_ms=idle_ms, mode=mode
    )
    probe.expect(not found.ready, bool(found.waiting))
    reasons = {True: {"idling"}, False: {"lag unknown", "data on the broker"}}
    for each in inputs:
        if each.partition in found.waiting:
            is_settled = not _lacks(each) and not (mode == "kafka" and each.lag == -1)
            probe.demand(
                f"an empty {each.partition}, and the reason that fits its lag of {each.lag}",
                found.waiting[each.partition],
                holds=not each.buffered and found.waiting[each.partition] in reasons[is_settled],
            )
