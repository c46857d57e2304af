"""Reads scenario files: TOML, merged with the files that it extends, and checked to the last key.

An error names the file, the line and the key, and lists the allowed keys or values.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from streamproof.errors import StreamproofError, UsageError
from streamproof.near_names import near_names
from streamproof.scenarios.scenario import Scenario, ScenarioFile, Setup, Variant, schema
from streamproof.scenarios.scenario_validation import Problem, problems_of
from streamproof.sim.application import StreamsConfig
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan, PlanError

__all__ = ["find", "library", "read"]

Keys = tuple[str | int, ...]
"""A place in a file: keys of tables and indexes of lists, the outermost first."""

MOST_EXTENDED = 5
"""The longest chain of files that extend each other. The limit also ends a circle of files."""

SECTIONS = ("settings", "plan", "workload")
"""The tables that ``--set`` and a matrix may change."""


def library() -> dict[str, Path]:
    """The scenarios that come with streamproof, by name."""
    root = Path(str(resources.files(__package__) / "library"))
    return {path.stem: path for path in sorted(root.glob("*.toml"))}


def find(name: str) -> Path:
    """The file of a scenario, from its path or from its name in the library.

    Raises:
        UsageError: no scenario has this name.
    """
    known = library()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        return path
    near = near_names(name, known)
    hint = f"Did you mean {near}?" if near else "`streamproof scenarios` lists them."
    raise UsageError(f"There is no scenario {name!r}, and no file of that name. {hint}")


def read(path: Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario file.

    Args:
        path: the file.
        changes: values that replace those of the file, by setting. A setting is named as
            ``max_task_idle_ms``, or as ``workload.records`` if the bare name is ambiguous.

    Raises:
        UsageError: the file cannot be read, or an entry in it is wrong.
    """
    source = _Source(path)
    table = source.merged()
    for key, value in (changes or {}).items():
        section, name = _section_of(key, f"--set {key}")
        _put(table, section, name, value)
        for variant in table.get("variants", {}).values():
            variant.get(section, {}).pop(name, None)
    try:
        file = msgspec.convert(table, ScenarioFile)
    except msgspec.ValidationError as error:
        source.refuse(error)
    setups = _setups(source, table, file)
    for problem in problems_of(file, setups, path.parent):
        source.fail(problem)
    named = {each.name: each for each in setups}
    return Scenario(path.stem, path, file, named, is_changed=bool(changes))


