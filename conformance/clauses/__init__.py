"""The clauses of the five proposals as data, in one TOML file for each proposal.

A clause is one thing that a proposal binds a store or the runtime to. Each clause names the
requirements that state it, or says what is lacking. The checks of a clause are those of its
requirements, which the catalogue names. Ids are never renumbered.

Where a page shows two versions of a proposal, the later wording counts. Where Kafka has shipped
something else, the clause holds under ``kips`` alone and says what was shipped.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Literal, get_args

import msgspec
from msgspec import Struct, field

from streamproof.conformance.results import Spec
from streamproof.errors import UsageError

__all__ = ["PROPOSALS", "STATES", "Clause", "Proposal", "State", "load_proposal"]

State = Literal["whole", "partly", "missing"]
"""How far the requirements cover a clause.

``whole``: they state the clause, and their checks test it. ``partly``: they state or test a part of
the clause. ``missing``: no tested requirement states the clause.
"""

STATES: tuple[State, ...] = get_args(State)

PROPOSALS = ("KIP-892", "KIP-1035", "KIP-695", "KIP-869", "KIP-258")
"""The five proposals."""


class Clause(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a proposal demands.

    Attributes:
        id: the proposal and a number that never changes, such as ``KIP-892/12``.
        section: the headings under which the clause stands.
        text: the clause in our own words.
        names: the methods, metrics or configurations that the clause is about, if any.
        binds: the party that the clause binds.
        requirements: the requirements that state the clause.
        specs: the specifications under which the clause holds.
        state: how far the requirements cover the clause.
        lacks: the reason why the clause is not whole.
        shipped: the behaviour that Kafka has shipped instead, if the clause holds under ``kips``
            alone.
    """

    id: str
    section: str
    text: str
    names: str = ""
    binds: Literal["store", "runtime", "both"]
    requirements: list[str]
    specs: list[Spec] = field(default_factory=lambda: list(get_args(Spec)))
    state: State
    lacks: str = ""
    shipped: str = ""


class Proposal(Struct, frozen=True, forbid_unknown_fields=True):
    """A proposal.

    Attributes:
        title: a few words.
        clauses: its clauses, in the order of the proposal.
        outside: the requirements whose source names the proposal although they state none of its
            clauses, each with the reason.
    """

    title: str
    clauses: list[Clause] = field(name="clause")
    outside: dict[str, str] = field(default_factory=dict)

    def in_state(self, state: State) -> list[Clause]:
        """The clauses that are in a state."""
        return [each for each in self.clauses if each.state == state]

    @property
    def total(self) -> str:
        """The number of clauses in each state, in words."""
        return ", ".join(f"{len(self.in_state(state))} {state}" for state in STATES)


@functools.cache
def load_proposal(name: str) -> Proposal:
    """The proposal of this name, such as ``KIP-892``.

    Raises:
        UsageError: the name is not that of one of the five proposals.
    """
    if name not in PROPOSALS:
        raise UsageError(
            f"There are clauses of five proposals: name {', '.join(PROPOSALS[:-1])} or "
            f"{PROPOSALS[-1]} instead of {name!r}."
        )
    text = files(__name__).joinpath(f"{name.lower()}.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=Proposal)
