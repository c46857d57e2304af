"""The contract that authors read names everything that a MUST asks of a store."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple
from itertools import product

import pytest
from command_lines import SUBJECTS

from streamproof.conformance.catalogue import Requirement, requirements_that_bind
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_registry import Check
from streamproof.conformance.results import Guarantee, Spec
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.capabilities import Capabilities

PAGE = SUBJECTS.parent.parent / "docs" / "subjects.md"
RECORDED = SUBJECTS / "recorded_stores.py"

RUNS: list[tuple[Guarantee, Spec]] = [
    ("exactly-once", "kips"),
    ("at-least-once", "kips"),
    ("exactly-once", "kafka-4.4"),
    ("exactly-once", "kafka-4.3"),
]

ELSEWHERE = {"quixstreams", "faust-streaming"}
"""Stores of other packages, whose findings are theirs."""

OF_THE_SUITE = {"changelog_key"}
"""What checks look for on the suite's own view of windows and sessions as a key-value store."""

MUSTS = [each for each in requirements_that_bind("store") if each.level == "MUST" and each.checks]

NAMES = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b|\b[A-Z]\w*(?:Error|Exception|Iteration)\b|\b\w+(?=\()")
"""Names of methods, attributes and errors in the text of a promise."""


def named_in(page: str) -> set[str]:
    """All words in the code spans of a page."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    return {word for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", span)}


def unnamed(promises: list[Requirement], page: str) -> dict[str, list[str]]:
    """The names in promises that the page does not have, each with its requirements."""
    found = defaultdict(list)
    for requirement in promises:
        for name in set(NAMES.findall(requirement.promise)) - named_in(page):
            found[name].append(requirement.id)
    return dict(found)


def test_the_page_has_the_names_in_all_promises() -> None:
    """Methods, attributes and errors of every MUST that binds stores."""
    assert unnamed(MUSTS, PAGE.read_text(encoding="utf-8")) == {}


def test_a_promise_about_an_unknown_method_is_found() -> None:
    """The comparison can fail."""
    page = PAGE.read_text(encoding="utf-8").replace("peek_next_key", "…")

    assert unnamed(MUSTS, page) == {"peek_next_key": ["WIN-038", "SESS-030"]}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What checks of every MUST ask of right stores, and one check that asks for it.

    Campaigns of kills, losses of power and worlds are left out. Their programs are those of a
    key-value store, which other checks run as well.
    """
    record = tmp_path_factory.mktemp("asked") / "record"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMPROOF_TEST_RECORD", str(record))
        for settings, plan in plans():
            with work_directory() as directory, Engine(settings, directory, jobs=2) as engine:
                engine.load(dict.fromkeys(subject for subject, _ in plan))
                engine.run(plan, lambda *_: None)
    lines = record.read_text(encoding="utf-8").splitlines()
    return {name: check for name, check in (line.split(" ") for line in lines) if check}


def plans() -> Iterator[tuple[Settings, list[tuple[str, Check]]]]:
    """The checks to run: each MUST once with every kind of store that it is about."""
    tried: set[tuple[str, str, str]] = set()
    checks = [check for check in load_checks().values() if not check.raw]
    for guarantee, spec in RUNS:
        plan: list[tuple[str, Check]] = []
        for (name, capabilities), check in product(stores(), checks):
            reasons = {
                (each.id, check.name, capabilities.kind)
                for each in MUSTS
                if each.id in check.requirements
                and not each.why_not_applicable(capabilities, guarantee, spec)
            }
            if reasons - tried:
                tried |= reasons
                plan.append((f"{RECORDED}:{name.replace('-', '_')}", check))
        yield Settings(profile="smoke", seed=0, guarantee=guarantee, spec=spec), plan


def stores() -> list[tuple[str, Capabilities]]:
    """The built-in stores, those with the most capabilities first."""
    of = {name: load_subject(name).capabilities for name in BUILTIN if name not in ELSEWHERE}
    return sorted(of.items(), key=lambda each: -sum(map(bool, astuple(each[1]))))


def test_the_page_has_all_that_checks_ask_for(asked: dict[str, str]) -> None:
    """Methods and attributes of stores, transactions, views and iterators."""
    named = named_in(PAGE.read_text(encoding="utf-8")) | OF_THE_SUITE

    assert {name: check for name, check in asked.items() if name not in named} == {}


def test_the_record_has_what_checks_ask_for(asked: dict[str, str]) -> None:
    """The comparison can fail: methods of every kind, and of iterators, are in the record."""
    assert {"put_if_absent", "fetch_range", "find_sessions", "peek_next_key"} <= asked.keys()
