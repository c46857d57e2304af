"""Metadata versions: how members of different releases find a version that all of them speak.

The report of a member to the leader, and the leader's answer, are encoded in a version. Every
report names the version that it uses, and the newest one that its member supports. A leader cannot
read a report that is newer than itself, except for these two numbers. So it answers in the oldest
version that was used, and names the newest one that all support. A member that gets an older
version back than it has used changes to the version that all support, and asks for another
rebalance at once. This is *version probing*. Once all support a newer version, all members change
to it in the same way.

Sources: KIP-258, KIP-268; Kafka, StreamsPartitionAssignor and StreamsAssignmentProtocolVersions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streamproof.errors import UsageError

__all__ = [
    "EARLIEST_PROBEABLE_VERSION",
    "LATEST_SUPPORTED_VERSION",
    "OFFSET_SUM_VERSION",
    "Answer",
    "Next",
    "Spoken",
    "answer_of",
    "next_version",
]

LATEST_SUPPORTED_VERSION = 11
"""The version of the present release of Kafka."""

EARLIEST_PROBEABLE_VERSION = 3
"""From this version on reports name the supported version, and even a too new one is answered."""

OFFSET_SUM_VERSION = 7
"""From this version on a report has offset sums, and the answer the next probing (KIP-441)."""


class Spoken(NamedTuple):
    """The part of a report that any leader can read.

    Attributes:
        used: the version of the report.
        supported: the newest version that the member supports.
    """

    used: int
    supported: int


class Answer(NamedTuple):
    """The answer of the leader to all members.

    Attributes:
        version: the version of the answer: the oldest one that a member has used.
        commonly_supported: the newest version that all members support.
        probing: whether a member has used a version that the leader cannot read.
    """

    version: int
    commonly_supported: int
    probing: bool


class Next(NamedTuple):
    """The decision of a member after the answer.

    Attributes:
        version: the version that the member uses from now on.
        rejoin: whether the member asks for another rebalance at once.
    """

    version: int
    rejoin: bool


def answer_of(spoken: Iterable[Spoken], supported: int) -> Answer:
    """The answer of a leader.

    Args:
        spoken: the versions of all members, the leader included.
        supported: the newest version that the leader supports.

    Raises:
        UsageError: one member has used a version that the leader cannot read, and another one a
            version from before version probing: they can never agree.
    """
    members = list(spoken)
    oldest = min(each.used for each in members)
    newest = max(each.used for each in members)
    if newest > supported and oldest < EARLIEST_PROBEABLE_VERSION:
        raise UsageError(
            f"One member speaks metadata version {newest}, and another one speaks {oldest}, from "
            f"before version probing ({EARLIEST_PROBEABLE_VERSION}), but the leader understands "
            f"only {supported} and older ones. Start the newer instances with upgrade.from."
        )
    commonly_supported = min(each.supported for each in members)
    return Answer(oldest, min(commonly_supported, supported), newest > supported)


def next_version(used: int, answer: Answer) -> Next:
    """The next version of a member that has used one version, and got an answer.

    An answer from before version probing changes nothing: another member has to be restarted first.
    """
    if answer.version < EARLIEST_PROBEABLE_VERSION:
        return Next(used, rejoin=False)
    if answer.version < used or answer.commonly_supported > used:
        return Next(answer.commonly_supported, rejoin=True)
    return Next(used, rejoin=False)
