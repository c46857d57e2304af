"""A report on runs under different specs keeps them apart, and names them only then."""

from __future__ import annotations

import msgspec
from site_rows import cell, failure, promise, verdict

from streamproof.conformance.verdict_rule import Outcome, Shown
from streamproof.reports.pipeline.site.pages import render_pages
from streamproof.reports.pipeline.site.site_builder import arrange
from streamproof.reports.pipeline.site.site_data import SiteRows
from streamproof.reports.pipeline.site.spec_separation import specs_told_apart


def judged(spec: str, status: Shown, outcome: Outcome) -> SiteRows:
    """One subject with one requirement, as the runs under one spec tell of it."""
    replace = msgspec.structs.replace
    broken = (failure("rocks", "1.0", "KV-001", spec=spec),) if status == "fail" else ()
    return SiteRows(
        promises=(promise("KV-001", "put then get"),),
        cells=(cell("rocks", "1.0", "KV-001", status, spec=spec),),
        verdicts=(replace(verdict("rocks", "1.0", outcome), spec=spec),),
        failures=broken,
    )


def joined(*several: SiteRows) -> SiteRows:
    return msgspec.structs.replace(
        several[0],
        cells=tuple(each for rows in several for each in rows.cells),
        verdicts=tuple(each for rows in several for each in rows.verdicts),
        failures=tuple(each for rows in several for each in rows.failures),
    )


def test_one_spec_is_not_named() -> None:
    rows = judged("kips", "pass", "success")

    assert specs_told_apart(rows) == rows
    (series,) = arrange(rows).series
    assert series.label == "rocks"


def test_what_holds_by_one_spec_and_is_broken_by_another_is_told_as_both() -> None:
    rows = joined(judged("kips", "pass", "success"), judged("kafka-4.3", "fail", "failure"))

    site = arrange(specs_told_apart(rows))

    guarantee = rows.cells[0].guarantee
    shown = {series.guarantee: (series.status("KV-001"), series.outcome) for series in site.series}
    assert shown == {
        f"{guarantee}, kips": ("pass", "success"),
        f"{guarantee}, kafka-4.3": ("fail", "failure"),
    }
    assert [each.series.guarantee for each in site.failures] == [f"{guarantee}, kafka-4.3"]
    pages = dict(render_pages(site))
    assert f"{guarantee}, kafka-4.3".encode() in pages["matrix.html"]
