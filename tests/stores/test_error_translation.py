"""Errors that become errors of a store."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

from streamproof.stores.error_translation import ErrorTranslation
from streamproof.stores.errors import InvalidStateStoreError, ProcessorStateError

OF_FILES = ErrorTranslation(OSError, lambda error: ProcessorStateError(f"cannot: {error}"))


def test_the_new_error_is_chained_to_the_old_one() -> None:
    """Its message is made from the old one."""
    old = FileNotFoundError("no such file")
    with pytest.raises(ProcessorStateError, match=r"^cannot: no such file$") as caught, OF_FILES:
        raise old
    assert caught.value.__cause__ is old


@pytest.mark.parametrize("error", [ValueError(), InvalidStateStoreError(), KeyboardInterrupt()])
def test_other_errors_pass(error: BaseException) -> None:
    """Among them those that are errors of a store."""
    every = ErrorTranslation(Exception, lambda error: ProcessorStateError(str(error)))
    translation = OF_FILES if isinstance(error, ValueError) else every
    with pytest.raises(type(error)) as caught, translation:
        raise error
    assert caught.value is error


class Held:
    """What a frame holds while it runs."""


def test_no_frame_outlives_the_error() -> None:
    """A store that cannot write releases its files at once, without the garbage collector."""
    places = []

    def fail() -> None:
        held = Held()
        places.append(weakref.ref(held))
        raise OSError

    gc.disable()
    try:
        with contextlib.suppress(ProcessorStateError), OF_FILES:
            fail()
        assert places[0]() is None
    finally:
        gc.enable()
