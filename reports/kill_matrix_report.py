"""The kill matrix in Markdown, and the JSON Schema of ``mutants.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamproof.conformance.kill_results import MATRIX_VERSION, AreaRow, KillMatrix, MutantRow
from streamproof.json_schemas import json_schema

__all__ = ["MATRIX_SCHEMA_FILE", "matrix_schema_text", "render_matrix"]

MATRIX_SCHEMA_FILE = "mutants.schema.json"


def matrix_schema_text() -> str:
    """The JSON Schema (2020-12) of ``mutants.json``: the published file's exact content."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:streamproof:mutants:{MATRIX_VERSION}",
        "title": "What a run of the deliberately wrong stores found out",
        **json_schema(KillMatrix),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def render_matrix(matrix: KillMatrix) -> str:
    """The mutants, and the areas, as two tables in Markdown."""
    killed = sum(row.outcome == "killed" for row in matrix.rows)
    lines = [
        f"## {killed} of {len(matrix.rows)} mutants killed",
        "",
        _about(matrix),
        *(
            []
            if matrix.complete
            else ["", "**Interrupted: the table has only the mutants that were finished.**"]
        ),
        "",
        *_table(
            "| mutant | mistake | requirement | outcome | found | by | s | tries | crashes "
            "| also breaks |",
            "|:--|:--|:--|:--|--:|:--|--:|--:|--:|:--|",
            map(_mutant_cells, matrix.rows),
        ),
        "",
        *_table(
            "| area | requirements with a check | with a mutant | mutants | killed | median s |",
            "|:--|--:|--:|--:|--:|--:|",
            map(_area_cells, matrix.areas),
        ),
    ]
    return "\n".join(lines) + "\n"


def _about(matrix: KillMatrix) -> str:
    seeds = "1 seed" if matrix.seeds == 1 else f"{matrix.seeds} seeds"
    return (
        f"Profile {matrix.profile}, {seeds} from {matrix.seed}, {matrix.duration_s:.0f} s, "
        f"streamproof {matrix.tool_version}. Times are medians over the seeds, from the "
        "beginning of the check to the first time that it found the promise broken; tries are "
        "programs and crashes."
    )


def _table(head: str, rule: str, rows: Iterable[list[str]]) -> list[str]:
    return [head, rule, *("| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows)]


def _plain(text: str) -> str:
    """A text that can neither end its cell nor begin other markup."""
    return "".join(f"\\{char}" if char in "\\|*_`<>[]" else char for char in " ".join(text.split()))


def _mutant_cells(row: MutantRow) -> list[str]:
    outcome = row.outcome if row.outcome == "killed" else f"{row.outcome.upper()}: {row.reason}"
    return [
        row.mutant,
        row.mistake,
        row.requirement,
        outcome,
        f"{row.found} of {len(row.seeds)}",
        ", ".join(row.by),
        "" if row.seconds is None else f"{row.seconds:.2f}",
        "" if row.examples is None else f"{row.examples:g}",
        "" if row.crashes is None else f"{row.crashes:g}",
        ", ".join(row.collateral),
    ]


def _area_cells(row: AreaRow) -> list[str]:
    return [
        row.title,
        str(row.requirements),
        str(row.with_mutants),
        str(row.mutants),
        str(row.killed),
        "" if row.seconds is None else f"{row.seconds:.2f}",
    ]
