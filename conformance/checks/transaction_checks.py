"""Transactions: what they show, hide, write and discard."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from streamproof.conformance.as_key_value import SessionRows, WindowRows
from streamproof.conformance.check_registry import check
from streamproof.conformance.claimed_methods import in_both_directions, is_claimed
from streamproof.conformance.lab import CHANGELOG, IsolationLevel
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.transactions import AbstractTransaction, AbstractTransactionalStore
from streamproof.stores.windows import LONG_MAX

ROWS = (SessionRows, WindowRows)
"""What a window or session store is wrapped in, to be seen as a key-value store."""

WITH_TIMESTAMPS = (
    *("all", "range"),
    *("fetch_all", "fetch_between", "fetch_range"),
    *("fetch", "find_sessions", "find_sessions_range"),
)
"""The fetches and scans that exist with timestamps, too (KIP-258)."""

ENDS: tuple[tuple[str, tuple[Any, ...]], ...] = (("commit", ({CHANGELOG: 3},)), ("close", ()))
"""The methods that end a transaction, with their arguments."""

Writes = list[tuple[bytes, bytes | None]]


def base(t: Trial, directory: str = "") -> Handle:
    """A store with three committed entries: a, b and c."""
    store = t.open(directory)
    store.put_all([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    store.commit({CHANGELOG: 2})
    return store


def expect_ended(t: Trial, transaction: Handle, staged: bytes) -> None:
    """Demand that a transaction refuses every use, also of a key that it had staged."""
    t.expect(transaction.read("is_open"), False)
    uses: dict[str, Callable[[], object]] = {
        "get of a staged key": lambda: transaction.get(staged),
        "get of a committed key": lambda: transaction.get(b"c"),
        "put": lambda: transaction.put(b"late", b"late"),
        "delete": lambda: transaction.delete(staged),
        "put_all": lambda: transaction.put_all([(b"late", b"late")]),
        "put_if_absent": lambda: transaction.put_if_absent(staged, b"late"),
        "commit": lambda: transaction.commit({CHANGELOG: 9}),
    }
    can = t.lab.subject.capabilities
    timed = writes_with_timestamps(t, staged)
    uses |= {method: partial(transaction.call, method, *arguments) for method, arguments in timed}
    if can.timestamped:
        uses["get_with_timestamp"] = lambda: transaction.get_with_timestamp(b"c")
    for use, call in uses.items():
        t.expect_raises(call, f"{use} raises after the end of the transaction")
    for method, arguments in reads_of_many(can):
        t.expect_raises(
            partial(transaction.scan, method, *arguments),
            f"{method} raises after the end of the transaction",
        )
    if can.entry_count and can.kind == "key-value":
        t.expect_raises(
            transaction.approximate_num_entries,
            "approximate_num_entries raises after the end of the transaction",
        )


def isolates(t: Trial) -> bool:
    """Whether transactions hide and discard their writes: READ_UNCOMMITTED promises neither."""
    return t.lab.guarantee == "exactly-once"


def writes_with_timestamps(t: Trial, key: bytes) -> list[tuple[str, tuple[Any, ...]]]:
    """The methods that write a timestamp with the value, each with arguments for a key."""
    if not t.lab.subject.capabilities.timestamped:
        return []
    late = ValueAndTimestamp(b"late", 9)
    writes: list[tuple[str, tuple[Any, ...]]] = [
        ("put_with_timestamp", (key, b"late", 9)),
        ("put_all_with_timestamp", ([(key, late)],)),
        ("delete_with_timestamp", (key,)),
        ("put_if_absent_with_timestamp", (key, b"late", 9)),
    ]
    if t.run.applies("TS-022"):
        writes.append(("put_value_and_timestamp", (key, late)))
        writes.append(("put_value_and_timestamp_if_absent", (key, late)))
    return writes


def reads_of_many(can: Capabilities) -> list[tuple[str, tuple[Any, ...]]]:
    """The fetches and scans of a store, each with its arguments."""
    plain = plain_reads_of_many(can)
    timed = WITH_TIMESTAMPS if can.timestamped else ()
    return plain + [(f"{name}_with_timestamp", some) for name, some in plain if name in timed]


def plain_reads_of_many(can: Capabilities) -> list[tuple[str, tuple[Any, ...]]]:
    """The fetches and scans of a store of this kind without timestamps."""
    every, times = (b"a", b"z"), (0, LONG_MAX)
    methods: dict[str, tuple[Any, ...]] = {
        "all": (),
        "range": every,
        "reverse_all": (),
        "reverse_range": every,
        "prefix_scan": (b"a",),
    }
    if can.kind == "window":
        methods = backward_too(
            {
                "all": (),
                "fetch_all": times,
                "fetch_between": (b"a", *times),
                "fetch_range": (*every, *times),
            }
        )
    elif can.kind == "session":
        methods = backward_too(
            {
                "fetch": (b"a",),
                "fetch_range": every,
                "find_sessions": (b"a", *times),
                "find_sessions_range": (*every, *times),
            }
        )
        methods["find_sessions_between"] = times
    return [each for each in methods.items() if is_claimed(each[0], can)]


def backward_too(methods: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Methods with their arguments, each forward and backward."""
    return {name: methods[each] for each in methods for name in in_both_directions(each)}


