"""Recovery: what tasks do with the files of stores, over all kinds of stores and guarantees."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions import recovery
from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN, Closing, FoundStore, Traits

__all__: list[str] = []

TRAITS = st.tuples(st.booleans(), st.booleans()).map(lambda known: Traits(*known))
OFFSETS = st.integers(0, 1_000)
FOUND = st.builds(
    FoundStore, st.none() | st.just(OFFSET_UNKNOWN) | OFFSETS, st.booleans(), st.booleans()
)
CLOSINGS = st.sampled_from(list(Closing))


@decision("TASK-013", traits=TRAITS, offset=OFFSETS)
def goes_on_after_the_offset(probe: Probe, traits: Traits, offset: int) -> None:
    """Open a store that was closed with an offset."""
    start = probe.call(recovery.opening, traits, FoundStore(offset, empty=False))
    probe.expect((False, offset + 1), tuple(start))


@decision("TASK-014", found=FOUND)
def distrusts_what_was_aborted(probe: Probe, found: FoundStore) -> None:
    """Open the files of a previous process, under exactly-once and without staging."""
    traits = Traits(exactly_once=True, transactional=False)
    start = probe.call(recovery.opening, traits, found)
    unknown = found.offset is None and not found.empty
    probe.expect(found.unclean or unknown, start.wipe)
    if start.wipe:
        probe.expect(0, start.restore_from)


@decision("TASK-015", found=FOUND)
def staged_stores_are_kept(probe: Probe, found: FoundStore) -> None:
    """Open the files of a previous process of a store that stages its writes."""
    for exactly_once in (True, False):
        traits = Traits(exactly_once=exactly_once, transactional=True)
        start = probe.call(recovery.opening, traits, found)
        probe.demand("no wipe", "a wipe", holds=not start.wipe)


@decision("ALOS-002", found=FOUND, transactional=st.booleans(), closing=CLOSINGS)
def a_replay_mends(probe: Probe, found: FoundStore, transactional: bool, closing: Closing) -> None:
    """Open and close stores in any state under at-least-once."""
    traits = Traits(exactly_once=False, transactional=transactional)
    start = probe.call(recovery.opening, traits, found)
    wipes = probe.call(recovery.wipes_after, traits, closing)
    probe.expect((False, False), (start.wipe, wipes))


@decision("TASK-016", transactional=st.booleans())
def running_stores_get_no_offset(probe: Probe, transactional: bool) -> None:
    """Commit a running task under both guarantees."""
    traits = Traits(exactly_once=True, transactional=transactional)
    probe.expect(transactional, probe.call(recovery.commits_after, traits, Closing.COMMIT))
    alos = Traits(exactly_once=False, transactional=transactional)
    probe.expect(expected=True, found=probe.call(recovery.commits_after, alos, Closing.COMMIT))


@decision("TASK-017", traits=TRAITS, closing=st.sampled_from([Closing.RESTORED, Closing.CLEAN]))
def clean_ends_are_vouched_for(probe: Probe, traits: Traits, closing: Closing) -> None:
    """Close a task cleanly, or commit its restored records."""
    probe.expect(expected=True, found=probe.call(recovery.commits_after, traits, closing))
    probe.expect(expected=False, found=probe.call(recovery.wipes_after, traits, closing))


@decision("TASK-018", traits=TRAITS)
def unclean_ends_are_not(probe: Probe, traits: Traits) -> None:
    """Close a task after an error, or because its content cannot be trusted."""
    for closing in (Closing.DIRTY, Closing.CORRUPTED):
        found = probe.call(recovery.commits_after, traits, closing)
        probe.expect(expected=False, found=found)
    wiped = probe.call(recovery.wipes_after, traits, Closing.DIRTY)
    probe.expect(traits.exactly_once and not traits.transactional, wiped)


@decision("TASK-019", traits=TRAITS, empty=st.booleans())
def an_empty_store_is_healthy(probe: Probe, traits: Traits, empty: bool) -> None:
    """Open a store that was closed before its first record."""
    start = probe.call(recovery.opening, traits, FoundStore(OFFSET_UNKNOWN, empty))
    probe.expect((False, 0), tuple(start))
