"""Session stores with one mistake each, of a kind that window stores cannot make."""

from __future__ import annotations

from typing import Any

from bad_windows import breaks
from dict_windows import DictSessions, Entries

from streamproof.stores.windows import LONG_MAX, Window, Windowed


class _WrongSessions(DictSessions):
    """For the type checker."""


@breaks("SESS-004")
class _RemovesByEnd(_WrongSessions):
    def remove(self, session: Windowed) -> None:
        for place, _ in list(self.rows):
            if (place.key, place.window.end) == (session.key, session.window.end):
                super().remove(place)


@breaks("SESS-005")
class _NoneIsNoRemoval(_WrongSessions):
    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        super().put(session, aggregate or b"")

    def remove(self, session: Windowed) -> None:
        self.write(session, 0, None)


@breaks("SESS-010")
class _StartIgnored(_WrongSessions):
    def find(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, *, backward: bool
    ) -> Entries:
        return super().find(low, high, earliest, LONG_MAX, backward=backward)


@breaks("SESS-011")
class _TouchingMissed(_WrongSessions):
    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> Any:
        earliest = earliest_session_end + (earliest_session_end > 0)
        return super().find_sessions(key, earliest, latest_session_start)


@breaks("SESS-012")
class _NegativeEndRaises(_WrongSessions):
    def find(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, *, backward: bool
    ) -> Entries:
        earliest.to_bytes(8, "big")
        return super().find(low, high, earliest, latest, backward=backward)


@breaks("SESS-013")
class _BetweenOverlaps(_WrongSessions):
    def find_sessions_between(self, earliest_session_end: int, latest_session_end: int) -> Any:
        return self.find(None, None, earliest_session_end, latest_session_end, backward=False)


@breaks("SESS-014")
class _SessionKeyExclusive(_WrongSessions):
    def find(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, *, backward: bool
    ) -> Entries:
        if low is not None and high is not None and low < high:
            found = [
                entry
                for entry in super().find(low, high, earliest, latest, backward=backward)
                if entry[0].key != high
            ]
            return Entries(self, found)
        return super().find(low, high, earliest, latest, backward=backward)


@breaks("SESS-015")
class _OpenSearchFails(_WrongSessions):
    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> Any:
        bounds = key_from or b"", key_to or b"", earliest_session_end, latest_session_start
        return super().find_sessions_range(*bounds)


@breaks("SESS-016")
class _SearchRaises(_WrongSessions):
    def find(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, *, backward: bool
    ) -> Entries:
        if low is not None and high is not None and low > high:
            raise ValueError("The range is inverted.")
        return super().find(low, high, earliest, latest, backward=backward)


@breaks("SESS-017")
class _OneSessionKeyIsPrefix(_WrongSessions):
    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> Any:
        if key_from is None or key_from != key_to:
            return super().fetch_range(key_from, key_to)
        return self.scan(lambda place: place.key.startswith(key_from))


@breaks("SESS-020")
class _LongerSessionKeysMatch(_WrongSessions):
    def fetch(self, key: bytes) -> Any:
        return self.scan(lambda place: place.key.startswith(key))


@breaks("SESS-021")
class _AsOldAsItsStart(_WrongSessions):
    def time_of(self, place: Windowed) -> int:
        return place.window.start


@breaks("SESS-022")
class _EndOfTimeExcluded(_WrongSessions):
    def find_sessions_between(self, earliest_session_end: int, latest_session_end: int) -> Any:
        return self.scan(
            lambda place: (
                earliest_session_end <= place.window.end < latest_session_end + 1
                if latest_session_end < LONG_MAX
                else earliest_session_end <= place.window.end < LONG_MAX
            )
        )


@breaks("SESS-044")
class _NoneIsEmptySessionKey(_WrongSessions):
    def fetch(self, key: bytes) -> Any:
        return super().fetch(key or b"")


@breaks("SESS-045")
class _Turned(_WrongSessions):
    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        start, end = session.window
        turned = Window(max(min(start, end), 0), max(start, end, 0))
        super().put(Windowed(session.key, turned), aggregate)
