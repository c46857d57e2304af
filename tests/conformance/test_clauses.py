"""Every clause of the five proposals is stated by requirements, or says what is lacking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from streamproof.conformance.catalogue import Requirement, load_catalogue
from streamproof.conformance.clauses import PROPOSALS, Clause, Proposal, load_proposal
from streamproof.conformance.clauses.page import proposals_text
from streamproof.conformance.results import Spec
from streamproof.errors import UsageError

CATALOGUE = load_catalogue()
CLAUSES = {each.id: each for name in PROPOSALS for each in load_proposal(name).clauses}


def mistakes(clause: Clause, catalogue: Mapping[str, Requirement]) -> list[str]:
    """What is wrong with a clause, given all requirements."""
    unknown = [each for each in clause.requirements if each not in catalogue]
    if unknown:
        return [f"names {unknown}, which do not exist"]
    named = [catalogue[each] for each in clause.requirements]
    return [*misplaced(clause, named), *contradictions(clause, named)]


def misplaced(clause: Clause, named: list[Requirement]) -> Iterator[str]:
    """The requirements that cannot state the clause."""
    for each in named:
        if not set(each.specs) & set(clause.specs):
            yield f"{each.id} holds under no specification of the clause"
        if clause.binds not in ("both", each.binds):
            yield f"{each.id} binds the {each.binds}"


def contradictions(clause: Clause, named: list[Requirement]) -> Iterator[str]:
    """What the state of the clause says, and its requirements or its reason do not bear out."""
    tested = [each for each in named if each.checks]
    if bool(clause.lacks) == (clause.state == "whole"):
        yield "gives a reason if and only if the clause is not whole"
    if clause.state == "partly" and not named:
        yield "is partly covered by no requirement"
    if clause.state == "missing" and tested:
        yield "is missing although a tested requirement states it"
    for spec in clause.specs if clause.state == "whole" else []:
        if not any(spec in each.specs for each in tested):
            yield f"no tested requirement holds under {spec}"


def unnamed(name: str, proposal: Proposal, catalogue: Mapping[str, Requirement]) -> list[str]:
    """The requirements whose source names the proposal, and that it does not list."""
    named = {each for clause in proposal.clauses for each in clause.requirements}
    source = re.compile(rf"{name}\b")
    return [
        each.id
        for each in catalogue.values()
        if source.search(each.source) and each.id not in named | proposal.outside.keys()
    ]


@pytest.mark.parametrize("clause", CLAUSES.values(), ids=list(CLAUSES))
def test_a_clause_has_requirements_or_a_reason(clause: Clause) -> None:
    assert mistakes(clause, CATALOGUE) == []


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"requirements": []}, "no tested requirement holds under kips"),
        ({"requirements": ["KV-999"]}, "names ['KV-999'], which do not exist"),
        ({"requirements": ["CRASH-015"]}, "no tested requirement holds under kips"),
        ({"requirements": ["OFFSET-005"]}, "OFFSET-005 holds under no specification of the clause"),
        ({"requirements": ["EOS-001"]}, "EOS-001 binds the runtime"),
        ({"state": "partly"}, "gives a reason if and only if the clause is not whole"),
        ({"state": "missing", "lacks": "All."}, "is missing although a tested requirement"),
    ],
)
def test_a_planted_mistake_is_found(changes: dict[str, object], mistake: str) -> None:
    clause = Clause(
        id="KIP-892/999",
        section="Public Interfaces",
        text="A clause.",
        binds="store",
        requirements=["KV-001"],
        specs=["kips"],
        state="whole",
    )
    assert mistakes(clause, CATALOGUE) == []
    found = "; ".join(mistakes(msgspec.structs.replace(clause, **changes), CATALOGUE))
    assert mistake in found


@pytest.mark.parametrize("name", PROPOSALS)
def test_every_requirement_from_a_proposal_is_listed_there(name: str) -> None:
    proposal = load_proposal(name)
    assert unnamed(name, proposal, CATALOGUE) == []
    without = Proposal(proposal.title, proposal.clauses[1:], {})
    assert unnamed(name, without, CATALOGUE)


@pytest.mark.parametrize("name", PROPOSALS)
def test_requirements_outside_a_proposal_are_no_others(name: str) -> None:
    """A requirement that states a clause, or has another source, is not listed as outside."""
    proposal = load_proposal(name)
    named = {each for clause in proposal.clauses for each in clause.requirements}
    for each, reason in proposal.outside.items():
        assert re.search(rf"{name}\b", CATALOGUE[each].source), each
        assert each not in named
        assert reason.endswith(".")


@pytest.mark.parametrize("name", PROPOSALS)
def test_ids_are_dense(name: str) -> None:
    clauses = load_proposal(name).clauses
    assert [each.id for each in clauses] == [f"{name}/{n + 1}" for n in range(len(clauses))]


def test_no_two_clauses_of_a_proposal_say_the_same() -> None:
    for name in PROPOSALS:
        texts = [each.text for each in load_proposal(name).clauses]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("clause", CLAUSES.values(), ids=list(CLAUSES))
def test_every_field_is_filled_in(clause: Clause) -> None:
    """A clause under kips alone says what was shipped, and no other clause does."""
    assert clause.section
    assert clause.text.endswith(".")
    assert clause.lacks.endswith(".") or not clause.lacks
    assert clause.shipped.endswith(".") or not clause.shipped
    assert len(set(clause.requirements)) == len(clause.requirements)
    assert [each for each in get_args(Spec) if each in clause.specs] == clause.specs
    assert clause.specs[0] == "kips"
    assert bool(clause.shipped) == (clause.specs == ["kips"])


def test_an_unknown_proposal_is_refused_with_the_names_of_the_five() -> None:
    with pytest.raises(UsageError, match="KIP-892, KIP-1035, KIP-695, KIP-869 or KIP-258"):
        load_proposal("KIP-98")


def test_the_page_on_the_proposals_is_made_from_the_clauses() -> None:
    page = Path(__file__).parents[2] / "docs" / "proposals.md"
    assert page.read_text("utf-8") == proposals_text()
