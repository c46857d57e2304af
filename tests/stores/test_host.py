"""Stores in another process: the protocol, hosts that get it wrong, and what remains of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import (
    InvalidStateStoreError,
    NullArgumentError,
    ProcessorStateError,
    StoreError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.host import client, process, remote_calls
from streamproof.stores.host.client import HostFactory, RemoteStore
from streamproof.stores.host.operations import OPERATIONS
from streamproof.stores.host.serve import StoreHost
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.timestamps import ValueAndTimestamp

ROOT = Path(__file__).parent.parent.parent
SUBJECTS = ROOT / "tests" / "subjects"
P0 = TopicPartition("log", 0)


def command(script: str, *arguments: str) -> str:
    """How a host of the tests is started."""
    return shlex.join([sys.executable, str(SUBJECTS / script), *arguments])


def python_host(subject: str) -> str:
    """How a store in Python is served."""
    return f"{shlex.quote(sys.executable)} -P -m streamproof.host {subject} --dir {{dir}}"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Opens stores of a command, and leaves no process behind."""
    configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    context = StateStoreContext(state_dir=tmp_path, app_configs=configs)

    def open_one(line: str) -> tuple[RemoteStore, StateStoreContext]:
        store = HostFactory(line)()
        store.init(context, store)
        return store, context

    yield open_one
    client.kill_hosts()
    assert not process._hosts


def test_a_store_of_ours_is_the_same_from_afar(opened: Any) -> None:
    """Every method, with values that are hard to write down."""
    store, context = opened(python_host("rocksdb-transactional"))
    context.record_metadata = RecordMetadata("in", 0, 7)
    store.put(b"\xff\x00", b"")
    assert store.put_if_absent(b"\xff\x00", b"x") == b""
    store.put_all([(b"a", b"1"), (b"b", b"2"), (b"c", None)])
    assert store.delete(b"b") == b"2"
    assert store.get(b"b") is None
    assert list(store.all()) == [(b"a", b"1"), (b"\xff\x00", b"")]
    assert list(store.reverse_all()) == [(b"\xff\x00", b""), (b"a", b"1")]
    assert list(store.range(None, b"b")) == [(b"a", b"1")]
    assert list(store.reverse_range(b"b", None)) == [(b"\xff\x00", b"")]
    assert list(store.prefix_scan(b"\xff")) == [(b"\xff\x00", b"")]
    assert store.approximate_num_uncommitted_entries() > 0
    assert store.approximate_num_uncommitted_bytes() > 0
    view = store.read_only(IsolationLevel.READ_COMMITTED)
    assert view.get(b"a") is None
    store.commit({P0: 41})
    assert view.get(b"a") == b"1"
    assert list(view.range(None, None)) == list(store.all())
    assert store.committed_offset(P0) == 41
    assert store.committed_offset(TopicPartition("log", 1)) is None
    assert store.position.as_dict() == {TopicPartition("in", 0): 7}
    (restore,) = context.restore_callbacks.values()
    restore([ChangelogRecord(b"r", b"1", 42), ChangelogRecord(b"a", None, 43)])
    assert [key for key, _ in store.all()] == [b"r", b"\xff\x00"]
    store.flush()
    store.close()
    store.close()
    assert not store.is_open
    with pytest.raises(InvalidStateStoreError):
        store.get(b"a")


def test_it_is_there_again_after_a_restart(opened: Any) -> None:
    """Another process finds what was committed."""
    store, _ = opened(python_host("rocksdb"))
    store.put(b"a", b"1")
    store.commit({P0: 1})
    store.close()
    store, _ = opened(python_host("rocksdb"))
    assert (store.get(b"a"), store.committed_offset(P0)) == (b"1", 1)


def reopening_host(subject: str) -> str:
    """A host without a directory of its own: it opens one store after another."""
    return f"{shlex.quote(sys.executable)} -P -m streamproof.host {subject}"


def process_of(store: RemoteStore) -> int:
    """The process of an open store."""
    assert store._host is not None
    return store._host._process.pid


