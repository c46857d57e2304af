"""From the plain format to that with timestamps: what is live, rebuilt, discarded and refused."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from streamproof.errors import UsageError
from streamproof.stores.api import (
    NO_TIMESTAMP,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.format_upgrade import discard, finish_discarding
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.syscalls.preloaded_libraries import CannotBuildError, build_shim
from streamproof.stores.timestamped import RocksDBLazyTimestampedStore, RocksDBTimestampedStore

MakeContext = Callable[..., StateStoreContext]
P0, P1 = TopicPartition("log", 0), TopicPartition("log", 1)
CHANGELOG = [ChangelogRecord(b"key-%d" % (n % 4), b"%d" % n, n, 100 + n) for n in range(8)]
PLAIN = {b"key-%d" % (n % 4): (b"%d" % n, NO_TIMESTAMP) for n in range(8)}
TIMED = {b"key-%d" % (n % 4): (b"%d" % n, 100 + n) for n in range(8)}
BOTH_KINDS = pytest.mark.parametrize("transactional", [False, True])
ZYGOTE = Path(__file__).with_name("upgrade_zygote.py")


class Instance:
    """One instance of an application that is upgraded, and its task directory.

    Args:
        make_context: makes a context for the same directory, as a restart would.
        transactional: whether its stores are.
    """

    def __init__(self, make_context: MakeContext, *, transactional: bool = False) -> None:
        self.make_context = make_context
        self.transactional = transactional
        self.context = make_context()
        self.parent = self.context.state_dir / "rocksdb"

    def directories(self) -> list[str]:
        """The directories of all formats."""
        return sorted(path.name for path in self.parent.iterdir())

    def old(self, records: list[ChangelogRecord], *, commit: bool = True) -> None:
        """Run the old version, with a plain store."""
        store = RocksDBStore("store")
        store.init(self.make_context(), store)
        store.restore(records)
        if commit:
            store.commit({P0: records[-1].offset})
        store.close()

    def open(self, mode: str | None = None, **configs: object) -> RocksDBTimestampedStore:
        """Start the new version, which is preparing an upgrade if a mode is given."""
        if mode is not None:
            configs |= {UPGRADE_FROM_CONFIG: "1.1.x", UPGRADE_MODE_CONFIG: mode}
        self.context = self.make_context(**configs)
        store = RocksDBTimestampedStore("store", transactional=self.transactional)
        store.init(self.context, store)
        return store

    def replay(self, store: RocksDBTimestampedStore, upto: int = len(CHANGELOG)) -> None:
        """Restore what is missing from the changelog, and commit."""
        committed = store.committed_offset(P0)
        self.context.restore_callbacks["store"](
            CHANGELOG[0 if committed is None else committed + 1 : upto]
        )
        store.commit({P0: upto - 1})


@pytest.fixture
def instance(make_context: MakeContext) -> Instance:
    """An instance whose stores have no transactions."""
    return Instance(make_context)


@BOTH_KINDS
def test_upgrade_in_place(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture, transactional: bool
) -> None:
    """The old store is live while the new one is rebuilt; the second start switches."""
    instance = Instance(make_context, transactional=transactional)
    instance.old(CHANGELOG[:6])
    caplog.set_level(logging.INFO, logger="streamproof.stores")
    store = instance.open("in_place")
    assert (store.committed_offset(P0), store.rebuilt_offset(P0)) == (5, None)
    assert not store.prepared
    instance.context.record_timestamp = 106
    store.put(*CHANGELOG[6][:2])
    store.put_with_timestamp(*CHANGELOG[7][:2], 107)
    assert store.get_with_timestamp(b"key-3") == (b"7", NO_TIMESTAMP)
    store.commit({P0: 7})
    feeder = threading.Thread(target=lambda: store.rebuild(P0, CHANGELOG[:5]))
    feeder.start()
    feeder.join()
    assert (store.rebuilt_offset(P0), store.prepared) == (4, False)
    assert "is prepared" not in caplog.text
    store.rebuild(P0, CHANGELOG[5:])
    store.rebuild(P0, [])
    assert (store.rebuilt_offset(P0), store.prepared) == (7, True)
    assert caplog.text.count("is prepared") == 1
    assert dict(store.all_with_timestamp()) == PLAIN
    store.close()
    store = instance.open()
    assert store.committed_offset(P0) == 7
    assert dict(store.all_with_timestamp()) == TIMED
    assert instance.directories() == ["store-v2"]
    assert "no longer needed" in caplog.text
    store.close()


def test_rebuild_goes_on_after_a_restart(
    instance: Instance, caplog: pytest.LogCaptureFixture
) -> None:
    """What was fed is kept; when nothing is missing any more, opening says so."""
    instance.old(CHANGELOG)
    store = instance.open("in_place")
    store.rebuild(P0, CHANGELOG[:3])
    store.close()
    store = instance.open("in_place")
    assert store.rebuilt_offset(P0) == 2
    store.rebuild(P0, CHANGELOG[3:])
    store.close()
    with caplog.at_level(logging.INFO, logger="streamproof.stores"):
        store = instance.open("in_place")
    assert "is prepared" in caplog.text
    store.close()


def test_every_partition_must_be_rebuilt(instance: Instance) -> None:
    """A global store has several partitions; one that lags keeps the upgrade from being ready."""
    instance.old(CHANGELOG)
    store = instance.open("in_place")
    store.commit({P1: 3})
    store.close()
    store = instance.open("in_place")
    store.rebuild(P0, CHANGELOG)
    assert not store.prepared
    store.rebuild(P1, [ChangelogRecord(b"other", b"1", 3, 1)])
    assert store.prepared
    store.close()


def test_roll_over_rebuilds_nothing(instance: Instance) -> None:
    """The old store stays live, and there is nothing to feed."""
    instance.old(CHANGELOG)
    store = instance.open("roll_over")
    assert dict(store.all_with_timestamp()) == PLAIN
    for call in (
        lambda: store.rebuild(P0, CHANGELOG),
        lambda: store.rebuilt_offset(P0),
        lambda: store.prepared,
    ):
        with pytest.raises(UnsupportedOperationError, match="in_place"):
            call()
    store.close()
    assert instance.directories() == ["store"]


def test_rebuild_ends_with_its_store(instance: Instance) -> None:
    """A feeder that comes too late is told so, and closing twice is harmless."""
    store = instance.open("in_place")
    rebuild = store._rebuild
    assert rebuild is not None
    store.close()
    store.close()
    with pytest.raises(UnsupportedOperationError):
        store.rebuild(P0, CHANGELOG)
    with pytest.raises(InvalidStateStoreError):
        rebuild.feed(P0, CHANGELOG)


def test_restored_while_prepared(instance: Instance) -> None:
    """Restoring reaches the live store, in its format, and not the rebuild."""
    store = instance.open("in_place")
    instance.replay(store)
    assert dict(store.all_with_timestamp()) == PLAIN
    assert store.rebuilt_offset(P0) is None
    store.close()


@BOTH_KINDS
def test_offline_upgrade(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture, transactional: bool
) -> None:
    """The new store starts empty; the old one is kept until the new one is as far."""
    instance = Instance(make_context, transactional=transactional)
    instance.old(CHANGELOG[:6])
    store = instance.open()
    assert (store.committed_offset(P0), list(store.all())) == (None, [])
    instance.replay(store, upto=5)
    assert instance.directories() == ["store", "store-v2"]
    store.close()
    store = instance.open()
    assert store.committed_offset(P0) == 4
    store.commit({})
    assert instance.directories() == ["store", "store-v2"]
    with caplog.at_level(logging.INFO, logger="streamproof.stores"):
        instance.replay(store)
    assert instance.directories() == ["store-v2"]
    assert "store, which is no longer needed" in caplog.text
    assert dict(store.all_with_timestamp()) == TIMED
    store.close()


def test_old_store_without_offsets_is_kept_until_there_are_new_ones(instance: Instance) -> None:
    """It may be all that there is: without a changelog nothing could be restored."""
    instance.old(CHANGELOG, commit=False)
    for _ in range(2):
        store = instance.open()
        store.commit({})
        store.commit({P0: None})
        assert instance.directories() == ["store", "store-v2"]
        store.close()
    store = instance.open()
    instance.replay(store)
    assert instance.directories() == ["store-v2"]
    store.close()


def test_going_back_while_the_old_store_is_there(instance: Instance) -> None:
    """Each format goes on from its own offset, back and forth."""
    instance.old(CHANGELOG[:6])
    store = instance.open()
    instance.replay(store, upto=4)
    store.close()
    store = instance.open("roll_over")
    assert store.committed_offset(P0) == 5
    instance.replay(store)
    assert dict(store.all_with_timestamp()) == PLAIN
    store.close()
    plain = RocksDBStore("store")
    plain.init(instance.make_context(), plain)
    assert dict(plain.all()) == {key: value for key, (value, _) in PLAIN.items()}
    plain.close()
    store = instance.open()
    assert store.committed_offset(P0) == 3
    instance.replay(store)
    assert dict(store.all_with_timestamp()) == TIMED
    store.close()
    assert instance.directories() == ["store-v2"]


def test_old_format_can_start_anew(instance: Instance) -> None:
    """If the old one is asked for after it was wiped, it starts empty, to be restored."""
    store = instance.open()
    instance.replay(store)
    store.close()
    store = instance.open("in_place")
    assert (store.committed_offset(P0), store.rebuilt_offset(P0)) == (None, 7)
    instance.replay(store)
    assert dict(store.all_with_timestamp()) == PLAIN
    assert store.prepared
    store.close()


def _leave_unclean(open_store: Callable[[], Any], directory: Path) -> None:
    """Leave the directory as a crash after a flush would."""
    store = open_store()
    store.flush()
    copy = directory.with_name("crashed")
    shutil.copytree(directory, copy)
    store.close()
    shutil.rmtree(directory)
    copy.rename(directory)


def test_unclean_old_store(instance: Instance) -> None:
    """It must not be live under exactly-once, and does not matter if it is to be discarded."""
    instance.old(CHANGELOG)
    _leave_unclean(lambda: instance.open("roll_over"), instance.parent / "store")
    for mode in ("roll_over", "in_place"):
        with pytest.raises(TaskCorruptedError):
            instance.open(mode)
    assert instance.directories() == ["store"]
    store = instance.open()
    instance.replay(store)
    assert instance.directories() == ["store-v2"]
    store.close()


def test_damaged_old_store(instance: Instance, caplog: pytest.LogCaptureFixture) -> None:
    """It does not stand in the way of the new one, and goes once that has offsets."""
    instance.old(CHANGELOG)
    for path in (instance.parent / "store").glob("MANIFEST-*"):
        path.write_bytes(b"damaged")
    with pytest.raises(ProcessorStateError):
        instance.open("in_place")
    store = instance.open()
    assert "damaged" in caplog.text
    instance.replay(store)
    store.close()
    assert instance.directories() == ["store-v2"]


def test_unclean_rebuild_starts_anew(instance: Instance, caplog: pytest.LogCaptureFixture) -> None:
    """What was live and crashed is not gone on with when the upgrade is taken back."""
    instance.old(CHANGELOG)
    shutil.copytree(instance.parent, instance.parent.with_name("saved"))
    _leave_unclean(instance.open, instance.parent / "store-v2")
    store = instance.open("in_place")
    assert "rebuilt from the start" in caplog.text
    assert store.rebuilt_offset(P0) is None
    store.rebuild(P0, CHANGELOG)
    store.close()
    store = instance.open()
    assert dict(store.all_with_timestamp()) == TIMED
    store.close()
    assert instance.directories() == ["store-v2"]


def test_failure_to_open_the_rebuild_closes_the_live_store(instance: Instance) -> None:
    """Both are open, or neither is."""
    instance.old(CHANGELOG)
    (instance.parent / "store-v2").write_bytes(b"not a directory")
    with pytest.raises(ProcessorStateError):
        instance.open("in_place")
    (instance.parent / "store-v2").unlink()
    store = instance.open("in_place")
    with pytest.raises(InvalidStateStoreError, match="already open"):
        store.init(instance.context, store)
    store.close()


@pytest.mark.parametrize("mode", [None, "in_place", "roll_over"])
def test_interrupted_deletion_goes_on(
    instance: Instance, mode: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What was moved aside is deleted at the next opening, whatever the mode."""
    for name in ("store~discarded", "store-v2~discarded"):
        (instance.parent / name).mkdir(parents=True)
        (instance.parent / name / "000009.sst").write_bytes(b"half")
    with caplog.at_level(logging.INFO, logger="streamproof.stores"):
        instance.open(mode).close()
    assert not {"store~discarded", "store-v2~discarded"} & {*instance.directories()}
    assert caplog.text.count("Finishing the interrupted deletion") == 2


