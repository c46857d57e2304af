"""What a RocksDB store leaves for a version before KIP-1035, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, OffsetCheckpoint
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.upgrade_configs import RELEASES, is_downgrade, upgrade_mode, upgrade_use

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)
P1 = TopicPartition("streamproof-store-changelog", 1)
FOREIGN = TopicPartition("streamproof-other-changelog", 0)
INPUT = TopicPartition("input", 0)
DOWNGRADE = {UPGRADE_FROM_CONFIG: "4.2"}


def _checkpoint(context: StateStoreContext) -> OffsetCheckpoint:
    return OffsetCheckpoint(context.state_dir / ".checkpoint")


def _position(context: StateStoreContext) -> OffsetCheckpoint:
    return OffsetCheckpoint(context.state_dir / "rocksdb" / "store" / ".position")


def _plain() -> RocksDBStore:
    return RocksDBStore("store", manages_offsets=False)


def _transactional() -> KeyValueStore:
    return TransactionalKeyValueStore(TransactionalRocksDBStore("store"))


@pytest.mark.parametrize("make_store", [lambda: RocksDBStore("store"), _transactional])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_older_version_can_go_on(
    make_context: MakeContext, make_store: Callable[[], KeyValueStore], exactly_once: bool
) -> None:
    """It opens the database, and finds offsets and position where it looks for them."""
    context = make_context(exactly_once=exactly_once, **DOWNGRADE)
    store = make_store()
    context.state_dir.mkdir(parents=True)
    _checkpoint(context).write({FOREIGN: 3})
    store.init(context, store)
    context.record_metadata = RecordMetadata("input", 0, 5)
    store.put(b"a", b"1")
    store.commit({P0: 7, P1: 8})
    store.close()
    assert _checkpoint(context).read() == {FOREIGN: 3, P0: 7, P1: 8}
    assert _position(context).read() == {INPUT: 5}
    plain = _plain()
    plain.init(make_context(exactly_once=exactly_once), plain)
    assert list(plain.all()) == [(b"a", b"1")]
    plain.close()


def test_shipped_writes_the_checkpoint_only(make_context: MakeContext) -> None:
    """The column family stays, so that an older version refuses the database."""
    context = make_context(**DOWNGRADE)
    store = RocksDBStore("store", downgrade="shipped")
    store.init(context, store)
    context.record_metadata = RecordMetadata("input", 0, 5)
    store.put(b"a", b"1")
    store.commit({P0: 7})
    store.close()
    assert _checkpoint(context).read() == {P0: 7}
    assert not _position(context).path.exists()
    plain = _plain()
    with pytest.raises(ProcessorStateError, match="offsets, which this store does not know"):
        plain.init(context, plain)
    store = RocksDBStore("store")
    store.init(make_context(), store)
    assert store.committed_offset(P0) == 7
    assert store.position.as_dict() == {INPUT: 5}
    # The entry would be stale from here on.
    assert not _checkpoint(context).path.exists()
    store.close()


@pytest.mark.parametrize("downgrade", ["proposed", "shipped"])
def test_without_an_offset_it_is_noted_that_none_is_known(
    make_context: MakeContext, downgrade: str
) -> None:
    """Otherwise the older version would take the records for those of a crash."""
    context = make_context(**DOWNGRADE)
    store = RocksDBStore("store", downgrade="shipped" if downgrade == "shipped" else "proposed")
    for _ in range(2):
        store.init(context, store)
        assert store.committed_offset(P0) is None
        store.put(b"a", b"1")
        store.close()
        assert _checkpoint(context).read() == {P0: OFFSET_UNKNOWN}


@pytest.mark.parametrize("configs", [{}, {UPGRADE_FROM_CONFIG: "4.3"}])
def test_nothing_is_left_unless_it_is_asked_for(
    make_context: MakeContext, configs: dict[str, str]
) -> None:
    """Neither without ``upgrade.from`` nor from a version that knows the column family."""
    context = make_context(**configs)
    store = RocksDBStore("store")
    store.init(context, store)
    store.put(b"a", b"1")
    store.commit({P0: 7})
    store.close()
    assert not _checkpoint(context).path.exists()
    plain = _plain()
    with pytest.raises(ProcessorStateError, match="offsets"):
        plain.init(context, plain)


@pytest.mark.parametrize(
    ("release", "mode", "use"),
    [
        (None, None, None),
        (None, "in_place", None),
        (None, "sideways", None),
        ("4.2", None, "offsets"),
        ("3.9.x", None, "offsets"),
        ("2.3", None, "offsets"),
        ("2.2", "in_place", "in_place"),
        ("1.1.x", "roll_over", "roll_over"),
        ("0.10.0.x", "in_place", "in_place"),
        ("4.3", None, None),
    ],
)
def test_the_release_tells_the_proposals_apart(
    tmp_path: Path, release: str | None, mode: str | None, use: str | None
) -> None:
    """KIP-258 upgrades from releases without timestamps, KIP-1035 from those without offsets."""
    configs = {UPGRADE_FROM_CONFIG: release, UPGRADE_MODE_CONFIG: mode}
    context = StateStoreContext(tmp_path, app_configs=configs)
    assert upgrade_use(context) == use
    assert is_downgrade(context) is (use == "offsets")
    assert upgrade_mode(context) == (None if use == "offsets" else use)


@pytest.mark.parametrize(
    ("release", "mode"), [("1.1", None), ("1.1", "sideways"), ("1.1", ""), ("4.2", "in_place")]
)
def test_a_mode_that_does_not_fit(tmp_path: Path, release: str, mode: str | None) -> None:
    """As proposed, each release before 2.3 needs a mode, and no later one has a use for it."""
    configs = {UPGRADE_FROM_CONFIG: release, UPGRADE_MODE_CONFIG: mode}
    context = StateStoreContext(tmp_path, app_configs=configs)
    with pytest.raises(UsageError, match=r"upgrade\.mode"):
        upgrade_use(context)
    assert upgrade_use(context, shipped=True) == "offsets"


def test_every_older_release_is_known(tmp_path: Path) -> None:
    """With the suffix of KIP-258, too."""
    for release in RELEASES:
        for text in (release, f"{release}.x"):
            context = StateStoreContext(tmp_path, app_configs={UPGRADE_FROM_CONFIG: text})
            expected = None if release == "4.3" else "offsets"
            assert upgrade_use(context, shipped=True) == expected


@pytest.mark.parametrize("version", ["latest", "4", "v4.2", "", "4.2-SNAPSHOT", 4, "4.2.1", "9.9"])
def test_unknown_versions_stop_the_opening(make_context: MakeContext, version: object) -> None:
    """The accepted form is named, before anything is touched."""
    context = make_context(**{UPGRADE_FROM_CONFIG: version})
    store = RocksDBStore("store")
    with pytest.raises(UsageError, match=r"upgrade\.from.*'4\.2'"):
        store.init(context, store)
    assert not context.state_dir.exists()


def test_failure_keeps_the_offsets(make_context: MakeContext) -> None:
    """A file that cannot be written is an error, and the column family is still there."""
    context = make_context(**DOWNGRADE)
    store = RocksDBStore("store")
    store.init(context, store)
    store.put(b"a", b"1")
    store.commit({P0: 7})
    _checkpoint(context).path.write_text("nonsense\n")
    with pytest.raises(ProcessorStateError, match=r"\.checkpoint, line 1"):
        store.close()
    assert not store.is_open
    assert _checkpoint(context).path.read_text() == "nonsense\n"
    _checkpoint(context).delete()
    store.init(make_context(), store)
    assert store.committed_offset(P0) == 7
    store.close()


def test_open_iterators_do_not_hinder(make_context: MakeContext) -> None:
    """They are closed with the store, and hold the column family no longer."""
    context = make_context(**DOWNGRADE)
    store = RocksDBStore("store")
    store.init(context, store)
    store.put(b"a", b"1")
    store.put(b"b", b"2")
    entries = store.all()
    assert next(entries) == (b"a", b"1")
    store.close()
    plain = _plain()
    plain.init(make_context(exactly_once=False), plain)
    assert plain.get(b"b") == b"2"
    plain.close()


OFFSETS = st.integers(0, 2**63 - 1)


@settings(settings.get_profile("stores"), max_examples=20)
@given(
    rows=st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), max_size=5),
    offsets=st.dictionaries(st.sampled_from([P0, P1]), OFFSETS, max_size=2),
    position=st.dictionaries(st.integers(0, 3), OFFSETS, max_size=3),
    guarantee=st.sampled_from([AT_LEAST_ONCE, EXACTLY_ONCE]),
    rounds=st.integers(1, 2),
)
def test_round_trip(
    rows: dict[bytes, bytes],
    offsets: dict[TopicPartition, int],
    position: dict[int, int],
    guarantee: str,
    rounds: int,
) -> None:
    """Downgraded, opened by an older version, and upgraded again, all is as it was."""
    with TemporaryDirectory() as directory:
        configs = {PROCESSING_GUARANTEE_CONFIG: guarantee}
        context = StateStoreContext(Path(directory), app_configs={**configs, **DOWNGRADE})
        store = RocksDBStore("store")
        store.init(context, store)
        store.put_all(rows.items())
        for partition, offset in position.items():
            context.record_metadata = RecordMetadata("input", partition, offset)
            store.delete(b"not there")
        store.commit(offsets)
        for _ in range(rounds):
            store.close()
            plain = _plain()
            plain.init(StateStoreContext(Path(directory), app_configs=configs), plain)
            assert dict(plain.all()) == rows
            plain.close()
            store.init(context, store)
            assert dict(store.all()) == rows
            for partition in (P0, P1):
                assert store.committed_offset(partition) == offsets.get(partition)
            assert store.position.as_dict() == {
                TopicPartition("input", partition): offset for partition, offset in position.items()
            }
        store.close()
