"""The pytest plugin: ``pytest --pyargs streamproof.conformance --subject module:factory``.

pytest finds the plugin through its entry point. The plugin adds the options of ``streamproof
verify`` that make sense in a test run, and turns each requirement into a test. In a test module of
your own, :class:`streamproof.StateStoreConformance` does the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from streamproof.errors import NotTriedError, StartAnewError
from streamproof.search_path import search_directory

if TYPE_CHECKING:
    from streamproof.conformance.settings import Settings
    from streamproof.conformance.single_requirement import Verifier

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_pyfunc_call",
    "streamproof_settings",
    "streamproof_verifier",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("streamproof", "conformance of state stores")
    group.addoption(
        "--subject",
        action="append",
        default=[],
        help="verify this store: module:factory, path/to/file.py:factory, or a built-in name; "
        "repeatable",
    )
    group.addoption(
        "--streamproof-guarantee",
        choices=("exactly-once", "at-least-once"),
        default="exactly-once",
        help="run the store under this processing guarantee",
    )
    group.addoption(
        "--streamproof-spec",
        choices=("kips", "kafka-4.3", "kafka-4.4"),
        default="kips",
        help="hold the store to the proposals as accepted, or as a Kafka release shipped them",
    )
    group.addoption(
        "--streamproof-profile",
        choices=("smoke", "quick", "full"),
        default="quick",
        help="try for seconds, for about a minute, or for many minutes",
    )
    group.addoption(
        "--streamproof-seed",
        type=int,
        default=0,
        help="fix every random decision, so that a run can be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that names a requirement, so that strict markers accept it."""
    config.addinivalue_line("markers", "requirement(id): the requirement that a test is about")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each requirement, and of each subject where the options name them."""
    # A test of another project may have an argument of one of these names by chance.
    if not {"requirement", "streamproof_verifier"} <= set(metafunc.fixturenames):
        return
    # Imported here, so that a pytest run without stores stays as fast as it was.
    from streamproof.conformance.catalogue import requirements_that_bind

    if "streamproof_subject" in metafunc.fixturenames:
        metafunc.parametrize("streamproof_subject", metafunc.config.getoption("--subject"))
    parameters = [
        pytest.param(each, id=each.id, marks=pytest.mark.requirement(each.id))
        for each in requirements_that_bind("store")
    ]
    metafunc.parametrize("requirement", parameters)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a test in a process of its own if it has to see system calls, as some programs have."""
    try:
        return (yield)
    except (NotTriedError, StartAnewError) as error:
        raised = error
    # Out of the block above, no report shows that error as the cause.
    if isinstance(raised, NotTriedError):
        pytest.skip(str(raised))
    _run_apart(pyfuncitem, raised.environment)
    return True


def _run_apart(test: pytest.Function, environment: dict[str, str]) -> None:
    """Run a test in a process with more variables in its environment, and fail if it fails."""
    config = test.config
    name = "::".join([str(test.path), *test.nodeid.split("::")[1:]])
    command = [sys.executable, "-P", "-m", pytest.__name__, "-q", f"--rootdir={config.rootpath}"]
    command += [f"--config-file={config.inipath}"] if config.inipath else []
    # The options of the project count, but one test needs no workers and covers little.
    command += [
        option
        for plugin, option in {"xdist": "-n0", "_cov": "--no-cov"}.items()
        if config.pluginmanager.hasplugin(plugin)
    ]
    inherited = {
        each: value for each, value in os.environ.items() if not each.startswith("PYTEST_XDIST")
    }
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [*command, name],
        cwd=config.invocation_params.dir,
        env={**inherited, **environment, "PYTHONPATH": paths},
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}"
        pytest.fail(f"The test failed in a process that sees system calls:\n{said}", pytrace=False)


@pytest.fixture(scope="session")
def streamproof_verifier() -> Iterator[Verifier]:
    """Verifies single requirements. Its processes end with the session."""
    from streamproof.conformance.single_requirement import Verifier

    search_directory()
    verifier = Verifier()
    yield verifier
    verifier.close()


@pytest.fixture(scope="session")
def streamproof_settings(pytestconfig: pytest.Config) -> Settings:
    """The settings of every check, from the options."""
    from streamproof.conformance.settings import Settings

    return Settings(
        guarantee=pytestconfig.getoption("--streamproof-guarantee"),
        spec=pytestconfig.getoption("--streamproof-spec"),
        profile=pytestconfig.getoption("--streamproof-profile"),
        seed=pytestconfig.getoption("--streamproof-seed"),
    )
