"""Failures that probably share a cause: one mistake is one entry, whatever it breaks.

One mistake breaks many promises. A reader wants to see the mistake once, in its simplest program,
with the other promises beneath. Terminal, reports and headlines all group by this rule: two
failures of one subject probably share a cause if

- the steps of the simpler program are all in the other one, apart from the values in them, and
  both fail in the same way;
- or both write the same kind of unusual value, such as an empty one, and fail in the same way;
- or the process stops in the same operation, and what is found afterwards is wrong alike: a lost
  insert, update or delete is a lost write;
- or the same scan leaves out, adds or mixes up entries in the same way;
- or both read on in an iterator that was open during writes, whatever comes of that;
- or the same call raises the same error;
- or both are about whole applications, in simulated worlds, or the world finds the unusual value
  that the simpler program writes;
- or the requirement of one implies that of the other, and both fail in the same way.

The rule compares with the simplest failure of a group alone. So a promise that says much, such as
the agreement with a model, never joins two mistakes into one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.results import Failure
from streamproof.conformance.verdict_rule import LEVELS

__all__ = ["FailureGroup", "broken_words", "group_failures"]

_ASIDE = re.compile(r"\s*# (?:before|expected|found) .*$|^\s*#.*$")
_BYTES = re.compile(r"""b'(?:[^'\\]|\\.)+'|b"(?:[^"\\]|\\.)+\"""")
_NUMBER = re.compile(r"(?<![\w'])\d+")
_SETTING = re.compile(r"from |import |Lab\.|lab = Lab\(|$")
_ASKING = re.compile(r"(?:assert|print|raise)\b|(?:offsets|answer_\d+) = ")
_WRAPPED = re.compile(r"with suppress\(Exception\): |assert (?:not )?")
_OPENING = re.compile(r"\w+ = lab(?:_\d+)?\.\w+\(\)$")
_STOPPED = re.compile(r"lab\.arm\([^\n]*\n(?:\s*try:\n)?\s*(?:\w+ = )?\w+\.(\w+)\(")
_CUT = re.compile(r"cut the power in (\w+)\(\)")
_WORLD = "lab.simulate("
_POWER = "lab.power_loss("
_SCANNED = re.compile(r"assert list\(\w+\.(\w+)\(")
_LOST_WRITES = ("missing", "stale", "changed", "extra")
_AFTER = re.compile(r"-after-\w+$")

_ITERATOR = re.compile(r"^(entries\d*) = \w+\.", re.MULTILINE)
_WRITES = re.compile(r"\.(?:put|put_all|put_if_absent|delete|restore|remove)\(")

_TRAITS = {
    # A world says it of the changelog.
    "an empty value": re.compile(
        rf"(?:{_BYTES.pattern}), b''[,)]|changelog says b''$", re.MULTILINE
    ),
    "an empty key": re.compile(r"\(b'', (?!\))"),
    "a large value": re.compile(r"\* \d{4,}"),
}


class FailureGroup(NamedTuple):
    """Failures that probably share a cause.

    Attributes:
        first: the simplest of the weightiest ones.
        others: the rest, in the same order.
    """

    first: Failure
    others: tuple[Failure, ...]

    @property
    def requirements(self) -> list[str]:
        """The requirements that the cause breaks, each once."""
        return list(dict.fromkeys(each.requirement for each in (self.first, *self.others)))


def group_failures(failures: Iterable[Failure]) -> list[FailureGroup]:
    """The failures by probable cause: the weightiest first, known ones last."""
    groups: list[tuple[Failure, list[Failure]]] = []
    for failure in sorted(failures, key=_weight):
        for first, others in groups:
            if _share_a_cause(first, failure):
                others.append(failure)
                break
        else:
            groups.append((failure, []))
    return [FailureGroup(first, tuple(others)) for first, others in groups]


def broken_words(broken: int, asked: int, core: int, causes: int) -> str:
    """How much a subject breaks, in the words of every headline.

    Args:
        broken: the number of broken requirements.
        asked: the number of requirements that were asked; 0 if nobody knows.
        core: how many of the broken ones are core.
        causes: the number of groups of failures; 0 if nobody counted them.
    """
    of = f" of {asked:,}" if asked else ""
    noun = "requirement" if (asked or broken) == 1 else "requirements"
    aside = [f"{core:,} core"] if core else []
    if 0 < causes != broken:
        aside.append(f"{causes:,} probable cause{'' if causes == 1 else 's'}")
    more = f" ({', '.join(aside)})" if aside else ""
    return f"breaks {broken:,}{of} {noun}{more}"


