"""Configurations: the runtime refuses contradictory ones before anything runs."""

from __future__ import annotations

from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig

__all__: list[str] = []


def _refusal(**config: Any) -> str:
    """The error of a refused configuration; empty if it is accepted."""
    try:
        StreamsConfig(**config)
    except UsageError as error:
        return str(error)
    return ""


@scripted("IDLE-012")
def other_negative_idle_times_are_refused(probe: Probe) -> None:
    """Configure max.task.idle.ms from -3 to 1."""
    for idle_ms in range(-3, 2):
        refusal = _refusal(max_task_idle_ms=idle_ms)
        probe.demand(
            f"{idle_ms} to be {'allowed' if idle_ms >= -1 else 'refused by name'}",
            refusal or "an allowed value",
            holds=("max.task.idle.ms" in refusal) == (idle_ms < -1),
        )


@scripted("EOS-007")
def transactions_outlive_the_interval(probe: Probe) -> None:
    """Configure a transaction timeout below the commit interval, and one equal to the interval."""
    for timeout_ms in (99, 100):
        refusal = _refusal(commit_interval_ms=100, transaction_timeout_ms=timeout_ms)
        probe.demand(
            f"{timeout_ms} ms to be {'allowed' if timeout_ms >= 100 else 'refused by name'}",
            refusal or "an allowed value",
            holds=("transaction.timeout.ms" in refusal) == (timeout_ms < 100),
        )
