"""Topologies: tasks, changelogs, and what is refused before a run."""

from __future__ import annotations

import pytest

from streamproof.errors import UsageError
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology, partition_for


def nothing(context: ProcessorContext, topic: str, record: LogEntry) -> None:
    """Does nothing."""


def part(sources: str, sinks: str = "", stores: str = "") -> Subtopology:
    """A subtopology, from words."""
    return Subtopology(tuple(sources.split()), nothing, tuple(stores.split()), tuple(sinks.split()))


def test_the_tasks_of_a_topology() -> None:
    """One for each partition of each subtopology, with its inputs and changelogs."""
    topology = Topology(
        "app",
        (part("left right", "joined", "window"), part("joined", "out")),
        {"left": 2, "right": 2, "joined": 1, "out": 3},
    )
    tasks = topology.tasks
    assert list(tasks) == ["0_0", "0_1", "1_0"]
    assert tasks["0_1"].inputs == ("left-1", "right-1")
    assert tasks["0_1"].changelogs == {"window": "app-window-changelog-1"}
    assert tasks["1_0"].changelogs == {}
    assert topology.topics == {**topology.partitions, "app-window-changelog": 2}


@pytest.mark.parametrize(
    ("parts", "partitions", "message"),
    [
        ([part("in")], {}, r"'in' of subtopology 0 has 0 partitions.*partitions: none"),
        ([part("in")], {"in": 0}, "'in' of subtopology 0 has 0 partitions"),
        ([part("in", "out")], {"in": 1}, r"'out' of subtopology 0 has 0.*partitions: in"),
        ([part("a b")], {"a": 1, "b": 2}, r"{'a': 1, 'b': 2}.*the same number of partitions"),
        ([part("")], {}, "at least one source"),
        ([part("a", "a")], {"a": 1}, "0 -> 0 form a cycle"),
        (
            [part("a", "b"), part("b", "c"), part("c", "b")],
            {"a": 1, "b": 1, "c": 1},
            "1 -> 2 -> 1 form a cycle",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(
    parts: list[Subtopology], partitions: dict[str, int], message: str
) -> None:
    """Before anything runs, with what is wrong and where."""
    with pytest.raises(UsageError, match=message):
        Topology("app", tuple(parts), partitions)


def test_its_inputs_come_from_outside() -> None:
    """What nothing in it writes; the topics of global stores, too."""
    topology = Topology(
        "app",
        (part("left right", "joined"), part("joined", "out")),
        {"left": 1, "right": 1, "joined": 1, "out": 1, "table": 2},
        {"rows": "table"},
    )
    assert topology.inputs == ["left", "right", "table"]


@pytest.mark.parametrize("forwarded", [{"rows": "out"}, {"counts": "in"}])
def test_only_its_stores_are_sent_on_and_only_to_its_sinks(forwarded: dict[str, str]) -> None:
    """Anything else is refused."""
    wrong = Subtopology(("in",), nothing, ("counts",), ("out",), forwarded=forwarded)
    with pytest.raises(UsageError, match=r"Subtopology 0 forwards .* \['counts'\].* \['out'\]"):
        Topology("app", (wrong,), {"in": 1, "out": 1})


def test_a_key_goes_to_the_same_partition_everywhere() -> None:
    """The numbers are written down; all partitions are used."""
    keys = [b"a", b"b", b"key-1", b"\xff", b""]
    assert [partition_for(key, 3) for key in keys] == [0, 2, 2, 0, 0]
    assert {partition_for(b"%d" % number, 7) for number in range(100)} == set(range(7))


def test_the_topics_between_its_parts() -> None:
    """What is written and read here may be deleted once it is committed."""
    parts = (part("left right", "joined", "window"), part("joined", "out"))
    partitions = {"left": 1, "right": 1, "joined": 1, "out": 1}
    assert Topology("app", parts, partitions).repartitions == ["joined"]
    assert Topology("app", parts[:1], partitions).repartitions == []


def test_a_source_may_be_a_changelog() -> None:
    """Then there is no other one, and it is no topic for compaction by itself."""
    table = Subtopology(("in", "table"), nothing, ("rows", "more"), reused={"rows": "table"})
    topology = Topology("app", (table,), {"in": 2, "table": 2})
    assert topology.tasks["0_1"].changelogs == {
        "rows": "table-1",
        "more": "app-more-changelog-1",
    }
    assert topology.changelog("rows") == "table"
    assert topology.changelogs == {"app-more-changelog": 2}
    assert topology.topics == {"in": 2, "table": 2, "app-more-changelog": 2}


@pytest.mark.parametrize("reused", [{"rows": "out"}, {"cells": "table"}])
def test_only_a_source_may_be_the_changelog_of_a_store(reused: dict[str, str]) -> None:
    """A spelling mistake would restore nothing."""
    table = Subtopology(("table",), nothing, ("rows",), ("out",), reused=reused)
    with pytest.raises(UsageError, match=r"Subtopology 0 restores .*'rows'.*'table'"):
        Topology("app", (table,), {"table": 1, "out": 1})
