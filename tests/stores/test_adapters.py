"""The adapters keep the contract on the real packages, as far as the packages do."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from streamproof.stores.api import (
    WRITE_BUFFER_BYTES_CONFIG,
    ChangelogRecord,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidStateStoreError,
    NullArgumentError,
    ProcessorStateError,
    TaskCorruptedError,
    UnsupportedOperationError,
)

ADAPTERS = ["quixstreams", "faust"]


def make(adapter: str) -> Any:
    return import_module(f"streamproof.stores.adapters.{adapter}").make()


def opened(adapter: str, directory: Path, **configs: Any) -> tuple[Any, StateStoreContext]:
    store = make(adapter)
    context = StateStoreContext(directory, app_configs=configs)
    store.init(context, store)
    return store, context


def changelog(store: Any) -> TopicPartition:
    return TopicPartition(f"streamproof-{store.name}-changelog", 0)


def in_another_process(directory: Path, adapter: str, body: str) -> str:
    """Run ``body`` with an open store and its changelog partition; return what it prints."""
    program = textwrap.dedent(
        """
        import os, signal, sys
        from importlib import import_module
        from pathlib import Path
        from streamproof.stores.api import ChangelogRecord, StateStoreContext, TopicPartition

        store = import_module(f"streamproof.stores.adapters.{sys.argv[2]}").make()
        context = StateStoreContext(Path(sys.argv[1]))
        store.init(context, store)
        p = TopicPartition(context.changelog_topic(store.name), 0)
        die = lambda: os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program + textwrap.dedent(body), str(directory), adapter],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=directory,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    assert done.stderr == "", "the package is kept quiet"
    return done.stdout.strip()