def all_reads(t: Trial, reader: Handle) -> dict[str, Any]:
    """What each fetch and scan of a store, a transaction or a view yields, by its name."""
    reads = reads_of_many(t.lab.subject.capabilities)
    return {method: reader.scan(method, *arguments) for method, arguments in reads}


@check("TXN-028")
def every_method_works(t: Trial) -> None:
    """Write with every method in a transaction and in a store beside it, and compare all reads."""
    t.claim("TXN-028", "call every method in a transaction, and of a store beside it")
    can = t.lab.subject.capabilities
    store, other = base(t), base(t, "other")
    transaction = store.begin()
    writes: list[tuple[str, tuple[Any, ...]]] = [
        ("put", (b"a", b"new")),
        ("delete", (b"b",)),
        ("put_if_absent", (b"b", b"again")),
        ("put_if_absent", (b"c", b"not this")),
        ("put_all", ([(b"aa", b"many"), (b"d", b"many"), (b"f", b"many")],)),
        ("put_all", ([(b"f", None)],)),
        *writes_with_timestamps(t, b"e"),
    ]
    for method, arguments in writes:
        answer = transaction.call(method, *arguments)
        t.expect(answer, other.call(method, *arguments))
    if callable(getattr(transaction.raw, "flush", None)):
        transaction.flush()
    other.commit({CHANGELOG: 9})
    content = {b"a": b"new", b"aa": b"many", b"b": b"again", b"c": b"3", b"d": b"many"}
    t.expect({key: transaction.get(key) for key in content}, content)
    for key in (*content, b"e", b"f"):
        t.expect(transaction.get(key), other.get(key))
        if can.timestamped:
            t.expect(transaction.get_with_timestamp(key), other.get_with_timestamp(key))
    for method, arguments in reads_of_many(can):
        t.expect(transaction.scan(method, *arguments), other.scan(method, *arguments))
    if can.entry_count and can.kind == "key-value":
        transaction.approximate_num_entries()
    if isolates(t):
        t.expect([store.get(key) for key in (b"a", b"b", b"c", b"d")], [b"1", b"2", b"3", None])
    transaction.commit({CHANGELOG: 9})
    t.expect({key: store.get(key) for key in content}, content)


@check("TXN-001", "TXN-002")
def reads_its_own_writes(t: Trial) -> None:
    """Write and read in one transaction."""
    store = base(t)
    transaction = store.begin()
    t.claim("TXN-001", "put in a transaction, then get in the same transaction")
    t.expect(transaction.get(b"a"), b"1")
    transaction.put(b"a", b"staged")
    transaction.put(b"d", b"new")
    t.expect((transaction.get(b"a"), transaction.get(b"d")), (b"staged", b"new"))
    t.claim("TXN-002", "delete in a transaction, then get in the same transaction")
    t.expect(transaction.delete(b"b"), b"2")
    t.expect(transaction.get(b"b"), None)
    t.expect(transaction.put_if_absent(b"b", b"again"), None)
    t.expect(transaction.get(b"b"), b"again")
    transaction.close()