class _Source:
    """The text of a scenario file, with the line of each entry."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"{path}: the scenario cannot be read: {reason}.") from error
        try:
            self.table: dict[str, Any] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path}: this is not TOML: {error}.") from error

    def merged(self, depth: int = 0) -> dict[str, Any]:
        """The table of the file, merged with the files that it extends."""
        try:
            own = msgspec.convert(self.table, ScenarioFile)
        except msgspec.ValidationError as error:
            self.refuse(error)
        if not own.extends:
            return self.table
        if depth >= MOST_EXTENDED:
            self.fail(Problem(("extends",), f"is a chain of more than {MOST_EXTENDED} files"))
        base = self._path.parent / f"{own.extends}.toml"
        if not base.is_file():
            self.fail(Problem(("extends",), f"names {own.extends!r}, but {base} does not exist"))
        return _merge(_Source(base).merged(depth + 1), self.table)

    def fail(self, problem: Problem) -> NoReturn:
        """Report a problem with its place in the file.

        Raises:
            UsageError: always.
        """
        line = _line_of(self.text, problem.keys)
        where = f"{self._path}:{line}" if line else str(self._path)
        end = "" if problem.what.endswith("?") else "."
        raise UsageError(f"{where}: {_spelt(problem.keys)} {problem.what}{end}")

    def refuse(self, error: msgspec.ValidationError) -> NoReturn:
        """Report an entry that has not the form of a scenario.

        Raises:
            UsageError: always.
        """
        text, _, place = str(error).partition(" - at `$")
        keys = _keys_of(place.rstrip("`"))
        unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
        if not unknown:
            self.fail(Problem(keys, f"is wrong: {text[0].lower()}{text[1:]}"))
        known = sorted(_known_keys(keys))
        near = near_names(unknown[1], known, most=1)
        hint = f"did you mean {near}?" if near else f"there are: {', '.join(known)}"
        self.fail(Problem((*keys, unknown[1]), f"is no key of a scenario; {hint}"))


def _known_keys(keys: Keys) -> list[str]:
    """The keys that the schema allows at a place."""
    nodes = _resolved(schema())
    for key in keys:
        inner = []
        for node in nodes:
            child = (
                node.get("items") if isinstance(key, int) else node.get("properties", {}).get(key)
            )
            more = node.get("additionalProperties")
            inner += _resolved(
                child if child is not None else more if isinstance(more, dict) else {}
            )
        nodes = inner
    return sorted({name for node in nodes for name in node.get("properties", {})})


def _resolved(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The types that a part of the schema stands for: several, if it is a union."""
    if "$ref" in node:
        return _resolved(schema()["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node:
        return [found for each in node["anyOf"] for found in _resolved(each)]
    return [node]


def _keys_of(place: str) -> Keys:
    """A path such as ``.timeline[2].at`` as keys, up to ``[...]``, which hides the real key."""
    found: list[str | int] = []
    for name, number in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", place):
        if number == "...":
            break
        found.append(int(number) if number else name)
    return tuple(found)


def _spelt(keys: Keys) -> str:
    """Keys as a path that a user can read."""
    words = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in keys)
    return f"`{words.lstrip('.')}`" if words else "the scenario"


_TABLE = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def _line_of(text: str, keys: Keys) -> int:
    """The line of an entry, or of the innermost table around it; 0 if the file has neither."""
    wanted = tuple(map(str, keys))
    best, line_of_best = 0, 0
    table: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE.match(line):
            name = header[2].replace('"', "").replace("'", "")
            table = tuple(name.split("."))
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
                table = (*table, str(counts[name]))
            here = table
        elif key := _KEY.match(line):
            here = (*table, *key[1].replace('"', "").replace("'", "").split("."))
        else:
            continue
        if here == wanted[: len(here)] and len(here) > best:
            best, line_of_best = len(here), number
    return line_of_best


def _merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a file, laid over the table of the file that it extends."""
    merged = dict(base)
    for key, value in own.items():
        before = merged.get(key)
        if key == "timeline":
            merged[key] = [*(before or ()), *value]
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(before, value)
        else:
            merged[key] = value
    merged.pop("extends", None)
    return merged


# What a variant is run with.


def _setups(source: _Source, table: dict[str, Any], file: ScenarioFile) -> list[Setup]:
    """Every variant, with every combination of the matrix."""
    names = {key: _section_of(key, "the matrix") for key in file.matrix}
    found = []
    for name, variant in (file.variants or {"fixed": Variant()}).items():
        raw = table.get("variants", {}).get(name, {})
        for values in itertools.product(*file.matrix.values()):
            changed: dict[str, Any] = {each: table.get(each) for each in SECTIONS}
            changed = _merge(
                {key: value for key, value in changed.items() if value is not None},
                {each: raw[each] for each in SECTIONS if each in raw},
            )
            told = []
            for (key, (section, field)), value in zip(names.items(), values, strict=True):
                _put(changed, section, field, value)
                told.append(f"{key}={json.dumps(value)}")
            try:
                plan = _plan(changed)
            except PlanError as error:
                own = ("variants", name) if error.field in raw.get("plan", {}) else ()
                source.fail(Problem((*own, "plan", error.field), error.what))
            except (StreamproofError, msgspec.ValidationError) as error:
                text = str(error).partition(" - at ")[0]
                source.fail(
                    Problem(("variants", name), f"asks for an impossible world: {text.rstrip('.')}")
                )
            found.append(Setup(" ".join([name, *told]), plan, variant))
    return found


def _plan(table: dict[str, Any]) -> Plan:
    """The plan of a world in which only the timeline causes faults."""
    # The types in the file are checked already; those in a matrix or on a command line are not.
    msgspec.convert(table, ScenarioFile)
    settings = dict(table.get("settings", {}))
    config = StreamsConfig(
        **settings | {"assignor": AssignorConfig(**settings.get("assignor", {}))}
    )
    own = {"kinds": (), "activation": 0.0, **table.get("plan", {})}
    workload = WorkloadConfig(
        **{"records": 0} if table.get("workload") is None else table["workload"]
    )
    return Plan(**own | {"kinds": tuple(own["kinds"]), "config": config, "workload": workload})


def _section_of(key: str, where: str) -> tuple[str, str]:
    """The first table that has a setting of this name, and the bare name of the setting.

    Raises:
        UsageError: no table has such a setting.
    """
    section, _, name = key.rpartition(".")
    for each in SECTIONS:
        if section in ("", each) and name in _known_keys((each,)):
            return each, name
    known = [f"{each}.{name}" for each in SECTIONS for name in _known_keys((each,))]
    bare = [each.partition(".")[2] for each in known]
    near = near_names(key, [*known, *bare])
    hint = f"Did you mean {near}?" if near else f"There are: {', '.join(known)}."
    raise UsageError(f"{where}: there is no setting {key!r}. {hint}")


def _put(table: dict[str, Any], section: str, name: str, value: Any) -> None:
    table[section] = {**(table.get(section) or {}), name: value}
