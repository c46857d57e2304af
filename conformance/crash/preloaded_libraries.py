"""The libraries that stand between a store and its system calls: compiled where they are used.

They are kept in the user's cache, as to compile them takes longer than many a check does.
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
"""The C compilers that will do, the first that there is."""


def build_library(source: Traversable, directory: Path, *libraries: str) -> Path | None:
    """A C source as a shared library; ``None`` if there is no C compiler that can.

    Args:
        source: the file.
        directory: where the library goes if the user's cache cannot be written to.
        libraries: what it is linked with.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return None
    text = source.read_bytes()
    # Homes are shared by machines that differ.
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
    """The directory of the user's cache that is ours; ``None`` if there can be none."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(home) / "streamproof"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    # Names in LD_PRELOAD end at a space or a colon.
    usable = os.access(directory, os.W_OK) and not {" ", ":"} & set(str(directory))
    return directory if usable else None


def _compile(compiler: str, text: bytes, target: Path, libraries: tuple[str, ...]) -> bool:
    """Compile a source, and put the library into its place when it is whole."""
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        source, made = Path(temporary, "source.c"), Path(temporary, target.name)
        source.write_bytes(text)
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(source)]
        done = subprocess.run([*command, *libraries], capture_output=True, check=False)
        if done.returncode == 0 and made.is_file():
            made.replace(target)
    return target.is_file()
