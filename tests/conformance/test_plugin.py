"""The suite in somebody else's pytest."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import SUBJECTS

from streamproof.conformance.catalogue import requirements_that_bind

pytest_plugins = ["pytester"]

BAD = SUBJECTS / "bad_stores.py"


@pytest.fixture(autouse=True)
def strict(pytester: pytest.Pytester) -> None:
    """A user who is strict about markers, configuration and warnings."""
    pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        addopts = ["--strict-markers", "--strict-config", "-p", "no:cacheprovider"]
        filterwarnings = ["error"]
        """
    )


def run(pytester: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    """Run pytest as the user does, in a process of its own."""
    return pytester.runpytest_subprocess(*arguments, timeout=120)


def test_pyargs_verifies_a_built_in_store(pytester: pytest.Pytester) -> None:
    """Each requirement is a test; what does not apply is skipped, nothing fails."""
    suite = ("--pyargs", "streamproof.conformance", "--streamproof-profile", "smoke", "-rs")
    result = run(pytester, *suite, "--subject", "in-memory")
    counts = result.parseoutcomes()
    assert set(counts) == {"passed", "skipped"}
    assert sum(counts.values()) == len(requirements_that_bind("store"))
    assert counts["passed"] > 40
    result.stdout.fnmatch_lines(["*unsupported: the subject does not claim persistent*"])
    assert result.ret == 0


def test_with_xdist_the_results_are_the_same(pytester: pytest.Pytester) -> None:
    """Each worker has processes of its own, and none of them is left."""
    pytest.importorskip("xdist")
    pytester.makepyfile(test_mine=CLASSES)
    chosen = ("-k", "KV-001 or KV-006 or LIFE-003", "-p", "xdist")
    alone = run(pytester, *chosen)
    together = run(pytester, *chosen, "-n", "2")
    for result in (alone, together):
        counts = result.parseoutcomes()
        counts.pop("deselected", None)
        assert counts == {"passed": 3, "failed": 1, "skipped": 2}


CLASSES = f"""
    from streamproof.conformance.pytest_suite import StateStoreConformance

    class TestRight(StateStoreConformance):
        subject = "in-memory"
        profile = "smoke"

    class TestWrong(StateStoreConformance):
        subject = "{BAD}:delete_raises"
        profile = "smoke"
        spec = "kafka-4.4"
"""


def test_the_base_class_in_a_test_module(pytester: pytest.Pytester) -> None:
    """A failing store fails with the requirement in the name, the program and the command."""
    pytester.makepyfile(test_mine=CLASSES)
    result = run(pytester, "-k", "KV-001 or KV-006 or LIFE-003", "-v")
    result.stdout.fnmatch_lines(
        [
            "test_mine.py::TestRight::test_requirement?KV-001? PASSED*",
            "test_mine.py::TestWrong::test_requirement?KV-006? FAILED*",
            "*breaks KV-006: *",
            "*delete is not done yet*",
            "lab = Lab(*bad_stores.py:delete_raises*",
            "reproduce: streamproof verify *:delete_raises --spec kafka-4.4*--only KV-006 --seed 0",
        ]
    )
    result.assert_outcomes(passed=3, failed=1, skipped=2)
    # No traceback of ours: the user's store is what is of interest.
    result.stdout.no_fnmatch_line("*assert_kept*")


def test_the_marker_selects_and_the_options_are_documented(pytester: pytest.Pytester) -> None:
    """Strict markers know `requirement`, and --help lists what can be asked for."""
    pytester.makepyfile(test_mine=CLASSES)
    selected = run(pytester, "-m", "requirement", "-k", "Right and KV-002", "-q")
    selected.assert_outcomes(passed=1)
    markers = run(pytester, "--markers")
    markers.stdout.fnmatch_lines(["@pytest.mark.requirement(id)*"])
    text = run(pytester, "--help").stdout.str()
    for option in (
        "--subject",
        "--streamproof-guarantee",
        "--streamproof-spec",
        "--streamproof-profile",
        "--streamproof-seed",
    ):
        assert option in text


def test_a_subject_in_the_current_directory(pytester: pytest.Pytester) -> None:
    """A module beside the tests is found, as `streamproof verify` finds it."""
    pytester.makepyfile(
        my_store="from streamproof.stores.memory import default_store as make",
        test_mine="""
            from streamproof.conformance.pytest_suite import StateStoreConformance

            class TestMine(StateStoreConformance):
                subject = "my_store:make"
                profile = "smoke"
        """,
    )
    run(pytester, "-k", "KV-001 or KV-002").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("no_such_module:make", "no module named 'no_such_module'"),
        (f"{BAD}:factory_raises", "the factory raised ConnectionError: no database at hand"),
    ],
)
def test_a_subject_that_cannot_be_loaded(
    subject: str, text: str, pytester: pytest.Pytester
) -> None:
    """The session ends with one clear line, not with a hundred errors."""
    result = run(pytester, "--pyargs", "streamproof.conformance", "--subject", subject)
    assert result.ret == 3
    lines = [line for line in result.outlines + result.errlines if "streamproof: " in line]
    assert len(lines) == 1
    assert text in lines[0]
    assert "Traceback" not in result.stdout.str()


def test_without_a_subject_nothing_is_verified(pytester: pytest.Pytester) -> None:
    """The suite does not guess what is meant, and says that nothing was tested."""
    result = run(pytester, "--pyargs", "streamproof.conformance")
    assert set(result.parseoutcomes()) <= {"skipped", "deselected"}


def test_other_tests_are_left_alone(pytester: pytest.Pytester) -> None:
    """An argument called `requirement` is not ours just because of its name."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def requirement():
            return "mine"

        def test_fixture(requirement):
            assert requirement == "mine"

        @pytest.mark.parametrize("requirement", [1, 2])
        def test_parameter(requirement):
            assert requirement in (1, 2)
        """
    )
    run(pytester).assert_outcomes(passed=3)


DIES_AT_A_CALL = f"""
    from streamproof import CHANGELOG, Lab

    def journal_of_a_killed_store():
        Lab.count_system_calls()
        lab = Lab("{SUBJECTS / "journal_store.py"}:make")

        def doomed():
            store = lab.open()
            lab.arm(syscall=3)
            store.commit({{CHANGELOG: 1}})

        lab.crash(doomed)
        return (lab.directory / "journal").read_text()

    def test_right():
        assert journal_of_a_killed_store() == "open;0;1;"

    def test_wrong():
        assert journal_of_a_killed_store() == "nothing"

    def test_other():
        pass
"""
"""Tests that need to see system calls, and one that does not."""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_that_sees_system_calls(pytester: pytest.Pytester, workers: str) -> None:
    """It runs in a process of its own, with the options of the project, and shows how it failed."""
    pytest.importorskip("xdist")
    pytester.makepyfile(test_mine=DIES_AT_A_CALL)
    result = run(pytester, "-n", workers)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*journal_of_a_killed_store() == *nothing*", "*'open;0;1;'*"])


def test_without_a_compiler_such_a_test_is_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure would say that the store is wrong."""
    monkeypatch.setenv("PATH", str(pytester.path))
    pytester.makepyfile(test_mine=DIES_AT_A_CALL)
    result = run(pytester, "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["*This cannot be tried here*install gcc or clang.*"])
