"""Stores inside simulated tasks: right ones are right there, and wrong ones are found and named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from command_lines import CommandLine
from hand_made_events import made
from typer.testing import CliRunner

from streamproof.cli import app
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.results import Guarantee, Profile, Spec
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.saved_failures import Replay, read_failure
from streamproof.conformance.settings import Settings
from streamproof.conformance.store_worlds import world_trial
from streamproof.conformance.store_worlds.hosted_worlds import Hosted
from streamproof.conformance.store_worlds.scenario_worlds import names_for
from streamproof.conformance.store_worlds.store_world import (
    USUAL,
    arguments_of,
    drawn,
    plan_of,
    values_of,
    world_of,
)
from streamproof.conformance.store_worlds.subject_disks import disks_of
from streamproof.conformance.store_worlds.world_judge import invariants_for
from streamproof.conformance.store_worlds.world_trial import simulate, try_world
from streamproof.conformance.subject import Subject, load_subject
from streamproof.errors import UsageError
from streamproof.scenarios.plan_shrinking import plainest, with_smaller_numbers
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import Invariant
from streamproof.sim.invariants.invariant import Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.plan_space import EVERYTHING, draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import WORLD_VERSION
from streamproof.stores.api import StateStore, StateStoreContext, TopicPartition
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = "streamproof.conformance.mutants"
GUARANTEES: tuple[Guarantee, ...] = ("exactly-once", "at-least-once")

RIGHT = [
    name
    for name, store in BUILTIN.items()
    if store.extra is None and name != "rocksdb-window-duplicates"
]
"""What is ours, but for a store that cannot be seen as one of keys and values."""

TORN = {
    "canary_mutant:offsets_written_before_rows": {"PROTOCOL-002", "PROTOCOL-003"},
    "store_mutants:restore_skips_tombstones": {"PROTOCOL-002"},
    "store_mutants:tombstones_dropped_on_commit": {"PROTOCOL-003", "PROTOCOL-004"},
    "store_mutants:unclean_stop_unnoticed": {"PROTOCOL-003"},
}
"""Stores that other layers find wrong, and what this one finds broken."""

CALLS = {"init()", "put()", "get()", "commit()", "close()"}
"""Calls that every store gets sooner or later."""

MOST_WORLDS = 20
"""So many worlds are tried at most until a wrong store is found."""


def outcome_of(
    subject: Subject,
    check: str,
    directory: Path,
    *,
    guarantee: Guarantee = "exactly-once",
    spec: Spec = "kips",
    profile: Profile = "quick",
    seed: int = 0,
    replay: Replay | None = None,
) -> CheckOutcome:
    """A check, run in this process."""
    settings = Settings(guarantee=guarantee, spec=spec, profile=profile, seed=seed)
    work = directory / "work"
    work.mkdir(exist_ok=True)
    status = RunningCall(directory / "status", create=True)
    run = CheckRun(load_checks()[check], subject, settings, work, status, replay=replay)
    outcome = run_check(run)
    assert not any(path for path in work.rglob("*") if path.is_file())
    return outcome


def subject_of(factory: Callable[[], Any]) -> Subject:
    """A subject that is not named on a command line."""
    return Subject("mine", factory, factory().capabilities, None)


# Right stores.


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("name", RIGHT)
def test_a_store_of_ours_is_right_in_every_world(
    name: str, guarantee: Guarantee, tmp_path: Path
) -> None:
    """Whatever happens to its processes."""
    subject = load_subject(name)
    calls: list[str] = []
    seen: set[str] = set()
    kinds = ("crash", "crash", "bounce", "pause", "fill")
    for seed in range(MOST_WORLDS):
        world = drawn(seed, subject.capabilities, kinds, instances=2, standbys=1)
        tried = try_world(
            subject,
            world,
            tmp_path,
            lambda call: nullcontext(calls.append(call)),
            guarantee=guarantee,
            spec="kips",
        )
        assert tried.breach is None
        assert list(tmp_path.iterdir()) == []
        seen |= tried.situations.seen.keys()
        if {"PROTOCOL-002", "PROTOCOL-004"} <= seen and set(calls) >= CALLS:
            break
    assert {"PROTOCOL-002", "PROTOCOL-004"} <= seen
    assert set(calls) >= CALLS


@pytest.mark.parametrize("spec", ["kafka-4.3", "kafka-4.4"])
def test_transactions_are_relied_on_where_the_specification_has_them(
    spec: Spec, tmp_path: Path
) -> None:
    """Kafka 4.3 has none: the store is used as if it had none, and is right as well."""
    subject = load_subject("rocksdb-transactional")
    outcome = outcome_of(subject, "protocol.killed", tmp_path, spec=spec, profile="smoke")
    assert (outcome.findings, outcome.suite_error) == ([], "")
    assert ("PROTOCOL-006" in outcome.evidence.exercised) == (spec == "kafka-4.4")


@pytest.mark.parametrize(
    "name",
    [f"{ROOT / 'examples' / 'sqlite_store.py'}:make", f"{MUTANTS}.crash_mutants:journalled"],
    ids=["sqlite", "journal"],
)
def test_a_store_of_others_is_right(name: str, tmp_path: Path) -> None:
    """It needs to have the methods, and nothing else."""
    subject = load_subject(name)
    for check in ("protocol.moved", "protocol.same_twice"):
        outcome = outcome_of(subject, check, tmp_path, profile="smoke")
        assert (outcome.findings, outcome.suite_error) == ([], "")


def without(claim: str) -> Subject:
    """A right store that does not claim something that it can do."""

    def make() -> InMemoryKeyValueStore:
        store = InMemoryKeyValueStore("mine")
        store.capabilities = replace(store.capabilities, **{claim: False})
        return store

    return subject_of(make)


@pytest.mark.parametrize("seed", [0, 1_242_339_657])
def test_nobody_waits_for_ranges_of_a_store_without_them(seed: int, tmp_path: Path) -> None:
    """Clients ask for ranges all the same, and take the refusal for the answer."""
    world = world_of({"seed": seed, "records": 80, "safety_ms": 1_000, "query_clients": 2})
    plan = plan_of(world, exactly_once=True, transactional=False)
    events = list[Event]()
    disks = disks_of(without("ranges"), tmp_path, nullcontext)
    outcome = run(Choices.seeded(seed), plan, watchers=[events.append], make_disk=disks)

    asked = sum(each.kind == "query.asked" for each in events)
    refused = sum(each.attributes.get("reason") == "UNKNOWN_QUERY_TYPE" for each in events)
    assert outcome.violations == []
    assert 0 < refused < asked


CLAIMS = [
    name
    for name, value in asdict(InMemoryKeyValueStore("mine").capabilities).items()
    if value is True
]
"""What a store in memory claims and may leave out."""


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_store_that_claims_less_is_blamed_for_nothing(claim: str, tmp_path: Path) -> None:
    """The runtime and its clients may ask for what a store need not have."""
    plan = {"records": 40, "safety_ms": 1_000, "query_clients": 2, "kinds": ["crash", "bounce"]}
    for seed in range(2):
        world = world_of({"seed": seed, **plan})
        tried = try_world(
            without(claim), world, tmp_path, nullcontext, guarantee="exactly-once", spec="kips"
        )
        assert tried.breach is None


def test_a_store_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A store host is hosted once more."""
    name = f"cmd:{sys.executable} -P -m streamproof.host rocksdb"
    world = world_of({"seed": 1, "records": 10, "kinds": ["crash", "bounce"], "safety_ms": 8_000})
    tried = try_world(
        load_subject(name), world, tmp_path, nullcontext, guarantee="exactly-once", spec="kips"
    )
    assert tried.breach is None
    assert "PROTOCOL-002" in tried.situations.seen
    assert list(tmp_path.iterdir()) == []


