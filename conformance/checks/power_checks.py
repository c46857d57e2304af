"""The loss of power: unsynced data is lost in every legal way, and the checks judge the rest."""

from __future__ import annotations

from random import Random
from typing import Literal

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.crash_checks import (
    of_an_import,
    of_large_values,
    of_many_rows,
    of_offsets_alone,
)
from streamproof.conformance.checks.upgrade_checks import preparing, upgrading
from streamproof.conformance.crash.program import PARTITIONS, ProgramBuilder, random_program
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.power.power_campaign import PowerCampaign
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import Skipped, SubjectRaised
from streamproof.sampling import spread
from streamproof.stores.syscalls.disk import PORTABLE

JUDGED = (
    "POWER-001",
    "POWER-002",
    "POWER-003",
    "POWER-004",
    "POWER-005",
    "POWER-006",
    "POWER-008",
    "POWER-009",
    "POWER-010",
    "POWER-015",
)
"""The requirements that judge every loss of power."""

LONG = 1_700
"""The size in bytes of a value that can be torn at the end of a sector."""

MOST_LARGE_LOSSES = 60
"""The most losses of power of a check whose program writes many rows."""

LARGE_POWERS = range(11, 19)
"""The bits in the sizes of large values, from 2 KiB to 256 KiB."""

FIRST_LOSSES = 3
"""The most first losses of power from which a check searches for further losses."""


WITHOUT: tuple[Literal["files", "content"], ...] = ("files", "content")
"""What is taken from the files that a store declares disposable."""


def campaign(run: CheckRun) -> PowerCampaign:
    """The losses of power that this check may spend."""
    return PowerCampaign(run, run.settings.limits.power_states)


def written() -> ProgramBuilder:
    """Commits that write, overwrite and delete long values, with flushes."""
    builder = ProgramBuilder(gap=2).put(b"a", b"1" * LONG).put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3" * LONG).put(b"b", None).put(b"c", b"4" * LONG).commit().then("flush")
    return builder.put(b"c", None).put(b"a", b"5").commit()


@check(*JUDGED, raw=True, weight=90)
def after_commits(run: CheckRun) -> None:
    """Lose the power after every call of programs that write, commit, flush and close."""
    losses = campaign(run)
    losses.lose(written().put(b"d", b"uncommitted").then("close").build(), share=0.5)
    # Flushed but uncommitted writes are on the disk, and must not count as committed.
    flushed = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2").then("flush")
    losses.lose(flushed.build(), share=0.25)
    random = Random(run.seed)
    for left in (3, 2, 1):
        losses.lose(random_program(random, commits=3), share=1 / left)


@check(*JUDGED, raw=True, weight=90)
def while_buffers_overflow(run: CheckRun) -> None:
    """Lose the power while many commits overflow small write buffers and files are merged."""
    losses = campaign(run)
    builder = ProgramBuilder(gap=2)
    for number in range(24):
        value = b"%d" % number + b"." * 3 * LONG
        builder.put(b"k%d" % (number % 5), None if number % 11 == 10 else value)
        builder.put(b"last", b"%d" % number).commit()
        if number % 6 == 5:
            builder.then("flush")
    losses.lose(builder.build())


@check(*JUDGED, raw=True, weight=60)
def large_commits(run: CheckRun) -> None:
    """Lose the power around commits of more rows than one batch may hold."""
    PowerCampaign(run, min(run.settings.limits.power_states, MOST_LARGE_LOSSES)).lose(
        of_many_rows()
    )


