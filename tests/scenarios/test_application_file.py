"""The file of an application: what it may say, and what is wrong with it in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.application_file import ApplicationFile, read_application

NOON = 1_790_000_000_000

WHOLE = """
[application]
command = ["sh", "{bootstrap}", "{state}"]
guarantee = "exactly-once"

[[inputs]]
topic = "in"
partitions = 4
records = [{ key = "a", value = "1" }, { key = "b", timestamp = 7, partition = 3 }]

[[outputs]]
topic = "out"
"""


def read(tmp_path: Path, text: str) -> ApplicationFile:
    path = tmp_path / "app.toml"
    path.write_text(text, "utf-8")
    return read_application(path)


@pytest.mark.parametrize(
    ("key", "partition"),
    [("a", 49), ("b", 94), ("ada", 34), ("abcdefgh", 5), ("üéß-long-key-1234", 15), ("x" * 31, 14)],
)
def test_a_key_chooses_the_partition_that_kafka_chooses(
    tmp_path: Path, key: str, partition: int
) -> None:
    """These are the answers of ``Utils.toPositive(Utils.murmur2(key)) % 97`` in Kafka 4.3.1."""
    text = WHOLE.replace("partitions = 4", "partitions = 97").replace('key = "a"', f'key = "{key}"')
    (_, first), *_ = read(tmp_path, text).records(0, NOON)

    assert first.partition == partition


def test_records_get_partitions_and_times(tmp_path: Path) -> None:
    records = read(tmp_path, WHOLE).records(0, NOON)

    assert [(topic, each.key, each.partition, each.timestamp) for topic, each in records] == [
        ("in", "a", 0, NOON),
        ("in", "b", 3, 7),
    ]


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)

    assert found.topics == {"in": 4, "out": 1}
    assert found.application.instances == 1
    assert found.compares_state


def test_a_seed_draws_the_same_records_again(tmp_path: Path) -> None:
    old = 'records = [{ key = "a", value = "1" }, { key = "b", timestamp = 7, partition = 3 }]'
    new = 'generate = { records = 9, keys = ["a", "b"], value = "{number}-{random}" }'
    found = read(tmp_path, WHOLE.replace(old, new))
    first, again, other = (found.records(seed, NOON) for seed in (1, 1, 2))

    assert len(first) == 9
    assert first == again != other


def test_records_come_from_a_file(tmp_path: Path) -> None:
    old = 'records = [{ key = "a", value = "1" }, { key = "b", timestamp = 7, partition = 3 }]'
    found = read(tmp_path, WHOLE.replace(old, 'file = "in.ndjson"'))
    (tmp_path / "in.ndjson").write_text('{"key": "a", "value": "1"}\n{"key": "b"}\n', "utf-8")

    assert [each.value for _, each in found.records(0, NOON)] == ["1", None]
    (tmp_path / "in.ndjson").write_text('{"kay": "a"}\n', "utf-8")
    with pytest.raises(UsageError, match=r"in\.ndjson: line 1 is no record"):
        found.records(0, NOON)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("guarantee", "guarentee", r"unknown field `guarentee`.* has all keys"),
        ('"exactly-once"', '"once"', "Invalid enum value 'once'"),
        ("{bootstrap}", "localhost:9092", r"has \{bootstrap\}, the place where the address"),
        ("{state}", "state", r"has \{state\}, the place where the state directory"),
        ('"sh"', '"no-such-program"', "the program 'no-such-program' is not installed"),
        ('topic = "out"', 'topic = "in"', "the topic in is there twice"),
        ("partition = 3", "partition = 4", "the input in has no partition 4"),
        ("records = [", 'file = "x"\nrecords = [', "needs one of records, file and generate"),
        (
            '[[outputs]]\ntopic = "out"',
            "[state]\ncompare = false",
            "nothing is judged: name an output",
        ),
        ("[application]", '[application]\nkafka = "4"', "'4' is no release of Kafka"),
        ("[application]", "[application]\nfaults = []", "length >= 1"),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, WHOLE.replace(old, new))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.toml cannot be read: No such file"):
        read_application(tmp_path / "nothing.toml")
