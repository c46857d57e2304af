"""Compiles the libraries between a store and its system calls on the machine that needs them.

The user's cache keeps the libraries, because compiling them takes longer than many checks.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from hashlib import blake2b
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["build_library"]

COMPILERS = ("cc", "gcc", "clang")
"""The usable C compilers; the first one on the machine is taken."""


def build_library(source: Traversable, directory: Path, *libraries: str) -> Path | None:
    """A C source as a shared library; ``None`` without a C compiler that can compile it.

    Args:
        source: the C file.
        directory: the directory for the library if the user's cache cannot be written to.
        libraries: the libraries to link with.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return None
    text = source.read_bytes()
    # Different machines may share a home directory, so the name of the library depends on them.
    machine = [compiler, platform.machine(), *platform.libc_ver(), *libraries]
    key = blake2b("\0".join(machine).encode() + text, digest_size=8).hexdigest()
    name = f"streamproof-{Path(source.name).stem}-{key}.so"
    for place in (_cache(), directory):
        if place is None:
            continue
        target = place / name
        if target.is_file() or _compile(compiler, text, target, libraries):
            return target
    return None


def _cache() -> Path | None:
    """Our directory in the user's cache; ``None`` if it cannot be used."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(home) / "streamproof"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    # A space or a colon ends a name in LD_PRELOAD, so a path with one cannot be used.
    usable = os.access(directory, os.W_OK) and not {" ", ":"} & set(str(directory))
    return directory if usable else None


def _compile(compiler: str, text: bytes, target: Path, libraries: tuple[str, ...]) -> bool:
    """Compile a source, and move the complete library into its place."""
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        source, made = Path(temporary, "source.c"), Path(temporary, target.name)
        source.write_bytes(text)
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(source)]
        done = subprocess.run([*command, *libraries], capture_output=True, check=False)
        if done.returncode == 0 and made.is_file():
            made.replace(target)
    return target.is_file()
