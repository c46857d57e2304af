"""Upgrades: the store takes over the content of an older format or rebuilds it (KIP-258, KIP-1035).

The subject names the store that writes its older format (``upgrades_from``). An upgrade may take
the old records over. It may also start empty and without an offset, so that the runtime replays
the changelog. Both are legal; a mixture of both is not.
"""

from __future__ import annotations

from typing import Any

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.crash_checks import (
    AT_ENDS,
    FIRST_CRASHES,
    campaign,
    deep_campaign,
)
from streamproof.conformance.checks.restoration_checks import Writes, content
from streamproof.conformance.crash.program import Operation, Program, ProgramBuilder
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, ChangelogRecord
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import SubjectRaised
from streamproof.stores.api import NO_TIMESTAMP, UPGRADE_FROM_CONFIG, IsolationLevel
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.timestamps import ValueAndTimestamp

TIMESTAMP = 1_234

OLD: Writes = [
    (b"a", b"1"),
    (b"b", b"2"),
    (b"gone", b"3"),
    (b"gone", None),
    (b"d", b""),
    (b"ab", b"\xff" * 8 + b"looks like a timestamp"),
]
"""The content of the older store."""

MORE: Writes = [(b"a", b"new"), (b"b", None), (b"c", b"new")]
"""The writes during the preparation of an upgrade, or after a downgrade."""

