"""Every task of this project: `nox -l` lists them.

The folders at the top of the repository are subpackages of ``streamproof`` only once installed.
A program that puts the root of the repository into ``sys.path``, as ``python -m`` does, finds the
folder ``streamproof`` without the packages that belong into it. So the sessions install the package
like a user would, start tools by their own command, and run those tools in an empty directory that
search the current one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
# What answers soon. The tests come last, so that their summary is what one sees. A change must also
# pass the longer sessions that `.ci/run` names.
nox.options.sessions = ["lint", "typecheck", "tests"]

ROOT = Path(__file__).parent
PYPROJECT = ROOT / "pyproject.toml"

ADAPTED_STORES = "quix,faust"
"""The extras that need nothing but Python, so that a plain `nox` can cover them."""

EVERY_EXTRA = f"{ADAPTED_STORES},sail"
"""The same with the pipeline, which needs Java 17."""


def tools(*groups: str) -> tuple[str, ...]:
    """Return what is to be installed for these dependency groups of pyproject.toml."""
    return nox.project.dependency_groups(nox.project.load_toml(PYPROJECT), *groups)


def install(session: nox.Session, *groups: str, extras: str = "", editable: bool = False) -> None:
    """Install streamproof as a user would, and the tools of the given dependency groups."""
    # setuptools builds in ./build and ships all that it finds there, deleted modules included.
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    package = f".[{extras}]" if extras else "."
    session.install(*(["-e"] if editable else []), package, *tools(*groups))


@nox.session
def demo(session: nox.Session) -> None:
    """Judge our RocksDB store and two that are in production use; write an HTML report."""
    install(session, extras=ADAPTED_STORES)
    out = ROOT / "streamproof-out"
    # A store that breaks a promise (1) or keeps only some (2) is a finding, not an error.
    session.run(
        *("streamproof", "verify", "rocksdb", "quixstreams", "faust-streaming"),
        *("--profile", "quick", "--out", str(out), *session.posargs),
        success_codes=[0, 1, 2],
    )
    session.log(f"The report: {out / 'report.html'}")


WORKERS = min(4, (os.cpu_count() or 1) + 1)
"""Tests that run at a time: one more than cores, since many wait for a process of their own to
start, to hang or to die. More than a few would only wait for each other."""

LONG_WORKERS = WORKERS + 1
"""Long tests that run at a time: more of them wait, for brokers and for JVMs."""


def side_by_side(workers: int) -> tuple[str, ...]:
    """Options of pytest. Neighbours stay together, because they share what takes long to make."""
    return f"--numprocesses={workers}", "--dist=worksteal", "--durations=25"


MEMORY_NEEDED_BYTES = 2 * 1024**3
"""Free space from which on the memory file system is used for the files of tests."""


def memory_file_system() -> Path | None:
    """The memory file system, if it has room: on a disk, tests wait wherever a store syncs."""
    memory = Path("/dev/shm")  # noqa: S108 - a private directory is made in it.
    room = shutil.disk_usage(memory).free if os.access(memory, os.W_OK | os.X_OK) else 0
    return memory if room >= MEMORY_NEEDED_BYTES else None


@nox.session
def environment(session: nox.Session) -> None:
    """Install streamproof and what checks it, once for all sessions that need both."""
    install(session, "lint", "typecheck", "test", "examples", extras=EVERY_EXTRA)


def command(session: nox.Session, name: str) -> str:
    """The path of a command of the session `environment`."""
    return str(ROOT / session.cache_dir.parent / "environment" / "bin" / name)


def run(session: nox.Session, name: str, *arguments: str, **options: Any) -> None:
    """Run a command of the session `environment`, which its own commands find before others."""
    program = command(session, name)
    path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
    session.run(program, *arguments, external=True, env={"PATH": path}, **options)


def run_tests(session: nox.Session, *arguments: str) -> None:
    """Run pytest with these arguments, and keep the files of tests in memory if there is room."""
    with TemporaryDirectory(dir=memory_file_system()) as temporary:
        ours = ("--hypothesis-profile=ci", f"--basetemp={temporary}/tests")
        run(session, "pytest", *ours, *arguments)


@nox.session(venv_backend="none", requires=["environment"])
def tests(session: nox.Session) -> None:
    """Run the tests that answer soon, or with arguments, pass these to pytest."""
    run_tests(session, *(session.posargs or (*side_by_side(WORKERS), "-m", "not full")))


@nox.session(venv_backend="none", requires=["environment"])
def tests_full(session: nox.Session) -> None:
    """Run the long tests; tests/long_tests.toml says what covers each in the session `tests`."""
    run_tests(session, *side_by_side(LONG_WORKERS), "-m", "full", *session.posargs)


@nox.session(venv_backend="none", requires=["environment"])
def coverage(session: nox.Session) -> None:
    """Run the tests once more, slower, and see that enough branches are covered."""
    run(session, "coverage", "erase")
    pytest = command(session, "pytest")
    run(session, "coverage", "run", pytest, "--hypothesis-profile=ci", *side_by_side(WORKERS))
    run(session, "coverage", "combine", "--quiet")
    run(session, "coverage", "report")


@nox.session(venv_backend="none", requires=["environment"])
def lint(session: nox.Session) -> None:
    """Check style, formatting, which package imports which, and the subjects of new commits."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "python", "-P", str(ROOT / "tests" / "commit_subjects.py"))
    with TemporaryDirectory() as empty, session.chdir(empty):
        run(session, "lint-imports", "--no-cache", "--no-logo", "--config", str(PYPROJECT))


