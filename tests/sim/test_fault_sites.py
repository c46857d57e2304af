"""Faults are on in some runs and fire in some places; marks tell what was never seen."""

from __future__ import annotations

import pytest

from streamproof.errors import UsageError
from streamproof.sim.choices import Choices
from streamproof.sim.coverage_marks import Marks
from streamproof.sim.fault_sites import ACTIVATION, Faults

SITES = {"reply lost": 0.5, "disk full": 0.1, "always": 1.0}


def test_a_site_is_on_in_some_runs() -> None:
    """About a quarter of 400 runs each, and not always together."""
    runs = [frozenset(Faults(Choices.seeded(seed), SITES).on) for seed in range(400)]
    for site in SITES:
        assert abs(sum(site in on for on in runs) / 400 - ACTIVATION) < 0.08
    assert len(set(runs)) == 2 ** len(SITES)


def test_a_site_that_is_on_fires_as_often_as_it_says() -> None:
    """And it is counted."""
    faults = Faults(Choices.seeded(1), SITES, activation=1)
    happened = {site: sum(faults.happens(site) for _ in range(1000)) for site in SITES}
    assert happened["always"] == 1000
    assert 430 < happened["reply lost"] < 570
    assert 60 < happened["disk full"] < 140
    assert faults.fired == happened


def test_a_site_that_is_off_is_no_choice() -> None:
    """It never fires, and asking changes nothing about the rest of the run."""
    choices = Choices.seeded(1)
    faults = Faults(choices, SITES, activation=0)
    assert not any(faults.happens(site) for site in SITES for _ in range(100))
    assert choices.count == 0


def test_the_order_of_the_sites_does_not_matter() -> None:
    """They are switched on by name."""
    backwards = dict(reversed(SITES.items()))
    for seed in range(50):
        one, two = (Faults(Choices.seeded(seed), sites) for sites in (SITES, backwards))
        assert one.on == two.on


def test_faults_stop() -> None:
    """From then on nothing happens any more."""
    faults = Faults(Choices.seeded(1), SITES, activation=1)
    faults.stop()
    assert not any(faults.happens(site) for site in SITES)
    assert faults.on == []


def test_an_unknown_site() -> None:
    """A spelling mistake is told, with what there is."""
    with pytest.raises(UsageError, match=r"no fault site 'disc full'.*always, disk full"):
        Faults(Choices.seeded(1), SITES).happens("disc full")


def test_marks_tell_what_was_never_seen() -> None:
    """Over all runs that were added up."""
    ledger = Marks(["fenced", "idled", "wiped"])
    for holds in (False, True):
        run = Marks(["fenced", "idled", "wiped"])
        run.sometimes("idled", holds=holds)
        run.sometimes("wiped")
        ledger.add(run.hits)
    assert ledger.hits == {"fenced": 0, "idled": 1, "wiped": 2}
    assert ledger.never == ["fenced"]


def test_an_unknown_mark() -> None:
    """A spelling mistake is told, or it would never be hit."""
    with pytest.raises(UsageError, match="no mark 'ideled'"):
        Marks(["idled"]).sometimes("ideled")
