"""The parts of a changelog that an answer to a query agrees with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.invariants.log_history import LogRecord
from streamproof.sim.invariants.queries import FAR, _common, _end_of, _spans

LAST = 12

VALUES = st.sampled_from((None, b"1", b"2"))

RECORDS = st.dictionaries(st.integers(0, LAST), VALUES, max_size=8).map(
    lambda values: [
        LogRecord(offset, b"k", values[offset], 0, -1, transactional=False)
        for offset in sorted(values)
    ]
)


@given(RECORDS, VALUES)
def test_without_a_compaction_a_key_has_the_value_of_its_last_record(
    records: list[LogRecord], value: bytes | None
) -> None:
    spans = _spans(records, value, 0)
    for offset in range(-1, LAST + 1):
        at = [record.value for record in records if record.offset <= offset]
        is_there = any(first <= offset <= last for first, last in spans)
        assert is_there == ((at[-1] if at else None) == value)


@given(RECORDS, VALUES, st.integers(0, LAST + 1))
def test_parts_that_a_compaction_lengthens_are_joined(
    records: list[LogRecord], value: bytes | None, clean: int
) -> None:
    """Two answers would otherwise have more parts in common than both have offsets."""
    spans = _spans(records, value, clean)
    ends = [(-2, -2), *spans]
    assert all(before[1] < after[0] for before, after in zip(ends, spans, strict=False))
    before = [None, *(record.value for record in records)]
    starts = [-1, *(record.offset for record in records)]
    raw = [
        (starts[at], _end_of(records, at, clean) if at < len(records) else FAR)
        for at in range(len(starts))
        if before[at] == value
    ]
    for offset in range(-1, LAST + 2):
        assert any(first <= offset <= last for first, last in spans) == any(
            first <= offset <= last for first, last in raw
        )
    assert len(_common(spans, spans)) == len(spans)
