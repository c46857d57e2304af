"""Options that several commands have, so that each means the same everywhere.

This module and the modules of the commands import nothing heavy, so that ``--help`` is quick; a
command imports what it runs when it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from streamproof.errors import UsageError

__all__ = [
    "CORES",
    "DEFAULT_OUT",
    "Checks",
    "ClassPath",
    "FirstSeed",
    "KafkaRelease",
    "Master",
    "OutputDirectory",
    "Remote",
    "WorkDirectory",
    "make_directory",
    "names_in",
    "subjects_with",
]

CORES = os.cpu_count() or 1

SPARK_MASTER = (
    "Run the work on this Spark master, such as spark://HOST:PORT. Default: all cores of this "
    "machine."
)

Checks = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        show_default=False,
        help="Run N checks at the same time. Default: one for each core.",
    ),
]

FirstSeed = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Start with seed N; each further run takes the next seed."
    ),
]

WorkDirectory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep the databases below DIR while the run lasts. Default: /dev/shm if it has room, "
        "else /tmp.",
    ),
]

DEFAULT_OUT = Path("streamproof-out")
"""The directory for files, unless --out names another one."""

OutputDirectory = Annotated[Path, typer.Option(metavar="DIR", help="Write all files to DIR.")]

Master = Annotated[str, typer.Option(metavar="URL", show_default=False, help=SPARK_MASTER)]

Remote = Annotated[
    str,
    typer.Option(
        metavar="URL",
        show_default=False,
        help="Run the work on this Spark Connect server instead, such as sc://HOST:PORT.",
    ),
]


ClassPath = Annotated[
    str,
    typer.Option(
        "--classpath",
        metavar="PATH",
        show_default=False,
        help="Find the classes of java: subjects in these jars and directories, as with `java "
        "-cp`. Default: the environment variable CLASSPATH.",
    ),
]

KafkaRelease = Annotated[
    str,
    typer.Option(
        "--kafka",
        metavar="RELEASE",
        show_default=False,
        help="Run java: and kafka: subjects that name no release with @ on this release of Kafka.",
    ),
]


def subjects_with(names: Iterable[str], class_path: str, release: str) -> list[str]:
    """The names of subjects with the release of Kafka; their class path is set.

    Raises:
        UsageError: an option is given, and no subject needs it.
    """
    # --help needs no stores.
    from streamproof.stores.jvm.subjects import take_class_path, with_release

    found = with_release(names, release)
    take_class_path(found, class_path)
    return found


def make_directory(out: Path) -> None:
    """Make the output directory, before anything is run in vain.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The output directory {str(out)!r} cannot be made: {error.strerror}. "
            "Choose another one with --out."
        ) from error


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list that is separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
