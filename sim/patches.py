"""Patches: mistakes that users bring with them, as functions in a Python file.

A patch replaces the function of a seam (:mod:`streamproof.sim.seams`) for one run. Its first
argument is the function that it replaces. The file is loaded anew for each run, so what one run has
left in its variables cannot change another run.

The runtime expects errors of brokers and stores, so a patch may raise them: they are part of the
mistake. Any other error that a patch raises is a mistake in the patch, and never the runtime's.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isgenerator
from pathlib import Path
from typing import Any

from streamproof.errors import UsageError
from streamproof.sim.broker_errors import BrokerError, PatchError
from streamproof.sim.choices import Choices
from streamproof.sim.seams import SEAMS, opened
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.world_plan import Plan
from streamproof.stores.errors import StoreError

__all__ = ["Patch", "Patched", "patch_at", "problem_of"]


@dataclass(frozen=True)
class Patch:
    """A function that takes the place of a function of the runtime.

    Attributes:
        file: the Python file.
        function: the name of the function in it.
        seam: the function that it replaces, one of ``SEAMS``.
    """

    file: Path
    function: str
    seam: str

    @property
    def name(self) -> str:
        """The patch as a scenario names it, without the directory: ``tickets.py:forget``."""
        return f"{self.file.name}:{self.function}"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the runtime make the mistake inside the block.

        Raises:
            PatchError: the file cannot be loaded, or has no such function.
        """
        seam = SEAMS[self.seam]
        original = getattr(seam.owner, seam.function)
        wrap = _with_steps if seam.has_steps else _plain
        with opened(self.seam, wrap(self, self._loaded(), original)):
            yield

    def _loaded(self) -> Callable[..., Any]:
        spec = spec_from_file_location(f"streamproof_patch_{self.file.stem}", self.file)
        if spec is None or spec.loader is None:
            raise PatchError(f"{self.file} is no Python file. Name a file that ends in .py.")
        module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise PatchError(f"{self.file} cannot be loaded: {_told(error)}. Mend it.") from error
        found = getattr(module, self.function, None)
        if not callable(found):
            raise PatchError(f"{self.file} has no function {self.function!r}. Define it there.")
        return found  # type: ignore[no-any-return]

    def path_from(self, directory: Path) -> str:
        """The patch as a scenario in a directory names it."""
        return f"{Path(os.path.relpath(self.file, directory)).as_posix()}:{self.function}"

    def failed(self, error: BaseException) -> PatchError:
        """The error of the patch, as the user sees it."""
        return PatchError(
            f"The patch {self.name} raised {_told(error)}. This is a mistake in the patch, not in "
            f"the runtime: mend {self.file}. It replaces {self.seam}"
            f"({SEAMS[self.seam].arguments}), and gets the replaced function first."
        )


def patch_at(words: str, seam: str, directory: Path) -> Patch:
    """A patch from its name in a scenario or on a command line.

    Args:
        words: ``FILE.py:FUNCTION``; the file is relative to the directory.
        seam: the name of the seam.
        directory: of the scenario, or the current one.

    Raises:
        UsageError: the name, the file, the function or the seam is wrong.
    """
    if problem := problem_of(words, seam, directory):
        raise UsageError(f"{problem[0].upper()}{problem[1:]}.")
    file, _, function = words.rpartition(":")
    return Patch(directory / file, function, seam)


def problem_of(words: str, seam: str, directory: Path) -> str:
    """What is wrong with a patch, as a sentence without its end; empty if nothing is.

    The file is read, and not run.
    """
    file, _, function = words.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        return f"the patch {words!r} is not of the form FILE.py:FUNCTION"
    if not seam:
        return f"the patch {words!r} needs a seam, the function that it replaces"
    if seam not in SEAMS:
        return f"there is no seam {seam!r}; there are: {', '.join(SEAMS)}"
    try:
        tree = ast.parse((directory / file).read_bytes())
    except OSError as error:
        return f"the patch file {directory / file} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError) as error:
        return f"the patch file {directory / file} is no Python: {error}"
    defined = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    if function not in defined:
        listed = ", ".join(sorted(defined)) or "nothing"
        return f"{directory / file} defines no function {function!r}; it defines: {listed}"
    return ""


@dataclass(frozen=True)
class Patched:
    """Runs worlds in which the runtime has a patch. Instances can be pickled.

    Attributes:
        patch: the patch.
        simulate: runs a world.
    """

    patch: Patch
    simulate: Callable[..., Outcome] = run

    def __call__(self, choices: Choices, plan: Plan, **more: Any) -> Outcome:
        with self.patch.applied():
            return self.simulate(choices, plan, **more)


class _Passing:
    """The function that a patch replaces, which remembers the errors that it has raised.

    Attributes:
        raised: its last error; ``None`` before the first.
    """

    def __init__(self, original: Callable[..., Any]) -> None:
        self._original = original
        self.raised: BaseException | None = None

    def call(self, *arguments: Any, **more: Any) -> Any:
        """Call the function."""
        try:
            return self._original(*arguments, **more)
        except BaseException as error:
            self.raised = error
            raise

    def steps(self, *arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        """Take the steps of the function."""
        try:
            return (yield from self._original(*arguments, **more))
        except BaseException as error:
            self.raised = error
            raise

    def is_part(self, error: BaseException) -> bool:
        """Whether an error is the runtime's, or part of the mistake."""
        return error is self.raised or isinstance(error, BrokerError | StoreError)


def _plain(
    patch: Patch, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    """A patch in the place of a function that takes no time."""

    def replaced(*arguments: Any, **more: Any) -> Any:
        passing = _Passing(original)
        try:
            found = function(passing.call, *arguments, **more)
        except Exception as error:
            if passing.is_part(error):
                raise
            raise patch.failed(error) from error
        if isgenerator(found):
            raise patch.failed(TypeError("it contains yield, but its seam takes no time"))
        return found

    return replaced


def _with_steps(
    patch: Patch, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    """A patch in the place of a generator."""

    def replaced(*arguments: Any, **more: Any) -> Generator[Any, Any, Any]:
        passing = _Passing(original)
        try:
            found = function(passing.steps, *arguments, **more)
            return (yield from _steps_of(found))
        except Exception as error:
            if passing.is_part(error):
                raise
            raise patch.failed(error) from error

    return replaced


def _steps_of(found: Any) -> Generator[Any, Any, Any]:
    if isgenerator(found):
        return found
    raise TypeError("it contains no yield: call its first argument with `yield from`")


def _told(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
