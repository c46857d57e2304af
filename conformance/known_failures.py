"""Known failures: broken requirements that do not fail a run until a given day.

.. code-block:: toml

    [[known]]
    subject = "quix*"                # as on the command line; * and ? stand for anything
    requirement = "CRASH-003"
    shape = "missing-value"          # optional; without it, every shape of the requirement
    reason = "the offset is flushed first; reported upstream"
    link = "https://example.org/42"  # optional
    expires = 2027-01-31             # the last day on which it is known (UTC)

A report shows a known failure with its reason, and never counts it as a pass; the exit code ignores
it. A run warns of an entry that has expired, that matches nothing, or that no longer fails.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.results import Failure, RequirementResult
from streamproof.errors import UsageError

__all__ = ["KnownFailure", "KnownFailures", "read_known_failures"]


class KnownFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file; see the module."""

    subject: str
    requirement: str
    reason: str
    expires: date
    shape: str = ""
    link: str = ""

    @property
    def label(self) -> str:
        """The entry, as a warning names it."""
        shape = f" ({self.shape})" if self.shape else ""
        return f"The known failure of {self.subject}, {self.requirement}{shape},"

    def covers(self, subject: str, requirement: str, shape: str | None = None) -> bool:
        """Whether the entry matches a failure, or could match one of a requirement."""
        return (
            fnmatchcase(subject, self.subject)
            and requirement == self.requirement
            and (shape is None or not self.shape or shape == self.shape)
        )


class _File(Struct, forbid_unknown_fields=True):
    known: list[KnownFailure]


class KnownFailures:
    """The entries of a file, with a record of the entries that matched a failure.

    Args:
        today: the day, in UTC, on which an entry counts or has expired.
    """

    def __init__(self, entries: Iterable[KnownFailure] = (), today: date = date.min) -> None:
        self._entries = list(entries)
        self._today = today
        self._used: set[KnownFailure] = set()

    def reason_for(self, failure: Failure) -> str:
        """Why a failure does not count; empty if it does."""
        for entry in self._entries:
            if entry.covers(failure.subject, failure.requirement, failure.shape):
                self._used.add(entry)
                if entry.expires >= self._today:
                    link = f"; {entry.link}" if entry.link else ""
                    return f"{entry.reason} (until {entry.expires}{link})"
        return ""

    def may_cover(self, subject: str, requirement: str) -> bool:
        """Whether a failure of a requirement may be known."""
        return any(each.covers(subject, requirement) for each in self._entries)

    def warnings(self, results: Iterable[RequirementResult]) -> list[str]:
        """Warnings about the entries, once all results are known."""
        asked = list(results)
        selected = {each.requirement for each in asked}
        tried = [each for each in asked if each.status not in ("unsupported", "untested")]
        texts = [
            self._warning(each, tried) for each in self._entries if each.requirement in selected
        ]
        return [text for text in texts if text]

    def _warning(self, entry: KnownFailure, tried: list[RequirementResult]) -> str:
        if entry in self._used:
            if entry.expires >= self._today:
                return ""
            return f"{entry.label} expired on {entry.expires}; the failure counts again."
        about = [each for each in tried if entry.covers(each.subject, each.requirement)]
        if not about:
            return f"{entry.label} matches nothing: this run tried it on no such subject."
        if all(each.status == "pass" for each in about):
            return f"{entry.label} did not occur again; remove the entry if the bug is fixed."
        if any(each.status == "fail" for each in about):
            return f"{entry.label} has another shape now, so the failure counts."
        return ""


def read_known_failures(path: Path, today: date) -> KnownFailures:
    """The known failures of a file.

    Raises:
        UsageError: the file cannot be read, or an entry is wrong; the message names line and field.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        entries = msgspec.convert(tomllib.loads(text), _File, strict=True).known
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}.") from error
    except msgspec.ValidationError as error:
        line = _line_of(text, str(error))
        raise UsageError(f"{path}, line {line}: {error}. See docs/failures.md.") from error
    for number, entry in enumerate(entries):
        if entry.requirement not in load_catalogue():
            line = _line_of(text, f"$.known[{number}].requirement")
            raise UsageError(
                f"{path}, line {line}: requirement: there is no {entry.requirement!r}; "
                "`streamproof requirements` lists them all."
            )
    return KnownFailures(entries, today)


def _line_of(text: str, error: str) -> int:
    """The line of the entry and field that an error names, or else the first line."""
    place = re.search(r"\$\.known(?:\[(\d+)\])?(?:\.(\w+))?", error)
    if place is None or place[1] is None:
        return 1
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*known", line)]
    if int(place[1]) >= len(heads):
        return 1
    head = heads[int(place[1])]
    end = next((each for each in heads if each > head), len(lines) + 1)
    # The text of the error names a missing or unknown field; the path does not.
    field = place[2] or (match[1] if (match := re.search(r"`(\w+)`", error)) else "")
    for number in range(head, end - 1):
        if field and re.match(rf"\s*{field}\s*=", lines[number]):
            return number + 1
    return head
