"""A store as it was written before the proposals: one file, which ``flush`` writes as a whole.

The store knows nothing of commits, offsets and transactions. It has the defaults that the contract
gives to such stores: ``commit`` calls ``flush``, and no offset is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from streamproof.stores.api import KeyValueStore, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.synced_directories import make_directory, sync_directory

__all__ = ["SingleFileStore", "default_store"]


class SingleFileStore(InMemoryKeyValueStore):
    """A sorted map in memory, with a copy in the file ``<state_dir>/<name>/rows.json``.

    ``flush`` replaces the file in one step. ``close`` writes nothing: before the proposals the
    runtime flushes a store before it closes the store, and since then it commits.
    """

    capabilities = Capabilities(manages_offsets=False, iterator_view="weak", durability="power")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._file = Path()

    @property
    def persistent(self) -> bool:
        """True: the content outlives the process."""
        return True

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Read the file, and register the callback that restores the store.

        Raises:
            ProcessorStateError: the file cannot be read.
        """
        self._file = Path(context.state_dir) / self.name / "rows.json"
        try:
            make_directory(self._file.parent)
            rows = json.loads(self._file.read_text("ascii")) if self._file.exists() else {}
            found = {bytes.fromhex(key): bytes.fromhex(value) for key, value in rows.items()}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ProcessorStateError(
                f"The file {self._file} cannot be read: {error}. Nothing was deleted. Delete the "
                "file, and restore from the changelog."
            ) from error
        super().init(context, root)
        self._rows.update(found)

    def flush(self) -> None:
        """Replace the file with the content of the store.

        Raises:
            ProcessorStateError: the file cannot be written. The old file is still whole.
        """
        self._opened()
        rows = {key.hex(): value.hex() for key, value in self._rows.items()}
        written = self._file.with_suffix(".new")
        try:
            with written.open("w", encoding="ascii") as file:
                json.dump(rows, file)
                file.flush()
                os.fsync(file.fileno())
            written.replace(self._file)
            sync_directory(self._file.parent)
        except OSError as error:
            raise ProcessorStateError(
                f"The file {self._file} cannot be written: {error}. Nothing was deleted. Check the "
                "directory, its permissions and the free space."
            ) from error

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """The default of the contract, in place of the commit of a store in memory."""
        KeyValueStore.commit(self, changelog_offsets)


def default_store(name: str = "store") -> KeyValueStore:
    """A new store with one file, not initialised."""
    return SingleFileStore(name)