def _weight(failure: Failure) -> tuple[bool, int, bool, bool, int, int, str, str, str]:
    """The place of a failure: unknown before known, weighty before light, simple before large.

    A kill comes before a loss of power, which harms whatever a kill harms.
    """
    program = failure.program
    return (
        bool(failure.known),
        LEVELS.index(failure.level),
        not failure.core,
        _POWER in program,
        len(program.splitlines()) if program else 10**9,
        len(program),
        failure.subject,
        failure.requirement,
        failure.shape,
    )


def _share_a_cause(first: Failure, other: Failure) -> bool:
    """Whether a failure probably has the cause of a simpler one."""
    if first.subject != other.subject or bool(first.known) != bool(other.known):
        return False
    if _reads_on(first) and _reads_on(other):
        return True
    if first.shape.startswith("raised-"):
        return first.shape == other.shape and _found(first) == _found(other)
    if _WORLD in other.program:
        finds_trait = bool(_traits(first)) and _traits(first) <= _traits(other)
        return finds_trait or _WORLD in first.program
    if not (first.program and other.program):
        return False
    if _stop(first) or _stop(other):
        return _stop(first) == _stop(other) and _found_after_stop(first) == _found_after_stop(other)
    return _how(first) == _how(other) and _writes_alike(first, other)


def _writes_alike(first: Failure, other: Failure) -> bool:
    """Whether two programs that fail in the same way do the same, or ask for the same."""
    if _traits(first) and _traits(first) <= _traits(other):
        return True
    if _implies(first.requirement, other.requirement):
        return True
    if _scanned(first) and first.shape == other.shape and _scanned(first) == _scanned(other):
        return True
    steps = _steps(first.program), _steps(other.program)
    return first.shape == other.shape and (_contains(*steps) or _contains(*reversed(steps)))


def _how(failure: Failure) -> str:
    """In which way the answer is wrong, whatever was asked: ``missing``, ``early``, ``lower``."""
    return _AFTER.sub("", failure.shape).partition("-")[0]


def _found_after_stop(failure: Failure) -> str:
    """In which way a state after a stop is wrong.

    It depends on the example whether a lost write was that of a new row, an old one, or a delete.
    """
    how = _how(failure)
    return "lost" if how in _LOST_WRITES else how


def _scanned(failure: Failure) -> str:
    """The scan that the program asks last; empty if it asks for something else."""
    asked = _SCANNED.findall(failure.program)
    return str(asked[-1]) if asked else ""


def _reads_on(failure: Failure) -> bool:
    """Whether the last line of a program reads an iterator that was open during writes."""
    program = failure.program
    if _WORLD in program or _stop(failure):
        return False
    iterators = [*_ITERATOR.finditer(program)]
    if not iterators or not _WRITES.search(program, iterators[-1].end()):
        return False
    opened = iterators[-1]
    # The close of a store, or of the iterator, is another story.
    last = program.rstrip().splitlines()[-1]
    reads = re.search(rf"\b(?:list|next)\({opened[1]}\b", program[opened.end() :])
    return bool(reads) and ".close()" not in program and not last.startswith("raise")


def _found(failure: Failure) -> str:
    """What was found, without the values in it."""
    return _NUMBER.sub("0", _BYTES.sub("b", failure.found))


def _stop(failure: Failure) -> str:
    """The operation in which the process or the power stops; empty if neither does."""
    if cut := _CUT.search(failure.tried):
        return cut[1]
    if stopped := _STOPPED.findall(failure.program):
        return str(stopped[-1])
    return "a call" if "lab.crash(" in failure.program else ""


def _traits(failure: Failure) -> frozenset[str]:
    """What is unusual about the values that a program writes.

    A shrinker makes all values usual that need not be unusual.
    """
    text = f"{failure.program}\n{failure.found}"
    return frozenset(name for name, pattern in _TRAITS.items() if pattern.search(text))


@cache
def _steps(program: str) -> tuple[str, ...]:
    """What a program does and last asks, without the values in it."""
    steps = []
    for line in program.splitlines():
        step = _NUMBER.sub("0", _BYTES.sub("b", _ASIDE.sub("", line).strip()))
        if not _SETTING.match(step):
            steps.append(step)
    *before, last = steps or [""]
    done = [_WRAPPED.sub("", each) for each in before if not _ASKING.match(each)]
    return (*done, _WRAPPED.sub("", last).partition(" == ")[0].partition(" != ")[0])


def _contains(steps: tuple[str, ...], fewer: tuple[str, ...]) -> bool:
    """Whether a program has all steps of another one, in their order."""
    left = iter(steps)
    return any(not _OPENING.match(each) for each in fewer) and all(each in left for each in fewer)


def _implies(one: str, other: str) -> bool:
    """Whether one of two requirements implies the other."""
    catalogue = load_catalogue()
    pairs = ((one, other), (other, one))
    return any(b in catalogue[a].implies for a, b in pairs if a in catalogue)
