"""Wrong stores in Java, written from the contract alone: each is caught, and the right one is not.

The stores are in ``tests/subjects/java``. The name of each tells its mistake.
"""

from __future__ import annotations

import pytest
from command_lines import CommandLine
from java_classes import RIGHT_JAVA_STORES

RIGHT, _ = RIGHT_JAVA_STORES
WRONG = "java:com.acme.WrongLedgers$"
WINDOWS = "java:com.acme.WrongWindows#"


@pytest.mark.parametrize(
    ("wrong", "right", "requirement"),
    [
        (f"{WRONG}OffsetsFirst", RIGHT, "CRASH-003"),
        (f"{WRONG}RowsFirst", RIGHT, "CRASH-004"),
        (f"{WRONG}TornValue", RIGHT, "CRASH-006"),
        (f"{WRONG}StaleCache", RIGHT, "KV-015"),
        (f"{WRONG}LiveIterator", RIGHT, "RANGE-011"),
        (f"{WRONG}LostTombstone", RIGHT, "KV-004"),
        (f"{WRONG}WrongBound", RIGHT, "RANGE-003"),
        (f"{WRONG}HalfPutAll", RIGHT, "ERR-002"),
        (f"{WRONG}PutIfAbsentOverwrites", RIGHT, "KV-009"),
        (f"{WRONG}CommitsAtClose", RIGHT, "COMMIT-004"),
        (f"{WRONG}AnswersClosed", RIGHT, "ERR-007"),
        (f"{WRONG}PrefixWithoutCarry", RIGHT, "RANGE-009"),
        (f"{WRONG}DeleteReturnsCommitted", RIGHT, "KV-005"),
        (f"{WRONG}CutKey", RIGHT, "KV-013"),
        (f"{WRONG}LostPosition", RIGHT, "POS-007"),
        (f"{WINDOWS}upperBoundLeftOut", "java:com.acme.Stores#windows", "WIN-007"),
        (f"{WINDOWS}windowStays", "java:com.acme.Stores#windows", "WIN-004"),
        (f"{WINDOWS}sessionAtTheEndLeftOut", f"{WINDOWS}sessions", "SESS-010"),
        (f"{WINDOWS}sessionStays", f"{WINDOWS}sessions", "SESS-004"),
    ],
)
def test_a_mistake(wrong: str, right: str, requirement: str, of_a_user: CommandLine) -> None:
    """The requirement about it fails for the wrong store, and holds for the right one."""
    ended = of_a_user.verify(wrong, right, "--only", requirement)

    assert ended.code == 1, ended.stderr
    found = {each.subject: each for each in ended.log.results if each.requirement == requirement}
    assert found[wrong].status == "fail", found[wrong].reason
    assert found[right].status == "pass", found[right].reason
    # Nothing else is held against the right store either.
    assert {each.subject for each in ended.log.failures} == {wrong}
