"""Every headline of a run counts alike, and a terminal shows no more than it has room for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from streamproof.commands.terminal import terminal
from streamproof.commands.verify_progress import MOST_LINES, ConsoleObserver
from streamproof.conformance.catalogue import requirements_that_bind
from streamproof.conformance.failure_groups import group_failures
from streamproof.conformance.results import Failure, Footer, RequirementResult, SubjectInfo
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import Session
from streamproof.reports.badge import render_badge
from streamproof.reports.html_report import render_html
from streamproof.reports.junit import render_junit
from streamproof.reports.markdown import render_markdown
from streamproof.reports.report_builder import build_view
from streamproof.reports.run_log import RunLog
from tests.reports.sample_logs import failure, footer, header, result

NAME = "rocksdb"


def program(number: int, lines: int) -> str:
    """A program that is unlike those with other numbers."""
    steps = "".join(f"store.step_{number}_{'x' * n}(b'a')\n" for n in range(lines))
    return f"store = lab.open()\n{steps}assert store.get_{number}(b'a') == b'1'\n"


def session_of(broken: int, causes: int, lines: int) -> Session:
    """A run of which so many requirements are broken, from so many causes."""
    requirements = requirements_that_bind("store")[:120]
    session = Session({NAME: SubjectInfo(name=NAME)}, Settings(seed=1), requirements)
    for number, each in enumerate(requirements):
        status = "fail" if number < broken else "pass"
        about = result(NAME, each.id, status, title=each.title, level=each.level, core=each.core)
        session.results[NAME].append(about)
        if number < broken:
            text = program(number % causes, lines)
            session.failures.append(failure(about, program=text, core=each.core))
    return session


def footer_of(session: Session) -> Footer:
    """The last record of the run."""
    results: list[RequirementResult] = session.results[NAME]
    end = footer(results, {NAME: "failure"})
    return type(end)(
        **{name: getattr(end, name) for name in end.__struct_fields__ if name != "verdicts"},
        verdicts=session.verdicts(),
    )


def log_of(session: Session) -> RunLog:
    """The log of the run."""
    return RunLog(
        header=header(NAME),
        results=session.results[NAME],
        failures=session.failures,
        footer=footer_of(session),
    )


def printed(session: Session, width: int = 80) -> list[str]:
    """What the terminal shows, line by line."""
    console: Console = terminal(width=width, record=True, force_terminal=False)
    with console.capture() as captured:
        observer = ConsoleObserver(console, session)
        for each in session.failures:
            observer.record(each)
        observer.summarise(footer_of(session), Path("out/report.html"))
    return captured.get().splitlines()


@pytest.mark.parametrize(("broken", "causes"), [(1, 1), (7, 3), (60, 25), (2, 2)])
def test_every_headline_counts_alike(broken: int, causes: int) -> None:
    """Terminal, page, summary, badge and JUnit name the same numbers."""
    session = session_of(broken, causes, 3)
    view = build_view(log_of(session))
    shown = " ".join(" ".join(printed(session, 200)).split())
    title = re.search("<h1>(.*?)</h1>", render_html(view))
    assert title is not None
    noun = r"requirements? \("
    of_all = rf"breaks {broken} of 120 {noun}\d+ core"
    cause = "" if broken == causes else f", {causes} probable cause{'s' if causes > 1 else ''}"
    for text in (shown, title[1], render_markdown(view).replace("\\", ""), render_junit(view)):
        assert re.search(rf"{of_all}{cause}\)", text), text[:600]
    message = json.loads(render_badge(view))["message"]
    assert message == f"breaks {broken} of 120 requirements"
    assert sum(cell.status == "fail" for row in view.rows for cell in row.cells) == broken
    assert len(view.groups) == causes == len(group_failures(session.failures))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("broken", "causes", "lines"), [(1, 1, 3), (3, 3, 4), (60, 25, 9), (60, 1, 200), (110, 90, 2)]
)
def test_a_terminal_shows_sixty_lines(broken: int, causes: int, lines: int, width: int) -> None:
    """The simplest failure with its program, and at most one program for each cause."""
    session = session_of(broken, causes, lines)
    told = printed(session, width)
    assert len(told) <= MOST_LINES
    text = "\n".join(told)
    first: Failure = session.failure_groups()[0].first
    assert f"{first.requirement} ({first.level}) {first.title}" in text
    assert first.program.splitlines()[0] in text
    programs = [line for line in told if line.strip() == "store = lab.open()"]
    assert 1 <= len(programs) <= causes
    assert told[-1] == "streamproof verify --seed 24378"


def matrix_of(subjects: int, width: int) -> tuple[list[str], list[str]]:
    """The names of subjects, of which all but the last break promises, and what is printed."""
    requirements = requirements_that_bind("store")
    names = [f"kafka:rocksdb-window:task@4.{number}.0" for number in range(subjects)]
    session = Session(
        {name: SubjectInfo(name=name) for name in names}, Settings(seed=1), requirements
    )
    for name in names:
        for each in requirements:
            broken = name != names[-1] and each.id in ("CRASH-001", "CRASH-004", "POWER-001")
            status = "fail" if broken else "pass"
            session.results[name].append(result(name, each.id, status, level=each.level))
    console = terminal(width=width, force_terminal=False)
    with console.capture() as captured:
        ConsoleObserver(console, session).summarise(
            footer(session.results[names[0]], dict.fromkeys(names, "failure")), Path("report.html")
        )
    return names, captured.get().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_many_subjects_have_a_row_each(width: int) -> None:
    """Its totals, and the areas in which something is broken; no name is cut."""
    names, lines = matrix_of(15, width)
    total = len(requirements_that_bind("store"))
    heading = next(number for number, line in enumerate(lines) if line.startswith("subject "))
    text = " ".join(" ".join(lines[heading + 1 :]).split())
    for name in names[:-1]:
        assert f"{name} ✗3 ✓{total - 3} Crash consistency 2, Loss of power 1 " in text
    assert f"{names[-1]} ✓{total} ✗ fail" in text


@pytest.mark.parametrize(("subjects", "width"), [(2, 80), (3, 120)])
def test_few_subjects_have_a_column_each(subjects: int, width: int) -> None:
    """Beside the areas, which take a line each."""
    names, lines = matrix_of(subjects, width)
    assert not any(line.startswith("subject ") for line in lines)
    (row,) = (line for line in lines if line.startswith("Crash consistency "))
    assert row.count("✗2") == len(names) - 1
