"""What worlds should reach: situations by name, and the parts of the space that have them often.

The situations are the marks of the runtime, the faults of brokers, networks and disks, and each
fault of instances with each topology.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from streamproof.sim.application import ADDITIONAL_RETENTION_MS, SEGMENT_MS
from streamproof.sim.coverage_marks import MARKS
from streamproof.sim.fault_sites import SITES
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.nemesis import KINDS
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.topologies import TOPOLOGIES

__all__ = ["GOALS", "fault_situations", "in_short", "situations_of"]

_WITH = " with the topology "


def _with_topology(fault: str, topology: str) -> str:
    return f"the fault {fault}{_WITH}{topology}"


def in_short(situations: Iterable[str]) -> list[str]:
    """Names of situations, sorted; a fault is named once, with all its topologies."""
    topologies: dict[str, list[str]] = {}
    for name in sorted(situations):
        fault, _, topology = name.partition(_WITH)
        topologies.setdefault(fault, []).extend([topology] if topology else [])
    return [
        f"{name} with {', '.join(those)}" if those else name for name, those in topologies.items()
    ]


def situations_of(topologies: Collection[str], kinds: Collection[str] = ()) -> list[str]:
    """The situations that worlds of some topologies should reach.

    Args:
        topologies: names in ``TOPOLOGIES``; all, if there is none.
        kinds: the possible faults of instances, of ``nemesis.KINDS`` and ``nemesis.RARE_KINDS``;
            all, if there is none.
    """
    pairs = (
        _with_topology(kind, topology)
        for topology in topologies or TOPOLOGIES
        for kind in kinds or KINDS
        # A rare fault has a mark of its own.
        if kind in KINDS
    )
    return [*MARKS, *(f"the fault {site}" for site in SITES), *pairs]


def fault_situations(topology: str, fired: Mapping[str, int]) -> dict[str, int]:
    """How often the world of a topology reached the situations that are faults.

    Args:
        topology: its name.
        fired: how often each fault happened: fault sites, and faults of instances.
    """
    sites = {f"the fault {site}": fired.get(site, 0) for site in SITES}
    return sites | {_with_topology(kind, topology): fired.get(kind, 0) for kind in KINDS}


_MANY_FAULTS = {"plan": {"activation": [0.5]}}

_STREAMS_PROTOCOL: Mapping[str, Any] = {
    "upgrades": [""],
    "plan": {"instances": [2, 3], "activation": [0.5]},
    "settings": {"group_protocol": ["streams"]},
}

_JOINS = ["stream-table-join", "stream-stream-join"]

_SCARCE: dict[str, Mapping[str, Any]] = {
    "a batch was refused for one partition and taken for another": _MANY_FAULTS,
    "a global store that was not closed was read anew": {
        "topologies": ["global-table-join"],
        "guarantees": ["exactly-once"],
        "kinds": ["crash"],
        "plan": {"persistent": [True]},
    },
    "a loss of power took what was flushed": {"kinds": ["power"], "plan": {"persistent": [True]}},
    "a member had to give tasks up before its epoch": _STREAMS_PROTOCOL,
    "a member that the group still had joined anew": {
        **_STREAMS_PROTOCOL,
        "kinds": ["crash", "cut"],
    },
    "a member waited for the task of another": _STREAMS_PROTOCOL,
    "a metadata version was probed": {"upgrades": ["sums-up"]},
    "a newer format was prepared while the older one was served": {
        "upgrades": ["format-in-place", "format-in-place-from-first"]
    },
    "a process died before it had wiped a task": {
        "guarantees": ["exactly-once"],
        "upgrades": [""],
        "kinds": ["wipe"],
        "plan": {"persistent": [True]},
        "settings": {"transactional": [False], "session_timeout_ms": [6_000]},
    },
    "a punctuation was due": {"topologies": ["punctuated-count"]},
    "a record was given up, and its transaction was aborted": {
        "guarantees": ["exactly-once"],
        "plan": {"activation": [0.5]},
        "settings": {"request_timeout_ms": [1_000], "max_block_ms": [2_000]},
    },
    "a segment of a window store was flushed before another": {
        "topologies": ["windowed-count"],
        "upgrades": [""],
        "settings": {"window_databases": ["segments"]},
    },
    "a standby was held back at the committed offset": {"topologies": ["reused-table-join"]},
    "a state updater died": _MANY_FAULTS,
    "a static member waited for its predecessor": {
        **_STREAMS_PROTOCOL,
        "kinds": ["crash"],
        "settings": {"group_protocol": ["streams"], "static_members": [True]},
    },
    # Sessions that are merged leave many tombstones, and a second compaction takes them. The input
    # lasts as long as the faults, so that a store that is away misses some.
    "a store had missed a tombstone": {
        "topologies": ["session-count"],
        "upgrades": [""],
        "kinds": ["crash", "pause", "cut", "bounce"],
        "plan": {
            "instances": [2, 3],
            "persistent": [True],
            "activation": [0.9],
            "safety_ms": [150_000],
        },
        "settings": {
            "topic_delete_retention_ms": [0],
            "topic_segment_ms": [SEGMENT_MS],
            "windowstore_changelog_additional_retention_ms": [ADDITIONAL_RETENTION_MS],
            "log_cleaner_backoff_ms": [500],
        },
        "workload": {"max_burst": [1, 4], "max_pause_ms": [3_000]},
    },
    "a task idled": {"topologies": _JOINS, "settings": {"max_task_idle_ms": [500]}},
    "a task waited for a lag that was not known": {
        "topologies": _JOINS,
        "settings": {"max_task_idle_ms": [0], "idling": ["proposal"]},
    },
    "a task waited for records that the broker had": {
        "topologies": _JOINS,
        "settings": {"max_task_idle_ms": [0], "max_poll_records": [3]},
    },
    # What stays from the first time shows then: punctuations, caches, positions.
    "a task that had run before became active again with its stores open": {
        "topologies": ["punctuated-count"],
        "upgrades": [""],
        "kinds": ["bounce"],
        "plan": {"instances": [2]},
        "settings": {"recycles_tasks": [True], "probing_rebalance_interval_ms": [5_000]},
    },
    "a task whose directory was taken waited": {"plan": {"threads": [2]}},
    "a transaction was aborted because it took too long": {
        "guarantees": ["exactly-once"],
        "kinds": ["pause"],
    },
    "an active task became a standby with its stores open": {
        "plan": {"instances": [2, 3]},
        "settings": {"recycles_tasks": [True]},
    },
    "committed records of a repartition topic were deleted": {"topologies": ["last-byte-count"]},
    "new instances took over from old ones": {"upgrades": ["format-roll-over"]},
    "the directory of a task was cleaned up": {"settings": {"state_cleanup_delay_ms": [1_000]}},
    "the group looked again at what was on its way": {
        "plan": {"instances": [2, 3]},
        "settings": {"probing_rebalance_interval_ms": [5_000]},
    },
}
"""By mark, the fields of a ``PlanSpace`` that has it often; marks that most worlds reach are left
out."""


def _fields() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for invariant in INVARIANTS:
        if invariant.drawn_from:
            yield invariant.name, invariant.drawn_from
    yield from _SCARCE.items()
    for site in SITES:
        yield f"the fault {site}", _MANY_FAULTS
    for topology in TOPOLOGIES:
        for kind in KINDS:
            yield (
                _with_topology(kind, topology),
                {"topologies": [topology], "kinds": [kind]},
            )


GOALS: dict[str, PlanSpace] = {
    name: msgspec.convert(fields, PlanSpace) for name, fields in _fields()
}
"""What worlds are drawn for, the scarcest first, each with the plans whose worlds have it often:
situations, and the names of invariants whose situation ordinary worlds lack."""
