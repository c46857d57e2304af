"""Idling in a small application: how long a task really waits, by the trace alone (KIP-695).

One instance joins a stream with a table. Nothing fails but what the check asks for, and time passes
by the second hand: a record is sent, and the check compares the time at which the task processes
it. So a runtime that decides by another ``max.task.idle.ms`` than the configured one is found.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    STORE,
    SmallApplication,
    copying,
)
from streamproof.scenarios.director import Director
from streamproof.scenarios.scenario import AnyAction, Fault, Record, Send
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.clients.consumer import FETCH_MAX_WAIT_MS
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.simulation import Stage, run
from streamproof.sim.tasks.state_updater import POLL_MS
from streamproof.sim.topology import Subtopology, Topology
from streamproof.sim.trace import Event
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

__all__: list[str] = []

STREAM, TABLE = "stream-0", "table-0"

MODES: tuple[Mode, ...] = ("proposal", "kafka")

MESSAGES_MS = 5
"""How long a few messages between the threads and the brokers may take."""

SOON_MS = POLL_MS + MESSAGES_MS
"""How long a thread may take to look at a task whose idle time is over: a poll, and messages."""

THREE_INPUTS = Topology(
    "app",
    (Subtopology(("in", "second", "third"), copying, (STORE,)),),
    {"in": 1, "second": 1, "third": 1},
)


@dataclass
class _Run:
    """A run of the small application.

    Attributes:
        events: its events.
        asked: the times at which anybody asked for the end of a partition, after the task had begun
            to run.
        silent: the times at which a broker did not answer a fetch of a partition.
    """

    events: list[Event]
    asked: list[int]
    silent: list[int]

    def processed(self, partition: str, offset: int = 0) -> int:
        """When a record was processed; -1 if never."""
        times = [
            each.time
            for each in self.events
            if (each.kind, each.partition, each.offset) == ("task.processed", partition, offset)
        ]
        return times[0] if times else -1

    @property
    def order(self) -> list[str]:
        """The inputs of all records, in the order in which they were processed."""
        return [each.partition for each in self.of("task.processed")]

    def of(self, kind: str) -> list[Event]:
        """The events of a kind."""
        return [each for each in self.events if each.kind == kind]


def _send(at: int, topic: str, value: str) -> Send:
    return Send(at=at, topic=topic, records=[Record(key="item", value=value)])


def _silent(at: int = 0, *, times: int, knows_end: bool) -> Fault:
    """The broker of the table answers without records, and perhaps without the end."""
    amount = 0 if knows_end else 4
    return Fault(at=at, site="broker.empty_fetch", whom=TABLE, times=times, amount=amount)


def _play(probe: Probe, config: StreamsConfig, *timeline: AnyAction) -> _Run:
    """Run the application with this timeline until it comes to rest."""
    director = Director(timeline, Choices.recorded([]))
    played = _Run([], [], [])

    def direct(stage: Stage) -> None:
        director.direct(stage)
        happens = stage.world.faults.scripted

        def ask(site: str, whom: str, what: str) -> bool:
            running = any(each.kind == "store.running" for each in played.events)
            if (site, what) == ("network.request_lost", "list offsets") and running:
                played.asked.append(stage.world.now)
            happened = happens is not None and happens(site, whom, what)
            if site == "broker.empty_fetch" and happened:
                played.silent.append(stage.world.now)
            return happened

        stage.world.faults.scripted = ask

    plan = Plan(
        topology="stream-table-join",
        partitions=1,
        instances=1,
        config=config,
        workload=WorkloadConfig(records=0),
        kinds=(),
        activation=0.0,
    )
    run(
        director.choices,
        plan,
        defects=probe.defects,
        watchers=[played.events.append, probe.note, director.see],
        direct=direct,
        invariants=(),
    )
    return played


@scripted("IDLE-003", "IDLE-013")
def minus_one_opts_out(probe: Probe) -> None:
    """Configure -1, and leave the table without an answer, without records, and behind."""
    for mode in MODES:
        for silent in (True, False):
            played = _play(
                probe,
                StreamsConfig(max_task_idle_ms=-1, idling=mode),
                _silent(times=6, knows_end=not silent),
                _send(1_000, "table", "price"),
                _send(1_050, "stream", "order"),
            )
            probe.about("IDLE-003")
            done = played.processed(STREAM)
            probe.demand(
                "the order to be processed at once",
                f"{done - 1_050} ms later",
                holds=0 <= done - 1_050 <= MESSAGES_MS,
            )
            probe.expect([STREAM, TABLE], played.order)
            probe.expect([], played.of("task.waiting"))
            probe.about("IDLE-013")
            probe.expect([], played.asked)
            known = [each.attributes["others"] for each in played.of("task.processed")]
            lags = {other[1] for others in known for other in others.values() if len(other) > 1}
            probe.demand("that the task knows no lag", f"{lags}", holds=lags <= {None})


@scripted("IDLE-002")
def waits_for_what_the_brokers_have(probe: Probe) -> None:
    """Configure 0 and more, while the broker of the table gives no records, or no answer."""
    # As shipped, the consumer knows the end without an answer: it has requested the end before.
    cases: list[tuple[Mode, bool]] = [("proposal", True), ("proposal", False), ("kafka", True)]
    for mode, knows_end in cases:
        for idle_ms in (0, 300):
            played = _play(
                probe,
                StreamsConfig(max_task_idle_ms=idle_ms, idling=mode),
                _silent(times=6, knows_end=knows_end),
                _send(1_000, "table", "price"),
                _send(1_050, "stream", "order"),
            )
            probe.expect([TABLE, STREAM], played.order)
            waited = played.processed(TABLE) - 1_050
            probe.demand("a long wait", f"{waited} ms", holds=waited > SOON_MS)


@scripted("IDLE-004", "IDLE-014")
def zero_goes_on_at_once(probe: Probe) -> None:
    """Configure 0, and nothing at all, with a table that has caught up."""
    for mode in MODES:
        probe.about("IDLE-004")
        _goes_on(probe, StreamsConfig(max_task_idle_ms=0, idling=mode), idle_ms=0)
        probe.about("IDLE-014")
        _goes_on(probe, StreamsConfig(idling=mode), idle_ms=0)


@scripted("IDLE-005")
def waits_for_its_time(probe: Probe) -> None:
    """Configure several idle times, with a table that has just caught up."""
    for mode in MODES:
        for idle_ms in (200, 500, 2_000):
            config = StreamsConfig(max_task_idle_ms=idle_ms, idling=mode)
            _goes_on(probe, config, idle_ms=idle_ms)


def _goes_on(probe: Probe, config: StreamsConfig, *, idle_ms: int) -> None:
    """Send an order right after a price, and compare how long the order waits for another price."""
    played = _play(probe, config, _send(5_000, "table", "price"), _send(5_010, "stream", "order"))
    begun, done = played.processed(TABLE), played.processed(STREAM)
    least = max(begun + idle_ms, 5_010)
    # Who does not wait processes the order as soon as it comes.
    most = least + (SOON_MS if idle_ms else MESSAGES_MS)
    probe.demand(
        f"the order between {least} and {most} ms, with {idle_ms} ms of idling",
        f"the order at {done} ms, the price at {begun} ms",
        holds=least <= done <= most,
    )


@scripted("IDLE-005")
def the_wait_for_a_lag_does_not_count(probe: Probe) -> None:
    """Configure several idle times, while the broker does not tell the end of an empty table."""
    # Only as proposed: what shipped does not wait for a fetch, but requests an unknown end.
    for idle_ms in (200, 500, 2_000):
        played = _play(
            probe,
            StreamsConfig(max_task_idle_ms=idle_ms, idling="proposal"),
            _silent(times=6, knows_end=False),
            _send(1_050, "stream", "order"),
        )
        probe.need("a silent broker", holds=max(played.silent, default=0) > 1_050)
        done, known = played.processed(STREAM), played.silent[-1]
        # The next fetch tells that the table is empty, and the idle time begins.
        most = known + FETCH_MAX_WAIT_MS + idle_ms + SOON_MS
        probe.demand(
            f"the order between {known + idle_ms} and {most} ms, with {idle_ms} ms of idling",
            f"the order at {done} ms, and no answer until {known} ms",
            holds=known + idle_ms <= done <= most,
        )


@scripted("IDLE-007")
def idle_times_do_not_add_up(probe: Probe) -> None:
    """Start a task with a record in one of its three inputs, and measure how long it waits."""
    for idle_ms in (1_000, 3_000):
        application = SmallApplication(
            probe, THREE_INPUTS, idling="proposal", max_task_idle_ms=idle_ms
        )
        application.send(b"first")
        application.start()
        application.wait(4 * idle_ms)
        begun = application.called("init")[-1].time
        done = [each.time for each in application.called("put")]
        most = begun + FETCH_MAX_WAIT_MS + idle_ms + SOON_MS
        probe.demand(
            f"the record until {most} ms, with {idle_ms} ms of idling for each empty input",
            f"records at {done} ms, in a store that was opened at {begun} ms",
            holds=len(done) == 1 and done[0] <= most,
        )


@scripted("IDLE-014")
def the_default_is_zero(probe: Probe) -> None:
    """Read the default, and run an application that configures nothing."""
    probe.expect(0, StreamsConfig().max_task_idle_ms)
    (started,) = _play(probe, StreamsConfig(), _send(1_000, "stream", "order")).of(
        "application.started"
    )
    probe.expect(0, started.attributes["max_task_idle_ms"])
