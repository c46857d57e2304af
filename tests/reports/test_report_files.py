"""The reports themselves: goldens, hostile text, and the page in a parser's eyes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from sample_logs import (
    failure,
    footer,
    good_log,
    header,
    mixed_log,
    realistic_log,
    result,
    searched_log,
    write_log,
)

from streamproof.reports.badge import render_badge
from streamproof.reports.html_report import render_html
from streamproof.reports.junit import render_junit
from streamproof.reports.markdown import MAX_LINES, render_markdown
from streamproof.reports.render import REPORTS, render_all
from streamproof.reports.report_builder import build_view
from streamproof.reports.run_log import RunLog
from streamproof.reports.run_log_errors import RunLogMissingError
from streamproof.reports.safe_text import cell, cut, detail

GOLDEN = Path(__file__).parent / "golden"
LOGS: dict[str, Callable[[], RunLog]] = {
    "good": good_log,
    "mixed": mixed_log,
    "searched": searched_log,
    "incomplete": lambda: mixed_log(complete=False),
}
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(1)>",
    "<!-- ]]> --> {{ 7*7 }} {% raw %}",
    "nul \0 bell \x07 escape \x1b[31m c1 \x9b line\u2028end",
    "bidi \u202etxt.exe\u202c \u2066x\u2069 \u200f \U000e0041",
    "not a character \ufffe \uffff",
    "a | b `c` **d** [e](javascript:f) \n# heading\r\n- item @someone https://example.org",
    "x" * 1_000_000,
    "`" * 50,
]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("kind", ["junit", "markdown", "badge"])
def test_reports_are_the_golden_ones(name: str, kind: str) -> None:
    """Small logs give these files, byte for byte (STREAMPROOF_UPDATE_GOLDENS=1 renews them)."""
    file, render = REPORTS[kind]
    golden = GOLDEN / f"{name}.{file}"
    text = render(build_view(LOGS[name]()))
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(text.encode())
    assert golden.read_bytes().decode() == text


def test_all_reports_are_written_next_to_each_other(tmp_path: Path) -> None:
    """Four files, nothing left over, and the same log gives the same bytes."""
    log = write_log(tmp_path / "run.ndjson", mixed_log())
    first = render_all(log, tmp_path / "out" / "deep")
    before = {name: path.read_bytes() for name, path in first.items()}
    second = render_all(log, tmp_path / "out" / "deep")
    assert {name: path.read_bytes() for name, path in second.items()} == before
    assert sorted(path.name for path in (tmp_path / "out" / "deep").iterdir()) == [
        "badge.json",
        "junit.xml",
        "report.html",
        "summary.md",
    ]


def test_a_log_that_cannot_be_read_leaves_no_reports(tmp_path: Path) -> None:
    """Nothing is written before everything is made."""
    with pytest.raises(RunLogMissingError):
        render_all(tmp_path / "none.ndjson", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _hostile_log(text: str) -> RunLog:
    """``text`` wherever a subject, its package or its messages can put it."""
    broken = msgspec.structs.replace(
        result(text, "KV-001", "fail", title=text, reason=text), promise=text, checks=[text]
    )
    silent = msgspec.structs.replace(
        result(text, text, "error", title=text, reason=text), source=text
    )
    record = failure(broken, tried=text, program=text, expected=text, found=text, reproduce=text)
    end = footer([broken, silent], {text: "failure"})
    head = msgspec.structs.replace(
        header(text), command=text, platform={text: text}, only=[text], run_id=text, started_at=text
    )
    return RunLog(header=head, results=[broken, silent], failures=[record], footer=end)


def _parsed(junit: str) -> ET.Element:
    return ET.fromstring(junit)  # noqa: S314 (of our own making)


class _Page(HTMLParser):
    """Checks that elements nest, and collects what a browser would load, run or follow."""

    VOID = frozenset({"meta", "input", "link", "img", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            assert not name.startswith("on"), f"an event handler: {tag} {name}"
            assert name != "src", f"{tag} loads something"
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def _check_page(text: str) -> _Page:
    page = _Page(text)
    assert page.tags["script"] == page.tags["style"] == 1
    assert not {"img", "iframe", "link", "object", "embed", "base"} & page.tags.keys()
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links), page.links
    assert not re.search(r"url\(|@import|https?:", text.split("<body>", maxsplit=1)[0])
    return page


@pytest.mark.parametrize(
    "log",
    [
        *LOGS.values(),
        lambda: realistic_log("rocksdb", "quixstreams", "faust-streaming"),
        lambda: realistic_log("quixstreams", complete=False),
        lambda: realistic_log(*(f"vendor.module{index}:Store" for index in range(9))),
        lambda: RunLog(header=header(), results=[], failures=[], footer=footer([], {})),
    ],
)
def test_the_page_is_well_formed_and_loads_nothing(log: Callable[[], RunLog]) -> None:
    """Elements nest, ids are unique, every link leads somewhere inside the page."""
    _check_page(render_html(build_view(log())))


def test_the_page_says_what_a_reader_needs() -> None:
    """The headline, the failure with its program, and the definition of every status."""
    text = render_html(build_view(mixed_log()))
    page = _check_page(text)
    for said in (
        "quix breaks 2 of 3 requirements (1 core, 1 probable cause).",
        "kill_and_reopen(store)",
        "committed offset 1, and content {a: 2}",
        "streamproof verify quix --only CRASH-002 --seed 24378",
        "the store host did not answer in 10 s",
        "A skip is never a pass.",
    ):
        assert said in page.text
    assert "f-quix-CRASH-002" in page.ids


def test_shapes_known_failures_notes_and_strengths_are_in_every_report() -> None:
    """A promise that is broken in two shapes has both, the simpler first; the known come last."""
    view = build_view(searched_log())
    assert [(each.record.requirement, each.record.shape) for each in view.failures] == [
        ("CRASH-002", "missing-value"),
        ("CRASH-002", "early-value"),
        ("KV-002", "early-value"),
    ]
    page = _check_page(render_html(view))
    for said in (
        "3 probable causes, the worst first, for 3 ways in which a promise is broken",
        "early-value",
        "missing-value",
        "crash.in_every_line_of_commit",
        "streamproof replay failures/quix/CRASH-002-early-value.json",
        "Known: being mended (until 2099-12-31)",
        "KV-003-stale-value does not fail any more.",
        "matches nothing | <b>here</b>.",
        "evidence for what was kept: 1 strong, 1 example only",
    ):
        assert said in page.text
    junit = _parsed(render_junit(view))
    skipped = {node.get("message") for node in junit.iter("skipped")}
    assert skipped == {"known: being mended"}
    evidence = [p.get("value") for p in junit.iter("property") if p.get("name") == "evidence"]
    assert evidence == ["example only", "strong"]
    (failed,) = (node.text for node in junit.iter("failure"))
    assert failed is not None
    assert failed.count("Program:") == 2
    assert "- search: 600 s, 41 rounds" in render_markdown(view)


def test_an_incomplete_page_never_says_success() -> None:
    """No verdict badge outside the legend is green."""
    text = render_html(build_view(mixed_log(complete=False)))
    before_legend = text.split('id="legend"')[0].split("<body>")[1]
    assert "This run did not finish" in before_legend
    assert 'class="outcome o-success"' not in before_legend
    assert 'class="outcome o-incomplete"' in before_legend


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_harmless_in_every_report(text: str) -> None:
    """Escaped, bounded and visible: in HTML, XML, Markdown and JSON alike."""
    view = build_view(_hostile_log(text))
    page, junit, markdown, badge = (render(view) for _, render in REPORTS.values())
    _check_page(page)
    for report in (page, junit, markdown, badge):
        assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe]", report)
        assert len(report) < 500_000
    _parsed(junit)
    json.loads(badge)
    assert len(markdown.splitlines()) <= MAX_LINES
    assert not re.search(
        r"(?<!\\)[<](?!/?sub>)", re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", markdown)
    )


def test_the_junit_counters_are_the_cases() -> None:
    """tests, failures, errors and skipped are counted, in each suite and over all."""
    root = _parsed(render_junit(build_view(mixed_log())))
    for node in (root, *root.iter("testsuite")):
        cases = list(node.iter("testcase"))
        assert int(node.get("tests", "")) == len(cases)
        for counter, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(node.get(counter, "")) == sum(each.find(tag) is not None for each in cases)
    (broken,) = root.iterfind(".//testcase[@name='CRASH-002 content matches the offset']/failure")
    assert broken.get("type") == "MUST"
    assert "Reproduce:\nstreamproof verify quix" in (broken.text or "")
    reasons = [each.get("message") for each in root.iter("skipped")]
    assert "unsupported: not claimed" in reasons
    assert all(reasons)


def test_an_incomplete_junit_file_is_in_error() -> None:
    """Even if all that was found so far is a pass."""
    log = msgspec.structs.replace(good_log(), footer=None)
    root = _parsed(render_junit(build_view(log)))
    assert root.get("errors") == "1"
    assert root.find(".//testcase[@classname='rocksdb.RUN']/error") is not None


@pytest.mark.parametrize("complete", [True, False])
def test_the_summary_is_never_longer_than_promised(complete: bool) -> None:
    """Many subjects with many failures still fit."""
    names = [f"faust-streaming-{index}" for index in range(40)]
    log = realistic_log(*names, "faust-streaming", "quixstreams", complete=complete)
    text = render_markdown(build_view(log))
    assert len(text.splitlines()) <= MAX_LINES
    assert "30 more subjects in the full report" in text


@pytest.mark.parametrize(
    ("log", "message", "color"),
    [
        (good_log(), "core 2/2 · ext 1/1", "brightgreen"),
        (mixed_log(), "breaks 2 of 3 requirements", "red"),
        (mixed_log(complete=False), "incomplete", "lightgrey"),
        (msgspec.structs.replace(good_log(), footer=None), "incomplete", "lightgrey"),
        (
            RunLog(header=header(), results=[], failures=[], footer=footer([], {})),
            "error",
            "orange",
        ),
    ],
)
def test_the_badge_follows_the_verdict(log: RunLog, message: str, color: str) -> None:
    """The colour is the verdict's, and one broken promise of many is red."""
    badge = json.loads(render_badge(build_view(log)))
    assert badge == {
        "schemaVersion": 1,
        "label": "state-store conformance",
        "message": message,
        "color": color,
    }


