"""The library: every scenario shows what it says, with model stores and with real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamproof.scenarios.play import play
from streamproof.scenarios.real_stores import needs_model_stores, rocksdb_disks
from streamproof.scenarios.scenario_reader import library, read
from streamproof.sim.defects import DEFECTS

SCENARIOS = {name: read(path) for name, path in library().items()}
VARIANTS = [(name, variant) for name, each in SCENARIOS.items() for variant in each.setups]

TICKET = re.compile(r"KAFKA-\d+")


@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=map("@".join, VARIANTS))
def test_a_variant_comes_as_it_says(name: str, variant: str, tmp_path: Path) -> None:
    """With RocksDB what it is with the model store, event by event."""
    scenario = SCENARIOS[name]
    setup = scenario.setups[variant]
    first = play(scenario, setup)
    assert first.surprises == []
    if not needs_model_stores(scenario, setup):
        real = play(scenario, setup, make_disk=rocksdb_disks(tmp_path / "disks", setup.plan))
        assert real.surprises == []
        assert len(real.played.events) == len(first.played.events)


@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=map("@".join, VARIANTS))
def test_a_variant_is_the_same_twice(name: str, variant: str) -> None:
    scenario = SCENARIOS[name]
    setup = scenario.setups[variant]
    assert play(scenario, setup).played.digest == play(scenario, setup).played.digest


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_tells_its_story(name: str) -> None:
    """A line, three sentences, where it comes from, and what makes the difference."""
    file = SCENARIOS[name].file
    assert 0 < len(file.title) <= 100
    sentences = re.findall(r"[.?!](?=\s|$)", " ".join(file.story.split()))
    assert len(sentences) == 3
    assert TICKET.match(name) is None or name.startswith(tuple(file.sources))
    assert all(each.variant.why for each in SCENARIOS[name].setups.values())


def test_both_sides_are_shown() -> None:
    """What breaks with a mistake holds without it; and each mistake that there is has one."""
    shown = set()
    for scenario in SCENARIOS.values():
        broken = [each for each in scenario.setups.values() if each.variant.breaks]
        kept = [each for each in scenario.setups.values() if not each.variant.breaks]
        assert kept, scenario.name
        shown |= {name for each in broken for name in each.variant.defects}
    assert shown == DEFECTS.keys()


def test_the_library_is_large() -> None:
    """At least 40 scenarios, and at least 25 tickets by their ids."""
    tickets = {
        each for one in SCENARIOS.values() for each in one.file.sources if TICKET.match(each)
    }
    assert len(SCENARIOS) >= 40
    assert len(tickets) >= 25
