"""A store that raises when it is closed."""

from __future__ import annotations

from streamproof.stores.memory import InMemoryKeyValueStore

__all__ = ["make"]


class BadClose(InMemoryKeyValueStore):
    """Keeps all promises but one."""

    def close(self) -> None:
        raise RuntimeError("This store cannot close.")


def make() -> BadClose:
    """A store that is not open."""
    return BadClose("store")
