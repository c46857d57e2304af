"""The right stores beside the mutants keep the promises that the mutants break.

What test_checks.py asks of a right store is not asked again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs
from test_checks import CASES
from test_mutants import SETTINGS

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.results import Guarantee, Spec
from streamproof.conformance.subject import load_subject
from streamproof.conformance.verdicts import untested_result
from streamproof.conformance.verify_session import Observer, Session, select_requirements
from streamproof.conformance.work_directory import work_directory

MOST = 12
"""The most requirements of one test: their checks must end within the limit of a test."""

TRIED = {(subject, check, settings.spec, settings.guarantee) for subject, check, settings in CASES}
"""What test_checks.py tries."""

Asked = tuple[str, Spec, Guarantee]
"""A right store, and the settings of the mutants that are made from it."""


def asked() -> dict[Asked, list[str]]:
    """The requirements that each right store has to keep, but those that were tried."""
    found: dict[Asked, set[str]] = {}
    for mutant in MUTANTS:
        spec, guarantee = mutant.spec, mutant.guarantee
        checks = load_catalogue()[mutant.requirement].checks
        for name in mutant.right:
            if any((name, each, spec, guarantee) not in TRIED for each in checks):
                found.setdefault((name, spec, guarantee), set()).add(mutant.requirement)
    return {each: sorted(requirements) for each, requirements in found.items()}


def cases() -> Iterator[object]:
    for (subject, spec, guarantee), requirements in asked().items():
        for start in range(0, len(requirements), MOST):
            some = requirements[start : start + MOST]
            name = f"{subject}-{spec}-{guarantee}-{some[0]}"
            yield pytest.param(subject, spec, guarantee, some, id=name)


@pytest.mark.parametrize(("subject", "spec", "guarantee", "requirements"), list(cases()))
def test_a_right_store_keeps_what_its_mutants_break(
    subject: str, spec: Spec, guarantee: Guarantee, requirements: list[str]
) -> None:
    settings = structs.replace(SETTINGS, spec=spec, guarantee=guarantee)
    with work_directory() as directory, Engine(settings, directory, jobs=2) as engine:
        infos = engine.load([subject])
        session = Session(infos, settings, select_requirements(requirements))
        session.run(engine, Observer())
    found = {each.requirement: each.status for each in session.results[subject]}

    assert found.keys() >= set(requirements)
    assert {found[each] for each in requirements} <= {"pass", "unsupported"}, found


@pytest.mark.parametrize("mutant", MUTANTS, ids=[each.name for each in MUTANTS])
def test_a_mutant_has_a_right_counterpart(mutant: Mutant) -> None:
    """Its requirement binds at least one of the stores from which it is made."""
    requirement = load_catalogue()[mutant.requirement]
    bound = [
        name
        for name in mutant.right
        if untested_result(
            name,
            requirement,
            load_subject(name).capabilities,
            mutant.guarantee,
            mutant.spec,
        )
        is None
    ]

    assert bound
