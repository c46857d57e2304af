"""What is said where something differs from what is expected."""

from __future__ import annotations

import pytest

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topologies.reference import (
    Expected,
    Order,
    Output,
    Result,
    content,
    differences,
    exactly,
)


def entries(*values: bytes | None) -> list[LogEntry]:
    """Records of one key with these values, one millisecond apart."""
    return [LogEntry(offset, offset, b"k", value) for offset, value in enumerate(values)]


ABC = Output({b"k": [exactly(b"a"), exactly(b"b"), exactly(b"c")]})


@pytest.mark.parametrize(
    ("order", "written", "allowed"),
    [
        ("exact", "abc", True),
        ("exact", "ac", False),
        ("exact", "ab", False),
        ("exact", "abcc", False),
        ("exact", "bac", False),
        ("updates", "abc", True),
        ("updates", "c", False),
        ("latest", "c", True),
        ("latest", "ac", True),
        ("latest", "ab", False),
        ("latest", "", False),
        ("latest", "bac", False),
        ("latest", "acc", False),
        ("any", "cab", True),
        ("any", "ca", False),
        ("any", "aabc", False),
        ("some", "ca", True),
        ("some", "", True),
        ("some", "cca", False),
    ],
)
def test_orders(order: Order, written: str, *, allowed: bool) -> None:
    """What each of them allows; more records, wrong ones and other keys are never allowed."""
    expected = Expected({"out": ABC._replace(order=order)})
    logs = {"out-0": entries(*(each.encode() for each in written))}
    assert (differences(expected, logs) == []) is allowed
    logs["out-1"] = [LogEntry(0, 0, b"other", b"a")]
    assert any("other" in each for each in differences(expected, logs))


def test_a_cache_makes_updates_the_latest() -> None:
    """But not other outputs."""
    logs = {"out-0": entries(b"c")}
    for order, allowed in (("updates", True), ("exact", False)):
        expected = Expected({"out": Output(ABC.records, order)})  # type: ignore[arg-type]
        assert (differences(expected, logs, cached=True) == []) is allowed


def test_one_of_several_results() -> None:
    """A timestamp counts if there is one."""
    either = frozenset((Result(b"a", 0), Result(None)))
    expected = Expected({"out": Output({b"k": [either]})})
    assert differences(expected, {"out-0": entries(b"a")}) == []
    assert differences(expected, {"out-0": [LogEntry(0, 77, b"k", None)]}) == []
    assert differences(expected, {"out-0": [LogEntry(0, 1, b"k", b"a")]}) == [
        "out, key b'k': record 0 is b'a' at 1 instead of None at None or b'a' at 0"
    ]


def test_what_is_missing_is_named() -> None:
    """With the first records of what is not there."""
    (found,) = differences(Expected({"out": ABC}), {"out-0": entries(b"a")})
    assert found == "out, key b'k': after 1 records there is no b'b' at None, b'c' at None"
    (found,) = differences(Expected({"out": ABC}), {"out-0": entries(b"a", b"c")})
    assert found == ("out, key b'k': record 1 is b'c' at 1 instead of b'b' at None, b'c' at None")
    (found,) = differences(Expected({"out": Output({}, "any")}), {"out-0": entries(b"z")})
    assert found == "out, key b'k': record 0, b'z' at 0, is not expected, or not so often"


def test_the_content_of_a_changelog() -> None:
    """The last value of each key, unless it is a tombstone."""
    changelog = [
        *entries(b"a", None, b"c"),
        LogEntry(3, 3, b"gone", b"x"),
        LogEntry(4, 4, b"gone", None),
    ]
    assert content(changelog) == {b"k": b"c"}
    expected = Expected({}, {"log-0": {b"k": b"b", b"more": b"1"}})
    assert differences(expected, {"log-0": changelog}) == [
        "log-0, key b'k': b'c' instead of b'b'",
        "log-0, key b'more': None instead of b'1'",
    ]
