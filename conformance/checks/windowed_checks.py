"""The common promises of windows and sessions: expiry, iterators, restoring and transactions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, IsolationLevel
from streamproof.conformance.program_text import render
from streamproof.conformance.trial import Entry, Trial, arranged
from streamproof.conformance.windowed_trial import ONE_KEY, Timed, Times, claim
from streamproof.conformance.windows_oracle import Entries, WindowedContent

Writes = list[tuple[bytes, int, bytes | None]]
"""Keys, ticks, and values or tombstones."""


def times_of(t: Trial) -> Times:
    """Times that suit the subject."""
    return Times(t.lab.subject.capabilities)


def late_streams(times: Times) -> tuple[int, int]:
    """Two stream times: the expiry lies within a segment, and exactly at the start of one."""
    retention, interval = times.can.retention_ms, times.interval_ms
    return retention + 12 * interval + interval // 2, retention + 14 * interval


@check("WIN-031", "WIN-032", "WIN-033", "WIN-034", "SESS-023", "SESS-024", "SESS-025", "SESS-026")
def expiry_boundary(t: Trial) -> None:
    """Put at the last time that comes too late, and at the first time that does not."""
    times = times_of(t)
    claim(t, "WIN-033", "SESS-025", "read the number of dropped records of a new store")
    store = Timed(t)
    content = WindowedContent(times)
    t.expect(store.dropped(), 0)
    for number, stream in enumerate(late_streams(times)):
        kept, readable = times.first_kept(stream), times.first_readable(stream)
        dropped = store.dropped()
        for key, value, time in ((b"new", b"1", stream), (b"in time", b"2", readable)):
            store.put(key, value, time)
            content.put(times.windowed(key, time), value)
        claim(t, "WIN-031", "SESS-023", "put at the first time that is not expired")
        t.expect(store.get(b"in time", readable), b"2")
        claim(t, "WIN-032", "SESS-024", "put at the last time that comes too late")
        store.put(b"late", b"3", kept - 1)
        t.expect(store.get(b"late", kept - 1), None)
        t.expect(store.of_key(b"late"), [])
        claim(
            t, "WIN-033", "SESS-025", "count the dropped records after one put that came too late"
        )
        t.expect(store.dropped(), dropped + 1)
        store.put(b"late", None, kept - 1)
        t.expect_that(
            store.dropped() >= dropped + 1, "a count that does not shrink", store.dropped()
        )
        claim(t, "WIN-034", "SESS-026", "put an entry that has expired but whose segment is kept")
        dropped = store.dropped()
        for time in {kept, readable - 1} if kept < readable else ():
            store.put(b"hidden", b"4", time)
            t.expect(store.get(b"hidden", time), None)
        t.expect(store.of_key(b"hidden"), [])
        t.expect(store.dropped(), dropped)
        t.expect_in_any_order(store.all(), content.entries())
        store.handle.commit({CHANGELOG: number})


@check("WIN-034", "SESS-026")
def expired_is_unreadable(t: Trial) -> None:
    """Let the stream time pass the entries, and read with every method after each step."""
    claim(t, "WIN-034", "SESS-026", "let the stream time pass the retention of entries, then read")
    times = times_of(t)
    store = Timed(t)
    content = WindowedContent(times)
    steps = [times.at(tick) for tick in (0, 4, 8, 12, 15)]
    later = [times.at(15) + (each - times.base) for each in steps[1:]]
    far = times.at(15) + 3 * times.can.retention_ms
    for number, time in enumerate((*steps, *later, far)):
        key = b"even" if number % 2 == 0 else b"odd"
        store.put(key, b"%d" % number, time)
        content.put(times.windowed(key, time), b"%d" % number)
        if number == len(steps):
            store.handle.commit({CHANGELOG: number})
        entries = content.entries()
        for backward in (False, True) if times.can.reverse else (False,):
            expected = [entry for entry in arranged(entries) if entry[0].key == b"odd"]
            found = store.of_key(b"odd", backward=backward)
            t.expect(found[::-1] if backward else found, expected)
            if times.can.ranges:
                found = store.of_keys(None, None, backward=backward)
                t.expect_in_any_order(found, entries)
        t.expect_in_any_order(store.all(), entries)
        t.expect(store.get(b"even", steps[0]), content.get(times.windowed(b"even", steps[0])))


@check("WIN-035", "SESS-027")
def stream_time_never_goes_back(t: Trial) -> None:
    """Put late records many times, and read the expired entries."""
    claim(
        t, "WIN-035", "SESS-027", "put an older record, then put a record that has already expired"
    )
    times = times_of(t)
    stream, _ = late_streams(times)
    kept, readable = times.first_kept(stream), times.first_readable(stream)
    store = Timed(t)
    store.put(b"old", b"1", readable - 1)
    store.put(b"new", b"2", stream)
    for number in range(3):
        store.put(b"older", b"3", readable)
        store.put(b"late", b"4", kept - 1)
        t.expect(store.get(b"late", kept - 1), None)
        t.expect(store.get(b"old", readable - 1), None)
        store.handle.commit({CHANGELOG: number})


@check("WIN-036", "SESS-028")
def late_after_reopening(t: Trial) -> None:
    """Reopen a store after each move of its stream time, then put what came too late before."""
    claim(t, "WIN-036", "SESS-028", "reopen a store, then put a record that came too late before")
    times = times_of(t)
    first, second = late_streams(times)
    store, content = Timed(t), WindowedContent(times)
    # A small move lets single entries expire, and a large one whole segments.
    quarter = times.interval_ms // 4
    moves = ((first,), (first + 1, first + 2), (second, second + quarter), (second + 2 * quarter,))
    for move in moves:
        for stream in move:
            for key, time in ((b"old", times.first_readable(stream) - 1), (b"new", stream)):
                store.put(key, b"%d" % stream, time)
                content.put(times.windowed(key, time), b"%d" % stream)
            store.handle.commit({CHANGELOG: stream})
        store = store.reopen()
        t.expect_in_any_order(store.all(), content.entries())
        late = times.first_kept(move[-1]) - 1
        store.put(b"late", b"late", late)
        t.expect(store.get(b"late", late), None)


@check("WIN-037", "SESS-029")
def content_survives_reopening(t: Trial) -> None:
    """Put over the whole retention, commit, reopen, and read everything."""
    claim(t, "WIN-037", "SESS-029", "put into several segments, commit, reopen, then read")
    times = times_of(t)
    store = Timed(t)
    content = WindowedContent(times)
    for number, tick in enumerate((0, 3, 4, 9, 15)):
        for key in (b"a", b"b"):
            store.put(key, b"%d" % number, times.at(tick))
            content.put(times.windowed(key, times.at(tick)), b"%d" % number)
    store.handle.commit({CHANGELOG: 9})
    for _ in range(2):
        store = store.reopen()
        t.expect(store.all(), content.entries())
        expected = [entry for entry in content.entries() if entry[0].key == b"b"]
        t.expect(store.of_key(b"b"), arranged(expected))


def expect_among(t: Trial, found: list[Entry], allowed: Entries) -> None:
    """Demand that an iterator yielded only these entries, and none of them twice."""
    t.expect_that(
        all(entry in allowed and found.count(entry) == 1 for entry in found),
        f"each of these at most once: {render(allowed)}",
        found,
    )


def to_iterate(t: Trial) -> tuple[Timed, Entries]:
    """A store with three entries in three places of the retention, and what an iterator yields.

    The entries are those of one key, if the subject claims no way to read several keys.
    """
    can = t.lab.subject.capabilities
    return three_entries(t) if can.scan or can.ranges else three_entries(t, [ONE_KEY] * 3)


def three_entries(t: Trial, keys: Sequence[bytes] = (b"a", b"b", b"c")) -> tuple[Timed, Entries]:
    """A store with three keys in three places of the retention, and what a scan yields."""
    store = Timed(t)
    puts = [(key, store.times.at(tick)) for key, tick in zip(keys, (0, 6, 15), strict=True)]
    for key, time in puts:
        store.put(key, b"1", time)
    # Every declared order of these entries is the same, because keys and times rise together.
    return store, [store.entry(key, b"1", time) for key, time in puts]


@check("WIN-038", "SESS-030")
def peeking(t: Trial) -> None:
    """Peek at each key of an iterator before taking its entry, and peek beyond the end."""
    claim(t, "WIN-038", "SESS-030", "peek at the next key of an iterator, then take its entry")
    store, entries = to_iterate(t)
    iterator = store.iterate()
    for entry in entries:
        t.expect([iterator.peek_next_key()], [entry[0]])
        t.expect([iterator.peek_next_key()], [entry[0]])
        t.expect(iterator.advance(), entry)
    t.expect_raises(iterator.peek_next_key, "peek_next_key at the end raises StopIteration")
    iterator.release()
    if store.can.kind == "window":
        key, (start, _) = entries[1][0]
        single = store.handle.iterate("fetch_between", key, start, start)
        t.expect(single.peek_next_key(), start)
        t.expect(single.advance(), (start, b"1"))
        single.release()


@check("WIN-039", "SESS-031")
def early_close(t: Trial) -> None:
    """Close an iterator before its end, while another one is open."""
    claim(
        t, "WIN-039", "SESS-031", "close an iterator before its end, then read with other iterators"
    )
    store, entries = to_iterate(t)
    other = store.iterate()
    iterator = store.iterate()
    t.expect(iterator.advance(), entries[0])
    iterator.release()
    iterator.release()
    t.expect(other.remaining(), entries)
    t.expect(other.advance(), None)
    t.expect(other.advance(), None)
    other.release()
    t.expect(store.all(), entries)


@check("WIN-040", "SESS-032")
def iterator_of_closed_store(t: Trial) -> None:
    """Close a store while iterators over it are open, then read the iterators."""
    raises = t.lab.subject.capabilities.closed_iterator == "raises"
    does = "raise" if raises else "end"
    claim(
        t,
        "WIN-040",
        "SESS-032",
        f"read an iterator after its store was closed: the iterator must {does}",
    )
    store, entries = to_iterate(t)
    store.handle.commit({CHANGELOG: 2})
    started, unread = store.iterate(), store.iterate()
    t.expect(started.advance(), entries[0])
    store.handle.close()
    for iterator in (started, unread):
        if raises:
            t.expect_raises(iterator.advance, "the iterator raises")
        else:
            t.expect(iterator.advance(), None)
    if store.can.persistent:
        claim(t, "WIN-040", "SESS-032", "reopen a store that was closed with open iterators")
        t.expect(Timed(t, keys=store.keys).all(), entries)


@check(
    *("WIN-041", "WIN-042", "SESS-033", "SESS-034"),
    given=lambda g: {"order": g.orders(4), "gone": st.sampled_from((0, 2))},
)
def writes_while_iterating(t: Trial, order: Sequence[int], gone: int) -> None:
    """Put, overwrite and delete in several segments, in any order, while an iterator is open.

    The deleted entry is one that the iterator has yielded, or one that it has not reached.
    """
    claim(t, "WIN-041", "SESS-033", "put, overwrite and delete while an iterator is open")
    store, entries = to_iterate(t)
    content = WindowedContent(store.times)
    for windowed, old in entries:
        content.put(windowed, old)
    at = store.times.at
    if store.can.persistent:
        store.handle.commit({CHANGELOG: 2})
    iterator = store.iterate()
    t.expect(iterator.advance(), entries[0])
    first, second, _ = (windowed.key for windowed, _ in entries)
    deleted, _ = entries[gone]
    # Behind a deleted entry, before one that stays: an iterator that counts entries is moved on
    # or back, and the two must not cancel out.
    beside = (first, at(9))
    if gone and store.reads_several_keys:
        beside = (b"A", at(0))
    writes: tuple[tuple[bytes, bytes | None, int], ...] = (
        (beside[0], b"new", beside[1]),
        (second, b"new", at(6)),
        (b"d", b"new", at(15)),
        (deleted.key, None, store.times.time_of(deleted)),
    )
    overwrites = not store.can.retain_duplicates
    for key, value, time in (writes[number] for number in order):
        if overwrites or value is not None:
            store.put(key, value, time)
            content.put(store.times.windowed(key, time), value)
    found = [entries[0], *iterator.remaining()]
    iterator.release()
    new = [store.entry(key, value, time) for key, value, time in writes if value is not None]
    expect_among(t, found, [*entries, *new])
    kept = [windowed for windowed, _ in entries if windowed != deleted]
    t.expect_that(set(kept) <= {*dict(found)}, f"entries of {render(kept)}", found)
    if store.can.iterator_view == "snapshot":
        claim(
            t,
            "WIN-042",
            "SESS-034",
            "write while an iterator is open, then read its rest",
        )
        t.expect(found, entries)
    claim(
        t, "WIN-041", "SESS-033", "write while an iterator is open, then read with another iterator"
    )
    for key in (deleted.key, b"d"):
        expected = [entry for entry in arranged(content.entries()) if entry[0].key == key]
        t.expect(store.of_key(key), expected)


@check("WIN-043", "SESS-035")
def iterator_outlives_expiry(t: Trial) -> None:
    """Let all remaining entries of an open iterator expire."""
    claim(
        t,
        "WIN-043",
        "SESS-035",
        "let entries expire while an iterator is open, then read its rest",
    )
    store, entries = to_iterate(t)
    far = store.times.at(15) + 20 * (store.can.retention_ms + store.times.interval_ms)
    iterator, unread = store.iterate(), store.iterate()
    t.expect(iterator.advance(), entries[0])
    for number in range(3):
        store.put(b"z", b"new", far + number * store.can.retention_ms)
        store.handle.commit({CHANGELOG: number})
    new = [store.entry(b"z", b"new", far + number * store.can.retention_ms) for number in range(3)]
    for found in (iterator.remaining(), unread.remaining()):
        expect_among(t, found, [*entries, *new])
    iterator.release()
    unread.release()
    t.expect(store.all(), new[-1:])


@check("WIN-044", "WIN-045", "SESS-036", "SESS-037", given=lambda g: {"writes": g.timed_writes()})
def restoring_equals_putting(t: Trial, writes: Writes) -> None:
    """Restore a changelog of puts and tombstones, then restore it again."""
    restore_again(t, writes)


@check("WIN-044", "WIN-045", "SESS-036", "SESS-037")
def restoring_again(t: Trial) -> None:
    """Restore entries that stay, that are overwritten and that are deleted, then do so again."""
    stays: Writes = [(key, tick, b"%d" % tick) for tick in (3, 9, 15) for key in (b"a", b"b", b"c")]
    restore_again(
        t, [*stays, (b"a", 9, b"new"), (b"b", 9, None), (b"b", 15, None), (b"b", 15, b"")]
    )


def restore_again(t: Trial, writes: Writes) -> None:
    """Restore these writes as a whole, then their second half, then again as a whole."""
    claim(t, "WIN-044", "SESS-036", "restore puts and tombstones, then read")
    times = times_of(t)
    store = Timed(t)
    content = WindowedContent(times)
    batch = []
    for offset, (key, tick, drawn) in enumerate(writes):
        # With duplicates, a tombstone deletes a single value, and no writer sends one.
        value = b"" if drawn is None and times.can.retain_duplicates else drawn
        content.put(times.windowed(key, times.at(tick)), value)
        batch.append(times.record(key, value, times.at(tick), offset))
    store.restore(batch)
    t.expect_in_any_order(store.all(), content.entries())
    claim(t, "WIN-045", "SESS-037", "restore the same records again, then read")
    store.restore(batch[len(batch) // 2 :])
    store.restore(batch)
    t.expect_in_any_order(store.all(), content.entries())


@check("WIN-044", "SESS-036")
def restored_keys_are_exact(t: Trial) -> None:
    """Restore keys that look like another key followed by a time, in several batches."""
    claim(t, "WIN-044", "SESS-036", "restore keys that resemble each other, then read each of them")
    times = times_of(t)
    now, last = times.at(3), times.at(15)
    keys = [b"a", b"aa", b"a\x00", b"\xff", times.record(b"a", None, now).key]
    store = Timed(t)
    offset = 0
    content = WindowedContent(times)
    for time in (now, last):
        batch = []
        for key in keys:
            offset += 1
            batch.append(times.record(key, b"%d" % offset, time, offset))
            content.put(times.windowed(key, time), b"%d" % offset)
        store.restore(batch)
    if not times.can.retain_duplicates:
        store.restore([times.record(b"a", None, now, offset + 1)])
        content.put(times.windowed(b"a", now), None)
    store.put(b"a", b"live", times.at(4))
    content.put(times.windowed(b"a", times.at(4)), b"live")
    for key in keys:
        expected = [entry for entry in arranged(content.entries()) if entry[0].key == key]
        t.expect(store.of_key(key), expected)
        for windowed, value in expected:
            t.expect(store.get(key, times.time_of(windowed)), value)


@check("WIN-046", "SESS-038")
def restoring_expires(t: Trial) -> None:
    """Restore records whose newest record expires the others."""
    claim(t, "WIN-046", "SESS-038", "restore a record and a newer record that expires it")
    times = times_of(t)
    stream, _ = late_streams(times)
    late, readable = times.first_kept(stream) - 1, times.first_readable(stream)
    store = Timed(t)
    first = times.record(b"first", b"1", late, 1)
    newest = times.record(b"newest", b"2", stream, 2)
    in_time = times.record(b"in time", b"3", readable, 3)
    store.restore([first, newest, in_time])
    expected = [store.entry(b"in time", b"3", readable), store.entry(b"newest", b"2", stream)]
    t.expect(store.get(b"first", late), None)
    t.expect_in_any_order(store.all(), expected)
    store.restore([times.record(b"late", b"4", late, 4)])
    t.expect(store.of_key(b"late"), [])
    claim(t, "WIN-046", "SESS-038", "restore, then put a record that now comes too late")
    store.put(b"later", b"5", late)
    t.expect(store.get(b"later", late), None)
    t.expect_in_any_order(store.all(), expected)


@check("WIN-047", "SESS-039")
def restored_late_is_counted(t: Trial) -> None:
    """Restore records that come too late, after a newer record in the same or an earlier batch."""
    claim(
        t,
        "WIN-047",
        "SESS-039",
        "restore a record that comes too late, and count the dropped records",
    )
    times = times_of(t)
    stream, _ = late_streams(times)
    late = times.first_kept(stream) - 1
    store = Timed(t)
    newest = times.record(b"newest", b"1", stream, 1)
    store.restore([newest, times.record(b"late", b"2", late, 2)])
    t.expect(store.dropped(), 1)
    store.restore([times.record(b"later", b"3", late, 3)])
    t.expect(store.dropped(), 2)


def staged(t: Trial, order: Sequence[int]) -> tuple[Timed, Timed, Entries, Entries]:
    """A writer with puts and deletes in several segments, staged in an order, and a reader.

    If the subject has views, the store stages and a view reads. Otherwise a transaction stages and
    the store reads. Also the committed entries, and the entries that include the staged writes.
    """
    store, before = three_entries(t)
    times, content = store.times, WindowedContent(store.times)
    for windowed, old in before:
        content.put(windowed, old)
    store.handle.commit({CHANGELOG: 1})
    if store.can.read_only_views and store.can.transactional:
        writer, reader = store, store.view(IsolationLevel.READ_COMMITTED)
    else:
        writer, reader = store.begin(), store
    overwrites = not store.can.retain_duplicates
    # A delete comes before a put of the same window, or after the put.
    writes: tuple[tuple[bytes, bytes | None, int], ...] = (
        (b"a", b"staged", 8),
        (b"b", b"staged", 3),
        (b"b", None, 6),
        (b"c", b"overwritten", 15),
        (b"d", b"staged", 15),
        (b"d", None, 15),
    )
    for key, value, tick in (writes[number] for number in order):
        if overwrites or value == b"staged":
            writer.put(key, value, times.at(tick))
            content.put(times.windowed(key, times.at(tick)), value)
    return writer, reader, before, arranged(content.entries())


def expect_everywhere(t: Trial, store: Timed, entries: Entries) -> None:
    """Demand these entries from every way to read."""
    t.expect_in_any_order(store.all(), entries)
    if store.can.ranges:
        t.expect_in_any_order(store.of_keys(b"a", b"z"), entries)
    if store.can.ranges and store.can.reverse:
        t.expect_in_any_order(store.of_keys(None, None, backward=True), entries)
    for key in (b"a", b"b", b"c", b"d"):
        expected = [entry for entry in entries if entry[0].key == key]
        t.expect(store.of_key(key), expected)
        if store.can.reverse:
            t.expect(store.of_key(key, backward=True), expected[::-1])
    held = dict(entries)
    for key, tick in ((b"a", 8), (b"b", 3), (b"b", 6), (b"c", 15), (b"d", 15)):
        time = store.times.at(tick)
        t.expect(store.get(key, time), held.get(store.times.windowed(key, time)))


@check("WIN-048", "SESS-040", given=lambda g: {"order": g.orders(6)})
def own_writes_are_read(t: Trial, order: Sequence[int]) -> None:
    """Put and delete in several segments, and read as the writer before the commit."""
    claim(t, "WIN-048", "SESS-040", "stage writes in several segments, then read as the writer")
    writer, _, _, after = staged(t, order)
    expect_everywhere(t, writer, after)
    at = writer.times.at
    start, value = at(8), b"staged again"
    writer.put(b"e", value, start)
    t.expect(writer.get(b"e", start), value)
    if not writer.can.retain_duplicates:
        writer.put(b"e", None, start)
        t.expect(writer.get(b"e", start), None)
        expect_everywhere(t, writer, after)


@check("WIN-049", "WIN-050", "SESS-041", "SESS-042", given=lambda g: {"order": g.orders(6)})
def staged_writes_are_hidden(t: Trial, order: Sequence[int]) -> None:
    """Stage writes in several segments, read as a committed reader, commit, and read again."""
    claim(
        t,
        "WIN-049",
        "SESS-041",
        "stage writes in several segments, then read as a committed reader",
    )
    writer, reader, before, after = staged(t, order)
    expect_everywhere(t, reader, before)
    claim(
        t,
        "WIN-050",
        "SESS-042",
        "commit writes in several segments, then read as a committed reader",
    )
    writer.handle.commit({CHANGELOG: 6})
    expect_everywhere(t, reader, after)


def out_of_retention(times: Times) -> int:
    """A time at which every entry of ``three_entries`` has expired, and its segment, too."""
    return times.at(15) + 3 * (times.can.retention_ms + times.interval_ms)


def expect_in_time(t: Trial, store: Timed, entries: Entries) -> None:
    """Demand these entries, and that a put at the first tick does not come too late."""
    expect_everywhere(t, store, entries)
    first = store.times.at(0)
    store.put(b"in time", b"2", first)
    t.expect(store.get(b"in time", first), b"2")


@check("WIN-051", "SESS-043")
def rollback_across_segments(t: Trial) -> None:
    """Stage writes in several segments, roll them back, and read."""
    claim(t, "WIN-051", "SESS-043", "roll back writes in several segments, then read")
    store, before = three_entries(t)
    store.handle.commit({CHANGELOG: 1})
    transaction = store.begin()
    for tick in (0, 6, 15):
        for key in (b"a", b"b", b"c", b"d"):
            transaction.put(key, b"staged", store.times.at(tick))
    if not store.can.retain_duplicates:
        transaction.put(b"a", None, store.times.at(0))
    transaction.handle.close()
    expect_everywhere(t, store, before)
    store.handle.commit({CHANGELOG: 2})
    expect_everywhere(t, store, before)
