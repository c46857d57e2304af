"""Assignment: which client gets which tasks (KIP-441), over random groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions import assignment
from streamproof.sim.decisions.assignment import Assignment, ClientState
from streamproof.sim.decisions.lag import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

__all__: list[str] = []

TASKS = [f"0_{number}" for number in range(6)]
LAGS = st.dictionaries(
    st.sampled_from(TASKS),
    st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 5, 10_000, 10_001, 10**6]),
)
CLIENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.builds(ClientState, st.integers(1, 3), LAGS),
    min_size=1,
)
STATEFUL = st.lists(st.sampled_from(TASKS), unique=True)
STATELESS = st.lists(st.sampled_from(["1_0", "1_1", "1_2"]), unique=True)
FEW = st.integers(0, 3)
COPIES = st.tuples(FEW, FEW)
"""The number of standbys of each task, and the largest number of warm-ups in the group."""
THREADS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 3), min_size=1)

Clients = Mapping[str, ClientState]
Copies = tuple[int, int]


def _assign(
    probe: Probe,
    clients: Clients,
    stateful: list[str],
    stateless: Sequence[str] = (),
    *,
    copies: Copies,
) -> Assignment:
    standbys, warmups = copies
    return probe.call(
        assignment.assign,
        clients,
        stateful,
        stateless,
        num_standby_replicas=standbys,
        max_warmup_replicas=warmups,
    )


def _holders(found: Assignment, task: str, role: str) -> list[str]:
    return [name for name, each in found.clients.items() if task in getattr(each, role)]


@decision("ASSIGN-001", clients=CLIENTS, stateful=STATEFUL, stateless=STATELESS, copies=COPIES)
def each_task_is_active_once(
    probe: Probe, clients: Clients, stateful: list[str], stateless: list[str], copies: Copies
) -> None:
    """Assign tasks to a random group, and count the active tasks."""
    found = _assign(probe, clients, stateful, stateless, copies=copies)
    active = sorted(task for each in found.clients.values() for task in each.active)
    probe.expect(sorted(stateful + stateless), active)


@decision("ASSIGN-002", clients=CLIENTS, stateful=STATEFUL, copies=COPIES)
def nobody_has_a_task_twice(
    probe: Probe, clients: Clients, stateful: list[str], copies: Copies
) -> None:
    """Assign tasks with copies, and look for clients with two roles in one task."""
    found = _assign(probe, clients, stateful, copies=copies)
    for name, each in found.clients.items():
        twice = (each.active & each.standby) | (each.warmup & (each.active | each.standby))
        probe.demand(f"{name} to have each task once", f"twice: {sorted(twice)}", holds=not twice)


@decision("ASSIGN-003", clients=CLIENTS, stateful=STATEFUL, stateless=STATELESS, copies=COPIES)
def as_many_standbys_as_asked_for(
    probe: Probe, clients: Clients, stateful: list[str], stateless: list[str], copies: Copies
) -> None:
    """Assign tasks with standbys, sometimes with more standbys than clients."""
    found = _assign(probe, clients, stateful, stateless, copies=copies)
    standbys, _ = copies
    for task in stateful:
        probe.expect(min(standbys, len(clients) - 1), len(_holders(found, task, "standby")))
    for task in stateless:
        copied = _holders(found, task, "standby") + _holders(found, task, "warmup")
        probe.expect([], copied)


@decision("ASSIGN-005", clients=CLIENTS, stateful=STATEFUL, warmups=FEW)
def warmups_are_bounded(probe: Probe, clients: Clients, stateful: list[str], warmups: int) -> None:
    """Assign tasks with few warm-ups, and count the warm-ups."""
    found = probe.call(assignment.assign, clients, stateful, [], max_warmup_replicas=warmups)
    copies = sum(len(each.warmup) for each in found.clients.values())
    probe.demand(f"at most {warmups} warm-ups", str(copies), holds=copies <= warmups)


@decision(
    "ASSIGN-004",
    clients=CLIENTS,
    stateful=STATEFUL,
    acceptable=st.sampled_from([0, 5, 10_000]),
    copies=COPIES,
)
def work_stays_with_its_state(
    probe: Probe, clients: Clients, stateful: list[str], acceptable: int, copies: Copies
) -> None:
    """Assign tasks, and compare the lags of the clients."""
    standbys, warmups = copies
    found = probe.call(
        assignment.assign,
        clients,
        stateful,
        [],
        num_standby_replicas=standbys,
        max_warmup_replicas=warmups,
        acceptable_recovery_lag=acceptable,
    )
    for task in stateful:
        lags = {name: each.lags[task] for name, each in clients.items() if task in each.lags}
        caught_up = [
            name for name, lag in lags.items() if lag == LATEST_OFFSET or 0 <= lag <= acceptable
        ]
        least = [name for name, lag in lags.items() if lag == min(lags.values())]
        wanted = caught_up + least
        (owner,) = _holders(found, task, "active")
        probe.demand(
            f"{task} to be active in one of {wanted}", owner, holds=owner in (wanted or [owner])
        )


@decision("ASSIGN-004", behind=st.lists(st.integers(20_000, 90_000), min_size=2, max_size=4))
def the_least_behind_goes_on(probe: Probe, behind: list[int]) -> None:
    """Assign a task with which no client is caught up."""
    clients = {f"c{number}": ClientState(1, {"0_0": lag}) for number, lag in enumerate(behind)}
    found = probe.call(assignment.assign, clients, ["0_0"], [])
    (owner,) = _holders(found, "0_0", "active")
    probe.expect(min(behind), clients[owner].lags["0_0"])


@decision(
    "ASSIGN-006",
    clients=CLIENTS,
    stateful=STATEFUL,
    stateless=STATELESS,
    standbys=st.integers(0, 1),
)
def load_follows_threads(
    probe: Probe, clients: Clients, stateful: list[str], stateless: list[str], standbys: int
) -> None:
    """Assign tasks to a group with a part of the state, and to the same group with all state."""
    tasks = stateful, stateless
    complete = {
        name: ClientState(each.threads, dict.fromkeys(TASKS, 0)) for name, each in clients.items()
    }
    _is_even_at_rest(probe, clients, _assign(probe, clients, *tasks, copies=(standbys, 2)))
    found = _assign(probe, complete, *tasks, copies=(standbys, 2))
    _is_even_at_rest(probe, complete, found)
    # If every client has all state, no task needs a warm-up.
    probe.expect(expected=False, found=found.probing)


def _is_even_at_rest(probe: Probe, clients: Clients, found: Assignment) -> None:
    loads = [len(each.active) / clients[name].threads for name, each in found.clients.items()]
    probe.demand(
        "loads of threads that differ by at most 1, unless a task is warming up",
        str(loads),
        holds=found.probing or max(loads) - min(loads) <= 1,
    )


@decision("ASSIGN-008", clients=CLIENTS, stateful=STATEFUL, copies=COPIES)
def looks_again_while_something_moves(
    probe: Probe, clients: Clients, stateful: list[str], copies: Copies
) -> None:
    """Assign tasks, and read whether the group plans a probing rebalance."""
    found = _assign(probe, clients, stateful, copies=copies)
    moving = any(each.warmup for each in found.clients.values())
    probe.demand("a probing rebalance", "no probing rebalance", holds=found.probing or not moving)


@decision("ASSIGN-009", clients=CLIENTS, stateful=STATEFUL, standbys=FEW)
def the_same_group_is_assigned_the_same(
    probe: Probe, clients: Clients, stateful: list[str], standbys: int
) -> None:
    """Assign the same tasks twice, with clients and tasks in different orders."""
    first = probe.call(assignment.assign, clients, stateful, [], num_standby_replicas=standbys)
    backwards = dict(reversed(list(clients.items())))
    second = probe.call(
        assignment.assign, backwards, stateful[::-1], [], num_standby_replicas=standbys
    )
    probe.demand("the same assignment", "another assignment", holds=first == second)


@decision(
    "ASSIGN-010",
    threads=THREADS,
    stateful=st.lists(st.sampled_from(TASKS), unique=True, min_size=1),
    lags=st.lists(LAGS, min_size=3, max_size=3),
    standbys=st.integers(0, 1),
)
def a_group_comes_to_rest(
    probe: Probe,
    threads: dict[str, int],
    stateful: list[str],
    lags: list[dict[str, int]],
    standbys: int,
) -> None:
    """Assign tasks repeatedly, and make the copies in between."""
    known = dict(zip(threads, lags, strict=False))
    for _ in range(2 * len(TASKS) * len(threads) + 2):
        clients = {name: ClientState(threads[name], known[name]) for name in threads}
        found = _assign(probe, clients, stateful, copies=(standbys, 2))
        if not found.probing:
            return
        for name, each in found.clients.items():
            # A client with a copy keeps up. The others fall behind.
            known[name] = dict.fromkeys(known[name], 10**6)
            known[name] |= dict.fromkeys(each.standby | each.warmup, 0)
            known[name] |= dict.fromkeys(each.active, LATEST_OFFSET)
    probe.demand("the moves to end", "more moves", holds=False)
