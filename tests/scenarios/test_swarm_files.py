"""What worlds are drawn from: everything, or what a file leaves of it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.swarm_file import EVERYTHING, Swarm, drawn_from, read_swarm
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import drawn_plan

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
def test_everything_is_what_the_swarm_draws(defect: str) -> None:
    """The run of a seed is the same, with and without a defect."""
    draw = drawn_from(EVERYTHING, defect)
    for seed in range(20):
        assert draw(Choices.seeded(seed), defect) == drawn_plan(Choices.seeded(seed), defect)


def test_a_file_leaves_only_what_it_says(tmp_path: Path) -> None:
    """All of it is drawn in some run."""
    draw = drawn_from(read_swarm(written(tmp_path, SMALL)))
    plans = [draw(Choices.seeded(seed), "") for seed in range(40)]
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
    draw = drawn_from(Swarm(topologies=["count"]))
    assert pickle.loads(pickle.dumps(draw))(Choices.seeded(1), "") == draw(Choices.seeded(1), "")  # noqa: S301


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('topologies = ["cuont"]', "topologies has 'cuont', and there are: "),
        ('kinds = ["crash", "flood"]', "kinds has 'flood', and there are: crash, "),
        ('upgrades = ["sideways"]', "upgrades has 'sideways'"),
        ('guarantees = ["at-most-once"]', "Invalid enum value 'at-most-once'"),
        ("topology = []", "Object contains unknown field `topology`"),
        ("[settings]\nidle_ms = [1]", "[settings] has no 'idle_ms'; it has: "),
        ("[settings]\nexactly_once = [true]", "[settings] has no 'exactly_once'"),
        ("[settings]\nmax_poll_records = [0]", "[settings] max_poll_records: "),
        ("[settings]\nmax_poll_records = []", "max_poll_records is a list of what it may be"),
        ('[workload]\nrecords = ["7"]', "each a int: '7' is none"),
        ("[workload]\nkeys = [0]", "[workload] keys: "),
        ("[plan]\ninstances = [0]", "[plan] instances: 0 is too few"),
        ('[plan]\ntopology = ["count"]', "[plan] has no 'topology'"),
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
    with pytest.raises(UsageError, match=r"nowhere\.toml: it cannot be read: No such file"):
        read_swarm(tmp_path / "nowhere.toml")


def test_a_defect_that_does_no_harm_is_refused() -> None:
    """Whoever asks for it would search in vain."""
    with pytest.raises(UsageError, match="does no harm under at-least-once: add 'exactly-once'"):
        drawn_from(Swarm(guarantees=["at-least-once"]), "keeps-stale-offset")
    with pytest.raises(UsageError, match="without the upgrade 'format-offline'"):
        drawn_from(Swarm(upgrades=[""]), "takes-offsets-of-older-format")
