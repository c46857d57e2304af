"""``streamproof record``: prints the option of Java that records an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamproof.errors import UsageError

__all__ = ["record"]

DEFAULT_DIRECTORY = Path("recording")

DirectoryOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="The directory for what is recorded."),
]

NameOption = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        show_default=False,
        help="The name of the instance. Default: one for each state directory.",
    ),
]


def record(directory: DirectoryOption = DEFAULT_DIRECTORY, name: NameOption = "") -> None:
    """Print the option that records a Kafka Streams application.

    `java $(streamproof record --out DIR) -jar app.jar` records what the application does. Start the
    brokers with the same option, from their first start, to record their logs. `streamproof replay
    DIR` draws and judges what was recorded. It needs a JDK and Maven.

    Exit codes:
      0    the option is printed
      3    Java or Maven is missing, or the directory cannot be written
    """
    from streamproof.scenarios.kafka.builds import recorder_option

    directory = directory.resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be made: {error.strerror}. Choose another directory with --out."
        ) from error
    typer.echo(recorder_option(directory, name))
