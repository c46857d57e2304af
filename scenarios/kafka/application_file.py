"""The file that describes an application of a user's own, for ``streamproof verify app.toml``.

``docs/verify-your-application.md`` explains every key.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from streamproof.errors import UsageError
from streamproof.scenarios.scenario import Record
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, require_release

__all__ = [
    "BOOTSTRAP",
    "INSTANCE",
    "PAGE",
    "STATE",
    "ApplicationFile",
    "Fault",
    "Input",
    "Output",
    "UserApplication",
    "read_application",
]

PAGE = "docs/verify-your-application.md"
"""The page with all keys, for errors."""

Fault = Literal["kill", "stop", "pause"]
"""What may go wrong with an instance."""

BOOTSTRAP, STATE, INSTANCE = "{bootstrap}", "{state}", "{instance}"
"""The places in a command that the address of the broker, the state directory and the name of the
instance go to."""

Count = Annotated[int, Meta(ge=1)]


class _Table(Struct, forbid_unknown_fields=True, kw_only=True):
    """A table of the file, in which every key is known."""


class UserApplication(_Table):
    """How an instance is started, and what may go wrong.

    Attributes:
        command: the program and the arguments that start one instance.
        guarantee: what the application claims.
        build: a command that is run once before.
        environment: variables of the environment of an instance.
        kafka: the release of the broker.
        instances: how many instances run.
        faults: what may go wrong.
        starts_s: how many seconds an instance may take until Kafka Streams runs, while it has a
            processor.
        rests_s: how many seconds the application may be silent before it has processed all its
            input in the end; it may take five times as long in all. The default is longer than a
            broker keeps a transaction open whose producer was killed: ``transaction.timeout.ms``
            is 60 s, and the broker looks for such transactions every 10 s.
    """

    command: Annotated[list[str], Meta(min_length=1)]
    guarantee: Literal["exactly-once", "at-least-once"]
    build: list[str] = []
    environment: dict[str, str] = {}
    kafka: str = DEFAULT_RELEASE
    instances: Annotated[int, Meta(ge=1, le=8)] = 1
    faults: Annotated[tuple[Fault, ...], Meta(min_length=1)] = ("kill", "stop")
    starts_s: Annotated[float, Meta(gt=0)] = 60.0
    rests_s: Annotated[float, Meta(gt=0)] = 90.0


class Generated(_Table):
    """Records that a seed draws.

    Attributes:
        records: how many.
        keys: the keys that are drawn from.
        value: each value; ``{number}`` is the number of the record, ``{random}`` is from 0 to 99.
    """

    records: Annotated[int, Meta(ge=1, le=100_000)]
    keys: Annotated[list[str], Meta(min_length=1)]
    value: str = "{random}"


class _Topic(_Table):
    """A topic.

    Attributes:
        topic: its name.
        partitions: how many it has.
    """

    topic: str
    partitions: Count = 1


class Input(_Topic):
    """An input, and what is sent to it.

    Attributes:
        records: the records.
        file: a file with the records instead: a line of JSON for each.
        generate: records that the seed draws instead.
        global_table: whether every instance reads all of it, so that no offsets are committed.
    """

    records: list[Record] = []
    file: str = ""
    generate: Generated | None = None
    global_table: bool = False


class Output(_Topic):
    """An output, and what is promised of it.

    Attributes:
        ordered: whether the records of a key always have the same order.
        table: whether the last record of a key replaces all others.
    """

    ordered: bool = True
    table: bool = False


class State(_Table):
    """What is judged of the stores.

    Attributes:
        compare: whether the content of the changelogs is compared; by default, under exactly-once.
        leave_out: the stores that are not compared.
    """

    compare: bool | None = None
    leave_out: list[str] = []


class _File(_Table):
    application: UserApplication
    inputs: Annotated[list[Input], Meta(min_length=1)]
    outputs: list[Output] = []
    state: State = field(default_factory=State)


class ApplicationFile(Struct, frozen=True, kw_only=True):
    """An application of a user's own.

    Attributes:
        path: the file that describes it.
        application: how an instance is started, and what may go wrong.
        inputs: its inputs.
        outputs: the outputs that are judged.
        compares_state: whether the content of the changelogs is judged.
        state: which stores are not judged.
    """

    path: Path
    application: UserApplication
    inputs: Sequence[Input]
    outputs: Sequence[Output]
    compares_state: bool
    state: State

    @property
    def directory(self) -> Path:
        """The current directory of its commands: that of the file."""
        return self.path.parent

    @property
    def exactly_once(self) -> bool:
        """Whether it claims exactly-once."""
        return self.application.guarantee == "exactly-once"

    @property
    def topics(self) -> dict[str, int]:
        """The topics that have to be there, each with its number of partitions."""
        every: list[_Topic] = [*self.inputs, *self.outputs]
        return {each.topic: each.partitions for each in every}

    def records(self, seed: int, first_ms: int) -> list[tuple[str, Record]]:
        """All input in the order in which it is sent, with topics, partitions and timestamps.

        Args:
            seed: draws the records that are generated.
            first_ms: the timestamp of the first record, unless it has one. Each later record has
                one more. A broker closes a segment that has times far from its own, so this should
                be near the present.

        Raises:
            UsageError: a file of records cannot be read.
        """
        random = Random(seed)
        streams = [(each, iter(self._of(each, random))) for each in self.inputs]
        found: list[tuple[str, Record]] = []
        # The inputs take turns, as they would in life.
        while streams:
            for each, records in list(streams):
                record = next(records, None)
                if record is None:
                    streams.remove((each, records))
                    continue
                partition, timestamp = record.partition, record.timestamp
                if partition is None:
                    partition = _default_partition(record.key.encode(), each.partitions)
                if timestamp is None:
                    timestamp = first_ms + len(found)
                whole = msgspec.structs.replace(record, partition=partition, timestamp=timestamp)
                found.append((each.topic, whole))
        return found

    def _of(self, given: Input, random: Random) -> Iterator[Record]:
        if given.generate is not None:
            for number in range(given.generate.records):
                value = given.generate.value.replace("{number}", str(number))
                value = value.replace("{random}", str(random.randrange(100)))
                yield Record(key=random.choice(given.generate.keys), value=value)
        elif given.file:
            yield from self._of_file(given)
        else:
            yield from given.records

    def _of_file(self, given: Input) -> Iterator[Record]:
        path = self.directory / given.file
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise UsageError(
                f"{self.path}: the records of {given.topic} cannot be read from {path}: "
                f"{error.strerror}."
            ) from error
        for number, line in enumerate(lines, 1):
            try:
                yield msgspec.json.decode(line, type=Record)
            except msgspec.MsgspecError as error:
                raise UsageError(
                    f"{path}: line {number} is no record: {error}. Each line is as "
                    '{"key": "a", "value": "1"}.'
                ) from error


def read_application(path: Path) -> ApplicationFile:
    """Read the file of an application.

    Raises:
        UsageError: it cannot be read, has an unknown key, or asks for what is impossible.
    """
    try:
        read = msgspec.toml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} does not describe an application: {error}. {PAGE} has all keys."
        ) from error
    compares = read.state.compare
    exactly_once = read.application.guarantee == "exactly-once"
    found = ApplicationFile(
        path=path.resolve(),
        application=read.application,
        inputs=read.inputs,
        outputs=read.outputs,
        compares_state=exactly_once if compares is None else compares,
        state=read.state,
    )
    for problem in (*_problems_of_commands(found), *_problems_of_topics(found)):
        raise UsageError(f"{path}: {problem}")
    require_release(read.application.kafka)
    return found


def _problems_of_commands(file: ApplicationFile) -> Iterator[str]:
    """What is impossible in the commands of a file, in words."""
    application = file.application
    given = [*application.command, *application.environment.values()]
    for place, use in (
        (BOOTSTRAP, "the address of the broker goes"),
        (STATE, "the state directory goes, which every instance must have for itself"),
    ):
        if not any(place in each for each in given):
            yield (
                f"neither the command nor the environment has {place}, the place where {use}. "
                "Let the application take it from there."
            )
    for command in filter(None, (application.build, application.command)):
        if shutil.which(command[0]) is None and not (file.directory / command[0]).is_file():
            yield (
                f"the program {command[0]!r} is not installed. "
                f"Install it, or name another one (the whole command: {json.dumps(command)})."
            )


def _problems_of_topics(file: ApplicationFile) -> Iterator[str]:
    """What is impossible in the topics of a file, in words."""
    every: list[_Topic] = [*file.inputs, *file.outputs]
    named = Counter(each.topic for each in every)
    twice = next((name for name, number in named.items() if number > 1), None)
    if twice is not None:
        yield f"the topic {twice} is there twice. Name each topic once, as an input or an output."
    for each in file.inputs:
        ways = [bool(each.records), bool(each.file), each.generate is not None]
        if sum(ways) != 1:
            yield f"the input {each.topic} needs one of records, file and generate."
        for record in each.records:
            if record.partition is not None and record.partition >= each.partitions:
                yield f"the input {each.topic} has no partition {record.partition}."
    if not file.outputs and not file.compares_state:
        yield "nothing is judged: name an output, or let the state be compared."


def _default_partition(key: bytes, partitions: int) -> int:
    """The partition that Kafka's clients choose for a key (Utils#murmur2, toPositive)."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) - len(key) % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return ((h ^ (h >> 15)) & 0x7FFFFFFF) % partitions
