"""Recorded choices as text: compact, wrapped, and good to compare line by line.

A choice is a word, as ``8000:41``: of so many options, that one was taken. ``8000`` alone took the
plainest, which is 0, and ``8000*12`` did so twelve times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from textwrap import fill

from streamproof.errors import UsageError

__all__ = ["decode", "encode"]

WIDTH = 92
"""Columns of a line, at most."""

MOST_CHOICES = 10_000_000
"""More choices than that are no recording: a run of the swarm has some thousands."""

_WORD = re.compile(r"(?P<options>[0-9]{1,10})(:(?P<choice>[0-9]{1,10}))?(\*(?P<count>[0-9]{1,8}))?")


def encode(pairs: Iterable[tuple[int, int]]) -> str:
    """Choices as text, in lines of at most 92 columns.

    Args:
        pairs: of how many options each choice was made, and which was taken, as
            ``Choices.pairs`` has them.
    """
    return fill(" ".join(_words(pairs)), WIDTH, break_long_words=False, break_on_hyphens=False)


def _words(pairs: Iterable[tuple[int, int]]) -> Iterable[str]:
    for (options, choice), same in groupby(pairs):
        word = f"{options}:{choice}" if choice else f"{options}"
        count = sum(1 for _ in same)
        yield word if count == 1 else f"{word}*{count}"


def decode(text: str) -> list[tuple[int, int]]:
    """The choices that a text tells, for ``Choices.strict``.

    Args:
        text: as ``encode`` writes it; lines may be broken anywhere between two words.

    Raises:
        UsageError: a word is no choice; the message names its line and place.
    """
    pairs: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        for place, word in enumerate(line.split(), start=1):
            pair, count = _read(word, f"word {place} in line {number} of the recorded choices")
            if len(pairs) + count > MOST_CHOICES:
                raise UsageError(
                    f"There are more than {MOST_CHOICES:,} choices up to word {place} in line "
                    f"{number} of the recorded choices: take them as they were written."
                )
            pairs += [pair] * count
    return pairs


def _read(word: str, where: str) -> tuple[tuple[int, int], int]:
    """One word: a choice, and how often it was made."""
    found = _WORD.fullmatch(word)
    if found is None:
        raise UsageError(
            f"{word!r} is no choice: {where}. Write OPTIONS, OPTIONS:CHOICE or either with *TIMES, "
            "as 8000:41 or 8000*12."
        )
    options, choice, count = (int(found[name] or 0) for name in ("options", "choice", "count"))
    if options < 2 or choice >= options or found["count"] == "0":
        raise UsageError(
            f"{word!r} cannot be a choice: {where}. There are 2 options or more, the choice is "
            "less than that, and it is made once or more."
        )
    return (options, choice), count if found["count"] else 1
