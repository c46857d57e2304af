"""JSON Schemas of types."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

__all__ = ["json_schema"]


def json_schema(type_: Any) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a type, the same with each version of Python."""
    found = msgspec.json.schema(type_)
    for definition in found["$defs"].values():
        # Python 3.13 takes the indentation off docstrings by itself, and older ones do not.
        definition["description"] = inspect.cleandoc(definition.get("description", ""))
    return found
