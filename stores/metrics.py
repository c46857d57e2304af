"""Metrics with Kafka's names, levels and tags; readable as a table and as Prometheus text."""

from __future__ import annotations

__all__ = ["Metrics"]


class Metrics:
    """A registry of metrics."""
