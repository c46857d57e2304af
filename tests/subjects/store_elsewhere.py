"""A right store whose files are not in the directory of its task, as those on a server are not."""

from __future__ import annotations

from pathlib import Path

from streamproof.conformance.mutants.crash_mutants import JournalStore
from streamproof.stores.api import StateStore, StateStoreContext

__all__ = ["make"]


class StoreElsewhere(JournalStore):
    """Keeps its files beside the directory of the task."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the files of the task, which its directory has the name of."""
        here = context.state_dir
        elsewhere = Path(here.parent, f"elsewhere-{here.name}")
        elsewhere.mkdir(exist_ok=True)
        context.state_dir = elsewhere
        super().init(context, root)


def make() -> StoreElsewhere:
    """A store that is not open."""
    return StoreElsewhere("store")
