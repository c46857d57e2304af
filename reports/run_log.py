"""Writes and reads the run log: one JSON object a line. Every report is made from the run log.

Each line is flushed to the operating system when it is written, so that a killed run leaves all of
its findings. Reading is strict, with one exception: the last line of a killed run may be cut off.
The log then has ``complete == False``, and no report calls the run a pass.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from streamproof.conformance.results import (
    SCHEMA_VERSION,
    CheckRecord,
    Failure,
    Footer,
    Header,
    Note,
    Record,
    RequirementResult,
)
from streamproof.reports.run_log_errors import (
    DuplicateResultError,
    RunLogHeaderError,
    RunLogLineError,
    RunLogMissingError,
    RunLogVersionError,
    RunLogWriteError,
)
from streamproof.reports.safe_text import cell

__all__ = ["MAX_LINE_BYTES", "RunLog", "RunLogWriter", "read_run_log"]

MAX_LINE_BYTES = 8 * 1024 * 1024
"""The longest record; a longer line is refused before it fills the memory."""

_MAX_STRING_CHARS = 64 * 1024

_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_ENCODER = msgspec.json.Encoder()
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RunLog(msgspec.Struct, frozen=True, kw_only=True):
    """All records of one run, as docs/run-log.md describes them.

    Attributes:
        header: the request, the subjects and the versions.
        results: the status of each requirement of each subject.
        failures: each way in which a promise is broken, with a program that shows it.
        footer: the verdicts; ``None`` if the run died.
        checks: the work that each check did.
        notes: remarks on the run, such as warnings.
        complete: whether the run reached its end. A run that died has results, and no verdict.
    """

    header: Header
    results: list[RequirementResult]
    failures: list[Failure]
    footer: Footer | None
    checks: list[CheckRecord] = []
    notes: list[Note] = []

    @property
    def complete(self) -> bool:
        return self.footer is not None


class _Head(msgspec.Struct):
    """The part that headers of all versions share, to tell a newer log from a broken one."""

    type: str
    schema_version: int = 0


class _Order:
    """The rules for the order of records, for the writer and for the reader."""

    def __init__(self) -> None:
        self.subjects: frozenset[str] | None = None
        self.answered: set[tuple[str, str]] = set()
        self.finished = False

    def objection(self, record: Record) -> str | None:
        """Why ``record`` may not come next. If it may, take note of it and return ``None``."""
        if self.finished:
            return "the footer must be the last line: nothing may follow it"
        if isinstance(record, Header):
            if self.subjects is not None:
                return "there is a second header: one log holds one run"
            self.subjects = frozenset(subject.name for subject in record.subjects)
            return None
        if self.subjects is None:
            return "the first record must be the header"
        if isinstance(record, Footer):
            self.finished = True
        elif record.subject not in self.subjects and not _is_about_the_run(record):
            return f"the header does not list the subject {cell(record.subject)!r}"
        elif isinstance(record, RequirementResult):
            self.answered.add((record.subject, record.requirement))
        return None

    def is_duplicate(self, record: Record) -> bool:
        """Whether ``record`` answers a requirement that this subject has a result for."""
        return (
            isinstance(record, RequirementResult)
            and (record.subject, record.requirement) in self.answered
        )


class RunLogWriter:
    """Writes a new run log, record by record; a context manager.

    A record that would make the log unreadable is refused with
    :class:`~streamproof.reports.run_log_errors.RunLogWriteError`: a record before the header or
    after the footer, a second result for a requirement, or a subject that the header does not list.
    Leaving the context without a footer leaves an incomplete log, on purpose.

    Raises:
        RunLogWriteError: the file exists already (evidence is never overwritten), or cannot
            be created.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._order = _Order()
        try:
            self._file: BinaryIO = self.path.open("xb")
        except FileExistsError:
            why = "exists already; a run log is written once, so name another file"
            raise RunLogWriteError(self.path, why) from None
        except OSError as error:
            raise RunLogWriteError(self.path, f"cannot be created: {error.strerror}") from error

    def write(self, record: Record) -> None:
        """Appends one record, and hands it to the operating system before it returns."""
        if self._file.closed:
            raise RunLogWriteError(self.path, "is closed")
        if self._order.is_duplicate(record):
            why = "a requirement gets one result for each subject, and this would be the second"
            raise RunLogWriteError(self.path, f"{why}: {_name(record)}")
        line = _encode(record)
        if len(line) >= MAX_LINE_BYTES:
            raise RunLogWriteError(self.path, f"a record of {len(line):,} bytes is too long")
        if why_not := self._order.objection(record):
            raise RunLogWriteError(self.path, why_not)
        self._file.write(line + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file; closing twice is fine."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_run_log(path: Path | str) -> RunLog:
    """Reads a run log.

    Raises:
        RunLogMissingError: there is no such file, or it is empty.
        RunLogHeaderError: it does not start with a header.
        RunLogVersionError: a newer streamproof wrote it.
        RunLogLineError: a line is not a valid record, or not where it may be.
        DuplicateResultError: a requirement has two results for one subject.
    """
    path = Path(path)
    # Nearly every log is valid, and reading it as a whole is three times as fast as by lines.
    return _read_at_once(path) or _read_by_lines(path)


def _read_at_once(path: Path) -> RunLog | None:
    """The log at a path; ``None`` if it must be read line by line to find what is unusual."""
    try:
        if path.stat().st_size > MAX_LINE_BYTES:
            return None
        data = path.read_bytes()
        records = _DECODER.decode_lines(data)
    except (OSError, *_UNREADABLE):
        return None
    kept = _by_type(records)
    # Only the end of a line stands between two records, and no
    # JSON has that in the middle.
    ends = data.count(b"}\n{") + data.endswith(b"}\n")
    if len(kept[Header]) != 1 or not len(records) == ends == data.count(b"\n"):
        return None
    log = _run_log(kept)
    subjects = {each.name for each in log.header.subjects}
    told: list[CheckRecord | RequirementResult | Failure | Note] = [
        *log.checks,
        *log.results,
        *log.failures,
        *log.notes,
    ]
    named = {each.subject for each in told if not _is_about_the_run(each)}
    answered = {(each.subject, each.requirement) for each in log.results}
    is_in_order = records[0] is log.header and (not kept[Footer] or records[-1] is kept[Footer][0])
    is_usual = (
        is_in_order
        and 1 <= log.header.schema_version <= SCHEMA_VERSION
        and named <= subjects
        and len(answered) == len(log.results)
    )
    return log if is_usual else None


def _read_by_lines(path: Path) -> RunLog:
    """The log at a path, read line by line; raises for the first line that is wrong."""
    order = _Order()
    records = []
    for number, record in _records(path):
        if order.is_duplicate(record):
            raise DuplicateResultError(path, number, f"a second result for {_name(record)}")
        if why := order.objection(record):
            raise RunLogLineError(path, number, why)
        records.append(record)
    if not records:
        raise RunLogMissingError(path, "is empty: the run died before it wrote anything")
    return _run_log(_by_type(records))


def _by_type(records: Iterable[Record]) -> dict[type[Record], list[Any]]:
    kept: dict[type[Record], list[Any]] = defaultdict(list)
    for record in records:
        kept[type(record)].append(record)
    return kept


def _run_log(kept: dict[type[Record], list[Any]]) -> RunLog:
    return RunLog(
        header=kept[Header][0],
        checks=kept[CheckRecord],
        results=kept[RequirementResult],
        failures=kept[Failure],
        notes=kept[Note],
        footer=next(iter(kept[Footer]), None),
    )


def _records(path: Path) -> Iterator[tuple[int, Record]]:
    """Every whole line as a record with its number, without a last line that was cut off."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise RunLogMissingError(path, f"cannot be read: {error.strerror}") from error
    with file:
        number, finished = 0, False
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise RunLogLineError(path, number, f"is longer than {MAX_LINE_BYTES:,} bytes")
            if number == 1:
                _check_head(path, line)
            try:
                record = _DECODER.decode(line)
            except _UNREADABLE as error:
                # Only a line that the writer did not finish lacks its end, and the writer
                # starts no line after a footer: anything else that is broken was made so.
                if number > 1 and not line.endswith(b"\n") and not finished:
                    return
                raise RunLogLineError(path, number, f"not valid: {cell(str(error))}") from error
            finished = isinstance(record, Footer)
            yield number, record


def _check_head(path: Path, line: bytes) -> None:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except _UNREADABLE as error:
        why = f"the first line is not a whole header: {cell(str(error))}"
        raise RunLogHeaderError(path, why) from error
    if head.type != "header":
        why = f"the first line must be the header, and is of type {cell(head.type)!r}"
        raise RunLogHeaderError(path, why)
    if head.schema_version > SCHEMA_VERSION:
        why = (
            f"has schema version {head.schema_version}, and this release reads versions up to "
            f"{SCHEMA_VERSION}: it was made by a newer streamproof; upgrade"
        )
        raise RunLogVersionError(path, why)
    if head.schema_version < 1:
        raise RunLogHeaderError(path, "the header has no valid schema_version")


def _encode(record: Record) -> bytes:
    """One line of JSON, without its end.

    A subject's message may hold what no JSON can (undecodable bytes that Python smuggles in as
    surrogates) or be absurdly long. Neither may cost the run its log, so both are mended here.
    """
    try:
        line = _ENCODER.encode(record)
        if len(line) < MAX_LINE_BYTES:
            return line
    except UnicodeEncodeError:
        pass
    return json.dumps(_mended(msgspec.to_builtins(record)), ensure_ascii=False).encode()


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        text = value.encode("utf-8", "backslashreplace").decode()
        if len(text) > _MAX_STRING_CHARS:
            return f"{text[:_MAX_STRING_CHARS]}… ({len(text) - _MAX_STRING_CHARS:,} more)"
        return text
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def _is_about_the_run(record: Record) -> bool:
    return isinstance(record, Note) and not record.subject


def _name(record: Record) -> str:
    if isinstance(record, RequirementResult):
        return f"{cell(record.requirement)} of {cell(record.subject)}"
    return type(record).__name__
