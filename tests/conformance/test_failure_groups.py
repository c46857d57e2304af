"""One mistake is one entry, and two mistakes are two."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.failure_groups import broken_words, group_failures
from streamproof.conformance.results import Failure

HEAD = "from streamproof import CHANGELOG, Lab\n\nlab = Lab('s', guarantee=\"exactly-once\")\n"

CRASH = """
def doomed():
    store = lab.open()
    store.put(b'a', b'1')
    lab.arm({point})  # before s.py:120 self.db.commit()
    store.{operation}({{CHANGELOG: 4}})

lab.crash(doomed)
store = lab.open()
assert store.get(b'a') != b'1'  # expected b'a' to be absent, found b'1'
"""


def failure(requirement: str, shape: str, *lines: str, **changes: Any) -> Failure:
    """A failure with these lines in its program."""
    about = load_catalogue()[requirement]
    fields = {"found": "None", "tried": "", "known": "", **changes}
    return Failure(
        subject=fields.pop("subject", "s"),
        requirement=requirement,
        check="",
        title=about.title,
        promise=about.promise,
        source=about.source,
        level=about.level,
        core=about.core,
        program="\n".join([HEAD, *lines, ""]),
        expected="",
        reproduce="",
        shape=shape,
        **fields,
    )


def get_lost(requirement: str, *more: str, **changes: Any) -> Failure:
    """A program in which a value is lost, perhaps after more steps."""
    lines = ["store = lab.open()", "store.put(b'a', b'1')", *more, "assert store.get(b'a') == b'1'"]
    return failure(requirement, "missing-value", *lines, **changes)


def crashed(requirement: str, shape: str, point: str, operation: str = "commit") -> Failure:
    """A program that dies at a point of an operation."""
    return failure(requirement, shape, CRASH.format(point=point, operation=operation))


def opened(requirement: str, shape: str, line: str, **changes: Any) -> Failure:
    """A program that opens a store and does one thing."""
    return failure(requirement, shape, "store = lab.open()", line, **changes)


READ_ON = "entries = store.all()\n{}\nlist(entries)"


SAME = {
    "a program within another one": (
        get_lost("KV-001"),
        get_lost("KV-015", "store.commit({CHANGELOG: 7})"),
    ),
    "other values": (
        opened("KV-011", "stale-value", "store.put(b'a', b'1')"),
        opened("KV-003", "stale-value", "store.put(b'xy', b'22')"),
    ),
    "an empty value, by another method": (
        failure(
            "KV-008",
            "missing-value",
            "store = lab.open()",
            "store.put(b'a', b'')",
            "store.get(b'a')",
        ),
        failure(
            "RANGE-001",
            "missing-entries",
            "store = lab.open()",
            "store.put_all([(b'b', b'')])",
            "list(store.all())",
        ),
    ),
    "a kill at another point": (
        crashed("CRASH-004", "early-value", "line=7"),
        crashed("CRASH-017", "early-value", "syscall=2"),
    ),
    "a kill and a loss of power": (
        crashed("CRASH-004", "early-value", "line=7"),
        failure(
            "POWER-004",
            "early-value-after-power",
            "lab.power_loss(doomed, after=3)",
            tried="cut the power in commit() after call 3 (write), lose nothing, open, read",
        ),
    ),
    "a kill that loses another kind of write": (
        crashed("CRASH-003", "missing-value", "line=7"),
        crashed("CRASH-017", "changed-value", "line=9"),
    ),
    "the same scan with other bounds": (
        failure(
            "RANGE-003",
            "missing-entries",
            "store.put(b'a', b'1')",
            "assert list(store.range(b'a', b'c')) == [(b'a', b'1'), (b'c', b'3')]",
        ),
        failure(
            "RANGE-016",
            "missing-entries",
            "store.commit({CHANGELOG: 7})",
            "assert list(store.all()) == [(b'', b'')]",
            "assert list(store.range(None, b'c')) == [(b'c', b'3')]",
        ),
    ),
    "the same error": (
        opened("ISO-006", "raised-KeyError-get", "view.get(b'a')", found="KeyError: b'a'"),
        opened("ISO-010", "raised-KeyError-get", "view.get(b'bc')", found="KeyError: b'bc'"),
    ),
    "an iterator that is open during writes": (
        opened("RANGE-011", "changed-entries", READ_ON.format("store.put(b'c', b'3')")),
        opened("RANGE-010", "raised-KeyError-call", READ_ON.format("store.put(b'c', None)")),
    ),
    "an empty value in a world": (
        opened("KV-008", "missing-value", "store.put(b'a', b'')"),
        failure(
            "PROTOCOL-004",
            "changed-content",
            "# 5,355 ms: a commit",
            "# 6,052 ms: another one",
            "mistake = lab.simulate(world=4)",
            found="the store has b'key-0' = None, but its changelog says b''",
        ),
    ),
    "two worlds": (
        failure("PROTOCOL-001", "changed-content", "lab.simulate(world=1)"),
        failure("PROTOCOL-003", "raised-KeyError", "lab.simulate(world=1, seed=3)"),
    ),
}

OTHER = {
    "another way to be wrong": (
        get_lost("KV-001"),
        opened("KV-004", "stale-value", "store.put(b'a', b'1')"),
    ),
    "an iterator during writes, and one that outlives its store": (
        opened("RANGE-011", "changed-entries", READ_ON.format("store.put(b'c', b'3')")),
        opened("RANGE-005", "changed-entries", READ_ON.format("store.put(b'c', 1); store.close()")),
    ),
    "an empty value and another one in a world": (
        opened("KV-008", "missing-value", "store.put(b'a', b'')"),
        failure(
            "PROTOCOL-004",
            "changed-content",
            "# 5,355 ms: a commit",
            "# 6,052 ms: another one",
            "mistake = lab.simulate(world=4)",
            found="the store has b'key-0' = None, but its changelog says b'1'",
        ),
    ),
    "an empty value and a lost one": (
        get_lost("KV-001", "store.commit({CHANGELOG: 7})"),
        opened("KV-008", "missing-value", "store.put(b'a', b'')"),
    ),
    "only the opening in common": (
        opened("OFFSET-001", "higher-offset", "assert store.committed_offset(CHANGELOG) == None"),
        opened("OFFSET-009", "higher-offset", "assert store.committed_offset(OTHER) == None"),
    ),
    "a kill in another operation": (
        crashed("CRASH-004", "early-value", "line=7"),
        crashed("CRASH-011", "early-value", "line=7", "close"),
    ),
    "a kill with another result": (
        crashed("CRASH-003", "missing-value", "line=7"),
        crashed("CRASH-004", "early-value", "line=7"),
    ),
    "another scan": (
        opened("RANGE-003", "missing-entries", "assert list(store.range(b'a', b'c')) == [1]"),
        opened("RANGE-009", "missing-entries", "assert list(store.prefix_scan(b'a')) == [1]"),
    ),
    "the same scan, wrong in another way": (
        opened("RANGE-003", "missing-entries", "assert list(store.range(b'a', b'c')) == [1]"),
        opened("RANGE-004", "extra-entries", "assert list(store.range(b'a', b'b')) == []"),
    ),
    "another argument that is accepted": (
        opened("ERR-001", "accepted-put", "store.put(None, b'1')"),
        failure(
            "LIFE-006", "accepted-put", "store = lab.open()", "store.close()", "store.put(b'a')"
        ),
    ),
    "another error": (
        opened("ISO-006", "raised-KeyError-get", "view.get(b'a')", found="KeyError: b'a'"),
        opened("ISO-010", "raised-KeyError-get", "view.get(b'a')", found="KeyError: 'closed'"),
    ),
    "another subject": (get_lost("KV-001"), get_lost("KV-001", subject="t")),
    "a known failure and an unknown one": (get_lost("KV-001"), get_lost("KV-015", known="why")),
}


def simplicity(failure: Failure) -> tuple[bool, bool, int]:
    """Core first, then kills before losses of power, then the shortest program."""
    program = failure.program
    return (not failure.core, "lab.power_loss(" in program, len(program.splitlines()))


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_failures_of_one_cause_are_one_entry(pair: tuple[Failure, Failure]) -> None:
    """In whatever order they were found; the simpler one comes first."""
    for order in (pair, pair[::-1]):
        (group,) = group_failures(order)
        assert {group.first.requirement, *(each.requirement for each in group.others)} == {
            each.requirement for each in pair
        }
        simplest = min(pair, key=simplicity)
        assert len(group.first.program.splitlines()) == len(simplest.program.splitlines())


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_failures_of_different_causes_are_apart(pair: tuple[Failure, Failure]) -> None:
    """In whatever order they were found."""
    for order in (pair, pair[::-1]):
        assert len(group_failures(order)) == 2


def test_a_promise_that_says_much_joins_no_two_mistakes() -> None:
    """What shows both mistakes is beneath one of them."""
    empty = opened("KV-008", "missing-value", "store.put(b'a', b'')")
    lost = get_lost("COMMIT-002", "store.commit({CHANGELOG: 7})")
    both = get_lost("KV-015", "store.put(b'b', b'')", "store.commit({CHANGELOG: 7})")
    groups = group_failures([both, lost, empty])
    assert [each.first.requirement for each in groups] == ["KV-008", "COMMIT-002"]
    assert sum(len(each.others) for each in groups) == 1


def test_the_weightiest_come_first_and_the_known_last() -> None:
    """A large program of a MUST comes before a small one of a SHOULD."""
    light = opened("LIFE-009", "changed-value", "lab.registered")
    assert light.level == "SHOULD"
    known = opened("KV-002", "invented-value", "store.get(b'a')", known="being mended")
    heavy = get_lost("KV-001", *(f"store.put(b'{n}', b'1')" for n in range(9)))
    groups = group_failures([known, light, heavy])
    assert [each.first for each in groups] == [heavy, light, known]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((1, 1, 0, 0), "breaks 1 of 1 requirement"),
        ((2, 3, 1, 2), "breaks 2 of 3 requirements (1 core)"),
        ((22, 1450, 19, 2), "breaks 22 of 1,450 requirements (19 core, 2 probable causes)"),
        ((1, 0, 1, 2), "breaks 1 requirement (1 core, 2 probable causes)"),
    ],
)
def test_what_is_broken_in_words(counts: tuple[int, int, int, int], said: str) -> None:
    """The causes are told where they are not simply the requirements."""
    assert broken_words(*counts) == said
