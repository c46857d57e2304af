"""The life cycle of a store: construct, open, use, close, open again."""

from __future__ import annotations

from collections.abc import Iterable

from streamproof.conformance.check_registry import check
from streamproof.conformance.claimed_methods import OF_KEYS, in_both_directions
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import Skipped

LARGE_VALUES = (8, 12, 15, 16, 17, 20)
LARGE_KEYS = (8,)
"""The powers of two around which values and keys are large, in bytes."""

METHODS = {
    "manages_offsets": ("commit", "committed_offset"),
    "explicit_transactions": ("new_transaction",),
    "read_only_views": ("read_only",),
}
"""The methods that each declared capability needs, whatever the kind of the store."""

FETCHES = {
    "key-value": tuple(OF_KEYS),
    "window": in_both_directions("fetch_between", "fetch_range", "fetch_all", "all"),
    "session": (
        *in_both_directions("fetch", "find_sessions", "fetch_range", "find_sessions_range"),
        "find_sessions_between",
    ),
}
"""The methods of each kind that read several entries. A store needs those that it claims."""


@check("LIFE-001", "LIFE-002", "LIFE-004")
def opens_and_closes(t: Trial) -> None:
    """Make a store, open it, and close it twice."""
    t.claim("LIFE-001", "read is_open before init, after init and after close")
    unopened = t.make()
    t.expect(unopened.read("is_open"), False)
    store = t.open()
    t.expect(store.read("is_open"), True)
    t.claim("LIFE-004", "read the name of an open store")
    name = store.read("name")
    t.expect_that(bool(name), "a non-empty name", name)
    t.claim("LIFE-001", "read is_open after close")
    store.close()
    t.expect(store.read("is_open"), False)
    t.claim("LIFE-002", "close a closed store again")
    store.close()
    t.expect(store.read("is_open"), False)


@check("LIFE-003")
def content_survives_reopening(t: Trial) -> None:
    """Write, commit, close, and open a new store in the same directory."""
    t.claim("LIFE-003", "write, commit and close, then read with a new store")
    store = t.open()
    for number in range(20):
        store.put(b"key%d" % number, b"value%d" % number)
    store.delete(b"key7")
    store.commit({CHANGELOG: 20})
    store = t.reopen(store)
    for number in range(20):
        t.expect(store.get(b"key%d" % number), None if number == 7 else b"value%d" % number)


@check("LIFE-003")
def large_content_survives_reopening(t: Trial) -> None:
    """Write values and keys of all sizes, commit, close, and open a new store, twice."""
    t.claim("LIFE-003", "write large values and keys, commit and close, then read with new stores")
    store = t.open()
    values = {b"v%d" % size: b"x" * size for size in sizes_around(LARGE_VALUES)}
    keys = {b"k" * size: b"%d" % size for size in sizes_around(LARGE_KEYS)}
    rows = {**values, **keys}
    for key, value in rows.items():
        store.put(key, value)
    store.commit({CHANGELOG: len(rows)})
    for _ in range(2):
        store = t.reopen(store)
        for key, value in rows.items():
            found = store.get(key)
            said = "another value" if found else "no value"
            t.expect_that(found == value, f"the {len(value):,} bytes that were put", said)


def sizes_around(powers: Iterable[int]) -> list[int]:
    """Powers of two, and their neighbours: the sizes at which stores change their way."""
    return [2**power + near for power in powers for near in (-1, 0, 1)]


@check("LIFE-005", "LIFE-008")
def claims_are_true(t: Trial) -> None:
    """Compare the flags and methods of the store with its capability declaration."""
    capabilities = t.lab.subject.capabilities
    store = t.open()
    t.claim("LIFE-005", "compare the flags of the store with its capability declaration")
    t.expect(store.read("persistent"), capabilities.persistent)
    t.expect(store.read("manages_offsets"), capabilities.manages_offsets)
    t.claim("LIFE-008", "look for the methods that the declared capabilities need")
    wanted = ["get", "put", "delete", "put_if_absent", "put_all", "commit", "close", "init"]
    for capability, methods in METHODS.items():
        if getattr(capabilities, capability):
            wanted += methods
    wanted += filter(t.has, FETCHES[capabilities.kind])
    missing = sorted({name for name in wanted if not callable(getattr(store.raw, name, None))})
    there = f"all(callable(getattr({store.label}, each, None)) for each in {missing})"
    t.expect_shown(there, not missing, "every method to exist", f"no {', '.join(missing)}")


