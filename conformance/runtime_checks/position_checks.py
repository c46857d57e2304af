"""The position of the store of a small application, from one process to the next."""

from __future__ import annotations

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import SmallApplication
from streamproof.sim.releases import BEFORE_OFFSETS, DOWNGRADING, LATEST
from streamproof.sim.trace import Event

__all__: list[str] = []

UP = (BEFORE_OFFSETS, LATEST)
"""A release that keeps offsets and position in files, and the one that takes them over."""

THERE_AND_BACK = (*UP, DOWNGRADING, BEFORE_OFFSETS)


@scripted("POS-102")
def position_outlives_the_process(probe: Probe) -> None:
    """Stop processes of several releases, one after the other, and compare the positions."""
    releases = THERE_AND_BACK if probe.spec == "kips" else UP
    app = SmallApplication(probe, transactional=False)
    closing: Event | None = None
    for number, release in enumerate((*releases, releases[-1])):
        app.instance.release = release
        first = len(probe.events)
        app.start()
        (found,) = (each for each in probe.events[first:] if each.kind == "store.found")
        if closing is not None:
            probe.need("a store with a position", holds=bool(closing.attributes["position"]))
            probe.expect(
                (closing.offset, closing.attributes["position"]),
                (found.offset, found.attributes["position"]),
            )
        app.send(b"%d" % number, b"same")
        app.wait(2_000)
        app.stop()
        (closing,) = (each for each in probe.events[first:] if each.kind == "store.closing")
