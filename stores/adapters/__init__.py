"""Adapters to other people's stores: each drives a real, unpatched package through the contract.

An adapter translates and never repairs: calls of the contract become calls of the package, and
errors of the package become ours. If the package loses, reorders or refuses something, the adapter
does too, because the suite exists to find exactly that.
"""

from __future__ import annotations

from streamproof.stores.api import StateStoreContext
from streamproof.stores.error_translation import ErrorTranslation
from streamproof.stores.errors import ProcessorStateError

__all__ = ["task_partition", "translated"]


def task_partition(context: StateStoreContext) -> int:
    """The partition number of a task; its id is ``<subtopology>_<partition>``."""
    return int(context.task_id.rpartition("_")[2])


def translated(action: str) -> ErrorTranslation:
    """Turn an exception of the package during ``action`` into a ProcessorStateError, chained to it.

    RocksDB's binding raises bare ``Exception``, so nothing narrower can be caught.
    """

    def failure(error: Exception) -> ProcessorStateError:
        return ProcessorStateError(f"{action} failed: {type(error).__name__}: {error}")

    return ErrorTranslation(Exception, failure)
