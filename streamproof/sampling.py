"""Chooses evenly spread samples of numbered things if trying all of them would take too long."""

from __future__ import annotations

__all__ = ["spread", "spread_order"]


def spread(count: int, limit: int) -> list[int]:
    """The numbers 1 to ``count``, or ``limit`` of them, evenly spread, both ends included."""
    if count <= limit:
        return list(range(1, count + 1))
    if limit < 2:
        return [1 + count // 2][:limit]
    return sorted({1 + round(i * (count - 1) / (limit - 1)) for i in range(limit)})


def spread_order(count: int, limit: int) -> list[int]:
    """Up to ``limit`` numbers below ``count``, ordered so that every prefix is evenly spread."""
    bits = count.bit_length()
    order = sorted(range(count), key=lambda number: f"{number:0{bits}b}"[::-1])
    return order[:limit]
