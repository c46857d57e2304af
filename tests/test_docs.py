"""The documentation leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
# A build of an example leaves reports in its folder `target`.
DOCUMENTS = sorted(page for page in PAGES if "target" not in page.relative_to(ROOT).parts)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
SECTION_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
MODULE = re.compile(r"`((?:stores|sim|scenarios|conformance|reports|streamproof|tests)/[\w./-]+)`")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))

    assert [link for link in links if not (document.parent / link).exists()] == []


def headings(document: Path) -> set[str]:
    """The anchors that a page has on GitHub: one for each heading."""
    lines = re.findall(
        r"^#+ (.+)$", CODE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE
    )
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line) for line in lines]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_sections_lead_to_headings(document: Path) -> None:
    links = SECTION_LINK.findall(CODE.sub("", document.read_text(encoding="utf-8")))
    targets = [(document.parent / path if path else document, anchor) for path, anchor in links]

    assert [each for each in targets if each[1] not in headings(each[0])] == []


@pytest.mark.parametrize(
    "document",
    # The changelog names modules of older versions, too.
    [each for each in DOCUMENTS if each.name != "CHANGELOG.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_modules_that_a_page_names_exist(document: Path) -> None:
    named = MODULE.findall(document.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_links_the_glossary() -> None:
    pages = [each for each in DOCUMENTS if each.name not in {"glossary.md", "CHANGELOG.md"}]

    assert [page.name for page in pages if "glossary.md" not in page.read_text()] == []


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
