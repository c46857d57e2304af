"""Check that the installed package is the repository's: nothing missing, changed or added.

Run by the Python of an environment in which the wheel was installed, with the repository's root
as its argument. What belongs to the package is asked of git and of pyproject.toml, so that a
new folder or kind of data file cannot be forgotten here.
"""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

DISTRIBUTION = "streamproof"


def repository_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield, for each file in the folders of the package, where it belongs and where it is."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    for package, folder in pyproject["tool"]["setuptools"]["package-dir"].items():
        # New files count before they are committed. A clone may belong to another user.
        command = ["git", "-c", f"safe.directory={root}", "ls-files", "-z"]
        command += ["--cached", "--others", "--exclude-standard", "--", folder]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            path = root / name
            if path.exists():
                place = Path(*package.split(".")) / path.relative_to(root / folder)
                yield place.as_posix(), path


def installed_files() -> dict[str, Path]:
    """Return every file that the wheel brought along, by its place in site-packages."""
    files = distribution(DISTRIBUTION).files or []
    return {
        file.as_posix(): Path(str(file.locate()))
        for file in files
        if "__pycache__" not in file.parts
    }


def problems(root: Path) -> Iterator[str]:
    """Yield one line for each difference between the repository and what is installed."""
    expected = dict(repository_files(root))
    installed = installed_files()
    command = f"bin/{DISTRIBUTION}"
    for name in sorted(expected.keys() - installed.keys()):
        yield f"missing: {name}"
    for name in sorted(expected.keys() & installed.keys()):
        if not filecmp.cmp(expected[name], installed[name], shallow=False):
            yield f"not the repository's version: {name}"
    for name in sorted(installed.keys() - expected.keys()):
        is_metadata = Path(name).parts[0].endswith(".dist-info")
        if not is_metadata and not name.endswith(f"../{command}"):
            yield f"does not belong there: {name}"


def main() -> int:
    """Print what is wrong, and return how the process shall end."""
    root = Path(sys.argv[1]).resolve()
    found = list(problems(root))
    if found:
        print("The wheel differs from the repository:", *found, sep="\n  ")  # noqa: T201
        return 1
    print(f"The wheel has the {len(dict(repository_files(root)))} files of the package.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