def test_the_badge_is_yellow_when_a_core_requirement_was_skipped() -> None:
    """And it says how many were kept."""
    results = [result(), result(requirement="KV-002", status="skip")]
    log = RunLog(
        header=header("rocksdb"),
        results=results,
        failures=[],
        footer=footer(results, {"rocksdb": "partial"}),
    )
    badge = json.loads(render_badge(build_view(log)))
    assert (badge["message"], badge["color"]) == ("partial · core 1/2", "yellow")


def test_text_is_bounded_and_marked_where_it_is_cut() -> None:
    """Whoever reads it can tell that something is missing, and how much."""
    assert cut("abcdef", 4) == "abc…"
    assert cell("a\tb\nc\0") == "a\u2409b\u240ac\u2400"
    assert detail("x" * 5000).endswith("… (904 more characters)")
    assert detail("a\n\tb") == "a\n\tb"


def part_of(log: RunLog, of_core: int) -> RunLog:
    """The same run, as one that asked only a part of the requirements."""
    assert log.footer is not None
    verdicts = [msgspec.structs.replace(each, of_core=of_core) for each in log.footer.verdicts]
    return msgspec.structs.replace(
        log,
        header=msgspec.structs.replace(log.header, only=["KV", "CRASH-001"]),
        footer=msgspec.structs.replace(log.footer, verdicts=verdicts),
    )


