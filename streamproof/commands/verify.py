"""The command that verifies stores, or the simulated runtime, and writes the evidence."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer
from rich.console import Console

from streamproof.commands.defects import require_one_kind, with_defect
from streamproof.commands.verify_progress import ConsoleObserver
from streamproof.conformance.budget import parse_duration
from streamproof.conformance.canary import CANARY_SUBJECT
from streamproof.conformance.catalogue import Requirement
from streamproof.conformance.check_engine import Engine, work_directory
from streamproof.conformance.known_failures import read_known_failures
from streamproof.conformance.results import (
    SCHEMA_VERSION,
    Footer,
    Header,
    Note,
    SubjectInfo,
)
from streamproof.conformance.saved_failures import Archive, clear_failures, read_bank
from streamproof.conformance.session import (
    Session,
    select_requirements,
    verify_command,
)
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import binds_of
from streamproof.conformance.verdict_rule import worst
from streamproof.conformance.verdicts import exit_code
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.reports.render import REPORTS, render_all
from streamproof.reports.run_log import RunLogWriter
from streamproof.search_path import search_directory
from streamproof.version import __version__

__all__ = ["verify"]

BANK = Path(".streamproof") / "bank"
"""Where failures are kept if no other place is named, in the current directory."""


def verify(
    subjects: Annotated[
        list[str],
        typer.Argument(
            metavar="SUBJECT...",
            help="What to verify: module:factory, path/to/file.py:factory, a built-in name, or "
            "'cmd:./my-store-host --dir {dir}' for a store in another language; or `runtime`, the "
            "simulated runtime that stores are used by.",
        ),
    ],
    guarantee: Annotated[
        Literal["exactly-once", "at-least-once"], typer.Option(help="The processing guarantee.")
    ] = "exactly-once",
    spec: Annotated[
        Literal["kips", "kafka-4.3", "kafka-4.4"],
        typer.Option(help="The proposals as accepted, or what a Kafka release shipped of them."),
    ] = "kips",
    profile: Annotated[
        Literal["smoke", "quick", "full"],
        typer.Option(help="How much to try: seconds, a minute, or many minutes a subject."),
    ] = "quick",
    only: Annotated[
        str, typer.Option(help="Requirement ids or areas to test, separated by commas.")
    ] = "",
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Where every random decision follows from. Default: a new one."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The directory that run.ndjson and the reports go to.")
    ] = Path("streamproof-out"),
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Checks at a time. Default: one a core.")
    ] = os.cpu_count() or 1,
    round_: Annotated[
        int,
        typer.Option("--round", min=0, help="Which of the searches that follow from the seed."),
    ] = 0,
    budget: Annotated[
        str,
        typer.Option(
            help="Search on for so long in all, such as 90s, 10m or 1h, where it still learns; "
            "every check is run once in any case."
        ),
    ] = "",
    known_failures: Annotated[
        Path | None,
        typer.Option(help="A TOML file of failures that are known, each with reason and expiry."),
    ] = None,
    bank: Annotated[
        Path | None,
        typer.Option(
            "--bank",
            help="Where failures are kept, to be tried first the next time. "
            "Default: .streamproof/bank in the current directory.",
        ),
    ] = None,
    no_bank: Annotated[
        bool, typer.Option("--no-bank", help="Neither keep failures nor try kept ones.")
    ] = False,
    defect: Annotated[
        str,
        typer.Option(
            help="A mistake that the simulated runtime shall make, to see how it is found; "
            "`streamproof defects` lists them."
        ),
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds after which a single call on a subject is a hang."),
    ] = 20.0,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Where the databases go. Default: /dev/shm if it has room, else /tmp."),
    ] = None,
) -> None:
    """Verify one or more stores, or the simulated runtime, and write the evidence.

    Exit codes: 0 success, 1 a promise is broken (or a store hangs or dies), 2 partial, 3 usage,
    70 an error of the suite itself, 130 interrupted.
    """
    settings = Settings(
        guarantee=guarantee,
        spec=spec,
        profile=profile,
        seed=secrets.randbelow(10**9) if seed is None else seed,
        operation_timeout_s=timeout,
        round=round_,
    )
    names = list(dict.fromkeys(with_defect(subjects, defect)))
    binds = require_one_kind(names, guarantee)
    chosen = [name.strip() for name in only.split(",") if name.strip()]
    if no_bank and bank is not None:
        raise UsageError("--bank and --no-bank exclude each other: leave one of them out.")
    places = _Places(out, None if no_bank else bank or BANK, known_failures, work_dir)
    requirements = select_requirements(chosen, binds)
    pace = _Pace(jobs, budget)
    raise typer.Exit(_verify(names, settings, chosen, requirements, places, pace))


class _Pace(NamedTuple):
    """How many checks run at a time, and for how long to search, as it was written."""

    jobs: int
    budget: str


class _Places(NamedTuple):
    """Where a run reads from and writes to."""

    out: Path
    bank: Path | None
    known_failures: Path | None
    work_dir: Path | None


def _verify(
    names: list[str],
    settings: Settings,
    only: list[str],
    requirements: list[Requirement],
    places: _Places,
    pace: _Pace,
) -> int:
    """Run, write the log as it goes, render the reports, and say how it ended."""
    search_directory()
    console = Console(highlight=False)
    out = places.out
    budget_s = parse_duration(pace.budget) if pace.budget else 0.0
    known = None
    if places.known_failures is not None:
        known = read_known_failures(places.known_failures, datetime.now(UTC).date())
    saved, warnings = read_bank(places.bank, names) if places.bank else ([], [])
    log_path = _prepare(out)
    started = time.monotonic()
    with (
        work_directory(places.work_dir) as directory,
        Engine(settings, directory, pace.jobs) as engine,
    ):
        # What must be found wrong first of all is a store, and says nothing of the simulator.
        canary = (
            [] if CANARY_SUBJECT in names or binds_of(names[0]) == "runtime" else [CANARY_SUBJECT]
        )
        infos = engine.load([*names, *canary])
        for name in canary:
            del infos[name]
        # The evidence of an earlier run is given up only now, when this run is sure to begin;
        # its reports must not be taken for those of this one, should it die.
        for name in ("run.ndjson", *(name for name, _ in REPORTS.values())):
            (out / name).unlink(missing_ok=True)
        clear_failures(out)
        archive = Archive(out, places.bank)
        session = Session(
            infos,
            settings,
            requirements,
            known=known,
            archive=archive,
            bank=saved,
            with_canary=bool(canary),
        )
        command = verify_command(names, settings, only, pace.budget)
        header = _header(settings, only, session, list(infos.values()), command)
        with RunLogWriter(log_path) as log:
            log.write(header)
            observer = ConsoleObserver(console, session, log.write)
            footer = None
            # Ctrl-C loses nothing that was found: the log has it, and is rendered below.
            with contextlib.suppress(KeyboardInterrupt):
                with observer:
                    for subject, text in warnings:
                        observer.record(Note(kind="warning", subject=subject, text=text))
                    session.run(engine, observer, budget_s)
                footer = _footer(session, header, time.monotonic() - started)
                log.write(footer)
    report = render_all(log_path, out)["html"]
    if footer is None:
        observer.interrupted(header.command, report)
        return ExitCode.INTERRUPTED
    observer.summarise(footer, report)
    return footer.exit_code


def _prepare(out: Path) -> Path:
    """The path of the run log, in a directory that can be written."""
    log_path = out / "run.ndjson"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if log_path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "run.ndjson in it is a directory")
        # The log of an earlier run stays, should this one not begin; an empty one does not.
        is_new = not log_path.exists()
        log_path.touch()
        if is_new:
            log_path.unlink()
    except OSError as error:
        raise UsageError(
            f"The output directory {str(out)!r} cannot be written: {error.strerror}. "
            "Choose another one with --out."
        ) from error
    return log_path


def _header(
    settings: Settings,
    only: list[str],
    session: Session,
    infos: list[SubjectInfo],
    command: str,
) -> Header:
    now = datetime.now(UTC)
    libraries = ("rocksdict", "hypothesis")
    return Header(
        schema_version=SCHEMA_VERSION,
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{settings.seed}",
        tool_version=__version__,
        started_at=now.isoformat(timespec="seconds"),
        seed=settings.seed,
        profile=settings.profile,
        guarantee=settings.guarantee,
        spec=settings.spec,
        only=only,
        command=command,
        subjects=infos,
        requirements=[requirement.id for requirement in session.requirements],
        platform={
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            **{name: metadata.version(name) for name in libraries},
        },
    )


def _footer(session: Session, header: Header, duration_s: float) -> Footer:
    verdicts = session.verdicts()
    verdict = worst(each.verdict for each in verdicts)
    first = next(iter(session.failures_worst_first()), None)
    return Footer(
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(duration_s, 3),
        verdict=verdict,
        exit_code=exit_code(verdict, session.results),
        verdicts=verdicts,
        reproduce=first.reproduce if first else header.command,
        canary=session.canary,
    )