def test_a_host_opens_one_store_after_another(opened: Any) -> None:
    """As long as its command names no directory; and it keeps nothing of the store before."""
    pids = []
    for command_line in (reopening_host("in-memory"), python_host("in-memory")):
        for value in (b"1", b"2"):
            store, _ = opened(command_line)
            assert store.get(b"a") is None
            store.put(b"a", value)
            pids.append(process_of(store))
            store.close()
    assert pids[0] == pids[1]
    assert len(set(pids)) == 3


@pytest.mark.parametrize("serve", [reopening_host, python_host])
def test_a_closed_store_answers_for_itself(opened: Any, serve: Callable[[str], str]) -> None:
    """The client judges nothing in its place, until another store is open in the same process."""
    line = serve(f"{SUBJECTS / 'answers_when_closed.py'}:make")
    store, _ = opened(line)
    store.put(b"a", b"1")
    store.close()
    assert store.get(b"a") == b"1"
    store.close()
    assert store.get(b"a") == b"closed twice"
    other, _ = opened(line)
    with pytest.raises(InvalidStateStoreError, match="is not open"):
        store.get(b"a")
    assert other.get(b"a") is None


def test_a_host_without_a_store_leaves_at_the_next_opening(opened: Any) -> None:
    """If it cannot open another one; so there is never more than one idle host of a command."""
    for _ in range(3):
        store, _ = opened(python_host("in-memory"))
        store.close()
    assert set(process._idle) == process._hosts
    assert len(process._idle) == 1


def test_a_store_that_asks_for_a_wipe_leaves_its_host(opened: Any, tmp_path: Path) -> None:
    """A new process for each wipe would take most of the time of many checks."""
    line = reopening_host("rocksdb")
    store, _ = opened(line)
    store.put(b"a", b"1")
    store.commit({P0: 1})
    store.flush()
    client.kill_hosts()
    with pytest.raises(TaskCorruptedError):
        opened(line)
    (idle,) = process.idle_hosts()
    shutil.rmtree(tmp_path / "rocksdb")
    again, _ = opened(line)
    assert process_of(again) == idle.pid
    assert again.get(b"a") is None


def test_two_open_stores_have_a_host_each(opened: Any) -> None:
    first, _ = opened(reopening_host("in-memory"))
    second, _ = opened(reopening_host("in-memory"))
    pids = {process_of(first), process_of(second)}
    assert len(pids) == 2
    first.close()
    second.close()
    third, _ = opened(reopening_host("in-memory"))
    assert process_of(third) in pids


def test_an_open_iterator_keeps_the_host_of_a_closed_store(opened: Any) -> None:
    first, _ = opened(reopening_host("in-memory"))
    first.put(b"a", b"1")
    rows, pid = first.all(), process_of(first)
    first.close()
    second, _ = opened(reopening_host("in-memory"))
    assert process_of(second) != pid
    rows.close()
    third, _ = opened(reopening_host("in-memory"))
    assert process_of(third) == pid


def test_a_store_that_cannot_be_closed_ends_its_host(opened: Any) -> None:
    """Nobody knows what such a process would do with the next store."""
    line = reopening_host(f"{SUBJECTS / 'bad_close.py'}:make")
    store, _ = opened(line)
    pid = process_of(store)
    with pytest.raises(StoreError, match="cannot close"):
        store.close()
    again, _ = opened(line)
    assert process_of(again) != pid


PROGRAM = """
import sys
from pathlib import Path
from streamproof.stores.api import StateStoreContext
from streamproof.stores.host.client import HostFactory
from streamproof.stores.host.process import idle_hosts

store = HostFactory(sys.argv[1])()
store.init(StateStoreContext(state_dir=Path(sys.argv[2])), store)
store.close()
print(idle_hosts()[0].pid)
"""


