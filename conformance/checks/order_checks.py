"""Windows and sessions, where everything that has no order comes in every order.

The other checks keep to one order: the stream time advances, and then a record comes too late; a
call is refused, and then the store is used. A store may be right in that order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from hypothesis import strategies as st

from streamproof.conformance.check_registry import check
from streamproof.conformance.checks.windowed_checks import (
    expect_everywhere,
    expect_in_time,
    late_streams,
    out_of_retention,
    three_entries,
)
from streamproof.conformance.lab import CHANGELOG, IsolationLevel
from streamproof.conformance.trial import Trial
from streamproof.conformance.windowed_trial import Timed, Times, claim
from streamproof.conformance.windows_oracle import WindowedContent
from streamproof.stores.windows import Window, Windowed


class Refused(NamedTuple):
    """A call that must raise: the promises of windows and sessions about it, and the call."""

    window: str
    session: str
    tried: str
    call: Callable[[], Any]


def refused_calls(store: Timed) -> list[Refused]:
    """Calls without a key, and calls at impossible times.

    None comes at a time that lets no entry expire: a store in memory of Kafka looks at the
    time first, and no promise says that it must not.
    """
    near, without_key = store.times.at(15), None
    if store.can.kind == "session":
        keyless: Any = Windowed(without_key, Window(near, near))  # type: ignore[arg-type]
        bad = [Window(near, near - 1), Window(-1, near)]
        calls = [partial(store.handle.put, keyless, b"no")]
        calls += [partial(store.handle.put, Windowed(b"a", each), b"no") for each in bad]
    else:
        calls = [
            partial(store.handle.put, without_key, b"no", near),
            partial(store.handle.put, b"a", b"no", -1),
            partial(store.handle.scan, "fetch_between", without_key, 0, near),
        ]
    tried = "refuse {} before, between and after writes, which stay as they are"
    keys = Refused("WIN-022", "SESS-044", tried.format("None for a key"), calls[0])
    times = Refused("WIN-023", "SESS-045", tried.format("an impossible time"), calls[1])
    last = times if store.can.kind == "session" else keys
    return [keys, times, last._replace(call=calls[2])]


@check(
    *("WIN-022", "WIN-023", "SESS-044", "SESS-045"),
    given=lambda g: {"order": g.orders(6), "in_transaction": st.booleans()},
)
def refused_between_writes(t: Trial, order: Sequence[int], in_transaction: bool) -> None:
    """Let calls be refused before, between and after writes, in any order."""
    claim(t, "WIN-022", "SESS-044", "write, and let calls be refused in between")
    store = Timed(t)
    times, content = store.times, WindowedContent(store.times)
    writer = store.begin() if in_transaction and store.can.explicit_transactions else store
    writes = ((b"a", 0), (b"b", 6), (b"a", 15))
    refused = refused_calls(writer)
    for number in order:
        if number < len(writes):
            key, tick = writes[number]
            writer.put(key, b"%d" % number, times.at(tick))
            content.put(times.windowed(key, times.at(tick)), b"%d" % number)
            continue
        bad = refused[number - len(writes)]
        claim(t, bad.window, bad.session, bad.tried)
        t.expect_raises(bad.call, "the call raises")
        t.expect_in_any_order(writer.all(), content.entries())
        t.expect(store.dropped(), 0)
    writer.handle.commit({CHANGELOG: 1})
    t.expect_in_any_order(store.all(), content.entries())
    if store.can.persistent:
        t.expect_in_any_order(store.reopen().all(), content.entries())


@check(
    *("WIN-031", "WIN-032", "WIN-033", "WIN-034"),
    *("SESS-023", "SESS-024", "SESS-025", "SESS-026"),
    given=lambda g: {"order": g.orders(4), "deletes": st.booleans(), "at": g.cuts()},
)
def late_in_any_order(t: Trial, order: Sequence[int], deletes: bool, at: set[int]) -> None:
    """Put the newest record before, between and after records that it lets come too late."""
    claim(t, "WIN-031", "SESS-023", "put records around the expiry in any order")
    store = Timed(t)
    times, content = store.times, WindowedContent(store.times)
    stream, _ = late_streams(times)
    # A tombstone advances the stream time of windows. Sessions may ignore the removal of nothing.
    deletes = deletes and store.can.kind == "window" and not store.can.retain_duplicates
    newest = None if deletes else b"newest"
    puts = (
        (b"new", newest, stream),
        (b"in time", b"1", times.first_readable(stream)),
        (b"hidden", b"2", times.first_readable(stream) - 1),
        (b"late", b"3", times.first_kept(stream) - 1),
    )
    for step, number in enumerate(order):
        key, value, time = puts[number]
        if time < times.first_kept(content.stream_time):
            claim(t, "WIN-032", "SESS-024", "put a record that comes too late, then read")
        elif times.first_readable(stream) <= time < stream:
            claim(t, "WIN-031", "SESS-023", "put a record that is in time, then read")
        else:
            claim(t, "WIN-034", "SESS-026", "put records around the expiry, then read")
        store.put(key, value, time)
        content.put(times.windowed(key, time), value)
        if step in at:
            store.handle.commit({CHANGELOG: step})
        t.expect_in_any_order(store.all(), content.entries())
        claim(t, "WIN-033", "SESS-025", "put records around the expiry, and count the dropped ones")
        t.expect(store.dropped(), content.dropped)


@check(*("WIN-046", "SESS-038"), given=lambda g: {"order": g.orders(4), "at": g.cuts()})
def restoring_in_any_order(t: Trial, order: Sequence[int], at: set[int]) -> None:
    """Restore records that a newer one lets expire, in any order and in several batches."""
    claim(t, "WIN-046", "SESS-038", "restore records and a newer one that lets some expire")
    store = Timed(t)
    times, content = store.times, WindowedContent(store.times)
    stream, _ = late_streams(times)
    late, readable = times.first_kept(stream) - 1, times.first_readable(stream)
    puts = ((b"late", late), (b"in time", readable), (b"newest", stream), (b"older", stream - 1))
    batch = []
    for offset, number in enumerate(order):
        key, time = puts[number]
        batch.append(times.record(key, b"%d" % number, time, offset))
        content.put(times.windowed(key, time), b"%d" % number)
        if offset in at:
            store.restore(batch)
            batch = []
    store.restore(batch)
    t.expect_in_any_order(store.all(), content.entries())
    claim(t, "WIN-046", "SESS-038", "restore, then put a record that now comes too late")
    store.put(b"later", b"5", late)
    t.expect(store.get(b"later", late), None)
    t.expect_in_any_order(store.all(), content.entries())


def far_and_near(times: Times, order: Sequence[int]) -> list[tuple[bytes, int]]:
    """A put that lets all entries expire, and one that lets none expire, in this order."""
    both = ((b"far", out_of_retention(times)), (b"near", times.at(15)))
    return [both[number] for number in order]


@check("WIN-055", "SESS-050", given=lambda g: {"order": g.orders(2)})
def stream_time_is_rolled_back(t: Trial, order: Sequence[int]) -> None:
    """Let all entries expire by a staged one: in a transaction, and in the store at its close."""
    claim(t, "WIN-055", "SESS-050", "stage a far later entry, roll it back, and put an older one")
    store, before = three_entries(t)
    store.handle.commit({CHANGELOG: 1})
    far = out_of_retention(store.times)
    transaction = store.begin()
    for key, time in far_and_near(store.times, order):
        transaction.put(key, b"staged", time)
    t.expect(transaction.all(), [store.entry(b"far", b"staged", far)])
    transaction.handle.close()
    expect_in_time(t, store, before)
    if t.run.exact and store.can.persistent:
        claim(t, "WIN-055", "SESS-050", "put a far later entry, close without a commit, and reopen")
        for key, time in far_and_near(store.times, order):
            store.put(key, b"staged", time)
        expect_in_time(t, store.reopen(), before)


@check("WIN-056", "SESS-051", given=lambda g: {"order": g.orders(2), "view_first": st.booleans()})
def staged_stream_time_is_hidden(t: Trial, order: Sequence[int], view_first: bool) -> None:
    """Let all entries expire by a staged one, and read beside the transaction, or a view."""
    store, before = three_entries(t)
    store.handle.commit({CHANGELOG: 1})
    if store.can.explicit_transactions:
        claim(t, "WIN-056", "SESS-051", "stage a far later entry in a transaction, read beside it")
        transaction = store.begin()
        for key, time in far_and_near(store.times, order):
            transaction.put(key, b"staged", time)
        expect_everywhere(t, store, before)
        transaction.handle.close()
    if t.run.exact and store.can.read_only_views:
        claim(t, "WIN-056", "SESS-051", "put a far later entry, and read a READ_COMMITTED view")
        view = store.view(IsolationLevel.READ_COMMITTED) if view_first else None
        for key, time in far_and_near(store.times, order):
            store.put(key, b"staged", time)
        expect_everywhere(t, view or store.view(IsolationLevel.READ_COMMITTED), before)
