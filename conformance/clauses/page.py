"""The page on the five proposals, made from the clauses."""

from __future__ import annotations

from typing import get_args

from streamproof.conformance.clauses import PROPOSALS, STATES, Clause, load_proposal
from streamproof.conformance.results import Spec

__all__ = ["proposals_text"]

_INTRODUCTION = """\
# The five proposals, clause by clause

streamproof tests what five proposals for Kafka Streams demand. This page lists every binding clause
of them, in our own words, with the [requirements](requirements.md) that state the clause. The
[glossary](glossary.md) explains the words. `streamproof requirements --source KIP-892` prints the
clauses of one proposal, and `streamproof requirements CRASH-004` the checks of one requirement.

A clause is *whole* if its requirements state it and their checks test it. It is *partly* covered if
they state or test a part of it. It is *missing* if no tested requirement states it. Every clause
that is not whole says what is lacking.

A clause holds under every specification unless its row says otherwise. Where Kafka has shipped
something else, the clause holds under `kips` alone, and the row says what was shipped. A clause
under `kips` and `kafka-4.4` is about transactional stores, which Kafka 4.3 does not have.

This page is generated from [`conformance/clauses/`](../conformance/clauses), and a test keeps the
two equal.

"""


def proposals_text() -> str:
    """All clauses in Markdown: the exact content of ``docs/proposals.md``."""
    heads = "".join(f"| {state} " for state in STATES)
    parts = [_INTRODUCTION, f"| proposal {heads}|\n|---|", "---|" * len(STATES), "\n"]
    for name in PROPOSALS:
        proposal = load_proposal(name)
        counts = "".join(f"| {len(proposal.in_state(state))} " for state in STATES)
        parts.append(f"| {name}: {proposal.title} {counts}|\n")
    for name in PROPOSALS:
        proposal = load_proposal(name)
        parts.append(f"\n## {name}: {proposal.title}\n\nClauses: {proposal.total}.\n\n")
        parts.append("| id | where | clause | binds | requirements | state |\n")
        parts.append("|---|---|---|---|---|---|\n")
        parts += [_row(each) for each in proposal.clauses]
        if proposal.outside:
            parts.append("\nRequirements that name the proposal and state none of its clauses:\n\n")
            parts += [f"- {each}: {reason}\n" for each, reason in proposal.outside.items()]
    return "".join(parts)


def _row(clause: Clause) -> str:
    where = clause.section + (f": `{clause.names}`" if clause.names else "")
    text = clause.text
    if len(clause.specs) < len(get_args(Spec)):
        text += f" *Under {' and '.join(f'`{spec}`' for spec in clause.specs)}.*"
    if clause.shipped:
        text += f" *Shipped:* {clause.shipped}"
    state = clause.state + (f": {clause.lacks}" if clause.lacks else "")
    requirements = ", ".join(clause.requirements) or "–"
    # Outside code, Markdown would take the name of a file such as .checkpoint_<store> for a tag.
    text, state = (each.replace("<", "&lt;") for each in (text, state))
    return f"| {clause.id} | {where} | {text} | {clause.binds} | {requirements} | {state} |\n"
