"""`streamproof scenarios` and `streamproof replay`, as a person at a terminal uses them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import refused, run

from streamproof.scenarios.scenario_reader import find, library
from streamproof.sim.trace_files import read_trace

NAME = "KAFKA-20685"

BROKEN = """\
title = "A defect that the scenario does not expect"
[plan]
partitions = 1
instances = 1
[settings]
commit_interval_ms = 1000
[[timeline]]
do = "send"
at = 100
topic = "in"
records = [{ key = "<b>&", value = "1" }]
[[timeline]]
do = "flush"
when = { kind = "task.processed" }
instance = "instance-0"
[[timeline]]
do = "crash"
when = { kind = "task.processed" }
after_ms = 20
instance = "instance-0"
down_ms = 100
[variants.wrong]
defects = ["keeps-unclean-store"]
"""


def written(directory: Path, text: str = BROKEN) -> Path:
    """A scenario file."""
    path = directory / "mine.toml"
    path.write_text(text)
    return path


def test_all_scenarios_are_listed(tmp_path: Path) -> None:
    """By name, and how to play one."""
    lines = run("scenarios", cwd=tmp_path, columns=120).stdout.splitlines()
    listed = {line.split()[0] for line in lines[1:-1] if not line.startswith(" ")}
    assert listed == library().keys()
    assert lines[-1].startswith(f"{len(library())} scenarios.")


def test_a_scenario_is_told(tmp_path: Path) -> None:
    """Story, sources, what each variant is expected to show, and where the file is."""
    text = run("scenarios", NAME, cwd=tmp_path).stdout
    assert "KIP-1035" in text
    assert "Breaks TASK-003." in text
    assert "Everything holds." in text
    assert f"{NAME}.toml" in "".join(text.split())
    assert text.endswith(f"$ streamproof replay {NAME}\n")


def test_a_scenario_is_replayed(tmp_path: Path) -> None:
    """Both sides: that all holds, and the picture of what breaks; in 80 columns."""
    done = run("replay", NAME, cwd=tmp_path)
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "✓ fixed  every promise is kept, as expected" in done.stdout
    assert "✓ defect  TASK-003 is broken, as expected" in done.stdout
    assert "events matter." in done.stdout
    assert done.stdout.splitlines()[-1] == f"  $ streamproof replay {NAME}@defect"
    again = run("replay", f"{NAME}@defect", cwd=tmp_path).stdout
    assert again.splitlines()[-1] == done.stdout.splitlines()[-1]
    assert "✓ fixed" not in again


def test_what_does_not_come_as_expected_is_a_failure(tmp_path: Path) -> None:
    """Exit code 1, what was expected, and what came."""
    path = written(tmp_path)
    done = run("replay", path, cwd=tmp_path, code=1)
    assert "✗ wrong  TASK-003 is broken" in done.stdout
    assert "expected every promise to hold, but TASK-003 was broken" in " ".join(
        done.stdout.split()
    )
    asked = run("replay", path, "--set", "commit_interval_ms=50", cwd=tmp_path)
    assert asked.stdout.splitlines()[-1].endswith("@wrong --set commit_interval_ms=50")


def test_another_setting_another_seed_another_defect(tmp_path: Path) -> None:
    """What is asked for is tried, and is no surprise; the last line says it again."""
    done = run(
        *("replay", f"{NAME}@fixed", "--defect", "keeps-checkpoint-while-running"),
        *("--seed", "3", "--set", "commit_interval_ms=500"),
        cwd=tmp_path,
    )
    assert "TASK-003 is broken" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        f"  $ streamproof replay {NAME}@fixed --set commit_interval_ms=500 --defect "
        "keeps-checkpoint-while-running --seed 3"
    )


@pytest.mark.parametrize("subject", ["rocksdb", "in-memory"])
def test_a_store_is_put_into_a_scenario(subject: str, tmp_path: Path) -> None:
    """A real one; and nothing of it is left."""
    text = BROKEN.replace('defects = ["keeps-unclean-store"]', 'contents.counts = { "<b>&" = "1" }')
    work = tmp_path / "work"
    work.mkdir()
    done = run(
        *("replay", written(tmp_path, text), "--subject", subject, "--work-dir", work),
        cwd=tmp_path,
    )
    assert "✓ wrong  every promise is kept" in done.stdout
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("html", ".html"),
        ("mermaid", ".mmd"),
        ("perfetto", ".trace.json"),
        ("parquet", ".parquet"),
    ],
)
def test_a_run_is_written_to_a_file(kind: str, suffix: str, tmp_path: Path) -> None:
    """In each format, whose path is printed; foreign text in it is only text."""
    path = written(tmp_path)
    done = run(
        *("replay", path, "--format", kind, "--out", "shown", "--set", "threads=1"), cwd=tmp_path
    )
    (file,) = (tmp_path / "shown").iterdir()
    assert file.name == f"mine--wrong{suffix}"
    assert f"shown/{file.name}" in done.stdout
    match kind:
        case "html":
            assert "<b>&" not in file.read_text("utf-8")
        case "mermaid":
            assert file.read_text("utf-8").startswith("sequenceDiagram")
        case "perfetto":
            assert json.loads(file.read_text("utf-8"))["traceEvents"]
        case _:
            assert next(read_trace(file)).kind == "application.started"


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """And the option by which there can be another one."""
    done = run("replay", NAME, "--format", "html", "--out", "/proc/none", cwd=tmp_path, code=3)
    assert "/proc/none" in done.stderr
    assert "--out" in done.stderr


def test_two_runs_are_compared(tmp_path: Path) -> None:
    """The variants of one scenario, or two targets; anything else is refused."""
    done = run("replay", NAME, "--compare", cwd=tmp_path, columns=120)
    assert re.search(r"The first \d\d+ events are the same\.", done.stdout)
    same = run("replay", f"{NAME}@fixed", f"{NAME}@fixed", "--compare", cwd=tmp_path)
    assert "differ" not in same.stdout.splitlines()[0]
    line = refused("replay", f"{NAME}@fixed", "--compare", cwd=tmp_path)
    assert "--compare needs two runs, and these are 1" in line


def test_a_comparison_is_a_page_too(tmp_path: Path) -> None:
    """With the outputs that differ."""
    done = run("replay", "KAFKA-12268@fixed", "KAFKA-12268@defect", "--compare", cwd=tmp_path)
    assert "Outputs that differ:" in done.stdout
    assert "order|silver" in done.stdout
    words = ["KAFKA-12268@fixed", "KAFKA-12268@defect", "--compare", "--format", "html"]
    done = run("replay", *words, "--out", "pages", cwd=tmp_path)
    page = (tmp_path / done.stdout.strip()).read_text()
    for said in ("Outputs that differ", "<td>order|silver</td>", "breaks IDLE-002", "<td>out</td>"):
        assert said in page


def test_a_comparison_says_why_it_ends_with_1(tmp_path: Path) -> None:
    """It shows two runs, of which one is not as its file expects."""
    (tmp_path / "other.toml").write_text(
        find("KAFKA-12268").read_text().replace("order|silver", "order|gold")
    )
    done = run("replay", "other.toml@fixed", "KAFKA-12268@fixed", "--compare", cwd=tmp_path, code=1)
    assert "✗ other (fixed): expected output out to hold" in done.stdout
    assert "So the exit code is 1." in " ".join(done.stdout.split())


def test_a_run_is_walked_through(tmp_path: Path) -> None:
    """By lines that are read, up to the end of the input."""
    done = run("replay", f"{NAME}@defect", "--step", cwd=tmp_path, stdin="n\nf\nstore 0_0\n")
    assert "step> " in done.stdout


def test_only_what_was_until_a_moment_is_shown(tmp_path: Path) -> None:
    """What is found later is not known then."""
    done = run("replay", f"{NAME}@defect", "--until", "9000", cwd=tmp_path)
    assert "every promise is kept" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["replay", "KAFKA-2068"], "Did you mean"),
        (["replay", f"{NAME}@wrong"], "has no variant 'wrong'; it has: fixed, defect."),
        (["replay", "missing.toml"], "missing.toml: the scenario cannot be read"),
        (["replay", NAME, "failure.json"], "one kind at a time"),
        (["replay", NAME, "--run", "a"], "--run names a run of a trace"),
        (["replay", NAME, "--compare", "--step"], "--compare and --step exclude each other"),
        (["replay", NAME, "--compare", "--format", "mermaid"], "choose --format html"),
        (["replay", NAME, "--step", "--format", "html"], "--step and --format exclude"),
        (["replay", NAME, "--compare", "--all"], "--all is for pictures of a run"),
        (["replay", NAME, "--out", "shown"], "--out is for files, and text is printed"),
        (["replay", "failure.json", "--seed", "1"], "--seed is for scenarios and traces"),
        (["replay", "failure.json", "--subject", "rocksdb"], "--subject is for scenarios"),
        (["replay", "failure.json", "--format", "html"], "--format is for scenarios and traces"),
        (["replay", "failure.json", "--step"], "--step is for scenarios and traces"),
        (["replay", "trace.parquet", "--set", "threads=2"], "--set is for a run that is made"),
        (["replay", "trace.parquet", "--format", "parquet"], "is in Parquet already"),
        (["replay", NAME, "--set", "threads"], "write KEY=VALUE"),
        (["replay", NAME, "--set", "thread=2"], "there is no setting 'thread'"),
        (["replay", NAME, "--defect", "none"], "There is no defect 'none'"),
        (["replay", NAME, "--subject", "none"], "none"),
        (["replay", f"{NAME}@defect", "--subject", "rocksdb"], "cannot be played with real stores"),
        (
            ["replay", "KAFKA-7192", "--subject", "single-file"],
            "and single-file does not: add `--set transactional=false`",
        ),
        (["scenarios", "none"], "There is no scenario 'none'"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], told: str, tmp_path: Path) -> None:
    """In one line, with exit code 3."""
    assert told in refused(*arguments, cwd=tmp_path)


def test_the_library_is_played(tmp_path: Path) -> None:
    """One of it here; each variant with each store, and nothing surprises."""
    done = run("scenarios", NAME, "--play", "--subject", "rocksdb", cwd=tmp_path, columns=120)
    assert "1 scenario, 2 variants, 0 surprises." in done.stdout
    assert "TASK-003 breaks" in done.stdout
    assert "not played:" in done.stdout
    plain = run("scenarios", "KAFKA-20760", "--play", "--subject", "single-file", cwd=tmp_path)
    assert "not played: it needs a store that stages its writes" in " ".join(plain.stdout.split())
    failing = run("scenarios", written(tmp_path), "--play", cwd=tmp_path, code=1)
    assert failing.stdout.splitlines()[-1].endswith("mine.toml@wrong")
