"""Configurations: the runtime refuses contradictory ones before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.releases import Release

__all__: list[str] = []

VERSION_OF = {
    "0.10.0": 1,
    **dict.fromkeys(("0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"), 2),
}
"""The metadata version of each release that KIP-258 names."""

WITHOUT_TIMESTAMPS = (*VERSION_OF, "2.0", "2.1", "2.2")
"""The releases whose stores have no timestamps: the proposal was written before the last three."""

LATER = ("2.3", "2.8", "3.0", "3.9", "4.0", "4.2", "4.3")
"""Some of the releases since then."""

NO_RELEASES = ("9.9", "latest", "1.1.y", "1", " 1.1")
"""Values of ``upgrade.from`` that are no release of Kafka."""


def _refusal(make: Callable[..., object] = StreamsConfig, **config: Any) -> str:
    """The error of a refused configuration; empty if it is accepted."""
    try:
        make(**config)
    except UsageError as error:
        return str(error)
    return ""


def _upgrade(older: str = "", mode: str = "") -> Release:
    """An instance of the release of the proposal, with the configuration of an upgrade."""
    return Release(
        "1.2", metadata_version=3, upgrade_from=older, upgrade_mode=mode, timestamped=True
    )


def _expect_refused(probe: Probe, name: str, **config: str) -> None:
    """Demand that an upgrade is refused with a message that names the configuration."""
    refusal = _refusal(_upgrade, **config)
    probe.demand(
        f"{config} to be refused, by the name of {name}",
        refusal or "an accepted configuration",
        holds=name in refusal,
    )


@scripted("IDLE-012")
def other_negative_idle_times_are_refused(probe: Probe) -> None:
    """Configure max.task.idle.ms from -1000 to 1, and the least integers."""
    for idle_ms in (-(2**63), -(2**31), *range(-1_000, 2)):
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


@scripted("UPGRADE-117")
def only_releases_are_upgraded(probe: Probe) -> None:
    """Configure upgrade.from with releases, and with texts that are none."""
    for release in WITHOUT_TIMESTAMPS:
        for text in (release, f"{release}.x"):
            probe.expect("", _refusal(_upgrade, older=text, mode="roll_over"))
    for release in LATER:
        probe.expect("", _refusal(_upgrade, older=release))
    for text in NO_RELEASES:
        _expect_refused(probe, "upgrade.from", older=text, mode="roll_over")


@scripted("UPGRADE-118")
def modes_are_known(probe: Probe) -> None:
    """Configure modes that exist, others, none, and a mode without an upgrade."""
    for release in WITHOUT_TIMESTAMPS:
        for mode, formats in (("in_place", (1, 2)), ("roll_over", (1,))):
            probe.expect("", _refusal(_upgrade, older=release, mode=mode))
            probe.expect(formats, _upgrade(release, mode).formats)
        for mode in ("prepare", "prepare_in_place_upgrade", "IN_PLACE", "in_place ", ""):
            _expect_refused(probe, "upgrade.mode", older=release, mode=mode)
    for mode in ("", "in_place", "roll_over", "sideways"):
        found = probe.call(_upgrade, mode=mode)
        probe.expect(((2,), 3), (found.formats, found.used_version))


@scripted("UPGRADE-106")
def each_older_release_has_its_version(probe: Probe) -> None:
    """Configure upgrade.from with each release from before version probing, and without it."""
    for release, version in VERSION_OF.items():
        for text in (release, f"{release}.x"):
            for mode in ("in_place", "roll_over"):
                probe.expect(version, _upgrade(text, mode).used_version)
    # Releases from before the proposal have upgrade.from alone, for the first release.
    for release in list(VERSION_OF)[1:]:
        for text, version in (("0.10.0", 1), ("0.10.0.x", 1), ("", 2)):
            found = probe.call(Release, release, metadata_version=2, upgrade_from=text)
            probe.expect(version, found.used_version)
    probe.expect(3, _upgrade().used_version)
