"""``streamproof verify``: verifies stores, the runtime or applications, and writes the evidence."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamproof.commands.options import (
    CORES,
    DEFAULT_OUT,
    Checks,
    ClassPath,
    KafkaRelease,
    OfTheJvm,
    OutputDirectory,
    StoreLayer,
    WorkDirectory,
    names_in,
    subjects_with,
)
from streamproof.commands.terminal import terminal
from streamproof.conformance.results import Guarantee, Profile, Spec
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.search_path import search_directory

if TYPE_CHECKING:
    from streamproof.conformance.nursery import Nursery
    from streamproof.conformance.verify_session import Session
    from streamproof.reports.verification import VerifyRequest

__all__ = ["verify"]

BANK = Path(".streamproof") / "bank"
"""The bank in the current directory, which is used unless another one is named."""


SubjectsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SUBJECT",
        help="A store to verify: module:factory, path/to/file.py:factory, a built-in name, or "
        "'cmd:./myhost --dir {dir}' for a store in another language. kafka:rocksdb is "
        "Kafka's own store, and java:com.acme.Stores#supplier a store in --classpath. Or "
        "`runtime`, to verify the simulated runtime that stores run in, or runtime:kafka@RELEASE, "
        "to verify Kafka Streams itself. Or app.toml, the file of an application on Kafka Streams.",
    ),
]

GuaranteeOption = Annotated[
    Guarantee | None,
    typer.Option(
        show_default="exactly-once",
        help="Run the store under this processing guarantee. The file of an application names its "
        "own.",
    ),
]

SpecOption = Annotated[
    Spec,
    typer.Option(
        help="Hold the store to the proposals as accepted (kips), or as a Kafka release "
        "shipped them."
    ),
]

ProfileOption = Annotated[
    Profile,
    typer.Option(
        help="Try for seconds (smoke), for about a minute (quick) or for many minutes (full) "
        "for each subject."
    ),
]

OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="IDS",
        show_default=False,
        help="Test only these requirements or areas, separated by commas: CRASH,KV-001. Other "
        "requirements that their checks see broken are reported, too. Repeatable.",
    ),
]

SeedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Fix every random decision, so that the run can be repeated. Default: a new seed.",
    ),
]

RoundOption = Annotated[
    int,
    typer.Option(
        "--round",
        min=0,
        metavar="N",
        help="Search as round N of a longer search with the same seed would.",
    ),
]

BudgetOption = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        show_default=False,
        help="Go on searching for TIME in all, such as 90s, 10m or 1h, in the checks that "
        "still find new behaviour. Every check runs at least once.",
    ),
]

KnownFailuresOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Do not count the failures that this TOML file lists, each with a reason and an "
        "expiry date.",
    ),
]

BankOption = Annotated[
    Path | None,
    typer.Option(
        "--bank",
        metavar="DIR",
        help="Save failures in DIR, and try the failures saved there first. "
        "Default: .streamproof/bank in the current directory.",
    ),
]

NoBankOption = Annotated[
    bool, typer.Option("--no-bank", help="Save no failures in a bank, and try no saved ones.")
]

DefectOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="Make the simulated runtime commit this mistake, to see that it is caught. "
        "`streamproof defects` lists all mistakes.",
    ),
]

SubjectVersionOption = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        show_default=False,
        help="Show this version of your stores in reports. Default: the version of their package, "
        "or a digest of their file.",
    ),
]

TimeoutOption = Annotated[
    float,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="Treat a call of the store as a hang when it takes longer than this. "
        "Waiting for a processor does not count.",
    ),
]


def verify(
    subjects: SubjectsArgument,
    guarantee: GuaranteeOption = None,
    spec: SpecOption = "kips",
    profile: ProfileOption = "quick",
    only: OnlyOption = None,
    seed: SeedOption = None,
    out: OutputDirectory = DEFAULT_OUT,
    jobs: Checks = CORES,
    round_: RoundOption = 0,
    budget: BudgetOption = "",
    known_failures: KnownFailuresOption = None,
    bank: BankOption = None,
    no_bank: NoBankOption = False,
    defect: DefectOption = "",
    subject_version: SubjectVersionOption = "",
    timeout: TimeoutOption = 20.0,
    work_dir: WorkDirectory = None,
    class_path: ClassPath = "",
    kafka: KafkaRelease = "",
    layer: StoreLayer = "",
) -> None:
    """Verify stores, the simulated runtime, or a Kafka application.

    Writes the run log, the reports, and a file for each failure.

    Exit codes:
      0    every promise that was tried is kept, or is broken only in ways
           that the file of known failures lists
      1    a MUST is broken, or a store hangs or dies
      2    a SHOULD or a MAY is broken, or a promise that counts could not
           be tried
      3    the command line or a subject is wrong, or a directory cannot
           be written
      70   streamproof itself failed
      130  interrupted; the log has what was found by then
    """
    if no_bank and bank is not None:
        raise UsageError("--bank and --no-bank exclude each other: leave one of them out.")
    from streamproof.conformance.nursery import started_nursery

    names = subjects_with(subjects, OfTheJvm(class_path, kafka, layer))
    search_directory()
    with started_nursery(names, work_dir) as nursery:
        # The nursery imports the suite while this process imports the rest.
        from streamproof.conformance.settings import Settings
        from streamproof.reports.verification import VerifyRequest, guarantee_of, with_defect

        names = with_defect(names, defect)
        request = VerifyRequest(
            subjects=tuple(dict.fromkeys(names)),
            settings=Settings(
                guarantee=guarantee_of(names, guarantee),
                spec=spec,
                profile=profile,
                seed=secrets.randbelow(10**9) if seed is None else seed,
                operation_timeout_s=timeout,
                round=round_,
            ),
            only=names_in(only or ()),
            out=out,
            bank=None if no_bank else bank or BANK,
            known_failures=known_failures,
            jobs=jobs,
            budget=budget,
            subject_version=subject_version,
        )
        raise typer.Exit(_verify(request, nursery))


def _verify(request: VerifyRequest, nursery: Nursery) -> int:
    """Carry out a run, and say how it ended; returns the exit code."""
    from streamproof.commands.verify_progress import ConsoleObserver
    from streamproof.reports.verification import run_verification

    console = terminal()
    observers: list[ConsoleObserver] = []

    def watch(session: Session) -> ConsoleObserver:
        observers.append(ConsoleObserver(console, session))
        return observers[0]

    done = run_verification(request, watch, nursery)
    (observer,) = observers
    if done.footer is None:
        observer.interrupted(request.command, done.report)
        return ExitCode.INTERRUPTED
    observer.summarise(done.footer, done.report)
    return done.footer.exit_code
