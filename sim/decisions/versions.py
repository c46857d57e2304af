"""Metadata versions: how members of different releases find a version that all of them speak.

The report of a member to the leader, and the leader's answer, are encoded in a version. Every
report from version 3 on names the version that it uses, and the newest one that its member
supports. A leader cannot read a report that is newer than itself, except for these two numbers. So
it sends an empty answer to the member of this report, with the newest version that all support. A
member that gets an older version back than it has used changes to the version that all support,
and asks for another rebalance at once. This is *version probing*. Once all support a newer version,
all members change to it in the same way.

Sources: KIP-258, KIP-268; Kafka, StreamsPartitionAssignor and StreamsAssignmentProtocolVersions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from streamproof.errors import UsageError

__all__ = [
    "EARLIEST_PROBEABLE_VERSION",
    "FORMATS_VERSION",
    "LATEST_SUPPORTED_VERSION",
    "OFFSET_SUM_VERSION",
    "Answer",
    "Next",
    "Spoken",
    "answer_of",
    "answers_of",
    "next_version",
    "readable",
]

LATEST_SUPPORTED_VERSION = 11
"""The version of the present release of Kafka."""

EARLIEST_PROBEABLE_VERSION = 3
"""From this version on reports name the supported version, and even a too new one is answered."""

FORMATS_VERSION = 3
"""From this version on a report names the formats of its member's stores (KIP-258)."""

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
    """The answer of the leader to a member.

    Attributes:
        version: the version of the answer: the oldest one that a member has used.
        commonly_supported: the newest version that all members support.
        probing: whether a member has used a version that the leader cannot read; in an answer to
            one member, whether this member has.
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


def readable(used: int, supported: int) -> Spoken:
    """The versions that a report shows to any leader.

    A report from before version probing has no place for the supported version.
    """
    return Spoken(used, supported if used >= EARLIEST_PROBEABLE_VERSION else used)


def answers_of(
    spoken: Mapping[str, Spoken], supported: int, mirrors: Collection[str] = ()
) -> dict[str, Answer]:
    """The answers of a leader, by member.

    A member that is too new gets an empty answer, and it alone (KIP-258, version probing). Members
    that mirror others in a roll-over get an answer in the version of their own reports.

    Args:
        spoken: the versions of each member, the leader included.
        supported: the newest version that the leader supports.
        mirrors: the members that only make copies for now.

    Raises:
        UsageError: the members can never agree; see ``answer_of``.
    """
    common = answer_of(spoken.values(), supported)
    mirrored = answer_of([spoken[each] for each in mirrors], supported) if mirrors else common
    return {
        member: (mirrored if member in mirrors else common)._replace(probing=each.used > supported)
        for member, each in spoken.items()
    }


def answer_of(spoken: Iterable[Spoken], supported: int) -> Answer:
    """The answer of a leader to all members together.

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
