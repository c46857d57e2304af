"""The command line: the list of commands, and how errors become messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import inspect
import re
import sys
import traceback
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from streamproof.errors import StreamproofError, SuiteError
from streamproof.exit_codes import ExitCode
from streamproof.version import __version__

__all__ = ["COMMANDS", "CommandEntry", "app", "main"]

# Typer does not name the class of its own errors, of which this one is a kind.
_CommandLineError: type[Exception] = typer.BadParameter.__bases__[0]


class CommandEntry(NamedTuple):
    """A command in the list of commands.

    Attributes:
        function: its function, as ``module:name`` below ``streamproof.commands``.
        summary: the first line of the docstring of that function, repeated here so that the list
            of commands is printed without importing any of them.
    """

    function: str
    summary: str


COMMANDS = {
    "verify": CommandEntry(
        "verify:verify",
        "Verify stores, the simulated runtime, or a Kafka application.",
    ),
    "report": CommandEntry("report:report", "Render the reports of one run, or of many runs."),
    "replay": CommandEntry(
        "replay:replay", "Play a scenario, show a trace, or run a saved failure again."
    ),
    "record": CommandEntry(
        "record:record", "Print the option that records a Kafka Streams application."
    ),
    "explore": CommandEntry(
        "explore:explore", "Explore simulated worlds, and shrink what breaks a promise."
    ),
    "campaign": CommandEntry("campaign:campaign", "Carry out a plan of many runs, with Spark."),
    "recheck": CommandEntry("recheck:recheck", "Judge recorded events again, with Spark."),
    "mutants": CommandEntry(
        "mutants:mutants", "Show that the suite catches stores that are wrong on purpose."
    ),
    "requirements": CommandEntry(
        "requirements:requirements", "List the requirements, or show one in full."
    ),
    "subjects": CommandEntry("subjects:list_subjects", "List the built-in stores and Kafka's own."),
    "scenarios": CommandEntry(
        "scenarios:list_scenarios", "List the crash scenarios, show one, or play them all."
    ),
    "defects": CommandEntry(
        "defects:list_defects", "List the mistakes that the simulated runtime can make."
    ),
    "host": CommandEntry("subjects:host", "Serve a key-value store in Python to another process."),
}
"""The commands, in the order in which ``streamproof --help`` lists them."""


class _Commands(TyperGroup):
    """The commands. A command is imported only when it runs, because all together are slow."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            return _load(cmd_name)
        # From the names here, typer suggests what is close to a word that is no command.
        names: Any = dict.fromkeys(COMMANDS)
        self.commands = names
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])


_OF_TYPES = re.compile(r" <(?:list\[)?\w+\]?>$")
"""The type of an argument in help; its description says more."""

_RANGE = re.compile(r"x>=([\d.]+)(?=[\];])")
"""The smallest value of a number in help."""


class _Command(TyperCommand):
    """A command with plain help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as a person writes them."""
        return [
            each.replace("{", "").replace("}", "") for each in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write down the arguments and the options, each with its description."""
        sections: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for each in self.get_params(ctx):
            if record := each.get_help_record(ctx):
                name, text = record
                told = _OF_TYPES.sub("", name), _RANGE.sub(r"at least \1", text)
                sections[each.param_type_name].append(told)
        for kind, records in sections.items():
            if records:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(records)


def _load(name: str) -> Any:
    """Import a command."""
    module, _, attribute = COMMANDS[name].function.partition(":")
    function = getattr(importlib.import_module(f"streamproof.commands.{module}"), attribute)
    # Without this mark, the exit codes would be wrapped into one paragraph.
    text = inspect.cleandoc(function.__doc__).replace("Exit codes:", "\b\nExit codes:")
    command = typer.Typer(add_completion=False, rich_markup_mode=None)
    command.command(name, cls=_Command, help=text)(function)
    return typer.main.get_command(command)


UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""The errors of a disk that takes no more. They are no mistake of ours, and no broken promise."""

app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Verify that a state store keeps its data and its changelog offsets together through "
    "every crash, and write the evidence.\n\n"
    "Start with `streamproof verify in-memory`. `streamproof COMMAND --help` explains a command.",
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
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version of streamproof, and stop.",
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
    except OSError as error:
        if error.errno not in UNWRITABLE:
            sys.exit(_our_mistake())
        where = f"{error.filename}: " if error.filename else ""
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        first = "Free some space" if is_full else "Give this user the right to do that"
        print(
            f"streamproof: {where}{error.strerror}. {first}, or choose directories that can be "
            "written.",
            file=sys.stderr,
        )
        code = ExitCode.USAGE
    except _CommandLineError as error:
        cast(typer.BadParameter, error).show()
        code = ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001 - whatever it is, it is no verdict
        code = _our_mistake()
    sys.exit(code)


def _our_mistake() -> ExitCode:
    """Say that streamproof failed by itself. Python's own exit code, 1, would blame the subject."""
    traceback.print_exc()
    print(
        "streamproof: streamproof itself failed, which is no verdict. Please report the lines "
        "above.",
        file=sys.stderr,
    )
    return ExitCode.SUITE_ERROR
