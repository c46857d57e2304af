"""Layers pass every call on, unchanged."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import MagicMock, PropertyMock

import pytest

from streamproof.stores.api import StateStore
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import StoreError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.runtime.layers import (
    SessionLayer,
    TimestampedKeyValueLayer,
    TimestampedSessionLayer,
    TimestampedWindowLayer,
    WindowLayer,
    call_all,
    capabilities_of,
)
from streamproof.stores.sessions import SessionStore, SessionWithTimestampStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore
from streamproof.stores.windows import WindowStore, WindowWithTimestampStore

LAYERS: list[tuple[Any, Any]] = [
    (TimestampedKeyValueLayer, KeyValueWithTimestampStore),
    (WindowLayer, WindowStore),
    (TimestampedWindowLayer, WindowWithTimestampStore),
    (SessionLayer, SessionStore),
    (TimestampedSessionLayer, SessionWithTimestampStore),
]

DERIVED = {
    "all",
    "all_with_timestamp",
    "backward_all",
    "backward_fetch_all",
    "fetch_all",
    "fetch_all_with_timestamp",
    "put_value_and_timestamp",
    "put_value_and_timestamp_if_absent",
    "reverse_all",
}
"""What the contracts make of other methods: the inner store is asked for a range, or to put."""

CASES = [
    (layer, contract, name)
    for layer, contract in LAYERS
    for name in dir(contract)
    if not name.startswith("_") and name not in DERIVED
]


@pytest.mark.parametrize(("layer", "contract", "name"), CASES)
def test_every_call_is_passed_on(layer: type[Any], contract: type[StateStore], name: str) -> None:
    """To the method of the same name, with the same arguments, and back comes what it returns."""
    inner = MagicMock(spec=contract)
    store = layer(inner)
    member = inspect.getattr_static(contract, name)
    if isinstance(member, property):
        asked = PropertyMock(return_value=object())
        setattr(type(inner), name, asked)
        assert getattr(store, name) is asked.return_value
        asked.assert_called_once_with()
        return
    arguments = [object() for _ in list(inspect.signature(member).parameters)[1:]]
    found = getattr(store, name)(*arguments)
    asked = getattr(inner, name)
    asked.assert_called_once_with(*arguments)
    if inspect.signature(member).return_annotation != "None":
        assert found is asked.return_value


@pytest.mark.parametrize(("layer", "contract"), LAYERS)
def test_what_contracts_make_of_other_methods(layer: type[Any], contract: type[StateStore]) -> None:
    for name in DERIVED & set(dir(contract)):
        inner = MagicMock(spec=contract)
        method = getattr(layer(inner), name)
        names = inspect.signature(method).parameters
        method(*(None if each == "stamped" else 0 for each in names))
        (call,) = inner.method_calls
        assert ("put" if name.startswith("put") else "range") in call[0]


def test_a_store_without_transactions_is_its_own() -> None:
    inner = MagicMock(spec=WindowStore)
    inner.new_transaction.return_value = inner
    store: WindowLayer[Any] = WindowLayer(inner)
    assert store.new_transaction() is store
    assert store.inner is inner


def test_capabilities_of_a_store_that_declares_none() -> None:
    assert capabilities_of(MagicMock(spec=StateStore)) == Capabilities()
    assert capabilities_of(InMemoryKeyValueStore("store")).persistent is False


def test_every_step_is_taken_and_the_first_error_wins() -> None:
    taken: list[int] = []

    def step(number: int, *, fails: bool) -> None:
        taken.append(number)
        if fails:
            raise StoreError(f"step {number}")

    with pytest.raises(StoreError, match="step 1") as caught:
        call_all(
            [
                lambda: step(0, fails=False),
                lambda: step(1, fails=True),
                lambda: step(2, fails=True),
                lambda: step(3, fails=False),
            ]
        )
    assert taken == [0, 1, 2, 3]
    assert caught.value.__notes__ == ["After that: StoreError: step 2"]
    call_all([])
