"""The Java project to copy: its build verifies the right store, and the wrong store fails it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.executable).parent / "streamproof"

NO_STORE = """package com.acme.state;

class NoStoreTest extends streamproof.junit.StreamproofTest {
  NoStoreTest() {
    super("com.acme.state.Nothing#orders");
  }
}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, as a user has it, with a test of a class that is not there."""
    copy = tmp_path_factory.mktemp("java") / "java-store"
    left = shutil.ignore_patterns("target", ".streamproof")
    shutil.copytree(ROOT / "examples" / "java-store", copy, ignore=left)
    (copy / "src/test/java/com/acme/state/NoStoreTest.java").write_text(NO_STORE, "utf-8")
    return copy


def build(
    project: Path, test: str, *arguments: str, command: Path = COMMAND
) -> subprocess.CompletedProcess[str]:
    """Run one test class by Maven; what is built already is not built again."""
    words = ["mvn", "--quiet", "--batch-mode", "test", f"-Dtest={test}"]
    words += [f"-Dstreamproof.command={command}", *arguments]
    return subprocess.run(
        words, cwd=project, capture_output=True, text=True, check=False, timeout=280
    )


def only(*requirements: str) -> str:
    return f"-Dstreamproof.options=--no-bank --only {','.join(requirements)}"


def test_the_right_store_passes_its_build(project: Path) -> None:
    done = build(project, "OrdersTest", only("KV-001", "OFFSET-003", "OFFSET-006", "CRASH-011"))

    assert done.returncode == 0, done.stdout
    report = project / "target/surefire-reports/TEST-com.acme.state.OrdersTest.xml"
    assert "OFFSET-003 offsets survive a clean reopening" in report.read_text("utf-8")
    assert (project / "target/streamproof/OrdersTest/report.html").is_file()


def test_the_wrong_store_fails_its_build(project: Path) -> None:
    done = build(project, "WrongOrdersTest", "-Pwrong", only("KV-001", "CRASH-011"))

    assert done.returncode == 1, done.stdout
    assert "CRASH-011 (MUST) a crash during close does no harm\n\n  promise   " in done.stdout
    assert "MvStores#ordersWithOffsetsApart@4.4.0'" in done.stdout
    # The printed command finds the store from the directory of the project.
    assert "--classpath target/streamproof/WrongOrdersTest/class-path.jar\n" in done.stdout
    assert "KV-001" not in done.stdout


def test_a_machine_without_streamproof(project: Path) -> None:
    done = build(project, "OrdersTest", command=Path("nothing"))

    assert "The command nothing does not run. Install Python 3.11 and streamproof" in done.stdout


def test_a_class_path_without_the_class(project: Path) -> None:
    done = build(project, "NoStoreTest")

    assert "streamproof has verified nothing (exit code 3): " in done.stdout
    assert "There is no class com.acme.state.Nothing." in done.stdout


def test_a_run_that_died(project: Path, tmp_path: Path) -> None:
    """Its log has no footer, and a last line that is cut off."""
    dying = tmp_path / "dying"
    lines = r'{"type": "header"}\n{"type": "resu'
    dying.write_text(
        f"#!/bin/sh\nprintf '{lines}' > target/streamproof/OrdersTest/run.ndjson\nkill -9 $$\n"
    )
    dying.chmod(0o755)

    done = build(project, "OrdersTest", command=dying)

    assert done.returncode == 1
    assert "run.ndjson is incomplete: streamproof ended early, with exit code 137." in done.stdout
