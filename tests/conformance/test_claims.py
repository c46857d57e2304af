"""What a store forgot to claim, or may have forgotten, stands beside its verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import CommandLine

from streamproof.conformance.catalogue import UNCLAIMED
from streamproof.conformance.results import RequirementResult, Status, SubjectInfo
from streamproof.conformance.subject import load_subject
from streamproof.conformance.verdicts import not_asked
from streamproof.stores.builtin import BUILTIN

STORES = """
from streamproof import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore


class Undeclared:
    persistent = False
    manages_offsets = False

    def __init__(self):
        self._inner = InMemoryKeyValueStore("store")

    def __getattr__(self, name):
        if name == "capabilities":
            raise AttributeError(name)
        return getattr(self._inner, name)


class Forgetful(InMemoryKeyValueStore):
    capabilities = Capabilities(persistent=False, manages_offsets=False)

    def read_only(self, isolation_level):
        return self


def undeclared():
    return Undeclared()


def forgetful():
    return Forgetful("store")
"""


@pytest.fixture
def stores(tmp_path: Path) -> str:
    """The path of a file with stores that do not claim all that they have."""
    (tmp_path / "stores.py").write_text(STORES)
    return str(tmp_path / "stores.py")


def test_a_store_that_declares_nothing(stores: str) -> None:
    loaded = load_subject(f"{stores}:undeclared")
    assert (loaded.inferred, loaded.unclaimed) == (True, {})
    assert loaded.info().inferred


def test_a_store_with_a_method_that_it_does_not_claim(stores: str) -> None:
    """The methods that the interfaces of streamproof have are no sign of anything."""
    loaded = load_subject(f"{stores}:forgetful")
    assert (loaded.inferred, loaded.unclaimed) == (False, {"read_only_views": "read_only"})
    assert loaded.info().unclaimed == {"read_only_views": "read_only"}


@pytest.mark.parametrize("name", [name for name, store in BUILTIN.items() if store.extra is None])
def test_our_stores_claim_what_they_have(name: str) -> None:
    loaded = load_subject(name)
    assert (loaded.inferred, loaded.unclaimed) == (False, {})


def result(status: Status, reason: str = "") -> RequirementResult:
    """A result of one requirement."""
    return RequirementResult(
        subject="s",
        requirement="KV-001",
        title="",
        promise="",
        source="",
        level="MUST",
        core=True,
        status=status,
        reason=reason,
    )


RESULTS = [
    result("pass"),
    result("skip", UNCLAIMED + "read_only_views"),
    result("unsupported", "holds under exactly-once only"),
    result("unsupported", UNCLAIMED + "read_only_views"),
    result("unsupported", UNCLAIMED + "explicit_transactions"),
    result("unsupported", UNCLAIMED + "explicit_transactions"),
]


def test_what_was_not_asked_of_a_store_without_claims() -> None:
    (text,) = not_asked(SubjectInfo(name="s", inferred=True), RESULTS)
    assert "capability that they need: explicit_transactions 2, read_only_views 1. " in text


def test_what_was_not_asked_of_a_store_with_claims() -> None:
    info = SubjectInfo(name="s", unclaimed={"read_only_views": "read_only", "position": "position"})
    (text,) = not_asked(info, RESULTS)
    assert text.startswith("has read_only, and does not claim read_only_views. ")
    assert text.endswith(" not asked for this: 1.")
    assert not_asked(SubjectInfo(name="s"), RESULTS) == []
    assert not_asked(SubjectInfo(name="s", inferred=True), [result("pass")]) == []


def test_a_run_tells_so(command_line: CommandLine, stores: str) -> None:
    """In the terminal, and in the log."""
    ended = command_line.verify(f"{stores}:forgetful", "--only", "KV-001,ISO")
    (note,) = (each for each in ended.log.notes if each.kind == "claims")
    assert note.text.startswith("has read_only, and does not claim read_only_views. ")
    assert f"claims   {stores}:forgetful: {note.text}" in ended.stdout
