"""The store whose mistake every run must find; see the table in the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamproof.stores.api import StateStore, StateStoreContext, TopicPartition
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore

OFFSETS = "offsets.json"
ROWS = "rows.json"


class offsets_written_before_rows(InMemoryKeyValueStore):
    """Writes its offsets at every commit, but its rows only on close.

    A ``.checkpoint`` file next to a database with write buffers behaves like this store. The store
    is wrong after any crash, whatever the machine and the seed, and the checks find that quickly.
    """

    capabilities = Capabilities(iterator_view="weak")

    def __init__(self) -> None:
        super().__init__("store")
        self._directory = Path()
        self._offsets: dict[TopicPartition, int] = {}

    @property
    def persistent(self) -> bool:
        return True

    @property
    def manages_offsets(self) -> bool:
        return True

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._directory = context.state_dir
        self._offsets = {
            TopicPartition(topic, partition): offset
            for topic, partition, offset in self._read(OFFSETS)
        }
        for key, value in self._read(ROWS):
            self._write(bytes.fromhex(key), bytes.fromhex(value))

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self._opened()
        if not changelog_offsets:
            self._offsets.clear()
        for partition, offset in changelog_offsets.items():
            self._offsets.pop(partition, None)
            if offset is not None:
                self._offsets[partition] = offset
        self._replace(
            OFFSETS, [(*partition, offset) for partition, offset in self._offsets.items()]
        )

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self._opened()
        return self._offsets.get(partition)

    def close(self) -> None:
        if self.is_open:
            self._replace(ROWS, [(key.hex(), value.hex()) for key, value in self._rows.items()])
        super().close()

    def _read(self, name: str) -> list[list[Any]]:
        path = self._directory / name
        rows: list[list[Any]] = json.loads(path.read_text()) if path.exists() else []
        return rows

    def _replace(self, name: str, content: list[tuple[str | int, ...]]) -> None:
        temporary = self._directory / f"{name}.tmp"
        temporary.write_text(json.dumps(content))
        temporary.replace(self._directory / name)
