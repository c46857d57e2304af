"""A store host that uses nothing but the standard library: a snapshot file for each commit.

With ``--bug`` as its first argument it writes the offsets into a file of their own, first.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

BUG = "--bug" in sys.argv

OFFSETS, ROWS = Path("offsets.json"), Path("rows.json")


class Failure(Exception):
    """An error of a kind."""


class Store:
    """Rows and offsets in memory, and in files as of the last commit."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        found = self.load(ROWS)
        self.rows: dict[str, str] = found.get("rows", {})
        self.offsets = self.load(OFFSETS) if BUG else found.get("offsets", {})
        self.scans: dict[int, list[list[str]]] = {}

    def load(self, name: Path) -> Any:
        """What a file has; nothing if there is none."""
        path = self.directory / name
        return json.loads(path.read_bytes()) if path.exists() else {}

    def save(self, name: Path, content: Any) -> None:
        """Replace a file, so that it is whole at any time."""
        path = self.directory / name
        new = path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, json.dumps(content).encode())
        os.fsync(descriptor)
        os.close(descriptor)
        new.rename(path)

    def commit(self, offsets: list[Any]) -> None:
        """Rows and offsets; in one file, unless there is the bug."""
        if not offsets:
            self.offsets = {}
        for topic, partition, offset in offsets:
            self.offsets[f"{topic}-{partition}"] = offset
        if BUG:
            self.save(OFFSETS, self.offsets)
            self.save(ROWS, {"rows": self.rows})
        else:
            self.save(ROWS, {"rows": self.rows, "offsets": self.offsets})

    def put(self, key: str | None, value: str | None) -> None:
        """In memory."""
        if key is None:
            raise Failure("null-argument")
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def scan(self) -> int:
        """All rows, by the bytes of their keys."""
        keys = sorted(self.rows, key=base64.b64decode)
        self.scans[len(self.scans)] = [[key, self.rows[key]] for key in keys]
        return len(self.scans) - 1


def required(request: Any) -> str:
    """A key that is not null."""
    key = request["key"]
    if key is None:
        raise Failure("null-argument")
    return str(key)


def put_if_absent(store: Store, request: Any) -> Any:
    """The value that is there, or none if there was none."""
    existing = store.rows.get(required(request))
    if existing is None:
        store.put(request["key"], request["value"])
    return existing


def put_all(store: Store, request: Any) -> None:
    """All entries, or none of them if a key is null."""
    if any(entry[0] is None for entry in request["entries"]):
        raise Failure("null-argument")
    for entry in request["entries"]:
        store.put(*entry[:2])


def page(store: Store, request: Any) -> Any:
    """Some rows of a scan."""
    rows = store.scans[request["iterator"]]
    found = rows[: request["limit"]]
    del rows[: request["limit"]]
    return {"rows": found, "done": not rows}


OPERATIONS: dict[str, Any] = {
    "get": lambda store, request: store.rows.get(required(request)),
    "put": lambda store, request: store.put(request["key"], request["value"]),
    "delete": lambda store, request: store.rows.pop(required(request), None),
    "put_if_absent": put_if_absent,
    "put_all": put_all,
    "restore": put_all,
    "commit": lambda store, request: store.commit(request["offsets"]),
    "committed_offset": lambda store, request: store.offsets.get(
        f"{request['topic']}-{request['partition']}"
    ),
    "all": lambda store, _: store.scan(),
    "next": page,
    "flush": lambda _store, _request: None,
    "close": lambda _store, _request: None,
    "close_iterator": lambda _store, _request: None,
}


def answer(store: Store, request: Any) -> Any:
    """What an operation gives back."""
    operation = OPERATIONS.get(request["op"])
    if operation is None:
        raise Failure("unsupported")
    return operation(store, request)


CAPABILITIES = {
    "transactional": True,
    "ranges": False,
    "reverse": False,
    "prefix_scan": False,
    "entry_count": False,
}


def main() -> None:
    """Answer until the input ends."""
    store: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, Any] = {"id": request["id"]}
        try:
            if request["op"] == "hello":
                reply["ok"] = {"protocol": 1, "name": "small", "capabilities": CAPABILITIES}
            elif request["op"] == "open":
                store = Store(request["directory"])
                reply["ok"] = None
            else:
                reply["ok"] = answer(store, request)
        except Failure as failure:
            reply["error"] = {"kind": str(failure), "message": f"{request['op']} failed"}
        except OSError as error:
            reply["error"] = {"kind": "io", "message": str(error)}
        os.write(1, json.dumps(reply).encode() + b"\n")


main()
