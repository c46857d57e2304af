"""Finds all checks: importing their modules registers them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType

from streamproof.conformance.catalogue import Binds, Requirement, unmet_need
from streamproof.conformance.check_registry import Check, registered
from streamproof.conformance.subject import binds_of
from streamproof.stores.capabilities import Capabilities

__all__ = ["checks_for", "checks_of", "load_checks"]


@functools.cache
def load_checks(binds: Binds = "store") -> dict[str, Check]:
    """All checks of one kind by name, in the order of the modules' names and of their lines."""
    package = _package(binds)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return registered(package.__name__)


def _package(binds: Binds) -> ModuleType:
    # Checks of the runtime import the whole simulator; checks of stores start faster without it.
    if binds == "runtime":
        from streamproof.conformance import runtime_checks

        return runtime_checks
    if binds == "application":
        from streamproof.conformance import application_checks

        return application_checks
    if binds == "real-runtime":
        from streamproof.conformance import real_runtime_checks

        return real_runtime_checks
    from streamproof.conformance import checks

    return checks


def checks_for(subject: str) -> dict[str, Check]:
    """All checks for a subject of this name."""
    return load_checks(binds_of(subject))


def checks_of(requirement: Requirement, subject: str, capabilities: Capabilities) -> list[str]:
    """The names of the checks of a requirement that have something to try in a subject."""
    checks = checks_for(subject)
    return [name for name in requirement.checks if not unmet_need(capabilities, checks[name].needs)]
