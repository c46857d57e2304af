"""Faults of the disk: system calls fail, and the store must raise or complete the operation."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.crash_checks import goes_on
from streamproof.conformance.checks.transaction_checks import expect_ended, three_open
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_judge import MANNER
from streamproof.conformance.crash.crash_records import CrashKind
from streamproof.conformance.crash.kill_campaign import KillCampaign
from streamproof.conformance.crash.program import ProgramBuilder
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import Skipped

MOST_FAULTS = 240
"""The most faults in one check: after each failed write, RocksDB gets a second to flush."""


@check("ERR-008", MANNER, raw=True, weight=100, sums_up=True)
def full_disk(run: CheckRun) -> None:
    """Fill the disk: from some call on, every write-like system call fails with ENOSPC."""
    every_call(run, "enospc")


@check("ERR-009", MANNER, raw=True, weight=100, sums_up=True)
def broken_disk(run: CheckRun) -> None:
    """Let every write-like system call fail with an input/output error, once or permanently."""
    every_call(run, "eio")


def every_call(run: CheckRun, kind: CrashKind) -> None:
    """Let each system call fail in a short program, while buffers overflow, and after a crash."""
    triggers.require_seen()
    crashes = KillCampaign(run, min(run.settings.limits.crash_points // 2, MOST_FAULTS))
    builder = ProgramBuilder(gap=2).put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3").put(b"b", None).commit().then("flush").put(b"c", b"4").commit()
    program = builder.put(b"d", b"uncommitted").then("close").build()
    crashes.faults(program, 0, kind, share=0.5)
    after_a_crash(crashes, builder, kind)
    overflowing = ProgramBuilder()
    for number in range(40):
        overflowing.put(b"k%d" % (number % 5), b"%d" % number + b"." * 3_000).commit()
    crashes.faults(overflowing.build(), 1, kind)


def after_a_crash(crashes: KillCampaign, builder: ProgramBuilder, kind: CrashKind) -> None:
    """Let each system call fail while the store recovers from a crash and goes on."""
    first = builder.build()
    again = goes_on(builder, b"5")
    second_commit = 7
    for point in crashes.points(first, second_commit, 1):
        with crashes.after(first, point, crashes.left // 2) as second:
            second.faults(again, 0, kind)


@check("TXN-026", weight=20)
def closing_fails(t: Trial) -> None:
    """Close a store with open transactions on a full disk, and use the transactions."""
    t.claim("TXN-026", "close a store with open transactions on a full disk, and use these")
    store, transactions = three_open(t)
    if not t.close_failing(store, "ENOSPC"):
        raise Skipped("closing the store did not fail on a full disk")
    if store.read("is_open"):
        raise Skipped("the store stays open if closing it fails")
    for key, transaction in transactions.items():
        expect_ended(t, transaction, key)
