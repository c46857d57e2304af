"""Window and session stores with one mistake each, by the requirements that must notice it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dict_windows import (
    CAPABILITIES,
    DictDuplicates,
    DictSessions,
    DictStore,
    DictWindows,
    Entries,
    View,
    is_between,
)

from streamproof.stores.api import ChangelogRecord, IsolationLevel, StateStoreContext
from streamproof.stores.windows import LONG_MAX, Window, Windowed

INTERVAL = CAPABILITIES.segment_interval_ms
DUPLICATES = {f"WIN-{number:03}" for number in range(25, 31)}

BROKEN: list[tuple[str, type[DictStore]]] = []
"""Which requirement must catch which class."""


def breaks(*requirements: str) -> Callable[[type], type]:
    """Make a wrong store of each requirement's kind out of a class that does something wrongly."""

    def register(mistake: type) -> type:
        for requirement in requirements:
            right: type[DictStore] = DictWindows
            if requirement.startswith("SESS"):
                right = DictSessions
            elif requirement in DUPLICATES:
                right = DictDuplicates
            name = mistake.__name__.removeprefix("_")
            BROKEN.append((requirement, type(name, (mistake, right), {"__module__": __name__})))
        return mistake

    return register


# What both kinds can do wrongly.


class _Wrong(DictStore):
    """For the type checker: what a mistake finds in ``self`` and ``super()``."""


@breaks("WIN-001", "SESS-001")
class _KeyAlone(_Wrong):
    def value(self, place: Windowed) -> bytes | None:
        found = [value for (each, _), value in self.rows.items() if each.key == place.key]
        return found[-1] if found else None


@breaks("WIN-002", "SESS-002")
class _Nearby(_Wrong):
    def value(self, place: Windowed) -> bytes | None:
        start = place.window.start
        nearby = [
            value
            for (each, _), value in self.rows.items()
            if each.key == place.key and each.window.start <= start < each.window.end
        ]
        return super().value(place) or next(iter(nearby), None)


@breaks("WIN-003", "SESS-003")
class _FirstWins(_Wrong):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        if value is None or (place, number) not in self.rows:
            super().write(place, number, value)


@breaks("WIN-004", "SESS-004", "WIN-044", "SESS-036")
class _NoTombstones(_Wrong):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        if value is not None:
            super().write(place, number, value)


@breaks("WIN-005", "SESS-006")
class _AbsentRaises(_Wrong):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        if value is None and (place, number) not in self.rows:
            raise KeyError(place)
        super().write(place, number, value)


@breaks("WIN-006", "SESS-007")
class _EmptyDeletes(_Wrong):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        super().write(place, number, value or None)


@breaks("WIN-008", "SESS-008", "WIN-021")
class _AsPut(_Wrong):
    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        self.opened()
        rows = [(row[0], value) for row, value in self.rows.items() if wanted(row[0])]
        return Entries(self, rows[::-1] if backward else rows)


@breaks("WIN-009", "WIN-014", "WIN-052", "SESS-009", "SESS-018", "SESS-047")
class _NeverBackward(_Wrong):
    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        return super().scan(wanted)


@breaks("WIN-016", "SESS-019")
class _ByTime(_Wrong):
    def rank(self, place: Windowed) -> tuple[Any, ...]:
        return self.time_of(place), place.key


@breaks("WIN-024", "SESS-046")
class _NeverClosed(_Wrong):
    def opened(self) -> None:
        return


@breaks("WIN-031", "SESS-023")
class _ForgetsEarly(_Wrong):
    def first_readable(self) -> int:
        return super().first_readable() + 1


@breaks("WIN-032", "SESS-024")
class _KeepsForever(_Wrong):
    def first_kept(self) -> int:
        return 0

    def first_readable(self) -> int:
        return 0


@breaks("WIN-033", "SESS-025", "WIN-047", "SESS-039")
class _Uncounted(_Wrong):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        super().write(place, number, value)
        self.dropped_records = 0


@breaks("WIN-034", "SESS-026")
class _ReadsWholeSegments(_Wrong):
    def first_readable(self) -> int:
        return self.first_kept()


@breaks("WIN-035", "SESS-027")
class _TimeGoesBack(_Wrong):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        super().write(place, number, value)
        self.stream_time = self.time_of(place)


@breaks("WIN-036", "SESS-028")
class _ForgetsTime(_Wrong):
    def init(self, context: StateStoreContext, root: Any) -> None:
        super().init(context, root)
        self.stream_time = -1


