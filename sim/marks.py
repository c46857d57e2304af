"""Marks: what must happen in *some* run, or the exploration is blind there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from streamproof.stores.errors import UsageError

__all__ = ["MARKS", "Marks"]

MARKS = (
    "a reply was lost after the request was carried out",
    "a request was lost before it was carried out",
    "a transaction was aborted because it took too long",
    "one partition showed a transaction before another did",
)
"""The situations that an exploration must have seen."""


class Marks:
    """How often each interesting situation came about.

    Args:
        names: the marks that there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._hits: Counter[str] = Counter(dict.fromkeys(names, 0))

    def sometimes(self, name: str, *, holds: bool = True) -> None:
        """Note that a situation came about, if it did.

        Raises:
            UsageError: there is no mark of that name.
        """
        if name not in self._hits:
            raise UsageError(f"There is no mark {name!r}: add it to the marks of the run.")
        self._hits[name] += holds

    def add(self, hits: Mapping[str, int]) -> None:
        """Add what another run hit: a ledger of many runs."""
        self._hits.update(hits)

    @property
    def hits(self) -> dict[str, int]:
        """How often each was hit, by name."""
        return dict(sorted(self._hits.items()))

    @property
    def never(self) -> list[str]:
        """The marks that were not hit."""
        return [name for name, count in self.hits.items() if not count]