def test_a_program_leaves_no_idle_host(tmp_path: Path) -> None:
    """It ends the host, and Python has nothing to warn of."""
    words = [sys.executable, "-P", "-X", "dev", "-c", PROGRAM]
    line = reopening_host("in-memory")
    done = subprocess.run([*words, line, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_a_fork_leaves_idle_hosts_to_its_parent(opened: Any) -> None:
    """Both would write to the same pipe."""
    store, _ = opened(reopening_host("in-memory"))
    pid = process_of(store)
    store.close()
    child = os.fork()
    if child == 0:
        # This process must not return into the test.
        other, _ = opened(reopening_host("in-memory"))
        is_new = process_of(other) != pid
        client.kill_hosts()
        os._exit(0 if is_new else 1)
    assert os.waitpid(child, 0)[1] == 0
    again, _ = opened(reopening_host("in-memory"))
    again.put(b"a", b"1")
    assert process_of(again) == pid


def test_a_long_scan_comes_in_pages(opened: Any) -> None:
    """All rows, and what is written meanwhile changes nothing in them."""
    store, _ = opened(python_host("rocksdb"))
    rows = [(b"%06d" % number, b"v") for number in range(3 * remote_calls.PAGE_ROWS + 1)]
    store.put_all(rows)
    scan = store.all()
    first = next(scan)
    store.put(b"999999", b"later")
    assert [first, *scan] == rows
    scan.close()
    with store.all() as again:
        assert again.peek_next_key() == rows[0][0]


def test_errors_have_their_kinds(opened: Any) -> None:
    """What a store raises is raised here, too."""
    store, _ = opened(python_host("in-memory"))
    with pytest.raises(NullArgumentError):
        store.get(None)
    scan = store.all()
    store.close()
    with pytest.raises(InvalidStateStoreError):
        next(scan)


def test_the_capabilities_are_those_of_the_store() -> None:
    """But for what another store has to do with it."""
    found = HostFactory(python_host("rocksdb")).capabilities
    assert found == Capabilities(
        read_only_views=True, durability="flush", position=True, imports_offsets=True
    )


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("nonsense", ProcessorStateError, r"answered get with b'Segmentation fault"),
        ("neither", ProcessorStateError, r"neither ok nor error"),
        ("wrong type", ProcessorStateError, r"answered get with .*\(Expected `bytes \| null`"),
        ("wrong id", ProcessorStateError, r"an answer to request \d+, not to \d+"),
        ("twice", ProcessorStateError, r"more than one answer: b'{\"id\""),
        ("dies", ProcessorStateError, r"left with exit code 3 during get \(the disk is on fire\)"),
        ("is killed", ProcessorStateError, r"was ended by SIGSEGV during get"),
        ("closes", ProcessorStateError, r"has closed its output during get"),
        ("unsupported", UnsupportedOperationError, "no such thing"),
        ("strange kind", StoreError, "a ghost"),
    ],
)
def test_a_host_that_misbehaves(
    opened: Any, monkeypatch: pytest.MonkeyPatch, how: str, error: type[Exception], message: str
) -> None:
    """One error that says what the host did; nothing of it remains."""
    monkeypatch.setattr(process, "LEAVE_TIMEOUT_S", 0.2)
    store, _ = opened(command("bad_hosts.py", how))
    with pytest.raises(error, match=message):
        store.get(b"a")
    if not store.is_open:
        with pytest.raises(ProcessorStateError, match="is dead"):
            store.close()
    store.close()
    assert not process._hosts


def test_a_call_that_is_given_up_ends_the_host(opened: Any) -> None:
    """An answer that comes late would pass for that to the next call."""

    def give_up(*_: object) -> None:
        raise TimeoutError("too late")

    store, _ = opened(command("bad_hosts.py", "late"))
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError, match="too late"):
            store.get(b"a")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessorStateError, match="is dead and cannot answer"):
        store.get(b"a")
    assert not process._hosts