CANNOT_FORGET = """
from dataclasses import replace
from streamproof.stores.rocksdb import RocksDBStore

class Mine(RocksDBStore):
    @property
    def capabilities(self):
        return replace(super().capabilities, forgets_offsets={claims})

    def commit(self, changelog_offsets):
        if changelog_offsets:
            super().commit(changelog_offsets)
        else:
            {answer}

def make():
    return Mine("mine")
"""


@pytest.mark.parametrize(
    ("claims", "answer", "told"),
    [
        (False, "raise UnsupportedOperationError", "✓ fixed  every promise is kept"),
        (False, "pass", "✓ fixed  every promise is kept"),
        (True, "pass", "✗ fixed  TASK-071 is broken"),
    ],
)
def test_a_store_that_cannot_forget_is_wiped(
    claims: bool, answer: str, told: str, tmp_path: Path
) -> None:
    """Unless it claims that it can; the runtime starts the task over with an empty directory."""
    path = tmp_path / "mine.py"
    path.write_text(CANNOT_FORGET.format(claims=claims, answer=answer))
    words = ["replay", "KAFKA-10391@fixed", "--set", "exactly_once=false"]
    result = CliRunner().invoke(app, [*words, "--subject", f"{path}:make"])
    assert told in result.output


COUNTS_EMPTY_BATCHES = """
from streamproof.stores import transactional

def make():
    store = transactional.default_store()
    count = store.approximate_num_uncommitted_bytes
    store.approximate_num_uncommitted_bytes = lambda: count() + 24
    return store
"""


