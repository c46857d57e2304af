"""Programs as text: values as Python source, and complete programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, ChangelogRecord
from streamproof.conformance.violations import brief, safe_repr
from streamproof.stores.api import NO_TIMESTAMP, IsolationLevel, TopicPartition
from streamproof.stores.jvm.subjects import CLASS_PATH, class_path_for
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windows import Windowed

__all__ = [
    "END_OF_SHOWN",
    "LONGEST_PROGRAM",
    "NO_ANSWER",
    "ONLY_SHOWN",
    "WHY_LONG",
    "assertion",
    "brief_source",
    "explained",
    "fails_by_itself",
    "has_source",
    "only_shown",
    "render",
    "render_argument",
    "render_program",
    "short_comment",
    "verifying_program",
    "with_class_path",
]

NO_ANSWER = object()
"""Stands for an answer that nobody recorded."""

LONGEST_PROGRAM = 25
"""The most lines of a program that needs no reason for its length."""

WHY_LONG = "# This program is long, because no shorter one was found that fails."

END_OF_SHOWN = "raise SystemExit(2)"
"""The last line of a program that cannot tell whether the finding is gone."""

ONLY_SHOWN = "# This program cannot make sure that it shows what was found. If not, it ends with 2."
"""The first line of such a program."""

LONGEST_COMMENT = 160
"""The most characters of a comment behind a line of a program."""

PREAMBLE = "from streamproof import {names}"

OTHER_IMPORTS = {
    "with suppress(": "from contextlib import suppress",
    "setswitchinterval(": "from sys import setswitchinterval",
    "Thread(": "from threading import Thread",
    "islice(": "from itertools import islice",
    "AbstractTransaction)": ("from streamproof.stores.transactions import AbstractTransaction"),
    "ValueAndTimestamp(": "from streamproof.stores.timestamps import ValueAndTimestamp",
}
"""The imports of programs from elsewhere, each with the text that needs it."""

NAMES = (
    "CHANGELOG",
    "OTHER_CHANGELOG",
    "ChangelogRecord",
    "IsolationLevel",
    "Lab",
    "TopicPartition",
    "Window",
    "Windowed",
)


def render(value: Any) -> str:
    """A value as Python source, with the short names that programs use."""
    if isinstance(value, TopicPartition):
        short = {CHANGELOG: "CHANGELOG", OTHER_CHANGELOG: "OTHER_CHANGELOG"}
        return short.get(value, f"TopicPartition({value.topic!r}, {value.partition})")
    if isinstance(value, Windowed):
        start, end = value.window
        return f"Windowed({render(value.key)}, Window({start}, {end}))"
    if isinstance(value, ChangelogRecord):
        timestamp = "" if value.timestamp == NO_TIMESTAMP else f", {value.timestamp}"
        fields = f"{render(value.key)}, {render(value.value)}, {value.offset}{timestamp}"
        return f"ChangelogRecord({fields})"
    if isinstance(value, IsolationLevel):
        return str(value)
    if isinstance(value, bytes) and len(value) > 64:
        return _render_long(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render(k)}: {render(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return _render_sequence(value, render)
    return safe_repr(value)


def _render_sequence(values: Sequence[Any], each: Callable[[Any], str]) -> str:
    """A list or a tuple, with the source that ``each`` makes of an element."""
    inner = ", ".join(map(each, values))
    if isinstance(values, list):
        return f"[{inner}]"
    return f"({inner},)" if len(values) == 1 else f"({inner})"


def _render_long(value: bytes) -> str:
    """Bytes that end in a long run of one byte, as a sum of the start and the run."""
    every = bytes(range(256))
    if value == every * (len(value) // 256):
        return f"bytes(range(256)) * {len(value) // 256}"
    start = value.rstrip(value[-1:])
    run = f"{value[-1:]!r} * {len(value) - len(start)}"
    if len(start) > 64:
        return repr(value)
    return f"{start!r} + {run}" if start else run


def render_argument(value: Any) -> str:
    """An argument of a call as Python source: a store may ask a pair for its fields by name."""
    if isinstance(value, ValueAndTimestamp):
        return f"ValueAndTimestamp({render(value.value)}, {value.timestamp})"
    if type(value) in (list, tuple):
        return _render_sequence(value, render_argument)
    return render(value)


def brief_source(value: Any) -> str:
    """A value as Python source in one line, cut if it is long."""
    return brief(render(value))


def has_source(value: Any) -> bool:
    """Whether the source from :func:`render` makes an equal value."""
    if isinstance(value, dict):
        return all(has_source(key) and has_source(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(has_source, value))
    plain = (bytes, bytearray, str, int, float, bool, type(None))
    return isinstance(value, IsolationLevel) or type(value) in plain


def short_comment(text: str) -> str:
    """The beginning of a text, as a comment behind a line of a program."""
    return text if len(text) <= LONGEST_COMMENT else f"{text[:LONGEST_COMMENT]}…"


def assertion(read: str, answer: Any, comment: str) -> str:
    """A line that fails as long as an expression gives this wrong answer.

    The line only prints the answer if the answer has no source.
    """
    if isinstance(answer, bool):
        return f"assert {f'not ({read})' if answer else read}  # {comment}"
    holds = f"assert {read} != {render(answer)}" if has_source(answer) else f"print({read})"
    return f"{holds}  # {comment}"


def fails_by_itself(program: str) -> bool:
    """Whether a program fails as long as the store is wrong, and not only shows what was found."""
    return ONLY_SHOWN not in program.splitlines()


def only_shown(program: str) -> str:
    """A program that says that nobody can be sure of it; it ends with 2 where it shows nothing."""
    return f"{ONLY_SHOWN}\n{program}{END_OF_SHOWN}\n"


def explained(program: str) -> str:
    """A program; a long one begins with the reason why it is long."""
    lines = program.splitlines()
    if len(lines) <= LONGEST_PROGRAM or lines[0] == WHY_LONG:
        return program
    return f"{WHY_LONG}\n{program}"


def with_class_path(program: str, subject: str) -> str:
    """A program that finds the classes of its subject by itself, if they are a user's."""
    path = class_path_for(subject)
    if not path or not program:
        return program
    imports, _, body = program.partition("\n\n")
    return f"import os\n{imports}\n\nos.environ[{CLASS_PATH!r}] = {path!r}\n{body}"


def verifying_program(subject: str, **options: Any) -> str:
    """A program that verifies a subject again, and asks that nothing is broken.

    Args:
        subject: the subject.
        options: the options of ``streamproof.verify``.
    """
    given = [f"    {name}={value!r}," for name, value in options.items()]
    return "\n".join(
        [
            "from streamproof import verify",
            "",
            "log = verify(",
            f"    {subject!r},",
            *given,
            ")",
            "assert not log.failures",
        ]
    )


def render_program(subject: str, guarantee: str, lines: list[str]) -> str:
    """A complete program from lines that call the subject."""
    body = "\n".join([f'lab = Lab({subject!r}, guarantee="{guarantee}")', *lines])
    needed = {"lab.arm(syscall=": "count_system_calls", "lab.power_loss(": "record_system_calls"}
    for call, method in needed.items():
        if call in body:
            body = f"Lab.{method}()  # Starts this program anew, to see system calls.\n\n{body}"
    names = [name for name in NAMES if re.search(rf"\b{name}\b", body)]
    imports = [line for text, line in OTHER_IMPORTS.items() if text in body]
    imports.append(PREAMBLE.format(names=", ".join(names)))
    head = [ONLY_SHOWN] if lines[-1:] == [END_OF_SHOWN] else []
    return "\n".join([*head, *sorted(imports), "", body, ""])