WITHOUT_OFFSETS = (
    *("2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *(f"3.{minor}" for minor in range(10)),
    *("4.0", "4.1", "4.2"),
)
"""The releases whose stores may have timestamps, but do not manage their offsets."""

WITH_OFFSETS = "4.3"
"""The first release whose stores manage their offsets."""

INPUT = ("input", 0)
"""The partition of the input records."""


def records(writes: Writes) -> list[ChangelogRecord]:
    """The changelog of some writes."""
    return [
        ChangelogRecord(key, value, offset, TIMESTAMP) for offset, (key, value) in enumerate(writes)
    ]


def write_old(t: Trial, writes: Writes = OLD) -> None:
    """Write with the older store, commit, and close it."""
    older = t.open_older()
    for key, value in writes:
        older.put(key, value)
    older.commit({CHANGELOG: len(writes) - 1})
    older.close()


def write_processing(t: Trial, store: Handle, writes: Writes, first: int) -> None:
    """Write while input records are being processed, from the offset ``first`` on, and commit."""
    for offset, (key, value) in enumerate(writes, start=first):
        t.processing(offset)
        store.put(key, value)
    t.idle()
    store.commit({CHANGELOG: first + len(writes) - 1})


def expect_content(t: Trial, store: Handle, writes: Writes) -> None:
    """Demand that point reads and scans, if supported, agree with the writes.

    Scans run before and after the point reads, because a point read may upgrade its entry. The
    order of the entries may differ while a store is being upgraded.
    """
    expected = content(writes)
    scans = t.lab.subject.capabilities.scan
    if scans:
        t.expect_in_any_order(store.scan("all"), sorted(expected.items()))
    for key in sorted({key for key, _ in writes}):
        t.expect(store.get(key), expected.get(key))
    if scans:
        t.expect_in_any_order(store.scan("all"), sorted(expected.items()))


def expect_committed(t: Trial, store: Handle, writes: Writes) -> None:
    """Demand that the store and its views for queries, if any, agree with committed writes."""
    if t.lab.subject.capabilities.read_only_views:
        for level in IsolationLevel:
            expect_content(t, store.view(level), writes)
    expect_content(t, store, writes)


def expect_record_timestamps(t: Trial, store: Handle, writes: Writes) -> None:
    """Demand that each value has the timestamp of its changelog record, if the store has any."""
    if not t.lab.subject.capabilities.timestamped:
        return
    for key, value in sorted(content(writes).items()):
        found = store.get_with_timestamp(key)
        t.expect(None if found is None else tuple(found), (value, TIMESTAMP))


@check("UPGRADE-001", "UPGRADE-002", "UPGRADE-003", "UPGRADE-004")
def opens_the_older_format(t: Trial) -> None:
    """Open the directory that the older store wrote and closed."""
    t.claim("UPGRADE-001", "open the directory that the older store wrote, committed and closed")
    write_old(t)
    left = any(each.startswith(".checkpoint") for each in offset_files(t))
    store = t.open()
    t.expect(store.read("is_open"), True)
    t.claim("UPGRADE-002", "read the committed offset after the upgrade")
    offset = store.committed_offset(CHANGELOG)
    last = len(OLD) - 1
    if left and t.lab.subject.capabilities.imports_offsets:
        t.expect(offset, last)
    t.expect_that(offset in (None, last), f"{last}, or None to rebuild", offset)
    t.claim("UPGRADE-003", "upgrade, then read the entries that the committed offset covers")
    if offset is not None:
        expect_committed(t, store, OLD)
    for key, value in sorted(content(OLD).items()):
        found = store.get(key)
        t.expect_that(found in (None, value), f"{value!r}, or None to rebuild", found)
    t.claim("UPGRADE-004", "replay the changelog from the committed offset, and read")
    t.catch_up(store, records(OLD))
    expect_committed(t, store, OLD)


@check("UPGRADE-005", "UPGRADE-006")
def opens_again(t: Trial) -> None:
    """Upgrade, close and open again, then overwrite old entries."""
    write_old(t)
    store = t.open()
    t.catch_up(store, records(OLD))
    t.claim("UPGRADE-005", "upgrade, replay, close, and open again")
    store = t.reopen(store)
    t.expect(store.committed_offset(CHANGELOG), len(OLD) - 1)
    expect_committed(t, store, OLD)
    t.claim("UPGRADE-006", "overwrite old entries, commit, close, and open again")
    more: Writes = [(b"a", b"new"), (b"b", None), (b"c", b"new"), (b"gone", b"back")]
    for key, value in more:
        store.put(key, value)
    expect_content(t, store, OLD + more)
    store.commit({CHANGELOG: len(OLD + more) - 1})
    store = t.reopen(store)
    expect_committed(t, store, OLD + more)
    t.expect(store.committed_offset(CHANGELOG), len(OLD + more) - 1)


@check("UPGRADE-006")
def overwritten_unread(t: Trial) -> None:
    """Overwrite and delete old entries that nobody has read since the upgrade, by every method."""
    for method, arguments, left in overwriting(t.lab.subject.capabilities):
        t.claim("UPGRADE-006", f"call {method} on an old entry that nobody has read")
        write_old(t)
        store = t.open()
        t.catch_up(store, records(OLD))
        getattr(store, method)(*arguments)
        after: Writes = [*OLD, (b"b", left)]
        expect_content(t, store, after)
        store.commit({CHANGELOG: len(after) - 1})
        store = t.reopen(store)
        expect_committed(t, store, after)
        store.close()
        t.wipe()


def overwriting(can: Capabilities) -> list[tuple[str, tuple[Any, ...], bytes | None]]:
    """Calls that write the old entry ``b``, each with the value that the call leaves."""
    calls: list[tuple[str, tuple[Any, ...], bytes | None]] = [
        ("put", (b"b", b"new"), b"new"),
        ("put", (b"b", None), None),
        ("put_all", ([(b"b", b"new")],), b"new"),
        ("put_all", ([(b"b", None)],), None),
        ("put_if_absent", (b"b", b"new"), b"2"),
        ("delete", (b"b",), None),
    ]
    if can.timestamped:
        calls += [
            ("put_with_timestamp", (b"b", b"new", 9), b"new"),
            ("put_with_timestamp", (b"b", None, 9), None),
            ("put_all_with_timestamp", ([(b"b", ValueAndTimestamp(b"new", 9))],), b"new"),
            ("put_all_with_timestamp", ([(b"b", None)],), None),
            ("put_if_absent_with_timestamp", (b"b", b"new", 9), b"2"),
            ("delete_with_timestamp", (b"b",), None),
        ]
    return calls


@check("UPGRADE-007")
def reopened_half_way(t: Trial) -> None:
    """Read or write one old entry after another, each time with a new store."""
    t.claim("UPGRADE-007", "read some of the old entries, close, and open again")
    write_old(t)
    store = t.open()
    t.catch_up(store, records(OLD))
    for key in (b"b", b"gone", b"a"):
        t.expect(store.get(key), content(OLD).get(key))
        store.commit({CHANGELOG: len(OLD) - 1})
        store = t.reopen(store)
        expect_committed(t, store, OLD)


@check("UPGRADE-008")
def timestamps_of_old_values(t: Trial) -> None:
    """Read the timestamps of values that were written without one."""
    t.claim("UPGRADE-008", "read the timestamps of values that were written without one")
    write_old(t)
    store = t.open()
    kept = store.committed_offset(CHANGELOG) is not None
    t.catch_up(store, records(OLD))
    for key, value in sorted(content(OLD).items()):
        found = store.get_with_timestamp(key)
        pair = None if found is None else (found[0], found[1])
        t.expect(pair, (value, NO_TIMESTAMP if kept else TIMESTAMP))


@check("UPGRADE-009", "UPGRADE-010")
def the_way_back(t: Trial) -> None:
    """Open the newer store's directory with the older store."""
    write_old(t)
    store = t.open()
    t.catch_up(store, records(OLD))
    more: Writes = [(b"a", b"new"), (b"c", b"new")]
    for key, value in more:
        store.put(key, value)
    store.commit({CHANGELOG: len(OLD + more) - 1})
    store.close()
    t.claim("UPGRADE-009", "open the newer store's directory with the older store")
    try:
        older = t.open_older()
    except SubjectRaised:
        t.go_on_after_error()
        t.held()
    else:
        with t.unless_refused():
            expect_content(t, older, OLD + more)
        older.close()
    t.claim("UPGRADE-010", "open the directory with the newer store after the older store tried")
    store = t.open()
    t.catch_up(store, records(OLD + more))
    expect_committed(t, store, OLD + more)


@check("UPGRADE-021", "UPGRADE-022")
def the_way_back_with_upgrade_from(t: Trial) -> None:
    """Close the newer store with upgrade.from, go on with the older one, and upgrade again."""
    first, second = len(OLD), len(OLD) + len(MORE)
    store = t.open_before_downgrade()
    write_processing(t, store, OLD, 0)
    store.close()
    keeps_position = t.lab.subject.capabilities.position
    t.claim("UPGRADE-021", "close with upgrade.from, and open the older store")
    older = t.open_older()
    t.expect(older.committed_offset(CHANGELOG), first - 1)
    expect_content(t, older, OLD)
    if keeps_position:
        t.claim("UPGRADE-022", "close with upgrade.from, and read the position of the older store")
        t.expect(older.position(), {INPUT: first - 1})
    write_processing(t, older, MORE, first)
    older.close()
    t.claim("UPGRADE-021", "go on with the older store, close it, and open the newer store")
    store = t.open_before_downgrade()
    t.expect(store.committed_offset(CHANGELOG), second - 1)
    expect_committed(t, store, OLD + MORE)
    if keeps_position:
        t.claim("UPGRADE-022", "go on with the older store, and upgrade again")
        t.expect(store.position(), {INPUT: second - 1})
    store.close()
    t.claim("UPGRADE-021", "close with upgrade.from for the second time, and open the older store")
    older = t.open_older()
    t.expect(older.committed_offset(CHANGELOG), second - 1)
    expect_content(t, older, OLD + MORE)


@check("UPGRADE-021", "UPGRADE-022")
def the_way_back_to_each_release(t: Trial) -> None:
    """Close the newer store with each older release in upgrade.from, and open the older store."""
    for offset, release in enumerate(WITHOUT_OFFSETS):
        tried = f"close with upgrade.from {release}, and open the older store"
        t.claim("UPGRADE-021", tried)
        store = t.open_with({UPGRADE_FROM_CONFIG: release})
        write_processing(t, store, [(b"a", release.encode())], offset)
        store.close()
        older = t.open_older()
        t.expect(older.committed_offset(CHANGELOG), offset)
        t.expect(older.get(b"a"), release.encode())
        if t.lab.subject.capabilities.position:
            t.claim("UPGRADE-022", tried)
            t.expect(older.position(), {INPUT: offset})
        older.close()


@check("UPGRADE-036")
def no_way_back_is_needed(t: Trial) -> None:
    """Close the store with the first release that manages offsets in upgrade.from."""
    t.claim("UPGRADE-036", "close without upgrade.from, and look for files with offsets")
    store = t.open()
    write_processing(t, store, OLD, 0)
    store.close()
    usual = offset_files(t)
    tried = f"close with upgrade.from {WITH_OFFSETS}, and look for files with offsets"
    t.claim("UPGRADE-036", tried)
    store = t.open_with({UPGRADE_FROM_CONFIG: WITH_OFFSETS})
    write_processing(t, store, MORE, len(OLD))
    store.close()
    t.expect(t.asked(OFFSET_FILES, offset_files(t)), usual)
    t.claim("UPGRADE-036", f"close with upgrade.from {WITH_OFFSETS}, and open the store again")
    store = t.open()
    last = len(OLD) + len(MORE) - 1
    t.expect(store.committed_offset(CHANGELOG), last)
    expect_committed(t, store, OLD + MORE)
    if t.lab.subject.capabilities.position:
        t.expect(store.position(), {INPUT: last})


OFFSET_FILES = (
    'sorted(each.name for each in lab.directory.rglob("*") '
    'if each.name.startswith(".checkpoint") or each.name.endswith(".position"))'
)
"""An expression of a program with the answer of :func:`offset_files`."""


def offset_files(t: Trial) -> list[str]:
    """The files of the task in which versions before KIP-1035 keep offsets and positions."""
    names = (path.name for path in t.lab.directory.rglob("*") if path.is_file())
    return sorted(
        name for name in names if name.startswith(".checkpoint") or name.endswith(".position")
    )


@check("UPGRADE-037")
def the_way_back_beside_other_stores(t: Trial) -> None:
    """Go back and forth in a task that has other stores, whose offsets are in the same file."""
    partitions = [CHANGELOG]
    if t.lab.subject.capabilities.several_partitions:
        partitions.append(OTHER_CHANGELOG)

    def write(store: Handle, offset: int) -> None:
        store.put(b"a", b"%d" % offset)
        store.commit(dict.fromkeys(partitions, offset))

    def expect_kept(store: Handle, what: str, offset: int) -> None:
        t.claim("UPGRADE-037", what)
        t.expect([store.committed_offset(each) for each in partitions], [offset] * len(partitions))
        t.expect(store.get(b"a"), b"%d" % offset)
        _expect_other_offsets(t)

    t.claim("UPGRADE-037", "close with upgrade.from beside the .checkpoint of other stores")
    store = t.open_before_downgrade()
    write(store, 5)
    content = "\n".join(["0", f"{len(_OF_OTHER_STORES)}", *_OF_OTHER_STORES, ""])
    t.note(f'(lab.directory / ".checkpoint").write_text({content!r})')
    (t.lab.directory / ".checkpoint").write_text(content)
    store.close()
    _expect_other_offsets(t)
    older = t.open_older()
    expect_kept(older, "open the older store beside the offsets of other stores", 5)
    write(older, 8)
    older.close()
    store = t.open_before_downgrade()
    expect_kept(store, "close the older store, and open the newer one beside other stores", 8)
    write(store, 9)
    store.close()
    older = t.open_older()
    expect_kept(older, "close with upgrade.from for the second time beside other stores", 9)


_OF_OTHER_STORES = (
    "streamproof-first-changelog 0 7",
    "streamproof-first-changelog 1 11",
    "streamproof-second-changelog 0 3",
)
"""The lines of other stores of the task in its ``.checkpoint``."""


def _expect_other_offsets(t: Trial) -> None:
    """Demand that the file of the task still has the offsets of all other stores."""
    path = t.lab.directory / ".checkpoint"
    found = path.read_text().splitlines() if path.exists() else []
    kept = [each for each in _OF_OTHER_STORES if each in found]
    t.note('file = lab.directory / ".checkpoint"')
    t.note("lines = file.read_text().splitlines() if file.exists() else []")
    line = f"[each for each in {list(_OF_OTHER_STORES)} if each in lines]"
    t.expect(t.asked(line, kept), list(_OF_OTHER_STORES))


@check("UPGRADE-023")
def takes_over_the_position(t: Trial) -> None:
    """Write with the older store while input records are being processed, and upgrade."""
    t.claim("UPGRADE-023", "process input records with the older store, and upgrade")
    older = t.open_older()
    write_processing(t, older, OLD, 0)
    older.close()
    store = t.open()
    # A store that begins anew restores its rows. Until then its content reflects no input record.
    begins_anew = store.committed_offset(CHANGELOG) is None
    expected = {} if begins_anew else {INPUT: len(OLD) - 1}
    t.expect(store.position(), expected)
    store = t.reopen(store)
    t.expect(store.position(), expected)


@check("UPGRADE-011")
def restored_over_old_entries(t: Trial) -> None:
    """Replay the whole changelog over the old entries."""
    t.claim("UPGRADE-011", "replay a whole changelog over the old entries")
    write_old(t)
    store = t.open()
    more: Writes = [*OLD, (b"a", b"newer"), (b"b", None)]
    t.restore(store, records(more))
    store.commit({CHANGELOG: len(more) - 1})
    expect_committed(t, store, more)
    store = t.reopen(store)
    expect_committed(t, store, more)


def upgrading() -> ProgramBuilder:
    """A program that writes with the older store, commits, closes and then upgrades."""
    builder = ProgramBuilder(operations=[Operation("open_older")])
    builder.put(b"a", b"1").put(b"b", b"2").put(b"c", b"3").put(b"c", None).commit()
    builder.put(b"d", b"4").commit()
    return builder.then("close", "upgrade").catch_up()


@check("UPGRADE-012", raw=True, weight=70, sums_up=True)
def killed_while_upgrading(run: CheckRun) -> None:
    """Kill the process while it opens the older format for the first time."""
    crashes = campaign(run)
    program = upgrading().build()
    opening = [each.name for each in program.operations].index("upgrade")
    crashes.boundaries(program, share=AT_ENDS)
    crashes.lines(program, opening, share=0.5)
    crashes.syscalls(program, opening, span=2)


@check("UPGRADE-020", raw=True, weight=70, sums_up=True)
def killed_while_upgrading_again(run: CheckRun) -> None:
    """Kill the process while it opens the older format, and kill it again at the second try."""
    crashes = deep_campaign(run)
    builder = upgrading()
    program = builder.build()
    opening = [each.name for each in program.operations].index("upgrade")
    again = ProgramBuilder(operations=[Operation("upgrade")], ends=builder.ends)
    then = again.catch_up().put(b"a", b"5").put(b"b", None).commit().then("flush").build()
    limit = crashes.left
    firsts = crashes.points(program, opening, min(FIRST_CRASHES, 1 + limit // 12))
    for first in firsts:
        with crashes.after(program, first, limit // len(firsts)) as second:
            second.lines(then, 0, share=0.3)
            second.syscalls(then, 0, span=len(then), share=0.7)
            second.boundaries(then)


@check("UPGRADE-013", raw=True, weight=70, sums_up=True)
def killed_after_the_upgrade(run: CheckRun) -> None:
    """Kill the process in the first reads, writes, commits, flushes and closes after an upgrade."""
    crashes = campaign(run)
    builder = upgrading().read(b"b").then("flush").put(b"a", b"5").put(b"b", None)
    builder.read(b"d").then("flush").put(b"c", b"6")
    program = builder.commit().then("flush").put(b"d", b"7").commit().then("close", "open").build()
    caught_up = [each.name for each in program.operations].index("catch_up")
    crashes.boundaries(program, share=AT_ENDS)
    crashes.syscalls(program, caught_up, span=len(program) - caught_up, share=0.5)
    crashes.lines(program, caught_up + 1, share=0.4)
    crashes.lines(program, caught_up + 3)


@check("UPGRADE-014", raw=True, weight=50, sums_up=True, leaves_out=())
def older_store_killed(run: CheckRun) -> None:
    """Kill the process while the older store is open, and upgrade the files that it left."""
    crashes = campaign(run)
    builder = ProgramBuilder(operations=[Operation("open_older")])
    builder.put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"uncommitted").put(b"b", None).then("flush")
    program = builder.commit().then("close").build()
    crashes.boundaries(program, share=AT_ENDS)
    crashes.syscalls(program, 1, span=len(program) - 1)


@check("UPGRADE-015", "UPGRADE-016", "UPGRADE-017")
def prepared_in_place(t: Trial) -> None:
    """Prepare an upgrade while the older format is in use, restart, and then upgrade."""
    write_old(t)
    changelog, last = records(OLD + MORE), len(OLD + MORE) - 1
    t.claim("UPGRADE-015", "read and write while the upgrade is being prepared")
    store = t.open_preparing()
    t.expect(store.committed_offset(CHANGELOG), len(OLD) - 1)
    expect_committed(t, store, OLD)
    for key, value in MORE:
        store.put(key, value)
    store.commit({CHANGELOG: last})
    expect_committed(t, store, OLD + MORE)
    t.claim("UPGRADE-016", "fill the new format in two parts, with a restart in between")
    store.rebuild(CHANGELOG, changelog[:4])
    t.expect(store.read("prepared"), False)
    store.close()
    store = t.open_preparing()
    t.expect(store.rebuilt_offset(CHANGELOG), 3)
    store.rebuild(CHANGELOG, changelog[4:])
    t.expect((store.rebuilt_offset(CHANGELOG), store.read("prepared")), (last, True))
    t.claim("UPGRADE-015", "read after the new format was filled, and after a restart")
    expect_committed(t, store, OLD + MORE)
    store.close()
    store = t.open_preparing()
    expect_committed(t, store, OLD + MORE)
    t.expect(store.committed_offset(CHANGELOG), last)
    store.close()
    t.claim("UPGRADE-017", "prepare the upgrade, then open the store without the configuration")
    store = t.open()
    t.expect(store.committed_offset(CHANGELOG), last)
    expect_committed(t, store, OLD + MORE)
    # The rows of the older format have no timestamps. So this shows where the rows come from.
    expect_record_timestamps(t, store, OLD + MORE)


@check("UPGRADE-018")
def preparation_taken_back(t: Trial) -> None:
    """Prepare an upgrade, and go back to the older store."""
    t.claim(
        "UPGRADE-018",
        "prepare the upgrade, write, and open the directory with the older store",
    )
    write_old(t)
    store = t.open_preparing()
    store.rebuild(CHANGELOG, records(OLD))
    for key, value in MORE:
        store.put(key, value)
    store.commit({CHANGELOG: len(OLD + MORE) - 1})
    store.close()
    older = t.open_older()
    t.expect(older.committed_offset(CHANGELOG), len(OLD + MORE) - 1)
    expect_content(t, older, OLD + MORE)


def preparing() -> Program:
    """A program that prepares an upgrade in place, with a restart, and then upgrades."""
    builder = ProgramBuilder(operations=[Operation("open_older")])
    builder.put(b"a", b"1").put(b"b", b"2").put(b"c", b"3").put(b"c", None).commit()
    builder.then("close", "open_preparing").rebuild(0, 3)
    builder.put(b"a", b"4").put(b"b", None).commit().rebuild(3, 6).then("flush")
    return builder.then("close", "open_preparing", "close", "upgrade").catch_up().build()


@check("UPGRADE-019", raw=True, weight=70, sums_up=True)
def killed_while_preparing(run: CheckRun) -> None:
    """Kill the process while it fills the new format, then upgrade."""
    crashes = campaign(run)
    program = preparing()
    opening = [each.name for each in program.operations].index("open_preparing")
    crashes.boundaries(program, share=AT_ENDS)
    crashes.syscalls(program, opening, span=len(program) - opening, share=0.5)
    crashes.lines(program, opening + 1, share=0.3)
    crashes.lines(program, opening + 5, share=0.4)
    crashes.lines(program, len(program) - 2)
