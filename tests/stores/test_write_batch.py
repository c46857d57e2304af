"""IndexedWriteBatch against a plain dict."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.stores.write_batch import NOT_STAGED, IndexedWriteBatch

keys = st.binary(max_size=3) | st.sampled_from([b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff"])
values = st.binary(max_size=3)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, values),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("delete_range"), keys, keys),
        st.tuples(st.just("scan")),
    ),
    max_size=25,
)


class DictTarget:
    """Applies writes to a dict."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.rows = rows

    def put(self, key: bytes, value: bytes) -> None:
        self.rows[key] = value

    def delete(self, key: bytes) -> None:
        self.rows.pop(key, None)

    def delete_range(self, begin: bytes, end: bytes) -> None:
        for key in [key for key in self.rows if begin <= key < end]:
            del self.rows[key]


def _stage(batch: IndexedWriteBatch, model: DictTarget, program: list[tuple[object, ...]]) -> None:
    for name, *arguments in program:
        if name == "scan":
            list(batch.merge(iter(()), None, None))
            continue
        for target in (batch, model):
            method: Callable[..., object] = getattr(target, str(name))
            method(*arguments)


def _within(
    rows: dict[bytes, bytes], low: bytes | None, high: bytes | None, inclusive: bool
) -> list[tuple[bytes, bytes]]:
    return [
        (key, value)
        for key, value in sorted(rows.items())
        if (low is None or key >= low)
        and (high is None or key < high or (inclusive and key == high))
    ]


@settings(settings.get_profile("stores"), max_examples=300)
@given(
    base=st.dictionaries(keys, values, max_size=12),
    program=operations,
    low=st.none() | keys,
    high=st.none() | keys,
    inclusive=st.booleans(),
)
def test_the_overlay_equals_a_dict(
    base: dict[bytes, bytes],
    program: list[tuple[object, ...]],
    low: bytes | None,
    high: bytes | None,
    inclusive: bool,
) -> None:
    """Lookups, scans in both directions and applying agree with writing to a dict."""
    batch, model = IndexedWriteBatch(), DictTarget(dict(base))
    _stage(batch, model, program)

    for key in {*base, *model.rows, b"", b"a"}:
        staged = batch.lookup(key)
        assert (base.get(key) if staged is NOT_STAGED else staged) == model.rows.get(key)

    for reverse in (False, True):
        step = -1 if reverse else 1
        under = iter(_within(base, low, high, inclusive)[::step])
        merged = batch.merge(under, low, high, to_inclusive=inclusive, reverse=reverse)
        assert list(merged) == _within(model.rows, low, high, inclusive)[::step]

    applied = DictTarget(dict(base))
    batch.apply_to(applied)
    assert applied.rows == model.rows


def test_lookup_tells_value_deletion_and_absence_apart() -> None:
    """The lookup has three values, and a row staged after a range deletion wins over it."""
    batch = IndexedWriteBatch()
    batch.put(b"a", b"")
    batch.delete(b"b")
    batch.delete_range(b"m", b"p")
    batch.put(b"n", b"1")
    assert [batch.lookup(key) for key in (b"a", b"b", b"c", b"m", b"n", b"p")] == [
        b"",
        None,
        NOT_STAGED,
        None,
        b"1",
        NOT_STAGED,
    ]


def test_bytes_add_up_and_entries_count_once() -> None:
    """Overwriting adds bytes, as in Kafka, but the row stays one entry; clear empties all."""
    batch = IndexedWriteBatch()
    batch.put(b"key", b"value")
    batch.put(b"key", b"new")
    batch.delete(b"key")
    assert (len(batch), batch.num_bytes) == (1, 8 + 6 + 3)
    batch.delete_range(b"x", b"yz")
    assert (len(batch), batch.num_bytes) == (2, 17 + 3)
    batch.clear()
    assert (len(batch), batch.num_bytes, batch.lookup(b"x")) == (0, 0, NOT_STAGED)
    assert list(batch.merge(iter([(b"x", b"1")]), None, None)) == [(b"x", b"1")]


def test_empty_range_deletion_is_ignored() -> None:
    """An inverted or empty range deletes nothing and counts nothing."""
    batch = IndexedWriteBatch()
    batch.delete_range(b"b", b"b")
    batch.delete_range(b"b", b"a")
    assert (len(batch), batch.num_bytes, batch.lookup(b"b")) == (0, 0, NOT_STAGED)


def test_a_scan_keeps_what_was_staged_when_it_began() -> None:
    """Staging during a scan changes later scans only."""
    batch = IndexedWriteBatch()
    batch.put(b"a", b"1")
    scan = batch.merge(iter(()), None, None)
    batch.put(b"a", b"2")
    batch.put(b"b", b"2")
    assert list(scan) == [(b"a", b"1")]
    assert list(batch.merge(iter(()), None, None)) == [(b"a", b"2"), (b"b", b"2")]
