"""Programs as text: values as Python source, and complete programs."""

from __future__ import annotations

import re
from typing import Any

from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, ChangelogRecord
from streamproof.conformance.violations import safe_repr
from streamproof.stores.api import NO_TIMESTAMP, IsolationLevel, TopicPartition
from streamproof.stores.windows import Windowed

__all__ = ["render", "render_program"]

PREAMBLE = "from streamproof import {names}\n\n"

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
    if isinstance(value, list):
        return "[" + ", ".join(map(render, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(render, value)) + ("," if len(value) == 1 else "") + ")"
    return safe_repr(value)


def _render_long(value: bytes) -> str:
    """Bytes that end in a long run of one byte, as a sum of the start and the run."""
    start = value.rstrip(value[-1:])
    run = f"{value[-1:]!r} * {len(value) - len(start)}"
    if len(start) > 64:
        return repr(value)
    return f"{start!r} + {run}" if start else run


def render_program(subject: str, guarantee: str, lines: list[str]) -> str:
    """A complete program from lines that call the subject."""
    body = "\n".join([f'lab = Lab({subject!r}, guarantee="{guarantee}")', *lines])
    needed = {"lab.arm(syscall=": "count_system_calls", "lab.power_loss(": "record_system_calls"}
    for call, method in needed.items():
        if call in body:
            body = f"Lab.{method}()  # Starts this program anew, to see system calls.\n\n{body}"
    names = [name for name in NAMES if re.search(rf"\b{name}\b", body)]
    return PREAMBLE.format(names=", ".join(names)) + body + "\n"
