"""Chooses the legal states of a disk to try: after each call, several of each kind of damage.

The promises of the file system allow every chosen state, so no finding depends on a disk that does
not exist. The states are far too many to try them all. So the chosen ones are evenly spread, and
states with equal content are tried once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from random import Random
from typing import Literal

from streamproof.sampling import spread, spread_order
from streamproof.stores.syscalls.disk import SECTOR_BYTES, DiskModel, Effect, Piece
from streamproof.stores.syscalls.syscall_trace import CallKind, SyscallTrace, Tree

__all__ = [
    "DAMAGES",
    "Damage",
    "DiskState",
    "Left",
    "choose",
    "digest_of",
    "drawn_state",
    "points_of",
    "smaller",
    "states_at",
]

Damage = Literal["lost", "torn", "reordered", "hollow", "nameless", "scattered"]
"""The difference between a state and one that is merely older.

``lost``: all unsynced effects are gone, or the latest of them. ``torn``: some sectors of a write
survived. ``reordered``: a later write survived, but an earlier one did not. ``hollow``: names
survived, but the content did not. ``nameless``: content survived, but the latest names did not.
``scattered``: the latest names of single directories are gone, as happens without a journal.
"""

DAMAGES: tuple[Damage, ...] = ("lost", "torn", "reordered", "hollow", "nameless")
"""The kinds of damage that are possible on a file system with a journal."""

PAGE_BYTES = 4096

GROUPS = 6
"""The most groups of writes to one file. The writes of a group survive, or are lost, together."""

VARIANTS = 12
"""The most states of one kind that differ only in the moment up to which everything is kept."""

TRIES = 4
"""The most candidates that are compared for each state to try. Many candidates have equal content,
so more of them are needed than states."""


@dataclass(frozen=True)
class DiskState:
    """A legal state.

    Attributes:
        after: the number of calls before the power is cut.
        lost: the numbers of the calls whose effect is lost.
        torn: by number of a write, the piece of it that survived.
        damage: the kind of damage.
    """

    after: int
    lost: frozenset[int] = frozenset()
    torn: tuple[tuple[int, Piece], ...] = ()
    damage: Damage = "lost"

    def tree(self, disk: DiskModel) -> Tree:
        """The content of the disk."""
        return disk.tree(self.after, self.lost, dict(self.torn))


_AS_BYTES = "utf-8", "surrogateescape"
"""How the target of a link becomes bytes."""

Left = tuple[DiskState, Tree]
"""A state, and the content of the disk in it."""

Choice = tuple[set[int], tuple[tuple[int, Piece], ...]]
"""The calls that are lost, and those that are torn."""


def states_at(disk: DiskModel, after: int, damage: Damage) -> Iterator[DiskState]:
    """Legal states with one kind of damage after ``after`` calls; some may be equal.

    States that depend on writes that are not recorded are left out.
    """
    pending = disk.pending(after)
    for chosen, torn in _CHOICES[damage](pending):
        lost = disk.closed(after, chosen)
        if disk.is_known(after, lost):
            yield DiskState(after, lost, torn, damage)


def _calls(effects: Iterable[Effect]) -> set[int]:
    return {each.call for each in effects}


def _data(pending: Iterable[Effect]) -> list[Effect]:
    return [each for each in pending if not each.is_metadata]


def _metadata(pending: Iterable[Effect]) -> list[Effect]:
    return [each for each in pending if each.is_metadata]


def _groups(pending: Iterable[Effect]) -> list[set[int]]:
    """The writes that may be lost, in groups that survive or are lost together, by first call."""
    by_node: dict[int, list[int]] = {}
    for each in _data(pending):
        by_node.setdefault(each.node, []).append(each.call)
    groups = []
    for calls in by_node.values():
        size = -(-len(calls) // GROUPS)
        groups += [set(calls[at : at + size]) for at in range(0, len(calls), size)]
    return sorted(groups, key=min)


def _lost(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Lose everything unsynced, then ever smaller latest parts of it, down to nothing."""
    moments = [each.call for each in pending]
    for index in spread(len(moments), VARIANTS):
        yield {call for call in moments if call >= moments[index - 1]}, ()
    yield set(), ()


