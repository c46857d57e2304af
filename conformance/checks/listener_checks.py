"""Restorations with a listener: started, suspended at any time, started again (KIP-869).

Our runtime code calls the listener. The subject must hold the records by the time of each call,
however the restoration is split into batches.
"""

from __future__ import annotations

from collections.abc import Callable

from streamproof.conformance.check_registry import check
from streamproof.conformance.checks.restoration_checks import Writes, expect_fold, records
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import SubjectRaised

POLL = 1_000
"""The records in the largest batch: Kafka's ``max.poll.records`` of the restore consumer."""

CHANGES: Writes = [
    (b"a", b"1"),
    (b"b", b"2"),
    (b"a", None),
    (b"c", b"3"),
    (b"b", b"4"),
    (b"a", b"5"),
]


@check("LISTEN-001", given=lambda g: {"writes": g.writes(12), "at": g.cuts()})
def told_as_restored(t: Trial, writes: Writes, at: set[int]) -> None:
    """Restore in batches, and compare the reports to the listener with the content of the store."""
    t.claim("LISTEN-001", "restore in batches with a listener, and read after each")
    store = t.open()
    changelog = records(writes)
    restoration = t.restoring(store, 0, len(changelog))
    restoration.call("begin")
    start = 0
    expected: list[object] = [("start", 0, len(changelog))]
    for end in sorted({cut + 1 for cut in at if cut + 1 < len(changelog)} | {len(changelog)}):
        restoration.restore(changelog[start:end])
        expected.append(("batch", end - 1, end - start))
        expect_fold(t, store, writes[:end])
        start = end
    t.expect(t.told(), [*expected, ("end", len(changelog))])


@check("LISTEN-002")
def suspended_and_resumed(t: Trial) -> None:
    """Suspend a restoration after every batch, and resume it from there."""
    t.claim("LISTEN-002", "suspend a restoration after each batch, and start it again")
    changelog = records(CHANGES)
    for cut in range(1, len(changelog)):
        t.wipe()
        store = t.open()
        restoration = t.restoring(store, 0, len(changelog))
        restoration.call("begin")
        restoration.restore(changelog[:cut])
        restoration.suspend()
        expect_fold(t, store, CHANGES[:cut])
        restoration.call("begin")
        restoration.restore(changelog[cut:])
        expect_fold(t, store, CHANGES)
        first = [("start", 0, len(changelog)), ("batch", cut - 1, cut), ("suspended", cut)]
        rest = len(changelog) - cut
        second = [("start", cut, len(changelog)), ("batch", len(changelog) - 1, rest)]
        t.expect(t.told(), [*first, *second, ("end", rest)])
        store.close()


@check("LISTEN-003")
def nothing_to_restore(t: Trial) -> None:
    """Start a restoration that is already at its end."""
    t.claim("LISTEN-003", "start a restoration without records to restore")
    store = t.open()
    t.restore(store, records(CHANGES))
    restoration = t.restoring(store, len(CHANGES), len(CHANGES))
    restoration.call("begin")
    t.expect(t.told(), [("start", len(CHANGES), len(CHANGES)), ("end", 0)])
    expect_fold(t, store, CHANGES)


@check("LISTEN-004")
def resumed_by_another_process(t: Trial) -> None:
    """Suspend, commit and close; resume with a new store from the committed offset."""
    t.claim("LISTEN-004", "suspend, commit, close, and resume from the committed offset")
    changelog = records(CHANGES)
    for cut in (1, 3, 5):
        t.wipe()
        store = t.open()
        restoration = t.restoring(store, 0, len(changelog))
        restoration.call("begin")
        restoration.restore(changelog[:cut])
        restoration.suspend()
        store.commit({CHANGELOG: cut - 1})
        store = t.reopen(store)
        offset = store.committed_offset(CHANGELOG)
        t.expect(offset, cut - 1)
        restoration = t.restoring(store, cut, len(changelog))
        restoration.call("begin")
        restoration.restore(changelog[cut:])
        expect_fold(t, store, CHANGES)
        store.close()


