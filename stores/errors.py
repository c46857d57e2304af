"""The errors that a state store raises.

The names follow Kafka's exceptions, so that a Streams developer recognises them. Each message says
what is wrong, where, and what to do about it.

.. code-block:: text

    StoreError                  a state store could not carry out a call
    ├── InvalidStateStoreError  the store, transaction or iterator is closed
    ├── NullArgumentError       a key (or another required argument) is None
    ├── InvalidArgumentError    an argument is out of range
    ├── ProcessorStateError     the files of the store cannot be used
    ├── TaskCorruptedError      the state must be wiped and restored
    └── UnsupportedOperationError
"""

from __future__ import annotations

from streamproof.errors import StreamproofError

__all__ = [
    "InvalidArgumentError",
    "InvalidStateStoreError",
    "NullArgumentError",
    "ProcessorStateError",
    "StoreError",
    "TaskCorruptedError",
    "UnsupportedOperationError",
]


class StoreError(StreamproofError):
    """A state store could not carry out a call."""


class InvalidStateStoreError(StoreError):
    """The store, transaction or iterator is not open (Kafka: InvalidStateStoreException)."""


class NullArgumentError(StoreError, ValueError):
    """A required argument is ``None`` (Kafka: NullPointerException)."""


class InvalidArgumentError(StoreError, ValueError):
    """An argument is out of range (Kafka: IllegalArgumentException)."""


class ProcessorStateError(StoreError):
    """The files of a store cannot be read, written or locked (Kafka: ProcessorStateException)."""


class TaskCorruptedError(StoreError):
    """The local state cannot be trusted: wipe the directory, and restore from the changelog.

    A store raises this error from ``init`` when it was not closed cleanly, and cannot tell
    committed data from uncommitted data (Kafka: TaskCorruptedException).
    """


class UnsupportedOperationError(StoreError):
    """A store, or a view of it, lacks the operation (Kafka: UnsupportedOperationException)."""