def test_failure_to_delete_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It costs disk space, and the next opening tries again."""
    directory = tmp_path / "store"

    def fail(path: object, *_: object) -> None:
        raise OSError(f"no right to change {path}")

    directory.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        discard(directory)
    assert "cannot be renamed before its deletion" in caplog.text
    assert directory.is_dir()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fail)
        discard(directory)
    assert "cannot be deleted" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["store~discarded"]
    finish_discarding(directory)
    assert list(tmp_path.iterdir()) == []


def test_downgrade_is_refused(instance: Instance) -> None:
    """A plain store does not start empty beside the new format, and says what to do."""
    store = instance.open()
    instance.replay(store)
    store.close()
    for refused in (RocksDBStore("store"), RocksDBLazyTimestampedStore("store")):
        with pytest.raises(ProcessorStateError, match=r"store-v2.*downgrade.*newer version"):
            refused.init(instance.make_context(), refused)
        assert not refused.is_open
    assert instance.directories() == ["store-v2"]
    (instance.parent / "store-v2").rename(instance.parent / "store-v3")
    with pytest.raises(ProcessorStateError, match="store-v3"):
        instance.open()
    assert instance.directories() == ["store-v3"]


def test_a_plain_store_may_be_called_like_a_format(instance: Instance) -> None:
    """Its column families tell it from a newer format, so that nothing is refused or read."""
    like_a_format = RocksDBStore("store-v2")
    like_a_format.init(instance.make_context(), like_a_format)
    like_a_format.put(b"a", b"1")
    like_a_format.close()
    instance.old(CHANGELOG)
    (instance.parent / "store-v2").rename(instance.parent / "store-v3")
    store = instance.open()
    store.close()
    like_a_format = RocksDBStore("store-v2")
    with pytest.raises(ProcessorStateError, match="timestamps"):
        like_a_format.init(instance.make_context(), like_a_format)


def test_downgrade_beside_damage_is_refused(instance: Instance) -> None:
    """A newer format that cannot be read is not taken for another store."""
    instance.open().close()
    for path in (instance.parent / "store-v2").glob("MANIFEST-*"):
        path.write_bytes(b"damaged")
    plain = RocksDBStore("store")
    with pytest.raises(ProcessorStateError, match="store-v2 cannot be read"):
        plain.init(instance.make_context(), plain)
    assert instance.directories() == ["store-v2"]


def test_modes_of_an_upgrade(instance: Instance) -> None:
    """An unknown mode is refused. A mode alone, or a later release, changes no format."""
    with pytest.raises(UsageError, match=r"'sideways'.*in_place"):
        instance.open("sideways")
    instance.open(**{UPGRADE_MODE_CONFIG: "in_place"}).close()
    instance.open(**{UPGRADE_FROM_CONFIG: "4.3"}).close()
    assert instance.directories() == ["store-v2"]


# --- real kills -----------------------------------------------------------------------


def _crashes(how: str, work: str, kind: str, shim: Path | None = None) -> list[Any]:
    memory = Path("/dev/shm")  # noqa: S108  # A fresh directory is made in it.
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        result = subprocess.run(
            [sys.executable, "-P", str(ZYGOTE), how, work, kind, directory],
            env=os.environ | ({} if shim is None else {"LD_PRELOAD": str(shim)}),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    assert result.returncode == 0, result.stderr
    return cast(list[Any], json.loads(result.stdout))


def _assert_nothing_was_lost(crashes: list[Any], met: set[tuple[str, ...]]) -> None:
    """All kills left one of the described states, each was met, and all data came back."""
    assert [crash["done"] for crash in crashes] == [False] * (len(crashes) - 1) + [True]
    for crash in crashes:
        assert (crash["new"], crash["old"], crash["switched"]) == (True, True, True)
        assert crash["left"] == [["store-v2"], ["store-v2"]]
    assert {tuple(crash["found"]) for crash in crashes} == met


STATES = {
    "offline": {
        ("store",),
        ("store", "store-v2"),
        ("store-v2", "store~discarded"),
        ("store-v2",),
    },
    "switch": {("store", "store-v2"), ("store-v2", "store~discarded"), ("store-v2",)},
    "rebuild": {("store",), ("store", "store-v2")},
}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim that counts system calls."""
    try:
        return build_shim(tmp_path_factory.mktemp("shim"))
    except CannotBuildError as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("work", STATES)
def test_killed_at_each_system_call(work: str, shim: Path) -> None:
    """An offline upgrade, the switch of one in place, and its rebuild."""
    crashes = _crashes("syscalls", work, "plain", shim)
    _assert_nothing_was_lost(crashes, STATES[work])
    if work == "rebuild":
        # Some kills left a part of the work on disk, and feeding went on from there.
        rebuilt = {crash["rebuilt"] for crash in crashes}
        assert {None, 59} <= rebuilt


@pytest.mark.parametrize("work", ["offline", "switch"])
def test_killed_at_each_line_of_the_switch(work: str) -> None:
    """Each directory operation is between two lines; the store is transactional here."""
    _assert_nothing_was_lost(_crashes("lines", work, "transactional"), STATES[work])
