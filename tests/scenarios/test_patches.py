"""Patches: a user's function in the place of one of the runtime, for one run and no longer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamproof.cli import app
from streamproof.errors import UsageError
from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
from streamproof.scenarios.play import Judged, play
from streamproof.scenarios.scenario_reader import read
from streamproof.sim.broker_errors import PatchError
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.patches import patch_at
from streamproof.sim.seams import SEAMS

SCENARIO = """\
title = "A count"
story = "A record comes. It is counted. All is well."
sources = ["KIP-892"]

[plan]
topology = "count"
partitions = 1
instances = 1

[[timeline]]
do = "send"
at = 1000
topic = "in"
records = [{ key = "a", value = "1" }]

[variants.fixed]
why = "Nothing is replaced."
contents.counts = { a = "1" }

[variants.wrong]
why = "Something is."
patch = "mine.py:mistake"
seam = "%s"
breaks = ["TASK-069"]
"""

SKIPS = """
def mistake(original, consumer, partition, offset):
    original(consumer, partition, offset + 1)
"""


def scenario(directory: Path, code: str = SKIPS, seam: str = "consumer.seek") -> Path:
    """A scenario with a patch."""
    (directory / "mine.py").write_text(code, "utf-8")
    path = directory / "mine.toml"
    path.write_text(SCENARIO % seam, "utf-8")
    return path


def played(path: Path, variant: str = "wrong") -> Judged:
    """A run of a variant."""
    found = read(path)
    return play(found, found.setups[variant])


def test_a_patch_is_made_in_its_variant_alone(tmp_path: Path) -> None:
    """And the runtime is the same as before."""
    before = Consumer.seek
    path = scenario(tmp_path)
    wrong, fixed = played(path), played(path, "fixed")
    assert wrong.surprises == []
    assert wrong.played.defects == ("mine.py:mistake",)
    assert fixed.surprises == []
    assert fixed.played.defects == ()
    assert Consumer.seek is before
    assert wrong.played.digest == played(path).played.digest


def test_no_run_sees_what_another_has_left_in_a_file(tmp_path: Path) -> None:
    """The file is loaded anew: its counter begins at 0 in each run, and one seek is wrong."""
    code = """
seen = []
def mistake(original, consumer, partition, offset):
    seen.append(partition)
    original(consumer, partition, offset + (len(seen) == 1))
"""
    path = scenario(tmp_path, code)
    assert played(path).played.digest == played(path).played.digest


FAILURES = [
    ("def mistake(original, *rest):\n    return 1 / 0\n", "raised ZeroDivisionError"),
    ("def mistake(original):\n    pass\n", "raised TypeError"),
    ("def mistake(original, *rest):\n    yield 1\n", "its seam takes no time"),
    ("import nothing_of_this_name\ndef mistake():\n    pass\n", "cannot be loaded"),
]


@pytest.mark.parametrize(("code", "told"), FAILURES)
def test_a_patch_that_raises_is_to_blame(code: str, told: str, tmp_path: Path) -> None:
    """In one sentence that names it, with the exit code of a wrong input."""
    path = scenario(tmp_path, code)
    before = Consumer.seek
    with pytest.raises(PatchError, match=told):
        played(path)
    assert Consumer.seek is before
    result = CliRunner().invoke(app, ["replay", f"{path}@wrong"])
    assert isinstance(result.exception, PatchError)
    assert "mine.py" in str(result.exception)


def test_steps_need_a_yield(tmp_path: Path) -> None:
    """A function that takes virtual time can be replaced only by a generator."""
    path = scenario(tmp_path, "def mistake(original, *rest):\n    pass\n", "committer.commit")
    with pytest.raises(PatchError, match="yield from"):
        played(path)


def test_an_error_of_the_runtime_passes_through(tmp_path: Path) -> None:
    """A patch may raise what brokers raise: the runtime handles it, as part of the mistake."""
    code = """
from streamproof.sim.broker_errors import RequestTimeoutError
done = []
def mistake(original, *rest):
    if not done:
        done.append(1)
        raise RequestTimeoutError("no reply")
    yield from original(*rest)