@check("LIFE-006")
def closed_store_refuses(t: Trial) -> None:
    """Call every operation on a closed store."""
    store = t.open()
    store.put(b"a", b"1")
    store.close()
    t.claim("LIFE-006", "call operations on a closed store")
    t.expect_raises(lambda: store.get(b"a"), "get on a closed store raises")
    t.expect_raises(lambda: store.put(b"a", b"2"), "put on a closed store raises")
    t.expect_raises(lambda: store.delete(b"a"), "delete on a closed store raises")
    t.expect_raises(lambda: store.put_all([(b"a", b"3")]), "put_all on a closed store raises")
    t.expect_raises(lambda: store.put_if_absent(b"z", b"4"), "put_if_absent raises")
    if t.has("range"):
        t.expect_raises(lambda: store.scan("range", b"a", b"b"), "range on a closed store raises")
    if t.has("all"):
        t.expect_raises(lambda: store.scan("all"), "all on a closed store raises")


@check("LIFE-009")
def registers_restoration(t: Trial) -> None:
    """Open a store and look for its registered restore callback."""
    t.open()
    t.claim("LIFE-009", "look for the callback that init gave to context.register")
    t.note("lab.context.restore_callbacks")
    registered = dict(t.lab.context.restore_callbacks) if t.lab.context else {}
    t.expect_that(bool(registered), "a restore callback", "none registered")


@check("LIFE-010")
def volatile_store_starts_empty(t: Trial) -> None:
    """Close a store that is not persistent, and open it again."""
    t.claim("LIFE-010", "write, commit and close, then read with a new store")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 1})
    store = t.reopen(store)
    t.expect(store.get(b"a"), None)


@check("LIFE-019")
def volatile_store_manages_no_offsets(t: Trial) -> None:
    """Ask a store that is not persistent whether it manages its offsets."""
    t.claim("LIFE-019", "read manages_offsets of a store that is not persistent")
    store = t.open()
    t.expect(store.read("persistent"), False)
    manages = getattr(store.raw, "manages_offsets", False)
    t.expect(t.asked(f"getattr({store.label}, 'manages_offsets', False)", manages), False)


@check("LIFE-020")
def flush_changes_no_answer(t: Trial) -> None:
    """Flush an untouched store, uncommitted writes and committed ones, and read after each."""
    t.claim("LIFE-020", "flush, and compare all answers with those from before")
    store = t.open()
    if not callable(getattr(store.raw, "flush", None)):
        raise Skipped("the store has no flush, so nobody can call it")
    keys = (b"a", b"b", b"c")
    store.flush()
    t.expect([store.get(key) for key in keys], [None, None, None])
    store.put_all([(b"a", b"1"), (b"b", b"2")])
    store.delete(b"b")
    store.flush()
    t.expect([store.get(key) for key in keys], [b"1", None, None])
    store.commit({CHANGELOG: 3})
    store.put(b"c", b"4")
    store.flush()
    t.expect([store.get(key) for key in keys], [b"1", None, b"4"])
    if t.lab.subject.capabilities.manages_offsets:
        t.expect(store.committed_offset(CHANGELOG), 3)


@check("LIFE-021")
def persistent_store_manages_offsets(t: Trial) -> None:
    """Ask a persistent store whether it manages its offsets."""
    t.claim("LIFE-021", "read manages_offsets of a persistent store")
    store = t.open()
    t.expect(store.read("persistent"), True)
    managed = hasattr(store.raw, "manages_offsets") and store.read("manages_offsets")
    t.expect(managed, True)


@check("LIFE-011")
def many_reopenings(t: Trial) -> None:
    """Open and close the same directory many times, with one write each time."""
    t.claim("LIFE-011", "reopen ten times, writing one key each time")
    for number in range(10):
        store = t.open()
        for earlier in range(number):
            t.expect(store.get(b"k%d" % earlier), b"%d" % earlier)
        store.put(b"k%d" % number, b"%d" % number)
        store.commit({CHANGELOG: number})
        store.close()
    t.held()
