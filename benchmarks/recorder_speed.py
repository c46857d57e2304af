"""How much slower a recorded application is than the same one without the recorder, in one run.

Run it from anywhere: ``python benchmarks/recorder_speed.py``. It needs a JDK and Maven, and takes
about two minutes. A real broker and a real instance count the same records with and without the
recorder, in turns. The broker gives each output the time when it is written, so the time of a run
is that between the first and the last output; neither JVMs that start nor clients count.
"""

from __future__ import annotations

import statistics
import time

from streamproof.scenarios.kafka.application import Application, RealRecord
from streamproof.scenarios.kafka.cluster import Broker, start_broker
from streamproof.scenarios.kafka.processes import Processes
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

RECORDS = 100_000
KEYS = 1_000
ROUNDS = 3

POLL_S = 3.0
GIVE_UP_S = 300.0

SETTINGS = {"log.message.timestamp.type": "LogAppendTime"}

INPUT = [
    RealRecord(-1, b"key-%04d" % (number % KEYS), b"%d" % number, number)
    for number in range(RECORDS)
]


def records_a_second(broker: Broker, turn: str, *, recorded: bool) -> float:
    """How many records an instance counts in a second."""
    with Processes() as processes:
        recording = processes.directory / "recording" if recorded else None
        if recording is not None:
            recording.mkdir()
        application = Application(processes, broker, "count", recording, prefix=f"{turn}.")
        application.create({f"{turn}.in": 1, f"{turn}.out": 1})
        application.send(f"{turn}.in", 0, INPUT)
        application.start("instance-0", {"processing.guarantee": "exactly_once_v2"})
        times = awaited_times(application, f"{turn}.out")
    return RECORDS / (max(times) - min(times)) * 1000


def awaited_times(application: Application, topic: str) -> list[int]:
    """When each output was written, in milliseconds, once all are there."""
    deadline = time.monotonic() + GIVE_UP_S
    while time.monotonic() < deadline:
        found = application.read([topic]).get(f"{topic}-0", [])
        if len(found) >= RECORDS:
            return [each.timestamp for each in found]
        time.sleep(POLL_S)
    raise SystemExit(f"The application did not count {RECORDS:,} records in {GIVE_UP_S:g} s.")


def main() -> None:
    """Measure, and print the figures."""
    plain: list[float] = []
    recorded: list[float] = []
    with Processes() as processes:
        broker = start_broker(processes, DEFAULT_RELEASE, settings=SETTINGS)
        for turn in range(ROUNDS):
            plain.append(records_a_second(broker, f"p{turn}", recorded=False))
            recorded.append(records_a_second(broker, f"r{turn}", recorded=True))
    without, beside = statistics.median(plain), statistics.median(recorded)
    print(f"without the recorder: {without:,.0f} records a second")
    print(f"with the recorder:    {beside:,.0f} records a second, {beside / without:.2f} of that")


if __name__ == "__main__":
    main()
