"""streamproof: does this state store keep its promises through every crash?

This package is the public API. Everything else below ``streamproof`` is private, and may change
with any release, whether or not its name begins with an underscore.

- Write a store: :class:`StateStore` and the names around it, :class:`Capabilities`, the errors.
- Try a store by hand, and verify it: :class:`Lab`, :func:`verify`, :class:`StateStoreConformance`
  for pytest.
- Look into the simulated runtime: :func:`replay`, :func:`explore`, :func:`simulate`.
- Read the evidence: :func:`read_run_log`, :func:`read_trace`, :func:`load`.

A name is imported when it is used first, so that ``import streamproof`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamproof.version import __version__

if TYPE_CHECKING:
    from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, Lab
    from streamproof.conformance.pytest_suite import StateStoreConformance
    from streamproof.errors import StreamproofError, UsageError
    from streamproof.reports.pipeline import load
    from streamproof.reports.pipeline.tables.api import Tables
    from streamproof.reports.run_log import RunLog, read_run_log
    from streamproof.reports.verification import verify
    from streamproof.runs.exploration import Exploration, explore
    from streamproof.runs.scenario_runs import replay
    from streamproof.runs.single_world import simulate
    from streamproof.scenarios.recorded_run import RecordedRun
    from streamproof.sim.trace import Event
    from streamproof.sim.trace_files import TraceFile, read_trace
    from streamproof.stores.api import (
        ChangelogRecord,
        IsolationLevel,
        KeyValueIterator,
        KeyValueStore,
        Position,
        StateStore,
        StateStoreContext,
        TopicPartition,
        require_key,
    )
    from streamproof.stores.capabilities import Capabilities
    from streamproof.stores.errors import (
        InvalidStateStoreError,
        ProcessorStateError,
        TaskCorruptedError,
    )
    from streamproof.stores.iterators import StoreIterator
    from streamproof.stores.sessions import SessionStore
    from streamproof.stores.transactions import AbstractTransaction, AbstractTransactionalStore
    from streamproof.stores.windows import Window, Windowed, WindowStore

__all__ = [
    "CHANGELOG",
    "OTHER_CHANGELOG",
    "AbstractTransaction",
    "AbstractTransactionalStore",
    "Capabilities",
    "ChangelogRecord",
    "Event",
    "Exploration",
    "InvalidStateStoreError",
    "IsolationLevel",
    "KeyValueIterator",
    "KeyValueStore",
    "Lab",
    "Position",
    "ProcessorStateError",
    "RecordedRun",
    "RunLog",
    "SessionStore",
    "StateStore",
    "StateStoreConformance",
    "StateStoreContext",
    "StoreIterator",
    "StreamproofError",
    "Tables",
    "TaskCorruptedError",
    "TopicPartition",
    "TraceFile",
    "UsageError",
    "Window",
    "WindowStore",
    "Windowed",
    "__version__",
    "explore",
    "load",
    "read_run_log",
    "read_trace",
    "replay",
    "require_key",
    "simulate",
    "verify",
]

_MODULES = {
    "conformance.lab": ("CHANGELOG", "OTHER_CHANGELOG", "Lab"),
    "conformance.pytest_suite": ("StateStoreConformance",),
    "errors": ("StreamproofError", "UsageError"),
    "reports.pipeline": ("load",),
    "reports.pipeline.tables.api": ("Tables",),
    "reports.run_log": ("RunLog", "read_run_log"),
    "reports.verification": ("verify",),
    "runs.exploration": ("Exploration", "explore"),
    "runs.scenario_runs": ("replay",),
    "runs.single_world": ("simulate",),
    "scenarios.recorded_run": ("RecordedRun",),
    "sim.trace": ("Event",),
    "sim.trace_files": ("TraceFile", "read_trace"),
    "stores.api": (
        "ChangelogRecord",
        "IsolationLevel",
        "KeyValueIterator",
        "KeyValueStore",
        "Position",
        "StateStore",
        "StateStoreContext",
        "TopicPartition",
        "require_key",
    ),
    "stores.capabilities": ("Capabilities",),
    "stores.errors": ("InvalidStateStoreError", "ProcessorStateError", "TaskCorruptedError"),
    "stores.iterators": ("StoreIterator",),
    "stores.sessions": ("SessionStore",),
    "stores.transactions": ("AbstractTransaction", "AbstractTransactionalStore"),
    "stores.windows": ("Window", "WindowStore", "Windowed"),
}
"""Where each public name is defined; a test holds this against the imports above."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first."""
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
