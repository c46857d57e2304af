"""Faults by name, switched on in two steps, so that each run has its own few of them.

In most runs most sites are off: what two faults do together shows only where the others do not
drown it. A site that is on in a run then fires now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamproof.errors import UsageError
from streamproof.sim.choices import Choices

__all__ = ["ACTIVATION", "SITES", "Faults"]

SITES: dict[str, float] = {
    "network.request_lost": 0.01,
    "network.reply_lost": 0.01,
    "network.slow": 0.02,
    "broker.marker_delayed": 0.2,
    "broker.empty_fetch": 0.2,
    "broker.throttled": 0.02,
    "broker.compacted": 0.3,
    "broker.retention": 0.5,
    "broker.failed_over": 0.2,
    "broker.transactional_id_expired": 0.05,
    "disk.full": 0.01,
    "disk.slow": 0.1,
    "updater.died": 0.01,
    "updater.slow": 0.1,
}
"""The sites that there are, with the probability that one that is on fires when it is asked."""

ACTIVATION = 0.25
"""The share of runs in which a site is on."""


class Faults:
    """The faults of one run.

    Args:
        choices: decides which sites are on, and when they fire.
        sites: how probable it is that a site that is on fires, each time that it is asked.
        activation: how probable it is that a site is on; 1 switches all on, 0 none.

    Attributes:
        fired: how often each site fired.
        scripted: is asked before anything is left to choice: whether a fault happens at a site, to
            whom, and with what request. Nothing is scripted, as a rule.
    """

    def __init__(
        self, choices: Choices, sites: Mapping[str, float], activation: float = ACTIVATION
    ) -> None:
        self._choices = choices
        self._sites = dict(sites)
        # In the order of their names: the order of a mapping must not decide anything.
        self._on = {site: choices.chance(activation) for site in sorted(sites)}
        self.fired = dict.fromkeys(sorted(sites), 0)
        self.scripted: Callable[[str, str, str], bool] | None = None

    @property
    def on(self) -> list[str]:
        """The sites that are on in this run."""
        return [site for site, on in self._on.items() if on]

    def happens(self, site: str, whom: str = "", what: str = "") -> bool:
        """Whether this fault happens here and now.

        Args:
            site: its name.
            whom: the host or the partition that it would happen to.
            what: the request that it would happen to.

        Raises:
            UsageError: there is no site of that name.
        """
        if self.scripted is not None and self.scripted(site, whom, what):
            self.fired[site] += 1
            return True
        try:
            if not self._on[site]:
                return False
        except KeyError:
            raise UsageError(
                f"There is no fault site {site!r}; there are: {', '.join(sorted(self._sites))}."
            ) from None
        happens = self._choices.chance(self._sites[site])
        self.fired[site] += happens
        return happens

    def stop(self) -> None:
        """End all faults: from now on, what is broken has to heal."""
        self._on = dict.fromkeys(self._on, False)
        self.scripted = None
