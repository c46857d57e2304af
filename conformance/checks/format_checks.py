"""Formats of a store beside each other, and the configuration of an upgrade (KIP-258)."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.checks.timestamp_checks import expect_timed
from streamproof.conformance.checks.upgrade_checks import (
    MORE,
    OLD,
    TIMESTAMP,
    WITH_OFFSETS,
    WITHOUT_OFFSETS,
    expect_committed,
    expect_content,
    expect_record_timestamps,
    records,
    write_old,
)
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Handle, Trial
from streamproof.stores.api import UPGRADE_FROM_CONFIG, UPGRADE_MODE_CONFIG

PROPOSED = ("0.10.0.x", "0.10.1.x", "0.10.2.x", "0.11.0.x", "1.0.x", "1.1.x")
"""The releases that KIP-258 names."""

WITHOUT_TIMESTAMPS = (*PROPOSED, "2.0", "2.1", "2.2")
"""All releases whose stores have no timestamps: the proposal was written before the last three."""

UNKNOWN = ("9.9", "latest", "1.1.y", "1", " 1.1")
"""Values of ``upgrade.from`` that are no release of Kafka."""

UNKNOWN_MODES = ("prepare", "prepare_in_place_upgrade", "IN_PLACE", "in_place ", "rollover", "")
"""Values of ``upgrade.mode`` that are none. KIP-258 has used the second one in a draft."""

LAST = len(OLD + MORE) - 1


def configs(release: str | None = None, mode: str | None = None) -> dict[str, str]:
    """The configuration of an upgrade."""
    entries = {UPGRADE_FROM_CONFIG: release, UPGRADE_MODE_CONFIG: mode}
    return {name: value for name, value in entries.items() if value is not None}


def expect_refused(t: Trial, entries: dict[str, str]) -> None:
    """Demand that the store does not open with this configuration."""
    t.expect_raises(lambda: t.open_with(entries), "init raises")


def write_more(store: Handle) -> None:
    """Write and commit while the older format is in use."""
    for key, value in MORE:
        store.put(key, value)
    store.commit({CHANGELOG: LAST})


@check("UPGRADE-024")
def directories_tell_the_format(t: Trial) -> None:
    """Prepare an upgrade in place, and look at the names of the directories."""
    t.claim("UPGRADE-024", "fill the new format beside the older one, and look at the directories")
    write_old(t)
    older = t.directories()
    store = t.open_preparing()
    store.rebuild(CHANGELOG, records(OLD))
    store.close()
    both = t.directories()
    added = [each for each in both if each not in older]
    # The outermost directories that are new: a format may have directories of its own.
    outermost = [each for each in added if each.rpartition("/")[0] not in added]
    beside = [each.removesuffix("-v2") for each in outermost if each.endswith("-v2")]
    t.expect_that(
        bool(outermost) and len(beside) == len(outermost) and set(beside) <= set(older),
        "a directory of the older format's name with -v2 behind it, beside that one",
        outermost,
    )
    t.expect_that(set(older) <= set(both), "the directories of the older format", both)


@check("UPGRADE-024")
def a_new_store_tells_its_format(t: Trial) -> None:
    """Make a store where there was none, and look at the names of its directories."""
    t.claim("UPGRADE-024", "make a store without an older format, and look at the directories")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    store.close()
    found = t.directories()
    innermost = [each for each in found if not any(o.startswith(f"{each}/") for o in found)]
    t.expect_that(
        bool(innermost) and all("-v2/" in f"{each}/" for each in innermost),
        "directories in one whose name ends with -v2",
        innermost,
    )


@check("UPGRADE-035")
def offline_upgrade_begins_anew(t: Trial) -> None:
    """Open the new format for the first time, with the older one beside it, and restore."""
    t.claim("UPGRADE-035", "open a directory of the older format without any configuration")
    write_old(t)
    store = t.open()
    t.expect(store.committed_offset(CHANGELOG), None)
    for key, _ in OLD:
        t.expect(store.get(key), None)
    t.claim("UPGRADE-035", "restore the new format, and read values and timestamps")
    t.catch_up(store, records(OLD))
    expect_committed(t, store, OLD)
    expect_record_timestamps(t, store, OLD)


@check("UPGRADE-025")
def the_plain_store_stays(t: Trial) -> None:
    """Use the plain store without any upgrade."""
    t.claim("UPGRADE-025", "write with the plain store, and open it again, without an upgrade")
    write_old(t)
    older = t.open_older()
    expect_content(t, older, OLD)
    write_more(older)
    older.close()
    older = t.open_older()
    expect_content(t, older, OLD + MORE)


@check("UPGRADE-026")
def rolled_over(t: Trial) -> None:
    """Open the store before a roll-over upgrade, write, and open both formats after it."""
    t.claim("UPGRADE-026", "open the store with the mode roll_over, and read and write")
    write_old(t)
    older = t.directories()
    store = t.open_with(configs("1.1.x", "roll_over"))
    t.expect(store.committed_offset(CHANGELOG), len(OLD) - 1)
    expect_committed(t, store, OLD)
    write_more(store)
    expect_committed(t, store, OLD + MORE)
    t.claim("UPGRADE-026", "open the store with the mode roll_over, and look for a new format")
    store.close()
    t.expect(t.directories(), older)
    t.claim("UPGRADE-026", "write with the mode roll_over, and open the older store")
    plain = t.open_older()
    t.expect(plain.committed_offset(CHANGELOG), LAST)
    expect_content(t, plain, OLD + MORE)
    plain.close()
    t.claim("UPGRADE-026", "write with the mode roll_over, and open the store without it")
    store = t.open()
    t.catch_up(store, records(OLD + MORE))
    expect_committed(t, store, OLD + MORE)


@check("UPGRADE-027")
def nothing_is_rebuilt_in_roll_over(t: Trial) -> None:
    """Try to fill a new format while a roll-over upgrade is being prepared."""
    t.claim("UPGRADE-027", "call rebuild with the mode roll_over")
    write_old(t)
    store = t.open_with(configs("1.1.x", "roll_over"))
    t.expect_raises(lambda: store.rebuild(CHANGELOG, records(OLD)), "rebuild raises")
    expect_committed(t, store, OLD)


@check("UPGRADE-028")
def readiness_is_logged(t: Trial) -> None:
    """Fill the new format in two parts, and read the log."""
    t.claim("UPGRADE-028", "fill the new format, and look for an INFO message about the store")
    write_old(t)
    store = t.open_preparing()
    name = store.read("name")
    t.watch_log()
    store.rebuild(CHANGELOG, records(OLD)[:3])
    t.expect(store.read("prepared"), False)
    before = {each for each in t.messages() if name in each}
    store.rebuild(CHANGELOG, records(OLD)[3:])
    t.expect(store.read("prepared"), True)
    # A store may report its progress, too. The message of its readiness is another one.
    said = [each for each in t.messages() if name in each and each not in before]
    t.expect_that(bool(said), "an INFO message with the name of the store", said)
    # An operator who restarts the process waits for the message of the new process.
    t.claim("UPGRADE-028", "open a store whose new format is complete, and look for the message")
    t.messages()
    store.close()
    store = t.open_preparing()
    t.expect(store.read("prepared"), True)
    again = [each for each in t.messages() if name in each]
    t.expect_that(bool(again), "an INFO message with the name of the store", again)


@check("UPGRADE-029")
def modes_are_known(t: Trial) -> None:
    """Open the store with modes that exist, and with others."""
    t.claim("UPGRADE-029", "open the store with upgrade.from and a mode")
    for mode in ("in_place", "roll_over"):
        t.open_with(configs("1.1.x", mode)).close()
        t.held()
    for mode in UNKNOWN_MODES:
        expect_refused(t, configs("1.1.x", mode))


@check("UPGRADE-030")
def releases_are_known(t: Trial) -> None:
    """Open the store with every release of the proposal, and with texts that are none."""
    t.claim("UPGRADE-030", "open the store with a release in upgrade.from")
    write_old(t)
    for release in WITHOUT_TIMESTAMPS:
        for mode in ("in_place", "roll_over"):
            store = t.open_with(configs(release, mode))
            t.expect(store.committed_offset(CHANGELOG), len(OLD) - 1)
            t.expect(store.get(b"a"), b"1")
            store.close()
    for text in UNKNOWN:
        expect_refused(t, configs(text, "roll_over"))


@check("UPGRADE-031")
def a_mode_is_needed(t: Trial) -> None:
    """Open the store with an old release alone."""
    for release in WITHOUT_TIMESTAMPS:
        t.claim("UPGRADE-031", f"open the store with upgrade.from {release} and no upgrade.mode")
        expect_refused(t, configs(release))


@check("UPGRADE-032")
def a_mode_alone_is_ignored(t: Trial) -> None:
    """Open the store with a mode alone, which may be any text."""
    write_old(t)
    for mode in ("in_place", "roll_over", "sideways"):
        t.claim("UPGRADE-032", f"open the store with upgrade.mode {mode} and no upgrade.from")
        store = t.open_with(configs(mode=mode))
        t.catch_up(store, records(OLD))
        expect_committed(t, store, OLD)
        found = store.get_with_timestamp(b"a")
        t.expect(None if found is None else tuple(found), (b"1", TIMESTAMP))
        store.close()
    store = t.open()
    t.expect(store.committed_offset(CHANGELOG), len(OLD) - 1)
    expect_committed(t, store, OLD)


@check("UPGRADE-033")
def later_releases_prepare_no_upgrade(t: Trial) -> None:
    """Open the store with each release that has timestamps, as a downgrade of offsets needs it."""
    t.claim("UPGRADE-033", "write with timestamps")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 77)
    store.commit({CHANGELOG: 0})
    store.close()
    for offset, release in enumerate((*WITHOUT_OFFSETS, WITH_OFFSETS)):
        t.claim("UPGRADE-033", f"write with timestamps, open the store with upgrade.from {release}")
        store = t.open_with(configs(release))
        t.expect(store.committed_offset(CHANGELOG), offset)
        expect_timed(t, store, b"a", (b"1", 77))
        store.put_with_timestamp(b"b", release.encode(), 88 + offset)
        store.commit({CHANGELOG: offset + 1})
        store.close()
        store = t.open()
        t.expect(store.committed_offset(CHANGELOG), offset + 1)
        expect_timed(t, store, b"a", (b"1", 77))
        expect_timed(t, store, b"b", (release.encode(), 88 + offset))
        store.close()