@check("TXN-003")
def scans_merge(t: Trial) -> None:
    """Scan a transaction that adds, overwrites and deletes."""
    t.claim("TXN-003", "scan a transaction that adds, overwrites and deletes entries")
    store = base(t)
    transaction = store.begin()
    transaction.put(b"aa", b"new")
    transaction.put(b"b", b"changed")
    transaction.delete(b"c")
    transaction.put(b"d", b"last")
    expected = [(b"a", b"1"), (b"aa", b"new"), (b"b", b"changed"), (b"d", b"last")]
    if t.has("all"):
        t.expect(transaction.scan("all"), expected)
    t.expect(transaction.scan("range", b"aa", b"c"), expected[1:3])
    if t.lab.subject.capabilities.reverse:
        t.expect(transaction.scan("reverse_all"), expected[::-1])
        t.expect(transaction.scan("reverse_range", b"aa", b"c"), expected[2:0:-1])
    if t.lab.subject.capabilities.prefix_scan:
        t.expect(transaction.scan("prefix_scan", b"a"), expected[:2])
    transaction.close()


@check("TXN-007")
def closing_again(t: Trial) -> None:
    """Close a transaction that was closed, and one that was committed."""
    t.claim("TXN-007", "close a transaction twice")
    store = base(t)
    transaction = store.begin()
    transaction.put(b"d", b"new")
    transaction.close()
    t.expect(transaction.read("is_open"), False)
    transaction.close()
    t.expect((transaction.read("is_open"), store.read("is_open")), (False, True))
    t.claim("TXN-007", "close a transaction that was committed")
    transaction = store.begin()
    transaction.put(b"a", b"committed")
    transaction.commit({CHANGELOG: 3})
    for _ in range(2):
        transaction.close()
        t.expect((transaction.read("is_open"), store.read("is_open")), (False, True))
        t.expect(store.get(b"a"), b"committed")


@check("TXN-029")
def transactions_end_alone(t: Trial) -> None:
    """End one of two transactions of a store that may have staged writes of its own."""
    store = base(t)
    store.put(b"c", b"own")
    for end, arguments in ENDS:
        t.claim("TXN-029", f"{end} one of two transactions, then use the other one and the store")
        first, second = store.begin(), store.begin()
        first.put(b"a", b"first")
        second.put(b"b", b"second")
        second.put(b"d", b"second")
        first.call(end, *arguments)
        t.expect((second.read("is_open"), store.read("is_open")), (True, True))
        t.expect((second.get(b"b"), second.get(b"d")), (b"second", b"second"))
        if isolates(t):
            t.expect((store.get(b"b"), store.get(b"d")), (b"2", None))
        second.close()
        t.expect(store.get(b"c"), b"own")
    if t.run.exact and t.lab.subject.capabilities.persistent:
        t.claim("TXN-029", "commit a transaction and not the store, then read with a new store")
        store = t.reopen(store)
        t.expect((store.get(b"a"), store.get(b"c")), (b"first", b"3"))


@check("TXN-004")
def close_discards(t: Trial) -> None:
    """Close a transaction without committing it."""
    t.claim("TXN-004", "close a transaction, then read the store")
    store = base(t)
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    transaction.delete(b"b")
    transaction.put(b"d", b"new")
    transaction.close()
    t.expect([store.get(key) for key in (b"a", b"b", b"d")], [b"1", b"2", None])
    t.expect(store.committed_offset(CHANGELOG), 2)
    store = t.reopen(store)
    t.expect([store.get(key) for key in (b"a", b"b", b"d")], [b"1", b"2", None])
    t.expect(store.read("is_open"), True)


@check("TXN-005", "TXN-006")
def commit_writes_all(t: Trial) -> None:
    """Commit a transaction with an offset, then read the store and the transaction."""
    store = base(t)
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    transaction.delete(b"b")
    transaction.put(b"d", b"new")
    t.claim("TXN-005", "commit a transaction with an offset, then read the store")
    transaction.commit({CHANGELOG: 5})
    expected = [b"staged", None, b"3", b"new"]
    t.expect([store.get(key) for key in (b"a", b"b", b"c", b"d")], expected)
    t.expect(store.committed_offset(CHANGELOG), 5)
    t.claim("TXN-006", "use a transaction that was committed")
    expect_ended(t, transaction, b"a")
    t.claim("TXN-005", "commit a transaction, close, and read with a new store")
    store = t.reopen(store)
    t.expect([store.get(key) for key in (b"a", b"b", b"c", b"d")], expected)
    t.expect(store.committed_offset(CHANGELOG), 5)


@check("TXN-006")
def ended_transaction_refuses(t: Trial) -> None:
    """Use a transaction that was closed."""
    t.claim("TXN-006", "use a transaction that was closed")
    store = base(t)
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    transaction.close()
    expect_ended(t, transaction, b"a")
    t.expect(store.committed_offset(CHANGELOG), 2)


