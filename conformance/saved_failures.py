"""Failures as files, which can be replayed by hand, or by the next run before it searches.

A run saves each failure twice below ``failures/<subject>/``: as a program for people (``.py``), and
as data for a replay (``.json``). A *bank* is a directory of such data files,
``<subject>/<requirement>-<shape>.json``, that outlives the runs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from streamproof.conformance.results import Failure, Guarantee, Profile, Spec
from streamproof.conformance.subject import binds_of
from streamproof.errors import UsageError
from streamproof.stores.jvm.subjects import class_path_for
from streamproof.version import __version__

__all__ = [
    "FORMAT",
    "Archive",
    "Replay",
    "SavedChoices",
    "SavedFailure",
    "clear_failures",
    "read_bank",
    "read_failure",
    "saved_from",
]

FORMAT = 3
"""The version of the files.

Raise it whenever a replay of an older file would go wrong: when the form of saved programs, choices
or shapes changes, or when a check changes its name or its use of the seed. A file of another format
is refused.
"""

LONGEST_FOLDER = 60
"""The most characters of a subject in the name of its folder."""

FAILURES = "failures"
"""The folder in the output directory for the failures of a run."""


class SavedChoices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The choices that lead to a failure; without any, the seed repeats it.

    Attributes:
        examples: sequences of choices of Hypothesis, in base64.
        crashes: pairs of a program and the point at which it died, one for each crash in a row
            (see :mod:`streamproof.conformance.value_codec`).
        losses: the same for losses of power: pairs of a program and the state of the disk.
        worlds: simulated worlds, as plain values (``simulated.store_world.values_of``).
        plays: the numbers of real runs of an application.
        requirement, shape: the promise that the last crash broke, and its shape. The check may
            report another requirement as broken for it.
    """

    examples: list[str] = field(default_factory=list)
    crashes: list[Any] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    worlds: list[Any] = field(default_factory=list)
    plays: list[int] = field(default_factory=list)
    requirement: str = ""
    shape: str = ""


class Replay(Struct, frozen=True, kw_only=True):
    """A failure to replay.

    Attributes:
        name: its name, unique within the subject, ``AREA-NNN-shape``.
        requirement: the broken requirement.
        choices: the choices that break it.
        profile, seed, round: the settings of the check that found the failure.
        shrinks: whether the failure is made small.
    """

    name: str
    requirement: str
    choices: SavedChoices
    profile: Profile
    seed: int
    round: int
    shrinks: bool = False


class SavedFailure(Struct, frozen=True, kw_only=True):
    """A failure with everything that a replay needs.

    Attributes:
        format: see :data:`FORMAT`.
        tool_version: the version of streamproof that saved the failure.
        world: the version of the simulated world, if the failure is one in a world; otherwise 0.
        check: the check that found the failure.
        timeout_s: seconds after which a call on the subject counted as a hang.
        traceback: the part of the subject in the traceback, if the subject raised.
        reproduce: the command that found the failure.
        class_path: the jars and directories with the subject, if it is a class of the user's.
        choices: the choices that lead to the failure.
    """

    format: int
    tool_version: str
    world: int = 0
    subject: str
    requirement: str
    shape: str
    check: str
    guarantee: Guarantee
    spec: Spec
    profile: Profile
    seed: int
    round: int
    timeout_s: float
    title: str
    tried: str
    expected: str
    found: str
    program: str
    traceback: str = ""
    reproduce: str
    class_path: str = ""
    choices: SavedChoices

    @property
    def name(self) -> str:
        """The name of the failure, unique within the subject."""
        return f"{self.requirement}-{self.shape}"

    def replay(self) -> Replay:
        """The part of the failure that a check needs for a replay."""
        return Replay(
            name=self.name,
            requirement=self.requirement,
            choices=self.choices,
            profile=self.profile,
            seed=self.seed,
            round=self.round,
        )


class _Header(Struct, frozen=True, kw_only=True):
    """The fields that a saved failure of any format has."""

    format: int
    tool_version: str = ""
    reproduce: str = ""

    def require_format(self, path: Path) -> None:
        """Refuse a file of another format.

        Raises:
            UsageError: this version would misread the file.
        """
        if self.format == FORMAT:
            return
        newer = self.format > FORMAT
        version = f" ({self.tool_version})" if self.tool_version else ""
        remedy = "Upgrade streamproof to replay it."
        if not newer:
            again = f": {self.reproduce}" if self.reproduce else " with `streamproof verify`."
            remedy = f"Delete the file, and find the failure again{again}"
        raise UsageError(
            f"{path}: {'a newer' if newer else 'an older'} streamproof{version} saved this failure "
            f"in format {self.format}, and this streamproof reads format {FORMAT}. {remedy}"
        )


def folder_of(subject: str) -> str:
    """The name of a folder for a subject; two subjects never share one.

    Of a long name it is the end, which tells more than the beginning, without a half word.
    """
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", subject).strip("-.")
    if len(slug) > LONGEST_FOLDER:
        end = slug[-LONGEST_FOLDER - 1 :]
        slug = re.sub(r"^[^.-]*[.-]+", "", end)[-LONGEST_FOLDER:]
    return slug if slug == subject else f"{slug}-{_digest(subject)}"


