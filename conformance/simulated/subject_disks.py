"""The store under test on the disks of a world, as the simulated runtime wants to have it."""

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
    """Disks with the subject on them.

    Args:
        subject: the store under test.
        directory: where the files go; it is empty.
        watch: sees each call of a store begin and end.
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
    """A store that has the methods and is none of our classes, or that keeps windows or sessions.

    A window or session store is seen as a key-value store, of which each key stands for one window
    or session; so records of its changelog are translated before they are restored.
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
        """The name that it was made with."""
        return str(getattr(self._store, "name", "store"))

    @property
    def is_open(self) -> bool:
        """Whether it is open; whether ``init`` or ``close`` came last, if it does not say."""
        return bool(getattr(self._store, "is_open", self._opened))

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store; without a way to restore it, it gets a ``put`` for each record."""
        self._store.init(context, root)
        self._opened = True
        registered = list(context.restore_callbacks.values())
        restore = registered[-1] if registered else self._put_each
        context.restore_callbacks[root.name] = self._translated(restore)

    def all(self) -> Any:
        """The entries; those of windows and sessions in the order of the keys they stand for."""
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
