"""Puts the store under test on the disks of a world, adapted to the simulated runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from streamproof.conformance.as_key_value import rows_of
from streamproof.conformance.subject import Subject
from streamproof.sim.broker_errors import SubjectError
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.hosted_store import WatchCall
from streamproof.sim.simulation import MakeDisk
from streamproof.sim.world import World
from streamproof.stores.api import ChangelogRecord, StateStore, StateStoreContext
from streamproof.stores.capabilities import Capabilities

__all__ = ["disks_of"]


def disks_of(subject: Subject, directory: Path, watch: WatchCall) -> MakeDisk:
    """Disks with the subject.

    Args:
        subject: the store under test.
        directory: an empty directory for the files.
        watch: observes the start and the end of each call of a store.
    """

    def make_disk(world: World, name: str) -> InstanceDisk:
        return RealDisk(world, name, directory / name, lambda _: _made(subject), watch)

    return make_disk


def _made(subject: Subject) -> Any:
    """A new store that is not open.

    Raises:
        SubjectError: the factory raises.
    """
    try:
        store = subject.factory()
    except Exception as error:
        raise SubjectError(
            f"The factory of {subject.name!r} raised {type(error).__name__}: {error}."
        ) from error
    if isinstance(store, StateStore) and subject.capabilities.kind == "key-value":
        return store
    return _Adapted(store, subject.capabilities)


class _Adapted:
    """Adapts a store of a foreign class, or a store of windows or sessions.

    A window or session store appears as a key-value store in which each key stands for one window
    or session. So the records of its changelog are translated before they are restored.
    """

    def __init__(self, store: Any, capabilities: Capabilities) -> None:
        self._store = rows_of(store, capabilities)
        self._is_plain = self._store is store
        self._opened = False
        self.persistent = capabilities.persistent
        self.manages_offsets = capabilities.manages_offsets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def name(self) -> str:
        """The name from the construction of the store."""
        return str(getattr(self._store, "name", "store"))

    @property
    def is_open(self) -> bool:
        """Whether the store is open. If it has no ``is_open``, the last call decides."""
        return bool(getattr(self._store, "is_open", self._opened))

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store. If it registers no callback, restoring puts each record."""
        self._store.init(context, root)
        self._opened = True
        registered = list(context.restore_callbacks.values())
        restore = registered[-1] if registered else self._put_each
        context.restore_callbacks[root.name] = self._translated(restore)

    def all(self) -> Any:
        """The entries. Windows and sessions come in the order of their keys."""
        return self._store.all() if self._is_plain else sorted(self._store.all())

    def close(self) -> None:
        """Close the store."""
        self._store.close()
        self._opened = False

    def _translated(
        self, restore: Callable[[Sequence[ChangelogRecord]], None]
    ) -> Callable[[Sequence[ChangelogRecord]], None]:
        if self._is_plain or restore == self._put_each:
            return restore
        return lambda batch: restore([self._store.record(each) for each in batch])

    def _put_each(self, batch: Sequence[ChangelogRecord]) -> None:
        for record in batch:
            self._store.put(record.key, record.value)