@check("TXN-017")
def put_all_is_staged(t: Trial) -> None:
    """Put a batch in a transaction, and roll the transaction back."""
    t.claim("TXN-017", "put_all in a transaction, close it, then read the store")
    store = base(t)
    transaction = store.begin()
    transaction.put_all([(b"a", b"staged"), (b"b", None), (b"d", b"new")])
    found = [transaction.get(key) for key in (b"a", b"b", b"d")]
    t.expect(found, [b"staged", None, b"new"])
    transaction.close()
    t.expect([store.get(key) for key in (b"a", b"b", b"d")], [b"1", b"2", None])


@check("TXN-008")
def staged_batch_is_not_durable(t: Trial) -> None:
    """Put a batch without a commit, close the store, and reopen it."""
    t.claim("TXN-008", "put_all without commit, close the store, then read with a new one")
    store = base(t)
    store.put_all([(b"a", b"staged"), (b"b", None), (b"d", b"new")])
    t.expect(store.get(b"d"), b"new")
    store = t.reopen(store)
    t.expect([store.get(key) for key in (b"a", b"b", b"d")], [b"1", b"2", None])


@check("TXN-031")
def open_transactions_are_not_in_the_files(t: Trial) -> None:
    """Stage writes in a transaction, and read a copy of the files."""
    t.claim("TXN-031", "stage writes in a transaction, and read the files that a kill would leave")
    store = t.reopen(base(t))
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    transaction.delete(b"b")
    # Several times as much as the write buffers of the lab hold.
    large = [(b"large%03d" % number, b"." * 1000) for number in range(200)]
    transaction.put_all([(b"d", b"new"), *large])
    if callable(getattr(store.raw, "flush", None)):
        store.flush()
    copy = t.open_copy()
    found = [copy.get(key) for key in (b"a", b"b", b"d", *(key for key, _ in large))]
    t.expect(found, [b"1", b"2", None, *[None] * len(large)])
    if t.lab.subject.capabilities.manages_offsets:
        t.expect(copy.committed_offset(CHANGELOG), 2)
    transaction.close()


def three_open(t: Trial) -> tuple[Handle, dict[bytes, Handle]]:
    """A store with three transactions, by the key that each has staged."""
    store = base(t)
    transactions = {key: store.begin() for key in (b"a", b"b", b"d")}
    for key, transaction in transactions.items():
        transaction.put(key, b"staged")
    return store, transactions


@check("TXN-009")
def closes_with_its_store(t: Trial) -> None:
    """Close a store with several open transactions, twice, and use the transactions."""
    t.claim("TXN-009", "close a store that has three open transactions, and use them")
    store, transactions = three_open(t)
    store.close()
    for key, transaction in transactions.items():
        expect_ended(t, transaction, key)
    t.claim("TXN-009", "close the store again, close its transactions, and use them")
    store.close()
    for key, transaction in transactions.items():
        transaction.close()
        expect_ended(t, transaction, key)
    if isolates(t):
        store = t.open()
        found = [store.get(key) for key in (b"a", b"b", b"d", b"late")]
        t.expect(found, [b"1", b"2", None, None])
        t.expect(store.committed_offset(CHANGELOG), 2)


@check("TXN-010")
def counts_uncommitted(t: Trial) -> None:
    """Read the number of uncommitted entries before, in and after a commit.

    A store that cannot count answers -1, always or at times.
    """
    t.claim("TXN-010", "read the number of uncommitted entries of a store without staged writes")
    store = base(t)

    def expect_entries(number: int) -> None:
        found = store.approximate_num_uncommitted_entries()
        t.expect_that(found in (-1, number), f"{number} entries (or -1, unknown)", found)

    expect_entries(0)
    t.claim("TXN-010", "stage writes, then read the number of uncommitted entries")
    store.put(b"a", b"staged")
    store.put(b"b", b"staged")
    expect_entries(2)
    t.claim("TXN-010", "stage a delete, then read the number of uncommitted entries")
    store.delete(b"c")
    expect_entries(3)
    t.claim("TXN-010", "stage a batch, then read the number of uncommitted entries")
    store.put_all([(b"d", b"staged"), (b"e", b"staged")])
    expect_entries(5)
    t.claim("TXN-010", "commit, then read the number of uncommitted entries")
    store.commit({CHANGELOG: 5})
    expect_entries(0)


