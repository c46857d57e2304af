"""The checks: functions that put one or more requirements to the test.

A check registers itself with :func:`check`. It is one of three kinds: an *example* gets a
:class:`~streamproof.conformance.trial.Trial`; a *property* also gets generated arguments, and
is run many times; a *raw* check gets the whole run and drives it itself.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamproof.conformance import checks as checks_package
from streamproof.conformance.generators import Generators

__all__ = ["Check", "Given", "check", "load_checks"]

Given = Callable[[Generators], dict[str, Any]]
"""From the generators for a subject, the strategy for each argument of a property."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: ``module.function``.
        requirements: what it tests; the first is blamed for what is about none in particular.
        function: what does it.
        given: the arguments of a property.
        raw: whether the function drives the run itself.
        weight: how long it takes, roughly, against an example; the heaviest start first.
    """

    name: str
    requirements: tuple[str, ...]
    function: Callable[..., None]
    given: Given | None
    raw: bool
    weight: int

    @property
    def tried(self) -> str:
        """What the check does, in one sentence: the first line of its docstring."""
        return (inspect.getdoc(self.function) or self.name).splitlines()[0]


_checks: dict[str, Check] = {}


def check(
    *requirements: str, given: Given | None = None, raw: bool = False, weight: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a check of ``requirements``."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        _checks[name] = Check(name, requirements, function, given, raw, weight)
        return function

    return register


@functools.cache
def load_checks() -> dict[str, Check]:
    """All checks by name, in the order of the modules' names and of their lines."""
    for module in sorted(pkgutil.iter_modules(checks_package.__path__), key=lambda m: m.name):
        importlib.import_module(f"{checks_package.__name__}.{module.name}")
    return dict(_checks)
