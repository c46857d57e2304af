"""The names of stores of the JVM, with their layers and releases, and the sources of their host."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.stores.jvm import cached_builds, host_build
from streamproof.stores.jvm.layers import default_layer
from streamproof.stores.jvm.subjects import command_of, description_of, with_layer, with_release


@pytest.mark.parametrize(
    ("name", "release", "layer", "filled"),
    [
        ("kafka:rocksdb", "4.2.2", "", "kafka:rocksdb@4.2.2"),
        ("kafka:rocksdb", "4.2.2", "task", "kafka:rocksdb:task@4.2.2"),
        ("kafka:rocksdb:bytes", "4.2.2", "task", "kafka:rocksdb:bytes@4.2.2"),
        ("kafka:rocksdb@4.3.0", "4.2.2", "task", "kafka:rocksdb:task@4.3.0"),
        ("java:com.acme.A#b", "", "task", "java:com.acme.A#b:task"),
        ("java:task", "", "bytes", "java:task:bytes"),
        ("in-memory", "4.2.2", "task", "in-memory"),
    ],
)
def test_options_fill_in_what_a_name_lacks(
    name: str, release: str, layer: str, filled: str
) -> None:
    """What a name says stays; a store in Python has neither layer nor release."""
    names = [name, "kafka:in-memory"]

    assert with_layer(with_release(names, release), layer)[0] == filled


@pytest.mark.parametrize(
    ("names", "layer", "message"),
    [
        (["kafka:rocksdb"], "cake", "there is no layer 'cake'. Choose from: bytes, "),
        (["in-memory"], "task", "--layer is for stores of the JVM: name one, such as"),
    ],
)
def test_a_layer_that_does_not_fit(names: list[str], layer: str, message: str) -> None:
    """The message says what there is."""
    with pytest.raises(UsageError) as raised:
        with_layer(names, layer)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka:rocksdb:bytes@4.2.2", "The stores of Kafka 4.2.2 keep no offsets, so there is"),
        ("kafka:rocksdb:cake", "A layer (bytes, metered, task) may follow behind another colon."),
        ("kafka:rocksdb@3.8.1", "Kafka 3.8.1 is too old to be verified. Take a release from 3.9.0"),
        (
            "kafka:rocksdb-transactional@4.3.1",
            "Kafka 4.3.1 has no transactional stores. Take a release from 4.4.0 on.",
        ),
        ("kafka:rocksdb@", "'' is no release of Kafka."),
        ("kafka:rocksdb@4.2.2:task", "'4.2.2:task' is no release of Kafka."),
    ],
)
def test_a_name_that_cannot_be_served(name: str, message: str) -> None:
    """Nothing is built for it."""
    with pytest.raises(UsageError) as raised:
        command_of(name)
    assert message in str(raised.value)


def test_the_default_layer_follows_the_release() -> None:
    """Stores keep their offsets from 4.3 on."""
    assert [default_layer(each) for each in ("3.9.0", "4.2.2", "4.3.0", "4.10.0", "5.0.0")] == [
        *("task", "task", "bytes", "bytes", "bytes")
    ]


def test_a_layer_and_a_release_do_not_change_what_a_store_is() -> None:
    """The report has the same sentence."""
    assert description_of("kafka:rocksdb:task@4.2.2") == description_of("kafka:rocksdb") != ""
    assert description_of("java:com.acme.A") == ""


@pytest.mark.parametrize(
    ("release", "range_", "is_within"),
    [
        ("4.2.2", "all", True),
        ("4.2.2", "to-4.2", True),
        ("4.3.0", "to-4.2", False),
        ("4.3.0", "from-4.3", True),
        ("4.10.0", "from-4.3", True),
        ("4.3.1", "in-4.3", True),
        ("4.4.0", "in-4.3", False),
        ("4.2.2", "in-4.3", False),
        ("3.9.2", "from-4.0", False),
        ("3.9.2", "to-3.9.1", False),
    ],
)
def test_a_release_gets_the_sources_of_its_range(
    release: str, range_: str, is_within: bool
) -> None:
    """A range up to 4.2 has all its patch releases."""
    assert host_build._is_within(release, range_) is is_within


@pytest.mark.parametrize("release", ["3.9.0", "4.0.2", "4.2.2", "4.3.1", "4.4.0"])
def test_each_class_of_the_host_has_one_source(release: str) -> None:
    """Of several ranges, a release is in one for each class, and has the classes of all ranges."""
    found = host_build._sources(release)

    assert {each.rpartition("/")[2] for each in found} >= {
        *("Host.java", "Layers.java", "TaskMetrics.java", "OneStoreTask.java", "StoreOffsets.java"),
        "Internals.java",
    }
    assert any(each.endswith("StateManagers.java") for each in found) == (release >= "4.3")
    alone = any(each.endswith("StoreAlone.java") for each in found)
    assert alone == (default_layer(release) == "bytes")


def test_builds_that_nobody_uses_are_deleted(tmp_path: Path) -> None:
    """But nothing else of the cache, and nothing that was used of late."""
    now = time.time()
    for name, days in (("kafka-4.3.1-a", 61), ("kafka-4.3.1-b", 59), ("shim", 100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "host.jar").touch()
        os.utime(tmp_path / name, (now - days * 24 * 3600,) * 2)
    cached_builds._delete_unused(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"kafka-4.3.1-b", "shim"}