MUCH = 1 << 20
"""More bytes than a store needs for 3,000 staged bytes, whatever it allocates at a time."""


@check("TXN-032")
def measures_uncommitted(t: Trial) -> None:
    """Read the number of uncommitted bytes before, in and after a commit.

    As proposed, a store that cannot count answers -1, always or at times.
    """
    unknown = (-1,) if t.run.settings.spec == "kips" else ()
    or_unknown = " (or -1, unknown)" if unknown else ""
    t.claim("TXN-032", "read the number of uncommitted bytes of a store without staged writes")
    store = base(t)
    idle = store.approximate_num_uncommitted_bytes()
    t.expect_that(idle in unknown or idle >= 0, f"at least 0 bytes{or_unknown}", idle)
    t.claim("TXN-032", "stage writes, then read the number of uncommitted bytes")
    store.put(b"a", b"x" * 1000)
    store.put_all([(b"b", b"y" * 1000), (b"d", b"z" * 1000)])
    staged = store.approximate_num_uncommitted_bytes()
    more = staged - max(idle, 0)
    enough = staged in unknown or 3000 <= more < MUCH
    t.expect_that(enough, f"3000 bytes more, and not {MUCH}{or_unknown}", staged)
    t.claim("TXN-032", "commit, then read the number of uncommitted bytes")
    store.commit({CHANGELOG: 5})
    left = store.approximate_num_uncommitted_bytes()
    fallen = left in (*unknown, idle) or (idle == -1 and 0 <= left < 3000)
    t.expect_that(fallen, f"the bytes from before the writes{or_unknown}", left)


@check("TXN-011")
def nothing_uncommitted(t: Trial) -> None:
    """Read the numbers of uncommitted entries and bytes of a store without transactions."""
    t.claim("TXN-011", "write, then read the uncommitted numbers")
    store = t.open()
    writes: tuple[Callable[[], object], ...] = (
        lambda: store.put(b"a", b"x" * 1000),
        lambda: store.put_all([(b"b", b"2"), (b"c", b"3")]),
        lambda: store.delete(b"b"),
        lambda: store.commit({CHANGELOG: 3}),
        lambda: store.put(b"a", b"4"),
    )
    for write in writes:
        write()
        t.expect(store.approximate_num_uncommitted_entries(), 0)
        t.expect(store.approximate_num_uncommitted_bytes(), 0)


@check("TXN-012")
def returns_itself(t: Trial) -> None:
    """Call new_transaction on a store without transactions."""
    t.claim("TXN-012", "call new_transaction on a store without transactions")
    store = t.open()
    transaction = store.begin()
    found = f"another object, of type {type(transaction.raw).__name__}"
    itself = f"{transaction.label} is {store.label}"
    t.expect_shown(itself, transaction.raw is store.raw, "the store itself", found)


@check("TXN-013")
def store_commit_commits_all(t: Trial) -> None:
    """Commit a store that has open transactions."""
    t.claim("TXN-013", "write in two transactions, then commit the store")
    store = base(t)
    first = store.begin()
    second = store.begin()
    first.put(b"a", b"first")
    second.delete(b"b")
    second.put(b"d", b"second")
    store.commit({CHANGELOG: 7})
    expected = [b"first", None, b"3", b"second"]
    t.expect([store.get(key) for key in (b"a", b"b", b"c", b"d")], expected)
    t.expect(store.committed_offset(CHANGELOG), 7)
    expect_ended(t, first, b"a")
    expect_ended(t, second, b"d")
    if t.lab.subject.capabilities.persistent:
        store = t.reopen(store)
        t.expect([store.get(key) for key in (b"a", b"b", b"c", b"d")], expected)
        t.expect(store.committed_offset(CHANGELOG), 7)


@check("TXN-014")
def transactions_are_apart(t: Trial) -> None:
    """Write in one transaction and read in another."""
    t.claim("TXN-014", "write in one transaction, then read in another")
    store = base(t)
    first = store.begin()
    second = store.begin()
    before = all_reads(t, second)
    first.put(b"a", b"staged")
    first.delete(b"b")
    first.put(b"d", b"new")
    t.expect([second.get(key) for key in (b"a", b"b", b"d")], [b"1", b"2", None])
    t.expect(all_reads(t, second), before)
    second.close()
    t.expect(first.get(b"d"), b"new")
    first.close()


