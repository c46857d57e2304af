"""Plans of campaigns: what they mean, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.reports.pipeline.campaigns import units
from streamproof.reports.pipeline.campaigns.campaign_plan import RowSeries, read_plan
from streamproof.reports.pipeline.campaigns.units import IDENTITY, frame, row_id, swarm_text
from streamproof.scenarios.scenario_reader import library
from streamproof.scenarios.swarm_file import read_swarm
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text, "utf-8")
    return path


WRONG = [
    ("", "the plan is empty. Add a"),
    ("a = = 1", "this is not TOML"),
    ("simulation = 1", "`simulation` is no key of a plan; did you mean simulate?"),
    ("[[simulate]]", "`simulate[0]` is wrong: object missing required field `seeds`"),
    ("[[simulate]]\nseeds = [0, 1]\ndefect = 1", "`simulate[0].defect` is no key of a plan"),
    (
        "[[simulate]]\nseeds = [3, 3]",
        "`simulate[0]`: `seeds` is [from, to], and [3, 3] contains no seed",
    ),
    ("[[simulate]]\nseeds = [-1, 3]", "`simulate[0].seeds[0]` is wrong: expected `int` >= 0"),
    (f"[[simulate]]\nseeds = [0, {2**63}]", "`simulate[0].seeds[1]` is wrong: expected `int` <="),
    (
        "[[simulate]]\nseeds = [0, 1]\ntopologies = ['x']",
        "`simulate[0]`: topologies has the unknown name 'x'",
    ),
    ("[[simulate]]\nseeds = [0, 1]\ndefects = ['x']", "`simulate[0]`: There is no defect 'x'"),
    ("[[simulate]]\nseeds = [0, 1]\nsubjects = ['runtime']", "subjects are stores"),
    ("[[simulate]]\nseeds = [0, 1]\nlimit_s = 0", "`simulate[0].limit_s` is wrong"),
    ("[[simulate]]\nseeds = [0, 1]\nlimit_s = inf", "`simulate[0].limit_s` is wrong"),
    ("[simulate]\nseeds = [0, 1]", "write [[simulate]]"),
    ("[[scenarios]]\nnames = ['x']", "`scenarios[0]`: There is no scenario 'x'"),
    ("[[scenarios]]\nvariants = ['x']", "`scenarios[0]`: no scenario has the variant 'x'"),
    ("[[verify]]\nsubjects = []", "`verify[0].subjects` is wrong"),
    ("[[verify]]\nsubjects = ['x']", "`verify[0]`: There is no subject 'x'."),
    ("[[verify]]\nsubjects = ['in-memory']\nonly = ['X']", "There is no requirement or area 'X'"),
    (
        """
        [[simulate]]
        seeds = [0, 1]
        guarantees = ["at-least-once"]
        defects = ["restores-to-stable-end"]
        """,
        "The defect 'restores-to-stable-end' does no harm under at-least-once",
    ),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_a_wrong_plan_is_refused_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    path = plan_of(tmp_path, text)
    with pytest.raises(UsageError) as error:
        read_plan(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the plan cannot be read: No such file"):
        read_plan(tmp_path / "plan.toml")


def test_what_a_plan_means(tmp_path: Path) -> None:
    """Each combination is a series; only the seeds are not written out."""
    plan = read_plan(
        plan_of(
            tmp_path,
            """
            [[simulate]]
            seeds = [0, 20]
            defects = ["", "ignores-lag"]
            [[verify]]
            subjects = ["in-memory", "rocksdb"]
            guarantees = ["exactly-once", "at-least-once"]
            profiles = ["smoke"]
            seeds = [3, 5]
            """,
        )
    )
    assert plan.rows == 2 * 20 + 2 * 2 * 2
    assert [each.defect for each in plan.series[:2]] == ["", "ignores-lag"]
    assert {(each.subject, each.guarantee) for each in plan.series if each.kind == "verify"} == {
        (subject, guarantee)
        for subject in ("in-memory", "rocksdb")
        for guarantee in ("exactly-once", "at-least-once")
    }
    assert {(each.first, each.end) for each in plan.series} == {(0, 20), (3, 5)}
    assert [each.is_isolated for each in plan.series] == [False] * 2 + [True] * 4


def test_all_scenarios_and_those_that_need_model_stores(tmp_path: Path) -> None:
    """What cannot be played with a real store is left out, and told."""
    text = "[[scenarios]]\nsubjects = ['', 'rocksdb']"
    plan = read_plan(plan_of(tmp_path, text))
    played = {each.scenario for each in plan.series if not each.subject}
    assert {each.partition("@")[0] for each in played} == set(library())
    real = {each.scenario for each in plan.series if each.subject}
    assert real < played
    left_out = {each.partition(" with rocksdb: ")[0] for each in plan.left_out}
    assert left_out == played - real


def test_rows_that_two_blocks_ask_for_are_rows_once(tmp_path: Path) -> None:
    blocks = [(0, 10), (5, 15), (15, 20), (40, 41)]
    text = "\n".join(f"[[simulate]]\nseeds = [{first}, {end}]" for first, end in blocks)
    plan = read_plan(plan_of(tmp_path, text))
    assert [(each.first, each.end) for each in plan.series] == [(0, 20), (40, 41)]
    assert plan.rows == 21


def test_the_digest_is_that_of_the_rows(tmp_path: Path) -> None:
    """It does not matter how they are written, and every difference does."""
    one = read_plan(plan_of(tmp_path, "[[simulate]]\nseeds = [0, 9]"))
    same = read_plan(
        plan_of(tmp_path, "[[simulate]]\nseeds = [0, 5]\n[[simulate]]\nseeds = [5, 9]")
    )
    other = read_plan(plan_of(tmp_path, "[[simulate]]\nseeds = [0, 8]"))
    strict = read_plan(
        plan_of(tmp_path, "[[simulate]]\nseeds = [0, 9]\nguarantees = ['exactly-once']")
    )
    assert one.digest == same.digest
    assert len({one.digest, other.digest, strict.digest}) == 3


@given(
    st.builds(
        PlanSpace,
        topologies=st.lists(st.sampled_from(sorted(TOPOLOGIES)), unique=True),
        guarantees=st.lists(st.sampled_from(["exactly-once", "at-least-once"]), unique=True),
        upgrades=st.just(["", "format-file-to-store"][:1]),
        plan=st.dictionaries(st.just("instances"), st.lists(st.integers(1, 4), min_size=1)),
        settings=st.dictionaries(
            st.just("transactional"), st.lists(st.booleans(), min_size=1, max_size=2)
        ),
    )
)
def test_what_is_drawn_from_is_a_file_for_explore(
    tmp_path_factory: pytest.TempPathFactory, swarm: PlanSpace
) -> None:
    """The command that shows a world again so draws it from the same."""
    path = tmp_path_factory.mktemp("swarm") / "swarm.toml"
    path.write_text(swarm_text(swarm), "utf-8")
    assert read_swarm(path) == swarm


def test_rows_and_their_ids(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short series and a long one, which is not spread out from one row, have the same rows."""
    series = [
        RowSeries("simulate", "", "", "ignores-lag", "", '{"limit_s":1.0}', 3, 8),
        RowSeries("scenario", "rocksdb", "KAFKA-7192@fixed", "", "", "{}", -1, 0),
    ]
    short = {tuple(row) for row in frame(spark, series).collect()}
    monkeypatch.setattr(units, "LONG", 2)
    table = frame(spark, series)
    assert {tuple(row) for row in table.collect()} == short
    assert table.columns == ["row", *IDENTITY]
    assert {row[-1] for row in short} == {3, 4, 5, 6, 7, -1}
    assert len(short) == 6
    for row, *values in short:
        assert row == row_id(*values)