def test_what_a_store_counts_while_nothing_is_staged_makes_no_commit_due(tmp_path: Path) -> None:
    """Kafka's transactional stores count their empty batches, 12 bytes each."""
    path = tmp_path / "mine.py"
    path.write_text(COUNTS_EMPTY_BATCHES)
    words = ["replay", "KIP-892-one-task-alone@fixed", "--subject", f"{path}:make"]
    result = CliRunner().invoke(app, words)
    assert "✓ fixed  every promise is kept" in result.output


class FlushesAtItsClose(RocksDBStore):
    """Writes to the disk when it is closed, and when its buffers are full, as Kafka's stores do."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, durability="close")

    def flush(self) -> None:
        """Do nothing."""


class ForgetsItsClose(FlushesAtItsClose):
    """Gives its offsets up when it was not closed cleanly, also those of an earlier close."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        mark = context.state_dir / "is-open"
        changelog = TopicPartition(context.changelog_topic(self.name), 0)
        if mark.exists() and self.committed_offset(changelog) is not None:
            self.commit({changelog: None})
        mark.touch()
        self._mark = mark

    def close(self) -> None:
        super().close()
        self._mark.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("factory", "broken"),
    [(FlushesAtItsClose, set()), (ForgetsItsClose, {"PROTOCOL-011"})],
)
def test_what_is_durable_from_a_clean_close_on(
    factory: Callable[[str], RocksDBStore], broken: set[str], tmp_path: Path
) -> None:
    """A flush promises nothing, and a clean close does."""
    subject = subject_of(lambda: factory("mine"))
    found = set()
    for check in ("protocol.library", "protocol.killed", "protocol.moved"):
        place = tmp_path / check
        place.mkdir()
        outcome = outcome_of(subject, check, place, guarantee="at-least-once", profile="smoke")
        assert outcome.suite_error == ""
        found |= {each.requirement for each in outcome.findings}
    assert found == broken


@pytest.mark.parametrize(("closing", "breaches"), [("CLEAN", 1), ("DIRTY", 0)])
def test_only_a_clean_close_makes_durable(closing: str, breaches: int) -> None:
    """A close that the full disk refuses is a dirty one, and an older offset may come back."""
    claims = Capabilities(durability="close")
    asked = invariants_for(claims, "at-least-once", "kips", transactional=False)
    (kept,) = [each for each in asked if each.requirement == "PROTOCOL-006"]
    invariant = kept(LogHistory(exactly_once=False))
    place = {"task": "0_0", "partition": "counts-changelog-0"}
    events = [
        made(0, "instance-0/thread-0", "store.committed", **place, offset=25),
        made(1, "instance-0/thread-0", "task.closed", task="0_0", closing=closing),
        made(2, "instance-0/thread-0", "store.opened", **place, offset=2),
    ]
    found = [each for event in events for each in invariant.observers[event.kind](event)]
    assert len(found) == breaches