@pytest.mark.parametrize(
    ("log", "message", "color"),
    [
        (part_of(good_log(), 49), "2 of 49 core", "blue"),
        # A log from before the number was written down.
        (part_of(good_log(), 0), "core 2/2 · ext 1/1", "blue"),
        (part_of(mixed_log(), 49), "breaks 2 of 3 requirements", "red"),
    ],
)
def test_the_badge_of_a_part_is_never_that_of_a_whole(
    log: RunLog, message: str, color: str
) -> None:
    badge = json.loads(render_badge(build_view(log)))
    expected = {"label": "state-store conformance (part)", "message": message, "color": color}
    assert badge == {"schemaVersion": 1, **expected}


def test_every_report_says_that_it_is_about_a_part() -> None:
    view = build_view(part_of(good_log(), 49))
    told = "This run asked only KV, CRASH-001, 2 of 49 core requirements. "
    told += "It is no verdict on the other requirements."
    kept = "rocksdb keeps the 2 core requirements that this run asked for"
    page = render_html(view)
    assert page.count("success, in part</span>") == 2
    assert f"<title>{kept} · streamproof</title>" in page
    assert f'<p class="subline">{told}</p>' in page
    summary = render_markdown(view).replace("\\", "")
    assert summary.startswith(f"## streamproof: success (part of the requirements)\n\n**{kept}.**")
    assert told in summary
    assert "| 2 of 2 asked | 1 of 1 asked |" in summary
    (suite,) = _parsed(render_junit(view)).iter("testsuite")
    values = [each.get("value") for each in suite.iter("property") if each.get("name") == "part"]
    assert values == [told]


