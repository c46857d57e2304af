"""The published JSON Schema of the run log."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path

import jsonschema
from sample_logs import mixed_log, write_log

from streamproof.reports.run_log_schema import (
    SCHEMA_FILE,
    generate_schema,
    load_schema,
    schema_text,
)


def test_the_published_schema_is_the_generated_one() -> None:
    """The committed file equals what the record types give (the update switch rewrites it)."""
    published = resources.files("streamproof.reports").joinpath(SCHEMA_FILE)
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        Path(str(published)).write_text(schema_text(), encoding="utf-8")
    assert published.read_text("utf-8") == schema_text()


def test_the_schema_is_loaded_from_the_package() -> None:
    """It names itself, and the dialect that it is written in."""
    schema = load_schema()
    assert schema == generate_schema()
    assert schema["$id"] == "urn:streamproof:run-log:2"
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_real_lines_fit_the_schema_and_others_do_not(tmp_path: Path) -> None:
    """An independent validator agrees with the reader."""
    jsonschema.Draft202012Validator.check_schema(load_schema())
    validator = jsonschema.Draft202012Validator(load_schema())
    lines = write_log(tmp_path / "run.ndjson", mixed_log()).read_text("utf-8").splitlines()
    for line in lines:
        validator.validate(json.loads(line))
    result = next(line for line in lines if '"type":"result"' in line)
    broken = json.loads(result) | {"status": "green"}
    assert not validator.is_valid(broken)
    assert not validator.is_valid({"type": "header"})
