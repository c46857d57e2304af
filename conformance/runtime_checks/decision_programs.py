"""Programs that fail as long as the runtime answers wrongly, from what a check has asked.

If a check asks once and compares the whole answer, its program asks, and asserts the right answer.
Any other program runs the check again with the same values: what the check compares then may come
from several answers, and what it asks may come from an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

from streamproof.conformance.program_text import NO_ANSWER, short_comment
from streamproof.conformance.settings import Settings
from streamproof.conformance.violations import brief

__all__ = ["Call", "Source", "asking", "judging", "source_of", "text"]

MOST_CALLS = 8
"""The most calls that a program shows, the last ones."""

_JUDGE = ("streamproof.conformance.runtime_checks.judging", "judge")
"""The module and the name of the function that runs a check again."""

_DEFAULTS = Settings()


class Source(NamedTuple):
    """Python source of a value.

    Attributes:
        imports: the modules and names that the source needs.
    """

    text: str
    imports: frozenset[tuple[str, str]] = frozenset()


def source_of(value: Any) -> Source:
    """The source of a value, or its ``repr`` if it is of a kind that no check draws."""
    if isinstance(value, Enum):
        return _named(type(value), f".{value.name}")
    names = getattr(value, "_fields", getattr(value, "__struct_fields__", ()))
    usual = getattr(value, "_field_defaults", {})
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value) if each.init]
        usual = {each.name: each.default for each in fields(value)}
    if names:
        given = {name: getattr(value, name) for name in names}
        differing = {name: each for name, each in given.items() if each != usual.get(name, MISSING)}
        return _called(type(value), (), differing)
    if isinstance(value, dict):
        pairs = [(source_of(key), source_of(each)) for key, each in value.items()]
        imports = frozenset[tuple[str, str]]().union(*(each.imports for each in chain(*pairs)))
        inner = ", ".join(f"{key.text}: {each.text}" for key, each in pairs)
        return Source(f"{{{inner}}}", imports)
    if type(value) in (list, tuple):
        items = _joined(map(source_of, value))
        comma = "," if len(value) == 1 else ""
        whole = f"[{items.text}]" if isinstance(value, list) else f"({items.text}{comma})"
        return items._replace(text=whole)
    return Source(repr(value))


def _joined(some: Iterable[Source]) -> Source:
    found = [*some]
    imports = frozenset[tuple[str, str]]().union(*(each.imports for each in found))
    return Source(", ".join(each.text for each in found), imports)


def _called(function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> Source:
    by_name = ((name, source_of(each)) for name, each in kwargs.items())
    given = _joined(
        [
            *map(source_of, args),
            *(each._replace(text=f"{name}={each.text}") for name, each in by_name),
        ]
    )
    named = _named(function, f"({given.text})")
    return named._replace(imports=named.imports | given.imports)


def _named(imported: Callable[..., Any], rest: str) -> Source:
    """The name of a function or a class, with what follows."""
    name = imported.__name__
    return Source(f"{name}{rest}", frozenset({(imported.__module__, name)}))


def text(value: Any) -> str:
    """A value as Python source, cut if it is long."""
    return brief(source_of(value).text)


class Call(NamedTuple):
    """A question to the runtime.

    Attributes:
        source: the question, as it was before a function could change its arguments.
        answer: the answer; :data:`NO_ANSWER` if the function raised.
    """

    source: Source
    answer: Any = NO_ANSWER

    @classmethod
    def to(
        cls, function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Call:
        """A question that is not answered yet."""
        return cls(_called(function, args, kwargs))

    @property
    def lines(self) -> list[str]:
        """The question and its answer as comments."""
        none = self.answer is NO_ANSWER
        answered = "no answer" if none else f"answered {text(self.answer)}"
        return [short_comment(f"# {self.source.text}"), short_comment(f"#     {answered}")]


def asking(calls: Sequence[Call], expected: Any, found: Any) -> str:
    """A program that asks the one question of a check, and asserts the whole answer.

    Returns:
        The program; empty if the check has asked more, or compared something else.
    """
    if len(calls) != 1 or calls[0].answer is NO_ANSWER:
        return ""
    ((asked, answer),) = calls
    # A check may compare an answer whose fields have names with a plain tuple.
    in_fields = isinstance(answer, tuple) and type(found) is tuple and found == answer
    if found is not answer and not in_fields:
        return ""
    right = source_of(expected)
    comment = short_comment(f"found {text(found)}")
    line = f"assert {asked.text} == {right.text}  # {comment}"
    return "\n".join([*_imported(asked, right), "", line])


def judging(
    check: str, calls: Sequence[Call], drawn: Source | None, settings: Settings, defect: str
) -> str:
    """A program that runs a check again, with the last questions and answers as comments."""
    given = [repr(check), *([drawn.text] if drawn else [])]
    for name in ("guarantee", "spec", "seed", "round"):
        value = getattr(settings, name)
        if value != getattr(_DEFAULTS, name):
            given.append(f"{name}={value!r}")
    if defect:
        given.append(f"defect={defect!r}")
    shown = [*chain(*(each.lines for each in calls[-MOST_CALLS:]))]
    if len(calls) > MOST_CALLS:
        shown.insert(0, f"# Of {len(calls)} calls, the last {MOST_CALLS}:")
    judge = Source(f"judge({', '.join(given)})", frozenset({_JUDGE}))
    imports = _imported(judge, *([drawn] if drawn else []))
    return "\n".join([*imports, "", *shown, judge.text])


def _imported(*sources: Source) -> list[str]:
    """The lines that import all that these sources need."""
    needed = frozenset[tuple[str, str]]().union(*(each.imports for each in sources))
    modules = sorted({module for module, _ in needed})
    return [
        f"from {module} import {', '.join(sorted(name for each, name in needed if each == module))}"
        for module in modules
    ]
