"""Pictures: goldens of a small run, hostile text, strict nesting, and runs of every shape."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from small_runs import CHANGELOG, small_run

from streamproof.scenarios.event_words import told
from streamproof.scenarios.pictures import (
    Picture,
    picture,
    render_html,
    render_mermaid,
    render_perfetto,
    render_text,
)
from streamproof.scenarios.pictures.html_timeline import MOST_EVENTS
from streamproof.scenarios.pictures.inputs import Inputs
from streamproof.scenarios.pictures.lanes import Item, chosen
from streamproof.scenarios.pictures.text_lanes import MIN_WIDTH
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.choices import Choices
from streamproof.sim.event_kinds import KINDS
from streamproof.sim.event_kinds.wording import readable
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile, read_trace
from streamproof.sim.world_plan import Plan

GOLDEN = Path(__file__).parent / "golden"
GOLDENS: dict[str, Callable[[Picture], str]] = {
    "picture-80.txt": lambda drawn: render_text(drawn, width=80),
    "picture-100.txt": render_text,
    "picture-all.txt": lambda drawn: render_text(drawn, most=0),
    "picture.mermaid": render_mermaid,
}
RENDERERS = (render_text, render_html, render_mermaid, render_perfetto)
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(1)>",
    "<!-- ]]> --> {{ 7*7 }} {% raw %}",
    "nul \0 bell \x07 escape \x1b[31m line\u2028end\nmore",
    "bidi \u202etxt.exe\u202c \u2066x\u2069",
    "a; b # c %% d %%{init: {'theme': 'dark'}}%% <br/> end\nactor x",
    "b'\\x00' b'key-0' {0} {actor.__class__}",
]
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def empty() -> RecordedRun:
    return replace(small_run(), events=[], violations=[])


def at_the_end() -> RecordedRun:
    found = InvariantViolation(
        "every task runs", "TASK-008", "in-0 ends at 3, and only 2 counts", None
    )
    return replace(small_run(), violations=[found, found])


def hostile(text: str) -> RecordedRun:
    """A run in which everything that a user or a store may choose is this text."""
    broken = small_run(is_broken=True)
    event = Event(len(broken.events), 5_000, "instance-0", "odd.kind", text, text, 1, {text: text})
    found = Event(event.sequence + 1, 5_000, text, text, text, text, 1, {"value": text.encode()})
    return replace(
        broken,
        name=text,
        command=text,
        defects=(text,),
        events=[*broken.events, event, found],
        violations=[InvariantViolation(text, text, text, found)],
    )


def long_run(size: int) -> RecordedRun:
    """The broken run, again and again."""
    broken = small_run(is_broken=True)
    events: list[Event] = []
    while len(events) < size:
        start = events[-1].time if events else 0
        events += [
            Event(
                len(events) + number,
                start + each.time,
                each.actor,
                each.kind,
                each.task,
                each.partition,
                each.offset,
                each.attributes,
            )
            for number, each in enumerate(broken.events)
        ]
    found = broken.violations[0]
    last = InvariantViolation(found.invariant, found.requirement, found.message, events[size - 1])
    return replace(broken, events=events[:size], violations=[last])


@pytest.mark.parametrize("name", GOLDENS)
def test_pictures_are_the_golden_ones(name: str) -> None:
    """A small run gives these files, byte for byte (STREAMPROOF_UPDATE_GOLDENS=1 renews them)."""
    text = GOLDENS[name](picture(small_run(is_broken=True)))
    golden = GOLDEN / name
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        golden.write_bytes(text.encode())
    assert golden.read_bytes().decode() == text


@pytest.mark.parametrize("kind", [*KINDS, "new.kind"])
def test_an_event_that_lacks_everything_has_words_nonetheless(kind: str) -> None:
    words = told(Event(0, 0, "instance-0", kind, "", "", -1, {}))
    assert words
    assert words.isprintable()


def test_keys_with_times_can_be_read() -> None:
    window = b"key-0" + (6_000).to_bytes(8) + (0).to_bytes(4)
    session = b"key-0" + (227).to_bytes(8) + (12).to_bytes(8)
    assert readable(window) == "key-0@6000"
    assert readable(b"key-0" + (6_000).to_bytes(8) + (4).to_bytes(4)) == "key-0@6000#4"
    assert readable(session) == "key-0@12–227"
    assert readable(b"key-0") == "key-0"
    assert readable(b"\xff\x00") == "\\xff\\x00"


def test_the_picture_says_what_went_wrong_with_rows_and_offsets() -> None:
    drawn = picture(small_run(is_broken=True))
    found = drawn.violation
    assert found is not None
    assert found.requirement == "TASK-003"
    assert found.where == "by event #38, store.found at 4,000 ms"
    assert found.facts[0] == "The store has 1 row and is at offset 1."
    assert f"{CHANGELOG} ends at 5" in found.facts[1]
    assert found.differences == (("key-0", "3 (the aborted record at 3)", "2 (the record at 1)"),)
    assert [each.event.sequence for each in drawn.items if each.look.glyph == "X"] == [38]


def test_an_event_is_in_the_lane_where_it_takes_place() -> None:
    items = {each.event.sequence: each for each in picture(small_run(is_broken=True)).items}
    store = f"instance-0/0_0/{CHANGELOG}"

    def place(kind: str) -> tuple[str, str]:
        item = next(each for each in items.values() if each.event.kind == kind)
        return item.lane, item.source

    assert place("store.put") == (store, "instance-0/0_0")
    assert place("store.flushed") == ("instance-0/disk", store)
    assert place("task.processed") == ("instance-0/0_0", "log")
    assert place("offsets.added") == ("transactions", "instance-0")
    assert place("offsets.committed") == ("groups", "transactions")
    assert place("transaction.marker") == ("log", "transactions")
    assert place("instance.crashed") == ("instance-0", "")
    changelog = next(
        each
        for each in items.values()
        if each.event.kind == "log.appended" and each.event.partition == CHANGELOG
    )
    assert (changelog.lane, changelog.source) == ("log", store)


def test_arrows_lead_from_the_input_to_the_changelog_and_from_the_disk_to_the_store() -> None:
    drawn = picture(small_run(is_broken=True))
    kind = {each.event.sequence: each.event.kind for each in drawn.items}
    ways = {(kind[each.source], kind[each.target]) for each in drawn.arrows}
    assert all(each.source < each.target for each in drawn.arrows)
    assert {
        ("log.appended", "task.processed"),
        ("task.processed", "store.put"),
        ("store.put", "log.appended"),
        ("offsets.added", "transaction.decided"),
        ("transaction.decided", "transaction.marker"),
        ("store.flushed", "store.found"),
    } <= ways


def test_restored_records_and_committed_offsets_have_arrows_to_what_follows_from_them() -> None:
    events = events_with_crashes()
    drawn = picture(replace(small_run(), events=events))
    kind = {each.event.sequence: each.event.kind for each in drawn.items}
    ways = {(kind[each.source], kind[each.target]) for each in drawn.arrows}
    assert ("log.appended", "store.restored") in ways
    assert ("offsets.committed", "task.processed") in ways
    assert ("group.assigned", "thread.assigned") in ways


def events_with_crashes() -> list[Event]:
    """The events of a world in which a process dies again and again, and nothing else is wrong."""
    events: list[Event] = []
    plan = Plan("count", partitions=1, instances=1, kinds=("crash",), activation=0)
    outcome = run(Choices.seeded(1), plan, watchers=[events.append])
    assert not outcome.violations
    return events


def test_what_a_crash_takes_away_is_told() -> None:
    stock = picture(small_run(is_broken=True)).stock
    (holdings,) = stock.holdings.values()
    killed = next(
        each.sequence
        for each in small_run(is_broken=True).events
        if each.kind == "instance.crashed"
    )
    before = [each for each in holdings if each.sequence < killed][-1]
    after = next(each for each in holdings if each.sequence == killed)
    assert (before.is_open, before.on_disk, before.staged, before.offset) == (True, 1, 1, 3)
    assert (after.is_open, after.on_disk, after.staged, after.offset) == (False, 1, 0, 1)
    volatile = [each for each in stock.spans if each.is_volatile]
    assert [each.end for each in volatile][-1] == killed


def test_a_store_in_memory_has_nothing_on_the_disk() -> None:
    """However often it is flushed: a crash takes all of it."""
    played = small_run()
    for each in played.events:
        if each.kind == "store.opened":
            each.attributes["persistent"] = False
    stock = picture(played).stock
    (holdings,) = stock.holdings.values()
    flushed = next(each.sequence for each in played.events if each.kind == "store.flushed")
    killed = next(each.sequence for each in played.events if each.kind == "instance.crashed")
    before = [each for each in holdings if each.sequence <= flushed][-1]
    after = next(each for each in holdings if each.sequence == killed)
    assert (before.is_open, before.on_disk, before.in_memory) == (True, 0, 1)
    assert (after.is_open, after.on_disk, after.in_memory) == (False, 0, 0)
    (span,) = (each for each in stock.spans if each.start < flushed < each.end and each.is_volatile)
    assert span.end == killed


def test_only_what_matters_is_shown_and_the_violation_always() -> None:
    drawn = picture(small_run(is_broken=True), frozenset({14, 17}))
    assert [each.event.sequence for each in chosen(drawn, 40)] == [14, 17, 38]
    assert drawn.count == "3 of 39 events matter"
    assert "3 of 39 events matter." in render_text(drawn)


@pytest.mark.parametrize("most", [1, 5, 40])
def test_a_text_has_no_more_events_than_it_may(most: int) -> None:
    drawn = picture(long_run(2_000), frozenset(range(0, 2_000, 3)))
    text = render_text(drawn, most=most)
    shown = re.findall(r"^ *[\d,]+ +#(\d+) ", text, flags=re.MULTILINE)
    assert len(shown) == most
    assert shown[-1] == "1999"
    assert "key-0 is 3." in text
    assert (
        len([line for line in render_mermaid(drawn, most=most).splitlines() if " ms " in line])
        == most
    )


@pytest.mark.parametrize("width", [10, MIN_WIDTH, 80, 100, 140])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    for played in (small_run(is_broken=True), long_run(300), at_the_end()):
        lines = render_text(picture(played), width=width, most=0).splitlines()
        assert max(map(len, lines)) <= max(width, MIN_WIDTH)


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("make", [empty, at_the_end, small_run])
def test_runs_of_every_shape_can_be_drawn(
    make: Callable[[], RecordedRun], render: Callable[[Picture], str]
) -> None:
    played = make()
    text = render(picture(played))
    again = render(picture(played))
    assert text == again
    if render is not render_perfetto:
        held = "TASK-008 is broken" if played.violations else "Every invariant held"
        assert held in text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hidden_gets_into_a_text_picture(text: str) -> None:
    drawn = picture(hostile(text))
    for rendered in (render_text(drawn, most=0), render_mermaid(drawn, most=0)):
        assert not HIDDEN.search(rendered)


STATEMENT = re.compile(
    r"    (participant p\d+ as |p\d+(->>|-x)p\d+: |Note over p\d+(,p\d+)?: )(?P<text>.+)"
)


@pytest.mark.parametrize("text", [*HOSTILE, ""])
def test_nothing_in_a_mermaid_diagram_means_anything_but_its_own_statements(text: str) -> None:
    first, *lines = render_mermaid(picture(hostile(text)), most=0).splitlines()
    assert first == "sequenceDiagram"
    for line in lines:
        match = STATEMENT.fullmatch(line)
        assert match is not None, line
        told = re.sub(r"#\d+;", "", match["text"].replace("<br/>", " "))
        assert not set(told) & set('#;%{}<>&"`\\'), line


class Page(HTMLParser):
    """A page as a browser sees it: its elements, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_run_is_never_markup_in_a_page(text: str) -> None:
    harmless = Page(render_html(picture(hostile("harmless"))))
    page = Page(render_html(picture(hostile(text))))
    assert sorted(page.tags) == sorted(harmless.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    block = render_html(picture(hostile(text))).partition('id="data">')[2].partition("</script>")[0]
    assert not set(block) & set("<>&\u2028\u2029")
    data = json.loads(block)
    assert len(data["events"]) == len(hostile(text).events)


def test_a_page_runs_its_own_script_and_loads_nothing() -> None:
    text = render_html(picture(small_run(is_broken=True)))
    page = Page(text)
    digest = base64.b64encode(hashlib.sha256(page.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text
    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in {"src", "href"}]


def test_a_page_of_five_thousand_events_has_all_of_them() -> None:
    played = long_run(5_000)
    text = render_html(picture(played))
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert [each[0] for each in data["events"]] == list(range(5_000))
    assert data["found"] == 4_999
    assert len(text) < 3_000_000


def test_a_page_of_a_very_long_run_has_what_matters_and_the_end_and_says_so() -> None:
    size = MOST_EVENTS + 2_000
    text = render_html(picture(long_run(size), frozenset({5})))
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    kept = [each[0] for each in data["events"]]
    assert len(kept) == MOST_EVENTS
    assert kept[0] == 5
    assert kept[1:] == list(range(size - MOST_EVENTS + 1, size))
    assert f"this page has {MOST_EVENTS:,} of them" in text


def nested(entries: list[dict[str, Any]]) -> None:
    """Assert that slices are nested: each ends before the one around it does."""
    open_slices: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    busy: defaultdict[tuple[int, int], float] = defaultdict(float)
    for each in entries:
        track = (each["pid"], each["tid"])
        if each["ph"] in {"B", "E", "X"}:
            assert each["ts"] >= busy[track], each
        if each["ph"] == "B":
            open_slices[track].append(each["name"])
        elif each["ph"] == "E":
            assert open_slices[track].pop() == each["name"], each
        elif each["ph"] == "X":
            busy[track] = each["ts"] + each["dur"]
    assert not any(open_slices.values())


@pytest.mark.parametrize("make", [empty, at_the_end, small_run, lambda: long_run(5_000)])
def test_slices_of_a_perfetto_trace_are_strictly_nested(make: Callable[[], RecordedRun]) -> None:
    trace = json.loads(render_perfetto(picture(make())))
    entries = [each for each in trace["traceEvents"] if each["ph"] != "M"]
    nested(entries)
    assert [each["ts"] for each in entries] == sorted(each["ts"] for each in entries)
    starts = {each["id"]: each["ts"] for each in entries if each["ph"] == "s"}
    for each in entries:
        if each["ph"] == "f":
            assert starts[each["id"]] < each["ts"]
    slices = sum(each["ph"] == "X" for each in entries)
    assert slices == len(make().events)


def test_a_perfetto_trace_of_a_real_run_has_states_crashes_flows_and_counters() -> None:
    events = events_with_crashes()
    trace = json.loads(render_perfetto(picture(replace(small_run(), events=events))))
    entries = trace["traceEvents"]
    nested([each for each in entries if each["ph"] != "M"])
    assert {"B", "E", "X", "s", "f", "C", "i", "M"} == {each["ph"] for each in entries}
    processes = {each["args"]["name"] for each in entries if each["name"] == "process_name"}
    assert {"brokers and coordinators", "instance-0"} <= processes
    assert "running" in {each["name"] for each in entries if each["ph"] == "B"}
    assert [each for each in entries if each["ph"] == "i" and "is killed" in each["name"]]


def test_a_trace_that_was_kept_in_a_file_is_drawn_as_well(tmp_path: Path) -> None:
    played = small_run(is_broken=True)
    with TraceFile(tmp_path / "run.parquet", "small") as file:
        for each in played.events:
            file(each)
    events = list(read_trace(tmp_path / "run.parquet"))
    violation = InvariantViolation(
        "what is kept is committed", "TASK-003", "key-0 is 3", events[-1]
    )
    drawn = picture(replace(played, events=events, violations=[violation]))
    for render in RENDERERS:
        assert render(drawn)
    assert shape(drawn.items) == shape(picture(played).items)


def shape(items: tuple[Item, ...]) -> list[tuple[str, str, str]]:
    """Where events are, and their glyphs."""
    return [(each.lane, each.source, each.look.glyph) for each in items]


def test_a_marker_comes_from_the_decision_that_it_tells_of_and_from_no_other() -> None:
    events = small_run(is_broken=True).events
    drawn = picture(small_run(is_broken=True))
    ends = {each.sequence: each.attributes.get("commit", False) for each in events}
    markers = [each for each in events if each.kind == "transaction.marker"]
    sources = {
        each.target: each.source
        for each in drawn.arrows
        if each.target in {marker.sequence for marker in markers}
    }
    assert [ends[sources[each.sequence]] for each in markers] == [True, False]
    undecided = [each for each in events if not each.kind.startswith("transaction.timed")]
    arrows = picture(replace(small_run(), events=undecided)).arrows
    assert markers[-1].sequence not in {each.target for each in arrows}


def test_what_comes_about_again_and_again_is_shown_at_first_and_at_last() -> None:
    begun = small_run().events[:5]
    again = [
        Event(
            len(begun) + number, number, "instance-0/thread-0", "thread.timed_out", "", "", -1, {}
        )
        for number in range(1_000)
    ]
    drawn = picture(replace(small_run(), events=[*begun, *again]))
    shown = [each for each in chosen(drawn, 40) if each.event.kind == "thread.timed_out"]
    assert [each.event.sequence for each in shown] == [5, 6, 1_004]
    assert [each.repeats for each in shown] == [0, 0, 997]
    assert "(and 997 before it)" in render_text(drawn)


def test_what_came_other_than_expected_is_no_green_page() -> None:
    """Every invariant may hold in a run that is not the expected one."""
    fine = small_run()
    page, text = render_html(picture(fine)), render_text(picture(fine))
    assert "Every promise was kept in this run" in page
    assert "Every invariant held." in text
    said = "expected output <out> to hold {}, but it holds {'a': 'b'}"
    surprised = replace(fine, surprises=(said,))
    page, text = render_html(picture(surprised)), render_text(picture(surprised), width=200)
    assert "Every promise was kept" not in page
    assert 'class="verdict broken"' in page
    assert "Expected output &lt;out&gt; to hold {}" in page
    assert "X Every invariant held, but this is not the expected run:" in text
    assert said[1:] in text


def test_long_gaps_are_drawn_as_gaps() -> None:
    """Only those: a picture of steady work has none."""
    run = small_run()
    steady = render_text(picture(run), most=0)
    last = run.events[-1]
    late = Event(
        last.sequence,
        last.time + 90_000,
        last.actor,
        last.kind,
        last.task,
        last.partition,
        last.offset,
        last.attributes,
    )
    drawn = picture(replace(run, events=[*run.events[:-1], late]))
    gap = f"{late.time - run.events[-2].time:,} ms later"
    assert gap in render_text(drawn, most=0)
    assert gap not in steady
    assert f'"gap":{drawn.long_gap}' in render_html(drawn)


def test_records_of_several_inputs_have_their_timestamps() -> None:
    """A task chooses by them; and what it still waits for has the time that is left."""

    def event(kind: str, **attributes: object) -> Event:
        return Event(0, 0, "instance-0/thread-0", kind, "0_0", "left-0", 3, attributes)

    started = event("application.started", max_task_idle_ms=500)
    others = {"right-0": [2_000]}
    waits = {"right-0": [None, 0, 1_300]}
    lags = {"right-0": [None, None, None]}
    inputs = Inputs([started, event("task.processed", others=others)])
    said = [
        inputs.aside(event("task.processed", timestamp=1_000, others=each, clock=1_000))
        for each in (others, waits, lags)
    ]
    assert said == [
        " of time 1,000 (right-0: 2,000)",
        " of time 1,000 (right-0: empty, 300 ms left)",
        " of time 1,000 (right-0: empty, lag unknown)",
    ]
    assert inputs.aside(event("task.waiting", waiting={"right-0": "idling"})) == " (500 ms left)"
    assert inputs.aside(event("task.waiting", waiting={"right-0": "lag unknown"})) == ""
    assert inputs.aside(event("log.appended", timestamp=7)) == " of time 7"
    alone = Inputs([started, event("task.processed", others={})])
    assert alone.aside(event("task.processed", timestamp=1_000, others={})) == ""
