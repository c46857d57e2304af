"""The words of the reports: the meaning of every status, strength and verdict."""

from __future__ import annotations

from datetime import UTC, datetime

from streamproof.conformance.results import Strength
from streamproof.conformance.verdict_rule import Outcome, Shown

__all__ = [
    "CRASH_KINDS",
    "OUTCOMES",
    "STATUSES",
    "STRENGTHS",
    "duration",
    "moment",
    "plural",
]

STATUSES: dict[Shown, str] = {
    "fail": "Broken, with a program that shows it.",
    "known": "Broken, but only in ways that the file of known failures lists until a given day. "
    "A known failure never counts as kept.",
    "error": "No answer: the subject hung or died, or the suite itself failed.",
    "skip": "Could not be tried on this machine. A skip is never a pass.",
    "no result": "The run ended before this requirement was decided.",
    "pass": "Tried, and held, on the evidence shown beside it.",
    "unsupported": "Not asked: the subject does not claim the capability, or the promise does not "
    "hold under the chosen guarantee or specification.",
    "untested": "Not asked: no check exists, for the reason given.",
}
"""Every status and its meaning, the most pressing first."""

STRENGTHS: dict[Strength, str] = {
    "strong": "At least 25 generated programs or 100 crashes, and the requirement is known to "
    "catch at least one deliberately wrong store.",
    "moderate": "Only one of these two conditions is met.",
    "weak": "Programs were generated or processes were killed, but fewer than that.",
    "example only": "The same few programs are run every time.",
}
"""Every strength of evidence and its meaning, the strongest first."""

OUTCOMES: dict[Outcome, str] = {
    "failure": "A requirement of level MUST is broken.",
    "error": "No MUST is broken, but at least one check gave no answer.",
    "incomplete": "The run died or was stopped before it could give a verdict.",
    "partial": "No MUST is broken, known failures aside; but a SHOULD or MAY is broken, a "
    "failure is known, a core requirement was skipped, the machine could not try a MUST, a result "
    "is missing, or nothing was tried.",
    "success": "Nothing is broken, and every core requirement that was tested was kept.",
}
"""Every verdict and its meaning, the worst first."""


CRASH_KINDS = {
    "boundary": "between two calls",
    "line": "before a line of Python",
    "syscall": "before a system call",
    "process": "of an application's process",
    "derived": "worked out",
    "power": "by a loss of power",
    "enospc": "on a full disk",
    "eio": "on a broken disk",
}
"""The kinds of crashes, behind the number of each."""


def moment(text: str) -> str:
    """A moment of a log for readers: ``2026-11-24 15:38 UTC``; any other text stays as it is."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text


def plural(count: int, noun: str, several: str = "") -> str:
    """``1 failure``, ``2 failures``; ``several`` is the plural where it is not just an s."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def duration(seconds: float) -> str:
    """A length of time for readers: ``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 0 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
