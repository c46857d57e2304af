"""The model store behaves as the real ones do, and a crash leaves what was flushed."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    TRANSACTIONAL_STATESTORES_CONFIG,
    ChangelogRecord,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.errors import InvalidStateStoreError, TaskCorruptedError

LOG = TopicPartition("log", 0)

KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff"])


def context_of(directory: Path, guarantee: str = AT_LEAST_ONCE) -> StateStoreContext:
    """A task that has its state in a directory."""
    return StateStoreContext(
        state_dir=directory, app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee}
    )


def opened(
    disk: ModelDisk, guarantee: str = EXACTLY_ONCE, *, transactional: bool = False
) -> ModelStore:
    """A store on the disk, opened."""
    store = ModelStore("store", disk, transactional=transactional)
    store.init(context_of(Path("task"), guarantee), store)
    return store


@pytest.mark.parametrize("transactional", [False, True])
def test_a_crash_leaves_what_was_flushed(*, transactional: bool) -> None:
    """Rows and offsets of one moment; what came later is gone."""
    disk = ModelDisk()
    store = opened(disk, AT_LEAST_ONCE, transactional=transactional)
    store.put(b"a", b"1")
    store.commit({LOG: 5})
    store.write_memtable()
    store.put(b"a", b"2")
    store.commit({LOG: 6})
    store = opened(disk, AT_LEAST_ONCE, transactional=transactional)
    assert (store.get(b"a"), store.committed_offset(LOG)) == (b"1", 5)


def test_a_full_memtable_takes_what_is_not_committed_along() -> None:
    """Unless it is staged, which it is under exactly-once only (KIP-892)."""
    for transactional, guarantee, found in (
        (False, AT_LEAST_ONCE, b"2"),
        (True, AT_LEAST_ONCE, b"2"),
        (True, EXACTLY_ONCE, b"1"),
    ):
        disk = ModelDisk()
        store = opened(disk, guarantee, transactional=transactional)
        store.put(b"a", b"1")
        store.commit({LOG: 5})
        store.put(b"a", b"2")
        store.write_memtable()
        store = opened(disk, guarantee, transactional=transactional)
        assert (store.get(b"a"), store.committed_offset(LOG)) == (found, 5)


def test_as_shipped_a_switch_decides_what_is_staged() -> None:
    """Under either guarantee (Kafka 4.4)."""
    for switch in (True, False):
        for guarantee in (AT_LEAST_ONCE, EXACTLY_ONCE):
            context = context_of(Path("task"), guarantee)
            configs = {**context.app_configs, TRANSACTIONAL_STATESTORES_CONFIG: switch}
            context = replace(context, app_configs=configs)
            store = ModelStore("store", ModelDisk(), transactional=True)
            store.init(context, store)
            store.put(b"a", b"1")
            assert store.approximate_num_uncommitted_entries() == int(switch)


def test_a_volatile_store_manages_no_offsets() -> None:
    """There is nothing that an offset could describe after the process (KIP-1035)."""
    store = ModelStore("store", ModelDisk(), persistent=False)
    store.init(context_of(Path("task")), store)
    store.commit({LOG: 5})
    assert (store.manages_offsets, store.committed_offset(LOG)) == (False, None)


def test_an_unclean_stop_is_noticed() -> None:
    """Under exactly-once, without transactions, if anything was flushed since it was opened."""
    disk = ModelDisk()
    store = opened(disk)
    store.put(b"a", b"1")
    store.close()
    opened(disk).put(b"a", b"2")
    # Nothing was flushed: the disk is as the clean close left it.
    assert opened(disk).get(b"a") == b"1"
    opened(disk).write_memtable()
    with pytest.raises(TaskCorruptedError, match="was not closed"):
        opened(disk)
    assert opened(disk, AT_LEAST_ONCE).get(b"a") == b"1"
    assert opened(disk, transactional=True).get(b"a") == b"1"
    disk.wipe(Path("task"))
    assert disk.is_empty(Path("task"))
    assert opened(disk).get(b"a") is None


def test_what_is_closed_is_closed() -> None:
    """Closing drops what is staged, and may be done again."""
    disk = ModelDisk()
    store = opened(disk, transactional=True)
    store.put(b"a", b"1")
    iterator = store.all()
    store.close()
    store.close()
    for call in (lambda: store.get(b"a"), lambda: next(iterator), store.write_memtable):
        with pytest.raises(InvalidStateStoreError):
            call()
    assert opened(disk, transactional=True).get(b"a") is None


class Pairs(RuleBasedStateMachine):
    """A model store and a real one, step by step."""

    name = "rocksdb"

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.disk = ModelDisk()
        self.offset = 0
        self.stores: list[KeyValueStore] = []
        self.contexts: list[StateStoreContext] = []
        self.open()

    def open(self) -> None:
        """Both, on what is there."""
        transactional = self.name.endswith("transactional")
        made = BUILTIN[self.name]()
        assert isinstance(made, KeyValueStore)
        self.stores = [ModelStore("store", self.disk, transactional=transactional), made]
        # KIP-892: our store stages only where a reader would see what is committed alone.
        guarantee = EXACTLY_ONCE if transactional else AT_LEAST_ONCE
        self.contexts = [context_of(self.directory, guarantee) for _ in self.stores]
        for store, context in zip(self.stores, self.contexts, strict=True):
            store.init(context, store)

    def teardown(self) -> None:
        """Leave nothing behind."""
        for store in self.stores:
            store.close()
        shutil.rmtree(self.directory)

    @rule(key=KEYS, value=st.one_of(st.none(), st.binary(max_size=2)))
    def put(self, key: bytes, value: bytes | None) -> None:
        """A write, of the next input record."""
        self.offset += 1
        for store, context in zip(self.stores, self.contexts, strict=True):
            context.record_metadata = RecordMetadata("in", 0, self.offset)
            store.put(key, value)

    @rule(key=KEYS, value=st.one_of(st.none(), st.binary(max_size=2)))
    def restore(self, key: bytes, value: bytes | None) -> None:
        """A record of the changelog."""
        self.offset += 1
        for context in self.contexts:
            (restore,) = context.restore_callbacks.values()
            restore([ChangelogRecord(key, value, self.offset)])

    @rule(forget=st.sampled_from([False, False, True]))
    def commit(self, forget: bool) -> None:
        """All writes so far; sometimes all offsets are forgotten."""
        for store in self.stores:
            store.commit({} if forget else {LOG: self.offset})

    @rule()
    def flush(self) -> None:
        """To the disk."""
        for store in self.stores:
            store.write_memtable() if isinstance(store, ModelStore) else store.flush()

    @rule()
    def reopen(self) -> None:
        """Close both, and open new ones."""
        for store in self.stores:
            store.close()
        self.open()

    @invariant()
    def they_agree(self) -> None:
        """In everything that can be read."""
        model, real = (
            (
                list(store.all()),
                list(store.reverse_range(b"a", b"b")),
                list(store.prefix_scan(b"a")),
                [store.get(key) for key in (b"", b"a", b"\xff")],
                store.committed_offset(LOG),
                store.position,
            )
            for store in self.stores
        )
        assert model == real


class TransactionalPairs(Pairs):
    """The same with transactions."""

    name = "rocksdb-transactional"


TestPairs = Pairs.TestCase
TestPairs.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestTransactionalPairs = TransactionalPairs.TestCase
TestTransactionalPairs.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
