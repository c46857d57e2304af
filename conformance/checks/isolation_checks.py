"""Isolation: what concurrent readers may see."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.race_checks import SWITCH_S, switching_often
from streamproof.conformance.checks.transaction_checks import all_reads, reads_of_many
from streamproof.conformance.lab import CHANGELOG, IsolationLevel
from streamproof.conformance.trial import SCAN_LIMIT, Handle, Trial

GENERATION_KEYS = 64
"""The keys that each commit of the concurrent check writes together."""


def reader_and_writer(t: Trial) -> tuple[Handle, Handle, Handle]:
    """A store, a way to read committed entries, and a way to stage writes.

    If the subject has views, the store stages and a view reads. Otherwise a transaction stages and
    the store itself reads, as KIP-892 routes interactive queries.
    """
    store = t.open()
    store.put_all([(b"a", b"1"), (b"b", b"2")])
    store.commit({CHANGELOG: 1})
    if t.lab.subject.capabilities.read_only_views:
        return store, store.view(IsolationLevel.READ_COMMITTED), store
    return store, store, store.begin()


@check("ISO-001", "ISO-002", "ISO-003", "ISO-004")
def staged_writes_are_hidden(t: Trial) -> None:
    """Stage writes, read as a committed reader, commit, and read again."""
    store, reader, writer = reader_and_writer(t)
    before_staging = all_reads(t, reader)
    writer.put(b"a", b"staged")
    writer.put(b"c", b"new")
    t.claim("ISO-001", "stage a put, then get the key as a committed reader")
    t.expect((reader.get(b"a"), reader.get(b"c")), (b"1", None))
    writer.delete(b"b")
    t.claim("ISO-002", "stage a delete, then get the key as a committed reader")
    t.expect(reader.get(b"b"), b"2")
    t.claim("ISO-003", "stage writes, then scan as a committed reader")
    before = [(b"a", b"1"), (b"b", b"2")]
    if t.has("all"):
        t.expect(reader.scan("all"), before)
    if t.has("range"):
        t.expect(reader.scan("range", b"a", b"z"), before)
    if t.has("reverse_all"):
        t.expect(reader.scan("reverse_all"), before[::-1])
    if t.has("prefix_scan"):
        t.expect(reader.scan("prefix_scan", b"c"), [])
    t.expect(all_reads(t, reader), before_staging)
    t.claim("ISO-004", "commit staged writes, then read as a committed reader")
    writer.commit({CHANGELOG: 4})
    t.expect([reader.get(key) for key in (b"a", b"b", b"c")], [b"staged", None, b"new"])
    expect_same_reads(t, reader, store)


@check("ISO-005")
def rolled_back_writes_never_show(t: Trial) -> None:
    """Stage writes, roll them back, and read as a committed reader."""
    t.claim("ISO-005", "roll back staged writes, then read as a committed reader")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 1})
    transaction = store.begin()
    transaction.put(b"a", b"staged")
    transaction.put(b"b", b"new")
    transaction.close()
    t.expect((store.get(b"a"), store.get(b"b")), (b"1", None))
    store.commit({CHANGELOG: 2})
    t.expect((store.get(b"a"), store.get(b"b")), (b"1", None))


@check("ISO-006")
def uncommitted_view_shows_or_hides(t: Trial) -> None:
    """Read staged writes through a READ_UNCOMMITTED view, before and after their commit."""
    t.claim("ISO-006", "stage writes, then read with READ_UNCOMMITTED")
    store, _, writer = reader_and_writer(t)
    view = store.view(IsolationLevel.READ_UNCOMMITTED)
    writer.put(b"a", b"staged")
    writer.delete(b"b")
    writer.put(b"c", b"new")
    for key, values in {b"a": (b"staged", b"1"), b"b": (None, b"2"), b"c": (b"new", None)}.items():
        found = view.get(key)
        t.expect_that(found in values, f"the staged or the committed value: {values}", found)
    t.claim("ISO-006", "commit staged writes, then read with READ_UNCOMMITTED")
    writer.commit({CHANGELOG: 4})
    t.expect([view.get(key) for key in (b"a", b"b", b"c")], [b"staged", None, b"new"])


@check("ISO-025")
def methods_of_a_view_agree(t: Trial) -> None:
    """Stage puts and deletes, and compare what the methods of each view answer."""
    t.claim("ISO-025", "stage puts and deletes, then read with each method of a view")
    store = t.open()
    keys = (b"a", b"b", b"c", b"d", b"e")
    store.put_all([(key, b"old") for key in keys[:4]])
    store.commit({CHANGELOG: 1})
    early = [store.view(level) for level in IsolationLevel]
    expect_one_content(t, early, keys)
    store.put(b"a", b"staged")
    store.delete(b"b")
    store.put(b"d", None)
    store.put(b"e", b"staged")
    expect_one_content(t, early, keys)
    expect_one_content(t, [store.view(level) for level in IsolationLevel], keys)
    store.commit({CHANGELOG: 5})
    expect_one_content(t, early, keys)


def expect_one_content(t: Trial, views: Sequence[Handle], keys: Sequence[bytes]) -> None:
    """Demand of each view that its scans yield what it returns for the keys one by one."""
    for view in views:
        values = [(key, view.get(key)) for key in keys]
        entries = [(key, value) for key, value in values if value is not None]
        t.expect(sorted(view.scan("all")), entries)
        if t.lab.subject.capabilities.kind != "key-value":
            continue
        if t.has("range"):
            t.expect(view.scan("range", keys[0], None), entries)
        if t.has("reverse_all"):
            t.expect(view.scan("reverse_all"), entries[::-1])
        if t.has("reverse_range"):
            t.expect(view.scan("reverse_range", keys[0], None), entries[::-1])
        if t.has("prefix_scan"):
            t.expect(view.scan("prefix_scan", b""), entries)


@check("ISO-022")
def uncommitted_view_reads_staged(t: Trial) -> None:
    """Read staged writes through a READ_UNCOMMITTED view."""
    t.claim("ISO-022", "stage writes, then read with READ_UNCOMMITTED")
    store, _, writer = reader_and_writer(t)
    view = store.view(IsolationLevel.READ_UNCOMMITTED)
    writer.put(b"a", b"staged")
    writer.delete(b"b")
    t.expect((view.get(b"a"), view.get(b"b")), (b"staged", None))


@check("ISO-023")
def at_least_once_stages_nothing(t: Trial) -> None:
    """Write under at-least-once without a commit, then read through views."""
    t.claim("ISO-023", "write without a commit, then read through a view of each level")
    scans = t.lab.subject.capabilities.scan
    store = t.open()
    views = [store.view(level) for level in IsolationLevel]
    store.put_all([(b"a", b"1"), (b"b", b"2")])
    views += [store.view(level) for level in IsolationLevel]
    for view in views:
        t.expect([view.get(key) for key in (b"a", b"b")], [b"1", b"2"])
    store.commit({CHANGELOG: 1})
    views += [store.view(level) for level in IsolationLevel]
    store.put(b"a", b"at once")
    store.delete(b"b")
    store.put_all([(b"c", b"new")])
    for view in views:
        t.expect([view.get(key) for key in (b"a", b"b", b"c")], [b"at once", None, b"new"])
        if scans:
            t.expect(sorted(view.scan("all")), [(b"a", b"at once"), (b"c", b"new")])
        expect_same_reads(t, view, store)
    store.commit({CHANGELOG: 4})
    store.put(b"a", b"after a commit")
    for view in (*views, *(store.view(level) for level in IsolationLevel)):
        t.expect(view.get(b"a"), b"after a commit")


@check("ISO-024")
def at_least_once_holds_nothing_back(t: Trial) -> None:
    """Write under at-least-once, close without a commit, and read with a new store."""
    t.claim("ISO-024", "write, close without a commit, then read with a new store")
    store = t.open()
    store.put(b"a", b"1")
    store = t.reopen(store)
    t.expect(store.get(b"a"), b"1")
    store.commit({CHANGELOG: 1})
    store.put(b"a", b"at once")
    store.put(b"b", b"new")
    store = t.reopen(store)
    t.expect((store.get(b"a"), store.get(b"b")), (b"at once", b"new"))


SHOWN_COMMITS = 300
"""The commits of a program that shows a race."""

SCANS = 50
"""The scans that the reader must finish for each requested commit."""

MOST_ROUNDS = 50
"""To reach that number of scans, the check makes at most this many times the requested commits."""


@check("ISO-007", raw=True, weight=20)
def commits_are_seen_whole(run: CheckRun) -> None:
    """Scan from another thread while commits overwrite all keys at once."""
    with run.trial("ISO-007") as t:
        t.claim("ISO-007", "scan from another thread while each commit overwrites all keys")
        store = t.open()
        store.put_all([(b"key%02d" % number, b"0") for number in range(GENERATION_KEYS)])
        t.lines[-1] = f"store.put_all([(b'key%02d' % n, b'0') for n in range({GENERATION_KEYS})])"
        store.commit({CHANGELOG: 0})
        views = run.subject.capabilities.read_only_views
        reader = store.view(IsolationLevel.READ_COMMITTED) if views else store
        kept = len(t.lines)
        torn, scans, errors = race(t, store, reader, run.settings.limits.concurrent_commits)
        # The rounds are written as a loop, with the thread.
        t.lines[kept:] = race_lines(reader.label, commits_alone=views)
        run.evidence.examples += scans
        raised = "; ".join(f"{type(each).__name__}: {each}" for each in errors)
        t.expect_shown("not errors", not errors, "concurrent scans to succeed", raised)
        t.expect_shown(
            "all(len(each) == 1 for each in scans)",
            not torn,
            "every scan to see exactly one whole commit",
            f"values of several commits: {torn}",
        )


def race_lines(reader: str, *, commits_alone: bool) -> list[str]:
    """A race as a part of a program, with more commits than most checks try."""
    writer = "store" if commits_alone else "transaction"
    begun = [] if commits_alone else ["    transaction = store.new_transaction()"]
    return [
        f"setswitchinterval({SWITCH_S})  # The threads take turns often.",
        "scans, errors, done = [], [], []",
        "def scan():",
        "    try:",
        f"        while not done: scans.append({{value for _, value in {reader}.all()}})",
        "    except Exception as error:",
        "        errors.append(error)",
        "thread = Thread(target=scan)",
        "thread.start()",
        f"for number in range(1, {SHOWN_COMMITS}):",
        *begun,
        f"    for n in range({GENERATION_KEYS}): {writer}.put(b'key%02d' % n, b'%d' % number)",
        f"    {writer}.commit({{CHANGELOG: number}})",
        "done.append(True)",
        "thread.join()",
    ]


def race(
    t: Trial, store: Handle, reader: Handle, commits: int
) -> tuple[set[bytes], int, list[BaseException]]:
    """Commit one generation after another while a thread scans.

    Returns:
        The values of a torn scan, how many scans there were, and the errors of scans.
    """
    keys = [b"key%02d" % number for number in range(GENERATION_KEYS)]
    done = threading.Event()
    torn: set[bytes] = set()
    scans = 0
    errors: list[BaseException] = []

    def scan() -> None:
        nonlocal scans
        try:
            while not done.is_set() and not torn:
                iterator = reader.raw.all()
                some = itertools.islice(iterator, SCAN_LIMIT)
                seen = {bytes(value) for _, value in some}
                if hasattr(iterator, "close"):
                    iterator.close()
                scans += 1
                if len(seen) > 1:
                    torn.update(seen)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=scan, name="reader")
    thread.start()
    views = t.lab.subject.capabilities.read_only_views
    try:
        with switching_often():
            for number in range(1, MOST_ROUNDS * commits + 1):
                # On a busy machine the reader may get no turn and see no commit at all.
                if torn or errors or (number > commits and scans >= SCANS * commits):
                    break
                writer = store if views else store.begin()
                for key in keys:
                    with t.watching("put(…)"):
                        writer.raw.put(key, b"%d" % number)
                writer.commit({CHANGELOG: number})
    finally:
        done.set()
        with t.watching("a scan on another thread"):
            thread.join()
    return torn, scans, errors


@check("ISO-008")
def levels_agree_without_transactions(t: Trial) -> None:
    """Read a store without transactions at both isolation levels."""
    t.claim("ISO-008", "write, then read with both isolation levels")
    store = t.open()
    store.put(b"a", b"1")
    for level in IsolationLevel:
        view = store.view(level)
        t.expect(view.get(b"a"), b"1")
        expect_same_reads(t, view, store)


def expect_same_reads(t: Trial, view: Handle, store: Handle) -> None:
    """Demand that each fetch and scan of a view yields what that of its store does."""
    for method, arguments in reads_of_many(t.lab.subject.capabilities):
        t.expect(view.scan(method, *arguments), store.scan(method, *arguments))