@check(
    "TXN-015",
    given=lambda g: {"programs": g.transactions()},
)
def many_transactions(t: Trial, programs: list[tuple[Writes, bool]]) -> None:
    """Run transactions one after another, some committed and some rolled back."""
    t.claim("TXN-015", "commit some transactions, roll back others, and read the store")
    store = t.open()
    content: dict[bytes, bytes] = {}
    keys = {key for writes, _ in programs for key, _ in writes}
    for number, (writes, commit) in enumerate(programs):
        transaction = store.begin()
        staged = dict(content)
        for key, value in writes:
            transaction.put(key, value)
            staged.pop(key, None)
            if value is not None:
                staged[key] = value
        t.expect(
            {k: transaction.get(k) for k in sorted(keys)}, {k: staged.get(k) for k in sorted(keys)}
        )
        if commit:
            transaction.commit({CHANGELOG: number})
            content = staged
        else:
            transaction.close()
        t.expect({k: store.get(k) for k in sorted(keys)}, {k: content.get(k) for k in sorted(keys)})


@check("TXN-016")
def transaction_is_a_view(t: Trial) -> None:
    """Read the name and the flags of transactions, before and after their ends."""
    store = base(t)
    for end, arguments in ENDS:
        t.claim("TXN-016", f"read the name and the flags of a transaction, before and after {end}")
        transaction = store.begin()
        t.expect(transaction.read("name"), store.read("name"))
        t.expect(transaction.read("persistent"), store.read("persistent"))
        t.expect(transaction.read("is_open"), True)
        transaction.call(end, *arguments)
        t.expect((transaction.read("is_open"), store.read("is_open")), (False, True))


@check("TXN-019")
def transaction_tells_its_level(t: Trial) -> None:
    """Read the isolation level of a transaction."""
    t.claim("TXN-019", "read the isolation level of a transaction")
    t.require_local("a store host is not asked for the isolation level")
    transaction = t.open().begin()
    exactly_once = t.lab.guarantee == "exactly-once"
    expected = IsolationLevel.READ_COMMITTED if exactly_once else IsolationLevel.READ_UNCOMMITTED
    t.expect(transaction.read("isolation_level"), expected)
    t.claim("TXN-019", "read the isolation level of a transaction that a transaction has opened")
    other = transaction.begin()
    t.expect(other.read("isolation_level"), expected)
    other.close()
    transaction.close()


@check("TXN-020")
def transaction_of_a_transaction(t: Trial) -> None:
    """Open a transaction from a transaction: it is a new one, or the same one, reset."""
    t.claim("TXN-020", "call new_transaction on a transaction that has staged a write")
    store = base(t)
    first = store.begin()
    first.put(b"a", b"staged")
    second = first.begin()
    t.expect(second.read("is_open"), True)
    t.expect(second.read("name"), store.read("name"))
    if not t.lab.subject.is_remote:
        t.expect(second.read("isolation_level"), first.read("isolation_level"))
    if isolates(t):
        t.expect(second.get(b"a"), b"1")
    second.put(b"b", b"second")
    if isolates(t):
        t.expect(store.get(b"b"), b"2")
    second.commit({CHANGELOG: 3})
    t.expect(store.get(b"b"), b"second")
    t.claim("TXN-020", "call new_transaction on a transaction that has ended")
    third = second.begin()
    t.expect((third.read("is_open"), third.get(b"b")), (True, b"second"))
    third.put(b"c", b"third")
    t.expect(third.get(b"c"), b"third")
    third.close()
    first.close()
    if isolates(t):
        t.expect((store.get(b"a"), store.get(b"c")), (b"1", b"3"))


@check("TXN-021")
def initializing_a_transaction(t: Trial) -> None:
    """Call init on a transaction that has staged a write."""
    t.claim("TXN-021", "call init on a transaction that has staged a write")
    t.require_local("a store host is not asked to initialize a transaction")
    store = base(t)
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    context = t.lab.context
    registered = dict(context.restore_callbacks) if context else {}
    t.note(f"{transaction.label}.init(lab.context, {transaction.label})")
    with t.watching("init() of a transaction"):
        transaction.raw.init(context, transaction.raw)
    t.expect((transaction.read("is_open"), transaction.get(b"a")), (True, b"staged"))
    t.expect((store.read("is_open"), store.get(b"c")), (True, b"3"))
    if isolates(t):
        t.expect(store.get(b"a"), b"1")
    after = dict(context.restore_callbacks) if context else {}
    t.expect_that(after == registered, "no other restore callback", sorted(after))
    transaction.commit({CHANGELOG: 3})
    t.expect(store.get(b"a"), b"staged")


