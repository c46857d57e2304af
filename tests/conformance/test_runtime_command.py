"""`streamproof verify runtime`: the simulated runtime as a subject, from the command line."""

from __future__ import annotations

import contextlib

import pytest
from command_lines import REPORTS, CommandLine, Ended

from streamproof.commands.verify_progress import MOST_NAMED
from streamproof.conformance.catalogue import load_catalogue, requirements_that_bind
from streamproof.conformance.settings import Settings
from streamproof.conformance.single_requirement import Verifier
from streamproof.conformance.subject import binds_of, defect_of, load_subject
from streamproof.conformance.verify_session import select_requirements
from streamproof.errors import UsageError
from streamproof.reports.report_builder import build_view
from streamproof.reports.verification import require_one_kind
from streamproof.sim.defects import DEFECTS
from streamproof.sim.situations import situations_of


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A whole run of the smallest profile."""
    return CommandLine(tmp_path_factory.mktemp("runtime")).verify("runtime")


def test_a_whole_run(smoke: Ended) -> None:
    """All that binds the runtime has a result, and nothing that binds a store."""
    assert (smoke.code, smoke.stderr) == (0, "")
    assert set(smoke.results) == {each.id for each in requirements_that_bind("runtime")}
    statuses = {each.status for each in smoke.results.values()}
    assert statuses <= {"pass", "unsupported", "untested", "skip"}
    assert smoke.results["ALOS-001"].status == "unsupported"
    assert smoke.results["EOS-001"].status == "pass"
    # Further worlds were run for situations that the ten of the profile did not have.
    assert smoke.results["EOS-001"].examples > 10
    (info,) = smoke.log.header.subjects
    assert (info.name, info.package, info.capabilities) == ("runtime", "streamproof", {})
    assert all((smoke.out / name).is_file() for name in REPORTS)
    assert "SUCCESS" in smoke.stdout


def test_the_situations_of_a_run(smoke: Ended) -> None:
    """All are told in the log and in the page, those that never were, too; the terminal counts."""
    (subject,) = build_view(smoke.log).subjects
    assert list(subject.situations) == sorted(situations_of([]))
    seen = sum(hits > 0 for hits in subject.situations.values())
    assert seen > 0
    (line,) = (each for each in smoke.stdout.splitlines() if each.startswith("Situations that"))
    assert line.startswith(f"Situations that came about: {seen} of {len(situations_of([]))}; never")
    assert f", and {len(subject.situations) - seen - MOST_NAMED} that the report names." in line
    page = (smoke.out / "report.html").read_text()
    assert page.count('<section id="situations-') == 1
    for name, hits in subject.situations.items():
        assert f"<div><dt>{name}</dt><dd>{hits or 'never':{',' if hits else ''}}</dd></div>" in page


def test_the_same_seed_gives_the_same_log(smoke: Ended, command_line: CommandLine) -> None:
    """But for the time that it took."""
    again = command_line.verify("runtime", "--only", "TASK")
    facts = [
        {each.check: (each.examples, each.operations, each.digest) for each in log.checks}
        for log in (smoke.log, again.log)
    ]
    assert facts[1].items() <= facts[0].items()
    assert {name for name, (_, _, digest) in facts[1].items() if digest} == {
        "swarm.aggregations",
        "swarm.joins",
        "swarm.pipelines",
    }


def test_a_defect_makes_it_fail(command_line: CommandLine) -> None:
    """With a promise that it breaks, and commands that show it once more."""
    name = "does-not-fence-producer"
    done = command_line.verify("runtime", "--defect", name, "--only", "EOS-005")
    assert done.code == 1
    assert list(done.failures) == ["EOS-005"]
    failure = done.failures["EOS-005"]
    assert failure.subject == f"runtime:{name}"
    command = f"streamproof verify runtime:{name} --profile smoke --only EOS-005 --seed 1"
    assert failure.reproduce == command
    assert done.stdout.splitlines()[-1] == command
    (info,) = done.log.header.subjects
    assert info.description.endswith(DEFECTS[name].what)
    saved = command_line.start("replay", str(done.out / failure.saved))
    assert "still fails" in saved.communicate(timeout=120)[0]
    assert saved.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("runtime", "--defect", "no-such"), "There is no defect 'no-such'. Choose one of: "),
        (("runtime:no-such",), "There is no defect 'no-such'. Choose one of: "),
        (("in-memory", "--defect", "ignores-lag"), "`streamproof verify runtime`"),
        (("in-memory", "runtime"), "verify them one by one"),
        (("in-memory", "--only", "EOS-001"), "EOS-001 binds the runtime"),
        (("runtime", "--only", "CRASH"), "CRASH binds a store"),
        (("runtime", "--only", "NOPE"), "no requirement or area 'NOPE'"),
        (("runtime", "--defect", "commits-before-records-arrive"), "--guarantee at-least-once"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_what_is_refused(arguments: tuple[str, ...], told: str, command_line: CommandLine) -> None:
    """Before anything is run, with the way out."""
    done = command_line.verify(*arguments)
    assert done.code == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert told in line


def test_the_defects_are_listed(command_line: CommandLine) -> None:
    """Each with the promise that it breaks."""
    printed = command_line.start("defects").communicate(timeout=60)[0]
    rows = [line.split()[:2] for line in printed.splitlines()]
    for name, each in DEFECTS.items():
        assert [name, each.requirement] in rows


def test_names_of_subjects() -> None:
    """A module that is called `runtime` is a module: no factory has a hyphen in its name."""
    assert binds_of("runtime") == "runtime"
    assert defect_of("runtime") == ""
    assert defect_of("runtime:ignores-lag") == "ignores-lag"
    assert binds_of("runtime:make_store") == binds_of("my.runtime:make") == "store"
    assert all("-" in name for name in DEFECTS)
    with pytest.raises(UsageError, match="no store"):
        load_subject("runtime").factory()


def test_an_area_that_both_have() -> None:
    """Each sees its own part of it."""
    stores, runtime = (
        {each.id for each in select_requirements(["LISTEN"], binds)}
        for binds in ("store", "runtime")
    )
    assert "LISTEN-001" in stores
    assert "LISTEN-101" in runtime
    assert not stores & runtime


def test_pytest_asks_the_runtime_for_nothing_that_binds_stores() -> None:
    """The suite inside somebody's own tests is for stores, and says so."""
    with contextlib.closing(Verifier()) as verifier:
        for subject, identifier in (("runtime", "KV-001"), ("in-memory", "LAG-001")):
            requirement = load_catalogue()[identifier]
            with pytest.raises(UsageError, match=f"{identifier} binds a .*, and not '{subject}'"):
                verifier.verify(subject, requirement, Settings())


def test_defects_of_both_guarantees() -> None:
    """Some do harm under one of them only."""
    assert require_one_kind(["runtime:ignores-lag"], "at-least-once") == "runtime"
    with pytest.raises(UsageError, match="--guarantee exactly-once"):
        require_one_kind(["runtime:keeps-stale-offset"], "at-least-once")
