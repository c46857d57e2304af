"""Errors of what a store is made of become errors of the store."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from streamproof.stores.errors import ProcessorStateError, StoreError

__all__ = ["ErrorTranslation"]


class ErrorTranslation:
    """A block in which some exceptions become a ProcessorStateError, chained to them.

    Errors of a store pass as they are. This is no generator, because in Python 3.13 the frame of a
    generator that ``contextlib.contextmanager`` runs is in a cycle with the exception. All frames
    of the traceback would then live on until the garbage collector comes, and hold what the store
    has to release, such as a lock.

    Args:
        kind: the exceptions to translate.
        translate: makes the new error from the old one.
    """

    __slots__ = ("_kind", "_translate")

    def __init__(
        self, kind: type[Exception], translate: Callable[[Exception], ProcessorStateError]
    ) -> None:
        self._kind = kind
        self._translate = translate

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Raise the new error, if there is one."""
        if isinstance(error, self._kind) and not isinstance(error, StoreError):
            raise self._translate(error) from error
