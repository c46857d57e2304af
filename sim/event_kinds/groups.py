"""Kinds of events of the group: its coordinator, its members, and how they share the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import PRODUCER, VERSION
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.trace import Event

__all__ = ["GROUP_KINDS"]


class AssignedMember(TypedDict):
    """The report of a group member about itself, and its assignment."""

    process: str
    owned: list[str]
    sums: dict[str, int]
    used: int
    supported: int
    formats: dict[str, list[int]] | None
    version: int
    probed: bool
    active: list[str]
    standby: list[str]


class AssignedProcess(TypedDict):
    """The tasks that the leader wants a process to have, once copies have warmed up."""

    active: list[str]
    standby: list[str]
    warmup: list[str]


class TargetedMember(TypedDict):
    """The tasks that the brokers want a member to have."""

    process: str
    active: list[str]
    standby: list[str]


_ROLE = Attribute(str, "`transactions` or `groups`")


def _shares(clients: object) -> str:
    """Who has which tasks, as ``instance-0 has 0_0, and 0_1 as standby``."""
    if not isinstance(clients, Mapping):
        return "?"
    found = []
    for name, share in sorted(clients.items()):
        more = [
            f"{plain(share[role])} as {role}" for role in ("standby", "warmup") if share.get(role)
        ]
        found.append(", ".join([f"{name} has {plain(share.get('active'))}", *more]))
    return "; ".join(found)


def _at_its_coordinator(event: Event, look: Look) -> Look:
    is_of_transactions = "trans" in str(event.attributes.get("what"))
    return look._replace(lane="transactions") if is_of_transactions else look


GROUP_KINDS = (
    EventKind(
        name="broker.refused",
        meaning="A broker refuses a batch, because it does not lead the partition just now.",
        actor="brokers",
        about="partition",
        attributes={"producer": PRODUCER},
        look=Look("log", "sender", "?", "faults", 1, "a batch for {partition} is refused"),
        footprint=Footprint(writes=("refused {partition}",)),
        effect=Absent("the records of the batch come again"),
    ),
    EventKind(
        name="broker.stalled",
        meaning="A broker carries out no request that writes to its partitions, for a while.",
        actor="brokers",
        attributes={
            "broker": Attribute(int, "the number of the broker"),
            "lasts_ms": Attribute(int, "how long that lasts, in milliseconds"),
        },
        look=Look("log", "", "!", "faults", 2, "broker {broker} stands still for {lasts_ms} ms"),
        footprint=Absent("the requests that it holds up are events"),
        effect=Absent("no brokers are kept"),
    ),
    EventKind(
        name="coordinator.away",
        meaning="A coordinator moves to another broker, and refuses requests until then.",
        actor="brokers",
        attributes={"what": _ROLE},
        look=Look("groups", "", "!", "faults", 2, "the coordinator of {what} is away"),
        adapted=_at_its_coordinator,
        footprint=Absent("the events of the clients tell what a coordinator that is away leads to"),
        effect=Absent("no coordinators are kept"),
    ),
    EventKind(
        name="coordinator.back",
        meaning="The coordinator accepts requests again.",
        actor="brokers",
        attributes={"what": _ROLE},
        look=Look("groups", "", "^", "starts", 1, "the coordinator of {what} is back"),
        adapted=_at_its_coordinator,
        footprint=Absent("the events of the clients tell what a coordinator that is away leads to"),
        effect=Absent("no coordinators are kept"),
    ),
    EventKind(
        name="group.assigned",
        meaning="The leader has distributed the tasks of a generation.",
        actor="thread",
        attributes={
            "generation": Attribute(int, "the generation of the group"),
            "version": VERSION,
            "members": Attribute(
                dict[str, AssignedMember], "what each member reports, and what it is assigned"
            ),
            "clients": Attribute(
                dict[str, AssignedProcess],
                "the tasks of each process once all moves are done",
                _shares,
            ),
            "probing": Attribute(
                bool, "whether another rebalance is due because copies warm up (KIP-441)"
            ),
            "ends": Attribute(
                dict[str, int], "by stateful task, the sum of the ends of its changelogs"
            ),
            "stateless": Attribute(list[str], "the tasks without stores"),
        },
        look=Look("groups", "instance", "R", "group", 2, "generation {generation}: {clients}"),
        footprint=Footprint(writes=("generation {generation}", "shares"), reads=("members",)),
        effect=Absent("`thread.assigned` tells what each thread has got"),
    ),
    EventKind(
        name="group.commit_refused",
        meaning="The brokers refuse offsets: another member may own the tasks (KIP-1071).",
        actor="brokers",
        attributes={
            "group": Attribute(str, "the group"),
            "member": Attribute(str, "the id of the member"),
            "epoch": Attribute(int, "the epoch in which the member commits"),
            "tasks": Attribute(list[str], "the tasks whose offsets are refused"),
        },
        look=Look("groups", "instance", "!", "group", 2, "offsets of {member} are refused"),
        footprint=Footprint(writes=("left out",), reads=("shares",)),
        effect=Absent("`thread.lost` tells what the thread gives up"),
    ),
    EventKind(
        name="group.left_out",
        meaning="A member takes no part any more, and joins anew.",
        actor="process",
        attributes={
            "member": Attribute(str, "the id of the member; empty if the group never gave it one"),
            "reason": Attribute(
                str, "`the group refuses it`, `its epoch is fenced`, or `its thread does not poll`"
            ),
        },
        look=Look(
            "instance", "groups", "F", "group", 3, "a member of {actor} is out of it: {reason}"
        ),
        footprint=Footprint(writes=("left {process}",), reads=("left out",)),
        effect=Absent("`thread.lost` tells what the threads give up"),
    ),
    EventKind(
        name="group.member_left_out",
        meaning="The coordinator removes a member that was silent for too long.",
        actor="brokers",
        attributes={
            "group": Attribute(str, "the group"),
            "member": Attribute(str, "the id of the member"),
        },
        look=Look(
            "groups", "", "F", "group", 3, "{member} was silent for too long: the group removes it"
        ),
        footprint=Footprint(writes=("left out", "members")),
        effect=Absent("no members of groups are kept"),
    ),
    EventKind(
        name="group.member_joined",
        meaning="A member that is new to the group joins, or takes the place of its predecessor.",
        actor="brokers",
        attributes={
            "group": Attribute(str, "the group"),
            "member": Attribute(str, "the id that the member gets"),
            "thread": Attribute(str, "the thread"),
            "instance_id": Attribute(
                str, "its `group.instance.id`; empty for a dynamic member (KIP-345)"
            ),
            "replaces": Attribute(str, "the id that its name had before; empty if it had none"),
        },
        look=Look("groups", "", "j", "group", 1, "{thread} is {member} now"),
        footprint=Footprint(writes=("members",)),
        effect=Absent("no members of groups are kept"),
    ),
    EventKind(
        name="group.member_left",
        meaning="The coordinator removes a member that leaves.",
        actor="brokers",
        attributes={
            "group": Attribute(str, "the group"),
            "member": Attribute(str, "the id of the member"),
            "reason": Attribute(str, "`close`, or `poll interval` (KIP-62)"),
        },
        look=Look("groups", "", "<", "group", 2, "{member} leaves the group: {reason}"),
        footprint=Footprint(writes=("left out", "members")),
        effect=Absent("no members of groups are kept"),
    ),
    EventKind(
        name="group.reconciled",
        meaning="The brokers move a member on towards its target assignment (KIP-1071).",
        actor="brokers",
        attributes={
            "group": Attribute(str, "the group"),
            "member": Attribute(str, "the id of the member"),
            "epoch": Attribute(int, "the epoch of the member"),
            "since": Attribute(
                dict[str, int], "its active tasks, each with the epoch in which it got the task"
            ),
            "standby": Attribute(list[str], "the tasks of which it keeps a copy"),
            "revoking": Attribute(
                dict[str, int], "likewise, the tasks that it has to give up before anything else"
            ),
        },
        look=Look("groups", "instance", "R", "group", 2, "{member}, epoch {epoch}: {since}"),
        footprint=Footprint(writes=("shares",), reads=("members",)),
        effect=Absent("`thread.assigned` tells what each thread has got"),
    ),
    EventKind(
        name="group.targeted",
        meaning="The brokers have shared the tasks out for an epoch of the group (KIP-1071).",
        actor="brokers",
        attributes={
            "group": Attribute(str, "the group"),
            "epoch": Attribute(int, "the epoch of the group"),
            "members": Attribute(
                dict[str, TargetedMember], "the tasks of each member in the end", _shares
            ),
            "stateful": Attribute(list[str], "the tasks with stores"),
        },
        look=Look("groups", "instance", "R", "group", 2, "epoch {epoch}: {members}"),
        footprint=Footprint(writes=("generation {epoch}",), reads=("members",)),
        effect=Absent("`thread.assigned` tells what each thread has got"),
    ),
    EventKind(
        name="group.refused",
        meaning="The members can never agree on a metadata version, so nobody gets a task.",
        actor="thread",
        attributes={"reason": Attribute(str, "the error message")},
        look=Look("groups", "instance", "!", "group", 3, "the group is refused: {reason}"),
        footprint=Footprint(writes=("shares",), reads=("members",)),
        effect=Absent("no metadata versions are kept"),
    ),
    EventKind(
        name="group.probed",
        meaning="The leader asks members that are too new to rejoin with another metadata version.",
        actor="thread",
        attributes={
            "version": VERSION,
            "generation": Attribute(int, "the generation of the group"),
            "members": Attribute(list[str], "the members that get an empty assignment"),
        },
        look=Look(
            "groups",
            "instance",
            "R",
            "group",
            2,
            "{members} must rejoin to agree on version {version}",
        ),
        footprint=Footprint(writes=("shares",)),
        effect=Absent("no metadata versions are kept"),
    ),
)