@breaks("WIN-037", "SESS-029")
class _CommitsNewestSegment(_Wrong):
    def commit(self, changelog_offsets: Mapping[Any, int | None]) -> None:
        live = self.rows
        newest = max((self.time_of(place) // INTERVAL for place, _ in live), default=0)
        self.writes = [each for each in self.writes if self.time_of(each[0]) // INTERVAL == newest]
        super().commit(changelog_offsets)
        self.rows = live


@breaks("WIN-038", "SESS-030")
class _PeekAdvances(_Wrong):
    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        entries = super().scan(wanted, backward=backward)
        entries.__class__ = _Skipping
        return entries


class _Skipping(Entries):
    def __next__(self) -> tuple[Any, bytes]:
        Entries.peek_next_key(self)
        return self.entries.pop()

    def peek_next_key(self) -> Any:
        super().peek_next_key()
        return self.entries.pop()[0]


@breaks("WIN-039", "SESS-031")
class _ClosesAll(_Wrong):
    opened_entries: list[Entries]

    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        entries = super().scan(wanted, backward=backward)
        self.__dict__.setdefault("opened_entries", []).append(entries)
        close = entries.close

        def close_all() -> None:
            for each in self.opened_entries:
                each.store = None
            close()

        entries.close = close_all  # type: ignore[method-assign]
        return entries


@breaks("WIN-040", "SESS-032")
class _IteratorGoesOn(_Wrong):
    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        entries = super().scan(wanted, backward=backward)
        entries.store = type(self)(self)
        return entries


class _Live(Entries):
    """Looks at the rows of the store only when it gets there."""

    crashes = False
    rows: dict[Any, bytes]
    count: int

    def __next__(self) -> tuple[Any, bytes]:
        key, value = super().__next__()
        if self.crashes and self.count != len(self.rows):
            raise RuntimeError("dictionary changed size during iteration")
        return key, self.rows.get((key, 0), value)


class _LiveScan(_Wrong):
    crashes = False

    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        entries = super().scan(wanted, backward=backward)
        entries.__class__ = _Live
        entries.__dict__.update(rows=self.rows, count=len(self.rows), crashes=self.crashes)
        return entries


@breaks("WIN-042", "SESS-034")
class _LiveValues(_LiveScan):
    pass


@breaks("WIN-041", "SESS-033", "WIN-043", "SESS-035")
class _LiveCrash(_LiveScan):
    crashes = True


@breaks("WIN-045", "SESS-037")
class _SecondRestoreClears(_Wrong):
    seen: bool = False

    def restore(self, batch: Iterable[ChangelogRecord]) -> None:
        records = list(batch)
        if self.seen:
            records = [record for record in records if record.offset % 2]
            self.committed.clear()
        self.seen = True
        super().restore(records)


@breaks("WIN-046", "SESS-038")
class _RestoreHoldsTime(_Wrong):
    def restore(self, batch: Iterable[ChangelogRecord]) -> None:
        before = self.stream_time
        super().restore(batch)
        self.stream_time = before


@breaks("WIN-048", "SESS-040")
class _ReadsCommitted(_Wrong):
    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        live = self.rows
        try:
            self.rows = self.committed or live
            return super().scan(wanted, backward=backward)
        finally:
            self.rows = live


@breaks("WIN-049", "SESS-041")
class _ViewShowsStaged(_Wrong):
    def read_only(self, isolation_level: IsolationLevel) -> Any:
        return self


class _FrozenView(View):
    def __init__(self, store: DictStore) -> None:
        super().__init__(type(store)(store))
        self.store.committed = dict(store.committed)


@breaks("WIN-050", "SESS-042")
class _ViewIsFrozen(_Wrong):
    def read_only(self, isolation_level: IsolationLevel) -> Any:
        return _FrozenView(self)


@breaks("WIN-051", "SESS-043")
class _CloseCommits(_Wrong):
    def close(self) -> None:
        if self.parent is not None:
            self.commit({})
        super().close()


# Windows.


class _WrongWindows(DictWindows):
    """For the type checker."""


@breaks("WIN-007")
class _BoundExclusive(_WrongWindows):
    def of_key(self, key: bytes, first: int, last: int, *, backward: bool) -> Entries:
        return super().of_key(key, first, last - 1, backward=backward)


@breaks("WIN-010")
class _KeyBoundExclusive(_WrongWindows):
    def of_keys(
        self, low: bytes | None, high: bytes | None, first: int, last: int, *, backward: bool
    ) -> Entries:
        return self.scan(
            lambda place: (
                is_between(low, place.key, high)
                and (place.key != high or low == high)
                and first <= place.window.start <= last
            ),
            backward=backward,
        )


@breaks("WIN-011")
class _OpenEndEmpty(_WrongWindows):
    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> Any:
        return super().fetch_range(key_from or b"", key_to or b"", time_from, time_to)


@breaks("WIN-012")
class _Swapped(_WrongWindows):
    def of_keys(
        self, low: bytes | None, high: bytes | None, first: int, last: int, *, backward: bool
    ) -> Entries:
        first, last = sorted((first, last))
        return super().of_keys(low, high, first, last, backward=backward)


@breaks("WIN-013")
class _OneKeyIsPrefix(_WrongWindows):
    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> Any:
        if key_from is None or key_from != key_to:
            return super().fetch_range(key_from, key_to, time_from, time_to)
        return self.scan(
            lambda place: (
                place.key.startswith(key_from) and time_from <= place.window.start <= time_to
            )
        )


@breaks("WIN-015")
class _AllOfNewestSegment(_WrongWindows):
    def all(self) -> Any:
        return self.fetch_range(None, None, self.stream_time // INTERVAL * INTERVAL, LONG_MAX)


@breaks("WIN-017")
class _LongerKeysMatch(_WrongWindows):
    def of_key(self, key: bytes, first: int, last: int, *, backward: bool) -> Entries:
        def wanted(place: Windowed) -> bool:
            return place.key.startswith(key) and first <= place.window.start <= last

        found = list(self.scan(wanted, backward=backward))
        return Entries(self, [(place.window.start, value) for place, value in found])


@breaks("WIN-018")
class _EndIsInclusive(_WrongWindows):
    def of_keys(
        self, low: bytes | None, high: bytes | None, first: int, last: int, *, backward: bool
    ) -> Entries:
        found = super().of_keys(low, high, first, last, backward=backward)
        changed = [
            (Windowed(place.key, Window(place.window.start, place.window.end - 1)), value)
            for place, value in found
        ]
        return Entries(self, changed)


@breaks("WIN-019")
class _EndOverflows(_WrongWindows):
    def all(self) -> Any:
        size = self.capabilities.window_size_ms
        changed = [
            (Windowed(place.key, Window(place.window.start, place.window.start + size)), value)
            for place, value in super().all()
        ]
        return Entries(self, changed)


@breaks("WIN-020")
class _NegativeRaises(_WrongWindows):
    def of_keys(
        self, low: bytes | None, high: bytes | None, first: int, last: int, *, backward: bool
    ) -> Entries:
        first.to_bytes(8, "big")
        return super().of_keys(low, high, first, last, backward=backward)


@breaks("WIN-022")
class _NoneIsEmptyKey(_WrongWindows):
    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        return super().fetch(key or b"", window_start)


@breaks("WIN-023")
class _BeforeTime(_WrongWindows):
    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        super().put(key, value, max(window_start, 0))


# Duplicates.


class _WrongDuplicates(DictDuplicates):
    """For the type checker."""


@breaks("WIN-025")
class _SameValueOnce(_WrongDuplicates):
    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        if (place, value) not in [(row[0], held) for row, held in self.rows.items()]:
            super().write(place, number, value)


@breaks("WIN-026")
class _DuplicatesByValue(_WrongDuplicates):
    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        found = list(super().scan(wanted))
        found.sort(key=lambda entry: (self.rank(entry[0]), entry[1]), reverse=backward)
        return Entries(self, found)


@breaks("WIN-027")
class _NoneDeletesDuplicates(_WrongDuplicates):
    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is None:
            for row in list(self.rows):
                if row[0].key == key and row[0].window.start == window_start:
                    del self.rows[row]
        super().put(key, value, window_start)


@breaks("WIN-028")
class _LastDuplicateCommitted(_WrongDuplicates):
    def commit(self, changelog_offsets: Mapping[Any, int | None]) -> None:
        self.writes = [(place, 0, value) for place, _, value in self.writes]
        super().commit(changelog_offsets)


@breaks("WIN-029")
class _NumbersFromTheStart(_WrongDuplicates):
    def init(self, context: StateStoreContext, root: Any) -> None:
        super().init(context, root)
        self.sequence = 0


@breaks("WIN-030")
class _NumbersAnew(_WrongDuplicates):
    def restore(self, batch: Iterable[ChangelogRecord]) -> None:
        for record in batch:
            place, _ = self.parsed(record.key)
            self.sequence += 1
            self.write(place, self.sequence, record.value)
