"""The table of kinds says what runs tell, and by it files give back the events that went in."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import pyarrow as pa
import pytest
from found_worlds import seek
from hypothesis import given
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.sim import trace
from streamproof.sim.choices import Choices
from streamproof.sim.event_kinds import (
    ACTORS,
    ALL_KINDS,
    GLYPHS,
    KINDS,
    Absent,
    Attribute,
    EventKind,
    Footprint,
    Look,
)
from streamproof.sim.event_kinds.kind import Group, Lane
from streamproof.sim.fault_sites import SITES
from streamproof.sim.invariants import INVARIANTS, Watch
from streamproof.sim.plan_space import EVERYTHING, PlanSpace, draw
from streamproof.sim.seams import SEAMS
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile, batch_of, events_of, read_trace
from streamproof.sim.world_plan import Plan

ACTOR_NAMES = {
    "application": r"[a-z-]+",
    "brokers": r"brokers",
    "process": r"instance-\d+",
    "thread": r"instance-\d+/thread-\d+",
    "updater": r"instance-\d+/updater-\d+",
    "global": r"instance-\d+/global",
    "workload": r"workload",
    "nemesis": r"nemesis",
    "client": r"client-\d+",
}

SELDOM = {
    "group.probed",
    "group.refused",
    "output.refused",
    "store.rebuilt",
    "task.timed_out",
    "thread.polled_late",
    "thread.timed_out",
    "transaction.timed_out",
}
"""Kinds that do not come about in a few runs."""

WAITED_FOR = {"updater.died", "restore.suspended", "group.commit_refused"}
"""Kinds that come about in one of some twenty runs."""


FULL_DISKS = PlanSpace(
    upgrades=["none-before-offsets"],
    guarantees=["exactly-once"],
    kinds=["fill"],
    plan={"instances": [3], "activation": [0.9], "persistent": [True], "safety_ms": [60_000]},
)
"""Worlds of a release with files of offsets, in which disks are full now and then."""


IMPATIENT = (
    PlanSpace(settings={"max_poll_interval_ms": [6_000], "request_timeout_ms": [30_000]}),
    PlanSpace(
        kinds=["cut"],
        plan={"activation": [0.9]},
        settings={
            "task_timeout_ms": [1_000],
            "request_timeout_ms": [1_000],
            "max_block_ms": [2_000],
            "session_timeout_ms": [10_000],
        },
    ),
    PlanSpace(
        topologies=["windowed-count"],
        upgrades=[""],
        plan={"persistent": [True]},
        settings={"window_databases": ["segments"], "flush_probability": [0.5]},
    ),
)
"""Worlds in which threads and tasks wait for too long, one with segments."""

CRASHES_OF_GLOBAL_TABLES = PlanSpace(
    topologies=["global-table-join"],
    guarantees=["exactly-once"],
    upgrades=[""],
    kinds=["crash"],
    plan={"persistent": [True]},
    settings={"transactional": [False], "flush_probability": [0.5]},
)
"""Worlds with a global table that is not closed."""


def wrongs(event: Event) -> list[str]:
    """In what an event is not as the table has it."""
    kind = KINDS[event.kind]
    found = []
    if not re.fullmatch(ACTOR_NAMES[kind.actor], event.actor):
        found.append(f"its actor is {event.actor}")
    told = {"task": bool(event.task), "partition": bool(event.partition)}
    told["offset"] = event.offset >= 0
    for name, is_told in told.items():
        said = {name: True, f"{name}?": is_told}
        if is_told is not next((said[each] for each in kind.about.split() if each in said), False):
            found.append(f"{name} is {getattr(event, name)!r}")
    if event.attributes.keys() != kind.attributes.keys():
        found.append(f"it tells {sorted(event.attributes)}")
    return found


def test_runs_tell_what_the_table_says() -> None:
    """All kinds come about, and each event has what its kind has, of the types that it has."""
    seen: dict[str, str] = {}
    events: list[Event] = []

    def see(event: Event) -> None:
        for wrong in wrongs(event):
            seen.setdefault(event.kind, f"{event}: {wrong}")
        seen.setdefault(event.kind, "")
        events.append(event)

    for seed in range(100):
        run(Choices.seeded(seed), watchers=[see])
        if seed >= 17 and seen.keys() >= WAITED_FOR:
            break
    for space in IMPATIENT:
        choices = Choices.seeded(2)
        run(choices, draw(choices, space), watchers=[see])
    for upgrade in ("format-in-place", "format-roll-over", "sums-up"):
        choices = Choices.seeded(3)
        run(choices, draw(choices, PlanSpace(upgrades=[upgrade])), watchers=[see])

    def shows(kind: str, space: PlanSpace) -> Callable[[int], bool | None]:
        def attempt(seed: int) -> bool | None:
            choices = Choices.seeded(seed)
            run(choices, draw(choices, space), watchers=[see])
            return kind in seen or None

        return attempt

    # It fails if the disk is full when the file with its offsets is due.
    failed = shows("updater.failed", FULL_DISKS)
    seek("a restoration that a full disk ends", failed, most=100)
    seek("a global table that is wiped", shows("global.wiped", CRASHES_OF_GLOBAL_TABLES))
    assert [each for each in seen.values() if each] == []
    assert KINDS.keys() - seen.keys() <= SELDOM
    assert list(events_of(batch_of("all", events))) == events


def test_each_kind_of_actor_is_told_of() -> None:
    assert {each.actor for each in KINDS.values()} == set(ACTORS) == set(ACTOR_NAMES)


def told_in_the_code() -> set[str]:
    """All texts in the simulator that look like a kind, but names of fault sites and seams."""
    found: set[str] = set()
    for path in Path(trace.__file__).parent.rglob("*.py"):
        if not {"event_kinds", "invariants"} & set(path.parts):
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
            found |= {text for text in texts if is_kind(text)}
    return found - ((SITES.keys() | SEAMS.keys()) - KINDS.keys())


def is_kind(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[a-z]+\.[a-z_]+", text) is not None


def test_every_kind_that_the_simulator_emits_has_an_entry() -> None:
    """And none has one that is never emitted."""
    assert told_in_the_code() == KINDS.keys()


PARTS: dict[str, Any] = {
    "name": "store.planted",
    "meaning": "A store is planted.",
    "actor": "thread",
    "about": "task partition",
    "attributes": {"depth": Attribute(int, "how deep")},
    "look": Look("store", "task", "o", "stores", 1, "{store} is planted {depth} deep"),
    "footprint": Footprint(("store {process} {partition}",), ("task {actor} {task}",)),
    "effect": Absent("no depths are kept"),
}
"""A kind as it should be."""

FIELDS = {"actor", "process", "task", "partition", "offset"}
"""What every event has."""

SAID = {*FIELDS, "at", "store"}
"""What every event can say."""

DERIVED = {"arrived", "input", "kept", "key", "loser", "loser_process", "owner", "value"}
"""What slicing finds out about the parts of an event from the events before it."""


def named(*templates: str) -> set[str]:
    """The names between the braces of some texts."""
    return {name for each in templates for _, name, _, _ in Formatter().parse(each) if name}


def things(templates: Iterable[str]) -> set[str]:
    """What footprints read or write, without which one of its kind."""
    return {each.split()[0] for text in templates for each in text.split(" | ")}


WRITTEN = things(
    write
    for kind in KINDS.values()
    if isinstance(kind.footprint, Footprint)
    for write in kind.footprint.writes
)


def mistakes(kind: EventKind) -> list[str]:
    """In what the declaration of a kind is not as it should be."""
    found = []
    if not (kind.meaning.endswith(".") and all(each.meaning for each in kind.attributes.values())):
        found.append("meaning")
    if kind.actor not in ACTORS or not set(kind.about.replace("?", "").split()) <= FIELDS:
        found.append("actor or about")
    look = kind.look
    if not (look.glyph in GLYPHS and look.lane in get_args(Lane) and look.group in get_args(Group)):
        found.append("look")
    if not look.words or not named(look.words) <= SAID | kind.attributes.keys():
        found.append("words")
    if isinstance(kind.footprint, Footprint):
        writes, reads = kind.footprint
        known = FIELDS | DERIVED | kind.attributes.keys()
        if not (writes or reads) or not named(*writes, *reads) <= known:
            found.append("footprint")
        if not things(reads) <= WRITTEN:
            found.append("footprint reads what no event writes")
    absent = [each for each in (kind.footprint, kind.effect) if isinstance(each, Absent)]
    if not all(each.reason for each in absent):
        found.append("no reason for what is absent")
    return found


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_is_declared_as_it_should_be(kind: EventKind) -> None:
    assert mistakes(kind) == []


def test_a_planted_kind_is_as_it_should_be() -> None:
    """So that those below are found to be wrong for what was changed in them."""
    assert mistakes(EventKind(**PARTS)) == []


@pytest.mark.parametrize("part", sorted(PARTS.keys() - {"about", "attributes"}))
def test_a_kind_without_a_part_cannot_be_declared(part: str) -> None:
    with pytest.raises(TypeError, match=f"'{part}'"):
        EventKind(**{name: value for name, value in PARTS.items() if name != part})


@pytest.mark.parametrize(
    ("changed", "mistake"),
    [
        ({"meaning": ""}, "meaning"),
        ({"attributes": {"depth": Attribute(int, "")}}, "meaning"),
        ({"actor": "gardener"}, "actor or about"),
        ({"look": PARTS["look"]._replace(glyph="Y")}, "look"),
        ({"look": PARTS["look"]._replace(lane="garden")}, "look"),
        ({"look": PARTS["look"]._replace(words="")}, "words"),
        ({"look": PARTS["look"]._replace(words="{height} high")}, "words"),
        ({"footprint": Footprint()}, "footprint"),
        ({"footprint": Footprint(("store {height}",))}, "footprint"),
        ({"footprint": Footprint((), ("soil {task}",))}, "footprint reads what no event writes"),
        ({"effect": Absent("")}, "no reason for what is absent"),
    ],
)
def test_a_kind_with_a_wrong_part_is_found(changed: dict[str, Any], mistake: str) -> None:
    assert mistakes(EventKind(**PARTS | changed)) == [mistake]


def test_no_kind_is_declared_twice() -> None:
    names = [kind.name for kind in ALL_KINDS]
    assert sorted(names) == list(KINDS)


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Values of a type that an attribute may have."""
    plain = {
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(max_size=5),
        bytes: st.binary(max_size=5),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if type_ in plain:
        return plain[type_]
    if is_typeddict(type_):
        return attributes(get_type_hints(type_))
    inner = [each for each in get_args(type_) if each is not ...]
    match get_origin(type_):
        case origin if origin is list:
            return st.lists(values(inner[0]), max_size=3)
        case origin if origin is tuple:
            return st.lists(values(inner[0]), max_size=3).map(tuple)
        case origin if origin is dict:
            return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
        case _:
            assert get_origin(type_) in (Union, type(int | None)), type_
            return st.one_of(*map(values, inner))


def attributes(types: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of these types."""
    return st.fixed_dictionaries({name: values(type_) for name, type_ in types.items()})


@st.composite
def any_event(draw: st.DrawFn, sequence: int = 0) -> Event:
    """Any event of a kind that is known."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    types = {name: each.type for name, each in KINDS[kind].attributes.items()}
    text = st.text(max_size=5)
    number = st.integers(-1, 2**63 - 1)
    return Event(
        sequence,
        draw(number),
        draw(text),
        kind,
        draw(text),
        draw(text),
        draw(number),
        draw(attributes(types)),
    )


@given(st.lists(any_event(), max_size=5))
def test_events_come_back_as_they_were(events: list[Event]) -> None:
    """Bytes, tuples and what is not there included, and in the order in which it was."""
    back = list(events_of(batch_of("run", events)))
    assert back == events
    assert [str(each) for each in back] == [str(each) for each in events]


@pytest.mark.parametrize(
    "defect",
    [
        "",
        "ignores-generation",
        "does-not-wait-for-owner",
        "does-not-fence-producer",
        "commits-last-record",
        "ignores-lag",
        "keeps-unclean-store",
    ],
)
def test_a_trace_is_judged_as_its_run_was(tmp_path: Path, defect: str) -> None:
    """The same violations, word for word, from the same events."""

    def attempt(seed: int) -> tuple[Plan, list[Event], Outcome] | None:
        choices, events = Choices.seeded(seed), list[Event]()
        plan = draw(choices, EVERYTHING.for_defect(defect))
        with TraceFile(tmp_path / "trace.parquet", "run") as file:
            outcome = run(
                choices, plan, defects=[defect] if defect else [], watchers=[file, events.append]
            )
        return (plan, events, outcome) if bool(outcome.violations) is bool(defect) else None

    plan, events, outcome = seek(f"trace {defect or 'without a defect'}", attempt)
    watch = Watch(INVARIANTS, exactly_once=plan.config.exactly_once)
    read = list(read_trace(tmp_path / "trace.parquet"))
    for event in read:
        watch(event)
    assert read == events
    assert (watch.violations or watch.end()) == outcome.violations


def row(kind: str, text: str | None) -> pa.RecordBatch:
    """One event, with its attributes as JSON."""
    batch = batch_of("a run", [Event(7, 0, "brokers", kind, "", "in-0", 3, {})])
    return batch.set_column(8, "attributes", pa.array([text], pa.string()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"value":null}', r"missing required field `key`"),
        ('{"key":3}', r"Expected `bytes`, got `int` - at `\$.key`"),
        ('{"key":"not base64"}', r"Invalid base64 encoded string - at `\$.key`"),
        ("[]", "Expected `object`, got `array`"),
        ("{", "truncated"),
        (None, "no attributes, but no column may have nulls"),
    ],
)
def test_an_event_that_is_not_as_it_should_be_is_named(text: str | None, message: str) -> None:
    """By its run, its number and its attribute."""
    with pytest.raises(UsageError, match=rf"Event 7 of run 'a run' .*{message}"):
        list(events_of(row("store.put", text)))


def test_attributes_may_be_missing_where_that_does_not_matter() -> None:
    """Those that are there are of their types nonetheless."""
    (event,) = events_of(row("store.put", '{"key":"YQ=="}'), complete=False)
    assert event.attributes == {"key": b"a"}
    with pytest.raises(UsageError, match="Expected `bytes`, got `int`"):
        list(events_of(row("store.put", '{"key":3}'), complete=False))


def test_a_kind_that_is_not_known_has_what_json_has() -> None:
    (event,) = events_of(row("my.own", '{"a":[1,{"b":"YQ=="}]}'))
    assert event.attributes == {"a": [1, {"b": "YQ=="}]}


def test_what_is_not_listed_is_left_out() -> None:
    (event,) = events_of(row("workload.ended", '{"topic":"in","records":2,"more":1}'))
    assert event.attributes == {"topic": "in", "records": 2}


def test_attributes_are_json_with_base64() -> None:
    """So that any program can write them."""
    event = Event(
        0, 0, "instance-0/thread-0", "store.put", "0_0", "s-0", -1, {"value": None, "key": b"a\xff"}
    )
    (text,) = batch_of("run", [event]).column("attributes").to_pylist()
    assert msgspec.json.decode(text) == {"value": None, "key": "Yf8="}
