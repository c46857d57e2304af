"""The stores that can be named on a command line, imported only when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from streamproof.stores.api import StateStore
from streamproof.stores.errors import UsageError

__all__ = ["BUILTIN", "BuiltinStore"]


@dataclass(frozen=True, slots=True)
class BuiltinStore:
    """Makes a new store, not initialised, when it is called.

    Attributes:
        factory: ``module:attribute`` of a callable without arguments.
        extra: the extra of this package that the module needs, if any.
    """

    factory: str
    extra: str | None = None

    def __call__(self) -> StateStore:
        """A new store.

        Raises:
            UsageError: the extra is not installed.
        """
        module, _, attribute = self.factory.partition(":")
        try:
            make = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if self.extra is None:
                raise
            raise UsageError(
                f"This store needs the package {error.name!r}: "
                f"pip install 'streamproof[{self.extra}]'."
            ) from error
        return cast(StateStore, make())


BUILTIN: dict[str, BuiltinStore] = {
    "in-memory": BuiltinStore("streamproof.stores.memory:default_store"),
    "rocksdb": BuiltinStore("streamproof.stores.rocksdb:default_store"),
    "rocksdb-transactional": BuiltinStore("streamproof.stores.transactional:default_store"),
    "rocksdb-legacy": BuiltinStore("streamproof.stores.legacy:default_store"),
    "quixstreams": BuiltinStore("streamproof.stores.adapters.quixstreams:make", extra="quix"),
    "faust-streaming": BuiltinStore("streamproof.stores.adapters.faust:make", extra="faust"),
}
"""The built-in subjects by name."""
