"""Which legal states of a disk are tried: after each call, several of each kind of damage.

The promises of the file system allow every state, so no finding depends on a disk that does not
exist. There are far too many states to try them all. Those that are left out are evenly spread, and
two states that look alike are tried once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from streamproof.conformance.power.disk import DiskModel, Effect, Piece
from streamproof.conformance.power.syscall_trace import CallKind, SyscallTrace, Tree
from streamproof.conformance.sampling import spread, spread_order

__all__ = [
    "DAMAGES",
    "Damage",
    "DiskState",
    "Left",
    "choose",
    "digest_of",
    "points_of",
    "smaller",
    "states_at",
]

Damage = Literal["lost", "torn", "reordered", "hollow", "nameless", "scattered"]
"""How a state differs from one that is just older.

``lost``: what was not synced is gone, or the latest part of it is. ``torn``: of a write some
sectors survived. ``reordered``: a later write survived, and an earlier one did not. ``hollow``:
names survived, and the content did not. ``nameless``: content survived, and the latest names did
not. ``scattered``: the latest names of any directory did not, as without a journal.
"""

DAMAGES: tuple[Damage, ...] = ("lost", "torn", "reordered", "hollow", "nameless")
"""What may happen on a file system with a journal."""

SECTOR_BYTES = 512
PAGE_BYTES = 4096

GROUPS = 6
"""Into how many groups, at most, the writes to one file are put that survive or not together."""

VARIANTS = 12
"""How many states of one kind, at most, differ only in the moment up to which all is kept."""

TRIES = 4
"""How many candidates, at most, are looked at for each state that is to be tried."""


@dataclass(frozen=True)
class DiskState:
    """A legal state.

    Attributes:
        after: after how many calls the power goes.
        lost: the numbers of the calls whose effect is lost.
        torn: the writes of which a piece survived, by number.
        damage: what kind it is.
    """

    after: int
    lost: frozenset[int] = frozenset()
    torn: tuple[tuple[int, Piece], ...] = ()
    damage: Damage = "lost"

    def tree(self, disk: DiskModel) -> Tree:
        """What is on the disk."""
        return disk.tree(self.after, self.lost, dict(self.torn))


Left = tuple[DiskState, Tree]
"""A state, and what is on the disk then."""

Choice = tuple[set[int], tuple[tuple[int, Piece], ...]]
"""The calls that are lost, and those that are torn."""


def states_at(disk: DiskModel, after: int, damage: Damage) -> Iterator[DiskState]:
    """Legal states with one kind of damage after ``after`` calls; some may look alike."""
    pending = disk.pending(after)
    for lost, torn in _CHOICES[damage](pending):
        yield DiskState(after, disk.closed(after, lost), torn, damage)


def _calls(effects: Iterable[Effect]) -> set[int]:
    return {each.call for each in effects}


def _data(pending: Iterable[Effect]) -> list[Effect]:
    return [each for each in pending if not each.is_metadata]


def _metadata(pending: Iterable[Effect]) -> list[Effect]:
    return [each for each in pending if each.is_metadata]


def _groups(pending: Iterable[Effect]) -> list[set[int]]:
    """The writes that may be lost, as the groups that survive or not, by their first call."""
    by_node: dict[int, list[int]] = {}
    for each in _data(pending):
        by_node.setdefault(each.node, []).append(each.call)
    groups = []
    for calls in by_node.values():
        size = -(-len(calls) // GROUPS)
        groups += [set(calls[at : at + size]) for at in range(0, len(calls), size)]
    return sorted(groups, key=min)


def _lost(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Everything, and the latest part of it, up to nothing."""
    moments = [each.call for each in pending]
    for index in spread(len(moments), VARIANTS):
        yield {call for call in moments if call >= moments[index - 1]}, ()
    yield set(), ()


def _hollow(pending: Sequence[Effect]) -> Iterator[Choice]:
    """All content with all names or the earlier names kept; the content of single files."""
    data, metadata = _data(pending), _metadata(pending)
    if not data:
        return
    for kept in reversed([0, *spread(len(metadata), VARIANTS)]):
        yield _calls(data) | _calls(metadata[kept:]), ()
    for node in {each.node: None for each in data}:
        yield {each.call for each in data if each.node == node}, ()