@check("TXN-022")
def leaving_a_block(t: Trial) -> None:
    """Leave the block of a with statement: at its end, by an error, and after a commit."""
    t.claim("TXN-022", "leave the block that opened a transaction")
    t.require_local("with statements are those of the client, not of the store host")
    store = base(t)
    for error in (None, ValueError("the block fails on purpose")):
        transaction = store.begin()
        transaction.call("__enter__")
        transaction.put(b"a", b"staged")
        kind = None if error is None else type(error)
        swallowed = transaction.call("__exit__", kind, error, None)
        t.expect_that(not swallowed, "the error of the block to go on", swallowed)
        t.expect((transaction.read("is_open"), store.read("is_open")), (False, True))
        if isolates(t):
            t.expect(store.get(b"a"), b"1")
    transaction = store.begin()
    transaction.call("__enter__")
    transaction.put(b"a", b"committed")
    transaction.commit({CHANGELOG: 3})
    transaction.call("__exit__", None, None, None)
    t.expect((store.read("is_open"), store.get(b"a")), (True, b"committed"))


@check("TXN-023")
def counts_open_transactions(t: Trial) -> None:
    """Read the uncommitted numbers of a store with several transactions, which end one by one."""
    t.claim("TXN-023", "stage writes in two transactions, and end one after the other")
    store = base(t)
    idle = store.approximate_num_uncommitted_entries()
    idle_bytes = store.approximate_num_uncommitted_bytes()
    first, second = store.begin(), store.begin()
    first.put(b"a", b"first")
    second.put(b"b", b"second")
    second.put(b"c", b"second")
    expected = [3, 2, 0]
    ends: list[Callable[[], object]] = [first.close, lambda: second.commit({CHANGELOG: 3})]
    for number, staged in enumerate(expected):
        found = store.approximate_num_uncommitted_entries()
        if -1 not in (idle, found):
            t.expect(found - idle, staged)
        found = store.approximate_num_uncommitted_bytes()
        if -1 not in (idle_bytes, found):
            # Each write has a key of one byte, and a value of at least five.
            more = found - idle_bytes
            t.expect_that(more >= 6 * staged, f"at least {6 * staged} bytes more", found)
            t.expect_that(staged > 0 or more == 0, "the bytes from before the writes", found)
        if number < len(ends):
            ends[number]()


@check("TXN-024")
def ended_transactions_are_released(t: Trial) -> None:
    """End transactions in every way, and look whether the store still refers to one."""
    t.claim("TXN-024", "end transactions, drop them, and look whether the store keeps one")
    t.require_local("references are in the process of the store host")
    store = base(t)
    ends: dict[str, Callable[[Any], object]] = {
        "transaction.close()": lambda transaction: transaction.close(),
        "transaction.commit({CHANGELOG: 3})": lambda transaction: transaction.commit(
            {CHANGELOG: 3}
        ),
        f"{store.label}.commit({{CHANGELOG: 4}})": lambda _: store.raw.commit({CHANGELOG: 4}),
    }
    is_layer = t.lab.subject.capabilities.kind != "key-value"
    t.note("import gc, weakref")
    for way, end in ends.items():
        t.note(f"transaction = {store.label}.new_transaction()")
        t.note("transaction.put(b'a', b'staged')")
        t.note(f"reference = weakref.ref(transaction{'.store' if is_layer else ''})")
        t.note(way)
        with t.watching(way):
            reference = _ended(store, end)
        t.note("del transaction")
        t.note("gc.collect()")
        gc.collect()
        if reference is not None:
            gone = reference() is None
            expected = "no reference to the transaction"
            t.expect_shown("reference() is None", gone, expected, "a reference to it")


@check("TXN-025")
def runtime_opens_transactions(t: Trial) -> None:
    """Build a store as the runtime does, and close it without a commit after each write."""
    t.claim("TXN-025", "write to a store that the runtime has built, and close without a commit")
    store = t.open_built()
    store.put(b"a", b"staged")
    store.close()
    store = t.open_built()
    t.expect(store.get(b"a"), None)
    t.claim("TXN-025", "commit, write to the next transaction, and close without a commit")
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 1})
    store.put(b"a", b"staged")
    store.put(b"b", b"staged")
    t.expect((store.get(b"a"), store.get(b"b")), (b"staged", b"staged"))
    store.close()
    store = t.open_built()
    t.expect((store.get(b"a"), store.get(b"b")), (b"1", None))
    t.expect(store.committed_offset(CHANGELOG), 1)


