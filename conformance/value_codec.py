"""The choices that led to a failure, as data that repeats it exactly.

The choices of Hypothesis repeat a failure of a property. The programs and the points at which they
died repeat a failure after a crash. The programs and their lost calls repeat a failure after a loss
of power. A check that always does the same has no choices; the seed repeats it.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable
from typing import Any

from hypothesis.database import ExampleDatabase

from streamproof.conformance.crash.crash_records import CrashPoint
from streamproof.conformance.crash.program import Operation, Program
from streamproof.conformance.oracle import Write
from streamproof.errors import UsageError
from streamproof.stores.api import ChangelogRecord, TopicPartition

__all__ = ["KeptExamples", "decode_value", "encode_value"]


class KeptExamples(ExampleDatabase):
    """A database of Hypothesis in memory, with the smallest failing example of each failure.

    Args:
        saved: the examples of an earlier run, in base64; Hypothesis skips those it cannot read.
    """

    def __init__(self, saved: Iterable[str] = ()) -> None:
        super().__init__()
        self._saved = [base64.b64decode(each) for each in saved]
        self._found: list[bytes] = []

    def save(self, key: bytes, value: bytes) -> None:
        # The other keys hold examples from before shrinking, which nobody needs.
        if not key.endswith((b".secondary", b".pareto")) and value not in self._found:
            self._found.append(value)

    def delete(self, key: bytes, value: bytes) -> None:
        if not key.endswith((b".secondary", b".pareto")) and value in self._found:
            self._found.remove(value)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return () if key.endswith((b".secondary", b".pareto")) else list(self._saved)

    def take(self) -> list[str]:
        """The examples that failed since the last call, in base64."""
        found, self._found = self._found, []
        return [base64.b64encode(each).decode() for each in found]


_CLASSES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (ChangelogRecord, CrashPoint, Operation, Program, TopicPartition, Write)
}
"""The types in programs, besides plain values."""


def encode_value(value: Any) -> Any:
    """A value and its type in a form that JSON can hold.

    Raises:
        TypeError: programs hold no values of its type.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [encode_value(each) for each in value]
    name = type(value).__name__
    if _CLASSES.get(name) is type(value):
        fields = {each: encode_value(getattr(value, each)) for each in _fields(type(value))}
        return {name: fields}
    if type(value) is tuple:
        return {"tuple": [encode_value(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[encode_value(k), encode_value(v)] for k, v in value.items()]}
    raise TypeError(f"A program that holds {name} cannot be saved.")


def decode_value(data: Any) -> Any:
    """The value from which :func:`encode_value` made this data.

    Raises:
        UsageError: the data is not an encoded value.
    """
    if isinstance(data, list):
        return [decode_value(each) for each in data]
    if not isinstance(data, dict):
        return data
    try:
        ((name, content),) = data.items()
        if name == "bytes":
            return base64.b64decode(content, validate=True)
        if name == "tuple":
            return tuple(decode_value(each) for each in content)
        if name == "dict":
            return {decode_value(key): decode_value(value) for key, value in content}
        return _CLASSES[name](**{key: decode_value(value) for key, value in content.items()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"The saved program holds an unknown value: {str(data)[:80]}. "
            "Another version of streamproof may have saved it: run that version, or delete it."
        ) from error


def _fields(kind: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [each.name for each in dataclasses.fields(kind)]
    return list(kind._fields)
