"""The messages that a runtime writes into its log during a check."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["heard"]


@contextmanager
def heard(level: int, name: str = "streamproof") -> Iterator[list[str]]:
    """The texts of all messages of exactly this level meanwhile, of a logger and those below it.

    Args:
        level: the level, such as ``logging.WARNING``.
        name: the name of the logger.
    """
    texts: list[str] = []
    handler = _Listening(level, texts)
    logger = logging.getLogger(name)
    before = logger.level
    if not logger.isEnabledFor(level):
        logger.setLevel(level)
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Listening(logging.Handler):
    """Keeps the texts of messages."""

    def __init__(self, level: int, texts: list[str]) -> None:
        super().__init__(level)
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a message, unless its level is a higher one."""
        if record.levelno == self.level:
            self._texts.append(record.getMessage())
