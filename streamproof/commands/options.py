"""Options that several commands have, so that each means the same everywhere.

This module and the modules of the commands import nothing heavy, so that ``--help`` is quick; a
command imports what it runs when it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from streamproof.errors import UsageError

__all__ = [
    "CORES",
    "DEFAULT_OUT",
    "Bootstrap",
    "Checks",
    "ClassPath",
    "FirstSeed",
    "KafkaRelease",
    "Master",
    "OfTheJvm",
    "OnWorld",
    "OutputDirectory",
    "Remote",
    "StoreLayer",
    "WorkDirectory",
    "make_directory",
    "names_in",
    "release_of_world",
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

StoreLayer = Annotated[
    str,
    typer.Option(
        "--layer",
        metavar="LAYER",
        show_default=False,
        help="Run java: and kafka: subjects that name no layer in this one: bytes (the store "
        "alone), metered (the store as a processor sees it) or task (the store under the state "
        "manager of a task). Default: bytes from Kafka 4.3 on, else task.",
    ),
]


class OfTheJvm(NamedTuple):
    """The options for stores of the JVM; empty if not given."""

    class_path: str
    release: str
    layer: str


def subjects_with(names: Iterable[str], options: OfTheJvm) -> list[str]:
    """The names of subjects with the release of Kafka and the layer; their class path is set.

    Raises:
        UsageError: an option is given, and no subject needs it.
    """
    # --help needs no stores.
    from streamproof.stores.jvm.subjects import take_class_path, with_layer, with_release

    found = with_layer(with_release(names, options.release), options.layer)
    take_class_path(found, options.class_path)
    return found


OnWorld = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WORLD",
        show_default=False,
        help="Play for real: kafka, or kafka@RELEASE, on brokers and instances that are started "
        "here. It needs a JDK and Maven. Default: the simulator.",
    ),
]


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        show_default=False,
        help="With --on, play on this cluster instead of a broker that is started here. Its topics "
        "and groups have names of their own, and are deleted afterwards.",
    ),
]


def release_of_world(world: str, bootstrap: str = "", *, plays_scenarios: bool = False) -> str:
    """The release of Kafka that ``--on`` names; empty for the simulator.

    Args:
        world: the option.
        bootstrap: the option ``--bootstrap``, which only a real world has.
        plays_scenarios: whether scenarios are played, which older releases can do as well.

    Raises:
        UsageError: there is no such world.
    """
    if not world and bootstrap:
        raise UsageError("--bootstrap names a real cluster: give --on kafka as well.")
    if not world:
        return ""
    name, at, release = world.partition("@")
    if name != "kafka" or bool(at) != bool(release):
        raise UsageError(f"--on {world}: give kafka, or kafka@RELEASE as in kafka@4.2.0.")
    # Imported here, so that --help is quick.
    from streamproof.stores.jvm.kafka_jars import (
        DEFAULT_RELEASE,
        OLDEST_RELEASE,
        OLDEST_STREAMS,
        require_release,
    )

    oldest = OLDEST_STREAMS if plays_scenarios else OLDEST_RELEASE
    require_release(release or DEFAULT_RELEASE, oldest)
    return release or DEFAULT_RELEASE


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


def names_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The names in lists, each of which is separated by commas."""
    names = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(filter(None, names)))
