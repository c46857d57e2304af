"""Window stores that retain duplicates: they keep every put, as joins need."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.windowed_trial import Times
from streamproof.stores.windowed.keys import window_key
from streamproof.stores.windows import LONG_MAX

LARGEST_SEQUENCE = 2**31 - 1
"""The largest sequence number in a changelog key: four bytes, as Kafka counts them."""

VALUES = (b"2", b"1", b"2", b"", b"3")
"""Values that are neither sorted nor distinct, so that only insertion order passes."""


def with_duplicates(t: Trial) -> tuple[Handle, int]:
    """A store with several values in one window of one key, and the start of that window."""
    now = Times(t.lab.subject.capabilities).base
    store = t.open_store()
    for value in VALUES:
        store.put(b"a", value, now)
        store.put(b"aa", b"other key", now)
    store.put(b"a", b"other window", now + 1)
    return store, now


@check("WIN-025", "WIN-026", "WIN-027")
def duplicates_are_kept(t: Trial) -> None:
    """Put several values into one window, one of them twice."""
    t.claim("WIN-025", "put several values into one window, then fetch it")
    store, now = with_duplicates(t)
    expected = [(now, value) for value in VALUES]
    t.expect(sorted(store.scan("fetch_between", b"a", now, now)), sorted(expected))
    forward = store.scan("all") if t.has("all") else []
    if t.has("all"):
        t.expect(len(forward), 2 * len(VALUES) + 1)
    t.claim(
        "WIN-026", "put several values into one window, then fetch them in the order of the puts"
    )
    t.expect(store.scan("fetch_between", b"a", now, now), expected)
    if t.has("backward_fetch_between"):
        found = store.scan("backward_fetch_between", b"a", now, now + 1)
        t.expect(found, [(now + 1, b"other window"), *expected[::-1]])
    if t.has("fetch_range"):
        ranged = store.scan("fetch_range", b"a", b"a", now, now)
        t.expect([value for _, value in ranged], list(VALUES))
    if t.has("backward_all"):
        t.expect(store.scan("backward_all"), forward[::-1])
    t.claim("WIN-027", "put None into a window with several values")
    dropped = store.read("dropped_records")
    store.put(b"a", None, now)
    store.put(b"b", None, now)
    t.expect(store.scan("fetch_between", b"a", now, now), expected)
    t.expect(store.scan("fetch_between", b"b", now, now), [])
    if t.has("all"):
        t.expect(store.scan("all"), forward)
    t.expect(store.read("dropped_records"), dropped)


@check("WIN-028", "WIN-029")
def duplicates_survive_reopening(t: Trial) -> None:
    """Put several values into one window, commit, reopen, and put more values."""
    t.claim("WIN-028", "put several values into one window, commit, reopen, then fetch it")
    store, now = with_duplicates(t)
    store.commit({CHANGELOG: 10})
    store = t.reopen_store(store)
    expected = [(now, value) for value in VALUES]
    t.expect(store.scan("fetch_between", b"a", now, now), expected)
    t.claim("WIN-029", "put another value into a window after a reopening, then fetch the window")
    for value in (b"later", b"later still"):
        store.put(b"a", value, now)
    found = store.scan("fetch_between", b"a", now, now)
    t.expect(found, [*expected, (now, b"later"), (now, b"later still")])


@check("WIN-030", "WIN-029")
def duplicates_are_restored(t: Trial) -> None:
    """Restore several values of one window, restore them again, and put more values."""
    t.claim("WIN-030", "restore several values of one window, then fetch it")
    now = Times(t.lab.subject.capabilities).base
    store = t.open_store()
    batch = [
        ChangelogRecord(window_key(b"a", now, number), value, number)
        for number, value in enumerate(VALUES, start=1)
    ]
    expected = [(now, value) for value in VALUES]
    for _ in range(2):
        t.restore(store, batch)
        t.expect(store.scan("fetch_between", b"a", 0, LONG_MAX), expected)
    if t.run.applies("WIN-029"):
        t.claim("WIN-029", "put more values into a restored window, then fetch the window")
        for value in VALUES:
            store.put(b"a", value, now)
            expected.append((now, value))
            t.expect(store.scan("fetch_between", b"a", 0, LONG_MAX), expected)


@check("WIN-025")
def numbers_begin_anew(t: Trial) -> None:
    """Restore a value with the largest number that a changelog key has room for, and put more."""
    t.claim("WIN-025", "put values behind one with the largest sequence number, then fetch them")
    now = Times(t.lab.subject.capabilities).base
    store = t.open_store()
    t.restore(store, [ChangelogRecord(window_key(b"a", now, LARGEST_SEQUENCE), b"restored", 0)])
    store.commit({CHANGELOG: 0})
    for value in (b"1", b"2"):
        store.put(b"a", value, now)
    found = store.scan("fetch_between", b"a", 0, LONG_MAX)
    # New numbers are small again, so what has them comes first.
    expected = [(now, value) for value in (b"1", b"2", b"restored")]
    t.expect(sorted(found), expected)
