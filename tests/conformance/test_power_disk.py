"""What a disk may hold after the loss of power: what lasts, and what cannot be kept alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.stores.syscalls.disk import (
    JOURNALLED,
    NEVER,
    PORTABLE,
    SECTOR_BYTES,
    DiskModel,
    FileSystem,
    disk_of,
)
from streamproof.stores.syscalls.syscall_trace import Call, CallKind, SyscallTrace, Tree

MODEL = settings.get_profile("conformance")
ROOT, SUB, FILE, OTHER_FILE = 100, 101, 102, 103
BOTH = pytest.mark.parametrize("system", [JOURNALLED, PORTABLE], ids=["journalled", "portable"])


def create(inode: int, name: str, directory: int = ROOT) -> Call:
    return Call(CallKind.CREATE, inode, directory, name=name)


def write(inode: int, data: bytes, offset: int = 0, *, synchronous: bool = False) -> Call:
    return Call(
        CallKind.WRITE, inode, offset=offset, length=len(data), data=data, other=int(synchronous)
    )


def sync(inode: int) -> Call:
    return Call(CallKind.SYNC, inode)


def rename(name: str, second: str, inode: int, directory: int = ROOT, other: int = ROOT) -> Call:
    return Call(CallKind.RENAME, inode, directory, other, name=name, second=second)


def resize(inode: int, size: int) -> Call:
    return Call(CallKind.RESIZE, inode, length=size)


def disk(calls: Sequence[Call], system: FileSystem = JOURNALLED) -> DiskModel:
    return disk_of(SyscallTrace(ROOT, calls=list(calls)), system)


def lasting(calls: Sequence[Call], system: FileSystem = JOURNALLED) -> set[int]:
    """The numbers of the calls that cannot be lost in the end."""
    return {each.call for each in disk(calls, system).effects if each.lasts != NEVER}


def after_losing_all(calls: Sequence[Call], system: FileSystem = JOURNALLED) -> Tree:
    found = disk(calls, system)
    return found.tree(len(calls), {each.call for each in found.pending(len(calls))})


# What lasts.


def test_a_file_that_was_never_synced_vanishes() -> None:
    calls = [create(FILE, "a"), write(FILE, b"1")]
    assert disk(calls).tree(2) == {"a": b"1"}
    assert after_losing_all(calls) == {}


def test_a_synced_file_is_there_with_its_name_on_a_journal_only() -> None:
    calls = [create(FILE, "a"), write(FILE, b"1"), sync(FILE)]
    assert after_losing_all(calls) == {"a": b"1"}
    assert after_losing_all(calls, PORTABLE) == {}
    assert after_losing_all([*calls, sync(ROOT)], PORTABLE) == {"a": b"1"}


@BOTH
def test_a_synced_name_says_nothing_about_the_content(system: FileSystem) -> None:
    calls = [create(FILE, "a"), write(FILE, b"1"), sync(ROOT)]
    assert after_losing_all(calls, system) == {"a": b""}


@BOTH
def test_a_rename_lasts_with_its_directory(system: FileSystem) -> None:
    calls = [create(FILE, "a"), write(FILE, b"1"), sync(FILE), sync(ROOT), rename("a", "b", FILE)]
    assert after_losing_all(calls, system) == {"a": b"1"}
    assert after_losing_all([*calls, sync(ROOT)], system) == {"b": b"1"}


def test_to_sync_a_file_makes_last_what_came_before_its_name() -> None:
    """On a journal, and not what came after it."""
    calls = [create(FILE, "a"), create(OTHER_FILE, "b"), rename("a", "c", FILE), sync(OTHER_FILE)]
    assert lasting(calls) == {1, 2}
    assert lasting(calls, PORTABLE) == set()


def test_a_rename_between_directories_is_one_change() -> None:
    calls = [
        Call(CallKind.MKDIR, SUB, ROOT, name="d"),
        create(FILE, "a"),
        sync(ROOT),
        rename("a", "b", FILE, ROOT, SUB),
    ]
    for system in (JOURNALLED, PORTABLE):
        assert after_losing_all(calls, system) == {"a": b"", "d": None}
        for synced in (ROOT, SUB):
            assert after_losing_all([*calls, sync(synced)], system) == {"d": None, "d/b": b""}


def test_a_directory_needs_its_name() -> None:
    calls = [
        Call(CallKind.MKDIR, SUB, ROOT, name="d"),
        create(FILE, "a", SUB),
        sync(FILE),
        sync(SUB),
    ]
    assert after_losing_all(calls) == {"d": None, "d/a": b""}
    assert after_losing_all(calls, PORTABLE) == {}
    assert after_losing_all([*calls, sync(ROOT)], PORTABLE) == {"d": None, "d/a": b""}


def test_a_synchronous_write_lasts_alone() -> None:
    before = [create(FILE, "a"), sync(ROOT), write(FILE, b"1" * SECTOR_BYTES)]
    calls = [*before, write(FILE, b"2", SECTOR_BYTES, synchronous=True)]
    assert after_losing_all(calls) == {"a": bytes(SECTOR_BYTES) + b"2"}


def test_a_write_survives_with_what_was_written_to_its_sector_before() -> None:
    calls = [create(FILE, "a"), write(FILE, b"11"), write(FILE, b"2", 1), write(FILE, b"3", 2)]
    assert disk(calls).tree(4, {2, 3}) == {"a": b"123"}
    assert disk(calls).tree(4, {2, 4}) == {"a": b"12"}
    assert after_losing_all([*calls[:2], write(FILE, b"2", 1, synchronous=True)]) == {"a": b"12"}


def test_what_lasts_once_is_not_lost_later() -> None:
    """Effects last from the call on that synced them, and not before."""
    calls = [create(FILE, "a"), write(FILE, b"1"), sync(FILE), write(FILE, b"2"), sync(FILE)]
    found = disk(calls)
    assert [{each.call for each in found.pending(after)} for after in range(6)] == [
        set(),
        {1},
        {1, 2},
        set(),
        {4},
        set(),
    ]


def test_to_sync_everything() -> None:
    calls = [create(FILE, "a"), write(FILE, b"1"), create(OTHER_FILE, "b"), Call(CallKind.SYNC_ALL)]
    assert lasting(calls, PORTABLE) == {1, 2, 3}


def test_an_inode_that_is_used_again_is_another_file() -> None:
    calls = [create(FILE, "a"), write(FILE, b"1"), Call(CallKind.UNLINK, directory=ROOT, name="a")]
    again = [*calls, create(FILE, "b"), write(FILE, b"2"), sync(FILE)]
    assert disk(again).tree(6) == {"b": b"2"}
    assert disk(again).tree(6, {3}) == {"a": b"1", "b": b"2"}


def test_what_was_there_before_is_never_lost() -> None:
    before = [create(FILE, "a"), write(FILE, b"1")]
    calls = [write(FILE, b"2"), Call(CallKind.UNLINK, directory=ROOT, name="a")]
    found = disk_of(SyscallTrace(ROOT, before=before, calls=calls), JOURNALLED)
    assert found.tree(0) == {"a": b"1"}
    assert found.tree(2, {1, 2}) == {"a": b"1"}


def test_links_of_both_kinds_and_exchanged_names() -> None:
    calls = [
        create(FILE, "a"),
        write(FILE, b"1"),
        create(OTHER_FILE, "b"),
        Call(CallKind.EXCHANGE, FILE, ROOT, ROOT, name="a", second="b"),
        Call(CallKind.LINK, FILE, ROOT, name="c"),
        Call(CallKind.SYMLINK, 9, ROOT, name="d", second="where"),
    ]
    assert disk(calls).tree(6) == {"a": b"", "b": b"1", "c": b"1", "d": "where"}


# Content.


def test_zeros_stand_where_the_size_outlives_the_data() -> None:
    size = SECTOR_BYTES
    first, second = write(FILE, b"1" * size), write(FILE, b"2" * 2 * size, size)
    found = disk([create(FILE, "a"), first, second, resize(FILE, 3 * size + 6)])
    assert found.tree(4, {2}) == {"a": bytes(size) + b"2" * 2 * size + bytes(6)}
    assert found.tree(4, {2, 3}) == {"a": bytes(3 * size + 6)}
    torn = found.tree(4, torn={3: (size, 2 * size)})
    assert torn == {"a": b"1" * size + bytes(size) + b"2" * size + bytes(6)}


def test_a_part_is_zeroed_and_the_size_kept() -> None:
    zero = Call(CallKind.ZERO, FILE, offset=1, length=9)
    assert disk([create(FILE, "a"), write(FILE, b"123"), zero]).tree(3) == {"a": b"1\0\0"}


# What cannot be lost alone.


def test_what_was_written_after_a_cut_needs_the_cut() -> None:
    calls = [create(FILE, "a"), write(FILE, b"1234"), resize(FILE, 0), write(FILE, b"5")]
    for system in (JOURNALLED, PORTABLE):
        assert disk(calls, system).closed(4, {3}) == {3, 4}
        assert disk(calls, system).closed(4, {2}) == {2}


def test_a_journal_keeps_the_order_of_all_directories() -> None:
    calls = [
        Call(CallKind.MKDIR, SUB, ROOT, name="d"),
        create(FILE, "a"),
        create(OTHER_FILE, "b", SUB),
        write(FILE, b"1"),
    ]
    assert disk(calls).closed(4, {2}) == {2, 3}
    assert disk(calls, PORTABLE).closed(4, {2}) == {2}
    assert disk(calls, PORTABLE).closed(4, {1}) == {1, 2}


# Any sequence of calls.

NAMES = st.sampled_from("abc")
FILES = st.sampled_from((FILE, OTHER_FILE))


def steps_of(
    data: st.SearchStrategy[bytes], places: st.SearchStrategy[int]
) -> st.SearchStrategy[list[tuple[object, ...]]]:
    """Steps that write such data at such places, and cut or fill files to such sizes."""
    steps = [
        st.tuples(st.just("create"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("unlink"), NAMES),
        st.tuples(st.just("write"), NAMES, data, places),
        st.tuples(st.just("resize"), NAMES, places),
        st.tuples(st.just("sync"), NAMES),
        st.just(("sync directory",)),
    ]
    return st.lists(st.one_of(steps), max_size=25)


STEPS = steps_of(st.binary(min_size=1, max_size=4), st.integers(0, 6))


def played(steps: Sequence[Sequence[object]]) -> tuple[list[Call], list[Tree]]:
    """The calls that succeed, and what a plain dictionary holds after each of them."""
    inodes: dict[str, int] = {}
    contents: dict[int, bytearray] = {}
    calls: list[Call] = []
    trees: list[Tree] = [{}]
    for step in steps:
        match step:
            case ("create", str(name)) if name not in inodes:
                inodes[name] = 200 + len(calls)
                contents[inodes[name]] = bytearray()
                calls.append(create(inodes[name], name))
            case ("rename", str(first), str(second)) if first in inodes and first != second:
                inodes[second] = inodes.pop(first)
                calls.append(rename(first, second, inodes[second]))
            case ("unlink", str(name)) if name in inodes:
                del inodes[name]
                calls.append(Call(CallKind.UNLINK, directory=ROOT, name=name))
            case ("write", str(name), bytes(data), int(at)) if name in inodes:
                content = contents[inodes[name]]
                content.extend(bytes(max(0, at - len(content))))
                content[at : at + len(data)] = data
                calls.append(write(inodes[name], data, at))
            case ("resize", str(name), int(size)) if name in inodes:
                content = contents[inodes[name]]
                content[:] = content[:size].ljust(size, b"\0")
                calls.append(resize(inodes[name], size))
            case ("sync", str(name)) if name in inodes:
                calls.append(sync(inodes[name]))
            case ("sync directory",):
                calls.append(sync(ROOT))
            case _:
                continue
        trees.append({name: bytes(contents[inode]) for name, inode in sorted(inodes.items())})
    return calls, trees


@BOTH
@MODEL
@given(STEPS)
def test_nothing_lost_is_what_a_dictionary_holds(
    system: FileSystem, steps: list[Sequence[object]]
) -> None:
    calls, trees = played(steps)
    found = disk(calls, system)
    for after, tree in enumerate(trees):
        assert found.tree(after) == tree


@MODEL
@given(STEPS, st.data())
def test_trees_are_those_of_single_moments(
    steps: list[tuple[object, ...]], data: st.DataObject
) -> None:
    """In one pass, whichever moments are asked for."""
    calls, _ = played(steps)
    found = disk(calls)
    moments = sorted(data.draw(st.lists(st.integers(0, len(calls)))))
    assert [*found.trees(moments)] == [found.tree(each) for each in moments]


@BOTH
@MODEL
@given(STEPS)
def test_after_a_sync_of_all_nothing_is_pending(
    system: FileSystem, steps: list[Sequence[object]]
) -> None:
    """Once every file and the directory were synced, every loss leaves the same."""
    calls, trees = played(steps)
    inodes = {call.inode for call in calls if call.kind == CallKind.CREATE}
    calls += [*map(sync, sorted(inodes)), sync(ROOT)]
    assert disk(calls, system).pending(len(calls)) == []
    assert after_losing_all(calls, system) == trees[-1]


@MODEL
@given(STEPS, st.data())
def test_a_journal_loses_the_latest_names_only(
    steps: list[Sequence[object]], data: st.DataObject
) -> None:
    """Whatever is lost, the names are those of some moment at or after the last sync."""
    calls, trees = played(steps)
    found = disk(calls)
    after = data.draw(st.integers(0, len(calls)))
    pending = [each.call for each in found.pending(after)]
    some = data.draw(st.sets(st.sampled_from(pending))) if pending else set()
    lost = found.closed(after, some)
    assert some <= lost <= set(pending)
    assert found.closed(after, lost) == lost
    assert set(found.tree(after, lost)) in [set(tree) for tree in trees[: after + 1]]
