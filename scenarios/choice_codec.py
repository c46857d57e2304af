"""Recorded choices as text: compact, wrapped, and easy to compare line by line.

Each word is a choice: ``8000:41`` is option 41 of 8000 options. ``8000`` alone is option 0, the
plainest, and ``8000*12`` is that choice twelve times in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from textwrap import fill

from streamproof.errors import UsageError

__all__ = ["decode", "encode"]

WIDTH = 92
"""The largest width of a line, in columns."""

MOST_CHOICES = 10_000_000
"""The most choices of a recording. A run of the swarm makes some thousands; without the limit, a
short word such as ``2*99999999`` in a file would fill the memory."""

_WORD = re.compile(r"(?P<options>[0-9]{1,10})(:(?P<choice>[0-9]{1,10}))?(\*(?P<count>[0-9]{1,8}))?")


def encode(pairs: Iterable[tuple[int, int]]) -> str:
    """Choices as text, in lines of at most 92 columns.

    Args:
        pairs: the number of options and the chosen option of each choice, as in
            ``Choices.pairs``.
    """
    return fill(" ".join(_words(pairs)), WIDTH, break_long_words=False, break_on_hyphens=False)


def _words(pairs: Iterable[tuple[int, int]]) -> Iterable[str]:
    for (options, choice), same in groupby(pairs):
        word = f"{options}:{choice}" if choice else f"{options}"
        count = sum(1 for _ in same)
        yield word if count == 1 else f"{word}*{count}"


def decode(text: str) -> list[tuple[int, int]]:
    """The choices in a text, for ``Choices.strict``.

    Args:
        text: a text of ``encode``; lines may break between any two words.

    Raises:
        UsageError: a word is no choice; the message names its line and place.
    """
    pairs: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        for place, word in enumerate(line.split(), start=1):
            pair, count = _read(word, f"word {place} in line {number} of the recorded choices")
            if len(pairs) + count > MOST_CHOICES:
                raise UsageError(
                    f"The recording has more than {MOST_CHOICES:,} choices up to word {place} in "
                    f"line {number}: use it as streamproof wrote it."
                )
            pairs += [pair] * count
    return pairs


def _read(word: str, where: str) -> tuple[tuple[int, int], int]:
    """The choice of one word, and its number of repetitions."""
    found = _WORD.fullmatch(word)
    if found is None:
        raise UsageError(
            f"{word!r} is no choice: {where}. Write OPTIONS, OPTIONS:CHOICE or either with *TIMES, "
            "as 8000:41 or 8000*12."
        )
    options, choice, count = (int(found[name] or 0) for name in ("options", "choice", "count"))
    if options < 2 or choice >= options or found["count"] == "0":
        raise UsageError(
            f"{word!r} cannot be a choice: {where}. A choice has 2 or more OPTIONS, CHOICE is less "
            "than OPTIONS, and TIMES is 1 or more."
        )
    return (options, choice), count if found["count"] else 1
