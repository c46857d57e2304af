"""The judge on crashes in the middle of an upgrade, and on positions after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_crash_judge import EXACT, LOOSE, PLAIN, TRANSACTIONAL, broken, crashed_at, seen_at

from streamproof.conformance.crash.crash_judge import POSITION, history_of, judge
from streamproof.conformance.crash.program import Operation, Program, ProgramBuilder
from streamproof.conformance.lab import CHANGELOG, Lab
from streamproof.conformance.oracle import History
from streamproof.conformance.ruling import Ruling
from streamproof.stores.api import RecordMetadata
from streamproof.stores.capabilities import Capabilities

COMMITTED = {b"a": b"1"}
UNCOMMITTED = {b"a": b"2"}


def upgrading() -> Program:
    """Offset 0 is committed by the older store; then the upgrade, offset 1, and its commit."""
    builder = ProgramBuilder(operations=[Operation("open_older")])
    builder.put(b"a", b"1").commit().then("close", "upgrade").catch_up()
    return builder.put(b"a", b"2").commit().build()


OPEN_OLDER, PUT, COMMIT, CLOSE, UPGRADE, CATCH_UP, SECOND_PUT, SECOND_COMMIT = range(1, 9)
"""How many operations had started."""


def ruled(
    started: int,
    offsets: dict[Any, int],
    content: dict[bytes, bytes],
    capabilities: Capabilities = TRANSACTIONAL,
    *,
    in_flight: bool = True,
    program: Program | None = None,
    **changes: Any,
) -> list[str]:
    """Which promises are broken if this is found after a crash in the middle of the upgrade."""
    crashed = crashed_at(program or upgrading(), started, in_flight=in_flight)
    history = history_of(crashed, capabilities, exact=capabilities.transactional)
    seen = msgspec.structs.replace(seen_at(history, offsets, content), **changes)
    return broken(judge(crashed, history, seen, capabilities))


@pytest.mark.parametrize("started", [CLOSE, UPGRADE, CATCH_UP])
@pytest.mark.parametrize("capabilities", [TRANSACTIONAL, PLAIN], ids=["transactional", "plain"])
def test_old_or_empty_is_legal_until_the_upgrade_is_through(
    started: int, capabilities: Capabilities
) -> None:
    """What was committed is there, or is rebuilt from the start of the changelog."""
    assert ruled(started, {CHANGELOG: 0}, COMMITTED, capabilities) == []
    assert ruled(started, {}, {}, capabilities) == []


def test_the_offset_without_the_data_is_a_loss() -> None:
    """An exact store loses what was committed, and any other what its offset covers."""
    assert ruled(UPGRADE, {CHANGELOG: 0}, {}) == ["CRASH-003"]
    assert ruled(UPGRADE, {CHANGELOG: 0}, {}, PLAIN) == ["CRASH-005"]
    assert ruled(CATCH_UP, {CHANGELOG: 0}, {}) == ["CRASH-005"]


def test_the_data_without_the_offset_came_too_early() -> None:
    """In an exact store only: in any other, the replay mends it."""
    assert ruled(UPGRADE, {}, COMMITTED) == ["CRASH-004"]
    assert ruled(UPGRADE, {}, COMMITTED, PLAIN) == []
    assert ruled(UPGRADE, {}, COMMITTED, PLAIN, restored={}) == ["RESTORE-006"]


def test_an_offset_that_nobody_committed_is_invented() -> None:
    """The upgrade must not take over more than there was."""
    assert ruled(UPGRADE, {CHANGELOG: 5}, COMMITTED) == ["CRASH-010"]


def test_a_commit_after_the_upgrade_survives() -> None:
    """From the first commit that returned, that of the replay, starting anew is a loss again."""
    assert ruled(CATCH_UP, {}, {}) == []
    assert ruled(CATCH_UP, {}, {}, in_flight=False) == ["CRASH-008"]
    assert ruled(SECOND_COMMIT, {}, {}, in_flight=False) == ["CRASH-008"]
    assert ruled(SECOND_COMMIT, {CHANGELOG: 1}, UNCOMMITTED, in_flight=False) == []


def test_a_refusal_is_legal_only_where_the_older_store_was_left() -> None:
    """A transactional store keeps its own state, but cannot vouch for that of an older one."""
    assert ruled(COMMIT, {}, {}, refused="not closed cleanly") == []
    assert ruled(SECOND_PUT, {}, {}, refused="not closed cleanly") == ["CRASH-001"]


def test_what_an_older_store_left_uncommitted_must_be_noticed() -> None:
    """An exact store must not show it; any other must refuse it, or start empty."""
    builder = ProgramBuilder(operations=[Operation("open_older")]).put(b"a", b"1").commit()
    program = builder.put(b"a", b"2").build()
    assert ruled(4, {CHANGELOG: 0}, UNCOMMITTED, program=program) == ["CRASH-004"]
    assert ruled(4, {CHANGELOG: 0}, UNCOMMITTED, PLAIN, program=program) == ["CRASH-009"]
    for capabilities in (TRANSACTIONAL, PLAIN):
        assert ruled(4, {}, {}, capabilities, program=program) == []


def test_each_format_has_offsets_of_its_own() -> None:
    """While one is filled beside the other, the offset that either has committed is legal."""
    builder = ProgramBuilder(operations=[Operation("open_older")])
    builder.put(b"a", b"1").put(b"b", b"2").put(b"a", b"3").commit().then("close", "open_preparing")
    program = builder.rebuild(0, 2).build()
    whole = {b"a": b"3", b"b": b"2"}
    half = {b"a": b"1", b"b": b"2"}
    for offsets, content in (({CHANGELOG: 2}, whole), ({CHANGELOG: 1}, half), ({}, {})):
        assert ruled(8, offsets, content, program=program) == []
    assert ruled(8, {CHANGELOG: 2}, half, program=program) == ["CRASH-005"]
    assert ruled(8, {CHANGELOG: 0}, {b"a": b"1"}, program=program) == ["CRASH-002"]
    assert ruled(8, {}, {}, program=program, refused="not closed cleanly") == []


# Position.


def on_position(case: Any, position: dict[int, int], *, asked: bool = True) -> list[Ruling]:
    """The rulings on the last commit of a case, with this position."""
    seen = msgspec.structs.replace(case.seen, position=position)
    return judge(case.crashed, case.history, seen, case.capabilities, position=asked)


def test_the_position_belongs_to_the_commit() -> None:
    """POS-012: with transactions neither less nor more, without them not less."""
    for case in (EXACT, LOOSE):
        assert broken(on_position(case, {0: 1})) == []
        assert broken(on_position(case, {})) == [POSITION]
        assert broken(on_position(case, {0: 7})) == [POSITION]
    assert broken(on_position(EXACT, {0: 3})) == [POSITION]
    assert broken(on_position(LOOSE, {0: 3})) == []


def test_the_position_is_judged_only_where_it_is_asked_for() -> None:
    """So that a store without one is not blamed, and its other promises are all tried."""
    names = [each.requirement for each in on_position(EXACT, {}, asked=False)]
    assert POSITION not in names
    assert POSITION in [each.requirement for each in on_position(EXACT, {0: 1})]


# Programs.


def test_the_older_store_is_closed_before_the_newer_one_opens() -> None:
    """A program that was made smaller must not open two stores in one directory."""
    whole = upgrading()
    assert whole.alternates
    close = [each.name for each in whole.operations].index("close")
    assert not Program(whole.operations[:close] + whole.operations[close + 1 :]).alternates
    assert Program(whole.operations[:close]).alternates
    assert not Program((Operation("open"), Operation("close"), Operation("close"))).alternates


class Noting(Lab):
    """A lab that notes what is asked of it, and opens nothing."""

    def __init__(self) -> None:
        super().__init__("in-memory", directory=Path("gone"))
        self.asked: list[Any] = []

    def open_older(self) -> Any:
        return "older"

    def open_preparing(self) -> Any:
        return "preparing"

    def rows(self) -> Any:
        return "newer"

    def catch_up(self, store: Any, changelog: Any) -> None:
        self.asked.append((store, list(changelog)))

    def processing(self, topic: str, partition: int, offset: int, timestamp: int = -1) -> None:
        self.asked.append((topic, partition, offset))

    def idle(self) -> None:
        self.asked.append("idle")


def test_what_the_operations_of_an_upgrade_do() -> None:
    """Each opens what it says, and catching up replays the changelog so far."""
    lab = Noting()
    for name, store in (
        ("open_older", "older"),
        ("open_preparing", "preparing"),
        ("upgrade", "newer"),
        ("open", "newer"),
    ):
        assert Operation(name).perform(lab, None) == store
    assert lab.asked == []
    program = upgrading()
    assert program.operations[CATCH_UP - 1].perform(lab, "store") == "store"
    assert lab.asked == ["idle", ("store", [write.record() for write in program_writes(1)])]


def program_writes(count: int) -> list[Any]:
    """The first writes of the upgrading program."""
    return [write for each in upgrading().operations for write in each.writes][:count]


def test_operations_as_lines_of_a_program() -> None:
    """They run as they stand, in a program that has a lab and a store."""
    record = "ChangelogRecord(b'a', b'1', 0)"
    lines = [each.source("rows") for each in upgrading().operations]
    assert lines[:6] == [
        "store = lab.open_older()",
        "store.put(b'a', b'1')",
        "store.commit({CHANGELOG: 0})",
        "store.close()",
        "store = lab.rows()",
        f"lab.catch_up(store, [{record}])",
    ]
    builder = ProgramBuilder(operations=[Operation("open_preparing")]).put(b"a", b"1")
    program = builder.read(b"a").rebuild(0, 1).build()
    assert [each.source() for each in program.operations] == [
        "store = lab.open_preparing()",
        "store.put(b'a', b'1')",
        "store.get(b'a')",
        f"store.rebuild(CHANGELOG, [{record}])",
    ]


def test_each_write_has_an_input_record_of_its_own() -> None:
    """With the number of its partition and its offset; restored records have none."""
    builder = ProgramBuilder(gap=2).put(b"a", b"1").put_all([(b"b", b"2"), (b"c", None)])
    program = builder.commit().restore([(b"d", b"4")]).build()
    assert [each.record for each in program.operations] == [
        None,
        RecordMetadata("input", 0, 1),
        RecordMetadata("input", 0, 5),
        None,
        None,
    ]


def test_the_history_knows_what_was_restored() -> None:
    """Its position is that of the writes alone."""
    builder = ProgramBuilder().put(b"a", b"1").restore([(b"d", b"4")])
    history: History = history_of(crashed_at(builder.build(), 3), TRANSACTIONAL, exact=True)
    assert history.restored == {1}
    assert history.position_after(2) == {0: 0}
