"""From one run log to the rows that the tables are made of.

A log may be damaged or wrong. A log that cannot be read becomes a row among the problems. In a
readable log, a broken promise counts as broken even if its result is missing, and a requirement
that was planned and never decided has ``no result``.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from streamproof.conformance.results import Failure, RequirementResult, SubjectVerdict
from streamproof.conformance.verdict_rule import Shown
from streamproof.reports.run_log import RunLog, read_run_log
from streamproof.reports.run_log_errors import RunLogError, RunLogLineError, RunLogVersionError

__all__ = ["MAX_COUNT", "MAX_LOG_BYTES", "Columns", "area_of", "read_log"]

MAX_LOG_BYTES: Final = 256 * 1024 * 1024
"""The longest log, because a whole log is in memory. A full run writes about 1 MB."""

MAX_COUNT: Final = 2**40
"""The largest number in a log, so that sums over millions of rows fit into 64 bits."""

_CRASH_KINDS = ("boundary", "line", "syscall")

Columns = dict[str, list[Any]]
"""Rows, as columns of one length."""

_Answer = tuple[Shown, RequirementResult]


def read_log(path: str) -> dict[str, Columns]:
    """The rows of a log by kind; an unreadable log becomes a row of ``problems``.

    Args:
        path: of the log.
    """
    try:
        if Path(path).stat().st_size > MAX_LOG_BYTES:
            what = f"is longer than {MAX_LOG_BYTES >> 20} MiB: split it, or leave it out"
            return _problem(path, 0, "too large", what)
        digests = _digests(path)
        rows = _rows(path, read_run_log(path), *digests)
    except RunLogVersionError as error:
        return _problem(path, 1, "newer", _without(path, error))
    except RunLogLineError as error:
        return _problem(path, error.line, "unreadable", _without(path, error))
    except RunLogError as error:
        return _problem(path, 0, "unreadable", _without(path, error))
    except OSError as error:
        return _problem(path, 0, "unreadable", f"cannot be read: {error.strerror}")
    if absurd := _absurd(rows):
        return _problem(path, 0, "unreadable", absurd)
    return rows


@lru_cache(maxsize=4096)
def area_of(requirement: str) -> str:
    """The area of a requirement: ``KV`` of ``KV-001``."""
    return requirement.rpartition("-")[0] or requirement


def _digests(path: str) -> tuple[str, str]:
    """The digests of the header and of the whole content of a log."""
    content = Path(path).read_bytes()
    head = content.partition(b"\n")[0]
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(content).hexdigest()


def _without(path: str, error: RunLogError) -> str:
    """The message of an error without the path, which has a column of its own."""
    return str(error).removeprefix(f"{path}: ")


def _problem(path: str, line: int, kind: str, what: str) -> dict[str, Columns]:
    row = {"path": path, "line": line, "kind": kind, "run_id": "", "what": what}
    return {"problems": {name: [value] for name, value in row.items()}}


def _absurd(rows: dict[str, Columns]) -> str:
    """The problem with an impossible number in a log; empty if all are within bounds."""
    for columns in rows.values():
        for name, values in columns.items():
            if values and type(values[0]) is int:
                least, most = (-(2**63), 2**63) if name == "seed" else (0, MAX_COUNT)
                if not least <= min(values) <= max(values) < most:
                    return f"has a number in `{name}` that is out of range"
    return ""


def _rows(path: str, log: RunLog, head: str, content: str) -> dict[str, Columns]:
    described = _described(log)
    answers = _answers(log, described)
    run = {"path": path, "run_id": log.header.run_id, "started_at": log.header.started_at}
    return {
        "runs": {name: [value] for name, value in _run(run, log, answers, head, content).items()},
        "subjects": _subjects(run, log),
        "requirements": _requirements(run, described),
        "results": _results(run, log, answers),
        "failures": _failures(run, log),
        "situations": _situations(run, log),
    }


def _run(
    run: dict[str, str], log: RunLog, answers: list[_Answer], head: str, content: str
) -> dict[str, Any]:
    header, footer = log.header, log.footer
    return {
        **run,
        "origin": "log",
        "stated": footer.verdict if footer else "",
        "complete": log.complete,
        "finished_at": footer.finished_at if footer else "",
        "duration_ms": _milliseconds(footer.duration_s if footer else 0.0),
        "seed": header.seed,
        "profile": header.profile,
        "guarantee": header.guarantee,
        "spec": header.spec,
        "tool_version": header.tool_version,
        "command": header.command,
        "reproduce": footer.reproduce if footer else "",
        "results": len(log.results),
        "problem": "",
        "bad": sum(status in ("fail", "known", "error") for status, _ in answers),
        "head": head,
        "content": content,
    }


def _subjects(run: dict[str, str], log: RunLog) -> Columns:
    header = log.header
    infos = list({each.name: each for each in header.subjects}.values())
    stated = {each.subject: each for each in log.footer.verdicts} if log.footer else {}
    none = SubjectVerdict(subject="", verdict="error", summary="", core={}, extended={})
    same = _repeated(run, guarantee=header.guarantee, spec=header.spec, count=len(infos))
    return same | {
        "subject": [each.name for each in infos],
        "version": [each.version for each in infos],
        "package": [each.package for each in infos],
        "description": [each.description for each in infos],
        "capabilities": [msgspec.json.encode(each.capabilities).decode() for each in infos],
        "stated": [stated[each.name].verdict if each.name in stated else "" for each in infos],
        "summary": [stated.get(each.name, none).sentence for each in infos],
        "judged": [True] * len(infos),
    }


def _described(log: RunLog) -> dict[str, RequirementResult]:
    """The first record about each requirement in the log."""
    known = {result.requirement: result for result in reversed(log.results)}
    for failure in log.failures:
        if failure.requirement not in known:
            known[failure.requirement] = _lost_result(failure)
    for requirement in log.header.requirements:
        if requirement not in known:
            known[requirement] = _undecided(requirement)
    return known


def _lost_result(failure: Failure) -> RequirementResult:
    """The result that a run would have written for a failure if it had not died."""
    return RequirementResult(
        subject=failure.subject,
        requirement=failure.requirement,
        title=failure.title,
        promise=failure.promise,
        source=failure.source,
        level=failure.level,
        core=failure.core,
        status="known" if failure.known else "fail",
        reason=f"expected {failure.expected}, found {failure.found}"[:500],
        checks=[failure.check],
    )


def _undecided(
    requirement: str, subject: str = "", about: RequirementResult | None = None
) -> RequirementResult:
    """Stands for a missing result; an unknown requirement is assumed to be a core MUST."""
    return RequirementResult(
        subject=subject,
        requirement=requirement,
        title="",
        promise="",
        source="",
        level=about.level if about else "MUST",
        core=about.core if about else True,
        status="skip",
        reason="the run has no result for this requirement",
    )


def _answers(log: RunLog, described: dict[str, RequirementResult]) -> list[_Answer]:
    """The result of every requirement for every subject."""
    # Of several failures of one requirement, one that is not known decides.
    failures = sorted(log.failures, key=lambda each: not each.known)
    broken = {(each.subject, each.requirement): each for each in failures}
    answered = {(each.subject, each.requirement): each for each in log.results}
    # A failure was shown, even if the result says otherwise.
    found: list[_Answer] = [
        ("fail" if key in broken and result.status != "known" else result.status, result)
        for key, result in answered.items()
    ]
    lost = [_lost_result(failure) for key, failure in broken.items() if key not in answered]
    found += [(each.status, each) for each in lost]
    subjects = dict.fromkeys(each.name for each in log.header.subjects)
    planned = dict.fromkeys(log.header.requirements)
    silent = itertools.product(subjects, planned)
    return found + [
        ("no result", _undecided(requirement, subject, described[requirement]))
        for subject, requirement in silent
        if (subject, requirement) not in answered and (subject, requirement) not in broken
    ]


def _requirements(run: dict[str, str], described: dict[str, RequirementResult]) -> Columns:
    # A requirement without a title was only planned, and this log does not describe it.
    told = [each for each in described.values() if each.title]
    return _repeated(run, count=len(told)) | {
        **_about(told),
        "title": [each.title for each in told],
        "promise": [each.promise for each in told],
        "source": [each.source for each in told],
        "checks": [", ".join(each.checks) for each in told],
    }


def _about(records: Iterable[RequirementResult | Failure]) -> Columns:
    records = list(records)
    return {
        "requirement": [each.requirement for each in records],
        "area": [area_of(each.requirement) for each in records],
        "level": [each.level for each in records],
        "core": [each.core for each in records],
    }


def _results(run: dict[str, str], log: RunLog, answers: list[_Answer]) -> Columns:
    results = [result for _, result in answers]
    versions = {each.name: each.version for each in log.header.subjects}
    header = log.header
    same = _repeated(
        run, seed=header.seed, guarantee=header.guarantee, spec=header.spec, count=len(results)
    )
    crashes = [sum(each.crash_points.values()) for each in results]
    by_kind = {kind: [each.crash_points.get(kind, 0) for each in results] for kind in _CRASH_KINDS}
    of_kinds = map(sum, zip(*by_kind.values(), strict=True))
    return same | {
        **_about(results),
        "subject": [each.subject for each in results],
        "version": [versions[each.subject] for each in results],
        "status": [status for status, _ in answers],
        "reason": [each.reason for each in results],
        "strength": [each.strength for each in results],
        "examples": [each.examples for each in results],
        "operations": [each.operations for each in results],
        "crashes": crashes,
        **by_kind,
        "other": [all_ - known for all_, known in zip(crashes, of_kinds, strict=True)],
        "wiped": [each.wiped for each in results],
        "mutants": [each.mutants for each in results],
        "duration_ms": [_milliseconds(each.duration_s) for each in results],
    }


def _failures(run: dict[str, str], log: RunLog) -> Columns:
    failures, header = log.failures, log.header
    versions = {each.name: each.version for each in header.subjects}
    plain = ("subject", "title", "shape", "check", "tried", "program", "expected", "found")
    return {
        **_repeated(run, guarantee=header.guarantee, spec=header.spec, count=len(failures)),
        **_about(failures),
        **{name: [getattr(each, name) for each in failures] for name in (*plain, "saved")},
        "version": [versions[each.subject] for each in failures],
        "reproduce": [each.reproduce for each in failures],
        "known_because": [each.known for each in failures],
    }


def _situations(run: dict[str, str], log: RunLog) -> Columns:
    hits: dict[tuple[str, str], int] = {}
    for check in log.checks:
        for name, count in check.situations.items():
            hits[check.subject, name] = hits.get((check.subject, name), 0) + count
    return _repeated(run, count=len(hits)) | {
        "subject": [subject for subject, _ in hits],
        "situation": [situation for _, situation in hits],
        "hits": list(hits.values()),
    }


def _repeated(run: dict[str, str], *, count: int, **more: str | int) -> Columns:
    """The values that all rows of a run share."""
    return {name: [value] * count for name, value in {**run, **more}.items()}


def _milliseconds(seconds: float) -> int:
    """Whole milliseconds, because sums of them do not depend on their order."""
    # A number far out of range, which may be infinite, is refused like one below 0.
    return round(seconds * 1000) if 0 <= seconds < MAX_COUNT else -1
