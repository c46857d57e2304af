"""Serves a store in Python as a store host.

``python -m streamproof.host SUBJECT`` does what ``streamproof host SUBJECT`` does, and starts
several times faster, as it imports nothing but the store and the protocol: that counts where a
process is started for every crash.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from streamproof.conformance.subject import HOST, load_subject
from streamproof.errors import StreamproofError, UsageError
from streamproof.search_path import search_directory
from streamproof.stores.host.serve import StoreHost, serve

__all__ = ["serve_subject"]


def serve_subject(subject: str, directory: Path | None) -> None:
    """Serve a subject on the standard input and output until the input ends.

    Args:
        subject: what names it on the command line.
        directory: where the store keeps its files; if it is not given, where ``open`` says.

    Raises:
        UsageError: there is no such subject, or the protocol cannot serve it.
    """
    search_directory()
    if subject.startswith(HOST):
        raise UsageError(f"{subject!r} is a store host already.")
    loaded = load_subject(subject)
    claimed = loaded.capabilities
    info = loaded.info()
    serve(
        StoreHost(
            loaded.factory,
            # Another store writes the older format, and it is no part of this one.
            replace(
                claimed, upgrades_from="", in_place_upgrade=False, downgrade=False, metrics=False
            ),
            name=info.package or info.name,
            version=info.version,
            names=loaded.takes_name,
            directory=directory,
        )
    )


def main() -> None:
    """The entry point of the module."""
    parser = argparse.ArgumentParser(
        prog="python -m streamproof.host", description="Serve a store in Python as a store host."
    )
    parser.add_argument("subject", help="module:factory, path/to/file.py:factory, or a built-in")
    parser.add_argument("--dir", type=Path, help="where the store keeps its files")
    arguments = parser.parse_args()
    try:
        serve_subject(arguments.subject, arguments.dir)
    except StreamproofError as error:
        sys.exit(f"streamproof: {error}")


if __name__ == "__main__":
    main()
