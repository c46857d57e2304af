"""Which methods a store claims to have, by its capabilities and its kind.

A check that reads with a method asks here first, so that no store is judged by what it does not
claim. ``Capabilities`` says the same in words.
"""

from __future__ import annotations

from streamproof.stores.capabilities import Capabilities

__all__ = ["OF_KEYS", "OF_WINDOWS", "in_both_directions", "is_claimed"]

OF_KEYS = {
    "all": "scan",
    "range": "ranges",
    "reverse_range": "reverse",
    "reverse_all": "reverse",
    "prefix_scan": "prefix_scan",
    "approximate_num_entries": "entry_count",
}
"""The methods of a key-value store that need a capability, and that capability."""

OF_WINDOWS = {
    "all": "scan",
    "fetch_all": "scan",
    "find_sessions_between": "scan",
    "fetch_range": "ranges",
    "find_sessions_range": "ranges",
}
"""The methods of a window or session store that read several keys, each with its capability.

Every method whose name begins with ``backward_`` needs ``reverse`` as well. Seen as a key-value
store, a session store has ``all``.
"""


def in_both_directions(*methods: str) -> tuple[str, ...]:
    """Methods of a window or session store, each forward and backward."""
    return tuple(f"{way}{method}" for method in methods for way in ("", "backward_"))


def is_claimed(method: str, can: Capabilities) -> bool:
    """Whether a store with these capabilities claims a method of its kind."""
    name = method.removesuffix("_with_timestamp")
    if can.kind == "key-value":
        return name not in OF_KEYS or bool(getattr(can, OF_KEYS[name]))
    forward = name.removeprefix("backward_")
    if forward != name and not can.reverse:
        return False
    if forward in OF_WINDOWS:
        return bool(getattr(can, OF_WINDOWS[forward]))
    return forward not in OF_KEYS
