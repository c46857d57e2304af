"""Faults drawn from a seed: what happens to which instance, and at which moment.

A moment is an event that the recorder sees, as the fifth record that an instance processes. Which
records share a transaction depends on the speed of the machine, so a seed repeats the faults, and
not each step of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from streamproof.scenarios.kafka.application_file import ApplicationFile, Fault
from streamproof.scenarios.kafka.real_worlds import DELAYS_MS, FEW, MOMENTS
from streamproof.scenarios.kafka.user_play import instance_names
from streamproof.scenarios.scenario import Crash, Occurrence, Pause, Stop

__all__ = ["AnyFault", "draw_faults", "told"]

AnyFault = Crash | Stop | Pause
"""What happens to an instance."""

MOST_FAULTS = 3
"""The most faults in one run."""

DOWN_MS = (0, 500, 2000)
"""How long an instance is down."""

FREEZES_MS = (300, 4000)
"""How long an instance stands still: it is missed, or not."""


def draw_faults(file: ApplicationFile, records: int, random: Random) -> list[AnyFault]:
    """The faults of one run; they depend on the file and the seed alone.

    The first one is of the kind that the file names first, so that each run has one of these.

    Args:
        file: the application.
        records: how many records its inputs have.
        random: what draws.
    """
    names, kinds = instance_names(file), file.application.faults
    return [
        _fault(
            random.choice(kinds) if number else kinds[0],
            random,
            random.choice(names),
            max(1, records // len(names)),
        )
        for number in range(random.randint(1, MOST_FAULTS))
    ]


def _fault(fault: Fault, random: Random, name: str, records: int) -> AnyFault:
    kind = random.choices(list(MOMENTS), weights=(5, 2, 2, 1))[0]
    most = records if kind in ("task.processed", "store.put") else FEW
    when = Occurrence(kind=kind, actor=name, nth=random.randint(1, most))
    after = random.choice(DELAYS_MS)
    match fault:
        case "kill":
            down = random.choice(DOWN_MS)
            return Crash(instance=name, when=when, after_ms=after, down_ms=down)
        case "stop":
            down = random.choice(DOWN_MS)
            return Stop(instance=name, when=when, after_ms=after, down_ms=down)
        case "pause":
            lasts = random.choice(FREEZES_MS)
            return Pause(instance=name, when=when, after_ms=after, lasts_ms=lasts)


def told(faults: Sequence[AnyFault]) -> str:
    """Faults in one sentence, without its end."""
    return "; ".join(map(_told, faults))


def _told(fault: AnyFault) -> str:
    name = fault.instance
    if isinstance(fault, Pause):
        act = f"freeze {name} (SIGSTOP) for {fault.lasts_ms or 0:,} ms"
    else:
        how = f"kill {name} (SIGKILL)" if isinstance(fault, Crash) else f"stop {name} (SIGTERM)"
        act = f"{how} and start it again {fault.down_ms or 0:,} ms later"
    when = fault.when
    if when is None:
        raise AssertionError(fault)
    times = "once" if when.nth == 1 else f"{when.nth} times"
    moment = MOMENTS[when.kind].format(nth=_ordinal(when.nth), times=times)
    delay = f"{fault.after_ms} ms after it" if fault.after_ms else "right after it"
    return f"{act}, {delay} {moment}"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