"""
    path = scenario(tmp_path, code, "committer.commit")
    kinds = {each.kind for each in played(path).played.events}
    assert "thread.timed_out" in kinds


WRONG = [
    ('seam = "consumer.seek"', 'seam = "consumer.sek"', "no known seam"),
    ('seam = "consumer.seek"', "", "needs a seam"),
    ("mine.py:mistake", "other.py:mistake", "cannot be read: No such file"),
    ("mine.py:mistake", "mine.py:misteak", "defines no function 'misteak'; it defines: mistake"),
    ("mine.py:mistake", "mine", "not of the form FILE.py:FUNCTION"),
    ('patch = "mine.py:mistake"', "", "set `patch`, too"),
]


@pytest.mark.parametrize(("before", "after", "told"), WRONG)
def test_a_wrong_patch_is_refused_with_its_place(
    before: str, after: str, told: str, tmp_path: Path
) -> None:
    """One sentence with the line, before anything runs."""
    path = scenario(tmp_path)
    path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")
    with pytest.raises(UsageError) as error:
        read(path)
    assert told in str(error.value)
    assert str(error.value).startswith(f"{path}:")
    assert len(str(error.value).splitlines()) == 1


def test_a_file_that_is_no_python_is_refused(tmp_path: Path) -> None:
    """It is read, and not run."""
    path = scenario(tmp_path, "def mistake(:\n")
    with pytest.raises(UsageError, match="is no Python"):
        read(path)


def test_campaigns_refuse_the_patches_of_a_user(tmp_path: Path) -> None:
    """Unless an option allows them; other variants and the library need none."""
    path = scenario(tmp_path)
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[[scenarios]]\nnames = ["{path}", "KAFKA-19712"]\n', "utf-8")
    with pytest.raises(UsageError, match="add --allow-patches"):
        read_plan(plan)
    assert read_plan(plan, allow_patches=True).rows == 4
    text = f'[[scenarios]]\nnames = ["{path}"]\nvariants = ["fixed"]\n'
    plan.write_text(text, "utf-8")
    assert read_plan(plan).rows == 1


def test_an_exploration_finds_and_shrinks_a_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And writes a scenario that plays it again, from where it stands."""
    scenario(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(
        'topologies = ["count"]\nupgrades = [""]\nkinds = ["crash"]\n', "utf-8"
    )
    words = ["explore", "--patch", "mine.py:mistake", "--seam", "consumer.seek", "--runs", "3"]
    words += ["--swarm", "small.toml", "--shrink-runs", "40", "--jobs", "1", "--out", "found"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1, result.output
    (written,) = (tmp_path / "found").glob("*.toml")
    assert 'patch = "../mine.py:mistake"' in written.read_text("utf-8")
    again = played(written, "defect")
    assert again.surprises == []


def test_a_patch_that_raises_ends_an_exploration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no error of the simulator."""
    scenario(tmp_path, "def mistake(original, *rest):\n    return 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    words = ["explore", "--patch", "mine.py:mistake", "--seam", "consumer.seek", "--jobs", "1"]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, PatchError)


FORGETFUL = """
def mistake(original, thread, assignment):
    yield from original(thread, assignment)
    thread._pending = None
"""


def test_what_a_patch_leaves_behind_is_not_blamed_on_the_simulator_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later step fails, in which the patch has no part any more."""
    scenario(tmp_path, FORGETFUL)
    monkeypatch.chdir(tmp_path)
    words = ["explore", "--patch", "mine.py:mistake", "--seam", "thread.take_assignment"]
    result = CliRunner().invoke(app, [*words, "--runs", "5", "--jobs", "1"])
    assert result.exit_code == 70, result.output
    told = " ".join(result.output.split())
    assert "Either the patch mine.py:mistake leaves the runtime unable to go on" in told
    assert "`streamproof explore --seed" in told


def test_a_seam_without_a_patch_is_refused() -> None:
    result = CliRunner().invoke(app, ["explore", "--seam", "consumer.seek"])
    assert isinstance(result.exception, UsageError)
    assert "--patch" in str(result.exception)


def test_the_seams_are_documented() -> None:
    """Each with its arguments; and nothing that is no seam."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    told = {tuple(cell.strip() for cell in line.split("|")[1:4]) for line in rows}
    seams = {
        (f"`{name}`", f"`{seam.arguments}`", seam.what.rstrip(".")) for name, seam in SEAMS.items()
    }
    assert seams <= told


@pytest.mark.parametrize("name", SEAMS)
def test_a_seam_is_a_function_of_its_class(name: str) -> None:
    """Defined there, so that the other classes keep theirs."""
    seam = SEAMS[name]
    assert seam.function in vars(seam.owner)
    assert callable(vars(seam.owner)[seam.function])


def test_a_path_leads_from_the_scenario_to_the_patch(tmp_path: Path) -> None:
    scenario(tmp_path)
    patch = patch_at("mine.py:mistake", "consumer.seek", tmp_path)
    assert patch.path_from(tmp_path / "found") == f"..{os.sep}mine.py:mistake"
