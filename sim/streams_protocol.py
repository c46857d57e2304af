"""The group of an application with the streams protocol, as the brokers know it from the topology.

Source: KIP-1071, "Describing topologies": the first member sends the topology to the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from streamproof.sim.brokers.streams_group import Heartbeat, StreamsGroup, StreamsGroupMember
from streamproof.sim.decisions.sticky_assignment import Share, assign_sticky
from streamproof.sim.topology import TaskSpec
from streamproof.sim.world import World

__all__ = ["streams_group"]


def streams_group(
    world: World, name: str, tasks: Mapping[str, TaskSpec], num_standby_replicas: int
) -> StreamsGroup:
    """A group whose brokers share tasks out.

    Args:
        world: the world.
        name: the name of the group.
        tasks: the tasks of the application.
        num_standby_replicas: how many copies each stateful task has beside the active one.
    """
    emit = partial(world.trace.emit, actor="brokers", group=name)
    stateful = [task for task, spec in tasks.items() if spec.changelogs]

    def tasks_of(partitions: Iterable[str]) -> set[str]:
        read = set(partitions)
        return {task for task, spec in tasks.items() if read & set(spec.inputs)}

    def joined(beat: Heartbeat, member: str, replaces: str) -> None:
        world.marks.sometimes(
            "a static member took the place of its predecessor", holds=bool(replaces)
        )
        emit(
            "group.member_joined",
            member=member,
            thread=beat.thread,
            instance_id=beat.instance_id,
            replaces=replaces,
        )

    def targeted(epoch: int, shares: Mapping[str, Share]) -> None:
        emit(
            "group.targeted",
            epoch=epoch,
            members={
                member: {
                    "process": each.process,
                    "active": sorted(each.active),
                    "standby": sorted(each.standby),
                }
                for member, each in shares.items()
            },
            stateful=sorted(stateful),
        )

    def reconciled(member_id: str, member: StreamsGroupMember) -> None:
        world.marks.sometimes(
            "a member had to give tasks up before its epoch", holds=bool(member.revoking)
        )
        world.marks.sometimes("a member waited for the task of another", holds=member.waits)
        emit(
            "group.reconciled",
            member=member_id,
            epoch=member.epoch,
            since=dict(member.since),
            standby=sorted(member.standby),
            revoking=dict(member.revoking),
        )

    def refused(member_id: str, epoch: int, refused_tasks: set[str]) -> None:
        emit("group.commit_refused", member=member_id, epoch=epoch, tasks=sorted(refused_tasks))

    return StreamsGroup(
        partial(
            assign_sticky,
            tasks=sorted(tasks),
            stateful=stateful,
            num_standby_replicas=num_standby_replicas,
            looks_at_all=not world.defect("looks-at-one-place-for-a-copy"),
        ),
        tasks_of,
        mistakes=world.defect,
        joined=joined,
        targeted=targeted,
        reconciled=reconciled,
        left_out=lambda member: emit("group.member_left_out", member=member),
        refused=refused,
    )
