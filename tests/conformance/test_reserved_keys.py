"""Keys that a store may keep for itself are found in its code and in its files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamproof.conformance.reserved_keys import KEYS, keys_in_imports, keys_on_disk


def module(name: str, monkeypatch: pytest.MonkeyPatch, **content: object) -> ModuleType:
    """A module that can be imported."""
    made = ModuleType(name)
    vars(made).update(content)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_constants_of_an_imported_package_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As attributes of its classes too."""
    table = type("Table", (), {"__module__": "package.tables", "key": b"__table\0offset__"})
    module("package.tables", monkeypatch, Table=table)
    subject = module("subject", monkeypatch, Table=table, sys=sys)
    assert keys_in_imports(subject) == (b"__table\0offset__",)


def test_a_store_without_a_module_has_no_constants() -> None:
    assert keys_in_imports(None) == ()


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"\x01\x06offset\x0241", b"offset"),
        (b'{"offset": 41}', b"offset"),
        (b"!__table\0offset__41", b"__table\0offset__"),
        (b"\x20store-offset-041", b"store-offset-"),
        (b"\x00\x09partition\x00", b"partition"),
    ],
)
def test_a_key_is_found_among_its_neighbours(content: bytes, key: bytes, tmp_path: Path) -> None:
    """A length before it, and a value behind it, may look like a part of it."""
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "rows").write_bytes(content)
    assert key in keys_on_disk(tmp_path)


def test_the_most_telling_keys_come_first(tmp_path: Path) -> None:
    """However many words the files have, no more than a few are tried."""
    words = b" ".join(b"word%d" % number for number in range(10 * KEYS))
    (tmp_path / "log").write_bytes(words + b" zz_offset ")
    found = keys_on_disk(tmp_path)
    assert len(found) == KEYS
    assert b"zz_offset" in found
