"""The stores that a command line can name. Their modules are imported when a store is made."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from streamproof.errors import UsageError
from streamproof.stores.api import StateStore

__all__ = ["BUILTIN", "BuiltinStore"]


@dataclass(frozen=True, slots=True)
class BuiltinStore:
    """A callable that makes a new store, not open.

    Attributes:
        factory: ``module:attribute`` of a callable without arguments.
        description: a description in one line.
        package: the distribution that the store comes from.
        extra: the extra of this package that the module needs, if any.
    """

    factory: str
    description: str
    package: str = "streamproof"
    extra: str | None = None

    def __call__(self) -> StateStore:
        """A new store.

        Raises:
            UsageError: the extra is not installed.
        """
        module, _, attribute = self.factory.partition(":")
        try:
            make = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if self.extra is None:
                raise
            raise UsageError(
                f"This store needs the package {error.name!r}. Run: "
                f"pip install 'streamproof[{self.extra}]'."
            ) from error
        return cast(StateStore, make())


BUILTIN: dict[str, BuiltinStore] = {
    "in-memory": BuiltinStore(
        "streamproof.stores.memory:default_store", "A sorted store in memory."
    ),
    "single-file": BuiltinStore(
        "streamproof.stores.single_file:default_store",
        "One file, written at each flush; without the methods that the proposals add.",
    ),
    "rocksdb": BuiltinStore(
        "streamproof.stores.rocksdb:default_store",
        "RocksDB, with the offsets in a column family of their own (KIP-1035).",
    ),
    "rocksdb-transactional": BuiltinStore(
        "streamproof.stores.transactional:default_store",
        "RocksDB, with writes staged in a transaction until the commit (KIP-892).",
    ),
    "rocksdb-legacy": BuiltinStore(
        "streamproof.stores.checkpointing:default_store",
        "RocksDB, with the offsets in a .checkpoint file, as before KIP-1035.",
    ),
    "rocksdb-timestamped": BuiltinStore(
        "streamproof.stores.timestamped:default_store",
        "RocksDB with record timestamps, in a directory of its own format (KIP-258).",
    ),
    "rocksdb-timestamped-lazy": BuiltinStore(
        "streamproof.stores.timestamped:lazy_store",
        "RocksDB with record timestamps, migrating a plain store row by row, as Kafka ships it.",
    ),
    "rocksdb-timestamped-transactional": BuiltinStore(
        "streamproof.stores.timestamped:transactional_store",
        "RocksDB with record timestamps and transactions (KIP-258, KIP-892).",
    ),
    "rocksdb-window": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_windows:default_store",
        "Windows on RocksDB; all segments in one database, so that they share one commit.",
    ),
    "rocksdb-window-transactional": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_windows:transactional_store",
        "Windows on RocksDB, with writes staged in a transaction until the commit (KIP-892).",
    ),
    "rocksdb-window-timestamped": BuiltinStore(
        "streamproof.stores.windowed.timestamped_windows:default_store",
        "Windows on RocksDB, with record timestamps (KIP-258).",
    ),
    "rocksdb-window-segments": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_windows:segments_store",
        "Windows on RocksDB, one database a segment, as Kafka lays them out.",
    ),
    "rocksdb-window-segments-transactional": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_windows:transactional_segments_store",
        "Windows on RocksDB, one database a segment, with transactions over all of them (KIP-892).",
    ),
    "rocksdb-window-duplicates": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_windows:duplicates_store",
        "Windows on RocksDB that keep every put, as stream-stream joins need them.",
    ),
    "rocksdb-session": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_sessions:default_store",
        "Sessions on RocksDB; all segments in one database, so that they share one commit.",
    ),
    "rocksdb-session-transactional": BuiltinStore(
        "streamproof.stores.windowed.rocksdb_sessions:transactional_store",
        "Sessions on RocksDB, with writes staged in a transaction until the commit (KIP-892).",
    ),
    "rocksdb-session-timestamped": BuiltinStore(
        "streamproof.stores.windowed.timestamped_sessions:default_store",
        "Sessions on RocksDB, with record timestamps (KIP-258).",
    ),
    "in-memory-timestamped": BuiltinStore(
        "streamproof.stores.timestamped:in_memory_store",
        "A sorted store in memory, with record timestamps (KIP-258).",
    ),
    "in-memory-window-timestamped": BuiltinStore(
        "streamproof.stores.windowed.timestamped_windows:in_memory_store",
        "Windows in memory, with record timestamps (KIP-258).",
    ),
    "in-memory-session-timestamped": BuiltinStore(
        "streamproof.stores.windowed.timestamped_sessions:in_memory_store",
        "Sessions in memory, with record timestamps (KIP-258).",
    ),
    "in-memory-window": BuiltinStore(
        "streamproof.stores.windowed.memory_windows:default_store", "Windows in memory."
    ),
    "in-memory-session": BuiltinStore(
        "streamproof.stores.windowed.memory_sessions:default_store", "Sessions in memory."
    ),
    "rocksdb-stack": BuiltinStore(
        "streamproof.stores.runtime.builder:default_store",
        "RocksDB as Kafka Streams stacks it: metered, cached, and logging its changes.",
    ),
    "rocksdb-timestamped-stack": BuiltinStore(
        "streamproof.stores.runtime.builder:timestamped_store",
        "RocksDB with record timestamps, as Kafka Streams stacks it (KIP-258).",
    ),
    "rocksdb-window-timestamped-stack": BuiltinStore(
        "streamproof.stores.runtime.builder:timestamped_window_store",
        "Windows on RocksDB with record timestamps and transactions, metered and logging.",
    ),
    "rocksdb-session-timestamped-stack": BuiltinStore(
        "streamproof.stores.runtime.builder:timestamped_session_store",
        "Sessions on RocksDB with record timestamps and transactions, metered and logging.",
    ),
    "rocksdb-stack-transactional": BuiltinStore(
        "streamproof.stores.runtime.builder:transactional_store",
        "RocksDB with transactions that the runtime opens, metered and logging (KIP-892).",
    ),
    "rocksdb-window-stack-transactional": BuiltinStore(
        "streamproof.stores.runtime.builder:transactional_window_store",
        "Windows on RocksDB with transactions that the runtime opens, metered and logging.",
    ),
    "quixstreams": BuiltinStore(
        "streamproof.stores.adapters.quixstreams:make",
        "The RocksDB state store of Quix Streams, through its transactions.",
        package="quixstreams",
        extra="quix",
    ),
    "quixstreams-prefixes": BuiltinStore(
        "streamproof.stores.adapters.quixstreams:prefixes",
        "The same, with keys spread over prefixes and column families of one database.",
        package="quixstreams",
        extra="quix",
    ),
    "faust-streaming": BuiltinStore(
        "streamproof.stores.adapters.faust:make",
        "The RocksDB table store of Faust.",
        package="faust-streaming",
        extra="faust",
    ),
}
"""The built-in subjects by name."""
