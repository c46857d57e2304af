"""Releases: the differences between the processes of an application during an upgrade.

Source: KIP-258, ``upgrade.from``; Kafka, StreamsAssignmentProtocolVersions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from streamproof.sim.brokers.transaction_coordinator import TransactionVersion
from streamproof.sim.decisions.versions import FORMATS_VERSION, LATEST_SUPPORTED_VERSION
from streamproof.stores.api import UPGRADE_FROM_CONFIG, UPGRADE_MODE_CONFIG, StateStoreContext
from streamproof.stores.upgrade_configs import upgrade_use

__all__ = [
    "BEFORE_FORMATS",
    "BEFORE_OFFSETS",
    "BEFORE_SUMS",
    "DOWNGRADING",
    "FIRST",
    "LATEST",
    "PREPARING_IN_PLACE",
    "PREPARING_IN_PLACE_FROM_FIRST",
    "PREPARING_METADATA",
    "ROLLING_OVER",
    "WITH_FORMATS",
    "Formats",
    "LiveFormat",
    "Release",
]


Formats = tuple[int, ...]
"""The formats of a store, the live one first: 1 has plain values, and 2 has timestamps."""

LiveFormat = Literal["assignment", "configuration"]
"""What decides which format of a store is live after the second bounce of an upgrade in place.

``assignment``: the metadata version of the assignment, as KIP-258 proposes; an assignment in
version 3 also deletes the older format. ``configuration``: ``upgrade.mode`` alone; a store deletes
its older format once the newer one has caught up. Our stores do this by themselves.
"""

_UPGRADED_FROM = {
    "0.10.0": 1,
    **dict.fromkeys(("0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"), 2),
}
"""The metadata version of Subscriptions by ``upgrade.from``: releases from before version probing.

Any later release understands a newer Subscription well enough to answer it.
"""


@dataclass(frozen=True)
class Release:
    """A release of the runtime, with its configuration.

    Attributes:
        name: the version of Kafka.
        metadata_version: the newest metadata version that it supports.
        manages_offsets: whether stores keep their offsets themselves (KIP-1035).
        upgrade_from: the older release that must be able to go on; empty without one.
        upgrade_mode: how a newer format is prepared, ``in_place`` or ``roll_over``; empty without a
            preparation. Without ``upgrade_from`` the mode is ignored, and becomes empty.
        timestamped: whether it has the format with timestamps, which is live without a mode.
        leaves_group: whether a thread leaves the group at a clean stop. Later releases remain, and
            a restart within the session moves no task (KAFKA-4965).
        transaction_version: the version of the protocol of transactions that its producers speak;
            2 since Kafka 4.0 (KIP-890).

    Raises:
        UsageError: ``upgrade_from`` is no release, or ``upgrade_mode`` is missing, not known, or
            out of place.
    """

    name: str
    metadata_version: int = LATEST_SUPPORTED_VERSION
    manages_offsets: bool = True
    upgrade_from: str = ""
    upgrade_mode: str = ""
    timestamped: bool = False
    leaves_group: bool = False
    transaction_version: TransactionVersion = 2

    def __post_init__(self) -> None:
        if not self.upgrade_from:
            object.__setattr__(self, "upgrade_mode", "")
        configs = {
            UPGRADE_FROM_CONFIG: self.upgrade_from,
            UPGRADE_MODE_CONFIG: self.upgrade_mode,
        }
        given = {name: value for name, value in configs.items() if value}
        # Releases from before the proposal have upgrade.from alone (KAFKA-6054).
        knows_modes = self.metadata_version >= FORMATS_VERSION
        upgrade_use(StateStoreContext(Path(), app_configs=given), shipped=not knows_modes)

    @property
    def formats(self) -> Formats:
        """The formats of its stores by its configuration, the live one first.

        1 is the older format, 2 the format with timestamps.
        """
        if not self.timestamped or self.upgrade_mode == "roll_over":
            return (1,)
        return (1, 2) if self.upgrade_mode else (2,)

    def formats_after(self, version: int) -> Formats:
        """The formats of its stores after an assignment in a metadata version, the live one first.

        After the second bounce of an upgrade in place the older format stays live, and the newer
        one is updated beside it, until the leader answers in the version of the newer releases
        (KIP-258, "In-place upgrade").
        """
        waits = self.formats == (2,) and version < FORMATS_VERSION
        return (1, 2) if waits else self.formats

    @property
    def used_version(self) -> int:
        """The first metadata version that it uses: that of ``upgrade.from`` if it is older.

        Sources: KIP-258, "Upgrading"; KAFKA-6054; Kafka, AssignorConfiguration.
        """
        older = self.upgrade_from.removesuffix(".x")
        return _UPGRADED_FROM.get(older, self.metadata_version)

    @property
    def names_formats(self) -> bool:
        """Whether its Subscriptions name the formats of its stores, as KIP-258 proposes."""
        return self.timestamped


LATEST = Release("4.3")
"""The present one."""

BEFORE_SUMS = Release("2.5", metadata_version=6, manages_offsets=False, transaction_version=1)
"""A release from before KIP-441: its members do not report offset sums."""

BEFORE_OFFSETS = Release("4.2", manages_offsets=False)
"""A release from before KIP-1035: offsets are in a file of the task."""

DOWNGRADING = Release("4.3", upgrade_from="4.2")
"""The present release, which leaves stores in the form that the one before can go on with."""

BEFORE_FORMATS = Release("1.1", metadata_version=2, transaction_version=1)
"""A release from before KIP-258: its only format has plain values.

This release keeps its offsets in the store nonetheless, so that upgrades from it concern formats
alone.
"""

FIRST = Release("0.10.0", metadata_version=1, leaves_group=True, transaction_version=1)
"""The first release, whose metadata version is 1 (KAFKA-6054)."""

PREPARING_METADATA = replace(BEFORE_FORMATS, upgrade_from="0.10.0")
"""The first bounce of an upgrade from there: metadata version 1 is used on."""

WITH_FORMATS = Release("1.2", metadata_version=3, timestamped=True, transaction_version=1)
"""The second bounce: the newer format is live (the release is named as in KIP-258)."""

PREPARING_IN_PLACE = replace(WITH_FORMATS, upgrade_from="1.1", upgrade_mode="in_place")
"""The first bounce: the older format is served, and the newer one is built beside it."""

PREPARING_IN_PLACE_FROM_FIRST = replace(PREPARING_IN_PLACE, upgrade_from="0.10.0")
"""The same bounce in an upgrade from the first release, with metadata version 1."""

ROLLING_OVER = replace(WITH_FORMATS, upgrade_from="1.1", upgrade_mode="roll_over")
"""The first bounce of the other way: the older format is served until others take over."""
