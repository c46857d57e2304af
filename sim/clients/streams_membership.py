"""Membership with the streams protocol: the broker assigns, and heartbeats say everything.

A member joins with its first heartbeat, learns from the answers which tasks it is to have, and says
in a full heartbeat what it has, once its owner has given tasks up. Nobody waits for the others, and
commits go on meanwhile.

Sources: KIP-848, KIP-1071; Kafka, StreamsMembershipManager and StreamsGroupHeartbeatRequestManager.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.broker_errors import (
    FencedMemberEpochError,
    IllegalGenerationError,
    RequestTimeoutError,
    UnreleasedInstanceIdError,
)
from streamproof.sim.brokers.streams_group import JOINING_EPOCH, Heartbeat, StreamsGroup, Told
from streamproof.sim.clients.membership import Membership
from streamproof.sim.tasks.assignor import Subscription, ThreadAssignment

__all__ = ["StreamsMembership"]


class StreamsMembership(Membership[Subscription, ThreadAssignment]):
    """One member of a group. Its generation is its epoch."""

    _anew = True
    """Whether the next heartbeat joins."""

    _own_id = ""
    """The id, which the member keeps when the group fences it."""

    _taken: tuple[int, ThreadAssignment] | None = None
    """The assignment that the owner took last, since the member joined, with its epoch."""

    @property
    def _streams_group(self) -> StreamsGroup:
        return cast(StreamsGroup, self._group)

    def join_anew(self) -> None:
        """Join with the next heartbeat: the group knows nothing of tasks that were given up."""
        self._anew = True
        self.rejoin()

    def take_assignment(self) -> ThreadAssignment | None:
        """The assignment since the last call; a full heartbeat says afterwards what became of it.

        Without it the brokers would wait for tasks that the owner never got (Kafka: ACKNOWLEDGING).
        """
        found = super().take_assignment()
        if found is not None:
            self._taken = self.generation, found
            self.rejoin()
        return found

    def close(self) -> Steps:
        """Leave the group; a static member that remains says that it will come back."""
        member_id = self.member_id
        yield from super().close()
        if self._config.instance_id and not self._config.leaves and member_id:
            try:
                yield from self._call(
                    "leave group", partial(self._streams_group.leave_for_now, member_id)
                )
            except RequestTimeoutError:
                # The group learns of it once the session is over.
                return

    def _run(self) -> Steps:
        """Send a heartbeat when it is time, and a full one when the owner wants it."""
        time = self._world.time
        while not self._is_closed:
            yield time.any_of([self._wanted, time.timeout(self._config.heartbeat_ms)])
            if self._is_closed:
                return
            try:
                if self._wanted.triggered:
                    yield from self._report()
                elif self.member_id:
                    yield from self._beat(None)
            except IllegalGenerationError as error:
                self._be_fenced(error)
            except UnreleasedInstanceIdError:
                # The session of the predecessor has to end first.
                self._world.marks.sometimes("a static member waited for its predecessor")
                yield time.timeout(self._config.heartbeat_ms)
                self.rejoin()
            except RequestTimeoutError:
                # The answer may have had news, so ask for all of it.
                self.rejoin()
            self._is_joining = False

    def _report(self) -> Steps:
        """Send a full heartbeat, once the owner has finished its change."""
        while self._holders or self.was_left_out or self.assignment is not None:
            self._released = self._world.time.event()
            yield self._released
        if self._is_closed:
            return
        self._wanted = self._world.time.event()
        yield from self._beat(self._describe())

    def _beat(self, report: Subscription | None) -> Steps:
        config, group = self._config, self._streams_group
        joins = report is not None and self._anew
        self._is_joining = joins
        beat = Heartbeat(
            self._own_id if joins else self.member_id,
            JOINING_EPOCH if joins else self.generation,
            report,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            config.instance_id,
            self._actor,
        )
        told: Told = yield from self._call(
            "join group" if joins else "heartbeat", partial(self._carried_out, beat, group)
        )
        if self.was_left_out or (self._anew and not joins):
            # The owner has lost its tasks meanwhile.
            return
        if joins:
            self._anew, self._taken = False, None
        self.member_id = self._own_id = told.member_id
        self.generation = told.epoch
        if told.assignment is not None and (told.epoch, told.assignment) != self._taken:
            self.assignment = told.assignment
            self._wake()
        self.is_rebalancing = self.assignment is not None or self._wanted.triggered

    def _carried_out(self, beat: Heartbeat, group: StreamsGroup) -> Told:
        """At the coordinator."""
        self._world.marks.sometimes(
            "a member that the group still had joined anew",
            holds=beat.epoch == JOINING_EPOCH and beat.member_id in group.members,
        )
        return group.heartbeat(beat, self._world.now)

    def _be_fenced(self, error: IllegalGenerationError) -> None:
        self._anew = True
        if self.was_left_out:
            return
        if isinstance(error, FencedMemberEpochError):
            self._be_left_out("its epoch is fenced")
        else:
            self._be_left_out()

    def _give_up(self) -> None:
        super()._give_up()
        # A leave that is on its way must not remove the member that joins next.
        self._anew, self._own_id = True, ""
