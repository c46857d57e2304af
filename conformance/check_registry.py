"""The checks: functions that put one or more requirements to the test.

A check registers itself with :func:`check`. It is one of three kinds: an *example* gets a
:class:`~streamproof.conformance.trial.Trial`; a *property* also gets generated arguments, and
is run many times; a *raw* check gets the whole run and drives it itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamproof.conformance.generators import Generators

__all__ = ["UNCLEAN", "Check", "Given", "check", "registered"]

UNCLEAN = ("CRASH-009", "POWER-015")
"""The promises that a store notices an unclean stop, after a kill and after a loss of power."""

Given = Callable[[Generators], dict[str, Any]]
"""From the generators for a subject, the strategy for each argument of a property."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: ``area.function``, as ``kv.put_and_get`` of ``kv_checks``.
        requirements: the requirements that it tests. The first one is blamed for an unexpected
            failure that belongs to no particular requirement.
        function: the function that runs the check.
        given: the strategies for the arguments of a property.
        raw: whether the function drives the run itself.
        weight: the rough duration, with an example as 1; the heaviest checks start first.
        prepare: imports the modules that the function needs and most checks do without. It is
            called before the check is forked, so that the forks do not import them again.
        needs: the capabilities that a subject needs for the check to have anything to try; in the
            words of requirements. The check does not run on other subjects, and is no part of
            their results.
        sums_up: whether every broken promise counts as the first requirement, because the check
            asks whether all of them hold in one situation.
        leaves_out: the promises that a check that sums up leaves to other checks.
    """

    name: str
    requirements: tuple[str, ...]
    function: Callable[..., None]
    given: Given | None
    raw: bool
    weight: int = 1
    prepare: Callable[[], None] = lambda: None
    needs: tuple[str, ...] = ()
    sums_up: bool = False
    leaves_out: tuple[str, ...] = UNCLEAN

    @property
    def tried(self) -> str:
        """The purpose of the check, in one sentence: the first line of its docstring."""
        return (inspect.getdoc(self.function) or self.name).splitlines()[0]

    def reported_as(self, requirement: str) -> str:
        """The requirement that a broken promise counts as; empty if the check leaves it out."""
        if not self.sums_up or requirement in self.requirements:
            return requirement
        return "" if requirement in self.leaves_out else self.requirements[0]


_checks: dict[str, Check] = {}


def check(
    *requirements: str,
    given: Given | None = None,
    raw: bool = False,
    **attributes: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a check of ``requirements``, with attributes of :class:`Check`."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        module = function.__module__.rpartition(".")[2].removesuffix("_checks")
        name = f"{module}.{function.__name__}"
        _checks[name] = Check(name, requirements, function, given, raw, **attributes)
        return function

    return register


def registered(package: str) -> dict[str, Check]:
    """The checks in the modules of a package that are imported so far, by name."""
    return {
        name: each
        for name, each in _checks.items()
        if each.function.__module__.startswith(f"{package}.")
    }