def test_an_exit_that_looks_like_a_kill_is_none(opened: Any) -> None:
    """A store may leave with the exit code that a shell gives to a host that was killed."""
    child = os.fork()
    if child == 0:
        # This process must not return into the test.
        client.die_with_hosts(lambda: False)
        store, _ = opened(command("bad_hosts.py", "leaves like a killed one"))
        try:
            store.get(b"a")
        except ProcessorStateError as error:
            os._exit(0 if "left with exit code 137 during get" in str(error) else 1)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("silent", "did not answer hello: no answer to hello within"),
        ("talks first", "The store host .* answered hello with b'Welcome"),
        (
            "from the future",
            "speaks version 3 of the protocol, but this streamproof speaks versions 1 to 2",
        ),
        ("unknown capability", "claims the unknown capabilities quantum"),
        ("wrong capability", "claims a capability with a wrong value"),
        ("windows", "claims more than version 1 of the protocol can serve"),
    ],
)
def test_a_host_that_is_refused(monkeypatch: pytest.MonkeyPatch, how: str, message: str) -> None:
    """Before anything is tested, with what is wrong."""
    monkeypatch.setattr(process, "HELLO_TIMEOUT_S", 1.0)
    with pytest.raises(UsageError, match=message):
        HostFactory(command("bad_hosts.py", how))
    assert not process._hosts


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "command of the store host is empty"),
        ("/no/such/host", "'/no/such/host' cannot be started: No such file"),
        (f"{SUBJECTS}/bad_hosts.py", "cannot be started: Permission denied"),
        ("/bin/true", "left with exit code 0 during hello"),
    ],
)
def test_a_command_that_is_no_host(line: str, message: str) -> None:
    """It is told which one."""
    with pytest.raises(UsageError, match=message):
        HostFactory(line)


def test_a_line_that_is_too_long(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it fills the memory."""
    store, _ = opened(python_host("in-memory"))
    store.put(b"a", b"x" * 10_000)
    monkeypatch.setattr(process, "MAX_LINE_BYTES", 5_000)
    with pytest.raises(ProcessorStateError, match="a line of more than 5000 bytes"):
        store.get(b"a")


def test_the_directory_in_the_command(tmp_path: Path, opened: Any) -> None:
    """``{dir}`` is that of the task, and may be part of a word."""
    script = tmp_path / "host.sh"
    script.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/seen\nexec {command("small_host.py")}\n')
    script.chmod(0o755)
    opened(f"{script} --dir={{dir}}")
    assert (tmp_path / "seen").read_text().splitlines()[-1] == f"--dir={tmp_path}"


class WithOffsets(InMemoryKeyValueStore):
    """A store in memory that knows its offsets."""

    def __init__(self) -> None:
        super().__init__("store")
        self._offsets: dict[TopicPartition, int | None] = {}

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Keep them."""
        self._offsets.update(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """What was kept."""
        return self._offsets.get(partition)


def test_a_host_makes_stores_of_the_names_that_it_is_told(tmp_path: Path) -> None:
    """They lie in one directory, and each has its own rows."""
    factory = HostFactory(python_host("rocksdb").removesuffix(" --dir {dir}"))
    contexts = [StateStoreContext(state_dir=tmp_path) for _ in range(2)]
    try:
        stores = [factory.named(name)() for name in ("a", "a.b")]
        for store, context in zip(stores, contexts, strict=True):
            store.init(context, store)
            store.put(b"key", store.name.encode())
            store.commit({P0: 1})
        found = [store.get(b"key") for store in stores]
    finally:
        client.kill_hosts()

    assert factory.takes_name
    assert found == [b"a", b"a.b"]
    assert len({*tmp_path.rglob("CURRENT")}) == len(stores)


def test_a_host_whose_factory_takes_no_name_says_so() -> None:
    """Stores of other names are not asked of it."""
    mutants = "streamproof.conformance.mutants.key_space_mutants"
    factory = HostFactory(python_host(f"{mutants}:dots_are_underscores"))

    assert not factory.takes_name


def served() -> StoreHost:
    """A host in this process."""
    return StoreHost(WithOffsets, Capabilities(), name="my-store", version="0.3")


def ask(host: StoreHost, line: Any) -> Any:
    """One request."""
    text = line if isinstance(line, bytes) else json.dumps(line).encode()
    return json.loads(host.answer(text))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"no json", "invalid-argument"),
        (b"[1, 2]", "invalid-argument"),
        ({"id": 1}, "unsupported"),
        ({"id": 1, "op": "fly"}, "unsupported"),
        ({"id": 1, "op": ["get"]}, "unsupported"),
        ({"id": 1, "op": "put", "key": "no base64!", "value": None}, "invalid-argument"),
        ({"id": 1, "op": "get", "key": "YQ==", "on": 99}, "invalid-state"),
        ({"id": 1, "op": "next", "iterator": 99, "limit": 5}, "invalid-state"),
        ({"id": 1, "op": "next", "iterator": 99, "limit": 0}, "invalid-argument"),
        ({"id": 1, "op": "open", "directory": "."}, "invalid-state"),
        ({"id": 1, "op": "get"}, "error"),
    ],
)
def test_our_host_survives_bad_requests(tmp_path: Path, line: Any, kind: str) -> None:
    """Each is answered with an error, and the next one is served."""
    host = served()
    ask(host, {"id": 0, "op": "open", "directory": str(tmp_path)})
    assert ask(host, line)["error"]["kind"] == kind
    assert ask(host, {"id": 2, "op": "get", "key": "YQ=="}) == {"id": 2, "ok": None}


