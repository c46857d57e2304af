"""A model of the disk: the contents that are possible after the loss of power.

Every call of a program has at most two effects on the disk. An effect may be lost until a later
call syncs it. From that call on, it *lasts*. The model follows the promises of file systems:

- ``fsync`` and ``fdatasync`` of a file make its data and its size last. A synchronous write makes
  its own data and size last. ``sync_file_range`` and ``close`` promise nothing.
- An entry of a directory lasts once the directory is synced (``fsync(2)``). A rename lasts as a
  whole, once either of its directories is synced.
- Unsynced data may be lost or kept, in any order, and in pieces of whole sectors. A sector has the
  bytes that the page cache had at one moment: a later write never survives without an earlier write
  to the same sector. If the size survives without the data, reads return zeros.
- Data that was written after a change of the file's size does not survive without the new size.
- A file that is cut within a sector has this sector as it was at the cut, once the size survives.
- The changes of one directory reach the disk in order.

:data:`JOURNALLED` adds the promises that ext4 and XFS keep in all of their modes. All changes of
names and sizes reach the disk in order, so a sync of one of them also makes all earlier ones last.
A sync of a file or a directory makes its own names last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from streamproof.stores.syscalls.syscall_trace import Call, CallKind, SyscallTrace, Tree, Way

__all__ = [
    "JOURNALLED",
    "NEVER",
    "PORTABLE",
    "ROOT",
    "SECTOR_BYTES",
    "DiskModel",
    "Effect",
    "FileSystem",
    "Piece",
    "disk_of",
    "is_disposable",
]

ROOT = 1
"""The node of the directory under test; other nodes have higher numbers."""

NEVER = 1 << 62
"""The number of no call."""

SECTOR_BYTES = 512
"""The unit in which a disk keeps or loses data."""

Piece = tuple[int, int]
"""A part of a write that survives: from the first byte up to, not including, the second."""


@dataclass(frozen=True)
class FileSystem:
    """The promises of a file system beyond those that all file systems make.

    Attributes:
        ordered: changes of names and sizes reach the disk in order, across files and directories.
        names_with_files: a sync of a file or directory makes its own names last.
    """

    ordered: bool
    names_with_files: bool


JOURNALLED = FileSystem(ordered=True, names_with_files=True)
"""ext4 and XFS, in their weakest modes."""

PORTABLE = FileSystem(ordered=False, names_with_files=False)
"""Only the promises of ``fsync(2)``, which hold on any file system."""


class DirectoryEntry(NamedTuple):
    """A name in a directory that leads to a node, or that was removed."""

    directory: int
    name: str
    node: int | None


@dataclass
class Effect:
    """An effect of a call on the disk.

    Attributes:
        call: the number of the call.
        entries: the names that the effect changes, all at once.
        node: the file that the effect changes.
        offset: the start of the change, in bytes; for a new size, the size.
        data: the new bytes; ``None`` for a new size, or for zeros.
        zeros: the number of bytes that become zero, as far as they lie within the file.
        lasts: the number of the call from which on the effect cannot be lost.
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
        """The directories that the effect changes, or else the file."""
        return {each.directory for each in self.entries} or {self.node}

    @property
    def resizes(self) -> bool:
        """Whether the effect only changes the size of a file."""
        return not self.entries and self.data is None and not self.zeros

    @property
    def is_metadata(self) -> bool:
        """Whether the effect goes through the journal, if the file system has one."""
        return bool(self.entries) or self.resizes

    def overlaps(self, start: int, end: int) -> bool:
        """Whether the effect changes a size, or bytes from ``start`` up to ``end``."""
        length = self.zeros if self.data is None else len(self.data)
        return self.resizes or (self.offset < end and start < self.offset + length)

    def concerns(self, node: int, *, names_too: bool = True) -> bool:
        """Whether a sync of this file or directory covers the effect."""
        if not self.entries:
            return self.node == node
        return any(
            each.directory == node or (names_too and each.node == node) for each in self.entries
        )

    def pending(self, after: int) -> bool:
        """Whether the effect has happened after ``after`` calls, but may still be lost."""
        return self.call <= after < self.lasts