@pytest.mark.parametrize("adapter", ADAPTERS)
class TestBoth:
    def test_round_trip(self, adapter: str, tmp_path: Path) -> None:
        store, _ = opened(adapter, tmp_path)
        assert store.is_open
        assert store.persistent
        assert store.manages_offsets
        assert store.get(b"k") is None
        store.put(b"k", b"1")
        store.put(b"k", b"2")
        store.put(b"", b"empty key")
        store.put(b"empty value", b"")
        store.put(b"\x00\xff", b"\xff\x00")
        assert store.get(b"k") == b"2"
        assert store.get(b"") == b"empty key"
        assert store.get(b"empty value") == b""
        assert store.put_if_absent(b"k", b"3") == b"2"
        assert store.delete(b"k") == b"2"
        assert store.delete(b"k") is None
        assert store.get(b"k") is None
        store.close()

    def test_null_keys_are_refused_and_nothing_is_written(
        self, adapter: str, tmp_path: Path
    ) -> None:
        store, _ = opened(adapter, tmp_path)
        for call in (store.get, store.delete, lambda k: store.put(k, b"v")):
            with pytest.raises(NullArgumentError):
                call(None)
        with pytest.raises(NullArgumentError):
            store.put_all([(b"a", b"1"), (None, b"2")])
        assert store.get(b"a") is None
        store.close()

    def test_commit_and_reopen_in_the_same_process(self, adapter: str, tmp_path: Path) -> None:
        store, context = opened(adapter, tmp_path)
        p = changelog(store)
        assert store.committed_offset(p) is None
        store.put(b"a", b"1")
        store.put(b"b", b"2")
        store.commit({p: 7})
        assert store.committed_offset(p) == 7
        store.put(b"b", None)
        store.commit({p: 8})
        store.close()
        store.close()
        assert not store.is_open

        store.init(context, store)
        assert store.committed_offset(p) == 8
        assert store.get(b"a") == b"1"
        assert store.get(b"b") is None
        store.close()

    def test_deletion_is_the_first_operation_after_a_reopen(
        self, adapter: str, tmp_path: Path
    ) -> None:
        store, context = opened(adapter, tmp_path)
        p = changelog(store)
        store.put(b"a", b"1")
        store.commit({p: 0})
        store.close()
        store.init(context, store)
        store.put(b"a", None)
        store.commit({p: 1})
        assert store.get(b"a") is None
        store.close()

    def test_commit_survives_the_death_of_another_process(
        self, adapter: str, tmp_path: Path
    ) -> None:
        in_another_process(
            tmp_path,
            adapter,
            """
            for i in range(50):
                store.put(b"%d" % (i % 7), b"%d" % i)
                store.commit({p: i})
            die()
            """,
        )
        store, _ = opened(adapter, tmp_path)
        assert store.committed_offset(changelog(store)) == 49
        assert [store.get(b"%d" % i) for i in range(7)] == [
            b"%d" % i for i in (49, 43, 44, 45, 46, 47, 48)
        ]
        store.close()

    def test_offset_is_seen_by_another_process(self, adapter: str, tmp_path: Path) -> None:
        store, _ = opened(adapter, tmp_path)
        store.put(b"k", b"v")
        store.commit({changelog(store): 3})
        store.close()
        printed = in_another_process(
            tmp_path, adapter, "print(store.committed_offset(p), store.get(b'k'))"
        )
        assert printed == "3 b'v'"

    def test_restore(self, adapter: str, tmp_path: Path) -> None:
        store, context = opened(adapter, tmp_path)
        p = changelog(store)
        restore = context.restore_callbacks[store.name]
        batch = [
            ChangelogRecord(b"a", b"1", 0),
            ChangelogRecord(b"b", b"", 1),
            ChangelogRecord(b"a", None, 2),
            ChangelogRecord(b"c", b"3", 4),
        ]
        restore(batch)
        restore(batch)
        restore([])
        store.put(b"d", b"4")
        store.commit({p: 5})
        store.close()
        store.init(context, store)
        assert [store.get(k) for k in (b"a", b"b", b"c", b"d")] == [None, b"", b"3", b"4"]
        assert store.committed_offset(p) == 5
        store.close()

    def test_restore_moves_the_offset_by_itself(self, adapter: str, tmp_path: Path) -> None:
        """Both packages store the offset of a restored record with it, before any commit."""
        store, context = opened(adapter, tmp_path)
        context.restore_callbacks[store.name]([ChangelogRecord(b"a", b"1", 6)])
        assert store.committed_offset(changelog(store)) == 6
        store.close()

    def test_offsets_cannot_be_forgotten(self, adapter: str, tmp_path: Path) -> None:
        store, _ = opened(adapter, tmp_path)
        p = changelog(store)
        store.put(b"a", b"1")
        store.commit({})
        store.commit({p: None})
        assert store.committed_offset(p) is None
        store.put(b"a", b"2")
        store.commit({p: 1})
        for forget in ({}, {p: None}):
            with pytest.raises(UnsupportedOperationError, match="forget"):
                store.commit(forget)
        assert store.committed_offset(p) == 1
        store.close()

    def test_closed_store_refuses_everything(self, adapter: str, tmp_path: Path) -> None:
        store, context = opened(adapter, tmp_path)
        p = changelog(store)
        store.put(b"a", b"1")
        store.commit({p: 1})
        store.close()
        restore = context.restore_callbacks[store.name]
        for call in (
            lambda: store.get(b"a"),
            lambda: store.put(b"a", b"2"),
            lambda: store.delete(b"a"),
            lambda: store.commit({p: 2}),
            lambda: store.committed_offset(p),
            store.all,
            lambda: store.range(None, None),
            store.approximate_num_entries,
            lambda: restore([ChangelogRecord(b"a", b"3", 3)]),
        ):
            with pytest.raises(InvalidStateStoreError):
                call()
        assert not make(adapter).is_open

    def test_second_instance_cannot_open_the_files(self, adapter: str, tmp_path: Path) -> None:
        store, _ = opened(adapter, tmp_path)
        with pytest.raises(ProcessorStateError, match="lock"):
            opened(adapter, tmp_path)
        store.put(b"still", b"usable")
        store.close()

    def test_write_buffer_is_passed_on(self, adapter: str, tmp_path: Path) -> None:
        store, context = opened(adapter, tmp_path, **{WRITE_BUFFER_BYTES_CONFIG: 70_000})
        store.close()
        options = "".join(p.read_text() for p in tmp_path.rglob("OPTIONS-*"))
        assert "write_buffer_size=70000" in options
        store.init(context, store)
        store.close()

    def test_ranges_are_refused(self, adapter: str, tmp_path: Path) -> None:
        store, _ = opened(adapter, tmp_path)
        for call in (
            lambda: store.range(None, None),
            lambda: store.reverse_range(None, None),
            store.reverse_all,
            lambda: store.prefix_scan(b"a"),
        ):
            with pytest.raises(UnsupportedOperationError):
                call()
        store.close()

    def test_missing_package_names_the_extra(
        self, adapter: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from streamproof.errors import UsageError

        module = f"streamproof.stores.adapters.{adapter}"
        for name in list(sys.modules):
            if name == module or name.split(".")[0] == adapter:
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, adapter, None)
        extra = {"quixstreams": "quix", "faust": "faust"}[adapter]
        with pytest.raises(UsageError, match=rf"streamproof\[{extra}\]"):
            import_module(module)

    def test_import_starts_no_thread_and_prints_nothing(self, adapter: str, tmp_path: Path) -> None:
        program = (
            "import os, importlib\n"
            f"importlib.import_module('streamproof.stores.adapters.{adapter}')\n"
            "print(len(os.listdir('/proc/self/task')), os.listdir('.'))"
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        )
        assert (done.stdout, done.stderr) == ("1 []\n", "")


