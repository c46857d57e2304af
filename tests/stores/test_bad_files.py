"""Files that cannot be used: every damage is named, and undoing it brings the data back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from rocksdict import Options, Rdict

from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    WRITE_BUFFER_BYTES_CONFIG,
    KeyValueStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError

PARTITION = TopicPartition("streamproof-store-changelog", 0)
KINDS = ("rocksdb", "rocksdb-transactional", "rocksdb-legacy", "rocksdb-timestamped-lazy")
"""One of each way to commit and to close, and the one with the most column families."""

MANAGED = tuple(kind for kind in KINDS if kind != "rocksdb-legacy")
"""Those that keep their offsets in the database."""

ROWS = {b"%03d" % number: b"value-%03d" % number * 10 for number in range(600)}
OFFSET = 599

Damage = Callable[[Path], object]


def _opened(kind: str, state_dir: Path) -> KeyValueStore:
    store = cast(KeyValueStore, BUILTIN[kind]())
    configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE, WRITE_BUFFER_BYTES_CONFIG: 64 * 1024}
    store.init(StateStoreContext(state_dir, app_configs=configs), store)
    return store


def _read(kind: str, state_dir: Path) -> tuple[dict[bytes, bytes], int | None]:
    store = _opened(kind, state_dir)
    try:
        return dict(store.all()), store.committed_offset(PARTITION)
    finally:
        store.close()


def _written(kind: str, state_dir: Path) -> Path:
    """The directory of a closed store, of which the rows are in several data files."""
    store = _opened(kind, state_dir)
    for number, (key, value) in enumerate(ROWS.items()):
        store.put(key, value)
        if number % 200 == 199:
            store.commit({PARTITION: number})
            store.flush()
    store.close()
    (directory,) = (path for path in (state_dir / "rocksdb").iterdir() if path.is_dir())
    return directory


def _contents(directory: Path) -> dict[str, bytes]:
    """Every file that holds or leads to data; RocksDB begins a new log whenever it is opened."""
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.is_file() and not path.name.startswith("LOG")
    }


@contextmanager
def _damaged(paths: list[Path], damage: Damage) -> Iterator[None]:
    """Damage files, and undo it in the end."""
    assert paths
    originals = [(path, path.read_bytes()) for path in paths]
    for path in paths:
        damage(path)
    yield
    for path, original in originals:
        path.write_bytes(original)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _keep_a_few_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def _garbage(path: Path) -> None:
    path.write_bytes(b"\xde\xad\xbe\xef" * (path.stat().st_size // 4 + 1))


def _name_another_manifest(path: Path) -> None:
    path.write_bytes(b"MANIFEST-999999\n")


def _newer_format(path: Path) -> None:
    """Raise the version in the footer of a data file: 4 bytes, before 8 of a magic number."""
    content = bytearray(path.read_bytes())
    content[-12:-8] = (99).to_bytes(4, "little")
    path.write_bytes(content)


FATAL = [
    ("CURRENT", Path.unlink, "CURRENT is missing"),
    ("CURRENT", _empty, "CURRENT"),
    ("CURRENT", _truncate, "CURRENT"),
    ("CURRENT", _garbage, "CURRENT"),
    ("CURRENT", _name_another_manifest, "MANIFEST-999999"),
    ("MANIFEST-*", Path.unlink, "MANIFEST-"),
    ("MANIFEST-*", _empty, "MANIFEST-"),
    ("MANIFEST-*", _keep_a_few_bytes, "MANIFEST-"),
    ("MANIFEST-*", _garbage, "MANIFEST-"),
    ("*.sst", Path.unlink, r"\.sst"),
    ("*.sst", _empty, r"\.sst"),
    ("*.sst", _truncate, r"\.sst"),
    ("*.sst", _garbage, r"\.sst"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("pattern", "damage", "names"), FATAL)
def test_fatal_damage_is_refused(
    kind: str, pattern: str, damage: Damage, names: str, tmp_path: Path
) -> None:
    """The error names the file and the remedy; nothing is deleted, and undoing the damage helps."""
    directory = _written(kind, tmp_path)
    with _damaged(sorted(directory.glob(pattern)), damage):
        before = _contents(directory)
        with pytest.raises(ProcessorStateError, match=names) as caught:
            _opened(kind, tmp_path)
        assert str(directory) in str(caught.value)
        assert "damaged: wipe the directory and restore from the changelog" in str(caught.value)
        assert _contents(directory) == before
    assert _read(kind, tmp_path) == (ROWS, OFFSET)


@pytest.mark.parametrize("damage", [Path.unlink, _empty, _truncate, _garbage])
@pytest.mark.parametrize("pattern", ["OPTIONS-*", "IDENTITY", "LOG", "rocksdict-config.json"])
def test_what_holds_no_data_may_be_lost(pattern: str, damage: Damage, tmp_path: Path) -> None:
    """Options are those of the store and not of its files, so that all data are there."""
    directory = _written("rocksdb", tmp_path)
    for path in sorted(directory.glob(pattern)):
        damage(path)
    assert _read("rocksdb", tmp_path) == (ROWS, OFFSET)
    assert _read("rocksdb", tmp_path) == (ROWS, OFFSET)


@pytest.mark.parametrize("kind", KINDS)
def test_one_lost_data_file_of_many(kind: str, tmp_path: Path) -> None:
    """The store is not opened without the rows of that file."""
    directory = _written(kind, tmp_path)
    tables = sorted(directory.glob("*.sst"))
    assert len(tables) > 2
    for table in tables:
        with (
            _damaged([table], Path.unlink),
            pytest.raises(ProcessorStateError, match=table.name),
        ):
            _opened(kind, tmp_path)
    assert _read(kind, tmp_path) == (ROWS, OFFSET)


def test_manifests_without_current_are_no_new_database(tmp_path: Path) -> None:
    """Even if the data files are gone too; the first manifest alone is an interrupted creation."""
    directory = _written("rocksdb", tmp_path)
    for path in (*directory.glob("*.sst"), *directory.glob("*.log"), directory / "CURRENT"):
        path.unlink()
    with pytest.raises(ProcessorStateError, match="CURRENT is missing beside MANIFEST"):
        _opened("rocksdb", tmp_path)
    assert not (directory / "CURRENT").exists()
    (manifest,) = directory.glob("MANIFEST-*")
    manifest.rename(directory / "MANIFEST-000001")
    assert _read("rocksdb", tmp_path) == ({}, None)


@pytest.mark.parametrize("kind", MANAGED)
def test_a_manifest_that_ends_early_leads_to_an_older_commit_or_nowhere(
    kind: str, tmp_path: Path
) -> None:
    """RocksDB takes the cut for a crash; what is left must be a commit with all of its rows."""
    manifest = next(_written(kind, tmp_path / "0").glob("MANIFEST-*"))
    whole = manifest.stat().st_size
    refused = 0
    for size in range(0, whole, whole // 25):
        state_dir = tmp_path / "1"
        shutil.copytree(tmp_path / "0", state_dir)
        copy = state_dir / manifest.relative_to(tmp_path / "0")
        copy.write_bytes(copy.read_bytes()[:size])
        # An older state is that of a store that is open, which is not trusted without transactions.
        try:
            rows, offset = _read(kind, state_dir)
        except (ProcessorStateError, TaskCorruptedError):
            refused += 1
        else:
            assert rows == dict(list(ROWS.items())[: 0 if offset is None else offset + 1])
        shutil.rmtree(state_dir)
    assert refused


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_records_raise_when_they_are_read(kind: str, tmp_path: Path) -> None:
    """A damaged block is no missing row, neither for a get nor for what a get comes before."""
    directory = _written(kind, tmp_path)
    tables = [path for path in directory.glob("*.sst") if path.stat().st_size > 10_000]

    def zero_half(path: Path) -> None:
        half = path.stat().st_size // 2
        path.write_bytes(bytes(half) + path.read_bytes()[half:])

    with _damaged(tables, zero_half):
        store = _opened(kind, tmp_path)
        calls = [
            lambda: store.get(b"000"),
            lambda: store.delete(b"000"),
            lambda: store.put_if_absent(b"000", b"new"),
            lambda: list(store.all()),
            lambda: list(store.reverse_range(None, b"300")),
        ]
        for call in calls:
            with pytest.raises(ProcessorStateError, match=r"\.sst.*damaged: wipe") as caught:
                call()
            assert str(directory) in str(caught.value)
        # Whether the compaction that close may interrupt has met the damage yet, is chance.
        with suppress(ProcessorStateError):
            store.close()
        assert not store.is_open
    assert _read(kind, tmp_path) == (ROWS, OFFSET)


@pytest.mark.parametrize("kind", MANAGED)
def test_damaged_offsets_raise_when_they_are_read(kind: str, tmp_path: Path) -> None:
    """Offsets that cannot be read are not the same as none."""
    directory = _written(kind, tmp_path)
    tables = [path for path in directory.glob("*.sst") if path.stat().st_size < 10_000]

    def zero_beginning(path: Path) -> None:
        path.write_bytes(bytes(20) + path.read_bytes()[20:])

    with (
        _damaged(tables, zero_beginning),
        pytest.raises(ProcessorStateError, match=r"\.sst.*damaged: wipe"),
    ):
        _opened(kind, tmp_path)
    assert _read(kind, tmp_path) == (ROWS, OFFSET)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_file_where_a_directory_should_be(kind: str, depth: int, tmp_path: Path) -> None:
    """Be it that of the task, that of all stores or that of this one, it is left alone."""
    state_dir = tmp_path / "0_0"
    directory = _written(kind, tmp_path / "sample")
    obstacle = [state_dir, state_dir / "rocksdb", state_dir / "rocksdb" / directory.name][depth]
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.write_text("in the way")
    with pytest.raises(
        ProcessorStateError, match="Check that the path is a writable directory"
    ) as caught:
        _opened(kind, state_dir)
    assert str(obstacle) in str(caught.value)
    assert obstacle.read_text() == "in the way"
    obstacle.unlink()
    assert _read(kind, state_dir) == ({}, None)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_column_family(kind: str, tmp_path: Path) -> None:
    """What another version added is named, and kept."""
    directory = _written(kind, tmp_path)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(directory))}
    raw = Rdict(str(directory), Options(raw_mode=True), column_families=families)
    raw.create_column_family("headers", Options(raw_mode=True)).put(b"key", b"value")
    raw.close()
    del raw
    with pytest.raises(ProcessorStateError, match=r"headers.*wipe the directory") as caught:
        _opened(kind, tmp_path)
    assert str(directory) in str(caught.value)
    assert "headers" in Rdict.list_cf(str(directory))


@pytest.mark.parametrize("kind", KINDS)
def test_data_files_of_a_newer_format(kind: str, tmp_path: Path) -> None:
    """They are not called damaged: the version that wrote them can read them."""
    directory = _written(kind, tmp_path)
    with (
        _damaged(sorted(directory.glob("*.sst")), _newer_format),
        pytest.raises(ProcessorStateError, match=r"\.sst.*newer version .*use that version"),
    ):
        _opened(kind, tmp_path)
    assert _read(kind, tmp_path) == (ROWS, OFFSET)


@pytest.mark.parametrize(
    ("newer", "older", "says"),
    [
        ("rocksdb-timestamped", "rocksdb", "newer format.*downgrade is not possible"),
        ("rocksdb-timestamped", "rocksdb-transactional", "newer format.*downgrade is not possible"),
        ("rocksdb-timestamped-lazy", "rocksdb", "records with timestamps.*wipe the directory"),
        ("rocksdb", "rocksdb-legacy", "column families offsets.*wipe the directory"),
    ],
)
def test_a_directory_of_a_newer_store(newer: str, older: str, says: str, tmp_path: Path) -> None:
    """An older store refuses it and changes nothing, so that the newer one reads all of it."""
    directory = _written(newer, tmp_path)
    (tmp_path / ".checkpoint_store").write_text(f"0\n1\n{PARTITION.topic} 0 {OFFSET}\n")
    before = _contents(directory)
    with pytest.raises(ProcessorStateError, match=says) as caught:
        _opened(older, tmp_path)
    assert str(directory) in str(caught.value)
    assert _contents(directory) == before
    assert _read(newer, tmp_path) == (ROWS, OFFSET)


# --- other processes ----------------------------------------------------------------------


def _program(name: str, *arguments: object, before: tuple[str, ...] = ()) -> list[str]:
    path = Path(__file__).with_name(name)
    return [*before, sys.executable, "-P", str(path), *map(str, arguments)]


def _output(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_that_another_process_holds(kind: str, tmp_path: Path) -> None:
    """The intruder is refused, and the holder goes on as if nothing had been."""
    directory = _written(kind, tmp_path)
    holder = subprocess.Popen(
        _program("other_process.py", "holder", kind, tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        # The legacy store has deleted its file of offsets by now; without it, it is not opened.
        with pytest.raises(Exception, match=_refusal(kind)) as caught:
            _opened(kind, tmp_path)
        assert str(directory) in str(caught.value)
        holder.stdin.close()
        assert holder.wait() == 0
    assert _read(kind, tmp_path) == (ROWS | {b"held": b"1"}, 77)


def _refusal(kind: str) -> str:
    return "not closed cleanly" if kind == "rocksdb-legacy" else "close that one first"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_directory_that_belongs_to_somebody_else(kind: str, mode: int, tmp_path: Path) -> None:
    """One that may only be read, or not even that."""
    directory = _written(kind, tmp_path)
    before = _contents(directory)
    for path in directory.iterdir():
        path.chmod(0o444)
    tmp_path.chmod(0o755)
    directory.parent.chmod(0o755)
    directory.chmod(mode)
    try:
        printed = _output(_program("other_process.py", "unprivileged", kind, tmp_path))
    finally:
        directory.chmod(0o755)
        for path in directory.iterdir():
            path.chmod(0o644)
    assert printed.startswith("ProcessorStateError: ")
    assert f"rocksdb/{directory.name}" in printed
    assert "Permission denied" in printed
    assert "Check that the path is a writable directory" in printed
    assert _contents(directory) == before
    assert _read(kind, tmp_path) == (ROWS, OFFSET)


def test_a_new_store_in_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """There is nothing yet, and nothing comes of it."""
    tmp_path.chmod(0o555)
    try:
        printed = _output(_program("other_process.py", "unprivileged", "rocksdb", tmp_path))
    finally:
        tmp_path.chmod(0o755)
    assert printed.startswith("ProcessorStateError: The database rocksdb/store cannot be opened")
    assert "Permission denied" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_open_files(kind: str, tmp_path: Path) -> None:
    """Wiping would be bad advice; with more files allowed, everything is there."""
    _written(kind, tmp_path)
    printed = _output(_program("other_process.py", "few_files", kind, tmp_path))
    error, _, found = printed.strip().rpartition("\n")
    assert error.startswith("ProcessorStateError: ")
    assert "Too many open files" in error
    assert "ulimit -n" in error
    assert found == f"{len(ROWS)} {OFFSET}"


def _mounting() -> tuple[str, ...] | None:
    """How to start a program that may mount file systems, or ``None`` where none may."""
    for command in (("unshare", "-rm"), ("unshare", "-m")):
        with suppress(OSError):
            tried = (*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt")
            if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
                return command
    return None


MOUNTING = _mounting()
FULL = ["limit", "disk"] if MOUNTING else ["limit"]
"""A limit on the size of files makes writes fail everywhere, a full file system where one can be
mounted."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", FULL)
def test_a_full_disk(how: str, kind: str, tmp_path: Path) -> None:
    """Every write says so, reads go on, and once there is room all that was committed is there."""
    command = _program("full_disk.py", how, kind, tmp_path / "0_0")
    if how == "disk":
        mount = f'mount -t tmpfs -o size=2m tmpfs {tmp_path} && exec "$@"'
        command = [*cast(tuple[str, ...], MOUNTING), "sh", "-c", mount, "sh", *command]
    result = json.loads(_output(command))
    errors = result["errors"]
    assert (errors.pop("get"), errors.pop("scan")) == (None, None)
    for step in ("write", "commit", "flush", "close", "open", "create"):
        assert errors[step].startswith("ProcessorStateError: The database "), step
        assert str(tmp_path) in errors[step], step
        assert "No space left" in errors[step] or "File too large" in errors[step], step
        assert errors[step].endswith("that the disk has space."), step
    _require_committed(kind, result)
    assert result["created"] == {"000": 0}


def _require_committed(kind: str, result: dict[str, Any]) -> None:
    """Nothing up to the committed offset is missing, and with transactions nothing is beyond it."""
    committed, rows = result["offset"], result["rows"]
    assert committed >= 999
    assert len(rows) == 1000
    for key, offset in rows.items():
        fold = next(at for at in range(committed, -1, -1) if at % 1000 == int(key))
        assert offset == fold if "transactional" in kind else offset >= fold


@pytest.mark.parametrize("kind", KINDS)
def test_more_writes_than_the_buffers_hold(kind: str, tmp_path: Path) -> None:
    """A put that finds no room waits until there is some."""
    store = _opened(kind, tmp_path)
    value = b"x" * 1000
    for number in range(5000):
        store.put(b"%05d" % number, value)
        if number % 500 == 499:
            store.commit({PARTITION: number})
    assert len(list(store.all())) == 5000
    store.close()
    rows, offset = _read(kind, tmp_path)
    assert (len(rows), offset) == (5000, 4999)