@dataclass
class DiskModel:
    """The effects of all calls of a trace, under the promises of a file system.

    Attributes:
        file_system: the promises that every state keeps.
        effects: all effects, in order.
        links: the targets of symbolic links.
        directories: the nodes that are directories.
        unknown: for each file with writes that are not recorded, the number of calls before them;
            for the root, all files are meant.
    """

    file_system: FileSystem
    effects: list[Effect] = field(default_factory=list)
    links: dict[int, str] = field(default_factory=dict)
    directories: set[int] = field(default_factory=lambda: {ROOT})
    unknown: dict[int, int] = field(default_factory=dict)

    def pending(self, after: int) -> list[Effect]:
        """The effects that a loss of power after ``after`` calls may undo."""
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

    def nodes(self, after: int, lost: AbstractSet[int] = frozenset()) -> dict[str, int]:
        """The files, links and directories after ``after`` calls, by path."""
        entries: dict[int, dict[str, int]] = {}
        for effect in self.effects:
            if effect.call <= after and effect.call not in lost:
                _rename(entries, effect)
        return dict(self._walk(ROOT, "", entries, ()))

    def is_known(self, after: int, lost: AbstractSet[int] = frozenset()) -> bool:
        """Whether the content of every file is known after ``after`` calls."""
        unknown = {node for node, before in self.unknown.items() if before < after}
        return not unknown or unknown.isdisjoint([ROOT, *self.nodes(after, lost).values()])

    def tree(
        self,
        after: int,
        lost: AbstractSet[int] = frozenset(),
        torn: Mapping[int, Piece] | None = None,
    ) -> Tree:
        """The content of the disk after ``after`` calls, without the lost ones.

        Only a piece of each write in ``torn`` survives.
        """
        torn = torn or {}
        contents: dict[int, bytearray] = {}
        # The page cache of each file that lost something: all that was written.
        damaged = {each.node for each in self.effects if each.call in lost or each.call in torn}
        caches: dict[int, bytearray] = {node: bytearray() for node in damaged}
        for effect in self.effects:
            if effect.call > after:
                break
            written = range(0)
            if effect.node in caches:
                written = _written(effect, torn, len(caches[effect.node]))
                _change(caches[effect.node], effect)
            if effect.call in lost:
                continue
            if effect.node:
                content = contents.setdefault(effect.node, bytearray())
                if effect.node not in caches:
                    _change(content, effect)
                else:
                    if effect.resizes:
                        _resize(content, effect.offset)
                    _write_back(content, caches[effect.node], written)
        return self._tree_of(self.nodes(after, lost), contents)

    def trees(self, moments: Iterable[int]) -> Iterator[Tree]:
        """The content of the page cache after each of these numbers of calls, in their order.

        Args:
            moments: ascending numbers of calls.
        """
        contents: dict[int, bytearray] = {}
        entries: dict[int, dict[str, int]] = {}
        effects = iter(self.effects)
        next_one = next(effects, None)
        for moment in moments:
            while next_one is not None and next_one.call <= moment:
                _rename(entries, next_one)
                if next_one.node:
                    _change(contents.setdefault(next_one.node, bytearray()), next_one)
                next_one = next(effects, None)
            yield self._tree_of(dict(self._walk(ROOT, "", entries, ())), contents)

    def _tree_of(self, nodes: Mapping[str, int], contents: Mapping[int, bytes | bytearray]) -> Tree:
        """A tree from the nodes by path, and the contents of the files among them."""
        found: Tree = {}
        for path, node in nodes.items():
            plain = None if node in self.directories else bytes(contents.get(node, b""))
            found[path] = self.links.get(node, plain)
        return found

    def _walk(
        self,
        directory: int,
        path: str,
        entries: Mapping[int, Mapping[str, int]],
        above: tuple[int, ...],
    ) -> Iterator[tuple[str, int]]:
        for name, node in sorted(entries.get(directory, {}).items()):
            place = f"{path}{name}"
            # After lost renames a directory may lie within itself. It is entered only once.
            if node not in above:
                yield place, node
                yield from self._walk(node, f"{place}/", entries, (*above, node))


def _rename(entries: dict[int, dict[str, int]], effect: Effect) -> None:
    """Apply the changes of names of an effect."""
    for directory, name, node in effect.entries:
        if node is None:
            entries.setdefault(directory, {}).pop(name, None)
        else:
            entries.setdefault(directory, {})[name] = node


def _change(content: bytearray, effect: Effect) -> None:
    """Apply an effect to the content of a file."""
    if effect.zeros:
        end = min(len(content), effect.offset + effect.zeros)
        content[effect.offset : end] = bytes(max(0, end - effect.offset))
    elif effect.data is None:
        _resize(content, effect.offset)
    else:
        if len(content) < effect.offset:
            _resize(content, effect.offset)
        content[effect.offset : effect.offset + len(effect.data)] = effect.data


