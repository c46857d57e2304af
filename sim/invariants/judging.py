"""Judging a run of which not everything was seen: an invariant that lacks something is not judged.

A simulated run tells everything. A recording of real processes lacks the kinds of events that
nobody could observe. An invariant that needs one of them would find nothing, or would find fault
with a right run. So it is not judged, with the reason, and never counts as held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from streamproof.sim.invariants.invariant import Invariant, InvariantViolation
from streamproof.sim.invariants.log_history import LogHistory

__all__ = ["EVERYTHING_SEEN", "Judgement", "Unseen", "judgeable", "kinds_read"]


class Unseen(NamedTuple):
    """What a recording does not tell.

    Attributes:
        kinds: the kinds of events that are not in it even if they happened, each with the reason.
        logs: why the logs are not known; empty if they are known from their beginning.
        unbound: the requirements that do not bind what was recorded, each with the reason.
        of_kafka: whether Kafka's own processes were recorded, and no simulated ones.
    """

    kinds: Mapping[str, str]
    logs: str
    unbound: Mapping[str, str] = MappingProxyType({})
    of_kafka: bool = False


EVERYTHING_SEEN = Unseen({}, "")
"""A run that tells everything, as one of the simulator does."""


class Judgement(NamedTuple):
    """What came of judging a run.

    Attributes:
        violations: the breaches, in the order in which they were found.
        unjudged: by invariant, why it was not judged.
        held: how many invariants were judged and found no breach.
        tried: the judged invariants whose situation came about.
    """

    violations: list[InvariantViolation]
    unjudged: Mapping[str, str]
    held: int
    tried: frozenset[str] = frozenset()


def kinds_read(invariant: type[Invariant], *, exactly_once: bool) -> frozenset[str]:
    """The kinds of events that an invariant observes."""
    return frozenset(invariant(LogHistory(exactly_once=exactly_once)).observers)


def judgeable(
    invariants: Iterable[type[Invariant]], unseen: Unseen, *, exactly_once: bool
) -> tuple[list[type[Invariant]], dict[str, str]]:
    """The invariants that observe only what was seen; and the reason for each other one."""
    able: list[type[Invariant]] = []
    reasons: dict[str, str] = {}
    for each in invariants:
        lacking = sorted(kinds_read(each, exactly_once=exactly_once) & unseen.kinds.keys())
        if each.requirement in unseen.unbound:
            reasons[each.name] = unseen.unbound[each.requirement]
        elif lacking:
            # One reason is enough, and many invariants share the first.
            reasons[each.name] = f"no {lacking[0]}: {unseen.kinds[lacking[0]]}"
        else:
            able.append(each)
    return able, reasons
