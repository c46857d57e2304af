"""Plays a variant of a scenario with the store that the user has chosen."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from streamproof.conformance.store_worlds.hosted_worlds import asked_of
from streamproof.conformance.store_worlds.subject_disks import disks_of
from streamproof.conformance.subject import Subject, load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.errors import UsageError
from streamproof.scenarios.play import Judged, play
from streamproof.scenarios.real_stores import needs_model_stores, rocksdb_disks
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import library
from streamproof.sim.invariants import INVARIANTS, Invariant
from streamproof.sim.simulation import MakeDisk
from streamproof.stores.jvm.subjects import class_path_options

__all__ = ["Wanted", "play_with", "target_of", "why_not_with"]

OURS = "rocksdb"
"""The store that can be given what a scenario asks for: offsets of its own, and transactions."""


class Wanted(NamedTuple):
    """The user's changes to the run of a scenario.

    Attributes:
        subject: the store in the run; a model store if it is empty.
        defects: further defects of the runtime.
        seed: the seed of all open decisions; ``None`` for the choices of the scenario.
        work_dir: the directory for databases; see :func:`work_directory`.
        release: the release of Kafka that plays the scenario for real; empty for the simulator.
        bootstrap: the address of a cluster that is there already; empty to start a broker.
    """

    subject: str = ""
    defects: tuple[str, ...] = ()
    seed: int | None = None
    work_dir: Path | None = None
    release: str = ""
    bootstrap: str = ""

    @property
    def options(self) -> list[str]:
        """The changes as options of the command line."""
        words = [word for each in self.defects for word in ("--defect", each)]
        words += ["--subject", self.subject] if self.subject else []
        words += ["--seed", str(self.seed)] if self.seed is not None else []
        words += ["--on", f"kafka@{self.release}"] if self.release else []
        words += ["--bootstrap", self.bootstrap] if self.bootstrap else []
        return words + class_path_options([self.subject])


def target_of(scenario: Scenario, setup: Setup) -> str:
    """The argument for this variant on the command line: the scenario's name or path, and ``@``."""
    is_known = library().get(scenario.name) == scenario.path
    return f"{scenario.name if is_known else scenario.path}@{setup.name}"


def why_not_with(subject: str, scenario: Scenario, setup: Setup) -> str:
    """Why a variant cannot be played with a store; empty if it can."""
    if reason := needs_model_stores(scenario, setup):
        return reason
    if subject != OURS and _lacks_transactions(load_subject(subject), setup):
        return "it needs a store that stages its writes"
    return ""


def _lacks_transactions(subject: Subject, setup: Setup) -> bool:
    return setup.plan.config.transactional and not subject.capabilities.transactional


def play_with(
    scenario: Scenario, setup: Setup, wanted: Wanted, changes: tuple[str, ...] = ()
) -> Judged:
    """Play a variant with the chosen store, or for real.

    Args:
        scenario: the scenario, with its changes.
        setup: the variant.
        wanted: the user's changes to the run.
        changes: the changed settings as typed, for the command that shows the run again.

    Raises:
        UsageError: the store cannot be used in this scenario, or the scenario cannot be played for
            real.
    """
    words = [target_of(scenario, setup)]
    words += [word for each in changes for word in ("--set", each)]
    command = f"streamproof replay {shlex.join([*words, *wanted.options])}"
    if wanted.bootstrap or wanted.release:
        return _play_for_real(scenario, setup, wanted, command)
    with _hosted(wanted, scenario, setup) as (make_disk, invariants):
        return play(
            scenario,
            setup,
            defects=wanted.defects,
            seed=wanted.seed,
            make_disk=make_disk,
            invariants=invariants,
            command=command,
        )


def _play_for_real(scenario: Scenario, setup: Setup, wanted: Wanted, command: str) -> Judged:
    # Imported here, because what starts brokers takes long to import, and few runs need it.
    from streamproof.scenarios.kafka.real_play import play_for_real
    from streamproof.scenarios.kafka.shared_broker import play_on

    if wanted.bootstrap:
        return play_on(wanted.bootstrap, scenario, setup, wanted.release, command)
    return play_for_real(scenario, setup, wanted.release, command)


@contextmanager
def _hosted(
    wanted: Wanted, scenario: Scenario, setup: Setup
) -> Iterator[tuple[MakeDisk | None, Sequence[type[Invariant]]]]:
    """Disks with the store, which are deleted afterwards, and the promises that bind the store.

    There are no disks for model stores.
    """
    if not wanted.subject:
        yield None, INVARIANTS
        return
    # Scenarios may be about offsets in a file, so a warning about them would be noise.
    logging.getLogger("streamproof").setLevel(logging.ERROR)
    with work_directory(wanted.work_dir) as directory:
        if wanted.subject == OURS:
            yield rocksdb_disks(directory, setup.plan), INVARIANTS
        else:
            subject = load_subject(wanted.subject)
            if _lacks_transactions(subject, setup):
                raise UsageError(
                    f"{target_of(scenario, setup)} needs a store that stages its writes, and "
                    f"{subject.name} does not: add `--set transactional=false`, or choose another "
                    "variant or store."
                )
            disks = disks_of(subject, directory, lambda _: nullcontext())
            yield disks, asked_of(subject, setup.plan)