def _resize(content: bytearray, size: int) -> None:
    """Cut a file, or fill it with zeros."""
    del content[size:]
    content.extend(bytes(size - len(content)))


def _written(effect: Effect, torn: Mapping[int, Piece], size: int) -> range:
    """The bytes that an effect, or the piece of it that survived, writes to a file of ``size``."""
    if effect.resizes:
        # ext4 and XFS fill the rest of the last sector with zeros, and write it before the size.
        rest = effect.offset % SECTOR_BYTES if effect.offset < size else 0
        return range(effect.offset - rest, effect.offset)
    length = effect.zeros if effect.data is None else len(effect.data)
    start, end = torn.get(effect.call, (0, length))
    return range(effect.offset + start, effect.offset + end)


def _write_back(content: bytearray, cache: bytearray, written: range) -> None:
    """Copy the sectors with these bytes from the page cache to the disk."""
    start = written.start // SECTOR_BYTES * SECTOR_BYTES
    end = min(-(-written.stop // SECTOR_BYTES) * SECTOR_BYTES, len(cache))
    if written and start < end:
        if len(content) < start:
            _resize(content, start)
        content[start:end] = cache[start:end]


def is_disposable(name: str, patterns: str) -> bool:
    """Whether the name of a file fits one of the patterns, which have spaces in between."""
    return any(fnmatchcase(name, each) for each in patterns.split())


def disk_of(trace: SyscallTrace, file_system: FileSystem, disposable: str = "") -> DiskModel:
    """The effects of the calls of a trace.

    Files all of whose names fit the patterns in ``disposable`` stay empty, and count as known.
    """
    disk = _Replay(trace, file_system).disk
    names: dict[int, set[str]] = {}
    for effect in disk.effects:
        for each in effect.entries:
            if each.node is not None:
                names.setdefault(each.node, set()).add(each.name)
    empty = {
        node
        for node, mine in names.items()
        if all(is_disposable(name, disposable) for name in mine)
    }
    disk.effects = [each for each in disk.effects if each.node not in empty]
    disk.unknown = {node: n for node, n in disk.unknown.items() if node not in empty}
    return disk


class _Replay:
    """Goes through the calls once. A reused inode becomes a new node."""

    def __init__(self, trace: SyscallTrace, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._trace = trace
        self._nodes: dict[int, int] = {trace.root: ROOT}
        self._entries: dict[int, dict[str, int]] = {}
        self._made = ROOT
        self._pending: list[Effect] = []
        self.disk = DiskModel(file_system)
        for call in trace.before:
            self._apply(0, call)
        self._last(0, self._pending)
        self._escape(0)
        for number, call in enumerate(trace.calls, start=1):
            self._apply(number, call)
            self._escape(number)

    def _escape(self, number: int) -> None:
        for inode, before in self._trace.escaped:
            if before == number:
                self.disk.unknown.setdefault(self._node(inode), number)

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
                self._add(effect)
                if call.other == Way.SYNCHRONOUS:
                    self._sync(number, effect.node, [effect])
            case CallKind.ZERO:
                node = self._node(call.inode)
                self._add(Effect(number, node=node, offset=call.offset, zeros=call.length))
            case CallKind.RESIZE:
                self._add(Effect(number, node=self._node(call.inode), offset=call.length))
            case CallKind.SYNC:
                node = self._node(call.inode)
                mine = [each for each in self._pending if each.node == node]
                if call.length:
                    end = call.offset + call.length
                    mine = [each for each in mine if each.overlaps(call.offset, end)]
                self._sync(number, node, mine)
            case CallKind.SYNC_ALL:
                self._last(number, self._pending)
            case _:
                self._names(number, call)

    def _add(self, effect: Effect) -> None:
        self.disk.effects.append(effect)
        self._pending.append(effect)

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
        self._add(Effect(number, entries=tuple(entries)))

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
        """Record a sync of a file or directory; for a file, it covers data, too."""
        self._last(number, data)
        system = self._file_system
        pending = [each for each in self._pending if each.is_metadata]
        names_too = system.names_with_files
        mine = [each for each in pending if each.concerns(node, names_too=names_too)]
        if system.ordered and mine:
            # The journal is in order, so all effects before the last synced one last, too.
            mine = [each for each in pending if each.call <= mine[-1].call]
        self._last(number, mine)

    def _last(self, number: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            effect.lasts = number
        # A store that syncs after each write makes thousands of effects: look at no old one again.
        self._pending = [each for each in self._pending if each.lasts == NEVER]
