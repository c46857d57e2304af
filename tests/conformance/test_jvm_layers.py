"""Stores of the JVM with what the runtime puts around them, in an old release and in a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_lines import CommandLine

from streamproof.conformance.subject import load_subject
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN
from streamproof.stores.errors import (
    InvalidStateStoreError,
    NullArgumentError,
    ProcessorStateError,
    StoreError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.host.client import kill_hosts

OLD = "3.9.2"
"""A release whose stores keep no offsets."""

CHANGELOG = TopicPartition("streamproof-store-changelog", 0)

MANY = 10_001
"""More records than a task writes before it writes down their offset."""

Opener = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens a store in one directory, again and again."""

    def open_one(guarantee: str = AT_LEAST_ONCE, subject: str = f"kafka:rocksdb@{OLD}") -> Any:
        configs = {PROCESSING_GUARANTEE_CONFIG: guarantee}
        store = load_subject(subject).factory()
        store.init(StateStoreContext(state_dir=tmp_path, app_configs=configs), store)
        return store

    yield open_one
    kill_hosts()


def test_a_task_of_an_old_release_writes_its_offsets_down(opened: Opener) -> None:
    """At a clean close, or after more than 10,000 records; a kill leaves what was written."""
    store = opened()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: MANY})
    store.put(b"a", b"2")
    store.commit({CHANGELOG: MANY + 1})
    assert store.committed_offset(CHANGELOG) == MANY + 1
    kill_hosts()

    store = opened()
    assert (store.get(b"a"), store.committed_offset(CHANGELOG)) == (b"1", MANY)
    store.restore([ChangelogRecord(b"a", b"2", MANY + 1)])
    store.close()
    store = opened()
    assert (store.get(b"a"), store.committed_offset(CHANGELOG)) == (b"2", MANY + 1)


def test_a_task_of_an_old_release_distrusts_files_without_offsets(
    opened: Opener, tmp_path: Path
) -> None:
    """Under exactly-once, files of a store without the file of offsets are wiped."""
    store = opened(EXACTLY_ONCE)
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 7})
    store.close()
    store = opened(EXACTLY_ONCE)
    assert store.committed_offset(CHANGELOG) == 7
    kill_hosts()

    (checkpoint,) = tmp_path.rglob("0_0")
    assert not (checkpoint / ".checkpoint").exists()
    with pytest.raises(TaskCorruptedError):
        opened(EXACTLY_ONCE)


@pytest.mark.parametrize("subject", [f"kafka:rocksdb:task@{OLD}", "kafka:rocksdb:task"])
def test_a_task_that_knows_no_offset_commits_none(opened: Opener, subject: str) -> None:
    """It does not take the number for an unknown offset for an offset."""
    store = opened(subject=subject)
    store.commit({CHANGELOG: OFFSET_UNKNOWN})
    assert store.committed_offset(CHANGELOG) is None
    store.commit({CHANGELOG: 3})
    assert store.committed_offset(CHANGELOG) == 3


def test_what_no_task_does_is_refused(opened: Opener) -> None:
    """Another changelog, a forgotten offset, a second process, and calls on a closed task."""
    store = opened()
    for offsets in ({TopicPartition("other", 0): 1}, {CHANGELOG: None}):
        with pytest.raises(UnsupportedOperationError):
            store.commit(offsets)
    store.commit({})
    store.commit({CHANGELOG: 1})
    with pytest.raises(UnsupportedOperationError):
        store.commit({})
    with pytest.raises(StoreError, match="multiple instances"):
        opened()
    store.close()
    with pytest.raises(InvalidStateStoreError):
        store.commit({CHANGELOG: 2})
    with pytest.raises((InvalidStateStoreError, ProcessorStateError)):
        store.put(b"a", b"1")
    assert opened().committed_offset(CHANGELOG) == 1


@pytest.mark.parametrize(
    ("subject", "claims"),
    [
        ("kafka:rocksdb:metered", {"change_logging": True, "iterator_view": "weak"}),
        ("kafka:rocksdb-session:metered", {"kind": "session", "scan": False}),
        ("kafka:in-memory:task", {"manages_offsets": False, "change_logging": False}),
    ],
)
def test_a_layer_changes_what_is_claimed(subject: str, claims: dict[str, Any]) -> None:
    """What the layer does for the store, and what all stores beneath it can."""
    found = load_subject(subject).capabilities

    assert {name: getattr(found, name) for name in claims} == claims


def test_a_metered_store_logs_its_writes(command_line: CommandLine) -> None:
    """With their timestamps, and no restored ones."""
    only = "OFFSET-001,RESTORE-013,RESTORE-014,RESTORE-017,TS-020"
    subjects = ("kafka:in-memory:metered", "kafka:rocksdb-timestamped:metered")
    ended = command_line.verify(*subjects, "--spec", "kafka-4.3", "--only", only)

    assert ended.code == 0, ended.stdout
    passed = {(each.subject, each.requirement): each.status for each in ended.log.results}
    assert {passed[subjects[1], each] for each in only.split(",")} == {"pass"}
    assert passed[subjects[0], "RESTORE-017"] == "pass"


def test_a_cache_is_empty_after_a_restoration(opened: Opener) -> None:
    """As that of a task which was recycled: a restored value is not hidden by an older one."""
    store = opened(AT_LEAST_ONCE, "kafka:in-memory:metered")
    store.put(b"a", b"1")
    store.put(b"b", b"2")
    store.restore([ChangelogRecord(b"a", b"restored", 3)])

    assert [store.get(each) for each in (b"a", b"b")] == [b"restored", b"2"]


def test_a_metered_store_looks_at_all_keys_first(opened: Opener) -> None:
    """The store in memory alone would keep the entries before the bad one."""
    store = opened(AT_LEAST_ONCE, "kafka:in-memory:metered")
    with pytest.raises(NullArgumentError):
        store.put_all([(b"a", b"1"), (None, b"2")])

    assert store.get(b"a") is None


def test_an_old_and_a_new_release_in_one_run(command_line: CommandLine) -> None:
    """The old one in the layer of its task, because its stores keep no offsets."""
    only = "KV-001,OFFSET-003,RESTORE-005,COMMIT-001"
    subjects = (f"kafka:rocksdb@{OLD}", "kafka:rocksdb:task@4.3.1")
    options = ("--guarantee", "at-least-once", "--spec", "kafka-4.3", "--only", only)
    ended = command_line.verify(*subjects, *options)

    assert ended.code == 0, ended.stdout
    assert {each.name: each.version for each in ended.log.header.subjects} == {
        subjects[0]: OLD,
        subjects[1]: "4.3.1",
    }
    claims = [each.capabilities for each in ended.log.header.subjects]
    assert {each["several_partitions"] for each in claims} == {False}
    assert {each["manages_offsets"] for each in claims} == {True}
    passed = {(each.subject, each.requirement): each.status for each in ended.log.results}
    assert {passed[name, each] for name in subjects for each in only.split(",")} == {"pass"}
