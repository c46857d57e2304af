"""Subjects: the stores under test, and how a name on a command line becomes one.

A subject is named as ``module:factory``, as ``path/to/file.py:factory``, or by a built-in
name. The factory needs no arguments and returns a store that is not open yet. If it has a parameter
``name``, it makes stores of other names, too. ``cmd:`` and a command name a store host, which is a
store in a process of its own (docs/store-host.md). ``kafka:`` and ``java:`` name stores of the JVM
(docs/jvm-stores.md).

``runtime`` is no store: it is the simulated runtime, and ``runtime:ignores-lag`` is the same with
one of its defects switched on. ``runtime:kafka@4.3.1`` is Kafka Streams itself, in real processes.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from streamproof.conformance.as_key_value import rows_of
from streamproof.conformance.catalogue import Binds
from streamproof.conformance.results import SubjectInfo
from streamproof.errors import UsageError
from streamproof.near_names import near_names
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.host.client import HostFactory
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, require_release
from streamproof.stores.jvm.subjects import command_of, description_of, is_of_the_jvm
from streamproof.version import __version__

__all__ = [
    "REAL_RUNTIME",
    "RUNTIME",
    "Subject",
    "binds_of",
    "builtin_names",
    "defect_of",
    "load_subject",
    "release_of_runtime",
]

RUNTIME = "runtime"
"""The name of the simulated runtime."""

REAL_RUNTIME = f"{RUNTIME}:kafka"
"""The name of Kafka Streams itself; a release may follow, as in ``runtime:kafka@4.3.1``."""

APPLICATION = ".toml"
"""How the name of the file ends that describes an application."""

HOST = "cmd:"
"""The prefix of a subject that is the command of a store host."""

OURS = "streamproof"
"""The distribution that most built-in subjects come from."""

MIN_RETENTION_MS = 100
"""The least retention of a window or session store. The suite spreads its times over it, and a
shorter one would not have enough different times."""


SUGGESTED_BY = {
    "explicit_transactions": "new_transaction",
    "read_only_views": "read_only",
    "timestamped": "get_with_timestamp",
    "position": "position",
    "in_place_upgrade": "rebuild",
}
"""Capabilities that a store may forget to claim, each with a method that no other store has."""


@dataclass(frozen=True)
class Subject:
    """A store under test.

    Attributes:
        name: the name that the user wrote.
        factory: makes a store that is not open yet.
        capabilities: the claims of the store, declared or inferred from its methods.
        module: the module of the factory, whose literals become test inputs.
        inferred: whether the store declares no claims.
        unclaimed: capabilities that the store does not claim, each with a method that suggests it.
    """

    name: str
    factory: Callable[[], Any]
    capabilities: Capabilities
    module: ModuleType | None
    inferred: bool = False
    unclaimed: Mapping[str, str] = field(default_factory=dict)

    @property
    def opener(self) -> str:
        """The method of a lab that opens the subject as a key-value store."""
        return "open" if self.capabilities.kind == "key-value" else "rows"

    @property
    def is_remote(self) -> bool:
        """Whether the store lives in a process of its own."""
        is_real = binds_of(self.name) in ("application", "real-runtime")
        return isinstance(self.factory, HostFactory) or is_real

    @property
    def ends_with_process(self) -> bool:
        """Whether the store lives in a process of its own that ends when the store is closed."""
        return isinstance(self.factory, HostFactory) and not self.factory.reopens

    @property
    def takes_name(self) -> bool:
        """Whether the factory has a parameter ``name``, and so makes stores of several names."""
        if isinstance(self.factory, HostFactory):
            return self.factory.takes_name
        try:
            return "name" in inspect.signature(self.factory).parameters
        except (TypeError, ValueError):
            # Some callables of extension modules tell no signature.
            return False

    def named(self, name: str) -> Subject:
        """The subject as a factory of stores of this name. The factory takes a name."""
        if isinstance(self.factory, HostFactory):
            return replace(self, factory=self.factory.named(name))
        factory: Callable[..., Any] = self.factory
        return replace(self, factory=partial(factory, name=name))

    @property
    def shares_directory(self) -> bool:
        """Whether several stores of the subject can lie in one directory, and commit alike.

        A store with one partition may know that by its own name, and refuse all others.
        """
        return self.takes_name and self.capabilities.several_partitions

    def unopened(self) -> Any:
        """A new store that is not open, seen as a key-value store."""
        return rows_of(self.factory(), self.capabilities)

    def info(self) -> SubjectInfo:
        """The description of the subject for a report."""
        if binds_of(self.name) == "runtime":
            package, version = _distribution(OURS, None)
            return SubjectInfo(
                name=self.name,
                description=_runtime_description(defect_of(self.name)),
                package=package,
                version=version,
            )
        if binds_of(self.name) == "real-runtime":
            return SubjectInfo(
                name=self.name,
                description="Kafka Streams itself, in real processes that are really killed.",
                package="kafka-streams",
                version=release_of_runtime(self.name),
            )
        if binds_of(self.name) == "application":
            return SubjectInfo(
                name=self.name,
                description="An application on Kafka Streams, which is really killed.",
                version=_digest_of(Path(self.name)),
            )
        if isinstance(self.factory, HostFactory):
            return SubjectInfo(
                name=self.name,
                description=description_of(self.name) or "A store host.",
                package=self.factory.hello.name,
                version=self.factory.hello.version,
                capabilities=asdict(self.capabilities),
            )
        builtin = BUILTIN.get(self.name)
        package, version = _distribution(builtin.package if builtin else "", self.module)
        version = version or _digest(self.module)
        described = builtin.description if builtin else ""
        doc = described or inspect.getdoc(self.factory) or inspect.getdoc(self.module) or ""
        return SubjectInfo(
            name=self.name,
            description=doc.strip().splitlines()[0][:200] if doc.strip() else "",
            package=package,
            version=version,
            capabilities=asdict(self.capabilities),
            inferred=self.inferred,
            unclaimed=dict(self.unclaimed),
        )


def builtin_names() -> list[str]:
    """The names of the subjects that come with streamproof."""
    return list(BUILTIN)


def binds_of(name: str) -> Binds:
    """The kind of requirements that apply to a subject of this name."""
    if name.endswith(APPLICATION):
        return "application"
    if name.partition("@")[0] == REAL_RUNTIME:
        return "real-runtime"
    return "runtime" if name == RUNTIME or defect_of(name) else "store"


def defect_of(name: str) -> str:
    """The defect of the runtime in this name; empty if the name has none.

    A defect has a hyphen in its name, so it cannot be a factory in a user's module ``runtime``.
    """
    module, _, defect = name.partition(":")
    return defect if module == RUNTIME and "-" in defect else ""


def release_of_runtime(name: str) -> str:
    """The release of Kafka in the name of Kafka Streams itself; the newest one by default.

    Raises:
        UsageError: the name has no release of Kafka.
    """
    _, at, release = name.partition("@")
    if at and not release:
        raise UsageError(
            f"Subject {name!r}: give a release, as in {REAL_RUNTIME}@{DEFAULT_RELEASE}."
        )
    require_release(release or DEFAULT_RELEASE)
    return release or DEFAULT_RELEASE


def _runtime_description(defect: str) -> str:
    from streamproof.sim.defects import DEFECTS

    about = "The simulated runtime: brokers, tasks, rebalances, crashes."
    return f"{about} Its defect: {DEFECTS[defect].what}" if defect else about


def _runtime(name: str) -> Subject:
    # A store needs no simulator.
    from streamproof.sim.defects import require_defects

    require_defects([defect] if (defect := defect_of(name)) else [])

    return Subject(name, _no_store, Capabilities(), None)


def _no_store() -> None:
    raise UsageError("This is no store, so it cannot be opened: name a store instead.")


def _application(name: str) -> Subject:
    # A store needs no scenarios.
    from streamproof.scenarios.kafka.application_file import read_application

    read_application(Path(name))
    return Subject(name, _no_store, Capabilities(), None)


def load_subject(name: str) -> Subject:
    """Find the factory with this name, call it once, and read the claims of the store.

    Raises:
        UsageError: the module, the factory or its store is unusable; the message says why.
    """
    if binds_of(name) == "runtime":
        return _runtime(name)
    if binds_of(name) == "real-runtime":
        release_of_runtime(name)
        return Subject(name, _no_store, Capabilities(), None)
    if binds_of(name) == "application":
        return _application(name)
    if name.startswith(HOST):
        return _remote(name, HostFactory(name.removeprefix(HOST)))
    if is_of_the_jvm(name):
        return _remote(name, HostFactory(command_of(name), name))
    module, factory = _resolve(name)
    try:
        store = factory()
    except Exception as error:
        raise UsageError(
            f"Subject {name!r}: the factory raised {_brief(error)}. It must take no arguments "
            "and return a store that is not open yet."
        ) from error
    if not callable(getattr(store, "init", None)):
        raise UsageError(
            f"Subject {name!r}: the factory returned {type(store).__name__}, which has no method "
            "init(context, root). It must return a store."
        )
    declared = _declared_capabilities(name, factory, store)
    capabilities = _inferred_capabilities(store) if declared is None else declared
    unclaimed = _unclaimed(store, capabilities)
    return Subject(name, factory, capabilities, module, declared is None, unclaimed)


def _remote(name: str, host: HostFactory) -> Subject:
    """A store in a host, which declares its claims."""
    _require_times(name, host.capabilities)
    return Subject(name, host, host.capabilities, None)


def _resolve(name: str) -> tuple[ModuleType | None, Callable[[], Any]]:
    target = name
    if name in BUILTIN:
        target = BUILTIN[name].factory
    module_name, colon, attribute = target.rpartition(":")
    if not colon or not module_name or not attribute:
        near = near_names(name, [*builtin_names(), RUNTIME])
        hint = f"Did you mean {near}? " if near else ""
        raise UsageError(
            f"There is no subject {name!r}. {hint}`streamproof subjects` lists all. Name a store "
            "of yours as module:factory, path.py:factory, java:class or cmd:command."
        )
    module = _import(name, module_name)
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UsageError(
                f"Subject {name!r}: {module_name} has no attribute {attribute!r}."
            ) from None
    if not callable(found):
        raise UsageError(f"Subject {name!r}: {attribute!r} is not callable, so it is no factory.")
    return module, found


def _import(name: str, module_name: str) -> ModuleType:
    try:
        if module_name.endswith(".py"):
            return _import_file(Path(module_name))
        return importlib.import_module(module_name)
    except UsageError:
        raise
    except ModuleNotFoundError as error:
        extra = BUILTIN[name].extra if name in BUILTIN else None
        if extra:
            hint = f"install it with: pip install 'streamproof[{extra}]'"
        else:
            hint = "check the spelling, and install it or change to its directory"
        raise UsageError(f"Subject {name!r}: no module named {error.name!r}; {hint}.") from error
    except Exception as error:
        raise UsageError(
            f"Subject {name!r}: importing {module_name} raised {_brief(error)}."
        ) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"There is no file {str(path)!r} to load a subject from.")
    module_name = f"streamproof_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


def _declared_capabilities(name: str, factory: object, store: object) -> Capabilities | None:
    """The claims that the factory or the store declares; ``None`` if neither declares any."""
    for owner in (factory, store):
        declared = getattr(owner, "capabilities", None)
        if isinstance(declared, Capabilities):
            _require_times(name, declared)
            return declared
        if isinstance(declared, property):
            # The factory is a class with a property, so only its instance has the value.
            continue
        if declared is not None:
            raise UsageError(
                f"Subject {name!r}: its attribute 'capabilities' is {type(declared).__name__}, "
                "not streamproof.Capabilities."
            )
    return None


def _require_times(name: str, declared: Capabilities) -> None:
    """Raise UsageError if a window or session store lacks a declaration that the suite needs."""
    if declared.kind == "key-value":
        return
    least = {"retention_ms": MIN_RETENTION_MS}
    if declared.kind == "window":
        least["window_size_ms"] = 1
    if "segment" in (declared.expiry, declared.scan_order):
        least["segment_interval_ms"] = 1
    for claim, minimum in least.items():
        if getattr(declared, claim) < minimum:
            raise UsageError(
                f"Subject {name!r}: a {declared.kind} store must declare {claim} in its "
                f"capabilities, at least {minimum}; it declares {getattr(declared, claim)}."
            )


def _inferred_capabilities(store: object) -> Capabilities:
    """The claims that the methods of an undeclared store suggest. They exclude transactions."""

    def has(*methods: str) -> bool:
        return all(callable(getattr(store, method, None)) for method in methods)

    return Capabilities(
        persistent=getattr(store, "persistent", True) is True,
        manages_offsets=has("commit", "committed_offset")
        and getattr(store, "manages_offsets", True) is True,
        scan=has("all"),
        ranges=has("range"),
        reverse=has("reverse_range", "reverse_all"),
        prefix_scan=has("prefix_scan"),
        entry_count=has("approximate_num_entries"),
        iterator_view="weak",
    )


def _unclaimed(store: object, capabilities: Capabilities) -> dict[str, str]:
    """The capabilities that are not claimed, although a method of the store suggests them."""
    return {
        name: method
        for name, method in SUGGESTED_BY.items()
        if not getattr(capabilities, name) and _defines(store, method)
    }


def _defines(store: object, method: str) -> bool:
    """Whether a store has a method from elsewhere than the interfaces of streamproof."""
    owner = next((each for each in type(store).__mro__ if method in vars(each)), None)
    return owner is not None and not owner.__module__.startswith("streamproof.stores.")


def _distribution(package: str, module: ModuleType | None) -> tuple[str, str]:
    """The name and the version of the distribution that a subject comes from."""
    top_level = module.__name__.partition(".")[0] if module is not None else ""
    if (package or top_level) == OURS:
        return OURS, __version__
    # Every crash starts a new store host, and a host in Python starts faster without this import.
    from importlib import metadata

    if not package:
        # This reads the files of all distributions.
        package = next(iter(metadata.packages_distributions().get(top_level, [])), "")
    try:
        return package, metadata.version(package) if package else ""
    except metadata.PackageNotFoundError:
        return package, ""


def _digest(module: ModuleType | None) -> str:
    """A name for the content of a module's file; empty for a module without a file.

    Two reports on one store can then be told apart if the store has changed in between.
    """
    file = getattr(module, "__file__", None)
    return "" if file is None else _digest_of(Path(file))


def _digest_of(path: Path) -> str:
    return f"digest {blake2b(path.read_bytes(), digest_size=4).hexdigest()}"


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
