"""The states that are tried are legal, differ, are spread out, and are the same every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_power_disk import (
    FILE,
    OTHER_FILE,
    ROOT,
    STEPS,
    create,
    played,
    rename,
    steps_of,
    sync,
    write,
)

from streamproof.stores.syscalls.disk import JOURNALLED, PORTABLE, disk_of
from streamproof.stores.syscalls.disk_states import (
    _CHOICES,
    DAMAGES,
    SECTOR_BYTES,
    Damage,
    DiskState,
    choose,
    digest_of,
    points_of,
    smaller,
    states_at,
)
from streamproof.stores.syscalls.syscall_trace import Call, CallKind, SyscallTrace, Tree

MODEL = settings.get_profile("conformance")
EVERY: tuple[Damage, ...] = (*DAMAGES, "scattered")

LONG = b"1" * (2 * SECTOR_BYTES + 100)
CALLS = [
    create(FILE, "a.tmp"),
    write(FILE, LONG, 100),
    create(OTHER_FILE, "b"),
    write(OTHER_FILE, b"2"),
    rename("a.tmp", "a", FILE),
]


def trees(damage: Damage, calls: list[Call], after: int) -> list[Tree]:
    """What the states with one kind of damage hold."""
    disk = disk_of(SyscallTrace(ROOT, calls=calls), JOURNALLED)
    return [state.tree(disk) for state in states_at(disk, after, damage)]


def test_every_kind_of_damage_can_be_made() -> None:
    assert set(_CHOICES) == set(EVERY)


def test_lost_is_everything_or_the_latest_part() -> None:
    content = bytes(100) + LONG
    assert trees("lost", CALLS, 5) == [
        {},
        {"a.tmp": b""},
        {"a.tmp": content},
        {"a.tmp": content, "b": b""},
        {"a.tmp": content, "b": b"2"},
        {"a": content, "b": b"2"},
    ]


def test_hollow_is_names_without_content() -> None:
    found = trees("hollow", CALLS, 5)
    assert found[0] == {"a": b"", "b": b""}
    assert {"a": bytes(100) + LONG, "b": b""} in found
    assert {"a": b"", "b": b"2"} in found


def test_nameless_is_content_without_names() -> None:
    found = trees("nameless", CALLS, 5)
    assert found == [{}, {"a.tmp": bytes(100) + LONG}, {"a.tmp": bytes(100) + LONG, "b": b"2"}]


def test_reordered_is_a_later_write_without_an_earlier_one() -> None:
    assert {"a": b"", "b": b"2"} in trees("reordered", CALLS, 5)
    assert trees("reordered", CALLS[:3], 3) == []


def test_torn_is_at_the_ends_of_sectors() -> None:
    """A write that begins in the middle of a sector is torn where that ends."""
    found = [tree["a"] for tree in trees("torn", CALLS, 5)]
    end = 2 * SECTOR_BYTES
    assert bytes(100) + LONG[: SECTOR_BYTES - 100] in found
    assert bytes(SECTOR_BYTES) + LONG[SECTOR_BYTES - 100 :] in found
    assert bytes(100) + LONG[: end - 100] in found
    assert bytes(end) + LONG[end - 100 :] in found
    assert len(found) == 4


def test_a_write_within_a_sector_is_never_torn() -> None:
    calls = [create(FILE, "a"), write(FILE, b"1" * 100, SECTOR_BYTES - 100)]
    assert trees("torn", calls, 2) == []


def test_scattered_is_one_directory_without_the_other() -> None:
    calls = [Call("d", 7, ROOT, name="d"), create(FILE, "a", 7), create(OTHER_FILE, "b")]
    disk = disk_of(SyscallTrace(ROOT, calls=calls), PORTABLE)
    found = [state.tree(disk) for state in states_at(disk, 3, "scattered")]
    assert {"b": b"", "d": None} in found
    assert {"d": None, "d/a": b""} in found


@pytest.mark.parametrize("damage", EVERY)
@MODEL
@given(steps=STEPS, data=st.data())
def test_every_state_is_legal(
    damage: Damage, steps: list[tuple[object, ...]], data: st.DataObject
) -> None:
    """Nothing that was synced is lost or torn, and nothing is kept without what it needs."""
    calls, _ = played(steps)
    disk = disk_of(SyscallTrace(ROOT, calls=calls), JOURNALLED)
    after = data.draw(st.integers(0, len(calls)))
    pending = {each.call for each in disk.pending(after)}
    for state in states_at(disk, after, damage):
        assert state.lost <= pending
        assert {call for call, _ in state.torn} <= pending
        assert disk.closed(after, state.lost) == state.lost
        for less in smaller(disk, state):
            assert less.lost < state.lost
            assert disk.closed(after, less.lost) == less.lost


# Sizes and places around the ends of sectors, so that many writes share a sector.
ENDS = st.sampled_from((0, 1, 300, 511, 512, 513, 1024, 1500))
BYTES = st.builds(lambda byte, size: bytes([byte]) * size, st.integers(1, 255), ENDS.filter(bool))
CREATED = [("create", "a"), ("create", "b"), ("sync directory",)]
WRITES = st.lists(st.tuples(st.just("write"), st.sampled_from("ab"), BYTES, ENDS), min_size=2)
SECTOR_STEPS = st.builds(
    lambda first, between, later: [*CREATED, *first, *between, *later],
    WRITES,
    steps_of(BYTES, ENDS),
    WRITES,
)


def page_cache(calls: Sequence[Call]) -> Iterator[dict[int, bytes]]:
    """The content of each file before and after each call, as every process reads it."""
    contents: dict[int, bytes] = {}
    yield {}
    for call in calls:
        before = contents.get(call.inode, b"")
        if call.kind == CallKind.WRITE:
            start = before[: call.offset].ljust(call.offset, b"\0")
            rest = before[call.offset + len(call.data) :]
            contents[call.inode] = start + call.data + rest
        elif call.kind == CallKind.RESIZE:
            contents[call.inode] = before[: call.length].ljust(call.length, b"\0")
        yield dict(contents)


def sectors(content: bytes) -> list[bytes]:
    """The whole sectors of a file; behind its end there are zeros."""
    starts = range(0, len(content), SECTOR_BYTES)
    return [content[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for at in starts]


@pytest.mark.parametrize("damage", EVERY)
@MODEL
@given(steps=SECTOR_STEPS, data=st.data())
def test_each_sector_has_the_content_of_one_moment(
    damage: Damage, steps: list[tuple[object, ...]], data: st.DataObject
) -> None:
    """Of a moment since the last sync: no write survives without an earlier one to its sector."""
    calls, _ = played(steps)
    trace = SyscallTrace(ROOT, calls=calls)
    after = data.draw(st.integers(0, len(calls)))
    moments = list(page_cache(calls[:after]))
    disk = disk_of(trace, JOURNALLED)
    for state in states_at(disk, after, damage):
        for content in state.tree(disk).values():
            assert isinstance(content, bytes)
            assert any(is_of(content, inode, calls[:after], moments) for inode in moments[-1]) or (
                not content
            )


def is_of(
    content: bytes, inode: int, calls: Sequence[Call], moments: Sequence[dict[int, bytes]]
) -> bool:
    """Whether each sector has what a file had at one moment since its last sync."""
    synced = max((n for n, each in enumerate(calls, 1) if each == sync(inode)), default=0)
    versions = [sectors(moment.get(inode, b"")) for moment in moments[synced:]]
    nothing = bytes(SECTOR_BYTES)
    return all(
        any(sector == (version[at] if at < len(version) else nothing) for version in versions)
        for at, sector in enumerate(sectors(content))
    )


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
@pytest.mark.parametrize("damage", EVERY)
def test_a_choice_is_bounded_and_repeats(damage: Damage, limit: int) -> None:
    """No two look alike, and the same are chosen every time."""
    trace = SyscallTrace(
        ROOT, calls=[*CALLS, sync(FILE), sync(ROOT)], started=[0, 4], returned=[4, 7]
    )
    disk = disk_of(trace, JOURNALLED)
    chosen = list(choose(disk, trace, damage, limit))
    looks = [(digest_of(tree), trace.operations(state.after)) for state, tree in chosen]
    assert 0 < len(chosen) <= limit
    assert len(set(looks)) == len(looks)
    assert all(state.tree(disk) == tree for state, tree in chosen)
    assert chosen == list(choose(disk, trace, damage, limit))


def test_points_around_turns_come_first() -> None:
    """A sync and the end of an operation are turns; between two writes little is decided."""
    writes = [write(FILE, b"1", at) for at in range(20)]
    trace = SyscallTrace(
        ROOT, calls=[create(FILE, "a"), *writes, sync(FILE)], started=[0], returned=[10]
    )
    assert points_of(trace, 1000) == list(range(23))
    assert points_of(trace, 6) == [0, 1, 10, 12, 21, 22]
    assert points_of(trace, 8) == [0, 1, 2, 10, 11, 20, 21, 22]


def test_nothing_lost_is_the_simplest_state() -> None:
    disk = disk_of(SyscallTrace(ROOT, calls=CALLS), JOURNALLED)
    assert list(smaller(disk, DiskState(5))) == []
