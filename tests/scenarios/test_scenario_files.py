"""Scenario files: what they say is what is run, and what is wrong in one is told with its place."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from streamproof.errors import UsageError
from streamproof.scenarios.scenario import Crash, Send, schema
from streamproof.scenarios.scenario_reader import find, library, read
from streamproof.sim.world_plan import WORLD_VERSION

SCHEMA = Path(__file__).resolve().parents[2] / "scenarios" / "scenario.schema.json"

GOOD = """\
title = "A process dies"
story = "It does. It comes back. All is well."
sources = ["KIP-892"]

[plan]
topology = "count"
partitions = 1
instances = 1

[settings]
commit_interval_ms = 1000

[settings.assignor]
num_standby_replicas = 1

[[timeline]]
do = "send"
at = 100
topic = "in"
records = [{ key = "a", value = "1" }]

[[timeline]]
do = "crash"
when = { kind = "task.processed", task = "0_0" }
after_ms = 5
instance = "instance-0"
down_ms = 1000

[variants.fixed]
contents.counts = { a = "1" }
events = [{ kind = "instance.crashed", least = 1, most = 1 }]

[variants.defect]
defects = ["keeps-unclean-store"]
breaks = ["TASK-003"]

[variants.at-least-once.settings]
exactly_once = false
"""


def written(directory: Path, text: str, name: str = "mine.toml") -> Path:
    """A scenario file."""
    path = directory / name
    path.write_text(text)
    return path


def test_a_file_says_what_is_run(tmp_path: Path) -> None:
    """Plan, settings and timeline; nothing goes wrong that the timeline does not say."""
    scenario = read(written(tmp_path, GOOD))
    assert scenario.name == "mine"
    assert list(scenario.setups) == ["fixed", "defect", "at-least-once"]
    plan = scenario.setups["fixed"].plan
    assert (plan.topology, plan.partitions, plan.instances) == ("count", 1, 1)
    assert (plan.kinds, plan.activation, plan.workload.records) == ((), 0.0, 0)
    assert plan.config.commit_interval_ms == 1000
    assert plan.config.exactly_once
    assert plan.config.assignor.num_standby_replicas == 1
    assert not scenario.setups["at-least-once"].plan.config.exactly_once
    assert [type(each) for each in scenario.file.timeline] == [Send, Crash]


@pytest.mark.parametrize(
    ("before", "after", "line", "told"),
    [
        ("title =", "titel =", 1, "`titel` is no key of a scenario; did you mean title?"),
        ("partitions = 1", "partitons = 1", 7, "did you mean partitions?"),
        ("partitions = 1", "partitions = 0", 7, "`plan.partitions` is 0; give at least 1."),
        ("partitions = 1", "activation = 2.0", 7, "`plan.activation` is 2.0; give a probability"),
        ('topology = "count"', 'topology = "cuont"', 6, "did you mean count?"),
        ("= 1000", '= "long"', 11, "expected `int`, got `str`"),
        ("commit_interval_ms", "commit_intervall_ms", 11, "did you mean commit_interval_ms?"),
        ("= 1000", "= 20000", 29, "transaction.timeout.ms is 10000"),
        ("at = 100", "at = -1", 18, "expected `int` >= 0"),
        ("at = 100", "at = 60000", 18, "faults end at 60000 ms"),
        ("at = 100\n", "", 17, "needs a time"),
        ("at = 100", 'at = 100\nwhen = { kind = "task.state" }', 18, "exclude each other"),
        ("at = 100", "at = 100\nafter_ms = 1", 19, "set `when`, too"),
        ('topic = "in"', 'topic = "out"', 19, "which is no known input"),
        ('key = "a", ', 'key = "a", partition = 3, ', 20, "in has 1 partitions"),
        ('value = "1"', 'valeu = "1"', 20, "did you mean value?"),
        ("at = 100", "at = 100\nopen_ms = 5", 19, "set `transaction`, too"),
        ('do = "crash"', 'do = "crsh"', 23, "'crsh'"),
        ('"task.processed"', '"task.proccessed"', 24, "did you mean task.processed"),
        ('task = "0_0"', 'task = "0_7"', 24, "which is no known task"),
        ('task = "0_0"', 'partition = "in-7"', 24, "which is no known partition"),
        ('task = "0_0"', 'actor = "instance-7"', 24, "which is no known instance"),
        ('instance = "instance-0"', 'instance = "instance-1"', 26, "which is no known instance"),
        ("counts = {", "count = {", 30, "did you mean counts?"),
        ("least = 1, most = 1", "least = 2, most = 1", 31, "is 1, but must be at least `least`, 2"),
        ('"keeps-unclean-store"', '"keeps-store"', 34, "which is no known defect"),
        (
            "[variants.at-least-once.settings]",
            "[variants.at-least-once]\nplan = { instances = 0 }\n[variants.at-least-once.settings]",
            38,
            "`variants.at-least-once.plan.instances` is 0; give at least 1.",
        ),
        ('"TASK-003"', '"TASK-999"', 35, "which is no known promise"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    before: str, after: str, line: int, told: str, tmp_path: Path
) -> None:
    """One line: the file, the line, the key, and what would do."""
    assert before in GOOD
    path = written(tmp_path, GOOD.replace(before, after, 1))
    with pytest.raises(UsageError) as raised:
        read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}:{line}: ")
    assert told in message
    assert "\n" not in message


QUERY = """
[[timeline]]
do = "query"
at = 5000
task = "0_0"
store = "counts"
"""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('task = "0_7"', "which is no known task"),
        ('store = "count"', "did you mean counts?"),
        ("bounded = true", "set `requires_active = false`, too"),
    ],
)
def test_a_query_that_nobody_can_answer(more: str, told: str, tmp_path: Path) -> None:
    """It names what there is, and only a stale copy can be too old."""
    key = more.partition(" ")[0]
    lines = [each for each in QUERY.splitlines() if not each.startswith(key)]
    with pytest.raises(UsageError, match=re.escape(told)):
        read(written(tmp_path, GOOD + "\n".join([*lines, more]) + "\n"))


def test_an_expectation_that_nobody_can_judge_is_refused(tmp_path: Path) -> None:
    """A run ends with the promise that breaks: what would have been in the end is not known."""
    text = GOOD.replace('breaks = ["TASK-003"]', 'breaks = ["TASK-003"]\ncontents.counts = {}')
    with pytest.raises(UsageError, match="cannot be checked in a run that"):
        read(written(tmp_path, text))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('seed = 1\nrecorded = "8:1"', "exclude each other"),
        ('recorded = "8:x"', "'8:x' is no choice: word 1 in line 1"),
        ('recorded = "8:1"\nvariant = "wrong"', "which is no known variant"),
        ('recorded = "8:1"', "the recording carries no version of the simulated world"),
        (
            f'recorded = "8:1"\nworld = {WORLD_VERSION + 1}',
            f"carries version {WORLD_VERSION + 1} of the simulated world, but this",
        ),
        (f"seed = 1\nworld = {WORLD_VERSION + 1}", "Record the run anew"),
    ],
)
def test_choices_that_cannot_be(table: str, told: str, tmp_path: Path) -> None:
    """They are read before anything is run."""
    with pytest.raises(UsageError, match="choices") as raised:
        read(written(tmp_path, f"{GOOD}\n[choices]\n{table}\n"))
    assert told in str(raised.value)


def test_what_is_no_scenario_at_all(tmp_path: Path) -> None:
    """No file, no text, no TOML: one line each."""
    with pytest.raises(UsageError, match=r"cannot be read: No such file"):
        read(tmp_path / "none.toml")
    with pytest.raises(UsageError, match=r"is not TOML: .* line 1"):
        read(written(tmp_path, "title = \n"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read(tmp_path / "binary.toml")


def test_a_file_goes_on_from_another(tmp_path: Path) -> None:
    """Tables are merged, and the timeline comes after that of the base."""
    written(tmp_path, GOOD, "base.toml")
    own = """\
