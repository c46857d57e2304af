"""The steps of random programs on a store and on its oracle.

A step is offered only if the capabilities of the subject claim it, and if a promise says what must
come of it. :class:`~streamproof.conformance.store_oracle.StoreOracle` knows what a reader may get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, TopicPartition
from streamproof.conformance.program_kinds import ScanMethod, kind_of
from streamproof.conformance.random_steps import step
from streamproof.conformance.store_stage import Reader, StoreStage, Value, Writer, raise_to
from streamproof.conformance.trial import Trial, entry_key
from streamproof.conformance.violations import SubjectRaised
from streamproof.stores.api import NO_TIMESTAMP

__all__ = [
    "USES",
    "StoreProgram",
    "able",
    "expires",
    "overwrites",
    "partitions_of",
    "scans_of",
    "stages",
    "takes_records",
]

MOST_OPEN = 3
"""The most transactions, and the most iterators, that a program has open at once."""

MARKER = b"stream time"
"""The key of a put after a reopening, so that a store that forgot the stream time regains it."""

USES = ("get", "put", "delete", "put_if_absent", "put_all", "commit")
"""The methods that an ended transaction refuses."""

Entries = list[tuple[Any, Value]]
"""Drawn keys with their values."""


def partitions_of(run: CheckRun) -> tuple[tuple[TopicPartition, ...], ...]:
    """The partitions that one commit may name, in every order."""
    if not run.subject.capabilities.several_partitions:
        return ((CHANGELOG,),)
    both = (CHANGELOG, OTHER_CHANGELOG)
    return (CHANGELOG,), both, both[::-1], (OTHER_CHANGELOG,)


def able(*capabilities: str) -> Callable[[CheckRun], bool]:
    """Whether the subject claims these capabilities."""
    return lambda run: all(getattr(run.subject.capabilities, name) for name in capabilities)


def applies(requirement: str) -> Callable[[CheckRun], bool]:
    """Whether a requirement holds for the subject."""
    return lambda run: run.applies(requirement)


def scans_of(run: CheckRun) -> bool:
    """Whether the subject claims a scan."""
    return bool(kind_of(run.subject.capabilities).scans)


def overwrites(run: CheckRun) -> bool:
    """Whether a put replaces what was there: the store does not retain duplicates."""
    return not run.subject.capabilities.retain_duplicates


def expires(run: CheckRun) -> bool:
    """Whether entries of the store expire."""
    return run.subject.capabilities.kind != "key-value"


def stages(run: CheckRun) -> bool:
    """Whether programs open transactions."""
    promise = kind_of(run.subject.capabilities).promises.rolled_back
    return run.applies("TXN-015") or bool(promise and run.applies(promise))


def takes_records(run: CheckRun) -> bool:
    """Whether input records leave traces in the store."""
    return run.applies("POS-002") or run.subject.capabilities.timestamped


class StoreProgram:
    """The steps of a program on a :class:`StoreStage`."""

    def __init__(self, run: CheckRun, t: Trial) -> None:
        self.run = run
        self.stage = StoreStage(run, t)

    # Writing.

    @step(weight=3, key="key", value="value", which="which")
    def put(self, key: Any, value: bytes, which: int = 0) -> None:
        """Put one of the common keys."""
        self.put_any(key, value, which)

    @step(weight=2, key="any_key", value="any_value", which="which")
    def put_any(self, key: Any, value: Value, which: int = 0) -> None:
        """Put any key, or None for its value."""
        at, writer = self.stage.at(key), self.stage.writer(which)
        if self.stage.may_write(writer, at):
            writer.handle.put(at, value)
            if value is not None or overwrites(self.run):
                self.stage.wrote(writer, at, self.stage.cell_after(writer, at, value))

    @step(overwrites, weight=2, key="key", which="which")
    def delete(self, key: Any, which: int = 0) -> None:
        """Delete a key, which may be absent."""
        at, writer = self.stage.at(key), self.stage.writer(which)
        times = self.stage.oracle.times_of(writer.staged)
        if not self.stage.may_write(writer, at) or not self.stage.kind.may_delete(at, times):
            return
        reader = self.stage.reader_of(writer)
        if None in reader.choices(at):
            self.stage.idle()
        self.stage.expect_value(reader, at, writer.handle.delete(at))
        self.stage.wrote(writer, at, None)

    @step(overwrites, key="key", value="any_value", which="which")
    def put_if_absent(self, key: Any, value: Value, which: int = 0) -> None:
        """Put a key only if it is absent. None stores nothing."""
        at, writer = self.stage.at(key), self.stage.writer(which)
        if not self.stage.may_write(writer, at):
            return
        reader = self.stage.reader_of(writer)
        if reader.choices(at) != {None}:
            self.stage.idle()
        found = writer.handle.put_if_absent(at, value)
        self.stage.expect_value(reader, at, found)
        if found is None:
            self.stage.wrote(writer, at, self.stage.cell_of(value))

    @step(weight=2, entries="entries", which="which")
    def put_all(self, entries: Entries, which: int = 0) -> None:
        """Put a batch."""
        if not entries:
            self.stage.idle()
        if expires(self.run):
            # Only a key-value store has this method.
            for key, value in entries:
                self.put_any(key, value, which)
            return
        writer = self.stage.writer(which)
        writer.handle.put_all(entries)
        for key, value in entries:
            self.stage.wrote(writer, key, self.stage.cell_of(value))

    @step(able("timestamped"), key="key", value="any_value", timestamp="timestamp", which="which")
    def put_stamped(self, key: Any, value: Value, timestamp: int = 5, which: int = 0) -> None:
        """Put a value with a timestamp."""
        at, writer = self.stage.at(key), self.stage.writer(which)
        if self.stage.may_write(writer, at):
            writer.handle.put_with_timestamp(at, value, timestamp)
            self.stage.wrote(writer, at, self.stage.cell_of(value, timestamp))

    def write(self, method: str, *keys: Any) -> None:
        """Write these keys with one of :data:`WRITES`."""
        entries: Entries = [(key, method.encode()) for key in keys]
        match method:
            case "put_all":
                self.put_all(entries)
            case "restore":
                self.restore(entries)
            case "put_none":
                for key in keys:
                    self.put_any(key, None)
            case "delete":
                for key in keys:
                    self.delete(key)
            case _:
                for key, value in entries:
                    getattr(self, method)(key, value)

    @step(applies("ERR-001"), method="refusing", entries="entries", at="which", which="which")
    def refuse(self, method: str, entries: Entries, at: int = 0, which: int = 0) -> None:
        """Pass None for a key. The call raises, and what was written before is still there."""
        self.stage.idle()
        writer = self.stage.writer(which)
        batch = method == "put_all"
        self.stage.claim("ERR-002" if batch else "ERR-001", "pass None for a key")
        no_key = self.stage.no_key
        arguments: tuple[Any, ...] = (no_key,) if method in ("get", "delete") else (no_key, b"no")
        if batch:
            arguments = ([*entries[:at], (no_key, b"no"), *entries[at:]],)
        call = partial(writer.handle.call, method, *arguments)
        self.stage.t.expect_raises(call, f"{method} raises if a key is None")
        self.stage.claim("ERR-002" if batch else "ERR-006", "read after a refused call")
        reader = self.stage.reader_of(writer)
        for key in sorted({*writer.staged.cells, *(key for key, _ in entries if batch)}):
            self.stage.expect_value(reader, key, writer.handle.get(key))

    @step(takes_records, partition="input_partition", offset="input_offset", timestamp="timestamp")
    def process(self, partition: int, offset: int, timestamp: int = NO_TIMESTAMP) -> None:
        """Begin to process an input record."""
        timestamp = timestamp if self.stage.can.timestamped else NO_TIMESTAMP
        self.stage.t.processing(offset, partition=partition, timestamp=timestamp)
        self.stage.record, self.stage.timestamp = ("input", partition, offset), timestamp

    # Reading.

    @step(weight=2, key="key", which="which")
    def get(self, key: Any, which: int = 0) -> None:
        """Get a key."""
        at, reader = self.stage.at(key), self.stage.reader(which)
        self.stage.expect_value(reader, at, reader.handle.get(at))

    @step(able("timestamped"), key="key", which="which")
    def get_stamped(self, key: Any, which: int = 0) -> None:
        """Get a value with its timestamp."""
        at = self.stage.at(key)
        reader = self.stage.reader_of(self.stage.writer(which))
        self.stage.claim("TS-001", "a random program that reads timestamps")
        found = reader.handle.get_with_timestamp(at)
        self.stage.expect_one(None if found is None else tuple(found), reader.choices(at))

    @step(scans_of, weight=3, method="scan", low="bound", high="bound", which="which")
    def scan(self, method: ScanMethod, low: Any, high: Any, which: int = 0) -> None:
        """Read a whole scan."""
        reader, bounds = self.stage.scanner(method, which), self.stage.bounds(method, low, high)
        found = reader.handle.scan(method.name, *bounds.arguments)
        self.stage.blame(reader, found)
        self.stage.compare(found, self.stage.expected(reader, method, bounds), to_end=True)

    @step(applies("POS-002"))
    def ask_position(self) -> None:
        """Read the position. Nothing says whether that of open transactions is in it."""
        if not any(each.position for each in self.stage.transactions):
            self.compare_position("POS-002")

    def compare_position(self, requirement: str) -> None:
        """Compare the position of the store with that of its writes."""
        promise = "POS-008" if self.stage.restored else requirement
        self.stage.claim(promise, "a random program that reads the position")
        self.stage.t.expect(self.stage.store.position(), self.stage.position)

    @step(able("manages_offsets", "persistent"))
    def ask_offsets(self) -> None:
        """Ask for the committed offsets."""
        self.compare_offsets("OFFSET-013")

    def compare_offsets(self, requirement: str) -> None:
        """Compare the committed offset of each partition."""
        self.stage.claim(requirement, "a random program that reads the committed offsets")
        for partition in (CHANGELOG, OTHER_CHANGELOG):
            found = self.stage.store.committed_offset(partition)
            self.stage.t.expect(found, self.stage.offsets.get(partition))

    @step(able("read_only_views"), lambda m: len(m.stage.views) < MOST_OPEN, which="which")
    def open_view(self, which: int = 0) -> None:
        """Open a view, and keep it."""
        views = self.stage.possible_views()
        if not views:
            return
        level = list(views)[which % len(views)]
        requirement, choices = views[level]
        self.stage.claim(requirement)
        self.stage.views.append(Reader(self.stage.store.view(level), choices, requirement))

    def read(self, method: str | ScanMethod, *keys: Any) -> None:
        """Read these keys, or everything with a scan."""
        if isinstance(method, ScanMethod):
            self.scan(method, *self.stage.kind.samples()[1][0])
        else:
            for key in keys:
                self.get(key)

    # Iterators that stay open.

    @step(
        scans_of,
        lambda m: len(m.stage.iterators) < MOST_OPEN,
        weight=2,
        method="scan",
        low="bound",
        high="bound",
        which="which",
    )
    def iterate(self, method: ScanMethod, low: Any, high: Any, which: int = 0) -> None:
        """Open an iterator, and leave it open."""
        reader, bounds = self.stage.scanner(method, which), self.stage.bounds(method, low, high)
        handle = reader.handle.iterate(method.name, *bounds.arguments)
        self.stage.opened(handle, reader, self.stage.expected(reader, method, bounds))

    @step(scans_of, lambda m: m.stage.iterators, weight=4, which="which")
    def advance(self, which: int = 0) -> None:
        """Read the next entry of an open iterator, perhaps beyond its end."""
        iterator = self.stage.iterator(which)
        if not overwrites(self.run) and not iterator.ended:
            return  # The values of one window would come one by one.
        if iterator.ended:
            promise = self.stage.kind.promises.closes
            self.stage.claim(promise, "a random program that reads an iterator beyond its end")
        entry = iterator.handle.advance()
        if iterator.ended:
            self.stage.t.expect(entry, None)
        else:
            iterator.ended = entry is None
            found = [] if entry is None else [entry]
            self.stage.compare(found, iterator.scan, to_end=iterator.ended)

    @step(
        scans_of,
        lambda m: m.stage.iterators,
        which="which",
        value="any_value",
        writer="which",
    )
    def write_before(self, which: int = 0, value: Value = None, writer: int = 0) -> None:
        """Overwrite or delete the entry that an iterator stands before."""
        keys = self.stage.iterator(which).scan.next_keys()
        if keys:
            self.put_any(keys[0], value, writer)

    @step(
        lambda run: scans_of(run) and expires(run),
        lambda m: m.stage.iterators,
        which="which",
    )
    def peek(self, which: int = 0) -> None:
        """Look at the next key of an iterator over windows or sessions, and read that entry."""
        iterator = self.stage.iterator(which)
        if iterator.ended:
            return
        self.stage.claim(self.stage.kind.promises.peeks, "a random program that peeks")
        call = iterator.handle.peek_next_key
        if not iterator.scan.next_keys():
            self.stage.t.expect_raises(call, "peek_next_key raises at the end")
        elif iterator.scan.certain:
            shown = entry_key(call())
            # The values of one window belong together.
            iterator.ended = not overwrites(self.run)
            if iterator.ended:
                found = iterator.handle.remaining()
            else:
                entry = iterator.handle.advance()
                found = [] if entry is None else [entry]
            self.stage.t.expect(found[0][0] if found else None, shown)
            self.stage.iterator(which)
            self.stage.compare(found, iterator.scan, to_end=iterator.ended)

    @step(scans_of, lambda m: m.stage.iterators, which="which", twice="flag")
    def finish(self, which: int = 0, *, twice: bool = False) -> None:
        """Read the rest of an iterator, and close it, perhaps twice."""
        iterator = self.stage.iterator(which)
        if not iterator.ended:
            self.stage.compare(iterator.handle.remaining(), iterator.scan, to_end=True)
            promises = self.stage.kind.promises
            if iterator.requirement == promises.snapshot:
                # A snapshot that was read to its end was also safe to read.
                self.stage.claim(promises.survives, "a random program with an open iterator")
                self.stage.t.held()
        self.stage.release(iterator)
        if twice:
            promise = self.stage.kind.promises.closes
            self.stage.claim(promise, "a random program that closes an iterator twice")
            iterator.handle.release()
            self.stage.t.held()

    @step(scans_of, lambda m: m.stage.iterators, which="which")
    def abandon(self, which: int = 0) -> None:
        """Close an iterator, wherever it stands."""
        self.stage.release(self.stage.iterator(which))

    # Commits.

    @step(weight=2, partitions="partitions", advance="advance", look="flag")
    def commit(
        self,
        partitions: tuple[TopicPartition, ...] = (CHANGELOG,),
        advance: int = 1,
        *,
        look: bool = True,
    ) -> None:
        """Commit the store and its transactions, perhaps without a write since the last commit."""
        while self.stage.transactions and not overwrites(self.run):
            # No promise says how the duplicates of several writers are numbered.
            self.roll_back(look=False)
        idle = not self.stage.dirty and not self.stage.transactions
        promise = "COMMIT-003" if idle else "COMMIT-008"
        self.stage.claim(promise, "a random program with commits")
        self.commit_store(self.stage.offsets_of(partitions, advance))
        if self.run.subject.capabilities.change_logging:
            self.compare_log()
        if look:
            self.stage.check_content(promise)

    def compare_log(self) -> None:
        """Compare the content with what the changelog gives, once everything is committed."""
        found = self.stage.follow_log()
        if found is not None:
            self.stage.claim("RESTORE-012", "fold what a random program has sent to the changelog")
            expected = self.stage.logged_content()
            logged = self.stage.t.logged()
            self.stage.t.expect_that(
                all(found.get(key) == value for key, value in expected.items()),
                f"records that give {expected}",
                logged,
            )

    def commit_store(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit everything with these offsets, between two input records, as the runtime does."""
        stage = self.stage
        stage.idle()
        contested = stage.oracle.contested()
        if stage.transactions:
            stage.forget_log()
            stage.dropped = None
        stage.store.commit(offsets)
        for writer in stage.transactions:
            raise_to(stage.position, writer.position)
        for staged in (*stage.oracle.open, stage.oracle.own):
            stage.oracle.commit(staged)
        stage.end_transactions(*stage.transactions)
        stage.committed_position = dict(stage.position)
        for partition, offset in offsets.items():
            stage.offsets.pop(partition, None)
            if offset is not None:
                stage.offsets[partition] = offset
        stage.claim(stage.plain, "a commit of several writers of one key")
        for key, cells in contested.items():
            self.settle(key, cells)

    def settle(self, key: Any, cells: set[Any]) -> None:
        """Read which of several writers of a key has won. No promise says which.

        Where a whole segment expires at once, a write may be kept although nobody reads it.
        """
        store = self.stage.store
        if not self.stage.oracle.is_readable(key):
            cells = {None, *cells}
        if self.stage.can.timestamped:
            found = store.get_with_timestamp(key)
            found = None if found is None else tuple(found)
        else:
            found = store.get(key)
        self.stage.expect_one(found, cells)
        self.stage.oracle.committed[key] = found

    @step(applies("OFFSET-005"))
    def forget_all(self) -> None:
        """Commit an empty map, which forgets all offsets."""
        self.stage.claim("OFFSET-005", "a random program that commits an empty map")
        self.commit_store({})
        self.stage.offsets.clear()
        self.compare_offsets("OFFSET-005")

    @step(applies("OFFSET-006"), partition="one")
    def forget_one(self, partition: TopicPartition) -> None:
        """Commit None for a partition, which forgets its offset."""
        self.stage.claim("OFFSET-006", "a random program that commits None for a partition")
        self.commit_store({partition: None})
        self.compare_offsets("OFFSET-006")

    @step()
    def flush(self) -> None:
        """Flush, which changes no answer. Since KIP-1035 a store may do without the method."""
        if callable(getattr(self.stage.store.raw, "flush", None)):
            self.stage.claim("COMMIT-008", "a random program that flushes the store")
            self.stage.store.flush()

    @property
    def may_restore(self) -> bool:
        """Whether nothing is open or staged, as before the runtime begins to process."""
        return not (self.stage.dirty or self.stage.transactions or self.stage.iterators)

    # With duplicates, a tombstone deletes a single value, and no writer sends one. Another check
    # tests how a reopened store continues to number its duplicates.
    @step(
        overwrites,
        lambda m: m.may_restore,
        weight=2,
        entries="entries",
        timestamp="timestamp",
    )
    def restore(self, entries: Entries, timestamp: int = 0) -> None:
        """Restore before the first write, and commit at once, as the runtime does."""
        self.stage.idle()
        self.stage.claim(self.stage.plain, "a random program that restores")
        own = self.stage.own
        records = []
        for key, value in entries:
            place = self.stage.at(key)
            if self.stage.may_write(own, place):
                at = timestamp if self.stage.can.timestamped else NO_TIMESTAMP
                self.stage.wrote(own, place, self.stage.cell_of(value, at))
                reached = self.stage.reached[CHANGELOG]
                records.append(self.stage.kind.record(place, value, reached, at))
        self.stage.t.restore(self.stage.store, records)
        self.stage.restored_records(records)
        if records:
            self.stage.restored = True
            # The store may find the latest time of a batch first, and then drop more.
            self.stage.dropped = None
            self.commit(advance=0)

    # Transactions.

    @step(stages, lambda m: len(m.stage.transactions) < MOST_OPEN, weight=2)
    def begin(self) -> None:
        """Open a transaction beside those that are open."""
        stage = self.stage
        stage.used_transactions = True
        stage.forget_log()
        stage.claim(stage.of_transactions, "a random program with transactions")
        stage.transactions.append(Writer(stage.store.begin(), stage.oracle.begin(), {}))

    @step(
        applies("TXN-015"),
        lambda m: m.stage.transactions,
        which="which",
        partitions="partitions",
        advance="advance",
        look="flag",
    )
    def commit_transaction(
        self,
        which: int = 0,
        partitions: tuple[TopicPartition, ...] = (CHANGELOG,),
        advance: int = 1,
        *,
        look: bool = True,
    ) -> None:
        """Commit one transaction, between two input records."""
        stage = self.stage
        stage.idle()
        writer = stage.transactions[which % len(stage.transactions)]
        stage.claim("TXN-015", "a random program with transactions")
        offsets = stage.offsets_of(partitions, advance)
        writer.handle.commit(offsets)
        stage.oracle.commit(writer.staged)
        stage.offsets.update(offsets)
        raise_to(stage.position, writer.position)
        raise_to(stage.committed_position, writer.position)
        stage.end_transactions(writer)
        if look:
            stage.check_content("TXN-015")

    @step(stages, lambda m: m.stage.transactions, which="which", look="flag")
    def roll_back(self, which: int = 0, *, look: bool = True) -> None:
        """Close a transaction without a commit."""
        stage = self.stage
        writer = stage.transactions[which % len(stage.transactions)]
        promise = stage.of_transactions
        stage.claim(promise, "a random program with transactions")
        later = writer.staged.time > stage.now_committed
        writer.handle.call("close")
        stage.oracle.forget(writer.staged)
        stage.end_transactions(writer)
        stage.dropped = None
        if look:
            stage.check_content(stage.kind.promises.rolled_back if later else promise)

    @step(applies("TXN-015"), lambda m: m.stage.ended, method="use", key="key", which="which")
    def use_ended(self, method: str, key: Any, which: int = 0) -> None:
        """Use a transaction that has ended."""
        key = self.stage.at(key)
        ended = self.stage.ended[which % len(self.stage.ended)]
        self.stage.claim("TXN-006", "a random program that uses an ended transaction")
        arguments: dict[str, tuple[Any, ...]] = {
            "put": (key, b"late"),
            "put_if_absent": (key, b"late"),
            "put_all": ([(key, b"late")],),
            "commit": ({CHANGELOG: 0},),
        }
        call = partial(ended.call, method, *arguments.get(method, (key,)))
        self.stage.t.expect_raises(call, f"{method} raises after the end of the transaction")

    # The end of the store.

    @step(
        lambda run: able("persistent")(run) and overwrites(run), offsets_first="flag", mark="flag"
    )
    def reopen(self, *, offsets_first: bool = True, mark: bool = True) -> None:
        """Close the store, with what is open on it, and open a new one in the same directory."""
        stage = self.stage
        if stage.dirty and not self.run.exact:
            # The store may keep or lose uncommitted writes; the runtime commits before it closes.
            self.commit(look=False)
        stage.claim("COMMIT-008", "a random program that closes and reopens the store")
        iterator = next((each for each in stage.iterators if not each.ended), None)
        stage.store.call("close")
        if iterator is not None:
            self.read_closed(iterator.handle)
        if stage.transactions:
            writer = stage.transactions[-1]
            key = max(writer.staged.cells, default=stage.at(b"a"))
            stage.claim("TXN-009", "a random program that uses a transaction of a closed store")
            stage.t.expect_raises(partial(writer.handle.get, key), "get raises after the close")
        stage.claim("COMMIT-008", "a random program that closes and reopens the store")
        if stage.dirty or stage.transactions:
            stage.forget_log()
        stage.store = stage.kind.open(stage.t)
        # Under exactly-once, a transactional store discards uncommitted writes.
        stage.closed()
        if offsets_first and stage.can.manages_offsets and stage.can.persistent:
            self.ask_offsets()
        stage.check_content("COMMIT-008")
        if self.run.applies("POS-007"):
            self.compare_position("POS-007")
        if mark and stage.oracle.reached >= 0:
            stage.claim(stage.plain)
            self.put_any(stage.kind.marker(MARKER, stage.oracle.reached), b"")

    def read_closed(self, iterator: Any) -> None:
        """Read an iterator whose store was closed: it raises or ends."""
        promise = self.stage.kind.promises.closed
        self.stage.claim(promise, "a random program that reads an iterator of a closed store")
        try:
            found = iterator.advance()
        except SubjectRaised:
            self.stage.t.go_on_after_error()
            self.stage.t.held()
        else:
            self.stage.t.expect_or_error(found, None)
        if self.run.applies("ERR-007"):
            self.stage.claim("ERR-007", "a random program with an iterator of a closed store")
            self.stage.t.held()

    @step(expires)
    def count(self) -> None:
        """Read the number of writes that came too late."""
        stage = self.stage
        stage.claim(stage.kind.promises.answers, "a random program that counts dropped records")
        found = stage.store.read("dropped_records")
        if stage.dropped is not None:
            stage.t.expect(found, stage.dropped)
        stage.dropped = found
