"""The terminal to which commands write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["terminal"]


def terminal(**options: Any) -> Console:
    """A console that shows texts as they are.

    Unless a console of Rich is told not to, it shows a picture for ``:a:`` in a subject's name.
    """
    # Rich takes long to import, and `--help` does not need it.
    from rich.console import Console

    return Console(highlight=False, emoji=False, **options)