def _nameless(pending: Sequence[Effect]) -> Iterator[Choice]:
    """The latest names, up to all of them, and no content."""
    metadata = _metadata(pending)
    for index in spread(len(metadata), VARIANTS):
        yield _calls(metadata[index - 1 :]), ()


def _reordered(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Each group of writes alone is lost, or alone survives."""
    groups = _groups(pending)
    if len(groups) < 2:
        return
    data = _calls(_data(pending))
    for group in groups:
        yield set(group), ()
        yield data - group, ()


def _torn(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Of the last write to each file the head survives, or the tail."""
    last = {each.node: each for each in pending if each.data is not None}
    for effect in last.values():
        for cut in _cuts(effect):
            for piece in ((0, cut), (cut, len(effect.data or b""))):
                yield set(), ((effect.call, piece),)


def _cuts(effect: Effect) -> list[int]:
    """Where a write may be torn: the first, a middle and the last end of a sector and of a page."""
    size = len(effect.data or b"")
    cuts: set[int] = set()
    for unit in (SECTOR_BYTES, PAGE_BYTES):
        ends = list(range(unit - effect.offset % unit, size, unit))
        cuts.update(ends[index - 1] for index in spread(len(ends), 3))
    return sorted(cuts)


def _scattered(pending: Sequence[Effect]) -> Iterator[Choice]:
    """What one directory changed is lost, from some moment on, or all but that; or everything."""
    metadata = _metadata(pending)
    if metadata:
        yield _calls(metadata), ()
    for effect in metadata:
        later = {each.call for each in metadata if each.call >= effect.call}
        mine = {each.call for each in metadata if each.places & effect.places}
        yield later & mine, ()
        yield later - mine, ()
        yield _calls(metadata) - mine, ()


_CHOICES: dict[Damage, Callable[[Sequence[Effect]], Iterator[Choice]]] = {
    "lost": _lost,
    "torn": _torn,
    "reordered": _reordered,
    "hollow": _hollow,
    "nameless": _nameless,
    "scattered": _scattered,
}


def smaller(disk: DiskModel, state: DiskState) -> Iterator[DiskState]:
    """Legal states in which less is lost, those that lose least first."""
    calls = sorted(state.lost)
    chunk = len(calls) // 2
    while chunk:
        for start in range(0, len(calls), chunk):
            lost = frozenset(calls[:start] + calls[start + chunk :])
            if disk.closed(state.after, lost) == lost:
                yield replace(state, lost=lost)
        chunk //= 2


def points_of(trace: SyscallTrace, limit: int) -> list[int]:
    """The numbers of calls after which the power is cut: at most ``limit``, ascending.

    Those around a sync, a change of names, and the end of an operation come first: between two
    writes little is decided.
    """
    count = len(trace.calls)
    plain = {CallKind.WRITE, CallKind.ZERO}
    turns = {0, count, *trace.started, *trace.returned}
    for number, call in enumerate(trace.calls, start=1):
        if call.kind not in plain:
            turns.update((number - 1, number))
    others = sorted(set(range(count + 1)) - turns)
    chosen = _some(sorted(turns), limit)
    return sorted(chosen + _some(others, limit - len(chosen)))


def _some(numbers: Sequence[int], limit: int) -> list[int]:
    return [numbers[index - 1] for index in spread(len(numbers), limit)]


def choose(disk: DiskModel, trace: SyscallTrace, damage: Damage, limit: int) -> Iterator[Left]:
    """At most ``limit`` states with one kind of damage that differ, with what is on the disk."""
    points = points_of(trace, limit * TRIES)
    candidates = [state for point in points for state in states_at(disk, point, damage)]
    seen: set[tuple[bytes, int, int]] = set()
    for index in spread_order(len(candidates), limit * TRIES):
        state = candidates[index]
        tree = state.tree(disk)
        looks = (digest_of(tree), *trace.operations(state.after))
        if looks not in seen:
            seen.add(looks)
            yield state, tree
            if len(seen) == limit:
                return


def digest_of(tree: Tree) -> bytes:
    """A digest of what is below a directory."""
    digest = blake2b(digest_size=16)
    for path, content in sorted(tree.items()):
        digest.update(repr((path, content)).encode())
    return digest.digest()