class TestQuixStreams:
    def test_uncommitted_writes_are_gone_after_death(self, tmp_path: Path) -> None:
        in_another_process(
            tmp_path,
            "quixstreams",
            "store.put(b'a', b'1'); store.commit({p: 0}); store.put(b'a', b'2'); die()",
        )
        store, _ = opened("quixstreams", tmp_path)
        assert store.get(b"a") == b"1"
        assert store.committed_offset(changelog(store)) == 0
        store.close()

    def test_commit_without_writes_leaves_the_offset(self, tmp_path: Path) -> None:
        """A note in the package's ``flush`` says so; the adapter does not help."""
        store, _ = opened("quixstreams", tmp_path)
        p = changelog(store)
        store.put(b"a", b"1")
        store.commit({p: 1})
        store.commit({p: 5})
        assert store.committed_offset(p) == 1
        store.close()

    def test_lower_offset_fails_the_transaction_until_reopened(self, tmp_path: Path) -> None:
        store, context = opened("quixstreams", tmp_path)
        p = changelog(store)
        store.put(b"a", b"1")
        store.commit({p: 5})
        store.put(b"a", b"2")
        with pytest.raises(ProcessorStateError, match="InvalidChangelogOffset"):
            store.commit({p: 4})
        with pytest.raises(ProcessorStateError, match="FAILED"):
            store.get(b"a")
        store.close()
        store.init(context, store)
        assert store.get(b"a") == b"1"
        assert store.committed_offset(p) == 5
        store.close()

    def test_one_partition_per_database(self, tmp_path: Path) -> None:
        store, _ = opened("quixstreams", tmp_path)
        p = changelog(store)
        other = TopicPartition(p.topic, 1)
        store.put(b"a", b"1")
        for offsets in ({p: 1, other: 1}, {other: 1}):
            with pytest.raises(UnsupportedOperationError, match="one offset per database"):
                store.commit(offsets)
        store.commit({p: 1})
        assert store.committed_offset(other) is None
        store.close()

    def test_explicit_transactions(self, tmp_path: Path) -> None:
        store, _ = opened("quixstreams", tmp_path)
        p = changelog(store)
        with store.new_transaction() as discarded:
            discarded.put(b"a", b"never")
            assert discarded.get(b"a") == b"never"
            assert discarded.approximate_num_uncommitted_entries() == -1
        transaction = store.new_transaction()
        transaction.put(b"a", b"1")
        assert store.get(b"a") is None
        transaction.commit({p: 3})
        assert not transaction.is_open
        assert store.get(b"a") == b"1"
        assert store.committed_offset(p) == 3
        left_open = store.new_transaction()
        store.close()
        with pytest.raises(InvalidStateStoreError):
            left_open.get(b"a")

    def test_uncommitted_counts_are_zero_or_unknown(self, tmp_path: Path) -> None:
        store, _ = opened("quixstreams", tmp_path)
        assert store.approximate_num_uncommitted_bytes() == 0
        store.put(b"a", b"1")
        assert store.approximate_num_uncommitted_bytes() == -1
        store.commit({changelog(store): 0})
        assert store.approximate_num_uncommitted_entries() == 0
        store.close()

    def test_recovery_is_completed_before_the_first_write(self, tmp_path: Path) -> None:
        """Quix keeps a census of restored keys until its manager calls ``complete_recovery``."""
        store, context = opened("quixstreams", tmp_path)
        context.restore_callbacks[store.name]([ChangelogRecord(b"a", b"1", 0)])
        partition = store._open.partition
        assert "__ttl_backfill_pending__" in partition.list_column_families()
        store.put(b"b", b"2")
        assert "__ttl_backfill_pending__" not in partition.list_column_families()
        store.close()

    def test_damaged_database_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        store, context = opened("quixstreams", tmp_path)
        store.put(b"a", b"1")
        store.commit({changelog(store): 0})
        store.close()
        (current,) = tmp_path.rglob("CURRENT")
        current.write_bytes(b"damaged\n")
        with pytest.raises(TaskCorruptedError):
            store.init(context, store)
        assert not store.is_open
        assert current.read_bytes() == b"damaged\n"


