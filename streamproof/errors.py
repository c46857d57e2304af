"""The errors that every package shares: a mistake of the user, and a mistake of the suite.

.. code-block:: text

    StreamproofError
    ├── UsageError   a command, a subject or a declaration is wrong
    ├── SuiteError   the suite or the simulator is wrong
    ├── StoreError   a state store failed: see ``streamproof.stores.errors``
    ├── BrokerError  a simulated broker refused: see ``streamproof.sim.broker_errors``
    └── RunLogError  a run log is wrong: see ``streamproof.reports.run_log_errors``
"""

from __future__ import annotations

__all__ = ["StreamproofError", "SuiteError", "UsageError"]


class StreamproofError(Exception):
    """The root of all errors that streamproof raises on purpose."""


class UsageError(StreamproofError):
    """A command line, a subject or a declaration is wrong (exit code 3)."""


class SuiteError(StreamproofError):
    """The suite or the simulator is wrong, and not what it judges (exit code 70)."""
