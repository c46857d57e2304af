"""The store in one file, which has the defaults of the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamproof.stores.api import StateStoreContext, TopicPartition
from streamproof.stores.errors import InvalidStateStoreError, ProcessorStateError
from streamproof.stores.single_file import SingleFileStore

LOG = TopicPartition("log", 0)


def opened(context: StateStoreContext) -> SingleFileStore:
    """A new store in the directory of a task."""
    store = SingleFileStore("store")
    store.init(context, store)
    return store


def test_a_commit_writes_the_file(make_context: Callable[..., StateStoreContext]) -> None:
    """The default of commit calls flush, so a kill after it loses nothing."""
    context = make_context()
    store = opened(context)
    store.put(b"\xff", b"1")
    store.put(b"", b"")
    store.commit({LOG: 1})
    store.put(b"later", b"2")

    assert list(opened(context).all()) == [(b"", b""), (b"\xff", b"1")]


def test_no_offset_is_kept(make_context: Callable[..., StateStoreContext]) -> None:
    """The store has the other defaults as well."""
    store = opened(make_context())
    store.commit({LOG: 1})

    assert (store.manages_offsets, store.committed_offset(LOG)) == (False, None)


def test_a_closed_store_cannot_be_committed(
    make_context: Callable[..., StateStoreContext],
) -> None:
    """Its file keeps its content."""
    store = opened(make_context())
    store.close()

    with pytest.raises(InvalidStateStoreError, match="not open"):
        store.commit({LOG: 1})


@pytest.mark.parametrize("text", ["", "[]", '{"zz": "00"}', '{"00": 1}'])
def test_a_damaged_file_is_refused(
    text: str, make_context: Callable[..., StateStoreContext]
) -> None:
    """The error names the file, and the file is kept."""
    context = make_context()
    file = context.state_dir / "store" / "rows.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)

    with pytest.raises(ProcessorStateError, match=r"rows\.json"):
        opened(context)
    assert file.read_text() == text
