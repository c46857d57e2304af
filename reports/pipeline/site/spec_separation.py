"""Keeps results of different specs apart, because requirements differ between specs."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from streamproof.reports.pipeline.site.site_data import (
    Day,
    Flaky,
    SiteCell,
    SiteFailure,
    SiteRows,
    StatusChange,
    VerdictRow,
)

__all__ = ["specs_told_apart"]

_Row = TypeVar("_Row", SiteCell, VerdictRow, SiteFailure, StatusChange, Flaky, Day)


def specs_told_apart(rows: SiteRows) -> SiteRows:
    """The rows of a report with the spec beside the guarantee, if there is more than one.

    A report is arranged by subject and guarantee. Usually all runs have the same spec, and then the
    report does not mention it.
    """
    judged: tuple[VerdictRow | SiteCell | StatusChange, ...] = (
        *rows.verdicts,
        *rows.cells,
        *rows.changes,
    )
    if len({row.spec for row in judged}) < 2:
        return rows
    return msgspec.structs.replace(
        rows,
        cells=_named(rows.cells),
        verdicts=_named(rows.verdicts),
        failures=_named(rows.failures),
        changes=_named(rows.changes),
        flaky=_named(rows.flaky),
        days=_named(rows.days),
    )


def _named(rows: tuple[_Row, ...]) -> tuple[_Row, ...]:
    return tuple(
        msgspec.structs.replace(row, guarantee=", ".join(filter(None, (row.guarantee, row.spec))))
        for row in rows
    )