@check("LISTEN-005")
def odd_batches(t: Trial) -> None:
    """Restore empty batches, a repeated batch, and records beyond the end."""
    t.claim("LISTEN-005", "restore empty and repeated batches, and records beyond the end")
    store = t.open()
    changelog = records([*CHANGES, (b"a", b"beyond"), (b"beyond", b"1")])
    restoration = t.restoring(store, 0, len(CHANGES))
    restoration.call("begin")
    restoration.restore([])
    restoration.restore(changelog[:2])
    restoration.restore(changelog[:4])
    restoration.restore([])
    restoration.restore(changelog[2:])
    expect_fold(t, store, CHANGES)
    t.expect(store.get(b"beyond"), None)
    # Our driver skips records that are already applied. Other drivers pass them on.
    t.restore(store, [])
    expect_fold(t, store, CHANGES)
    t.restore(store, changelog[2 : len(CHANGES)])
    expect_fold(t, store, CHANGES)


def attempt(t: Trial, call: Callable[[], object]) -> None:
    """Make a call whose listener raises."""
    try:
        call()
    except SubjectRaised:
        t.go_on_after_error()


@check("LISTEN-006")
def a_listener_that_raises(t: Trial) -> None:
    """Restore with a listener that raises each time."""
    t.claim("LISTEN-006", "restore with a listener that raises, and read")
    store = t.open()
    changelog = records(CHANGES)
    restoration = t.restoring(store, 0, len(changelog), listener_fails=True)
    attempt(t, lambda: restoration.call("begin"))
    attempt(t, lambda: restoration.restore(changelog[:3]))
    expect_fold(t, store, CHANGES[:3])
    attempt(t, lambda: restoration.restore(changelog[3:]))
    expect_fold(t, store, CHANGES)
    t.expect([event[0] for event in t.told()], ["start", "batch", "batch", "end"])


@check("LISTEN-007")
def a_whole_poll(t: Trial) -> None:
    """Restore the largest number of records that one poll returns."""
    t.claim("LISTEN-007", f"restore {POLL} records in one batch")
    writes: Writes = [
        (b"k%d" % (number % 97), None if number % 13 == 12 else b"%d" % number)
        for number in range(POLL)
    ]
    store = t.open()
    # The program makes the batch anew, because all of its records would be too long.
    t.note("pairs = [(b'k%d' % (n % 97), None if n % 13 == 12 else b'%d' % n, n)")
    t.note(f"         for n in range({POLL})]")
    t.note(f"lab.restore({store.label}, [ChangelogRecord(*each) for each in pairs])")
    with t.watching("restore(…)"):
        t.lab.restore(store.raw, records(writes))
    expect_fold(t, store, writes)


@check("LISTEN-008")
def under_an_open_iterator(t: Trial) -> None:
    """Restore while an iterator is open, as interactive queries do."""
    t.claim("LISTEN-008", "open an iterator, restore in two batches, and read it to its end")
    changelog = records(CHANGES)
    store = t.open()
    restoration = t.restoring(store, 0, len(changelog))
    restoration.call("begin")
    restoration.restore(changelog[:2])
    entries = store.iterate("all")
    first = entries.advance()
    restoration.restore(changelog[2:4])
    restoration.restore(changelog[4:])
    rest = entries.remaining()
    entries.release()
    found = [] if first is None else [first, *rest]
    if t.lab.subject.capabilities.iterator_view == "snapshot":
        t.expect(sorted(found), [(b"a", b"1"), (b"b", b"2")])
    else:
        possible = {key: {value for each, value in CHANGES if each == key} for key, _ in found}
        t.expect([each for each in found if each[1] not in possible[each[0]]], [])
        keys = [key for key, _ in found]
        t.expect(sorted(set(keys)), sorted(keys))
        # The key existed all the time, with an older or a newer value.
        t.expect_that(b"b" in keys, "the key b'b', which was there all the time", found)
    expect_fold(t, store, CHANGES)
