"""The checks of how the runtime handles stores find each runtime that does so wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
from broken_runtimes import WRONG_HANDLING, WRONGLY_KEPT, Break

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.runtime_checks.world_programs import Seeded
from streamproof.conformance.settings import LIMITS, Settings
from streamproof.conformance.subject import load_subject
from streamproof.sim.plan_space import PlanSpace

pytestmark = pytest.mark.usefixtures("programs_not_run")

CHECKS = load_checks("runtime")


@pytest.mark.parametrize(("requirement", "check", "change"), WRONG_HANDLING)
def test_a_wrong_runtime_is_found(
    requirement: str, check: str, change: Break, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the requirement that it breaks, under the first specification that has it."""
    change(monkeypatch)
    status = RunningCall(tmp_path / "status", create=True)
    asked = Settings(profile="quick", seed=1, spec=load_catalogue()[requirement].specs[0])
    found = run_check(CheckRun(CHECKS[check], load_subject("runtime"), asked, tmp_path, status))
    assert (found.suite_error, found.skipped) == ("", "")
    assert {each.requirement for each in found.findings} == {requirement}


@pytest.mark.parametrize(("requirement", "change"), WRONGLY_KEPT)
def test_the_swarm_finds_wrong_runtimes(
    requirement: str, change: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the worlds of the profile quick, under exactly-once and as proposed."""
    change(monkeypatch)
    space = PlanSpace(guarantees=["exactly-once"], settings={"store_rules": ["proposal"]})
    worlds = range(LIMITS["quick"].worlds)
    assert any(Seeded(seed, space).breaks({requirement}) for seed in worlds)