extends = "base"
title = "It dies twice"
settings.commit_interval_ms = 500
[[timeline]]
do = "crash"
at = 9000
instance = "instance-0"
[variants.fixed]
why = "It is right."
"""
    scenario = read(written(tmp_path, own))
    assert scenario.file.title == "It dies twice"
    assert scenario.file.sources == ["KIP-892"]
    assert [each.at for each in scenario.file.timeline] == [100, None, 9000]
    fixed = scenario.setups["fixed"]
    assert fixed.plan.config.commit_interval_ms == 500
    assert fixed.plan.config.assignor.num_standby_replicas == 1
    assert fixed.variant.contents == {"counts": {"a": "1"}}
    assert fixed.variant.why == "It is right."


def test_a_base_that_is_missing_or_endless(tmp_path: Path) -> None:
    """Both are told where they are asked for."""
    with pytest.raises(UsageError, match=r"mine.toml:1: `extends` names 'gone'"):
        read(written(tmp_path, 'extends = "gone"\n'))
    with pytest.raises(UsageError, match="chain of more than 5 files"):
        read(written(tmp_path, 'extends = "mine"\n'))


def test_a_matrix_multiplies_the_variants(tmp_path: Path) -> None:
    """Each value of each setting with each of the others, whatever the variant says."""
    text = f"{GOOD}\n[matrix]\nexactly_once = [true, false]\nthreads = [1, 2]\n"
    scenario = read(written(tmp_path, text))
    assert len(scenario.setups) == 12
    chosen = scenario.setups["at-least-once exactly_once=true threads=2"]
    assert chosen.plan.config.exactly_once
    assert chosen.plan.threads == 2
    with pytest.raises(UsageError, match=r"there is no setting 'thread'. Did you mean threads"):
        read(written(tmp_path, f"{GOOD}\n[matrix]\nthread = [1]\n"))


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("max_task_idle_ms", -1, lambda plan: plan.config.max_task_idle_ms),
        ("exactly_once", False, lambda plan: plan.config.exactly_once),
        ("workload.records", 5, lambda plan: plan.workload.records),
        ("threads", 2, lambda plan: plan.threads),
        ("transactional", True, lambda plan: plan.config.transactional),
    ],
)
def test_a_setting_may_be_another_one(key: str, value: Any, found: Any, tmp_path: Path) -> None:
    """In every variant, also in one that sets it itself."""
    scenario = read(written(tmp_path, GOOD), {key: value})
    assert [found(each.plan) for each in scenario.setups.values()] == [value] * 3


def test_a_setting_that_cannot_be(tmp_path: Path) -> None:
    """Neither a name that there is not, nor a value of another kind."""
    path = written(tmp_path, GOOD)
    with pytest.raises(UsageError, match=r"--set idle: there is no setting 'idle'"):
        read(path, {"idle": 1})
    with pytest.raises(UsageError, match="expected `int`, got `str`"):
        read(path, {"max_task_idle_ms": "long"})
    with pytest.raises(UsageError, match=r"max.task.idle.ms is -2"):
        read(path, {"max_task_idle_ms": -2})


def test_a_scenario_is_found_by_its_name(tmp_path: Path) -> None:
    """In the library, or as a file; a name that is nearly right is guessed."""
    assert find("KAFKA-20685") == library()["KAFKA-20685"]
    path = written(tmp_path, GOOD)
    assert find(str(path)) == path
    with pytest.raises(UsageError, match=r"no scenario 'KAFKA-2068'.*Did you mean.*KAFKA-20685"):
        find("KAFKA-2068")


def test_the_schema_is_published() -> None:
    """The file in the repository is what the types say, and every scenario is valid by it."""
    text = json.dumps(schema(), indent=2) + "\n"
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS"):
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", sorted(library()))
def test_a_scenario_of_the_library_is_valid_by_the_schema(name: str) -> None:
    """So that an editor that knows the schema says nothing against it."""
    import tomllib

    table = tomllib.loads(library()[name].read_text("utf-8"))
    assert [error.message for error in Draft202012Validator(schema()).iter_errors(table)] == []
