"""Faults by name. A fault happens in two steps: a run switches some sites on, and those fire.

Most sites are off in most runs, because the effect of two faults together would drown among many
others. A site that is on fires now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamproof.errors import UsageError
from streamproof.sim.choices import Choices

__all__ = ["ACTIVATION", "NO_ANSWER", "SITES", "Faults"]

NO_ANSWER = 4
"""The amount of ``broker.empty_fetch`` with which not even the end of the log is known. With any
lower amount, the answer has at most so many records."""

SITES: dict[str, float] = {
    "network.request_lost": 0.01,
    "network.reply_lost": 0.01,
    "network.slow": 0.02,
    "network.late": 0.01,
    "broker.marker_delayed": 0.2,
    "broker.empty_fetch": 0.2,
    "broker.throttled": 0.02,
    "broker.compacted": 0.3,
    "broker.retention": 0.5,
    "broker.failed_over": 0.2,
    "broker.transactional_id_expired": 0.05,
    "broker.stalled": 0.2,
    "broker.refused": 0.005,
    "disk.full": 0.01,
    "disk.slow": 0.1,
    "updater.died": 0.01,
    "updater.slow": 0.1,
}
"""All sites, and the probability that a site that is on fires at one question."""

ACTIVATION = 0.25
"""The share of runs in which a site is on."""


class Faults:
    """The faults of one run.

    Args:
        choices: decides which sites are on, and when they fire.
        sites: the probability that a site that is on fires, for each question.
        activation: the probability that a site is on; 1 switches all on, 0 none.

    Attributes:
        fired: how often each site fired, and how often each fault of instances happened.
        scripted: decides before any choice whether a fault happens, given the site, the victim and
            the request. Scenarios set it; in other runs it is ``None``.
    """

    def __init__(
        self, choices: Choices, sites: Mapping[str, float], activation: float = ACTIVATION
    ) -> None:
        self._choices = choices
        self._sites = dict(sites)
        # Sorted by name: the order of the mapping must not decide which site gets which choice.
        self._on = {site: choices.chance(activation) for site in sorted(sites)}
        self.fired = dict.fromkeys(sorted(sites), 0)
        self.scripted: Callable[[str, str, str], bool] | None = None

    @property
    def on(self) -> list[str]:
        """The sites that are on in this run."""
        return [site for site, on in self._on.items() if on]

    def happens(self, site: str, whom: str = "", what: str = "") -> bool:
        """Whether this fault happens now. A question about a site that is on takes a choice.

        Args:
            site: its name.
            whom: the host or the partition that would suffer the fault.
            what: the request that would suffer the fault.

        Raises:
            UsageError: no site has this name.
        """
        if self.scripted is not None and self.scripted(site, whom, what):
            self.fired[site] += 1
            return True
        try:
            if not self._on[site]:
                return False
        except KeyError:
            raise UsageError(
                f"There is no fault site {site!r}. Choose one of: {', '.join(sorted(self._sites))}."
            ) from None
        happens = self._choices.chance(self._sites[site])
        self.fired[site] += happens
        return happens

    def note(self, fault: str) -> None:
        """Count a fault that somebody else has decided."""
        self.fired[fault] = self.fired.get(fault, 0) + 1

    def stop(self) -> None:
        """End all faults, so that the application can recover."""
        self._on = dict.fromkeys(self._on, False)
        self.scripted = None
