"""The exceptions by which a check reports a broken promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "Lacking",
    "Skipped",
    "SubjectRaised",
    "Unusable",
    "Violation",
    "brief",
    "safe_repr",
    "violation_of",
]

TEXT_LIMIT = 2_000
"""The most characters to keep of a text from a subject, which may return any amount."""


class Violation(Exception):
    """A promise is broken. Raised by checks; never by a subject.

    Each shape of each requirement has a subclass of its own (see
    :mod:`streamproof.conformance.failure_shapes`). Hypothesis distinguishes failures by type and
    place, so it shrinks each shape on its own and never slips from one to another.

    Attributes:
        traceback: the part of the subject in the traceback, if the subject raised.
        weaker: the program if it asserts only that the wrong answer is gone; empty without one.
    """

    requirement: str = ""
    shape: str = ""

    def __init__(self, tried: str, expected: str, found: str, program: str) -> None:
        super().__init__(f"{self.requirement}: {tried}: expected {expected}, found {found}")
        self.tried = tried
        self.expected = expected
        self.found = found
        self.program = program
        self.traceback = ""
        self.weaker = ""


class Skipped(Exception):
    """A check cannot run on this machine; the message gives the reason."""


class Lacking(Skipped):
    """A check cannot run because of this machine, whatever the store; the message has a remedy."""


class Unusable(Exception):
    """The subject cannot be verified at all, and the user has to change something; see the text."""


class SubjectRaised(Exception):
    """A call on the subject raised.

    Attributes:
        violation: the violation to report if the check does not expect the exception.
    """

    def __init__(self, text: str, violation: Violation) -> None:
        super().__init__(text)
        self.violation = violation


_classes: dict[tuple[str, str], type[Violation]] = {}


def violation_of(requirement: str, shape: str = "") -> type[Violation]:
    """The subclass of Violation for one requirement and shape. The shape may be unknown."""
    if (requirement, shape) not in _classes:
        name = f"Violation_{requirement}_{shape}".replace("-", "_")
        fields = {"requirement": requirement, "shape": shape}
        _classes[requirement, shape] = type(name, (Violation,), fields)
    return _classes[requirement, shape]


def safe_repr(value: Any) -> str:
    """The representation of an object that may belong to the subject, and so may raise."""
    return _text(repr, value)


def _text(show: Callable[[Any], str], value: Any) -> str:
    try:
        return show(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose {show.__name__}() raises {type(error).__name__}>"


def _escaped(char: str) -> str:
    """A control character or half a surrogate pair, escaped for terminals and encoders."""
    return char.encode("unicode_escape").decode()


def brief(value: Any) -> str:
    """A bounded, one-line text of a value or an error, safe to show."""
    if isinstance(value, BaseException):
        text = " ".join(_text(str, value).split())
        text = f"{type(value).__name__}: {text}" if text else type(value).__name__
    elif isinstance(value, str):
        text = value
    else:
        text = safe_repr(value)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escaped(char) for char in text)
    if len(text) > TEXT_LIMIT:
        return f"{text[:TEXT_LIMIT]}… ({len(text)} characters)"
    return text
