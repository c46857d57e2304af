"""The context of a check: its subject and its work directory, and the record of its findings."""

from __future__ import annotations

import re
import time
from pathlib import Path

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_records import CheckEvidence, CheckFinding, Effort
from streamproof.conformance.check_registry import Check
from streamproof.conformance.disk_room import why_no_room
from streamproof.conformance.failure_shapes import MOST_SHAPES, shape_of_words
from streamproof.conformance.lab import Lab
from streamproof.conformance.program_text import explained, fails_by_itself
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.saved_failures import Replay, SavedChoices
from streamproof.conformance.settings import Settings, derive_seed
from streamproof.conformance.subject import Subject
from streamproof.conformance.violations import Violation

__all__ = ["CheckContext"]


class CheckContext:
    """One check of one subject, with a work directory of its own.

    Trials, crash engines and campaigns know only this part of a check.
    :mod:`streamproof.conformance.check_run` runs checks, and so knows all of them.

    Args:
        replay: a failure to replay, instead of a search for new ones.

    Attributes:
        postpones: whether campaigns leave it to the run to make failures small. Several checks may
            find the same failure, and the run then makes one of them small.
    """

    def __init__(
        self,
        check: Check,
        subject: Subject,
        settings: Settings,
        directory: Path,
        status: RunningCall,
        *,
        replay: Replay | None = None,
    ) -> None:
        self.check = check
        self.subject = subject
        self.settings = settings
        self.directory = directory
        self.status = status
        self.evidence = CheckEvidence()
        self.findings: dict[tuple[str, str], CheckFinding] = {}
        self.first: dict[str, Effort] = {}
        self.replay = replay
        self.no_room = ""
        self.postpones = False
        self._directories = 0
        self._applying: dict[str, bool] = {}
        self._begun = time.monotonic()

    @property
    def seed(self) -> int:
        """The seed of this check."""
        return derive_seed(self.settings.seed, self.check.name, self.settings.round)

    @property
    def exact(self) -> bool:
        """Whether a crash must leave the content of exactly one commit.

        A store that claims transactions is held to them under every specification.
        """
        exactly_once = self.settings.guarantee == "exactly-once"
        return exactly_once and self.subject.capabilities.transactional

    def applies(self, requirement: str) -> bool:
        """Whether a requirement holds for this subject in this run."""
        if requirement not in self._applying:
            # Random programs ask before every step.
            self._applying[requirement] = not load_catalogue()[requirement].why_not_applicable(
                self.subject.capabilities, self.settings.guarantee, self.settings.spec
            )
        return self._applying[requirement]

    def is_new(self, requirement: str, shape: str) -> bool:
        """Whether a requirement applies, and this check has not found it broken in this shape yet.

        After ``MOST_SHAPES`` shapes of a requirement, no further shape is new.
        """
        reported = self.check.reported_as(requirement)
        if not reported or (reported, shape) in self.findings or not self.applies(requirement):
            return False
        return sum(each == reported for each, _ in self.findings) < MOST_SHAPES

    def new_directory(self) -> Path:
        """A new empty directory."""
        self._directories += 1
        directory = self.directory / f"t{self._directories}" / "task"
        directory.mkdir(parents=True)
        return directory

    def lab(self, directory: Path) -> Lab:
        """A lab for the subject in a directory."""
        return Lab(self.subject, guarantee=self.settings.guarantee, directory=directory)

    def look_for_room(self) -> None:
        """Note if the disk is full, before files are deleted: a failure then proves nothing."""
        self.no_room = self.no_room or why_no_room(self.directory)

    def noticed(self, requirement: str) -> None:
        """Record the effort of finding a promise broken, the first time only."""
        requirement = self.check.reported_as(requirement)
        self.look_for_room()
        if not (self.status.noticed or self.no_room) and self.applies(requirement):
            self.status.notice(requirement)
        if requirement not in self.first:
            self.first[requirement] = Effort(
                seconds=time.monotonic() - self._begun,
                examples=self.evidence.examples,
                crashes=sum(self.evidence.crash_points.values()),
            )

    def held(self, requirement: str) -> None:
        """Count a promise as tested and held."""
        if reported := self.check.reported_as(requirement):
            self.evidence.exercised.add(reported)

    def record(
        self,
        violation: Violation,
        choices: SavedChoices | None = None,
        *,
        is_large: bool = False,
    ) -> None:
        """Keep a violation, unless one of the same requirement and shape has a shorter program.

        ``is_large`` says that the run has to make it small.
        """
        self.noticed(violation.requirement)
        finding = CheckFinding(
            requirement=self.check.reported_as(violation.requirement),
            tried=violation.tried,
            expected=self.without_paths(violation.expected),
            found=self.without_paths(violation.found),
            program=explained(self.without_paths(violation.program)),
            shape=_shape_of(violation),
            traceback=self.without_paths(violation.traceback),
            choices=choices or SavedChoices(),
            is_large=is_large,
        )
        known = self.known(violation)
        if known is None or _size(finding.program) < _size(known.program):
            self.findings[finding.requirement, finding.shape] = finding

    def known(self, violation: Violation) -> CheckFinding | None:
        """The finding so far that has the requirement and the shape of a violation."""
        reported = self.check.reported_as(violation.requirement)
        return self.findings.get((reported, _shape_of(violation)))

    def without_paths(self, text: str) -> str:
        """A text without the names of temporary directories, which would differ in every run.

        Take them out before the text is cut: nobody recognizes half a name.
        """
        return re.sub(rf"{re.escape(str(self.directory))}/t\d+/task", "<task directory>", text)


def _shape_of(violation: Violation) -> str:
    return violation.shape or shape_of_words(violation.expected, violation.found)


def _size(program: str) -> tuple[bool, bool, int]:
    """The size of a program to a reader, to whom none at all is the largest."""
    return not program, not fails_by_itself(program), len(program)