def _hollow(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Lose all content with all names or the earlier names kept, or the content of single files."""
    data, metadata = _data(pending), _metadata(pending)
    if not data:
        return
    for kept in reversed([0, *spread(len(metadata), VARIANTS)]):
        yield _calls(data) | _calls(metadata[kept:]), ()
    for node in {each.node: None for each in data}:
        yield {each.call for each in data if each.node == node}, ()


def _nameless(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Lose the latest names, up to all of them, but no content."""
    metadata = _metadata(pending)
    for index in spread(len(metadata), VARIANTS):
        yield _calls(metadata[index - 1 :]), ()


def _reordered(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Lose each group of writes alone, or all groups but one."""
    groups = _groups(pending)
    if len(groups) < 2:
        return
    data = _calls(_data(pending))
    for group in groups:
        yield set(group), ()
        yield data - group, ()


def _torn(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Keep only the head, or only the tail, of the last write to each file."""
    last = {each.node: each for each in pending if each.data is not None}
    for effect in last.values():
        for cut in _cuts(effect):
            for piece in ((0, cut), (cut, len(effect.data or b""))):
                yield set(), ((effect.call, piece),)


def _cuts(effect: Effect) -> list[int]:
    """The places to tear a write: the first, a middle and the last border of sectors and pages."""
    size = len(effect.data or b"")
    cuts: set[int] = set()
    for unit in (SECTOR_BYTES, PAGE_BYTES):
        ends = list(range(unit - effect.offset % unit, size, unit))
        cuts.update(ends[index - 1] for index in spread(len(ends), 3))
    return sorted(cuts)


def _scattered(pending: Sequence[Effect]) -> Iterator[Choice]:
    """Lose the changes of one directory from some moment on, all other changes, or everything."""
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
    """Legal states that lose less, those that lose least first."""
    calls = sorted(state.lost)
    chunk = len(calls) // 2
    while chunk:
        for start in range(0, len(calls), chunk):
            lost = frozenset(calls[:start] + calls[start + chunk :])
            if disk.closed(state.after, lost) == lost and disk.is_known(state.after, lost):
                yield replace(state, lost=lost)
        chunk //= 2


def points_of(trace: SyscallTrace, limit: int) -> list[int]:
    """The numbers of calls after which the power is cut: at most ``limit``, ascending.

    Moments around a sync, a change of names, and the end of an operation come first, because the
    promises change there. Between two writes they do not.
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
    """At most ``limit`` different states with one kind of damage, with the content of the disk."""
    points = points_of(trace, limit * TRIES)
    candidates = [state for point in points for state in states_at(disk, point, damage)]
    seen: set[tuple[bytes, int, int]] = set()
    spread_out = [candidates[at] for at in spread_order(len(candidates), limit * TRIES)]
    # A loss after the last call is the plainest, and what it shows needs no number of a call.
    at_the_end = [each for each in candidates if each.after == len(trace.calls)]
    for state in at_the_end[:1] + spread_out:
        tree = state.tree(disk)
        looks = (digest_of(tree), *trace.operations(state.after))
        if looks not in seen:
            seen.add(looks)
            yield state, tree
            if len(seen) == limit:
                return


def drawn_state(disk: DiskModel, after: int, seed: int) -> DiskState:
    """One legal state after ``after`` calls.

    Args:
        disk: the effects of all calls.
        after: the number of calls before the power is cut.
        seed: which state: with 0, the one without all that was not synced; any other draws one.
    """
    if not seed:
        return next(states_at(disk, after, "lost"))
    every = [state for damage in DAMAGES for state in states_at(disk, after, damage)]
    return Random(seed).choice(every)


def digest_of(tree: Tree) -> bytes:
    """A digest of the content of a directory."""
    digest = blake2b(digest_size=16)
    for path, content in sorted(tree.items()):
        kind = type(content).__name__
        data = content.encode(*_AS_BYTES) if isinstance(content, str) else content or b""
        digest.update(repr((path, kind, len(data))).encode())
        digest.update(data)
    return digest.digest()
