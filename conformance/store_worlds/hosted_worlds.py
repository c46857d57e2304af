"""Runs worlds of the swarm with a real store, for explorations of a user's store."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from streamproof.conformance.store_worlds.subject_disks import disks_of
from streamproof.conformance.store_worlds.world_judge import breach_of_error, runtime_invariants_for
from streamproof.conformance.subject import Subject, load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.search_path import search_directory
from streamproof.sim.broker_errors import SubjectError
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import Invariant, InvariantViolation
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Event, Watcher
from streamproof.sim.world_plan import Plan

__all__ = ["Hosted"]


@dataclass(frozen=True)
class Hosted:
    """Runs a world with a store in it: a ``sim.exploration.Simulate`` that can be pickled.

    An error that no store may raise becomes a violation at the end of the run.

    Attributes:
        subject: the name of the store.
        directory: the directory in which modules are looked for, as on the command line.
        work_dir: the directory for databases; see :func:`work_directory`.
    """

    subject: str
    directory: str
    work_dir: Path | None = None

    def __call__(
        self,
        choices: Choices,
        plan: Plan,
        *,
        defects: Iterable[str] = (),
        watchers: Iterable[Watcher] = (),
    ) -> Outcome:
        """Simulate a world in a directory that is deleted afterwards."""
        last = [0]

        def count(event: Event) -> None:
            last[0] = event.sequence + 1

        subject = self._loaded()
        with work_directory(self.work_dir) as directory:
            try:
                return run(
                    choices,
                    plan,
                    defects=defects,
                    invariants=asked_of(subject, plan),
                    watchers=[count, *watchers],
                    make_disk=disks_of(subject, directory / "disks", lambda _: nullcontext()),
                )
            except SubjectError as error:
                breach = breach_of_error(error)
                told = InvariantViolation(breach.shape, breach.requirement, breach.found, None)
                return Outcome(plan, [told], "", last[0], {}, 0, choices.drawn)

    def _loaded(self) -> Subject:
        found = _SUBJECTS.get(self.subject)
        if found is None:
            search_directory(self.directory)
            found = _SUBJECTS[self.subject] = load_subject(self.subject)
        return found


def asked_of(subject: Subject, plan: Plan) -> tuple[type[Invariant], ...]:
    """The promises that the runtime keeps around this store, if the store is right.

    Args:
        subject: the store.
        plan: the plan of the world; its rules and its guarantee decide.
    """
    config = plan.config
    return runtime_invariants_for(
        subject.capabilities,
        "exactly-once" if config.exactly_once else "at-least-once",
        "kips" if config.store_rules == "proposal" else "kafka-4.4",
    )


_SUBJECTS: dict[str, Subject] = {}
"""The subjects that this process has loaded, by name."""