def test_nothing_works_before_it_is_open() -> None:
    """But for hello."""
    host = served()
    assert ask(host, {"id": 0, "op": "get", "key": "YQ=="})["error"]["kind"] == "invalid-state"
    assert ask(host, {"id": 0, "op": "hello", "protocol": 1})["ok"]["name"] == "my-store"


@pytest.mark.parametrize("number", [0, 1])
def test_the_transcripts_of_the_specification(number: int, tmp_path: Path) -> None:
    """What the page shows is what our host answers."""
    page = (ROOT / "docs" / "store-host.md").read_text()
    transcripts = re.findall(r"```text\n(->.*?)```", page, flags=re.DOTALL)
    assert len(transcripts) == 2
    lines = re.findall(r"^(->|<-) (.*)$", transcripts[number], flags=re.MULTILINE)
    host = served()
    if number == 0:
        # It begins in the middle.
        ask(host, {"id": 0, "op": "open", "directory": str(tmp_path)})
        ask(host, {"id": 1, "op": "put", "key": "YQ==", "value": "MQ=="})
    for (_, request), (_, answer) in zip(lines[::2], lines[1::2], strict=True):
        found, expected = ask(host, request.encode()), json.loads(answer)
        if "error" in expected:
            assert found["error"]["kind"] == expected["error"]["kind"]
        else:
            assert found == expected


def test_every_operation_of_the_specification_is_served() -> None:
    """And nothing is served that it does not name."""
    page = (ROOT / "docs" / "store-host.md").read_text()
    table = page.partition("## Operations")[2].partition("## Versions")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    served_ones = {name.removeprefix("_op_") for name in dir(StoreHost) if name.startswith("_op_")}
    assert served_ones.union(*OPERATIONS.values()) == named


@pytest.mark.parametrize("kind", OPERATIONS)
def test_the_fields_of_an_operation_are_those_of_the_specification(kind: str) -> None:
    """In the table of each kind."""
    page = (ROOT / "docs" / "store-host.md").read_text()
    table = page.partition(f"(`kind` `{kind}`)")[2].partition("\n\n")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        _, ops, fields, _, _ = line.split("|")
        for op in re.findall(r"`(\w+)`", ops):
            if operation := OPERATIONS[kind].get(op):
                named = re.findall(r"`(\w+)`(?= is|:|,| *$)", fields)
                assert (op, *operation.fields) == (op, *(name for name in named if name != "null"))


