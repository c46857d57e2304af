"""Transactions: what they show, hide, write and discard."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Handle, Trial

Writes = list[tuple[bytes, bytes | None]]


def base(t: Trial) -> Handle:
    """A store with three committed entries: a, b and c."""
    store = t.open()
    store.put_all([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    store.commit({CHANGELOG: 2})
    return store


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
    t.expect(transaction.scan("all"), expected)
    t.expect(transaction.scan("range", b"aa", b"c"), expected[1:3])
    if t.lab.subject.capabilities.reverse:
        t.expect(transaction.scan("reverse_all"), expected[::-1])
        t.expect(transaction.scan("reverse_range", b"aa", b"c"), expected[2:0:-1])
    if t.lab.subject.capabilities.prefix_scan:
        t.expect(transaction.scan("prefix_scan", b"a"), expected[:2])
    transaction.close()


@check("TXN-004", "TXN-007")
def close_discards(t: Trial) -> None:
    """Close a transaction without committing it."""
    store = base(t)
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    transaction.delete(b"b")
    transaction.put(b"d", b"new")
    t.claim("TXN-007", "close a transaction twice")
    transaction.close()
    t.expect(transaction.read("is_open"), False)
    transaction.close()
    t.claim("TXN-004", "close a transaction, then read the store")
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
    t.expect(transaction.read("is_open"), False)
    t.expect_raises(lambda: transaction.put(b"a", b"late"), "put after commit raises")
    t.expect_raises(lambda: transaction.get(b"a"), "get after commit raises")
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
    transaction.close()
    t.expect_raises(lambda: transaction.put(b"a", b"late"), "put after close raises")
    t.expect_raises(lambda: transaction.get(b"a"), "get after close raises")
    t.expect_raises(lambda: transaction.commit({CHANGELOG: 9}), "commit after close raises")
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


@check("TXN-009")
def closes_with_its_store(t: Trial) -> None:
    """Close a store with open transactions."""
    t.claim("TXN-009", "close a store that has open transactions")
    store = base(t)
    first = store.begin()
    second = store.begin()
    first.put(b"a", b"staged")
    store.close()
    t.expect((first.read("is_open"), second.read("is_open")), (False, False))
    t.expect_raises(lambda: first.put(b"a", b"late"), "put after the store was closed raises")
    store = t.open()
    t.expect(store.get(b"a"), b"1")


@check("TXN-010")
def counts_uncommitted(t: Trial) -> None:
    """Read the numbers of uncommitted entries and bytes before, in and after a transaction."""
    t.claim("TXN-010", "read the uncommitted numbers of a store without staged writes")
    store = base(t)
    t.expect(store.approximate_num_uncommitted_entries(), 0)
    idle = store.approximate_num_uncommitted_bytes()
    t.claim("TXN-010", "stage writes, then read the uncommitted numbers")
    store.put(b"a", b"x" * 1000)
    store.put(b"b", b"y" * 1000)
    entries = store.approximate_num_uncommitted_entries()
    t.expect_that(entries in (-1, 2), "2 entries (or -1, unknown)", entries)
    staged = store.approximate_num_uncommitted_bytes()
    t.expect_that(staged == -1 or staged >= idle + 2000, "at least 2000 bytes more", staged)
    t.claim("TXN-010", "commit, then read the uncommitted numbers")
    store.commit({CHANGELOG: 5})
    t.expect(store.approximate_num_uncommitted_entries(), 0)
    t.expect(store.approximate_num_uncommitted_bytes(), idle)


@check("TXN-011")
def nothing_uncommitted(t: Trial) -> None:
    """Read the numbers of uncommitted entries and bytes of a store without transactions."""
    t.claim("TXN-011", "write, then read the uncommitted numbers")
    store = t.open()
    store.put(b"a", b"1")
    t.expect(store.approximate_num_uncommitted_entries(), 0)
    t.expect(store.approximate_num_uncommitted_bytes(), 0)


@check("TXN-012")
def returns_itself(t: Trial) -> None:
    """Call new_transaction on a store without transactions."""
    t.claim("TXN-012", "call new_transaction on a store without transactions")
    store = t.open()
    transaction = store.begin()
    found = f"another object, of type {type(transaction.raw).__name__}"
    t.expect_that(transaction.raw is store.raw, "the store itself", found)


@check("TXN-013")
def store_commit_commits_all(t: Trial) -> None:
    """Commit a store that has open transactions."""
    t.claim("TXN-013", "write in two transactions, then commit the store")
    store = base(t)
    first = store.begin()
    second = store.begin()
    first.put(b"a", b"first")
    second.put(b"d", b"second")
    store.commit({CHANGELOG: 7})
    t.expect((store.get(b"a"), store.get(b"d")), (b"first", b"second"))
    t.expect(store.committed_offset(CHANGELOG), 7)
    store = t.reopen(store)
    t.expect((store.get(b"a"), store.get(b"d")), (b"first", b"second"))


@check("TXN-014")
def transactions_are_apart(t: Trial) -> None:
    """Write in one transaction and read in another."""
    t.claim("TXN-014", "write in one transaction, then read in another")
    store = base(t)
    first = store.begin()
    second = store.begin()
    first.put(b"a", b"staged")
    first.delete(b"b")
    first.put(b"d", b"new")
    t.expect([second.get(key) for key in (b"a", b"b", b"d")], [b"1", b"2", None])
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
    """Read the name and the flags of a transaction."""
    t.claim("TXN-016", "read the name and the flags of a transaction")
    store = base(t)
    transaction = store.begin()
    t.expect(transaction.read("name"), store.read("name"))
    t.expect(transaction.read("persistent"), store.read("persistent"))
    t.expect(transaction.read("is_open"), True)
    transaction.close()
    t.expect(store.read("is_open"), True)
