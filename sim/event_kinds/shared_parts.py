"""Parts that kinds of several families share: attributes and footprints."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Attribute

__all__ = [
    "APPENDED",
    "FILES",
    "ID",
    "NO_RECORDS",
    "OFFSETS",
    "OWNER",
    "PRODUCER",
    "REASON",
    "RECORD",
    "RECORDS",
    "ROW",
    "STARTED",
    "STORE",
    "TASK",
    "VERSION",
    "counted",
]


def counted(count: object, what: str) -> str:
    """A number of things: ``1 row``, ``2 rows``."""
    return f"{count} {what}{'s' if count != 1 else ''}"


def _records(count: object) -> str:
    return counted(count, "record")


APPENDED = "appended {partition} {offset}"
ID = Attribute(str, "the transactional id")
NO_RECORDS = Attribute(int, "always 0", _records)
OFFSETS = Attribute(dict[str, int], "by partition of an input, the next offset to process")
PRODUCER = Attribute(int, "the id of the producer; -1 if it has none")
REASON = Attribute(str, "the name of the error")
RECORDS = Attribute(int, "how many records", _records)
VERSION = Attribute(int, "the metadata version (KIP-268)")

FILES = ("files {process} {partition}", "files {process} {task}")
OWNER = "owner {actor} {task}"
RECORD = ("record {partition} {offset}", "value {partition} {key} {value}")
ROW = "row {process} {partition} {key}"
STARTED = "started {process} {partition}"
STORE = "store {process} {partition}"
TASK = "task {actor} {task}"
