"""The jars of a release of Kafka, from Maven's local repository or from Maven Central."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from streamproof.errors import UsageError

__all__ = [
    "APPLICATION",
    "BROKER",
    "DEFAULT_RELEASE",
    "OLDEST_RELEASE",
    "OLDEST_STREAMS",
    "STREAMS",
    "TRANSACTIONS_IN_STORES",
    "broker_release",
    "class_path_of",
    "release_numbers",
    "require_release",
    "require_tool",
]

DEFAULT_RELEASE = "4.4.0"
"""The release of stores, brokers and instances whose names say none."""

TRANSACTIONS_IN_STORES = "4.4.0"
"""The first release with transactional stores (KIP-892)."""

OLDEST_RELEASE = "3.9.0"
"""The first release that was tried."""

OLDEST_STREAMS = "3.1.0"
"""The first release whose instances can play a scenario, to show bugs that it has."""

MAVEN_TIMEOUT_S = 600.0
"""Maven downloads about 100 MB at the first use of a release."""

LONGEST_REASON = 300
"""The most characters of an error of Maven."""

STREAMS = ("org.apache.kafka:kafka-streams:{release}", "org.slf4j:slf4j-nop:1.7.36")
"""What a store needs. Logging would only cost time."""

BROKER = ("org.apache.kafka:kafka_2.13:{release}", "org.slf4j:slf4j-simple:1.7.36")
"""What a broker needs. Its log goes to its standard error, and tells why it did not come up."""

APPLICATION = (STREAMS[0], BROKER[1])
"""What an application needs, with a log like that of a broker."""

_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamproof</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""

_DEPENDENCY = """    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
    </dependency>"""


def require_release(release: str, oldest: str = OLDEST_RELEASE) -> None:
    """Raise UsageError unless a text is a release of Kafka, and no older one than can be taken."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", release):
        raise UsageError(
            f"{release!r} is no release of Kafka. Give three numbers, as in @{DEFAULT_RELEASE}."
        )
    if release_numbers(release) < release_numbers(oldest):
        use = "be verified" if oldest == OLDEST_RELEASE else "play scenarios"
        raise UsageError(f"Kafka {release} is too old to {use}. Take a release from {oldest} on.")


def broker_release(release: str) -> str:
    """The release of the broker for instances of a release: a new broker serves old instances."""
    is_older = release_numbers(release) < release_numbers(OLDEST_RELEASE)
    return DEFAULT_RELEASE if is_older else release


def release_numbers(release: str) -> list[int]:
    """The numbers of a release, which sort as the releases do."""
    return [int(each) for each in release.split(".")]


def require_tool(name: str, remedy: str) -> str:
    """The path of a program; UsageError with the remedy if it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"Kafka on the JVM needs the program {name!r}. {remedy}")
    return found


def class_path_of(release: str, directory: Path, artifacts: Sequence[str] = STREAMS) -> list[Path]:
    """The jars of some artifacts of Kafka and of what they need.

    Args:
        release: the release of Kafka, as ``4.3.1``.
        directory: where the list of jars is kept; Maven keeps the jars.
        artifacts: the group, name and version of each, with colons between them.

    Raises:
        UsageError: Maven is not installed, or cannot get the jars; the message says why.
    """
    known = directory / "class-path"
    if known.is_file():
        jars = [Path(line) for line in known.read_text("utf-8").splitlines()]
        if all(each.is_file() for each in jars):
            return jars
    maven = require_tool("mvn", "Install Maven 3, for example with: apt-get install maven")
    project = directory / "pom.xml"
    wanted = [_DEPENDENCY.format(*each.format(release=release).split(":")) for each in artifacts]
    project.write_text(_PROJECT.format(dependencies="\n".join(wanted)), "utf-8")
    found = directory / "maven-class-path"
    # Without the option, Maven remembers for a day that it could not get a jar.
    command = [maven, "--quiet", "--batch-mode", "--update-snapshots", "--file", str(project)]
    command += ["dependency:build-classpath", f"-Dmdep.outputFile={found}"]
    # Without the option each JVM leaves a directory among the temporary files.
    options = f"{os.environ.get('MAVEN_OPTS', '')} -XX:-UsePerfData"
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=MAVEN_TIMEOUT_S,
        env={**os.environ, "MAVEN_OPTS": options},
    )
    if done.returncode:
        raise UsageError(
            f"Maven cannot get the jars of Kafka {release}: {_first_error(done.stdout)}. Check "
            "that the release exists and that Maven reaches Maven Central."
        )
    jars = [Path(each) for each in found.read_text("utf-8").strip().split(":")]
    known.write_text("\n".join(map(str, jars)), "utf-8")
    return jars


def _first_error(printed: str) -> str:
    """The first error that Maven printed, in one short line."""
    for line in printed.splitlines():
        # A code of the terminal may stand before the mark.
        text = line.partition("[ERROR]")[2].partition(" -> [Help")[0].strip()
        if text:
            return text.rstrip(".")[:LONGEST_REASON]
    return "it did not say why"
