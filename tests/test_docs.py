"""The documentation leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))

    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_store_of_the_readme_keeps_every_promise(tmp_path: Path) -> None:
    """It is what a reader copies first, so it must stand a loss of power, too."""
    text = (ROOT / "README.md").read_text()
    (program,) = re.findall(r"Save it as `mystore.py`:\n\n```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mystore.py").write_text(program)
    command = [sys.executable, "-P", "-m", "streamproof", "verify", "mystore.py:make"]
    command += ["--profile", "smoke", "--seed", "1", "--no-bank"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "SUCCESS  mystore.py:make" in done.stdout
    assert re.search(r"and [1-9][\d,]* losses of power", done.stdout)
