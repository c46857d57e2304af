"""The commands that list the subjects that come with streamproof, and serve one as a store host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamproof.conformance.subject import builtin_names, load_subject
from streamproof.errors import UsageError
from streamproof.host import serve_subject

__all__ = ["host", "list_subjects"]


def list_subjects() -> None:
    """List the subjects that come with streamproof."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    # A name is there to be copied, so that it is never cut.
    table.add_column("subject", no_wrap=True, min_width=max(map(len, builtin_names())))
    for heading in ("version", "what it is"):
        table.add_column(heading)
    for name in builtin_names():
        try:
            info = load_subject(name).info()
            package = f"{info.package} {info.version}" if info.package else ""
            table.add_row(name, package, escape(info.description))
        except UsageError as error:
            table.add_row(name, "missing", escape(str(error)))
    Console(highlight=False).print(table)


def host(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="What to serve: module:factory, path/to/file.py:factory, or a built-in name.",
        ),
    ],
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Where the store keeps its files. Default: as open says."),
    ] = None,
) -> None:
    """Serve a key-value store as a store host, for whoever speaks the protocol.

    It is described in docs/store-host.md. `python -m streamproof.host` starts faster.
    """
    serve_subject(subject, directory)
