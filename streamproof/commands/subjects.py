"""``streamproof subjects`` lists the built-in stores; ``streamproof host`` serves a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from streamproof.commands.terminal import terminal
from streamproof.conformance.subject import builtin_names, load_subject
from streamproof.errors import UsageError
from streamproof.host import serve_subject
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, OLDEST_RELEASE
from streamproof.stores.jvm.layers import LAYERS
from streamproof.stores.jvm.subjects import KAFKA

__all__ = ["host", "list_subjects"]


def list_subjects() -> None:
    """List the built-in stores and Kafka's own.

    Any of these names can be given to `verify`.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Users copy the names, so no terminal cuts them. With a column for versions, a terminal of 80
    # columns would cut the names of classes in the descriptions.
    table.add_column("subject", no_wrap=True, min_width=max(map(len, [*builtin_names(), *KAFKA])))
    table.add_column("what it is")
    for name in builtin_names():
        table.add_row(name, escape(_described(name)))
    # Nothing is downloaded and no JVM is started for a list.
    for name, description in KAFKA.items():
        table.add_row(name, escape(f"{description} (kafka-streams {DEFAULT_RELEASE})"))
    terminal().print(table)
    oldest = f"kafka:rocksdb:task@{OLDEST_RELEASE}"
    terminal().print(
        f"A store of Kafka takes a layer ({', '.join(LAYERS)}) and a release from {OLDEST_RELEASE} "
        f"on, as in {oldest}."
    )
    terminal().print(
        "A store of your own is module:factory or path.py:factory in Python, java:CLASS#METHOD "
        "with --classpath on the JVM, and 'cmd:COMMAND' in any other language."
    )


def _described(name: str) -> str:
    """What a built-in store is, and the version of its package."""
    try:
        info = load_subject(name).info()
    except UsageError as error:
        return f"missing: {error}"
    return info.description + (f" ({info.package} {info.version})" if info.package else "")


SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="The store to serve: module:factory, path/to/file.py:factory, or a built-in name.",
    ),
]

DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Keep the files of the store in DIR. Default: where the client asks for them.",
    ),
]


def host(
    subject: SubjectArgument,
    directory: DirectoryOption = None,
) -> None:
    """Serve a key-value store in Python to another process.

    The requests come on the standard input, in the protocol that docs/store-host.md describes.
    `python -m streamproof.host` does the same and starts faster.
    """
    serve_subject(subject, directory)
