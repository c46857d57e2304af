"""The command line: which commands there are, and how a command ends."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from streamproof.errors import StreamproofError, SuiteError
from streamproof.exit_codes import ExitCode
from streamproof.version import __version__

__all__ = ["app", "main"]

# Typer does not name the class of its own errors, of which this one is a kind.
_CommandLineError: type[Exception] = typer.BadParameter.__bases__[0]

_COMMANDS = {
    "verify": "verify:verify",
    "requirements": "requirements:requirements",
    "subjects": "subjects:list_subjects",
    "host": "subjects:host",
    "campaign": "campaign:campaign",
    "explore": "explore:explore",
    "mutants": "mutants:mutants",
    "recheck": "recheck:recheck",
    "replay": "replay:replay",
    "report": "report:report",
    "scenarios": "scenarios:list_scenarios",
    "defects": "defects:list_defects",
}
"""Each command with its module and function, in the order in which the help lists them."""


class _Commands(TyperGroup):
    """The commands: only the one that is run is imported, as all take longer than many a run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # What is close to a word that is no command may be any of them.
        for name in [cmd_name] if cmd_name in _COMMANDS else _COMMANDS:
            self.commands[name] = _load(name)
        return self.commands.get(cmd_name)


def _load(name: str) -> Any:
    """Import a command."""
    module, _, function = _COMMANDS[name].partition(":")
    command = typer.Typer(add_completion=False, rich_markup_mode=None)
    command.command(name)(
        getattr(importlib.import_module(f"streamproof.commands.{module}"), function)
    )
    return typer.main.get_command(command)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Does a state store keep its data and its changelog offsets together through every "
    "crash? Verify it, and see the evidence.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"streamproof {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """The entry point: run a command, and turn errors into a line and an exit code."""
    try:
        # Without standalone mode, a command's exit code is what the call returns.
        code = app(standalone_mode=False)
    except SuiteError as error:
        print(f"streamproof: {error}", file=sys.stderr)
        code = ExitCode.SUITE_ERROR
    except StreamproofError as error:
        print(f"streamproof: {error}", file=sys.stderr)
        code = ExitCode.USAGE
    except _CommandLineError as error:
        cast(typer.BadParameter, error).show()
        code = ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    sys.exit(code)