def test_worlds_fit_the_store() -> None:
    """What a store does not have is not asked of it."""
    plain = Capabilities(ranges=False, reverse=False, prefix_scan=False)
    worlds = [drawn(seed, plain, ("crash",)) for seed in range(200)]
    assert {each.plan.config.statestore_cache_max_bytes for each in worlds} == {0}
    assert not {"stream-stream-join", "session-count"} & {each.plan.topology for each in worlds}
    worlds = [drawn(seed, Capabilities(), ("crash",)) for seed in range(200)]
    assert {"stream-stream-join", "session-count", "count"} <= {
        each.plan.topology for each in worlds
    }
    assert drawn(7, plain, ()) == drawn(7, plain, ())


# Wrong stores.


@pytest.mark.parametrize("name", TORN)
def test_what_other_layers_find_is_found_here_too(name: str, tmp_path: Path) -> None:
    """Torn commits, and wrong restorations."""
    subject = load_subject(f"{MUTANTS}.{name}")
    found: set[str] = set()
    for seed in range(MOST_WORLDS):
        world = drawn(seed, subject.capabilities, ("crash", "crash", "bounce"))
        directory = tmp_path / str(seed)
        tried = try_world(
            subject, world, directory, nullcontext, guarantee="exactly-once", spec="kips"
        )
        if tried.breach:
            found.add(tried.breach.requirement)
        if found & TORN[name]:
            return
    pytest.fail(f"of {TORN[name]}, nothing was found in {MOST_WORLDS} worlds, but {found}")


class Raising(InMemoryKeyValueStore):
    """Raises at its third write what no store may raise."""

    def __init__(self) -> None:
        super().__init__("mine")
        self.writes = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        self.writes += 1
        if self.writes == 3:
            raise self.error
        super().put(key, value)

    error: BaseException = KeyError("oops")


class Panicking(Raising):
    """Raises something that is not even an Exception, as a binding may."""

    class Panic(BaseException):
        """What the native side raises."""

    error = Panic("oops")


@pytest.mark.parametrize("store", [Raising, Panicking])
def test_a_store_that_raises_is_named(store: type[Raising], tmp_path: Path) -> None:
    """With the call, in the smallest world that was found."""
    outcome = outcome_of(subject_of(store), "protocol.killed", tmp_path)
    (finding,) = (each for each in outcome.findings if each.requirement == "PROTOCOL-008")
    name = type(store.error).__name__
    assert finding.shape == f"raised-{name}-put"
    assert f"({store.__name__}) raised {name} from put()" in finding.found
    assert "instances=" not in finding.program
    assert outcome.suite_error == ""


def test_a_factory_that_raises_is_named(tmp_path: Path) -> None:
    """It has worked once, when it was looked at."""
    made: list[InMemoryKeyValueStore] = []

    def make() -> InMemoryKeyValueStore:
        if len(made) == 2:
            raise RuntimeError("no more")
        made.append(InMemoryKeyValueStore("mine"))
        return made[-1]

    outcome = outcome_of(subject_of(make), "protocol.killed", tmp_path)
    (finding,) = (each for each in outcome.findings if each.requirement == "PROTOCOL-008")
    assert "The factory of 'mine' raised RuntimeError: no more." in finding.found


class Garbling(InMemoryKeyValueStore):
    """Gives answers that nobody can work with."""

    def __init__(self) -> None:
        super().__init__("mine")

    def get(self, key: bytes) -> bytes | None:
        found = super().get(key)
        return None if found is None else b"garbage"


class Miscounting(InMemoryKeyValueStore):
    """Gives an offset of another type."""

    def __init__(self) -> None:
        super().__init__("mine")

    def committed_offset(self, partition: TopicPartition) -> Any:
        return "7"


@pytest.mark.parametrize("store", [Garbling, Miscounting])
def test_a_store_whose_answers_break_the_application_is_to_blame(
    store: Callable[[], Any], tmp_path: Path
) -> None:
    """What follows from an answer is not taken for a mistake of the suite."""
    outcome = outcome_of(subject_of(store), "protocol.killed", tmp_path)
    assert "PROTOCOL-007" in {each.requirement for each in outcome.findings}
    assert outcome.suite_error == ""


