"""Why a process does not answer an interactive query.

Source: Kafka, FailureReason (KIP-796).
"""

from __future__ import annotations

from typing import Literal

__all__ = ["UNKNOWN_QUERY_TYPE", "QueryRefusal"]

QueryRefusal = Literal[
    "NOT_ACTIVE", "NOT_PRESENT", "NOT_UP_TO_BOUND", "STORE_MIGRATED", "UNKNOWN_QUERY_TYPE"
]
"""The copy is no running active task; there is no copy; the copy is older than the bound; the copy
was closed before it was read; the store has no ranges."""

UNKNOWN_QUERY_TYPE: QueryRefusal = "UNKNOWN_QUERY_TYPE"
"""The one refusal that is final: every copy of the store would give it."""
