"""Generates the arguments of properties: keys, values and offsets that find bugs.

The set of keys is small, so that overwrites, deletes and re-puts happen. Keys are prefixes of each
other, empty, all zeros or all 0xFF, or contain the separators of common key encodings. Literals of
the subject's own module are keys, too, because its encoding is likely to fail on them.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

__all__ = ["TICKS", "Generators", "among", "constants_of", "mine_literals"]

T = TypeVar("T")

EDGE_KEYS = (
    b"a",
    b"b",
    b"aa",
    b"ab",
    b"a\x00",
    b"a\xff",
    b"\x00",
    b"\x00\x00",
    b"\xff",
    b"\xff\xff",
    b"\x7f",
    b"\x80",
    b"a/b",
    b"a|b",
    b"a:b",
    b"a-0",
    b"0",
    b"9",
    b"10",
    b"key",
)

EDGE_VALUES = (b"", b"\x00", b"\xff", b"0", b"1", b"None", b"null", b"x" * 300)

TICKS = 16
"""The number of different times of windows and sessions, all within one retention."""

LITERAL_LIMIT = 24
"""The most literals of the subject's module that are used."""


@lru_cache(maxsize=1024)
def among(values: tuple[T, ...]) -> SearchStrategy[T]:
    """A strategy for one of some values. The same values always give the same strategy object.

    Hypothesis inspects each strategy before its first draw, which takes longer than the draw. So
    the steps of a program must share a strategy instead of making a new one each.
    """
    return st.sampled_from(values)


class Generators:
    """Strategies for one subject."""

    def __init__(self, literals: tuple[bytes, ...] = ()) -> None:
        self.edge_keys: tuple[bytes, ...] = tuple(dict.fromkeys(EDGE_KEYS + literals))
        # Each strategy is made once, for the reason that `among` gives.
        self._values = st.one_of(st.sampled_from(EDGE_VALUES), st.binary(max_size=8))
        self._keys = st.one_of(st.sampled_from(self.edge_keys), st.binary(min_size=1, max_size=3))
        self._bounds = st.one_of(st.none(), self._keys)
        self._key_ranges = st.tuples(self._bounds, self._bounds)

    def keys(self) -> SearchStrategy[bytes]:
        """A key that is not empty; a few of them recur."""
        return self._keys

    def values(self) -> SearchStrategy[bytes]:
        """A value, which may be empty."""
        return self._values

    def entries(
        self, max_size: int = 8, *, min_size: int = 0
    ) -> SearchStrategy[list[tuple[bytes, bytes]]]:
        """Entries to put, in order; keys may repeat."""
        return st.lists(st.tuples(self.keys(), self.values()), min_size=min_size, max_size=max_size)

    def writes(self, max_size: int = 10) -> SearchStrategy[list[tuple[bytes, bytes | None]]]:
        """Puts and, with the value ``None``, deletes over few keys, so that they collide."""
        few = st.lists(self.keys(), min_size=1, max_size=4, unique=True)
        return few.flatmap(
            lambda keys: st.lists(
                st.tuples(st.sampled_from(keys), st.one_of(st.none(), self.values())),
                min_size=1,
                max_size=max_size,
            )
        )

    def transactions(self) -> SearchStrategy[list[tuple[list[tuple[bytes, bytes | None]], bool]]]:
        """A sequence of transactions: the writes of each, and whether it commits."""
        return st.lists(st.tuples(self.writes(5), st.booleans()), min_size=1, max_size=4)

    def cuts(self) -> SearchStrategy[set[int]]:
        """A place in a list of writes at which something else happens."""
        return st.sets(st.integers(0, 10), max_size=4)

    def orders(self, count: int) -> SearchStrategy[tuple[int, ...]]:
        """The numbers below ``count`` in any order, the plainest of which is ascending."""
        return st.permutations(range(count)).map(tuple)

    def bounds(self) -> SearchStrategy[bytes | None]:
        """A bound of a range, or ``None`` for an open side."""
        return self._bounds

    def key_ranges(self) -> SearchStrategy[tuple[bytes | None, bytes | None]]:
        """Both bounds of a range of keys, which may be inverted."""
        return self._key_ranges

    def ticks(self) -> SearchStrategy[int]:
        """One of a few times; see :meth:`streamproof.conformance.windowed_trial.Times.at`."""
        return st.integers(0, TICKS - 1)

    def windows(self, max_size: int = 10) -> SearchStrategy[list[tuple[bytes, int]]]:
        """Keys and ticks to put at, in any order; both may repeat."""
        few = st.lists(self.keys(), min_size=1, max_size=4, unique=True)
        return few.flatmap(
            lambda keys: st.lists(
                st.tuples(st.sampled_from(keys), self.ticks()), min_size=1, max_size=max_size
            )
        )

    def sessions(self, max_size: int = 10) -> SearchStrategy[list[tuple[bytes, int, int]]]:
        """Keys, and the ticks at which a session starts and ends, in any order."""
        few = st.lists(self.keys(), min_size=1, max_size=3, unique=True)
        spans = st.tuples(self.ticks(), self.ticks()).map(sorted)
        return few.flatmap(
            lambda keys: st.lists(
                st.builds(lambda key, span: (key, *span), st.sampled_from(keys), spans),
                min_size=1,
                max_size=max_size,
            )
        )

    def timed_writes(self) -> SearchStrategy[list[tuple[bytes, int, bytes | None]]]:
        """Keys, ticks, and values or tombstones, over few keys and ticks, so that they collide."""
        return st.lists(
            st.tuples(
                st.sampled_from(self.edge_keys[:4]),
                st.sampled_from((0, 3, 4, 15)),
                st.one_of(st.none(), self.values()),
            ),
            min_size=1,
            max_size=10,
        )

    def prefixes(self) -> SearchStrategy[bytes]:
        """A prefix to scan for."""
        return st.one_of(
            st.sampled_from((b"", b"a", b"\xff", b"\xff\xff", b"\x00", b"k", b"ab")), self.keys()
        )

    def offsets(self) -> SearchStrategy[int]:
        """A changelog offset: small, large, and at the ends of the range of a long."""
        return st.one_of(
            st.integers(0, 20),
            st.sampled_from((0, 127, 128, 255, 256, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 2)),
        )