def test_a_mistake_of_the_simulator_is_not_laid_at_the_door_of_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same world is wrong with a model store as well."""

    class NeverHolds(Invariant):
        """An invariant that is wrong itself."""

        name = "it rains"
        requirement = "TASK-001"
        observers: ClassVar[Mapping[str, Observer]] = {}

        def at_end(self) -> Iterator[str]:
            """It never holds."""
            yield "the sun shines"

    monkeypatch.setattr(world_trial, "invariants_for", lambda *_, **__: (NeverHolds,))
    outcome = outcome_of(load_subject("in-memory"), "protocol.killed", tmp_path, profile="smoke")
    assert outcome.findings == []
    assert "The simulator is wrong, also with model stores" in outcome.suite_error


# What is told, and how it is made again.


def run_failing(directory: Path) -> CheckOutcome:
    """Run a check that has findings."""
    subject = load_subject(f"{MUTANTS}.task_mutants:get_misses_restored_rows")
    return outcome_of(subject, "protocol.killed", directory)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> CheckOutcome:
    """A check with findings."""
    return run_failing(tmp_path_factory.mktemp("failing"))


def test_the_same_seed_finds_the_same(failing: CheckOutcome, tmp_path: Path) -> None:
    """Word by word, and the worlds as well."""
    assert failing.findings
    assert failing.findings == run_failing(tmp_path).findings


def test_the_program_of_a_failure_shows_it(failing: CheckOutcome, tmp_path: Path) -> None:
    """It runs as it stands, and fails with what is wrong; before that, it tells what happened."""
    (finding,) = (each for each in failing.findings if each.requirement == "PROTOCOL-001")
    assert "ms: instance-0/thread-0 store.opened count-counts-changelog-0" in finding.program
    done = subprocess.run(
        [sys.executable, "-P", "-c", finding.program],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert f"AssertionError: {finding.found.splitlines()[0]}\n" in done.stderr


def test_a_world_is_made_again(failing: CheckOutcome, tmp_path: Path) -> None:
    """As it was saved; with a store that is right, nothing is wrong in it."""
    found = failing.findings[0]
    replay = Replay(
        name="one",
        requirement=found.requirement,
        choices=found.choices,
        profile="quick",
        seed=0,
        round=0,
    )
    wrong = load_subject(f"{MUTANTS}.task_mutants:get_misses_restored_rows")
    again = outcome_of(wrong, "protocol.killed", tmp_path, replay=replay)
    assert [each.shape for each in again.findings] == [found.shape]
    right = outcome_of(load_subject("in-memory"), "protocol.killed", tmp_path, replay=replay)
    assert (right.findings, right.suite_error) == ([], "")


def test_a_failure_is_saved_and_replayed(command_line: CommandLine) -> None:
    """By one command each."""
    subject = f"{MUTANTS}.task_mutants:unknown_offset_refused"
    found = command_line.verify(
        subject, "--only", "PROTOCOL-008", "--profile", "smoke", "--no-bank"
    )
    assert found.code == 1
    failure = found.failures["PROTOCOL-008"]
    assert "--only PROTOCOL-008 --seed" in failure.reproduce
    saved = read_failure(found.out / failure.saved)
    (world,) = saved.choices.worlds
    smallest = world_of(world)
    assert smallest.scenario or smallest.plan.workload.records < 40


def test_a_store_that_hangs_is_cut_off(command_line: CommandLine) -> None:
    """By the limit for any call, and the call is named."""
    (command_line.cwd / "hanging.py").write_text(
        "import time\n"
        "from streamproof.stores.memory import InMemoryKeyValueStore\n"
        "class Store(InMemoryKeyValueStore):\n"
        "    def commit(self, offsets):\n"
        "        time.sleep(3600)\n"
        "def make():\n"
        "    return Store('mine')\n"
    )
    ended = command_line.verify(
        "hanging.py:make", "--only", "PROTOCOL-007", "--timeout", "1", "--no-bank"
    )
    assert ended.code == 1
    (result,) = ended.log.results
    assert result.status == "error"
    assert "commit() did not return within 1 s" in result.reason


# The crash scenarios that come with streamproof.


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(
    "name", ["in-memory", "rocksdb", "rocksdb-transactional", "rocksdb-window", "rocksdb-stack"]
)
def test_a_store_of_ours_goes_through_every_scenario(
    name: str, guarantee: Guarantee, tmp_path: Path
) -> None:
    """All that it can be put into, and all of them put something to the test."""
    subject = load_subject(name)
    outcome = outcome_of(subject, "protocol.library", tmp_path, guarantee=guarantee, profile="full")
    assert (outcome.findings, outcome.suite_error, outcome.subject_error) == ([], "", "")
    names = names_for(subject.capabilities, guarantee)
    assert outcome.evidence.examples == len(list(names)) > 0
    assert "PROTOCOL-002" in outcome.evidence.exercised


def test_a_scenario_finds_a_store_that_is_wrong(tmp_path: Path) -> None:
    """The program plays it again; so does what was saved."""
    wrong = load_subject(f"{MUTANTS}.task_mutants:get_misses_restored_rows")
    outcome = outcome_of(wrong, "protocol.library", tmp_path, profile="full")
    finding = outcome.findings[0]
    (world,) = finding.choices.worlds
    scenario = world["scenario"]
    assert f"mistake = lab.simulate(seed=0, scenario={scenario!r})  # " in finding.program
    found = simulate(wrong, world, tmp_path / "again", guarantee="exactly-once", spec="kips")
    assert finding.found.startswith(found.splitlines()[0][:40])
    right = load_subject("in-memory")
    assert simulate(right, world, tmp_path / "one", guarantee="exactly-once", spec="kips") == ""


def test_a_scenario_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """It may be one of another version."""
    with pytest.raises(UsageError, match="There is no variant 'KAFKA-0@fixed'"):
        simulate(
            load_subject("in-memory"),
            {"seed": 0, "scenario": "KAFKA-0@fixed"},
            tmp_path,
            guarantee="exactly-once",
            spec="kips",
        )


def test_a_smaller_world_has_less_in_it() -> None:
    """Down to a world in which nothing is left to leave out."""
    world = drawn(3, Capabilities(), ("crash", "bounce"), instances=2, standbys=1)
    plan = plainest(world.plan, lambda _: True, 100, USUAL)
    plan = with_smaller_numbers(plan, lambda _: True)
    workload = replace(USUAL.workload, records=1)
    assert plan == replace(USUAL, workload=workload, safety_ms=1_000)


@pytest.mark.parametrize("seed", range(20))
def test_a_world_is_made_again_from_plain_values(seed: int) -> None:
    """They are JSON, and name the version of the world."""
    world = drawn(
        seed, Capabilities(transactional=True), ("crash", "crash"), instances=2, standbys=1
    )
    values = msgspec.json.decode(msgspec.json.encode(values_of(world)))
    assert world_of(values) == world
    assert values["world"] == WORLD_VERSION
    assert world_of(eval(f"dict({arguments_of(world)})")) == world  # noqa: S307 - it is ours.


def test_a_world_of_another_version_is_refused() -> None:
    """Its seed would lead to another run."""
    with pytest.raises(UsageError, match=f"carries version {WORLD_VERSION + 1} of the simulated"):
        world_of({"world": WORLD_VERSION + 1, "seed": 1})


@pytest.mark.parametrize("world", [{}, {"seed": "one"}, {"seed": 1, "weather": "bad"}])
def test_what_is_no_world_is_refused(world: dict[str, Any], tmp_path: Path) -> None:
    """With what is wrong about it."""
    with pytest.raises(UsageError, match="no world to simulate"):
        simulate(load_subject("in-memory"), world, tmp_path, guarantee="exactly-once", spec="kips")


@pytest.mark.parametrize(
    ("subject", "seed"),
    [
        ("in-memory", 33),
        ("rocksdb-transactional", 7),
        ("rocksdb-transactional", 22),
        ("rocksdb-transactional", 39),
        ("single-file", 15),
    ],
)
def test_an_exploration_blames_no_right_store(subject: str, seed: int) -> None:
    """Worlds that once had no end, or broke a promise that the store does not make."""
    space = EVERYTHING.for_store(load_subject(subject).capabilities)
    choices = Choices.seeded(seed)
    assert Hosted(subject, str(ROOT))(choices, draw(choices, space)).violations == []
