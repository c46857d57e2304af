"""Compliance tables: the combined results of thousands of runs, as Spark jobs.

Importing this needs neither Spark nor pandas; making a table needs both.
"""

from __future__ import annotations

from streamproof.reports.pipeline.tables.columns import COUNTED, TABLES, Column, Table, column_names

__all__ = ["COUNTED", "TABLES", "Column", "Table", "column_names"]
