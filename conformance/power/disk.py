"""What a disk may hold after the loss of power: the calls of a program, and which of them last.

Every call has at most two effects, and each effect lasts from a certain call on, which synced it.
Until then it may be lost. The model keeps to what file systems say of themselves:

- ``fsync`` and ``fdatasync`` of a file make its data and its size last. So does a synchronous
  write for itself. ``sync_file_range`` promises nothing, and ``close`` does not either.
- An entry of a directory lasts once the directory was synced (``fsync(2)``); a rename does so as
  a whole, once either of its directories was.
- Data that was not synced may be lost or kept, in any order, and in pieces of whole sectors. Where
  the size outlives the data, zeros are read.
- What was written to a file after its size had been set is not kept without the new size.
- The changes of one directory reach the disk in order.

:data:`JOURNALLED` adds what ext4 and XFS do in every mode of theirs: all changes of names and sizes
reach the disk in order, so that what makes one of them last makes all last that came before, and
to sync a file or a directory makes its own names last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from streamproof.conformance.power.syscall_trace import Call, CallKind, SyscallTrace, Tree

__all__ = [
    "JOURNALLED",
    "NEVER",
    "PORTABLE",
    "DiskModel",
    "Effect",
    "FileSystem",
    "Piece",
    "disk_of",
]

ROOT = 1
"""The node of the directory that is asked about; others have higher numbers."""

NEVER = 1 << 62
"""The number of no call."""

Piece = tuple[int, int]
"""A part of a write that survives: from the first byte up to, not including, the second."""


@dataclass(frozen=True)
class FileSystem:
    """What a file system promises, besides what all do.

    Attributes:
        ordered: changes of names and sizes reach the disk in order, whatever they change.
        names_with_files: to sync a file or directory makes the names last that it was given.
    """

    ordered: bool
    names_with_files: bool


JOURNALLED = FileSystem(ordered=True, names_with_files=True)
"""ext4 and XFS, in their weakest modes."""

PORTABLE = FileSystem(ordered=False, names_with_files=False)
"""What ``fsync(2)`` promises on any file system, and no more."""


class DirectoryEntry(NamedTuple):
    """A name in a directory that leads to a node, or to nothing any more."""

    directory: int
    name: str
    node: int | None


@dataclass
class Effect:
    """What a call does to the disk.

    Attributes:
        call: the number of the call.
        entries: the names that it changes, all at once.
        node: the file that it changes.
        offset: where the change begins, in bytes; for a new size, that size.
        data: the bytes that are there then; ``None`` if it changes the size, or zeros a part.
        zeros: how many bytes are zero then, as far as they are within the file.
        lasts: the number of the call from which on it is never lost.
    """

    call: int
    entries: tuple[DirectoryEntry, ...] = ()
    node: int = 0
    offset: int = 0
    data: bytes | None = None
    zeros: int = 0
    lasts: int = NEVER

    @property
    def places(self) -> set[int]:
        """The directories that it changes, or the file."""
        return {each.directory for each in self.entries} or {self.node}

    @property
    def resizes(self) -> bool:
        """Whether it changes the size of a file, and nothing else."""
        return not self.entries and self.data is None and not self.zeros

    @property
    def is_metadata(self) -> bool:
        """Whether it goes through the journal of a file system that has one."""
        return bool(self.entries) or self.resizes

    def concerns(self, node: int, *, names_too: bool = True) -> bool:
        """Whether to sync a file or directory is about this effect."""
        if not self.entries:
            return self.node == node
        return any(
            each.directory == node or (names_too and each.node == node) for each in self.entries
        )

    def pending(self, after: int) -> bool:
        """Whether it has happened after ``after`` calls, and may still be lost."""
        return self.call <= after < self.lasts


@dataclass
class DiskModel:
    """The effects of all calls of a trace, under what a file system promises.

    Attributes:
        file_system: what holds for each of its states.
        effects: all effects, in order.
        links: where symbolic links lead.
        directories: the nodes that are directories.
    """

    file_system: FileSystem
    effects: list[Effect] = field(default_factory=list)
    links: dict[int, str] = field(default_factory=dict)
    directories: set[int] = field(default_factory=lambda: {ROOT})

    def pending(self, after: int) -> list[Effect]:
        """The effects that may be lost when the power is cut after ``after`` calls."""
        return [each for each in self.effects if each.pending(after)]

    def closed(self, after: int, lost: AbstractSet[int]) -> frozenset[int]:
        """The lost calls, and all later ones that cannot survive without them."""
        gone: set[int] = set()
        places: set[int] = set()
        for each in self.pending(after):
            if each.is_metadata and self.file_system.ordered:
                kept = not places
            else:
                kept = places.isdisjoint(each.places)
            if each.call in lost or not kept:
                gone.add(each.call)
                if each.is_metadata:
                    places |= each.places
        return frozenset(gone)

    def tree(
        self,
        after: int,
        lost: AbstractSet[int] = frozenset(),
        torn: Mapping[int, Piece] | None = None,
    ) -> Tree:
        """The content of the disk after ``after`` calls, without those that are lost.

        Of a write in ``torn`` only a piece survived.
        """
        entries: dict[int, dict[str, int]] = {}
        contents: dict[int, bytearray] = {}
        for effect in self.effects:
            if effect.call > after:
                break
            if effect.call in lost:
                continue
            for directory, name, node in effect.entries:
                if node is None:
                    entries.setdefault(directory, {}).pop(name, None)
                else:
                    entries.setdefault(directory, {})[name] = node
            if effect.node:
                piece = (torn or {}).get(effect.call)
                _change(contents.setdefault(effect.node, bytearray()), effect, piece)
        return dict(self._walk(ROOT, "", entries, contents, ()))

    def _walk(
        self,
        directory: int,
        path: str,
        entries: Mapping[int, Mapping[str, int]],
        contents: Mapping[int, bytearray],
        above: tuple[int, ...],
    ) -> Iterator[tuple[str, bytes | str | None]]:
        for name, node in sorted(entries.get(directory, {}).items()):
            place = f"{path}{name}"
            if node in self.links:
                yield place, self.links[node]
            elif node not in self.directories:
                yield place, bytes(contents.get(node, b""))
            elif node not in above:
                # A directory that lost its way out of itself is not entered again.
                yield place, None
                yield from self._walk(node, f"{place}/", entries, contents, (*above, node))


def _change(content: bytearray, effect: Effect, piece: Piece | None) -> None:
    """Apply an effect, or a piece of it, to the content of a file."""
    if effect.zeros:
        end = min(len(content), effect.offset + effect.zeros)
        content[effect.offset : end] = bytes(max(0, end - effect.offset))
        return
    if effect.data is None:
        size = effect.offset
        del content[size:]
        content.extend(bytes(size - len(content)))
        return
    start, end = piece or (0, len(effect.data))
    at = effect.offset + start
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : effect.offset + end] = effect.data[start:end]


def disk_of(trace: SyscallTrace, file_system: FileSystem) -> DiskModel:
    """The effects of the calls of a trace."""
    return _Replay(trace, file_system).disk


class _Replay:
    """Goes through the calls once; an inode that is used again is another node."""

    def __init__(self, trace: SyscallTrace, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._nodes: dict[int, int] = {trace.root: ROOT}
        self._entries: dict[int, dict[str, int]] = {}
        self._made = ROOT
        self.disk = DiskModel(file_system)
        for call in trace.before:
            self._apply(0, call)
        self._last(0, self.disk.effects)
        for number, call in enumerate(trace.calls, start=1):
            self._apply(number, call)

    def _node(self, inode: int, *, new: bool = False) -> int:
        if new or inode not in self._nodes:
            self._made += 1
            self._nodes[inode] = self._made
        return self._nodes[inode]

    def _apply(self, number: int, call: Call) -> None:
        match call.kind:
            case CallKind.WRITE:
                effect = Effect(
                    number, node=self._node(call.inode), offset=call.offset, data=call.data
                )
                self.disk.effects.append(effect)
                if call.other:
                    self._sync(number, effect.node, [effect])
            case CallKind.ZERO:
                node = self._node(call.inode)
                self.disk.effects.append(
                    Effect(number, node=node, offset=call.offset, zeros=call.length)
                )
            case CallKind.RESIZE:
                effect = Effect(number, node=self._node(call.inode), offset=call.length)
                self.disk.effects.append(effect)
            case CallKind.SYNC:
                node = self._node(call.inode)
                mine = [each for each in self.disk.effects if each.node == node]
                self._sync(number, node, mine)
            case CallKind.SYNC_ALL:
                self._last(number, self.disk.effects)
            case _:
                self._names(number, call)

    def _names(self, number: int, call: Call) -> None:
        new = call.kind in (CallKind.CREATE, CallKind.MKDIR, CallKind.SYMLINK)
        node = self._node(call.inode, new=new)
        if call.kind == CallKind.MKDIR:
            self.disk.directories.add(node)
        elif call.kind == CallKind.SYMLINK:
            self.disk.links[node] = call.second
        elif call.kind == CallKind.CREATE and not call.name:
            return
        entries = self._changed(call, node)
        for directory, name, target in entries:
            names = self._entries.setdefault(directory, {})
            if target is None:
                names.pop(name, None)
            else:
                names[name] = target
        self.disk.effects.append(Effect(number, entries=tuple(entries)))

    def _changed(self, call: Call, node: int) -> list[DirectoryEntry]:
        source = DirectoryEntry(self._node(call.directory), call.name, None)
        if call.kind == CallKind.UNLINK:
            return [source]
        if call.kind not in (CallKind.RENAME, CallKind.EXCHANGE):
            return [source._replace(node=node)]
        target = DirectoryEntry(self._node(call.other), call.second, node)
        if source[:2] == target[:2]:
            return [target]
        if call.kind == CallKind.EXCHANGE:
            came = self._entries.get(target.directory, {}).get(target.name)
            return [source._replace(node=came), target]
        return [source, target]

    def _sync(self, number: int, node: int, data: Iterable[Effect]) -> None:
        """A file or directory was synced, and with a file some of its data."""
        self._last(number, data)
        system = self._file_system
        pending = [each for each in self.disk.effects if each.is_metadata and each.lasts == NEVER]
        names_too = system.names_with_files
        mine = [each for each in pending if each.concerns(node, names_too=names_too)]
        if system.ordered and mine:
            # All that came before the last one is in the same journal.
            mine = [each for each in pending if each.call <= mine[-1].call]
        self._last(number, mine)

    @staticmethod
    def _last(number: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            effect.lasts = min(effect.lasts, number)
