"""The layers of a store of the JVM: the store alone, or with what the runtime puts around it."""

from __future__ import annotations

from typing import Literal, get_args

from streamproof.errors import UsageError
from streamproof.stores.jvm.kafka_jars import release_numbers

__all__ = ["LAYERS", "OFFSETS_IN_STORES", "Layer", "default_layer", "require_layer"]

Layer = Literal["bytes", "metered", "task"]
"""What is around a store.

``bytes``: nothing, as a supplier gives it. ``metered``: metrics, a cache and the logging of
changes, as a processor has it. ``task``: the state directory and the state manager of a
task, as the runtime has them.
"""

LAYERS: tuple[Layer, ...] = get_args(Layer)
"""All layers."""

OFFSETS_IN_STORES = "4.3.0"
"""The first release whose stores keep their offsets (KIP-1035). Before, their task did."""


def default_layer(release: str) -> Layer:
    """The layer in which a store of this release is verified, unless its name says another one."""
    return "bytes" if _keeps_offsets(release) else "task"


def require_layer(layer: Layer, release: str) -> None:
    """Raise UsageError unless stores of this release can be verified in this layer."""
    if layer != "task" and not _keeps_offsets(release):
        raise UsageError(
            f"The stores of Kafka {release} keep no offsets, so there is nothing to verify in the "
            f"layer {layer}. Take the layer task, or a release from {OFFSETS_IN_STORES} on."
        )


def _keeps_offsets(release: str) -> bool:
    return release_numbers(release) >= release_numbers(OFFSETS_IN_STORES)
