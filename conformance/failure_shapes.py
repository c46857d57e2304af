"""The shape of a failure: the common trait of failures with one cause.

A store can break a requirement in several ways at once, and each way deserves a program of its own.
One mistake, on the other hand, fails many programs and several checks, but a report should show it
once. The shape separates the two cases. It is a short name that is the same on every run. It says
which call gave a wrong answer, and how the answer differs.

======================  =====================================================================
``missing-value``       nothing was found where a value was expected
``stale-value``         an older value was found, which had been replaced
``invented-value``      a value was found that was never written
``missing-entries``     a scan left out entries
``extra-entries``       a scan had too many entries
``reordered-entries``   the right entries, in another order
``repeated-entries``    the right entries, some of them several times
``lower-offset``        a number was too small; ``higher-`` where it was too large
``mistyped-value``      an answer of another type
``changed-answer``      any other difference
``raised-KeyError-get`` a call raised, and must not
``accepted-put``        a call did not raise, and must
``hung-flush``          a call did not return
``died-commit``         a call ended the process
``early-value``         a value was found that was not committed yet
======================  =====================================================================

After a fault of the disk or a loss of power the shape names it: ``missing-value-after-enospc``. The
point of a kill is no part of the shape, because one mistake shows at many points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "MOST_SHAPES",
    "answers",
    "asked",
    "difference",
    "shape_of_error",
    "shape_of_invariant",
    "shape_of_text",
    "shape_of_words",
]

MOST_SHAPES = 5
"""The most shapes of one requirement that a check records and a report shows."""

_WHAT = {
    **dict.fromkeys(("get", "delete", "put_if_absent", "next"), "value"),
    **dict.fromkeys(("fetch", "fetch_session", "fetch_with_timestamp"), "value"),
    "committed_offset": "offset",
    "position": "position",
}
"""The kinds of answers of the methods of a store. Any other method gives its own name."""

_CALL = re.compile(r"(?:\w+ = )?(next|(?:list\()?\w+\.(\w+))")

_RAISED = re.compile(r"\braised (?:an? )?(\w+(?:Error|Exception|Panic)\w*)")
_SIGNAL = re.compile(r"\b(SIG[A-Z]+|exit code)\b")


def asked(line: str) -> str:
    """The second half of a shape: the kind of answer that the last line of a program asked for."""
    if line.startswith(("list(", "sorted(")):
        return "entries"
    method = _method(line)
    return _slug(_WHAT.get(method, method)) or "answer"


def answers(line: str) -> bool:
    """Whether a line of a program has an answer that is worth printing."""
    return asked(line) in ("entries", *_WHAT.values())


def _method(line: str) -> str:
    match = _CALL.search(line)
    return (match[2] or match[1]) if match else ""


def difference(expected: Any, found: Any, written: str = "") -> str:
    """The first half of a shape: how an answer differs from the expected answer.

    ``written`` is the program so far. A value that occurs in it is stale; any other is invented.
    """
    if expected is None or found is None:
        return "missing" if found is None else _strange(found, written)
    if type(expected) is not type(found):
        return "mistyped"
    if isinstance(expected, bytes):
        return _strange(found, written)
    if isinstance(expected, int) and not isinstance(expected, bool):
        return "lower" if found < expected else "higher"
    if isinstance(expected, Mapping):
        keys = [*expected, *(key for key in found if key not in expected)]
        pairs = [(expected.get(key), found.get(key)) for key in keys]
        return _first_difference(pairs, written)
    if isinstance(expected, list | tuple):
        return _difference_of_lists(list(expected), list(found), written)
    return "changed"


def _strange(found: Any, written: str) -> str:
    return "stale" if repr(found) in written else "invented"


def _first_difference(pairs: list[tuple[Any, Any]], written: str) -> str:
    for expected, found in pairs:
        if expected != found or type(expected) is not type(found):
            return difference(expected, found, written)
    return "changed"


def _difference_of_lists(expected: list[Any], found: list[Any], written: str) -> str:
    """The difference between lists of entries, or else between the first differing answers."""
    if not any(isinstance(each, tuple) for each in (*expected, *found)):
        if len(expected) == len(found):
            return _first_difference(list(zip(expected, found, strict=True)), written)
        return "missing" if len(found) < len(expected) else "extra"
    missing = [each for each in expected if each not in found]
    extra = [each for each in found if each not in expected]
    if missing and extra:
        return "changed"
    if missing or extra:
        return "missing" if missing else "extra"
    return "reordered" if len(expected) == len(found) else "repeated"


def shape_of_error(error: BaseException, call: str) -> str:
    """The shape of an error that a call should not have raised."""
    return _slug(f"raised-{type(error).__name__}-{_method(call) or 'call'}")


def shape_of_words(expected: str, found: str, read: str = "") -> str:
    """The shape of a failure that is known in words only, perhaps with the expression read."""
    if found.startswith("no exception; it returned"):
        return "accepted-call"
    if match := _RAISED.search(found):
        return _slug(f"raised-{match[1]}")
    if "did not return" in found:
        return "hung-call"
    if "the process" in found and _SIGNAL.search(found):
        return "died-call"
    what = asked(read)
    if found in ("None", "absent"):
        return f"missing-{what}"
    if "which was not committed" in found:
        return f"early-{what}"
    return f"{'extra' if 'absent' in expected else 'changed'}-{what}"


def _slug(text: str) -> str:
    """A text as a part of the name of a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60]


def shape_of_invariant(name: str) -> str:
    """The shape that separates the invariants of one requirement, from the name of an invariant."""
    return "-".join(shape_of_text(name).split("-")[:6])


def shape_of_text(text: str) -> str:
    """A text as a part of a shape: its words and numbers with hyphens between them."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))
