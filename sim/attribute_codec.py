"""Attributes of events as JSON, with bytes in base64, as files of traces and recordings have them.

``KINDS`` gives the type of each attribute, so that a reader restores exactly the value that was
written.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypedDict

import msgspec

from streamproof.sim.event_kinds import KINDS

__all__ = ["attribute_decoder", "attribute_encoder"]

# The encoder must keep the order inside attributes: invariants that read the trace again may
# depend on it.
attribute_encoder = msgspec.json.Encoder()
"""Writes the attributes of an event."""


@cache
def attribute_decoder(kind: str, *, complete: bool) -> msgspec.json.Decoder[dict[str, Any]]:
    """Reads the attributes of a kind of events.

    Args:
        kind: the kind. Attributes that ``KINDS`` does not list for it are left out; an unknown kind
            may have any attributes.
        complete: whether an event must have all attributes of its kind.
    """
    known = KINDS.get(kind)
    if known is None:
        return msgspec.json.Decoder(dict[str, Any])
    types: Any = {name: each.type for name, each in known.attributes.items()}
    return msgspec.json.Decoder(TypedDict("Attributes", types, total=complete))  # type: ignore[operator]
