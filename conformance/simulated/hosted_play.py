"""Playing a variant of a scenario with the store that a user has asked for."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from streamproof.conformance.check_engine import work_directory
from streamproof.conformance.simulated.subject_disks import disks_of
from streamproof.conformance.subject import load_subject
from streamproof.scenarios.play import Judged, play
from streamproof.scenarios.real_stores import rocksdb_disks
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import library
from streamproof.sim.simulation import MakeDisk

__all__ = ["Wanted", "play_with", "target_of"]


class Wanted(NamedTuple):
    """What a run is to be, other than its scenario says.

    Attributes:
        subject: the store in it; a model store, if it is empty.
        defects: more mistakes that the runtime makes.
        seed: where all that is left open follows from; as the scenario says, if it is ``None``.
        work_dir: where databases go; see :func:`work_directory`.
    """

    subject: str = ""
    defects: tuple[str, ...] = ()
    seed: int | None = None
    work_dir: Path | None = None

    @property
    def options(self) -> list[str]:
        """The same as it is typed."""
        words = [word for each in self.defects for word in ("--defect", each)]
        words += ["--subject", self.subject] if self.subject else []
        return words + (["--seed", str(self.seed)] if self.seed is not None else [])


def target_of(scenario: Scenario, setup: Setup) -> str:
    """What is typed to get this one variant: the name of the scenario, or its path."""
    is_known = library().get(scenario.name) == scenario.path
    return f"{scenario.name if is_known else scenario.path}@{setup.name}"


def play_with(
    scenario: Scenario, setup: Setup, wanted: Wanted, changes: tuple[str, ...] = ()
) -> Judged:
    """Play a variant with the store that was asked for.

    Args:
        scenario: the scenario, with its changes.
        setup: the variant.
        wanted: what is to be other than it says.
        changes: the changes as they were typed, for the command that shows the run again.

    Raises:
        UsageError: the store cannot be used in this scenario.
    """
    words = [target_of(scenario, setup)]
    words += [word for each in changes for word in ("--set", each)]
    with _disks(wanted, setup) as make_disk:
        return play(
            scenario,
            setup,
            defects=wanted.defects,
            seed=wanted.seed,
            make_disk=make_disk,
            command=f"streamproof replay {shlex.join([*words, *wanted.options])}",
        )


@contextmanager
def _disks(wanted: Wanted, setup: Setup) -> Iterator[MakeDisk | None]:
    """Disks with the store on them, which are gone afterwards; ``None`` for model stores."""
    if not wanted.subject:
        yield None
        return
    # That a store keeps its offsets in a file is what a scenario is about, and no news.
    logging.getLogger("streamproof").setLevel(logging.ERROR)
    with work_directory(wanted.work_dir) as directory:
        if wanted.subject == "rocksdb":
            yield rocksdb_disks(directory, setup.plan)
        else:
            yield disks_of(load_subject(wanted.subject), directory, lambda _: nullcontext())