@nox.session(venv_backend="none", requires=["environment"])
def typecheck(session: nox.Session) -> None:
    """Check the types of the installed package, of the examples and of this file, strictly."""
    mypy = ("mypy", "--config-file", str(PYPROJECT), "--cache-dir", str(ROOT / ".mypy_cache"))
    scripts = [str(path) for path in sorted(ROOT.glob("examples/**/*.py"))]
    with TemporaryDirectory() as empty, session.chdir(empty):
        run(session, *mypy, "--package", "streamproof")
        # One at a time: two examples may have files of the same name.
        for script in scripts:
            run(session, *mypy, script)
        run(session, *mypy, str(ROOT / "noxfile.py"))


@nox.session(reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """Build, install the wheel alone in an empty environment, check that it is whole, use it."""
    session.install(*tools("build"))
    with TemporaryDirectory() as temporary:
        dist, env, empty = (Path(temporary) / name for name in ("dist", "env", "empty"))
        # The wheel is built from the sdist: both have to be complete.
        session.run("pyproject-build", "--outdir", str(dist), str(ROOT), silent=True)
        session.run("python", "-m", "venv", str(env))
        (built,) = dist.glob("*.whl")
        session.run(f"{env}/bin/pip", "install", "--quiet", str(built), external=True)
        empty.mkdir()
        with session.chdir(empty):
            check = str(ROOT / "tests" / "wheel_check.py")
            session.run(f"{env}/bin/python", "-P", check, str(ROOT), external=True)
            session.run(f"{env}/bin/streamproof", "--version", external=True)
            session.run(
                *(f"{env}/bin/streamproof", "verify", "in-memory", "rocksdb"),
                *("--profile", "smoke", "--seed", "0", "--out", "out"),
                external=True,
            )


@nox.session(venv_backend="none")
def java_lint(session: nox.Session) -> None:
    """Check the style of all Java with Checkstyle."""
    if shutil.which("mvn") is None:
        session.skip("Maven is not installed, so the style of the Java sources is not checked")
    with TemporaryDirectory() as directory:
        session.run(
            *("mvn", "--quiet", "--batch-mode", f"-Dstyle.directory={directory}"),
            *("--file", str(ROOT / "tests" / "java_style" / "pom.xml"), "checkstyle:check"),
            external=True,
        )


KAFKA_RELEASES = (
    *("3.9.0", "3.9.2", "4.0.0", "4.0.2", "4.1.2", "4.2.1", "4.2.2", "4.3.0", "4.3.1", "4.4.0"),
)
"""The first and the newest release that can be verified, and those between that may differ."""


@nox.session
def kafka_releases(session: nox.Session) -> None:
    """Compile the store host for each release of Kafka, and ask its stores a few questions.

    Arguments are options of `streamproof verify`. It needs a JDK and Maven.
    """
    install(session)
    options = session.posargs or ("--only", "KV-002,OFFSET-001,OFFSET-003,RESTORE-001,LIFE-001")
    known = str(ROOT / "tests" / "kafka_known_failures.toml")
    verify = ["streamproof", "verify", "--profile", "smoke", "--seed", "0", "--spec", "kafka-4.3"]
    verify += ["--layer", "task", "--known-failures", known]
    stores = [
        f"kafka:{store}@{release}"
        for release in KAFKA_RELEASES
        for store in ("rocksdb", "rocksdb-window", "in-memory")
    ]
    with TemporaryDirectory() as empty, session.chdir(empty):
        for guarantee in ("at-least-once", "exactly-once"):
            session.run(*verify, *stores, "--guarantee", guarantee, *options)


@nox.session
def fidelity_decisions(session: nox.Session) -> None:
    """Hold the simulator's decisions against Kafka's classes; it needs a JDK and Maven.

    The arguments are how many histories for each decision, 100,000 by default, which takes half an
    hour, and words of the decisions to compare, all by default.
    """
    install(session)
    tests_folder = ROOT / "tests"
    session.run(
        *("python", "-P", str(tests_folder / "fidelity_decisions.py"), *session.posargs),
        env={"PYTHONPATH": str(tests_folder)},
    )


@nox.session
def bench(session: nox.Session) -> None:
    """Print each figure of speed beside its goal and the last entry of its history.

    The arguments are those of benchmarks/goals.py: `--keep` adds an entry, and words choose the
    figures. The tables need Java 17.
    """
    install(session, extras="sail")
    goals = str(ROOT / "benchmarks" / "goals.py")
    # 2 says that something became slower; the figures depend on what else the machine does.
    session.run("python", goals, *session.posargs, success_codes=[0, 2])


@nox.session
def false_alarms(session: nox.Session) -> None:
    """Judge every store that keeps its promises with many seeds: hours, so apart from the rest.

    The arguments are how many seeds, 20 by default, `--java` for the stores in Java, and options of
    `streamproof verify`.
    """
    install(session)
    script = str(ROOT / "tests" / "false_alarms.py")
    # Without -P, as the script imports its neighbour.
    session.run("python", script, *(session.posargs or ["20"]))


@nox.session
def planted(session: nox.Session) -> None:
    """Judge the stores that strangers planted: an hour; arguments are options of `verify`."""
    install(session, "examples")
    script = str(ROOT / "tests" / "planted_stores.py")
    session.run("python", "-P", script, *(session.posargs or ["--seed", "0"]))


@nox.session
def planted_runtime(session: nox.Session) -> None:
    """Search for mistakes that strangers planted in the runtime: up to an hour and a half.

    The arguments are `--budget TIME`, `--seed N` and names of mistakes.
    """
    install(session)
    script = str(ROOT / "tests" / "planted_runtime.py")
    session.run("python", "-P", script, *session.posargs)


@nox.session
def saved_programs(session: nox.Session) -> None:
    """Run all programs that the mutants leave: an hour; arguments are mutants and options."""
    install(session)
    script = str(ROOT / "tests" / "saved_programs.py")
    session.run("python", "-P", script, *session.posargs)


@nox.session
def fidelity_scenarios(session: nox.Session) -> None:
    """Play the library in the simulator and on Kafka, and write a table of docs/fidelity.md.

    It takes half an hour, and needs a JDK and Maven. The argument is a file that keeps the rows, so
    that an interrupted run goes on.
    """
    install(session)
    script = str(ROOT / "tests" / "fidelity_scenarios.py")
    with TemporaryDirectory() as directory:
        kept = session.posargs or [str(Path(directory) / "rows.ndjson")]
        session.run("python", "-P", script, *kept)


@nox.session
def exploration(session: nox.Session) -> None:
    """Explore the simulator: `seeds FROM TO` finds nothing, `defects TO [NAME ...]` finds each."""
    install(session)
    script = str(ROOT / "tests" / "exploration.py")
    session.run("python", "-P", script, *(session.posargs or ["seeds", "0", "1000"]))


@nox.session
def exploration_branches(session: nox.Session) -> None:
    """Explore `FROM TO` under coverage, and name the branches that no world of them takes."""
    install(session, "test")
    settings = f"--rcfile={ROOT / 'tests' / 'exploration_branches.toml'}"
    script = str(ROOT / "tests" / "exploration.py")
    with TemporaryDirectory() as directory:
        data = f"--data-file={Path(directory) / 'coverage'}"
        seeds = session.posargs or ["0", "600"]
        explored = ("coverage", "run", settings, data, script, "seeds", *seeds, "--jobs", "1")
        # So few worlds do not have all situations, which is what the exit code 1 says.
        session.run(*explored, success_codes=[0, 1])
        session.run("coverage", "report", settings, data)


@nox.session
def campaign(session: nox.Session) -> None:
    """Run 20,000 worlds and 5 stores, kill the driver and a worker, and count: needs Java 17.

    The argument is how many worlds, if there shall be fewer.
    """
    install(session, extras="spark")
    script = str(ROOT / "tests" / "pipeline" / "killed_campaign.py")
    session.run("python", "-P", script, *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Carry out a plan on a standalone cluster of two workers, too, with a packed environment.

    The arguments are the plan, and the directory of the campaign that one machine made of it, if it
    is there already. The tables must be the same. It needs Java 17.
    """
    install(session, extras="spark")
    session.install("venv-pack>=0.2")
    script = str(ROOT / "tests" / "pipeline" / "standalone.py")
    session.run(
        "python",
        "-P",
        script,
        *(session.posargs or [str(ROOT / "examples" / "campaigns" / "plan.toml")]),
    )


@nox.session
def connected(session: nox.Session) -> None:
    """Carry out a plan, judge it again and report on it by a Spark Connect server: needs Java 17.

    The argument is the address of a server, if it shall be another one than that which is started.
    """
    install(session, extras="connect")
    script = str(ROOT / "tests" / "pipeline" / "connected.py")
    session.run("python", script, *session.posargs)


@nox.session
def dev(session: nox.Session) -> None:
    """Prepare .nox/dev for daily work: the package, editable, and every tool."""
    groups = ("lint", "typecheck", "test", "examples")
    install(session, *groups, extras=EVERY_EXTRA, editable=True)
    session.log(f"Ready: {session.bin}/pytest, {session.bin}/streamproof, {session.bin}/ruff")
