"""Which engine makes the tables in the tests of a process; there can be only one."""

from __future__ import annotations

__all__ = ["ENGINE"]

ENGINE = "STREAMPROOF_TEST_ENGINE"
"""The variable that is ``sail`` if the session of the tests shall be one of Sail."""
