"""Metadata versions: how members of different versions find one that all of them speak.

What a member says of itself to the leader, and what the leader answers, is encoded in a version.
Every member names the version that it used and the newest one that it supports. A leader cannot
read what is newer than itself, but these two numbers it can: so it answers in the oldest version
that was used, and names the newest one that all support. Who gets an older version back than it
has used takes what all support from then on, and asks for another rebalance at once. This is
*version probing*. Once all support a newer version, everybody goes over to it in the same way.

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
"""What the present version of Kafka speaks."""

EARLIEST_PROBEABLE_VERSION = 3
"""From this version on a member names what it supports, and is answered if that is too new."""

OFFSET_SUM_VERSION = 7
"""From this version on a member says how far it is, and is told when to look again (KIP-441)."""


class Spoken(NamedTuple):
    """What any leader can read of what a member says.

    Attributes:
        used: the version in which it is encoded.
        supported: the newest version that the member supports.
    """

    used: int
    supported: int


class Answer(NamedTuple):
    """What the leader answers to all members.

    Attributes:
        version: the oldest one that was used; the answer is encoded in it.
        commonly_supported: the newest version that all support.
        probing: whether somebody has used a version that the leader cannot read.
    """

    version: int
    commonly_supported: int
    probing: bool


class Next(NamedTuple):
    """What a member makes of the answer.

    Attributes:
        version: what it uses from now on.
        rejoin: whether it asks for another rebalance at once.
    """

    version: int
    rejoin: bool


def answer_of(spoken: Iterable[Spoken], supported: int) -> Answer:
    """What a leader answers.

    Args:
        spoken: by all members, the leader included.
        supported: the newest version that the leader supports.

    Raises:
        UsageError: somebody has used a version that the leader cannot read, and somebody else one
            from before version probing: they can never agree.
    """
    members = list(spoken)
    oldest = min(each.used for each in members)
    newest = max(each.used for each in members)
    if newest > supported and oldest < EARLIEST_PROBEABLE_VERSION:
        raise UsageError(
            f"A member speaks metadata version {newest}, the leader understands {supported} and "
            f"older ones, and another member speaks {oldest}, which is from before version "
            f"probing ({EARLIEST_PROBEABLE_VERSION}). Start the newer instances with upgrade.from."
        )
    commonly_supported = min(each.supported for each in members)
    return Answer(oldest, min(commonly_supported, supported), newest > supported)


def next_version(used: int, answer: Answer) -> Next:
    """What a member uses from now on, after it has used one version and got an answer.

    An answer from before version probing changes nothing: then somebody is to be restarted still.
    """
    if answer.version < EARLIEST_PROBEABLE_VERSION:
        return Next(used, rejoin=False)
    if answer.version < used or answer.commonly_supported > used:
        return Next(answer.commonly_supported, rejoin=True)
    return Next(used, rejoin=False)