def _digest(subject: str) -> str:
    return blake2b(subject.encode(), digest_size=3).hexdigest()


def read_failure(path: Path) -> SavedFailure:
    """A failure from its file.

    Raises:
        UsageError: the file cannot be read, is no saved failure, or has another format.
    """
    try:
        data = path.read_bytes()
        msgspec.json.decode(data, type=_Header).require_format(path)
        saved = msgspec.json.decode(data, type=SavedFailure)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path}: not a saved failure: {error}. Delete the file if nothing else needs it."
        ) from error
    if _simulates(saved.subject, saved.choices):
        from streamproof.sim.world_plan import require_world_version

        remedy = f"Delete the file, and find the failure again: {saved.reproduce}"
        require_world_version(saved.world, str(path), remedy)
    return saved


def _simulates(subject: str, choices: SavedChoices) -> bool:
    """Whether the replay of a failure runs a simulated world."""
    return bool(choices.worlds) or binds_of(subject) == "runtime"


def read_bank(
    bank: Path, subjects: Iterable[str]
) -> tuple[list[SavedFailure], list[tuple[str, str]]]:
    """The failures in a bank, and a warning with its subject for each unusable file."""
    found: list[SavedFailure] = []
    warnings: list[tuple[str, str]] = []
    for subject in subjects:
        # Earlier versions cut long names elsewhere, and kept the digest.
        folders = {bank / folder_of(subject), *bank.glob(f"*-{_digest(subject)}")}
        for path in sorted(path for folder in folders for path in folder.glob("*.json")):
            try:
                saved = read_failure(path)
            except UsageError as error:
                warnings.append((subject, f"The bank was not used in full. {error}"))
                continue
            if saved.subject == subject and saved.name == path.stem:
                found.append(saved)
            else:
                text = f"The bank was not used in full. {path} is a failure of {saved.subject!r}, "
                warnings.append((subject, f"{text}{saved.name}; move or rename the file."))
    return found, warnings


def clear_failures(out: Path) -> None:
    """Remove the failures of an earlier run from its output directory, and nothing else."""
    for path in (out / FAILURES).glob("*/*"):
        if path.suffix in (".json", ".py"):
            path.unlink()
    for folder in [*(out / FAILURES).glob("*"), out / FAILURES]:
        with contextlib.suppress(OSError):
            folder.rmdir()


class Archive:
    """Saves failures as they are found.

    Args:
        out: the output directory of the run.
        bank: a bank to keep them in as well.

    Attributes:
        problems: why the bank does not have all failures, a sentence for each one missing.
    """

    def __init__(self, out: Path, bank: Path | None) -> None:
        self._out = out
        self._bank = bank
        self.problems: list[str] = []

    def save(self, saved: SavedFailure, *, renew: bool = False) -> str:
        """Save a failure; return its path, relative to the output directory.

        A file of that name in the bank stays if its program is no longer than the new one, unless
        ``renew`` is set: short programs are easier to understand.
        """
        place = Path(FAILURES) / folder_of(saved.subject) / saved.name
        data = msgspec.json.format(msgspec.json.encode(saved), indent=2)
        _write(self._out / f"{place}.json", data)
        _write(self._out / f"{place}.py", saved.program.encode())
        if self._bank is not None:
            path = self._bank / folder_of(saved.subject) / f"{saved.name}.json"
            try:
                if renew or _is_shorter(saved, path):
                    _write(path, data)
            except UsageError as error:
                # The failure is saved with the run. That is no reason to end the run.
                self.problems.append(f"{error} Choose another bank with --bank, or --no-bank.")
        return f"{place}.json"


def _is_shorter(saved: SavedFailure, path: Path) -> bool:
    """Whether a failure has a shorter program than the one in a file.

    A file of an older format is replaced, because no replay can use it. A broken or newer file
    stays, because another tool may need it.
    """
    if not path.exists():
        return True
    try:
        if msgspec.json.decode(path.read_bytes(), type=_Header).format < FORMAT:
            return True
        return len(saved.program) < len(read_failure(path).program)
    except (UsageError, OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, so that neither a crash nor a parallel run leaves half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: the failure cannot be saved: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def saved_from(failure: Failure, choices: SavedChoices, **how: Any) -> SavedFailure:
    """A failure with the settings and choices that found it."""
    names = ("subject", "requirement", "shape", "check", "title", "tried", "expected", "found")
    texts = {
        # JSON cannot hold half a surrogate pair, so each half is escaped.
        name: getattr(failure, name).encode("utf-8", "backslashreplace").decode()
        for name in (*names, "program", "traceback", "reproduce")
    }
    class_path = class_path_for(failure.subject).encode("utf-8", "backslashreplace").decode()
    world = 0
    if _simulates(failure.subject, choices):
        # The simulator takes long to import, and few failures need it.
        from streamproof.sim.world_plan import WORLD_VERSION

        world = WORLD_VERSION
    return SavedFailure(
        format=FORMAT,
        tool_version=__version__,
        world=world,
        class_path=class_path,
        choices=choices,
        **texts,
        **how,
    )
