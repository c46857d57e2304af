"""The catalogue and the checks are two sides of one list: neither may name what the other lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial

import msgspec
import pytest

from streamproof.conformance.catalogue import (
    AREAS,
    Requirement,
    load_catalogue,
    requirements_that_bind,
)
from streamproof.conformance.check_loader import checks_of, load_checks
from streamproof.conformance.check_registry import Check
from streamproof.stores.capabilities import Capabilities, Kind

CATALOGUE = load_catalogue()
CHECKS = load_checks() | load_checks("runtime") | load_checks("application")

STORES = [each.id for each in requirements_that_bind("store")]
RUNTIME = [each.id for each in requirements_that_bind("runtime")]

DERIVED = {
    "key_value",
    "window",
    "session",
    "rows",
    "several_keys",
    "snapshot_iterators",
    "answers_queries",
    "isolated_reads",
    "power_durability",
    "flush_durability",
    "late_durability",
}
"""Needs that follow from capabilities; see `has_capability`."""


def mismatches(catalogue: Mapping[str, Requirement], checks: Mapping[str, Check]) -> list[str]:
    """Everything in which the catalogue and the decorators of the checks differ."""
    return wrong_entries(catalogue, checks) + wrong_checks(catalogue, checks)


def wrong_entries(catalogue: Mapping[str, Requirement], checks: Mapping[str, Check]) -> list[str]:
    """Entries that name what is not there, or contradict themselves."""
    found = []
    for requirement in catalogue.values():
        for name in requirement.checks:
            if name not in checks:
                found.append(f"{requirement.id} lists {name}, which does not exist")
            elif requirement.id not in checks[name].requirements:
                found.append(f"{requirement.id} lists {name}, which does not name it")
        if bool(requirement.checks) == bool(requirement.untested):
            found.append(f"{requirement.id} needs checks or a reason why there are none")
    return found


def wrong_checks(catalogue: Mapping[str, Requirement], checks: Mapping[str, Check]) -> list[str]:
    """Checks that name what is not there, or nothing."""
    found = []
    for check in checks.values():
        for identifier in check.requirements:
            if identifier not in catalogue:
                found.append(f"{check.name} tests {identifier}, which does not exist")
            elif check.name not in catalogue[identifier].checks:
                found.append(f"{check.name} tests {identifier}, which does not list it")
        if not check.requirements:
            found.append(f"{check.name} tests nothing")
    return found


def test_the_two_sides_match() -> None:
    """Each check that is listed exists and agrees, and the other way round."""
    assert mismatches(CATALOGUE, CHECKS) == []


def planted(**changes: object) -> dict[str, Requirement]:
    """The catalogue with one entry changed."""
    entry = msgspec.structs.replace(CATALOGUE["KV-005"], **changes)
    return {**CATALOGUE, entry.id: entry}


def test_a_planted_entry_is_found() -> None:
    """The comparison can fail: an entry nobody tests, a check that is not there."""
    stranger = planted(id="KV-999")
    unnamed = "KV-999 lists kv.delete_removes, which does not name it"
    assert mismatches(stranger, CHECKS) == [unnamed]
    absent = planted(id="KV-999", checks=["kv.no_such_check"])
    assert mismatches(absent, CHECKS) == ["KV-999 lists kv.no_such_check, which does not exist"]
    unlisted = planted(checks=[], untested="a reason")
    assert mismatches(unlisted, CHECKS) == [
        "kv.delete_removes tests KV-005, which does not list it",
    ]


@pytest.mark.parametrize(
    "changes", [{"untested": "and yet it has checks"}, {"id": "KV-999", "checks": []}]
)
def test_a_planted_contradiction_is_found(changes: dict[str, object]) -> None:
    """Checks and a reason why there are none, or neither, is a contradiction."""
    (text,) = mismatches(planted(**changes), CHECKS)
    assert text.endswith("needs checks or a reason why there are none")


def test_a_planted_check_is_found() -> None:
    """The comparison can fail from the other side, too."""
    real = CHECKS["kv.put_then_get"]
    stray = Check("kv.stray", ("KV-999", "KV-005"), real.function, None, raw=False, weight=1)
    idle = Check("kv.idle", (), real.function, None, raw=False, weight=1)
    assert mismatches(CATALOGUE, {**CHECKS, "kv.stray": stray, "kv.idle": idle}) == [
        "kv.stray tests KV-999, which does not exist",
        "kv.stray tests KV-005, which does not list it",
        "kv.idle tests nothing",
    ]


def test_at_least_sixty_requirements_have_checks() -> None:
    """The breadth that the release promises."""
    assert sum(bool(each.checks) for each in CATALOGUE.values()) >= 60


def test_ids_are_well_formed_and_in_order() -> None:
    """Areas come in the order of AREAS, and numbers ascend.

    What binds the runtime in an area of the stores begins with 101, but for the id LIFE-012, which
    is older than this rule.
    """
    ids = list(CATALOGUE)
    assert all(re.fullmatch(r"[A-Z]+-\d{3}", identifier) for identifier in ids)
    assert list(dict.fromkeys(each.area for each in CATALOGUE.values())) == list(AREAS)
    for area in AREAS:
        of_stores = [each for each in STORES if each.startswith(f"{area}-")]
        of_runtime = [each for each in RUNTIME if each.startswith(f"{area}-")]
        assert of_stores == sorted(set(of_stores))
        assert all(each < f"{area}-101" for each in of_stores)
        assert of_runtime == sorted(set(of_runtime))
        first = f"{area}-{101 if of_stores else 1:03}"
        assert all(each >= first or each == "LIFE-012" for each in of_runtime)


def test_a_requirement_is_tested_by_checks_of_its_kind() -> None:
    """A store is never put to a check of the runtime, nor the other way round."""
    for binds in ("store", "runtime"):
        names = {name for each in requirements_that_bind(binds) for name in each.checks}
        assert names == load_checks(binds).keys()


def test_a_requirement_that_applies_has_a_check_to_try() -> None:
    """A check that is not for a store leaves the verdict on it to the other checks."""
    for requirement in requirements_that_bind("store"):
        others = [name for name in requirement.checks if not CHECKS[name].needs]
        assert others or not requirement.checks, requirement.id


@pytest.mark.parametrize(
    ("kind", "tries"), [("key-value", False), ("window", True), ("session", True)]
)
def test_a_check_is_asked_of_the_stores_that_it_is_for(kind: Kind, tries: bool) -> None:
    """Nothing expires in a key-value store; a skipped check would say that something is open."""
    names = checks_of(CATALOGUE["CRASH-001"], "rocksdb", Capabilities(kind=kind))
    assert ("expiry.while_windows_expire" in names) is tries
    assert "crash.between_operations" in names


def test_the_runtime_has_no_capabilities() -> None:
    """What binds it holds in every run of its guarantee and specification."""
    assert [each for each in RUNTIME if CATALOGUE[each].needs] == []


def test_no_two_requirements_say_the_same() -> None:
    """Titles and promises tell requirements apart."""
    for field in ("title", "promise"):
        texts = [getattr(each, field) for each in CATALOGUE.values()]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("requirement", CATALOGUE.values(), ids=list(CATALOGUE))
def test_every_field_is_filled_in(requirement: Requirement) -> None:
    """No entry is a stub, and what it needs is something that a store can declare."""
    for text in (requirement.title, requirement.promise, requirement.source):
        assert text.strip() == text
        assert len(text) >= 5
    assert requirement.promise.endswith(".")
    assert not requirement.title.endswith(".")
    assert requirement.guarantees
    assert requirement.specs
    assert len(set(requirement.checks)) == len(requirement.checks)
    known = {each.name for each in fields(Capabilities)} | DERIVED
    assert {need.removeprefix("!") for need in requirement.needs} <= known


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
def test_every_check_says_what_it_tries(check: Check) -> None:
    """Reports quote the first line of the docstring."""
    assert check.tried != check.name
    assert check.tried.endswith(".")
    assert len(set(check.requirements)) == len(check.requirements)


def wrong_hints(catalogue: Mapping[str, Requirement]) -> list[str]:
    """Requirements without a hint, and hints that say too little or that another one says."""
    found = []
    said: dict[tuple[str, str, str], str] = {}
    for each in catalogue.values():
        for name in ("usual_cause", "usual_cure"):
            text = getattr(each, name)
            if not 12 < len(text) < 230 or not text.endswith("."):
                found.append(f"{each.id} needs a {name} of one or two sentences")
            elif text in (each.promise, each.title):
                found.append(f"{each.id} repeats itself in {name}")
        key = (each.area, each.usual_cause, each.usual_cure)
        if said.setdefault(key, each.id) != each.id:
            found.append(f"{each.id} says the same as {said[key]}")
    return found


def test_every_requirement_says_how_it_is_broken_and_mended() -> None:
    """Whoever reads a failure reads a hint that fits it."""
    assert wrong_hints(CATALOGUE) == []
    assert wrong_hints(planted(usual_cause="")) == [
        "KV-005 needs a usual_cause of one or two sentences"
    ]
    other = CATALOGUE["KV-002"]
    twin = planted(usual_cause=other.usual_cause, usual_cure=other.usual_cure)
    assert wrong_hints(twin) == ["KV-005 says the same as KV-002"]


def test_what_a_requirement_implies_exists_and_binds_as_much() -> None:
    """No requirement implies itself, and whoever is asked the one may be asked the other."""
    for each in CATALOGUE.values():
        for name in each.implies:
            other = CATALOGUE[name]
            assert name != each.id
            assert other.binds == each.binds
            assert each.id not in other.implies


def test_a_claim_of_transactions_binds_under_every_specification() -> None:
    """Kafka 4.3 has no such stores, but who claims to have one is held to the claim."""
    claims = {"transactional", "isolated_reads"}
    bound = [each for each in load_catalogue().values() if claims & {*each.needs}]
    limited = {each.id for each in bound if each.specs == ["kips", "kafka-4.4"]}

    assert not limited
    assert "CRASH-003" in {each.id for each in bound}


def test_a_store_that_no_query_can_read_is_not_asked_what_queries_see() -> None:
    """It stages its writes, and has no view beneath them."""
    for name in ("QUERY-002", "QUERY-003", "QUERY-004"):
        ask = partial(CATALOGUE[name].why_not_applicable, guarantee="at-least-once", spec="kips")
        claims = Capabilities(transactional=True, position=True)
        assert ask(claims) == "the subject does not claim read_only_views"
        assert ask(replace(claims, read_only_views=True)) == ""
        assert ask(replace(claims, transactional=False)) == ""
