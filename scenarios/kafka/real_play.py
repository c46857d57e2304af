"""Plays one variant of a scenario with real brokers and real processes, and judges the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.application import Application, ids_of_topics
from streamproof.scenarios.kafka.cluster import (
    COORDINATORS,
    TWO_BROKERS,
    free_ports,
    start_broker,
    start_second,
)
from streamproof.scenarios.kafka.cluster_faults import Brokers, start_proxy
from streamproof.scenarios.kafka.moving_coordinators import MovingCoordinators
from streamproof.scenarios.kafka.nemesis import ConfiguredInstances, Instances, RealNemesis
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.real_director import RealDirector, write_holds
from streamproof.scenarios.kafka.real_settings import (
    SESSION,
    disks_of,
    has_other_releases,
    moves_coordinators,
    needs_proxy,
    rest_of,
    restarts_of,
    settings_of,
    topics_of,
    why_not,
)
from streamproof.scenarios.kafka.real_upgrades import upgraded_instances
from streamproof.scenarios.kafka.recording import Recorded, read_recording
from streamproof.scenarios.play import Judged, never_done, unexpected
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.scenario import AnyAction, Crash, Power, Scenario, Setup
from streamproof.sim.invariants import INVARIANTS, Watch
from streamproof.sim.invariants.judging import Judgement, judgeable
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.trace import Event
from streamproof.stores.jvm.kafka_jars import broker_release

__all__ = ["judged_play", "judgement_of", "play_for_real", "returned_late"]


def play_for_real(scenario: Scenario, setup: Setup, release: str, command: str = "") -> Judged:
    """Play one variant of a scenario with a release of Kafka.

    Args:
        scenario: the scenario.
        setup: the variant.
        release: the release of the instances, and of the broker unless it is too old for one.
        command: the command that shows this run again.

    Raises:
        UsageError: it cannot be played for real, Java or Maven is missing, or the processes do not
            come up; the message says why.
    """
    reason = why_not(scenario, setup, release)
    if reason:
        raise UsageError(
            f"{scenario.name} ({setup.name}) cannot be played on Kafka {release}: {reason}."
        )
    settings = settings_of(setup.plan, release)
    recorded, director = _recorded(scenario, setup, release, settings)
    return judged_play(
        scenario,
        setup,
        release=release,
        session_ms=int(settings[SESSION]),
        recorded=recorded,
        wrong=director.wrong,
        undone=director.undone,
        command=command,
    )


def judged_play(
    scenario: Scenario,
    setup: Setup,
    *,
    release: str,
    session_ms: int,
    recorded: Recorded,
    wrong: list[str],
    undone: Collection[int],
    command: str,
) -> Judged:
    """What came of a variant that real processes have played.

    Args:
        scenario: the scenario.
        setup: the variant.
        release: the release of the instances.
        session_ms: how long a session of an instance lasted.
        recorded: what was recorded.
        wrong: what went wrong with the processes, in words.
        undone: the numbers of the actions that have not happened.
        command: the command that shows this run again.
    """
    judged = judgement_of(recorded)
    run = RecordedRun(
        f"{scenario.name} ({setup.name}) on Kafka {release}",
        setup.plan,
        (),
        recorded.events,
        judged.violations,
        "",
        command=command,
        title=scenario.file.title,
        story=" ".join(scenario.file.story.split()),
        unseen=recorded.unseen,
        unjudged=judged.unjudged,
    )
    surprises = [
        *wrong,
        *never_done(scenario.file.timeline, undone, run),
        *unexpected(setup, run),
    ]
    if surprises:
        # By itself, a late return is no difference from the expected result.
        surprises += returned_late(scenario.file.timeline, run.events, session_ms)
    return Judged(replace(run, surprises=tuple(surprises)), surprises)


def returned_late(
    timeline: Iterable[AnyAction], events: Sequence[Event], session_ms: int
) -> Iterator[str]:
    """The instances that joined their group too late for the timeline, a sentence each.

    The group cannot miss a killed instance that joins again within its session, and this machine
    was too slow for that.

    Args:
        timeline: the actions.
        events: what was recorded.
        session_ms: how long a session lasts.
    """
    prompt = {
        each.instance
        for each in timeline
        if isinstance(each, Crash | Power)
        and each.down_ms is not None
        and each.down_ms < session_ms
    }
    killed: dict[str, int] = {}
    for each in events:
        if each.kind == "instance.crashed" and each.actor in prompt:
            killed[each.actor] = each.time
        elif each.kind == "thread.subscribed" and each.process in killed:
            down_ms = each.time - killed.pop(each.process)
            if down_ms > session_ms:
                yield (
                    f"{each.process} joined its group {down_ms / 1000:.1f} s after it was killed, "
                    f"when its session of {session_ms / 1000:g} s was over: this machine was too "
                    "slow for the timeline"
                )


def _recorded(
    scenario: Scenario, setup: Setup, release: str, settings: Mapping[str, str]
) -> tuple[Recorded, RealDirector]:
    """Carry out the timeline; what was recorded, and the director that did it."""
    plan, timeline = setup.plan, scenario.file.timeline
    topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
    with Processes() as processes:
        recording = processes.directory / "recording"
        recording.mkdir()
        write_holds(timeline, recording)
        proxied = _proxied(processes, recording) if needs_proxy(timeline) else None
        moves = moves_coordinators(timeline)
        broker = start_broker(
            processes,
            broker_release(release),
            settings=TWO_BROKERS if moves else None,
            recording=recording,
            proxied=proxied,
        )
        second = start_second(processes, broker) if moves else None
        application = Application(processes, broker, plan.topology, recording, release=release)
        sender = application.serve_senders(topics_of(plan), COORDINATORS if moves else {})
        names = [f"instance-{number}" for number in range(plan.instances)]
        disks = disks_of(timeline, application, processes.directory)
        place, upgrade = processes.directory, None
        instances: Instances
        if has_other_releases(plan):
            instances = upgrade = upgraded_instances(application, plan, place, disks)
        else:
            instances = ConfiguredInstances(
                application, settings, place, disks, restarts_of(timeline)
            )
        nemesis = RealNemesis(instances, recording, names, disks)
        rest = rest_of(plan)
        coordinators = (
            MovingCoordinators(processes, broker, second, sender, nemesis.tell) if second else None
        )
        brokers = Brokers(broker, recording, ids_of_topics(sender), coordinators)
        director = RealDirector(
            timeline,
            nemesis,
            recording,
            sender,
            topology.topics,
            rest=rest,
            brokers=brokers,
            upgrade=upgrade,
        )
        director.run()
        return read_recording(recording), director


def _proxied(processes: Processes, recording: Path) -> dict[str, tuple[int, int]]:
    """The listeners of a broker behind a proxy, as ``start_broker`` takes them."""
    listened = free_ports()
    named = start_proxy(processes, recording, list(listened))
    return dict(zip(("INSTANCES", "BROKERS"), zip(listened, named, strict=True), strict=True))


def judgement_of(recorded: Recorded, *, has_ended: bool = True) -> Judgement:
    """What comes of judging a run whose faults have ended.

    Args:
        recorded: the run.
        has_ended: whether what must be so in the end is judged.
    """
    exactly_once = recorded.events[0].attributes["exactly_once"]
    able, unjudged = judgeable(INVARIANTS, recorded.unseen, exactly_once=exactly_once)
    watch = Watch(
        able,
        exactly_once=exactly_once,
        has_logs=not recorded.unseen.logs,
        of_kafka=recorded.unseen.of_kafka,
    )
    for each in recorded.events:
        watch(each)
    violations = list(watch.violations)
    if has_ended and not violations:
        violations = watch.end()
    unjudged |= dict.fromkeys(watch.unjudged, recorded.unseen.logs)
    broken = {each.invariant for each in violations}
    held = len({each.name for each in able} - watch.unjudged - broken)
    return Judgement(violations, unjudged, held, frozenset(watch.tried))
