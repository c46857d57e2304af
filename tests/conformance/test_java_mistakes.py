"""Wrong stores in Java, written from the contract alone: each is caught, and the right one is not.

The stores are in ``tests/subjects/java``. The name of each tells its mistake.
"""

from __future__ import annotations

import pytest
from command_lines import CommandLine
from java_classes import RIGHT_JAVA_STORES

from streamproof.exit_codes import ExitCode

WRONG = "java:com.acme.WrongLedgers$"
WINDOWS = "java:com.acme.WrongWindows#"

CAUGHT_BY = {
    f"{WRONG}OffsetsFirst": "CRASH-003",
    f"{WRONG}RowsFirst": "CRASH-004",
    f"{WRONG}TornValue": "CRASH-006",
    f"{WRONG}StaleCache": "KV-015",
    f"{WRONG}LiveIterator": "RANGE-011",
    f"{WRONG}LostTombstone": "KV-004",
    f"{WRONG}WrongBound": "RANGE-003",
    f"{WRONG}HalfPutAll": "ERR-002",
    f"{WRONG}PutIfAbsentOverwrites": "KV-009",
    f"{WRONG}CommitsAtClose": "COMMIT-004",
    f"{WRONG}AnswersClosed": "ERR-007",
    f"{WRONG}PrefixWithoutCarry": "RANGE-009",
    f"{WRONG}DeleteReturnsCommitted": "KV-005",
    f"{WRONG}CutKey": "KV-013",
    f"{WRONG}LostPosition": "POS-007",
}
"""The requirement that catches each wrong key-value store."""


@pytest.mark.parametrize(("wrong", "requirement"), CAUGHT_BY.items())
def test_a_mistake(wrong: str, requirement: str, of_a_user: CommandLine) -> None:
    """The requirement about it fails."""
    ended = of_a_user.verify(wrong, "--only", requirement)

    assert ended.code == 1, ended.stderr
    assert ended.results[requirement].status == "fail", ended.results[requirement].reason


def test_the_right_store(of_a_user: CommandLine) -> None:
    """It keeps all promises, and those that wrong stores break were tried."""
    right, _ = RIGHT_JAVA_STORES
    ended = of_a_user.verify(right, "--spec", "kafka-4.4")

    assert ended.code in (ExitCode.SUCCESS, ExitCode.PARTIAL), ended.stdout
    assert {each.status for each in ended.log.results}.isdisjoint({"fail", "error"})
    held = {name for name, each in ended.results.items() if each.status == "pass"}
    assert set(CAUGHT_BY.values()) <= held


@pytest.mark.parametrize(
    ("wrong", "right", "requirement"),
    [
        (f"{WINDOWS}upperBoundLeftOut", "java:com.acme.Stores#windows", "WIN-007"),
        (f"{WINDOWS}windowStays", "java:com.acme.Stores#windows", "WIN-004"),
        (f"{WINDOWS}sessionAtTheEndLeftOut", f"{WINDOWS}sessions", "SESS-010"),
        (f"{WINDOWS}sessionStays", f"{WINDOWS}sessions", "SESS-004"),
    ],
)
def test_a_mistake_in_windows(
    wrong: str, right: str, requirement: str, of_a_user: CommandLine
) -> None:
    """The requirement about it fails for the wrong store, and holds for the right one."""
    ended = of_a_user.verify(wrong, right, "--only", requirement)

    assert ended.code == 1, ended.stderr
    found = {each.subject: each for each in ended.log.results if each.requirement == requirement}
    assert found[wrong].status == "fail", found[wrong].reason
    assert found[right].status == "pass", found[right].reason
    # Nothing else is held against the right store either.
    assert {each.subject for each in ended.log.failures} == {wrong}