def mine_literals(module: types.ModuleType | None) -> tuple[bytes, ...]:
    """Byte and string constants in a module's code and attributes, shortest first.

    Hypothesis uses the literals of a user's own modules itself, but not those of installed ones.
    """
    if module is None:
        return ()
    found = constants_of(module)
    return tuple(sorted(found, key=lambda text: (len(text), text))[:LITERAL_LIMIT])


def constants_of(module: types.ModuleType) -> set[bytes]:
    """The short byte and string constants in a module's code, attributes and classes."""
    found: set[bytes] = set()
    for value in list(vars(module).values()):
        found.update(_texts(value))
        if isinstance(value, type) and value.__module__ == module.__name__:
            for member in vars(value).values():
                found.update(_texts(member))
        for code in _codes(value, module.__name__):
            for constant in code.co_consts:
                found.update(_texts(constant))
    return found


def _texts(value: Any) -> Iterator[bytes]:
    if isinstance(value, str) and value.isidentifier():
        value = value.encode()
    if isinstance(value, bytes) and 1 <= len(value) <= 20:
        yield value


def _codes(value: Any, module_name: str) -> Iterator[types.CodeType]:
    """The code objects of a function or class that the module itself defines."""
    if getattr(value, "__module__", None) != module_name:
        return
    if isinstance(value, types.FunctionType):
        yield value.__code__
    elif isinstance(value, type):
        for member in vars(value).values():
            function = getattr(member, "fget", member)
            if isinstance(function, types.FunctionType):
                yield function.__code__
