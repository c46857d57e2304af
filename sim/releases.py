"""Releases: the differences between the processes of an application during an upgrade.

Source: KIP-258, ``upgrade.from``; Kafka, StreamsAssignmentProtocolVersions.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamproof.sim.decisions.versions import LATEST_SUPPORTED_VERSION

__all__ = [
    "BEFORE_FORMATS",
    "BEFORE_OFFSETS",
    "BEFORE_SUMS",
    "DOWNGRADING",
    "LATEST",
    "PREPARING_IN_PLACE",
    "ROLLING_OVER",
    "WITH_FORMATS",
    "Release",
]


@dataclass(frozen=True)
class Release:
    """A release of the runtime, with its configuration.

    Attributes:
        name: the version of Kafka.
        metadata_version: the newest metadata version that it supports.
        manages_offsets: whether stores keep their offsets themselves (KIP-1035).
        upgrade_from: the older release that must be able to go on; empty without one.
        upgrade_mode: how a newer format is prepared, ``in_place`` or ``roll_over``; empty without a
            preparation.
        timestamped: whether it has the format with timestamps, which is live without a mode.
    """

    name: str
    metadata_version: int = LATEST_SUPPORTED_VERSION
    manages_offsets: bool = True
    upgrade_from: str = ""
    upgrade_mode: str = ""
    timestamped: bool = False

    @property
    def formats(self) -> tuple[int, ...]:
        """The formats of its stores: 1 is the older format, 2 the format with timestamps."""
        if not self.timestamped or self.upgrade_mode == "roll_over":
            return (1,)
        return (1, 2) if self.upgrade_mode else (2,)

    @property
    def used_version(self) -> int:
        """The first metadata version that it uses: an older one while a format is prepared."""
        return BEFORE_FORMATS.metadata_version if self.upgrade_mode else self.metadata_version


LATEST = Release("4.3")
"""The present one."""

BEFORE_SUMS = Release("2.5", metadata_version=6, manages_offsets=False)
"""A release from before KIP-441: its members do not report offset sums."""

BEFORE_OFFSETS = Release("4.2", manages_offsets=False)
"""A release from before KIP-1035: offsets are in a file of the task."""

DOWNGRADING = Release("4.3", upgrade_from="4.2")
"""The present release, which leaves stores in the form that the one before can go on with."""

BEFORE_FORMATS = Release("1.1", metadata_version=2)
"""A release from before KIP-258: its only format has plain values.

This release keeps its offsets in the store nonetheless, so that upgrades from it concern formats
alone.
"""

PREPARING_IN_PLACE = Release(
    "1.2", metadata_version=3, upgrade_from="1.1", upgrade_mode="in_place", timestamped=True
)
"""The first bounce: the older format is served, and the newer one is built beside it."""

ROLLING_OVER = Release(
    "1.2", metadata_version=3, upgrade_from="1.1", upgrade_mode="roll_over", timestamped=True
)
"""The first bounce of the other way: the older format is served until others take over."""

WITH_FORMATS = Release("1.2", metadata_version=3, timestamped=True)
"""The second bounce: the newer format is live (the release is named as in KIP-258)."""