@check(*JUDGED, raw=True, weight=60)
def large_values(run: CheckRun) -> None:
    """Lose the power around commits of large values, which a store may keep in files of their own.

    The first is above the size from which stores do so; the others have any size.
    """
    losses = PowerCampaign(run, min(run.settings.limits.power_states // 2, MOST_LARGE_LOSSES))
    random = Random(run.seed)
    losses.lose(of_large_values(random, LARGE_POWERS[-1:]), share=0.5)
    losses.lose(of_large_values(random, LARGE_POWERS))


@check(*JUDGED, raw=True, weight=60)
def offsets_alone(run: CheckRun) -> None:
    """Lose the power around commits that have offsets, and no write."""
    several = run.subject.capabilities.several_partitions
    campaign(run).lose(of_offsets_alone(several=several))


@check("POWER-019", raw=True, weight=60, sums_up=True)
def while_importing(run: CheckRun) -> None:
    """Lose the power while a store takes over the offsets of two partitions from one file."""
    campaign(run).lose(of_an_import().read(b"a").then("close").build())


@check("POWER-007", raw=True, weight=60, sums_up=True)
def several_partitions(run: CheckRun) -> None:
    """Lose the power around commits of two changelog partitions."""
    losses = campaign(run)
    random = Random(run.seed)
    losses.lose(random_program(random, commits=4, partitions=PARTITIONS), share=0.5)
    losses.lose(random_program(random, commits=4, partitions=PARTITIONS))


@check("POWER-011", raw=True, weight=60, sums_up=True)
def while_closing_and_opening(run: CheckRun) -> None:
    """Lose the power while a store is closed, opened again, and closed once more."""
    losses = campaign(run)
    builder = written().then("close", "open")
    losses.lose(builder.put(b"b", b"6").commit().then("close", "open", "close").build())


@check("POWER-012", raw=True, weight=60, sums_up=True)
def while_upgrading(run: CheckRun) -> None:
    """Lose the power while an older format is opened and during the first commits after that."""
    losses = campaign(run)
    builder = upgrading().read(b"b").then("flush").put(b"a", b"5").put(b"b", None).commit()
    losses.lose(builder.then("flush", "close", "open").build())


@check("UPGRADE-034", raw=True, weight=60, sums_up=True)
def while_preparing(run: CheckRun) -> None:
    """Lose the power while the new format is filled beside the older one, and then upgrade."""
    losses = campaign(run)
    losses.lose(preparing())


@check("POWER-013", raw=True, weight=60, sums_up=True)
def position_after_a_loss(run: CheckRun) -> None:
    """Lose the power around commits, and compare the position with the offsets."""
    losses = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").commit().then("flush").put(b"b", b"2").then("flush")
    builder.put(b"a", b"3").commit().then("close", "open").put(b"c", b"4").commit()
    losses.lose(builder.then("close").build())


@check("POWER-014", raw=True, weight=60, sums_up=True)
def without_a_journal(run: CheckRun) -> None:
    """Lose any unsynced creation, renaming or removal of a file."""
    losses = PowerCampaign(run, run.settings.limits.power_states, PORTABLE)
    builder = written().then("close", "open").put(b"b", b"6").commit().then("flush")
    losses.lose(builder.then("close").build(), ("scattered",))


@check("POWER-016", raw=True, weight=80, sums_up=True)
def while_recovering(run: CheckRun) -> None:
    """Lose the power, and lose it again while the store recovers and goes on."""
    losses = campaign(run)
    builder = written()
    firsts = losses.lose(builder.build(), ("lost", "reordered"), share=0.2)
    after = ProgramBuilder(ends=builder.ends, gap=2)
    after.catch_up().put(b"b", b"7").put(b"a", None).commit().then("flush").put(b"c", b"8")
    chosen = spread(len(firsts), FIRST_LOSSES)
    for left, index in zip(range(len(chosen), 0, -1), chosen, strict=True):
        losses.lose(after.build(), share=1 / left, before=firsts[index - 1])


@check("POWER-017", raw=True, weight=60, sums_up=True)
def while_restoring(run: CheckRun) -> None:
    """Lose the power in the middle of a restoration, and restore again."""
    losses = campaign(run)
    builder = ProgramBuilder(gap=2)
    for batch in range(4):
        entries: list[tuple[bytes, bytes | None]] = [(b"k%d" % batch, b"%d" % batch * LONG)]
        entries += [(b"shared", b"%d" % batch), (b"k%d" % (batch - 1), None)]
        builder.restore(entries).commit()
    losses.lose(builder.then("flush", "close").build())


@check("POWER-018")
def without_disposable_files(t: Trial) -> None:
    """Open copies of a store without the files that it declares disposable, or with empty ones."""
    t.claim("POWER-018", "open a copy without disposable files, and one in which they are empty")
    keys = [b"a", b"k0", b"k1", b"k2"]
    store = t.open()
    for number in range(3):
        store.put(b"a", b"%d" % number * LONG)
        store.put(b"k%d" % number, b"%d" % number)
        store.commit({CHANGELOG: 2 * number + 1})
        if not t.lab.disposable_files():
            raise Skipped("the store has no file that it declares disposable")
        expect_alike(t, keys)
        store.flush()
        expect_alike(t, keys)
    store.put(b"a", b"uncommitted")
    expect_alike(t, keys)
    store.close()
    expect_alike(t, keys)


def expect_alike(t: Trial, keys: list[bytes]) -> None:
    """Demand that a copy without disposable files has what a plain copy has."""
    try:
        plain = t.open_copy()
    except SubjectRaised:
        # After a kill, a store without transactions may refuse its files.
        return
    offset, values = plain.committed_offset(CHANGELOG), [plain.get(key) for key in keys]
    plain.close()
    for without in WITHOUT:
        store = t.open_copy(without=without)
        t.expect(store.committed_offset(CHANGELOG), offset)
        for key, value in zip(keys, values, strict=True):
            t.expect(store.get(key), value)
        store.close()
