"""A store that answers after its close, as if nothing had happened."""

from __future__ import annotations

from streamproof.stores.memory import InMemoryKeyValueStore

__all__ = ["make"]


class AnswersWhenClosed(InMemoryKeyValueStore):
    """The second close leaves a mark."""

    _last: bytes | None = None
    _closes = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._last = value

    def get(self, key: bytes) -> bytes | None:
        if self.is_open:
            return super().get(key)
        return self._last if self._closes == 1 else b"closed twice"

    def close(self) -> None:
        super().close()
        self._closes += 1


def make() -> AnswersWhenClosed:
    """A store that is not open."""
    return AnswersWhenClosed("store")
