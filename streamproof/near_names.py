"""Known names that a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["near_names"]


def near_names(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """The known names nearest to an unknown one, as ``a or b``; an empty text if none is near."""
    return " or ".join(difflib.get_close_matches(name, list(known), most, 0.5))