def test_what_a_store_prints_is_no_answer(tmp_path: Path) -> None:
    """It goes to the standard error; the host leaves when its input ends."""
    module = tmp_path / "noisy.py"
    module.write_text(
        "from streamproof.stores.memory import InMemoryKeyValueStore\n"
        "class Noisy(InMemoryKeyValueStore):\n"
        "    def get(self, key):\n"
        "        print('looking')\n"
        "        return super().get(key)\n"
        "def make():\n"
        "    return Noisy('store')\n"
    )
    requests = [
        {"id": 1, "op": "open", "directory": str(tmp_path)},
        {"id": 2, "op": "get", "key": ""},
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "streamproof.host", f"{module}:make"],
        input="".join(json.dumps(each) + "\n" for each in requests),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": 1, "ok": None},
        {"id": 2, "ok": None},
    ]
    assert "looking" in done.stderr


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("cmd:./host", "is a store host already"),
        ("no-such-store", "There is no subject 'no-such-store'."),
    ],
)
def test_what_cannot_be_served(subject: str, message: str) -> None:
    """One line, and no traceback."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "streamproof.host", subject],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_store_logs_reaches_the_changelog(opened: Any) -> None:
    """What leaves the cache at a commit, at a close, or to make room; restored records do not."""
    store, context = opened(python_host("rocksdb-stack"))
    logged: list[tuple[str, bytes, bytes | None, int]] = []
    context.changelog = lambda *record: logged.append(record)
    context.record_metadata, context.record_timestamp = RecordMetadata("in", 0, 7), 70
    store.put(b"a", b"1")
    store.delete(b"b")
    assert logged == []
    store.commit({TopicPartition("streamproof-store-changelog", 0): 1})
    assert sorted(logged) == [(store.name, b"a", b"1", 70), (store.name, b"b", None, 70)]
    store.restore([ChangelogRecord(b"c", b"2", 2)])
    store.put(b"d", b"x" * 10_000)
    assert [key for _, key, *_ in logged[2:]] == [b"d"]
    store.put(b"e", b"3")
    store.close()
    assert [key for _, key, *_ in logged[3:]] == [b"e"]


def test_values_with_timestamps(opened: Any) -> None:
    """In the store, in a transaction of it, and in a view."""
    store, context = opened(python_host("rocksdb-timestamped-transactional"))
    assert store.capabilities.timestamped
    store.put_with_timestamp(b"a", b"1", 10)
    assert store.put_if_absent_with_timestamp(b"a", b"2", 20) == ValueAndTimestamp(b"1", 10)
    timed = ValueAndTimestamp(b"", 30)
    store.put_all_with_timestamp([(b"b", timed), (b"c", timed), (b"c", None)])
    store.put(b"d", b"4")
    assert list(store.range_with_timestamp(b"b", None)) == [
        (b"b", timed),
        (b"d", ValueAndTimestamp(b"4", -1)),
    ]
    assert store.delete_with_timestamp(b"b") == timed
    assert store.get_with_timestamp(b"b") is None
    view = store.read_only(IsolationLevel.READ_COMMITTED)
    assert list(view.all_with_timestamp()) == []
    store.commit({P0: 1})
    assert view.get_with_timestamp(b"a") == (b"1", 10)
    transaction = store.new_transaction()
    transaction.put_with_timestamp(b"a", b"5", 50)
    assert transaction.get_with_timestamp(b"a") == (b"5", 50)
    transaction.close()
    (restore,) = context.restore_callbacks.values()
    restore([ChangelogRecord(b"e", b"6", 2, 60)])
    assert [key for key, _ in store.all_with_timestamp()] == [b"a", b"d", b"e"]
    assert store.get_with_timestamp(b"e") == (b"6", 60)


def test_a_store_without_timestamps_refuses_them(opened: Any) -> None:
    """Its host has no such method."""
    store, _ = opened(command("small_host.py"))
    with pytest.raises(UnsupportedOperationError):
        store.get_with_timestamp(b"a")


def test_threads_share_a_host(opened: Any) -> None:
    """Each gets the answers to its own requests."""
    store, _ = opened(python_host("in-memory"))
    keys = [b"%d" % number for number in range(200)]
    store.put_all([(key, key) for key in keys])
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda _: [store.get(key) for key in keys], range(4))
        assert list(found) == [keys] * 4


def test_explicit_transactions(opened: Any) -> None:
    """Each has its writes for itself, until it is committed or rolled back."""
    store, _ = opened(python_host("rocksdb-transactional"))
    assert store.capabilities.explicit_transactions
    transaction = store.new_transaction()
    transaction.put(b"a", b"1")
    assert transaction.get(b"a") == b"1"
    assert transaction.is_open
    assert store.get(b"a") is None
    transaction.commit({P0: 3})
    assert (store.get(b"a"), store.committed_offset(P0)) == (b"1", 3)
    assert not transaction.is_open
    other = store.new_transaction()
    other.put(b"b", b"2")
    other.close()
    other.close()
    assert store.get(b"b") is None