class TestFaust:
    def test_writes_do_not_wait_for_the_commit(self, tmp_path: Path) -> None:
        in_another_process(
            tmp_path,
            "faust",
            "store.put(b'a', b'1'); store.commit({p: 0}); store.put(b'a', b'2'); die()",
        )
        store, _ = opened("faust", tmp_path)
        assert store.get(b"a") == b"2"
        assert store.committed_offset(changelog(store)) == 0
        store.close()

    def test_commit_without_writes_and_lower_offsets(self, tmp_path: Path) -> None:
        store, _ = opened("faust", tmp_path)
        p = changelog(store)
        store.commit({p: 5})
        assert store.committed_offset(p) == 5
        store.commit({p: 4})
        assert store.committed_offset(p) == 4
        store.close()

    def test_partitions_have_databases_of_their_own(self, tmp_path: Path) -> None:
        store, _ = opened("faust", tmp_path)
        p = changelog(store)
        other = TopicPartition(p.topic, 1)
        store.put(b"a", b"1")
        store.commit({p: 1, other: 2})
        assert (store.committed_offset(p), store.committed_offset(other)) == (1, 2)
        assert dict(store.all()) == {b"a": b"1"}
        store.close()
        assert {d.name for d in tmp_path.glob("*.db")} == {"faust-0.db", "faust-1.db"}

    def test_scan(self, tmp_path: Path) -> None:
        store, context = opened("faust", tmp_path)
        for key in (b"b", b"a", b"\xff", b""):
            store.put(key, key)
        store.commit({changelog(store): 0})
        with store.all() as entries:
            assert sorted(entries) == [(k, k) for k in (b"", b"a", b"b", b"\xff")]
        assert store.approximate_num_entries() == 4
        left_open = store.all()
        next(left_open)
        store.close()
        with pytest.raises(InvalidStateStoreError):
            next(left_open)
        store.init(context, store)  # The open iterator does not keep the database locked.
        store.close()

    def test_no_event_is_left_behind(self, tmp_path: Path) -> None:
        from faust.streams import current_event

        store, _ = opened("faust", tmp_path)
        store.put(b"a", b"1")
        store.get(b"a")
        assert current_event() is None
        store.close()
