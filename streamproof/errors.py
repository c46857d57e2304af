"""The errors that every package shares: a mistake of the user, and a mistake of the suite.

.. code-block:: text

    StreamproofError
    ├── UsageError   a command, a subject or a declaration is wrong
    │   ├── NotTriedError    this machine lacks something, so nothing can be said
    │   └── StartAnewError   a test needs a process that sees system calls
    ├── SuiteError   the suite or the simulator is wrong
    ├── StoreError   a state store failed: see ``streamproof.stores.errors``
    ├── BrokerError  a simulated broker refused: see ``streamproof.sim.broker_errors``
    └── RunLogError  a run log is wrong: see ``streamproof.reports.run_log_errors``
"""

from __future__ import annotations

__all__ = [
    "NotTriedError",
    "StartAnewError",
    "StreamproofError",
    "SuiteError",
    "UsageError",
]


class StreamproofError(Exception):
    """The root of all errors that streamproof raises on purpose."""


class UsageError(StreamproofError):
    """A command line, a subject or a declaration is wrong (exit code 3)."""


class NotTriedError(UsageError):
    """Something cannot be tried on this machine, which says nothing about the store (exit code 2).

    The pytest plugin skips a test that raises it.
    """


class StartAnewError(UsageError):
    """A test has to run in a process that was started with more variables in its environment.

    The pytest plugin starts such a process for the test.

    Attributes:
        environment: the variables.
    """

    def __init__(self, message: str, environment: dict[str, str]) -> None:
        super().__init__(message)
        self.environment = environment


class SuiteError(StreamproofError):
    """The suite or the simulator is wrong, and not what it judges (exit code 70)."""
