"""The published JSON Schema of the run log, made from the record types."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, cast

from streamproof.conformance.results import SCHEMA_VERSION, Record
from streamproof.json_schemas import json_schema

__all__ = ["SCHEMA_FILE", "generate_schema", "load_schema", "schema_text"]

SCHEMA_FILE = "run_log.schema.json"


def generate_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of a run log, from the types themselves."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:streamproof:run-log:{SCHEMA_VERSION}",
        "title": "One line of a streamproof run log",
        "description": (
            "A run log holds one JSON object a line: one header, then check, result, failure "
            "and note records, and one footer. A log without a footer is a run that died, "
            "never a pass."
        ),
        **json_schema(Record),
    }


def schema_text() -> str:
    """The published file's exact content."""
    return json.dumps(generate_schema(), indent=2, ensure_ascii=False) + "\n"


def load_schema() -> dict[str, Any]:
    """The JSON Schema as it was published with this release."""
    text = resources.files(__package__).joinpath(SCHEMA_FILE).read_text("utf-8")
    return cast(dict[str, Any], json.loads(text))
