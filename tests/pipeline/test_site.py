"""The report site: what it says, that it holds together, and that no text gets out of hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import get_args

import msgspec
import pytest
from site_rows import HOSTILE, cell, failure, hostile, promise, sample, verdict

from streamproof.conformance.results import Level
from streamproof.conformance.verdict_rule import Outcome, Shown
from streamproof.errors import UsageError
from streamproof.reports.pipeline.site.charts import Interval, columns, intervals, lines, strip
from streamproof.reports.pipeline.site.page_names import page_names
from streamproof.reports.pipeline.site.pages import MOST_ROWS, render_pages
from streamproof.reports.pipeline.site.site_builder import (
    Site,
    arrange,
    kind_of_change,
    version_key,
)
from streamproof.reports.pipeline.site.site_data import ChangeKind, SiteRows, StatusChange
from streamproof.reports.pipeline.site.site_report import FORMATS, write_report
from streamproof.reports.pipeline.site.site_writer import MANIFEST, write_files
from streamproof.reports.wording import STATUSES

PAGES = dict(render_pages(arrange(sample())))


class Page(HTMLParser):
    """Checks that elements nest, and collects what a browser would load, run or follow."""

    VOID = frozenset({"meta", "input", "link", "br", "hr"})
    INLINE = frozenset({"b", "code", "use"})

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.text = ""
        self.unlabelled: list[str] = []
        self.headings: list[int] = []
        self.scopes = 0
        self.feed(content.decode())
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.text += "" if tag in self.INLINE else " "
        given = {name: value or "" for name, value in attrs}
        for name, value in given.items():
            assert not name.startswith("on"), f"an event handler: {tag} {name}"
            assert name != "style", f"{tag} has a style of its own"
            if name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("href", "src") and tag in ("link", "script", "img"):
                self.loaded.append(value)
            elif name == "id":
                self.ids.append(value)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.scopes += tag == "th" and "scope" in given
        if tag == "svg" and not {"aria-label", "aria-hidden"} & given.keys():
            self.unlabelled.append(str(given))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert self.open[-1:] != ["script"], "a script in the page"
        self.text += data


def parsed(files: dict[str, bytes]) -> dict[str, Page]:
    return {name: Page(content) for name, content in files.items() if name.endswith(".html")}


def resolved(page: str, link: str) -> tuple[str, str]:
    """The file and the place in it that a link of a page leads to."""
    path, _, place = link.partition("#")
    parts: list[str] = []
    for part in [*PurePosixPath(page).parent.parts, *path.split("/")] if path else [page]:
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts), place


def assert_whole(files: dict[str, bytes]) -> None:
    """Every link leads to a place in the site, every page is linked to, and every id is unique."""
    pages = parsed(files)
    reached = {"index.html"}
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), name
        assert not page.unlabelled, name
        assert page.tags["h1"] == 1, name
        for link in page.links:
            target, place = resolved(name, link)
            assert target in pages, (name, link)
            assert not place or place in pages[target].ids, (name, link)
            reached.add(target)
        for asset in page.loaded:
            assert resolved(name, asset)[0] in files, (name, asset)
    assert reached == pages.keys()
    index = json.loads(files["assets/search.js"].decode().split(" = ", 1)[1].removesuffix(";\n"))
    assert {page for _, _, page in index} <= pages.keys()


def test_every_link_holds_and_every_page_is_reached() -> None:
    assert_whole(PAGES)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_foreign_text_stays_text(text: str, tmp_path: Path) -> None:
    """Whatever a store, a log or a requirement is called: no element, no path and no link of it."""
    files = dict(render_pages(arrange(hostile(text))))
    assert_whole(files)
    assert all(
        re.fullmatch(r"(?:[a-z]+/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,90}", name) for name in files
    )
    usual = {tag for page in parsed(PAGES).values() for tag in page.tags}
    for name, page in parsed(files).items():
        assert page.tags.keys() <= usual, name
        assert page.tags["script"] == 2, name
    script = files["assets/search.js"].decode()
    assert "<" not in script
    assert script.isascii()
    write_report(hostile(text), tmp_path / "out", FORMATS)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_no_rows_make_a_site_that_says_so() -> None:
    files = dict(render_pages(arrange(SiteRows())))
    assert_whole(files)
    assert "No subject was tested." in Page(files["index.html"]).text


def test_the_same_rows_give_the_same_bytes_in_any_order() -> None:
    rows = sample()
    turned = msgspec.structs.replace(
        rows,
        promises=rows.promises[::-1],
        cells=rows.cells[::-1],
        verdicts=rows.verdicts[::-1],
        failures=rows.failures[::-1],
    )
    assert dict(render_pages(arrange(turned))) == PAGES


def text_of(name: str) -> str:
    return " ".join(Page(PAGES[name]).text.split())


def test_the_overview_says_the_worst_first() -> None:
    text = text_of("index.html")
    assert (
        "1 of 2 subjects breaks a promise of level MUST; 1 of 23 simulated worlds breaks a "
        "promise and 1 gives no answer." in text
    )
    assert "28 worlds and 3 scenarios were simulated, 8 of them with a deliberate mistake" in text
    assert "on 3 runs with 3 seeds, from 2026-03-01 to 2026-03-03" in text
    assert "Compared with the version before: 1 broken, 1 fixed, 2 added." in text
    assert text.index("rocksdb 1.10 failure 1 /3 1 /2 1 1") < text.index("lmdb 3.0 success")
    assert "POWER-001 survives a loss of power" in text


def test_a_page_of_a_failure_has_all_that_is_needed_to_see_it_again() -> None:
    text = text_of("failures/CRASH-001-early-value-rocksdb-exactly-once.html")
    for part in (
        "content matches the offset",
        "kill_and_reopen(store)",
        "committed offset 1, and content {a: 1}",
        "committed offset 1, and content {a: 2}",
        "streamproof verify rocksdb --only CRASH-001 --seed 7",
        "The newest version, 1.10, has it.",
        "2 runs, 1 version",
    ):
        assert part in text
    old = text_of("failures/TXN-001-dirty-read-rocksdb-exactly-once.html")
    assert "Seen last in 1.9; no run of the newest version, 1.10, has it." in old


def test_a_page_of_a_requirement_has_its_evidence() -> None:
    text = text_of("requirements/CRASH-001.html")
    assert "crash.commit, commit.random_programs" in text
    assert "catches 2 deliberately wrong stores" in text
    assert "lmdb 0 % 0.32 % rocksdb 0.01 % 0.46 %" in text
    assert "rocksdb 1.10, exactly-once: kept in 2 runs, broken in 1 run" in text
    assert "1,200 a wipe after 12 of them" in text
    svg = PAGES["requirements/CRASH-001.html"].decode()
    assert 'aria-label="pass 1.9; fail 1.10"' in svg


def test_problems_situations_and_flaky_results_are_told() -> None:
    assert "runs/9/run.ndjson 31 unreadable not valid" in text_of("problems.html")
    assert "a standby was promoted while it restored looked for in 3 runs" in text_of(
        "evidence.html"
    )
    assert "kept in 20260302T101500Z-2, seed 2 broken in 20260303T101500Z-3" in text_of(
        "flaky.html"
    )
    assert "TXN-001 MUST extended uncommitted writes are invisible rocksdb fail 1.9 pass 1.10" in (
        text_of("changes.html")
    )


def test_the_document_has_a_title_page_and_lines_to_sign_on() -> None:
    text = text_of("document.html")
    for part in (
        "Seeds 1, 2, 3",
        "Runs 3, from 2026-03-01",
        "lmdb 3.0, rocksdb 1.10",
        "Tested by:",
    ):
        assert part in text
    style = PAGES["assets/site.css"].decode()
    assert "counter(page)" in style


def test_worlds_are_told_with_the_commands_that_show_them_again() -> None:
    text = text_of("worlds.html")
    for part in (
        "1 of 23 simulated worlds breaks a promise and 1 gives no answer.",
        "fail EOS-101 Contents model stores A promise is broken task 0_1 holds a=2",
        "1 world shows it; the shortest has seed 11, topology count, exactly-once, 310 events",
        "seen at event 207, after 4,120 virtual ms",
        "streamproof explore --seed 11",
        "error KAFKA-10167@fixed rocksdb No answer it took longer than 300 s",
        "streamproof replay KAFKA-10167@fixed",
        "8 2 IDLE-001 OldestFirst streamproof explore --seed 4 --defect ignores-lag",
        "model stores worlds exactly-once none 20 19 1 – 5,000",
        "a standby was promoted while it restored",
    ):
        assert part in text
    assert "Simulated worlds that fail" in text_of("index.html")
    assert text_of("index.html").index("EOS-101") < text_of("index.html").index("KAFKA-10167@fixed")


def test_a_world_that_fails_makes_no_report_a_success() -> None:
    """Even where every subject keeps all; a mistake made on purpose says nothing of anybody."""
    rows = sample()
    whole = msgspec.structs.replace(
        rows,
        cells=tuple(each for each in rows.cells if each.subject == "lmdb"),
        verdicts=rows.verdicts[2:],
    )
    honest, on_purpose = rows.worlds[1:]
    outcomes = {
        worlds: arrange(msgspec.structs.replace(whole, worlds=worlds)).outcome
        for worlds in ((), (on_purpose,), (honest,), rows.worlds[:1])
    }
    assert list(outcomes.values()) == ["success", "success", "failure", "error"]
    alone = arrange(SiteRows(worlds=(msgspec.structs.replace(honest, broken=0),)))
    assert alone.outcome == "success"
    assert "No store was verified; 20 simulated worlds broke no promise." in (
        Page(dict(render_pages(alone))["index.html"]).text
    )


def test_what_was_mended_since_a_baseline_links_to_its_failure() -> None:
    rows = sample()
    mended = StatusChange(
        subject="lmdb",
        guarantee="exactly-once",
        requirement="KV-001",
        kind="fixed",
        before="fail",
        after="pass",
        version_before="2.0",
        version_after="3.0",
    )
    old = failure("lmdb", "2.0", "KV-001", of_baseline=True)
    site = arrange(
        msgspec.structs.replace(
            rows, baseline="runs/old", changes=(mended,), failures=(*rows.failures, old)
        )
    )
    files = dict(render_pages(site))
    assert_whole(files)
    (way,) = (each for each in site.failures if each.of_baseline)
    assert not way.now
    assert f"failures/{way.page}.html" in Page(files["changes.html"]).links
    text = " ".join(Page(files[f"failures/{way.page}.html"]).text.split())
    assert (
        "A failure of the baseline, runs/old: seen in 2.0. No run of the newest version, 3.0, "
        "has it." in text
    )
    assert "2.0 of the baseline no longer" in " ".join(Page(files["failures.html"]).text.split())


def test_a_failure_of_the_baseline_is_not_one_of_now() -> None:
    """Versions of a store may be unknown: then the mended one has the name of the broken one."""
    keys = {"subject": "s", "version": "", "requirement": "KV-001"}
    rows = SiteRows(
        cells=(cell(**keys, status="known"),),
        failures=(failure(**keys, of_baseline=True),),
        baseline="runs/old",
    )
    (way,) = arrange(rows).failures
    assert not way.now


def test_headings_and_tables_can_be_walked_through() -> None:
    """No level of headings is left out, and every head of a table says what it is the head of."""
    for name, page in parsed(PAGES).items():
        assert page.headings[0] == 1, name
        steps = [after - before for before, after in pairwise(page.headings)]
        assert max(steps, default=0) <= 1, (name, page.headings)
        assert page.tags["th"] == page.scopes, name


def test_the_digest_stands_for_the_rows_and_not_for_their_order() -> None:
    site = arrange(sample())
    turned = msgspec.structs.replace(sample(), cells=sample().cells[::-1])
    less = msgspec.structs.replace(sample(), cells=sample().cells[1:])
    assert re.fullmatch("[0-9a-f]{16}", site.digest)
    assert arrange(turned).digest == site.digest != arrange(less).digest
    assert f"compliance report {site.digest}" in PAGES["assets/site.css"].decode()
    assert f"of digest {site.digest}, comes to the verdict failure" in text_of("document.html")


def one_cell_each(*found: tuple[str, Shown], **changes: Outcome) -> Site:
    """A site about one subject: versions, and the status of its only requirement in each."""
    stated = changes.get("stated", "success")
    return arrange(
        SiteRows(
            promises=(promise("KV-001", "put then get"),),
            cells=tuple(cell("s", version, "KV-001", status) for version, status in found),
            verdicts=tuple(
                verdict("s", version, stated, day) for day, (version, _) in enumerate(found, 1)
            ),
        )
    )


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("pass", "success"),
        ("fail", "failure"),
        ("known", "partial"),
        ("error", "error"),
        ("skip", "partial"),
        ("no result", "partial"),
        ("unsupported", "partial"),
        ("untested", "partial"),
    ],
)
def test_a_verdict_is_never_better_than_the_statuses_allow(status: Shown, outcome: Outcome) -> None:
    assert one_cell_each(("1", status)).outcome == outcome


def test_a_stated_verdict_is_never_made_better() -> None:
    assert one_cell_each(("1", "pass"), stated="incomplete").outcome == "incomplete"


def test_a_version_without_a_verdict_is_incomplete() -> None:
    site = arrange(SiteRows(cells=(cell("s", "1", "KV-001", "pass"),)))
    assert site.outcome == "incomplete"


def test_what_an_older_version_was_asked_a_newer_one_must_answer() -> None:
    """A run with --only must not look as if the version kept all."""
    found = [cell("s", "1", "KV-001", "pass"), cell("s", "1", "KV-002", "pass")]
    site = arrange(
        SiteRows(
            cells=(*found, cell("s", "2", "KV-001", "pass"), cell("s", "2", "KV-003", "pass")),
            verdicts=(verdict("s", "1", "success", 1), verdict("s", "2", "success", 2)),
        )
    )
    (series,) = site.series
    assert series.outcomes == ("success", "partial")
    assert [core.asked for core, _ in series.tallies] == [2, 3]
    assert series.status("KV-002") == "no result"


@pytest.mark.parametrize("level", ["MUST", "SHOULD", "MAY"])
def test_a_newer_version_must_answer_for_extended_requirements_too(level: Level) -> None:
    extended = promise("KV-002", "delete", level=level, core=False)
    older = [cell("s", "1", "KV-001", "pass"), cell("s", "1", "KV-002", "pass")]
    site = arrange(
        SiteRows(
            promises=(promise("KV-001", "put then get"), extended),
            cells=(*older, cell("s", "2", "KV-001", "pass")),
            verdicts=(verdict("s", "1", "success", 1), verdict("s", "2", "success", 2)),
        )
    )
    assert site.series[0].outcomes == ("success", "partial")


def test_a_broken_may_makes_a_version_partial() -> None:
    site = arrange(
        SiteRows(
            promises=(promise("KV-001", "put"), promise("KV-002", "x", level="MAY", core=False)),
            cells=(cell("s", "1", "KV-001", "pass"), cell("s", "1", "KV-002", "fail")),
            verdicts=(verdict("s", "1", "success", 1),),
        )
    )
    assert site.outcome == "partial"


def test_the_newest_version_is_the_one_that_was_tested_last() -> None:
    assert one_cell_each(("2.0", "pass"), ("1.9", "pass")).series[0].version == "1.9"


def test_versions_of_one_moment_are_sorted_as_people_do() -> None:
    versions = ["", "0.9", "1.0a1", "1.0rc2", "1.0rc10", "1.0", "1.0.1", "1.9", "1.10", "2"]
    assert sorted([*reversed(versions)], key=version_key) == versions


@pytest.mark.parametrize("before", [None, *STATUSES])
@pytest.mark.parametrize("after", [None, *STATUSES])
def test_only_what_was_tried_and_held_is_fixed(before: Shown | None, after: Shown | None) -> None:
    kind = kind_of_change(before, after)
    assert (kind is None) == (before == after)
    assert kind is None or kind in get_args(ChangeKind)
    assert (kind == "fixed") == (after == "pass" and before in {"fail", "known"})
    assert (kind == "broken") == (after == "fail" and before not in {"fail", None})


def test_with_a_baseline_its_changes_are_shown_instead() -> None:
    change = StatusChange(
        subject="rocksdb",
        guarantee="exactly-once",
        requirement="KV-001",
        kind="changed",
        before="skip",
        after="pass",
    )
    rows = msgspec.structs.replace(sample(), baseline="runs/old", changes=(change,))
    assert arrange(rows).changes == (change,)
    assert (
        "Compared with the baseline, runs/old: 1 changed."
        in Page(dict(render_pages(arrange(rows)))["index.html"]).text
    )


def test_two_guarantees_are_two_columns_of_one_subject() -> None:
    rows = sample()
    other = [
        msgspec.structs.replace(each, guarantee="at-least-once")
        for each in rows.cells
        if each.subject == "lmdb"
    ]
    site = arrange(msgspec.structs.replace(rows, cells=(*rows.cells, *other)))
    assert [series.label for series in site.series] == [
        "lmdb (at-least-once)",
        "lmdb (exactly-once)",
        "rocksdb (exactly-once)",
    ]
    files = dict(render_pages(site))
    assert_whole(files)
    page = Page(files["subjects/lmdb.html"])
    assert {"at-least-once", "exactly-once"} <= set(page.ids)
    assert 'id="guarantee"' in files["matrix.html"].decode()


def test_a_table_without_end_is_cut_and_says_so() -> None:
    problems = sample().problems * (MOST_ROWS + 1)
    files = dict(render_pages(arrange(msgspec.structs.replace(sample(), problems=problems))))
    page = Page(files["problems.html"])
    assert page.tags["tr"] == MOST_ROWS + 1
    assert "The first 1,000 of 1,001 are shown" in page.text


def test_ways_of_breaking_one_promise_have_pages_of_their_own() -> None:
    rows = msgspec.structs.replace(
        sample(),
        failures=(
            failure("rocksdb", "1.9", "CRASH-001", shape="a"),
            failure("rocksdb", "1.10", "CRASH-001", shape="a", found="the newest"),
            failure("rocksdb", "1.10", "CRASH-001", shape="b"),
        ),
    )
    first, second = arrange(rows).failures
    assert [first.versions, second.versions] == [("1.9", "1.10"), ("1.10",)]
    assert first.newest.found == "the newest"
    assert first.page != second.page


def test_names_of_pages_are_safe_stable_and_told_apart() -> None:
    texts = ["KV-001", "kv-001", "a/b", "a b", "", "..", ".hidden", "é", "x" * 300, "con\0"]
    names = page_names(texts)
    assert names["KV-001"] == "KV-001"
    assert len({name.casefold() for name in names.values()}) == len(texts)
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,80}", name) for name in names.values())
    assert page_names(["a/b"])["a/b"] == names["a/b"]


def test_charts_say_in_words_what_they_show() -> None:
    counts: dict[Shown, int] = dict.fromkeys(STATUSES, 0)
    chart = columns(
        [{**counts, "fail": 3, "skip": 1}, {**counts, "skip": 2}], ["1", "2"], "by <version>"
    )
    assert "<title>1: 3 fail, 1 skip</title>" in chart
    assert "<title>2: 2 skip</title>" in chart
    assert 'aria-label="by &lt;version&gt;"' in chart
    assert "<title>day: 50.0 %</title>" in lines([("day", 0.5)], "share", "day")
    assert "a: 0 % to 0.3 %" in intervals([Interval("a", 0.0, 0.003, failed=False)], "kills")
    assert "pass 1 to 2; no result 3" in strip(("pass", "pass", "no result"), ("1", "2", "3"))


def test_an_interval_lies_where_its_axis_says() -> None:
    """From 1 % to 10 % it spans one of two decades, and ends one decade before 100 %."""
    chart = intervals([Interval("a", 0.01, 0.1, failed=True)], "kills")
    found = re.search(r'<line x1="([\d.]+)" x2="([\d.]+)" y1="([\d.]+)" y2="\3"', chart)
    grid = [float(x) for x in re.findall(r'class="grid" x1="([\d.]+)"', chart)]
    assert found is not None
    assert sorted(grid)[:2] == [float(found[1]), float(found[2])]


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_stands_out_from_its_ground() -> None:
    """WCAG 2.2 AA: 4.5 for text, on every ground that it is put on, in both themes."""
    style = PAGES["assets/site.css"].decode()
    pairs = dict(re.findall(r"--([a-z-]+): light-dark\((#\w{6}, #\w{6})\)", style))
    grounds = ("paper", "raised", "sunken")
    inks = ("ink", "soft", "faint", "accent", "pass", "fail", "error", "skip", "none")
    washes = [(ink, f"{ink}-wash") for ink in ("pass", "fail", "error", "skip", "none")]
    mixed = [(ink, ground) for ink in inks for ground in grounds]
    mixed += [*washes, ("faint", "fail-wash"), ("ink", "fail-wash"), ("accent", "fail-wash")]
    for ink, ground in mixed:
        for front, back in zip(pairs[ink].split(", "), pairs[ground].split(", "), strict=True):
            bright, dark = sorted([luminance(front), luminance(back)], reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (ink, ground, front, back)


def test_a_second_report_replaces_the_files_of_the_first_and_no_others(tmp_path: Path) -> None:
    write_report(sample(), tmp_path, ["html"])
    (tmp_path / "mine.txt").write_text("kept")
    healed = msgspec.structs.replace(sample(), failures=())
    written = write_report(healed, tmp_path, ["html", "badge"])
    assert written.removed == sorted(name for name in PAGES if name.startswith("failures/"))
    listed = json.loads((tmp_path / MANIFEST).read_bytes())
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert there == {*listed, MANIFEST, "mine.txt"}


def test_only_the_formats_that_are_asked_for_are_written(tmp_path: Path) -> None:
    write_report(sample(), tmp_path, ["badge", "markdown"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "badge.json",
        MANIFEST,
        "summary.md",
    ]


@pytest.mark.parametrize("listed", ["../victim", "/etc/x", "a/b/c", "..", "a/..", "~/x", ".x"])
def test_a_list_of_files_that_leads_elsewhere_is_refused(tmp_path: Path, listed: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "victim").write_text("kept")
    (out / MANIFEST).write_text(json.dumps([listed]))
    with pytest.raises(UsageError, match="is no file of a report"):
        write_files(out, [("a", b"")])
    assert (tmp_path / "victim").read_text() == "kept"


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Choose another directory with --out"):
        write_files(tmp_path / "file", [("a", b"")])
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(UsageError, match="is not the list of files"):
        write_files(tmp_path, [("a", b"")])
