"""Makes text that came from a subject harmless to show: short, and without hidden characters.

A store under test decides what its error messages say, so every report treats such text as
hostile. Escaping for the output format (HTML, XML, Markdown) is left to the format's own library.
"""

from __future__ import annotations

__all__ = ["CELL_CHARS", "DETAIL_CHARS", "PROGRAM_CHARS", "cell", "cut", "detail", "visible"]

CELL_CHARS = 200
"""The longest text in a table cell, a tooltip or an attribute."""

DETAIL_CHARS = 4_096
"""The longest text where there is room for detail."""

PROGRAM_CHARS = 16_384
"""The longest program or command; a longer one would help no reader."""


def _replacements() -> dict[int, str]:
    """Every character that shows nothing, reorders its neighbours, or is illegal in XML 1.0."""
    table = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
    table[0x7F] = "\u2421"
    unseen = (
        *range(0x80, 0xA0),  # C1 controls
        0xAD,
        0x61C,
        0x180E,
        *range(0x200B, 0x2010),  # zero width, and left-to-right and right-to-left marks
        *range(0x2028, 0x202F),  # line separators, bidi embeddings and overrides
        *range(0x2060, 0x2070),  # invisible operators, bidi isolates
        *range(0xD800, 0xE000),  # lone surrogates
        0xFEFF,
        *range(0xFFF9, 0xFFFC),
        0xFFFE,
        0xFFFF,
        *range(0xE0000, 0xE0080),  # tags: a whole hidden alphabet
    )
    table.update({code: f"⟨U+{code:04X}⟩" for code in unseen})
    return table


_VISIBLE = _replacements()
_ONE_LINE = {**_VISIBLE, 0x09: "\u2409", 0x0A: "\u240a"}


def visible(text: str) -> str:
    """``text`` with every invisible character shown; tabs and line ends stay what they are."""
    return text.translate(_VISIBLE)


def cut(text: str, limit: int) -> str:
    """The first ``limit`` characters of ``text``, with ``…`` if it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cell(text: str, limit: int = CELL_CHARS) -> str:
    """``text`` on one line, for a table cell, a tooltip or an attribute."""
    # Cut before, because a megabyte is not worth translating, and after, because the text grows.
    return cut(cut(text, limit).translate(_ONE_LINE), limit)


def detail(text: str, limit: int = DETAIL_CHARS) -> str:
    """``text`` with its lines; if it was cut, a note says how much is missing."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}… ({len(text) - limit:,} more characters)"
