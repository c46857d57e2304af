"""The examples load by path, work, and differ in what a crash between two steps leaves."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from streamproof.stores.api import (
    WRITE_BUFFER_BYTES_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError, ProcessorStateError

FOLDER = Path(__file__).resolve().parent.parent / "examples"
EXAMPLES = ["sqlite_store", "sqlite_side_file"]
P = TopicPartition("changelog", 0)
Q = TopicPartition("changelog", 1)


def make(example: str) -> Any:
    spec = spec_from_file_location(example, FOLDER / f"{example}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make()


def opened(example: str, directory: Path, **configs: Any) -> tuple[Any, StateStoreContext]:
    store = make(example)
    context = StateStoreContext(directory, app_configs=configs)
    store.init(context, store)
    return store, context


def killed(directory: Path, example: str, body: str) -> None:
    """Run ``body`` with an open store in a process that ends by SIGKILL."""
    program = (
        "import os, runpy, signal, sys\n"
        "from pathlib import Path\n"
        "from streamproof.stores.api import StateStoreContext, TopicPartition\n"
        "store = runpy.run_path(sys.argv[2])['make']()\n"
        "context = StateStoreContext(Path(sys.argv[1]))\n"
        "store.init(context, store)\n"
        "P = TopicPartition('changelog', 0)\n"
        "die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program + body, str(directory), FOLDER / f"{example}.py"],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize("example", EXAMPLES)
class TestBoth:
    def test_docstring_says_how_to_run_it(self, example: str) -> None:
        text = (FOLDER / f"{example}.py").read_text()
        assert f"streamproof verify examples/{example}.py:make" in text

    def test_round_trip(self, example: str, tmp_path: Path) -> None:
        store, _ = opened(example, tmp_path)
        assert store.is_open
        assert store.persistent
        assert store.manages_offsets
        assert store.new_transaction() is store
        assert store.read_only(IsolationLevel.READ_COMMITTED) is store
        store.put_all([(b"b", b"2"), (b"a", b"1"), (b"", b""), (b"a\x00", b"x"), (b"\xff", b"f")])
        assert store.get(b"") == b""
        assert store.get(b"none") is None
        assert store.put_if_absent(b"a", b"9") == b"1"
        assert store.put_if_absent(b"c", b"3") is None
        assert store.delete(b"c") == b"3"
        assert store.delete(b"c") is None
        assert store.approximate_num_entries() == 5
        assert [k for k, _ in store.all()] == [b"", b"a", b"a\x00", b"b", b"\xff"]
        assert [k for k, _ in store.reverse_all()] == [b"\xff", b"b", b"a\x00", b"a", b""]
        assert [k for k, _ in store.range(b"a", b"b")] == [b"a", b"a\x00", b"b"]
        assert [k for k, _ in store.reverse_range(None, b"a")] == [b"a", b""]
        assert list(store.range(b"b", b"a")) == []
        assert [k for k, _ in store.prefix_scan(b"a")] == [b"a", b"a\x00"]
        assert [k for k, _ in store.prefix_scan(b"\xff")] == [b"\xff"]
        assert len(list(store.prefix_scan(b""))) == 5
        store.close()

    def test_iterators_are_snapshots(self, example: str, tmp_path: Path) -> None:
        store, _ = opened(example, tmp_path)
        store.put(b"a", b"1")
        store.put(b"b", b"2")
        with store.all() as entries:
            assert next(entries) == (b"a", b"1")
            store.put(b"b", None)
            store.put(b"c", b"3")
            store.commit({P: 1})
            assert list(entries) == [(b"b", b"2")]
        with pytest.raises(InvalidStateStoreError):
            next(entries)
        left_open = store.all()
        store.close()
        with pytest.raises(InvalidStateStoreError):
            next(left_open)

    def test_uncommitted_counts(self, example: str, tmp_path: Path) -> None:
        store, _ = opened(example, tmp_path)
        store.put(b"key", b"value")
        store.put(b"gone", None)
        assert store.approximate_num_uncommitted_entries() == 2
        assert store.approximate_num_uncommitted_bytes() == 12
        store.commit({P: 1})
        assert store.approximate_num_uncommitted_entries() == 0
        assert store.approximate_num_uncommitted_bytes() == 0
        store.close()

    def test_commit_and_reopen(self, example: str, tmp_path: Path) -> None:
        store, context = opened(example, tmp_path)
        assert store.committed_offset(P) is None
        store.put(b"a", b"1")
        store.commit({P: 1, Q: 5})
        store.put(b"a", b"2")
        store.commit({P: 2})
        store.put(b"a", b"never committed")
        store.close()
        store.close()
        assert not store.is_open
        store.init(context, store)
        assert store.get(b"a") == b"2"
        assert (store.committed_offset(P), store.committed_offset(Q)) == (2, 5)
        store.commit({Q: None})
        assert (store.committed_offset(P), store.committed_offset(Q)) == (2, None)
        store.commit({Q: 6})
        store.commit({})
        store.close()
        store.init(context, store)
        assert (store.committed_offset(P), store.committed_offset(Q)) == (None, None)
        assert store.get(b"a") == b"2"
        store.close()

    def test_restore_is_idempotent_and_durable_with_the_commit(
        self, example: str, tmp_path: Path
    ) -> None:
        store, context = opened(example, tmp_path)
        restore = context.restore_callbacks[store.name]
        batch = [
            ChangelogRecord(b"a", b"1", 0),
            ChangelogRecord(b"b", b"2", 1),
            ChangelogRecord(b"a", None, 2),
        ]
        restore(batch)
        restore(batch)
        store.commit({P: 2})
        store.close()
        store.init(context, store)
        assert list(store.all()) == [(b"b", b"2")]
        assert store.committed_offset(P) == 2
        store.close()

    def test_bad_input(self, example: str, tmp_path: Path) -> None:
        store, _ = opened(example, tmp_path)
        for call in (store.get, store.delete, lambda k: store.put(k, b"v")):
            with pytest.raises(NullArgumentError):
                call(None)
        with pytest.raises(NullArgumentError):
            store.put_all([(b"a", b"1"), (None, b"2")])
        assert store.get(b"a") is None
        store.close()
        for call in (
            lambda: store.get(b"a"),
            lambda: store.put(b"a", b"1"),
            store.all,
            lambda: store.commit({P: 1}),
            lambda: store.committed_offset(P),
            store.approximate_num_entries,
        ):
            with pytest.raises(InvalidStateStoreError):
                call()

    def test_damaged_file_is_refused_and_left_alone(self, example: str, tmp_path: Path) -> None:
        store, context = opened(example, tmp_path)
        store.put(b"a", b"1")
        store.commit({P: 1})
        store.close()
        (path,) = tmp_path.glob("*.sqlite")
        damaged = b"not a database " * 1000
        path.write_bytes(damaged)
        with pytest.raises(ProcessorStateError):
            store.init(context, store)
        assert not store.is_open
        assert path.read_bytes() == damaged

    def test_second_instance_cannot_open_the_files(self, example: str, tmp_path: Path) -> None:
        store, _ = opened(example, tmp_path)
        with pytest.raises(ProcessorStateError, match="locked"):
            opened(example, tmp_path)
        store.put(b"a", b"1")
        store.commit({P: 1})
        with pytest.raises(ProcessorStateError, match="locked"):
            opened(example, tmp_path)
        store.close()

    def test_spilled_writes_are_rolled_back(self, example: str, tmp_path: Path) -> None:
        store, context = opened(example, tmp_path, **{WRITE_BUFFER_BYTES_CONFIG: 1024})
        store.put(b"a", b"1")
        store.commit({P: 1})
        size = sum(p.stat().st_size for p in tmp_path.glob("*.sqlite"))
        for i in range(500):
            store.put(b"%d" % i, bytes(500))
        assert sum(p.stat().st_size for p in tmp_path.glob("*.sqlite")) > size
        store.close()
        store.init(context, store)
        assert list(store.all()) == [(b"a", b"1")]
        store.close()

    def test_death_before_the_commit(self, example: str, tmp_path: Path) -> None:
        body = "store.put(b'a', b'1'); store.commit({P: 1}); store.put(b'a', b'2'); die()"
        killed(tmp_path, example, body)
        store, _ = opened(example, tmp_path)
        assert (store.get(b"a"), store.committed_offset(P)) == (b"1", 1)
        store.close()


DIE_AFTER_COMMIT = """
store.put(b'a', b'1')
store.commit({P: 1})
store.put(b'a', b'2')
execute = store._execute
def dying(sql, *arguments):
    rows = execute(sql, *arguments)
    return die() if sql == 'COMMIT' else rows
store._execute = dying
store.commit({P: 2})
"""


def test_death_right_after_the_database_committed(tmp_path: Path) -> None:
    """Data and offset arrive together in the right store, and apart in the wrong one."""
    found = {}
    for example in EXAMPLES:
        directory = tmp_path / example
        directory.mkdir()
        killed(directory, example, DIE_AFTER_COMMIT)
        store, _ = opened(example, directory)
        found[example] = (store.get(b"a"), store.committed_offset(P))
        store.close()
    assert found == {"sqlite_store": (b"2", 2), "sqlite_side_file": (b"2", 1)}


def test_damaged_side_file_is_refused(tmp_path: Path) -> None:
    store, context = opened("sqlite_side_file", tmp_path)
    store.put(b"a", b"1")
    store.commit({P: 1})
    store.close()
    (path,) = tmp_path.glob("*.offsets.json")
    path.write_text("{")
    with pytest.raises(ProcessorStateError):
        store.init(context, store)


def test_the_right_store_inherits_from_nothing() -> None:
    assert type(make("sqlite_store")).__mro__[1:] == (object,)
