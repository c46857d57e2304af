"""Random programs against the oracle: writers, readers, iterators, commits and reopenings.

The steps of a program are drawn one by one, so what has no order comes in every order. The steps
are in :mod:`~streamproof.conformance.store_program`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG
from streamproof.conformance.program_kinds import ScanMethod, kind_of
from streamproof.conformance.random_steps import Player, Steps
from streamproof.conformance.short_programs import ShortProgram, short_programs
from streamproof.conformance.store_program import USES, StoreProgram, expires, partitions_of
from streamproof.conformance.trial import Trial
from streamproof.stores.api import NO_TIMESTAMP

__all__ = ["random_programs"]

FEW_KEYS = 8
"""The keys of most operations: a few, so that programs overwrite, delete and put again."""

SIZES = (7, 8, 10, 12, 13, 15, 16, 17)
"""The bits in the sizes of drawn values."""

FEW_TIMED_KEYS = 3
"""The same of windows and sessions, of which each key has several."""

LARGE_VALUES = (b"." * 1500,) * 4 + tuple(
    b"%c" % (65 + power) * ((1 << power) + more) for power in SIZES for more in (-1, 0, 1)
)
"""A few of the first overflow a small cache. Stores treat values in another way from some size on,
which is often a power of two."""


@check(
    *("KV-015", "RANGE-010", "RANGE-011", "RANGE-012", "RANGE-015", "TS-001", "TS-011"),
    *("OFFSET-005", "OFFSET-006", "OFFSET-013", "COMMIT-003", "COMMIT-008"),
    *("TXN-006", "TXN-009", "TXN-015", "ISO-006", "ISO-009", "ISO-016", "ISO-020", "ISO-023"),
    *("POS-002", "POS-007", "POS-008", "ERR-001", "ERR-002", "ERR-006", "ERR-007", "RESTORE-012"),
    *("WIN-038", "WIN-039", "WIN-040", "WIN-041", "WIN-042", "WIN-052", "WIN-055", "WIN-056"),
    *("SESS-030", "SESS-031", "SESS-032", "SESS-033", "SESS-034", "SESS-047", "SESS-050"),
    "SESS-051",
    raw=True,
    weight=50,
)
def random_programs(run: CheckRun) -> None:
    """Run random programs on the store and on its oracle, and compare every answer."""
    for program in short_programs(run):
        run.shrinking(partial(in_trial, run, program))
    steps = Steps(StoreProgram, strategies(run), run)
    limits = run.settings.limits
    run.run_programs(
        lambda: partial(play, run, Player(steps, limits.store_steps, limits.shrink_programs)),
        limits.store_programs,
    )


def play(run: CheckRun, player: Player, data: DataObject) -> None:
    """Draw a program, and run it in a trial of its own."""
    with ExitStack() as stack:
        player.play(data.draw, lambda: StoreProgram(run, stack.enter_context(trial_of(run))))


def in_trial(run: CheckRun, program: ShortProgram) -> None:
    """Run a program that is not drawn."""
    with trial_of(run) as t:
        program(StoreProgram(run, t))


def trial_of(run: CheckRun) -> AbstractContextManager[Trial]:
    """A trial of the promise about all answers."""
    return run.trial(kind_of(run.subject.capabilities).promises.answers)


def strategies(run: CheckRun) -> dict[str, SearchStrategy[Any]]:
    """The strategies for the arguments of steps."""
    generators = run.generators()
    kind = kind_of(run.subject.capabilities)
    keys = generators.edge_keys
    count = FEW_TIMED_KEYS if expires(run) else FEW_KEYS
    few = st.sampled_from(keys[:count])
    # Most bounds are keys that the store may have.
    bounds = st.sampled_from((*keys[:count] * 3, None, None, b"", *keys[FEW_KEYS:]))
    values = st.one_of(generators.values(), st.sampled_from(LARGE_VALUES))
    any_value = st.one_of(st.none(), values)
    return {
        "key": kind.keys(few),
        "any_key": kind.keys(st.one_of(few, generators.keys())),
        "value": values,
        "any_value": any_value,
        "entries": st.lists(st.tuples(kind.keys(few), any_value), max_size=4),
        "bound": kind.bounds(bounds),
        "scan": st.sampled_from(kind.scans or (ScanMethod(""),)),
        # The number of a writer, a reader or an iterator, modulo how many there are.
        "which": st.sampled_from((0, 1, 2, 3, 4, 5)),
        "one": st.sampled_from((CHANGELOG, OTHER_CHANGELOG)),
        "partitions": st.sampled_from(partitions_of(run)),
        "advance": st.sampled_from((1, 0, 2, 1000)),
        "flag": st.booleans(),
        "input_partition": st.sampled_from((0, 1)),
        "input_offset": st.integers(0, 9),
        "timestamp": st.sampled_from((0, 5, 5000, 2**40, NO_TIMESTAMP)),
        "refusing": st.sampled_from(kind.refusing),
        "use": st.sampled_from(USES),
    }