@check("TXN-027")
def one_method_creates_transactions(t: Trial) -> None:
    """Watch the method that creates transactions while a store opens one."""
    t.claim("TXN-027", "let create_transaction of a store note what new_transaction gets from it")
    t.require_local("the methods of a store are in the process of the store host")
    store = base(t)
    owner, name = _creator(store)
    if owner is None:
        raise Skipped("the store does not extend the base class of transactional stores")
    create, made = owner.create_transaction, []

    def noted() -> Any:
        made.append(create())
        return made[-1]

    t.note(f"create, made = {name}.create_transaction, []")
    t.note(f"{name}.create_transaction = lambda: made.append(create()) or made[-1]")
    t.note(f"transaction = {name}.new_transaction()")
    t.note(f"del {name}.create_transaction")
    owner.create_transaction = noted
    try:
        with t.watching("new_transaction()"):
            transaction = owner.new_transaction()
    finally:
        del owner.create_transaction
    kind = type(transaction).__name__
    is_one = isinstance(transaction, AbstractTransaction)
    read = "isinstance(transaction, AbstractTransaction)"
    t.expect_shown(read, is_one, "an AbstractTransaction", kind)
    is_it = len(made) == 1 and transaction is made[0]
    expected = "the transaction that create_transaction made"
    read = "len(made) == 1 and transaction is made[0]"
    t.expect_shown(read, is_it, expected, f"{len(made)} were made")
    t.expect(t.asked("transaction.is_open", transaction.is_open), True)
    store.close()
    t.expect(t.asked("transaction.is_open", transaction.is_open), False)


@check("TXN-030")
def callbacks_follow_the_end(t: Trial) -> None:
    """Register callbacks with transactions, and end the transactions in every way."""
    t.claim("TXN-030", "register a callback with a transaction, end the transaction, and close it")
    t.require_local("the callbacks of a transaction are in the process of the store host")
    store = base(t)
    owner, name = _creator(store)
    if owner is None:
        raise Skipped("the store does not extend the base class of transactional stores")
    ends: dict[str, Callable[[Any], object]] = {
        "transaction.commit({CHANGELOG: 3})": lambda transaction: transaction.commit(
            {CHANGELOG: 3}
        ),
        "transaction.close()": lambda transaction: transaction.close(),
        f"{store.label}.commit({{CHANGELOG: 4}})": lambda _: store.raw.commit({CHANGELOG: 4}),
        f"{store.label}.close()": lambda _: store.raw.close(),
    }
    t.note("callback = lambda: told.append(transaction.is_open)")
    for way, end in ends.items():
        t.note(f"transaction, told = {name}.new_transaction(), []")
        t.note("for each in range(2): transaction.add_close_callback(callback)")
        t.note(way)
        t.note("transaction.close()")
        with t.watching(way):
            found = _told_of_the_end(owner.new_transaction(), end)
        t.expect(t.asked("told", found), [False, False])


def _told_of_the_end(transaction: Any, end: Callable[[Any], object]) -> list[bool]:
    """What two callbacks find in ``is_open`` of a transaction that ends, and is closed again."""
    found: list[bool] = []
    for _ in range(2):
        transaction.add_close_callback(lambda: found.append(transaction.is_open))
    end(transaction)
    transaction.close()
    return found


def _creator(store: Handle) -> tuple[Any, str]:
    """The store on the base class of transactional stores, around which others are layers.

    The store comes with its expression in a program.
    """
    found, name = store.raw, store.label
    while found is not None and not isinstance(found, AbstractTransactionalStore):
        attribute = "store" if isinstance(found, ROWS) else "inner"
        found, name = getattr(found, attribute, None), f"{name}.{attribute}"
    return found, name


def _ended(store: Handle, end: Callable[[Any], object]) -> weakref.ref[Any] | None:
    """A weak reference to a transaction that has ended; ``None`` if its type allows none."""
    transaction = store.raw.new_transaction()
    transaction.put(b"a", b"staged")
    itself = transaction.store if isinstance(transaction, ROWS) else transaction
    try:
        reference = weakref.ref(itself)
    except TypeError:
        reference = None
    end(transaction)
    return reference
