"""The planted stores work where nothing happens that their mistakes need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from planted_stores import PLANTED, Planted, planted

from streamproof.conformance.lab import CHANGELOG, Lab

STORES = planted()


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_it_opens_commits_and_opens_again(
    store: Planted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So a verdict is about its mistake."""
    if store.subject.startswith(("designs:", "second_mutants:")):
        pytest.importorskip("plyvel", reason="there is no wheel of plyvel for this Python")
    monkeypatch.setattr(sys, "path", [str(PLANTED), *sys.path])
    lab = Lab(store.subject, directory=tmp_path)
    for reached in (1, 2):
        opened = lab.rows()
        opened.put(b"a", b"%d" % reached)
        # Of a window with several values there is no single one.
        several = lab.subject.capabilities.retain_duplicates
        assert several or opened.get(b"a") == b"%d" % reached
        opened.commit({CHANGELOG: reached})
        opened.close()
    assert store.mistake


def test_there_are_wrong_stores_and_right_ones() -> None:
    """And no two have one name."""
    assert {store.is_right for store in STORES} == {False, True}
    assert len({store.name for store in STORES}) == len(STORES)
