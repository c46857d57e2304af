"""Kafka's own classes in a JVM, which answer histories of decisions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Any, Self, cast

from streamproof.stores.jvm.cached_builds import built_once
from streamproof.stores.jvm.java_tools import compile_java, java_command, require_java
from streamproof.stores.jvm.kafka_jars import class_path_of

__all__ = ["KafkaClasses"]

JAVA = Path(__file__).parent / "java"

MAIN = "streamproof.decisions.Decisions"

AT_A_TIME = 500
"""How many histories are drawn before their answers are read."""

BETTER_COMPILER = "-XX:TieredStopAtLevel=4"
"""A JVM that answers many histories is worth its better compiler."""


class KafkaClasses:
    """A JVM with Kafka's classes, and our sources that ask them.

    Internal classes move between releases, so these sources fit one release.

    Raises:
        UsageError: Java or Maven is missing, or Maven Central cannot be reached.
    """

    release = "4.3.1"

    def __init__(self) -> None:
        built = _built(self.release)
        jars = [built / "decisions.jar", *class_path_of(self.release, built)]
        self._process = subprocess.Popen(
            [*java_command(jars, BETTER_COMPILER, *_temporary_files()), MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the JVM, which removes its temporary files; after an error, at once."""
        if error is None:
            cast(IO[str], self._process.stdin).close()
        else:
            # The JVM may wait until somebody reads its answers.
            self._process.terminate()
        self._process.wait(timeout=60)
        cast(IO[str], self._process.stdout).close()

    def ask(self, histories: Iterable[Mapping[str, Any]]) -> Iterable[Any]:
        """The answer to each history, in order.

        Raises:
            RuntimeError: the JVM has died.
        """
        answers, rest = cast(IO[str], self._process.stdout), iter(histories)
        while some := list(islice(rest, AT_A_TIME)):
            # Answers are read meanwhile: both pipes are short.
            sender = Thread(target=self._send, args=[some], daemon=True)
            sender.start()
            for _ in some:
                line = answers.readline()
                if not line:
                    raise RuntimeError("The JVM has died; its errors are above.")
                yield json.loads(line)
            sender.join()

    def _send(self, histories: list[Mapping[str, Any]]) -> None:
        requests = cast(IO[str], self._process.stdin)
        # If the JVM is ended meanwhile, its answers are missed where they are read.
        with suppress(BrokenPipeError):
            for history in histories:
                requests.write(json.dumps(history) + "\n")
            requests.flush()


def _temporary_files() -> list[str]:
    """Tasks are opened in files, which are written for certain: that takes long on a disk."""
    memory = "/dev/shm"  # noqa: S108 - the JVM makes a private directory in it.
    return [f"-Djava.io.tmpdir={memory}"] if os.access(memory, os.W_OK | os.X_OK) else []


def _built(release: str) -> Path:
    """The directory with our compiled sources, which is built unless it is there."""
    compiler = require_java("javac")
    paths = sorted(JAVA.rglob("*.java"))
    sources = {str(path.relative_to(JAVA)): path.read_text("utf-8") for path in paths}

    def make(building: Path) -> None:
        compile_java(sources, class_path_of(release, building), building, "decisions.jar")

    depends_on = [compiler, *sources, *sources.values()]
    return built_once(f"kafka-{release}-decisions", depends_on, make)
