"""Names of pages: readable, harmless in a path and in a URL, and the same in every report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

__all__ = ["page_names"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 60


def page_names(texts: Iterable[str]) -> dict[str, str]:
    """A file name, without its suffix, for each text; no two are the same.

    A name that does not say the text in full ends with a part of its digest. So it does not depend
    on what else is in the report, and a link to a page holds in the next one, too. Names
    are told apart without regard to case, because some file systems do not.
    """
    wanted = {text: _readable(text) for text in sorted(set(texts))}
    taken: set[str] = set()
    for text, name in wanted.items():
        if not name or name != text or name.casefold() in taken:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            wanted[text] = f"{name}-{digest[:10]}".lstrip("-")
        taken.add(wanted[text].casefold())
    return wanted


def _readable(text: str) -> str:
    """What of the text may stand in a path; never empty parts, dots in front, or a long name."""
    return _UNSAFE.sub("-", text[:_LONGEST]).strip(".-")
