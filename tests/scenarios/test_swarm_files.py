"""What worlds are drawn from: everything, or what a file leaves of it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.swarm_file import read_swarm
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import SeededWorlds
from streamproof.sim.plan_space import EVERYTHING, PlanSpace, draw

SMALL = """
topologies = ["count", "stateless"]
guarantees = ["at-least-once"]
upgrades = [""]
kinds = ["crash", "power"]

[plan]
instances = [2]
activation = [0, 0.5]

[settings]
max_task_idle_ms = [-1, 500]

[workload]
records = [7]
"""


def written(directory: Path, text: str) -> Path:
    """A swarm file."""
    path = directory / "swarm.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("defect", ["", "keeps-stale-offset", "takes-offsets-of-older-format"])
def test_a_space_has_what_is_drawn_from_it(defect: str) -> None:
    """With and without a defect; and an exploration draws the same."""
    space = EVERYTHING.for_defect(defect)
    for seed in range(20):
        plan = draw(Choices.seeded(seed), space)
        assert space.has(plan)
        assert plan == SeededWorlds(defect=defect).draw(Choices.seeded(seed))


def test_a_file_leaves_only_what_it_says(tmp_path: Path) -> None:
    """All of it is drawn in some run."""
    space = read_swarm(written(tmp_path, SMALL))
    plans = [draw(Choices.seeded(seed), space) for seed in range(40)]
    assert {each.topology for each in plans} == {"count", "stateless"}
    assert {each.config.exactly_once for each in plans} == {False}
    assert {each.upgrade for each in plans} == {""}
    assert {each.kinds for each in plans} == {("crash",), ("power",), ("crash", "power")}
    assert {each.instances for each in plans} == {2}
    assert {each.activation for each in plans} == {0, 0.5}
    assert {each.config.max_task_idle_ms for each in plans} == {-1, 500}
    assert {each.workload.records for each in plans} == {7}
    # Everything else is drawn as ever.
    assert {each.threads for each in plans} == {1, 2}


def test_a_draw_goes_to_other_processes() -> None:
    """It is pickled, and draws the same there."""
    worlds = SeededWorlds(PlanSpace(topologies=["count"]))
    other = pickle.loads(pickle.dumps(worlds))  # noqa: S301
    assert other.draw(Choices.seeded(1)) == worlds.draw(Choices.seeded(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'topologies = ["cuont"]',
            "topologies has the unknown name 'cuont'. The known names are: ",
        ),
        (
            'kinds = ["crash", "flood"]',
            "kinds has the unknown name 'flood'. The known names are: crash, ",
        ),
        ('upgrades = ["sideways"]', "upgrades has the unknown name 'sideways'"),
        ('guarantees = ["at-most-once"]', "Invalid enum value 'at-most-once'"),
        ("topology = []", "Object contains unknown field `topology`"),
        ("[settings]\nidle_ms = [1]", "[settings] has no field 'idle_ms'; it has: "),
        ("[settings]\nexactly_once = [true]", "[settings] has no field 'exactly_once'"),
        ("[settings]\nmax_poll_records = [0]", "[settings] max_poll_records: "),
        ("[settings]\nmax_poll_records = []", "max_poll_records must be a list of options"),
        ('[workload]\nrecords = ["7"]', "each a int: '7' is none"),
        ("[workload]\nkeys = [0]", "[workload] keys: "),
        ("[plan]\ninstances = [0]", "[plan] instances: instances is 0; give at least 1"),
        ("[plan]\nupgrade_every_ms = [-1]", "upgrade_every_ms is -1; give at least 0"),
        ("[plan]\nactivation = [1.5]", "activation is 1.5; give a probability from 0 to 1"),
        ("[plan]\nfaults_after_input_ms = [-2]", "faults_after_input_ms is -2; give milliseconds"),
        ('[plan]\ntopology = ["count"]', "[plan] has no field 'topology'"),
        ("topologies = [", "this is not TOML"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the file and the key."""
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        read_swarm(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(UsageError, match=r"nowhere\.toml: the file cannot be read: No such file"):
        read_swarm(tmp_path / "nowhere.toml")


def test_a_defect_that_does_no_harm_is_refused() -> None:
    """Whoever asks for it would search in vain."""
    with pytest.raises(UsageError, match="does no harm under at-least-once: add 'exactly-once'"):
        SeededWorlds(PlanSpace(guarantees=["at-least-once"]), "keeps-stale-offset")
    with pytest.raises(UsageError, match="without the upgrade 'format-offline'"):
        SeededWorlds(PlanSpace(upgrades=[""]), "takes-offsets-of-older-format")
