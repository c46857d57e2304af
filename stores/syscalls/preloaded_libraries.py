"""Compiles the libraries between a store and its system calls on the machine that needs them.

The user's cache keeps the libraries, because compiling them takes longer than many checks.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from streamproof.user_cache import user_cache

__all__ = ["CannotBuildError", "build_library", "build_shim", "preload", "preloaded"]

COMPILERS = ("cc", "gcc", "clang")
"""The usable C compilers; the first one on the machine is taken."""

COMPILER_TIMEOUT_S = 60.0
"""A compiler that takes longer is given up. Ours take less than a second."""


class CannotBuildError(Exception):
    """A library cannot be built here; the message says why, and what to do."""


def preload(directory: Path) -> str:
    """The value of ``LD_PRELOAD``: the libraries that see calls, compiled if necessary.

    The streams stand first, because they write by calls that the other two see. The recorder stands
    before the shim, so that it also sees the calls that the shim lets fail.

    Args:
        directory: the directory for the libraries if the user's cache cannot be used.

    Raises:
        CannotBuildError: the libraries cannot be compiled here.
    """
    streams = build_library(_source("streams.c"), directory, "-ldl")
    recorder = build_library(_source("recorder.c"), directory, "-ldl", "-lpthread")
    return f"{streams}:{recorder}:{build_shim(directory)}"


@cache
def preloaded() -> ctypes.CDLL:
    """The functions of the libraries that this process was started with.

    They are called twice for each operation that is recorded, and each ``CDLL`` makes a class.
    """
    loaded = ctypes.CDLL(None)
    if hasattr(loaded, "streamproof_count"):
        loaded.streamproof_count.restype = ctypes.c_long
    return loaded


def build_shim(directory: Path) -> Path:
    """The shim, compiled if necessary.

    Args:
        directory: the directory for the shim if the user's cache cannot be used.

    Raises:
        CannotBuildError: it cannot be compiled here.
    """
    return build_library(_source("shim.c"), directory, "-ldl")


def _source(name: str) -> Traversable:
    return files(__package__).joinpath(name)


def build_library(source: Traversable, directory: Path, *libraries: str) -> Path:
    """A C source as a shared library, compiled if necessary.

    Args:
        source: the C file.
        directory: the directory for the library if the user's cache cannot be used.
        libraries: the libraries to link with.

    Raises:
        CannotBuildError: there is no C compiler, it fails, or no directory can hold the library.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise CannotBuildError(
            f"no C compiler ({', '.join(COMPILERS[:-1])} or {COMPILERS[-1]}) was found; "
            "install gcc or clang"
        )
    text = source.read_bytes()
    # Different machines may share a home directory, so the name of the library depends on them.
    machine = [compiler, platform.machine(), *platform.libc_ver(), *libraries]
    key = blake2b("\0".join(machine).encode() + text, digest_size=8).hexdigest()
    name = f"streamproof-{Path(source.name).stem}-{key}.so"
    problems: list[str] = []
    for place in (user_cache(), directory):
        target = place / name
        problem = _unusable(place) or _compile(compiler, text, target, libraries)
        problem = problem or _refused(target)
        if not problem:
            return target
        problems.append(problem)
    raise CannotBuildError("; ".join(dict.fromkeys(problems)))


def _unusable(place: Path) -> str:
    """Why no library can be kept in a directory, which is made; empty if one can."""
    remedy = "set XDG_CACHE_HOME to another directory"
    if {" ", ":"} & set(str(place)):
        # Either of them ends a name in LD_PRELOAD.
        return f"{place} has a space or a colon in its name; {remedy}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"{place} cannot be made ({error.strerror}); {remedy}"
    return ""


def _compile(compiler: str, text: bytes, target: Path, libraries: tuple[str, ...]) -> str:
    """Compile a source, unless that was done before; returns the problem, or nothing."""
    if target.is_file():
        return ""
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            source, made = Path(temporary, "source.c"), Path(temporary, target.name)
            source.write_bytes(text)
            command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(source)]
            problem = _run([*command, *libraries], temporary)
            if not problem:
                # Only a complete library ever has this name.
                made.replace(target)
            return problem
    except OSError as error:
        return (
            f"{target.parent} cannot be written ({error.strerror}); "
            "set XDG_CACHE_HOME to another directory"
        )


def _run(command: list[str], temporary: str) -> str:
    """Run a compiler; returns the problem, or nothing."""
    failed = f"the C compiler {command[0]} failed"
    remedy = "mend it, or put another one first on the PATH"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=COMPILER_TIMEOUT_S,
            # The usual directory for temporary files may be full.
            env={**os.environ, "TMPDIR": temporary},
        )
    except subprocess.TimeoutExpired:
        return f"{failed} (not done within {COMPILER_TIMEOUT_S:g} s); {remedy}"
    except OSError as error:
        return f"{failed} ({error.strerror}); {remedy}"
    if done.returncode == 0 and Path(command[command.index("-o") + 1]).is_file():
        return ""
    said = next((line for line in done.stderr.splitlines() if "error" in line.lower()), "")
    said = said.replace(temporary, "").strip()[:200] or f"exit code {done.returncode}"
    return f"{failed} ({said}); {remedy}"


def _refused(library: Path) -> str:
    """Why the system refuses to run what is in a library; empty if it does not."""
    try:
        with library.open("rb") as file:
            mmap.mmap(
                file.fileno(),
                mmap.PAGESIZE,
                flags=mmap.MAP_PRIVATE,
                prot=mmap.PROT_READ | mmap.PROT_EXEC,
            ).close()
    except OSError as error:
        return (
            f"libraries in {library.parent} cannot be loaded ({error.strerror}); "
            "set XDG_CACHE_HOME to a directory that is not mounted noexec"
        )
    return ""
