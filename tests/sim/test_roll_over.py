"""When the old instances of a roll-over may be stopped, in a few events (KIP-258)."""

from __future__ import annotations

from functools import partial

import pytest
from hand_made_events import made

from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.metadata_versions import NAMES_FORMATS
from streamproof.sim.invariants.roll_over import CopiesTakeOverWhenReady
from streamproof.sim.trace import Event

NEW = "instance-1"
THREAD = f"{NEW}/thread-0"
PLACE = {"task": "0_0", "partition": "app-s-changelog-0"}


def opened(sequence: int, offset: int) -> Event:
    return made(
        sequence, THREAD, "store.opened", **PLACE, offset=offset, place="s-v2", persistent=True
    )


READY = made(5, NEW, "instance.ready")
RESTORED = made(4, THREAD, "store.restored", **PLACE, offset=1)
CLOSED = made(6, THREAD, "task.closed", task="0_0", closing="DIRTY")
REOPENED = opened(7, 0)
CRASHED = made(8, NEW, "instance.crashed")


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([], 1),
        ([READY], 1),
        ([RESTORED], 1),
        ([RESTORED, READY], 0),
        ([RESTORED, READY, CLOSED], 0),
        ([RESTORED, READY, CLOSED, REOPENED], 0),
        ([RESTORED, READY, CLOSED, REOPENED, CRASHED], 1),
    ],
)
def test_an_operator_may_rely_on_what_was_ready(events: list[Event], count: int) -> None:
    """A copy may start over after its process was ready, but not with another process."""
    history = LogHistory(exactly_once=False)
    see = CopiesTakeOverWhenReady(history).observers
    begun = [
        made(0, "app", "application.started", changelogs={"0_0": ["app-s-changelog-0"]}),
        made(1, NEW, "instance.started", release=NAMES_FORMATS),
        *(
            made(2, "brokers", "log.appended", partition=PLACE["partition"], offset=each)
            for each in range(2)
        ),
        opened(3, -1),
    ]
    found = []
    for each in [*begun, *events, made(9, "instance-0", "instance.retired")]:
        history.see(each)
        found += see[each.kind](each) if each.kind in see else ()
    assert len(found) == count


def test_a_copy_may_lack_what_a_compaction_has_taken() -> None:
    """With a tombstone that is gone, the records before it are gone too, and nobody copies them."""
    history = LogHistory(exactly_once=False)
    see = CopiesTakeOverWhenReady(history).observers
    log = {"partition": PLACE["partition"]}
    compacted = {"offset": 2, "removed": 1}
    found: list[str] = []
    for each in (
        made(0, "app", "application.started", changelogs={"0_0": ["app-s-changelog-0"]}),
        made(1, NEW, "instance.started", release=NAMES_FORMATS),
        made(2, "brokers", "log.appended", **log, offset=0, key=b"k", value=b"v"),
        made(3, "brokers", "log.appended", **log, offset=1, key=b"k", value=None),
        made(4, "brokers", "log.compacted", **log, **compacted),
        made(5, "brokers", "log.compacted", **log, **compacted),
        opened(6, -1),
        made(7, NEW, "instance.ready"),
        made(8, "instance-0", "instance.retired"),
    ):
        history.see(each)
        found += see[each.kind](each) if each.kind in see else ()
    assert found == []


def test_what_a_log_surely_has() -> None:
    """Before an offset: no record that a later one replaces, nor a tombstone after its time."""
    history = LogHistory(exactly_once=False)
    log = {"partition": PLACE["partition"]}
    for offset, (key, value) in enumerate([(b"a", b"1"), (b"b", b"1"), (b"b", None), (b"a", b"2")]):
        history.see(
            made(offset, "brokers", "log.appended", **log, key=key, value=value, offset=offset)
        )
    last = partial(history.last_kept, PLACE["partition"])
    assert [last(end) for end in range(5)] == [-1, 0, 1, 2, 3]
    for sequence in (4, 5):
        history.see(made(sequence, "brokers", "log.compacted", **log, offset=4, removed=1))
    assert [last(end) for end in range(5)] == [-1, -1, -1, -1, 3]