def test_what_is_broken_comes_before_what_was_not_asked() -> None:
    """In each area, and among the areas; and every requirement is a mark at a glance."""
    log = mixed_log()
    aside = [
        result(subject, f"AAA-{n:03d}", "unsupported", title="not asked")
        for n in range(200)
        for subject in ("quix", "rocksdb")
    ]
    log = msgspec.structs.replace(log, results=[*aside, *log.results])
    view = build_view(log)
    urgencies = [area.rows[0].urgency for area in view.areas]
    assert urgencies == sorted(urgencies)
    assert [row.urgency for area in view.areas for row in area.rows][-200:] == [2] * 200
    page = render_html(view)
    matrix = page[page.index('id="matrix"') :]
    assert matrix.index("CRASH-002") < matrix.index("AAA-000")
    for subject in view.subjects:
        for status, count in subject.core.counts.items():
            marks = count + subject.extended.counts[status]
            assert marks <= page.count(f'class="m-{status.replace(" ", "-")}" href=')
    assert page.count(' href="#r-AAA-007" tabindex="-1"') == len(view.subjects)


def test_bars_agree_with_their_figures() -> None:
    """The parts of a bar grow by the counts beside it, and no part is made up."""
    view = build_view(mixed_log(complete=False))
    page = render_html(view)
    grown = [int(each) for each in re.findall(r'style="flex-grow:(\d+)"', page)]
    tallies = [each for subject in view.subjects for each in (subject.core, subject.extended)]
    assert sum(grown) == sum(each.asked for each in tallies)


@pytest.mark.parametrize(
    ("package", "version", "shown"),
    [
        ("rocksdict", "0.3.29", "rocksdict 0.3.29"),
        ("", "digest 0acaa9a9", "digest 0acaa9a9"),
        ("", "", "no package known"),
    ],
)
def test_the_version_of_a_store_is_shown(package: str, version: str, shown: str) -> None:
    """That of a store in a file, which comes from no package, is its digest."""
    log = good_log()
    subjects = [
        msgspec.structs.replace(each, package=package, version=version)
        for each in log.header.subjects
    ]
    head = msgspec.structs.replace(log.header, subjects=subjects)
    page = render_html(build_view(msgspec.structs.replace(log, header=head)))
    assert re.findall(r'<p class="package">(.+?)( · .*)?</p>', page)[0][0] == shown
