"""Verifying stores, or the simulated runtime: one run, its log and its reports."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from streamproof.conformance.budget import parse_duration
from streamproof.conformance.canary import CANARY_SUBJECT
from streamproof.conformance.catalogue import Binds, Requirement
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.known_failures import KnownFailures, read_known_failures
from streamproof.conformance.nursery import Nursery, started_nursery
from streamproof.conformance.results import (
    SCHEMA_VERSION,
    CheckRecord,
    Failure,
    Footer,
    Guarantee,
    Header,
    Note,
    Profile,
    RequirementResult,
    Spec,
    SubjectInfo,
)
from streamproof.conformance.saved_failures import (
    Archive,
    SavedFailure,
    clear_failures,
    read_bank,
)
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import RUNTIME, binds_of, defect_of
from streamproof.conformance.verdict_rule import worst
from streamproof.conformance.verdicts import exit_code
from streamproof.conformance.verify_session import (
    Observer,
    Session,
    select_requirements,
    verify_command,
)
from streamproof.errors import UsageError
from streamproof.reports.html_report import compile_page
from streamproof.reports.render import REPORTS, render_all
from streamproof.reports.run_log import RunLog, RunLogWriter, read_run_log
from streamproof.search_path import search_directory
from streamproof.sim.defects import DEFECTS, require_defects
from streamproof.stores.builtin import BUILTIN
from streamproof.version import __version__

__all__ = [
    "RUN_LOG",
    "VerifiedRun",
    "VerifyRequest",
    "Watch",
    "guarantee_of",
    "require_one_kind",
    "run_verification",
    "verify",
    "with_defect",
]

RUN_LOG = "run.ndjson"
"""The name of the run log in the output directory."""

LIBRARIES = ("rocksdict", "hypothesis")
"""The libraries whose versions the header of a run log names."""


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """One run of ``verify``, as a user asks for it.

    Attributes:
        subjects: names of stores, or of the runtime.
        settings: what every check is given.
        only: ids and areas of requirements; all requirements, if it is empty.
        out: the directory for the run log and the reports.
        bank: the directory of failures that earlier runs saved; ``None`` to use no bank.
        known_failures: a TOML file of known failures.
        work_dir: the directory for databases; see :func:`started_nursery`.
        jobs: how many checks run at the same time.
        budget: how long to search, as ``10m``; empty to run every check once.
        subject_version: the version of all subjects that are not built-in ones, for the reports;
            empty to take that of their package, or a digest of their file.
    """

    subjects: tuple[str, ...]
    settings: Settings
    only: tuple[str, ...] = ()
    out: Path = Path("streamproof-out")
    bank: Path | None = None
    known_failures: Path | None = None
    work_dir: Path | None = None
    jobs: int = 1
    budget: str = ""
    subject_version: str = ""

    @property
    def command(self) -> str:
        """The command line that repeats the run."""
        return verify_command(self.subjects, self.settings, self.only, self.budget)


class VerifiedRun(NamedTuple):
    """What a run came to.

    Attributes:
        session: the results and the failures.
        header: the first record of the run log.
        footer: its last record; ``None`` if Ctrl-C ended the run.
        log: the run log.
        report: the HTML report.
    """

    session: Session
    header: Header
    footer: Footer | None
    log: Path
    report: Path


Watch = Callable[[Session], AbstractContextManager[Observer]]
"""Makes what watches a session, for as long as the session runs."""


def _unwatched(_: Session) -> AbstractContextManager[Observer]:
    return nullcontext(Observer())


def verify(
    *subjects: str,
    guarantee: Guarantee = "exactly-once",
    spec: Spec = "kips",
    profile: Profile = "quick",
    only: Iterable[str] = (),
    seed: int | None = None,
    out: Path | str = "streamproof-out",
    jobs: int | None = None,
) -> RunLog:
    """Verify one or more stores, or ``runtime``, and return the run log.

    ``verify("mystore.py:make").footer.verdict`` is the verdict. The reports are in ``out``.

    Args:
        subjects: what to verify, as ``streamproof verify`` takes it: ``module:factory``,
            ``path/to/file.py:factory``, a built-in name, ``cmd:COMMAND``, ``runtime``, or
            ``app.toml``, the file of an application.
        guarantee: the processing guarantee under which the store runs; an application's file names
            its own.
        spec: the proposals as accepted, or as a Kafka release shipped them.
        profile: how much to try: ``smoke`` takes seconds, ``quick`` a minute, ``full`` many.
        only: ids or areas of the requirements to test; all of them by default.
        seed: fixes every random decision; a new one by default.
        out: the directory for the run log and the reports.
        jobs: how many checks run at the same time; one for each core by default.

    Raises:
        UsageError: a subject cannot be loaded, or an argument is wrong.
        SuiteError: streamproof itself failed.
    """
    is_claimed = any(binds_of(each) == "application" for each in subjects)
    request = VerifyRequest(
        subjects=tuple(dict.fromkeys(subjects)),
        settings=Settings(
            guarantee=guarantee_of(subjects, None if is_claimed else guarantee),
            spec=spec,
            profile=profile,
            seed=secrets.randbelow(10**9) if seed is None else seed,
        ),
        only=tuple(only),
        out=Path(out),
        jobs=jobs or os.cpu_count() or 1,
    )
    done = run_verification(request)
    if done.footer is None:
        raise KeyboardInterrupt
    return read_run_log(done.log)


def run_verification(
    request: VerifyRequest, watch: Watch = _unwatched, nursery: Nursery | None = None
) -> VerifiedRun:
    """Carry out a run: write the log while it goes on, and render the reports at its end.

    Ctrl-C ends the run early, and loses nothing that was found.

    Args:
        request: the run.
        watch: makes what watches the session; by default, nothing does.
        nursery: a nursery that was started for the subjects; by default, this function starts one.

    Raises:
        UsageError: something in the request is wrong.
        SuiteError: streamproof itself failed.
    """
    search_directory()
    if not request.subjects:
        raise UsageError("There is no subject: name a store, such as mystore.py:make.")
    names, settings = list(request.subjects), request.settings
    requirements = select_requirements(request.only, require_one_kind(names, settings.guarantee))
    budget_s = parse_duration(request.budget) if request.budget else 0.0
    known = _known_failures(request)
    saved, warnings = read_bank(request.bank, names) if request.bank else ([], [])
    log_path = _prepare(request.out)
    started = time.monotonic()
    with (
        nullcontext(nursery) if nursery else started_nursery(names, request.work_dir) as started_in,
        Engine(settings, started_in.directory, request.jobs, started_in) as engine,
    ):
        session, infos = _begin(engine, request, requirements, known, saved)
        header = _header(request, session, infos)
        watching = watch(session)
        footer = None
        with RunLogWriter(log_path) as log:
            log.write(header)
            with contextlib.suppress(KeyboardInterrupt):
                with watching as watcher, _no_log_of_nothing(log_path):
                    observer = _LogKeeper(log, watcher)
                    for subject, text in warnings:
                        observer.record(Note(kind="warning", subject=subject, text=text))
                    session.run(engine, observer, budget_s)
                footer = _footer(session, header, time.monotonic() - started)
                log.write(footer)
    report = render_all(log_path, request.out)["html"]
    return VerifiedRun(session, header, footer, log_path, report)


@contextlib.contextmanager
def _no_log_of_nothing(log: Path) -> Iterator[None]:
    """Delete the log if a subject turns out to be unusable: nothing was verified then."""
    try:
        yield
    except UsageError:
        log.unlink()
        raise


class _LogKeeper(Observer):
    """Writes each record to the log, and then hands it on."""

    def __init__(self, log: RunLogWriter, watcher: Observer) -> None:
        self._log = log
        self._watcher = watcher

    def noticed(self, subject: str, requirement: str) -> None:
        self._watcher.noticed(subject, requirement)

    def ended(self, subject: str, outcome: CheckOutcome) -> None:
        self._watcher.ended(subject, outcome)

    def shrinking(self, subject: str, failures: int) -> None:
        self._watcher.shrinking(subject, failures)

    def shrunk(self, subject: str) -> None:
        self._watcher.shrunk(subject)

    def record(self, record: CheckRecord | RequirementResult | Failure | Note) -> None:
        self._log.write(record)
        self._watcher.record(record)


def with_defect(subjects: Iterable[str], defect: str) -> list[str]:
    """The subjects, with a defect in the runtime among them.

    Raises:
        UsageError: there is no such defect, or the runtime is not among the subjects.
    """
    names = list(subjects)
    if not defect:
        return names
    if RUNTIME not in names:
        raise UsageError(
            "--defect is for the simulated runtime: add it to `streamproof verify runtime`."
        )
    require_defects([defect])
    return [f"{RUNTIME}:{defect}" if each == RUNTIME else each for each in names]


def guarantee_of(subjects: Iterable[str], asked: Guarantee | None) -> Guarantee:
    """The guarantee of a run: the one that is asked for, or that its applications claim.

    Raises:
        UsageError: the file of an application cannot be used, or claims another guarantee.
    """
    found = asked
    for name in subjects:
        if binds_of(name) != "application":
            continue
        # A store needs no scenarios.
        from streamproof.scenarios.kafka.application_file import read_application

        claim = read_application(Path(name)).application.guarantee
        if found not in (None, claim):
            raise UsageError(
                f"{name} claims {claim}, and not {found}: leave --guarantee out, and verify "
                "applications with other claims by themselves."
            )
        found = claim
    return found or "exactly-once"


def require_one_kind(names: Iterable[str], guarantee: Guarantee) -> Binds:
    """Whether a run is about stores or about the runtime, whose defects must matter in the run.

    Raises:
        UsageError: stores and the runtime are mixed, or a defect does no harm under the guarantee.
    """
    names = list(names)
    kinds = sorted({binds_of(name) for name in names})
    if kinds == ["real-runtime", "runtime"]:
        # They stand beside each other in one matrix.
        kinds = ["runtime"]
    if len(kinds) > 1:
        raise UsageError(
            "Stores, the runtime and applications are asked for different promises: verify them "
            "one by one."
        )
    for defect in filter(None, map(defect_of, names)):
        require_defects([defect])
        harmful = DEFECTS[defect].guarantees
        if guarantee not in harmful:
            raise UsageError(
                f"The defect {defect!r} does no harm under {guarantee}: "
                f"add --guarantee {harmful[0]}."
            )
    return kinds[0]


def _known_failures(request: VerifyRequest) -> KnownFailures | None:
    if request.known_failures is None:
        return None
    return read_known_failures(request.known_failures, datetime.now(UTC).date())


def _begin(
    engine: Engine,
    request: VerifyRequest,
    requirements: list[Requirement],
    known: KnownFailures | None,
    saved: list[SavedFailure],
) -> tuple[Session, list[SubjectInfo]]:
    """Load the subjects, and clear what an earlier run left in the output directory."""
    names = request.subjects
    # The canary is a store that must be found wrong first. It proves nothing about the runtime.
    with_canary = CANARY_SUBJECT not in names and binds_of(names[0]) == "store"
    loaded = [*names, *([CANARY_SUBJECT] if with_canary else [])]
    infos = engine.load(loaded, meanwhile=compile_page)
    if with_canary:
        del infos[CANARY_SUBJECT]
    if request.subject_version:
        version = request.subject_version
        own = {name for name in infos if name not in BUILTIN and binds_of(name) == "store"}
        infos |= {name: structs.replace(infos[name], version=version) for name in own}
    # The evidence of an earlier run is given up only now, when this run is sure to begin. Its
    # reports must not be taken for those of this run, should this run die.
    for name in (RUN_LOG, *(name for name, _ in REPORTS.values())):
        (request.out / name).unlink(missing_ok=True)
    clear_failures(request.out)
    session = Session(
        infos,
        request.settings,
        requirements,
        known=known,
        archive=Archive(request.out, request.bank),
        bank=saved,
        with_canary=with_canary,
    )
    return session, list(infos.values())


def _prepare(out: Path) -> Path:
    """The path of the run log, in a directory that can be written."""
    log_path = out / RUN_LOG
    try:
        out.mkdir(parents=True, exist_ok=True)
        if log_path.is_dir():
            raise IsADirectoryError(errno.EISDIR, f"{RUN_LOG} in it is a directory")
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


def _header(request: VerifyRequest, session: Session, infos: list[SubjectInfo]) -> Header:
    now, settings = datetime.now(UTC), request.settings
    return Header(
        schema_version=SCHEMA_VERSION,
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{settings.seed}",
        tool_version=__version__,
        started_at=now.isoformat(timespec="seconds"),
        seed=settings.seed,
        profile=settings.profile,
        guarantee=settings.guarantee,
        spec=settings.spec,
        only=list(request.only),
        command=request.command,
        subjects=infos,
        requirements=[requirement.id for requirement in session.requirements],
        platform={
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            **{name: metadata.version(name) for name in LIBRARIES},
        },
    )


def _footer(session: Session, header: Header, duration_s: float) -> Footer:
    verdicts = session.verdicts()
    verdict = worst(each.verdict for each in verdicts)
    groups = session.failure_groups()
    return Footer(
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(duration_s, 3),
        verdict=verdict,
        exit_code=exit_code(verdict, session.results),
        verdicts=verdicts,
        reproduce=groups[0].first.reproduce if groups else header.command,
        canary=session.canary,
    )
