"""JSON Schemas of types."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

__all__ = ["json_schema"]


def json_schema(type_: Any) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a type, the same with each Python, and from msgspec 0.22 on."""
    found: dict[str, Any] = _without_names_of_keys(msgspec.json.schema(type_))
    for definition in found["$defs"].values():
        # Python 3.13 takes the indentation off docstrings by itself, and older ones do not.
        definition["description"] = inspect.cleandoc(definition.get("description", ""))
    return found


def _without_names_of_keys(schema: Any) -> Any:
    """The schema without the keys that a dictionary may have: msgspec tells them from 0.23 on."""
    if isinstance(schema, dict):
        kept = {name: part for name, part in schema.items() if name != "propertyNames"}
        return {name: _without_names_of_keys(part) for name, part in kept.items()}
    if isinstance(schema, list):
        return [_without_names_of_keys(part) for part in schema]
    return schema
