"""The expected output of an application, and its differences from the real output.

A reference is a pure function from the committed input to the expected output. The reference
ignores tasks, threads, commits and crashes: under exactly-once the committed output must be the
expected output in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

__all__ = [
    "Expected",
    "Logged",
    "Logs",
    "Order",
    "Output",
    "Result",
    "by_partition",
    "content",
    "differences",
    "exactly",
]


class Logged(Protocol):
    """A record of a log, from any source."""

    @property
    def offset(self) -> int:
        """Where it is."""
        ...

    @property
    def key(self) -> bytes:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value; ``None`` is a tombstone."""
        ...

    @property
    def timestamp(self) -> int:
        """In milliseconds."""
        ...


Logs = Mapping[str, Sequence[Logged]]
"""The records of each partition that were ever committed, in order, without markers.

Records that were deleted or compacted since then must be included. A partition that never had a
record may be missing.
"""

Order = Literal["exact", "updates", "latest", "any", "some"]
"""How the records of a key may differ from those that are expected.

``exact``: not at all. ``updates``: not at all without a record cache, and like ``latest`` with one.
``latest``: some may be left out, but not the last one. ``any``: they may come in another order.
``some``: in another order, and some may be left out.
"""

_SHOWN = 5
"""How many records of a sequence a difference shows, from its beginning on."""


class Result(Struct, frozen=True, gc=False):
    """An expected record.

    Attributes:
        value: ``None`` is a tombstone.
        timestamp: in milliseconds; ``None`` is any.
    """

    value: bytes | None
    timestamp: int | None = None

    def allows(self, entry: Logged) -> bool:
        """Whether a record is this one."""
        return self.value == entry.value and self.timestamp in (None, entry.timestamp)


class Output(NamedTuple):
    """The expected records of a topic.

    Attributes:
        records: by key, one after the other; each is one of several.
        order: how the records of a key may differ from that.
    """

    records: Mapping[bytes, Sequence[frozenset[Result]]]
    order: Order = "exact"


@dataclass(frozen=True)
class Expected:
    """The expected output of an application.

    Attributes:
        outputs: the expected records by topic.
        stores: the expected final content of each store, by its changelog partition. A store
            without a known content is left out.
    """

    outputs: Mapping[str, Output]
    stores: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)

    def without(self, is_refused: Callable[[bytes, bytes | None], bool]) -> Expected:
        """The same without output records that no topic takes, given their key and value."""
        outputs = {
            topic: output._replace(
                records={
                    key: [
                        each
                        for each in records
                        if not any(is_refused(key, result.value) for result in each)
                    ]
                    for key, records in output.records.items()
                }
            )
            for topic, output in self.outputs.items()
        }
        return replace(self, outputs=outputs)


def exactly(value: bytes | None, timestamp: int | None = None) -> frozenset[Result]:
    """This record and no other."""
    return frozenset((Result(value, timestamp),))


def by_partition(logs: Logs, topic: str) -> dict[int, Sequence[Logged]]:
    """The records of a topic, by the number of the partition."""
    found = {}
    for partition, records in logs.items():
        name, _, number = partition.rpartition("-")
        if name == topic:
            found[int(number)] = records
    return dict(sorted(found.items()))


def content(changelog: Iterable[Logged]) -> dict[bytes, bytes]:
    """The content of a store that was restored from this changelog."""
    rows: dict[bytes, bytes] = {}
    for each in changelog:
        if each.value is None:
            rows.pop(each.key, None)
        else:
            rows[each.key] = each.value
    return rows


def differences(expected: Expected, logs: Logs, *, cached: bool = False) -> list[str]:
    """The differences between the real and the expected output; empty without a difference.

    Args:
        expected: the answer of the reference, from the same logs.
        logs: all committed records.
        cached: whether the application had record caches, so that an update may hide the one
            before.
    """
    found: list[str] = []
    for topic, output in expected.outputs.items():
        written = _by_key(logs, topic)
        order: Order = output.order
        if order == "updates":
            order = "latest" if cached else "exact"
        for key in sorted(written.keys() | output.records.keys()):
            wanted, got = output.records.get(key, ()), written.get(key, [])
            found += (f"{topic}, key {key!r}: {each}" for each in _compare(wanted, got, order))
    for changelog, rows in expected.stores.items():
        held = content(logs.get(changelog, ()))
        found += (
            f"{changelog}, key {key!r}: {held.get(key)!r} instead of {rows.get(key)!r}"
            for key in sorted(held.keys() | rows.keys())
            if held.get(key) != rows.get(key)
        )
    return found


def _by_key(logs: Logs, topic: str) -> dict[bytes, list[Logged]]:
    found: dict[bytes, list[Logged]] = {}
    for records in by_partition(logs, topic).values():
        for each in records:
            found.setdefault(each.key, []).append(each)
    return found


def _compare(
    wanted: Sequence[frozenset[Result]], got: Sequence[Logged], order: Order
) -> Iterator[str]:
    """Describe where the records of one key differ."""
    if order in ("any", "some"):
        yield from _compare_unordered(wanted, got, complete=order == "any")
        return
    if order == "latest" and wanted and got:
        if not _is_one_of(got[-1], wanted[-1]):
            yield f"the last record is {_shown(got[-1])} instead of {_shown_results(wanted[-1:])}"
        # What is last is settled; of the others, any may be missing.
        wanted, got = wanted[:-1], got[:-1]
        yield from _compare_in_order(wanted, got, gaps=True)
    else:
        yield from _compare_in_order(wanted, got, gaps=False)


def _compare_in_order(
    wanted: Sequence[frozenset[Result]], got: Sequence[Logged], *, gaps: bool
) -> Iterator[str]:
    at = 0
    for number, entry in enumerate(got):
        start = at
        while gaps and at < len(wanted) and not _is_one_of(entry, wanted[at]):
            at += 1
        if at == len(wanted) or not _is_one_of(entry, wanted[at]):
            yield f"record {number} is {_shown(entry)} instead of {_shown_results(wanted[start:])}"
            return
        at += 1
    if at < len(wanted) and not gaps:
        yield f"after {len(got)} records there is no {_shown_results(wanted[at:])}"


def _compare_unordered(
    wanted: Sequence[frozenset[Result]], got: Sequence[Logged], *, complete: bool
) -> Iterator[str]:
    # By result, the places in which it is wanted, the first one last: most keys have many records.
    places: dict[Result, list[int]] = {}
    for place in reversed(range(len(wanted))):
        for each in wanted[place]:
            places.setdefault(each, []).append(place)
    left = dict(enumerate(wanted))
    for number, entry in enumerate(got):
        found = []
        for result in {Result(entry.value, entry.timestamp), Result(entry.value)}:
            where = places.get(result, [])
            while where and where[-1] not in left:
                where.pop()
            found += where[-1:]
        if found:
            del left[min(found)]
        else:
            yield f"record {number}, {_shown(entry)}, is not expected, or not so often"
    if complete and left:
        yield f"there is no {_shown_results(list(left.values()))}"


def _is_one_of(entry: Logged, results: frozenset[Result]) -> bool:
    return any(each.allows(entry) for each in results)


def _shown(entry: Logged) -> str:
    return f"{entry.value!r} at {entry.timestamp}"


def _shown_results(wanted: Sequence[frozenset[Result]]) -> str:
    """The first of them, in an order that does not depend on a hash."""
    if not wanted:
        return "nothing"
    words = [
        " or ".join(sorted(f"{each.value!r} at {each.timestamp}" for each in one))
        for one in wanted[:_SHOWN]
    ]
    return ", ".join(words) + (", ..." if len(wanted) > _SHOWN else "")
