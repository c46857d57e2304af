"""A call hangs only if it takes too long while it has a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamproof import patience
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.settings import Settings
from streamproof.patience import Patience, processor_waits

SPINS = (
    "import os; os.sched_setaffinity(0, {int(os.environ['CPU'])}); print(flush=True)\nwhile 1: 0"
)

SLOW = """
import time

from streamproof.stores.memory import InMemoryKeyValueStore


class SlowStore(InMemoryKeyValueStore):
    def put(self, key, value):
        time.sleep(1.5)
        super().put(key, value)


def make():
    return SlowStore("store")
"""


@pytest.fixture
def spinning() -> Iterator[list[int]]:
    """Two processes that want the same processor all the time."""
    environment = {**os.environ, "CPU": str(min(os.sched_getaffinity(0)))}
    processes = [
        subprocess.Popen([sys.executable, "-c", SPINS], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for each in processes:
        assert each.stdout is not None
        each.stdout.readline()
    yield [each.pid for each in processes]
    for each in processes:
        each.kill()
        each.communicate()


def test_who_waits_for_a_processor_is_counted(spinning: list[int]) -> None:
    """Whoever sleeps does not wait for one."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        before = processor_waits([*spinning, sleeper.pid])
        time.sleep(1)
        after = processor_waits([*spinning, sleeper.pid])
        sleeper.kill()
    waited = {thread: after[thread] - wait for thread, wait in before.items()}
    assert sum(waited[each] for each in spinning) > 0.5
    assert waited[sleeper.pid] < 0.25


def test_waits_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the thread that waited longest, from the middle of the limit on."""
    waits = {1: 100.0, 2: 5.0}
    monkeypatch.setattr(patience, "processor_waits", lambda _: dict(waits))
    limit = Patience(10.0)
    assert not limit.is_over(4.0, list)
    assert not limit.is_over(6.0, list)
    waits |= {1: 101.0, 2: 9.0, 3: 2.0}
    # One more thread has come, and the second one has waited for 4 s.
    assert not limit.is_over(13.9, list)
    assert limit.is_over(14.1, list)
    # The next call is another one.
    assert not limit.is_over(0.1, list)
    assert not limit.is_over(9.9, list)
    assert limit.is_over(10.1, list)


def test_waits_that_are_known_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "processor_waits", lambda _: {7: 3.0})
    limit = Patience(10.0, waits={})
    assert not limit.is_over(1.0, list)
    assert not limit.is_over(12.9, list)
    assert limit.is_over(13.1, list)


@pytest.mark.parametrize(("each_s", "error"), [(0.0, "did not return within 1 s"), (1.0, "")])
def test_a_busy_machine_is_not_the_fault_of_the_store(
    each_s: float, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call hangs if it had a processor, and does not if it had to wait for one."""
    asked = iter(range(1_000_000))
    monkeypatch.setattr(patience, "processor_waits", lambda _: {1: next(asked) * each_s})
    file, found = tmp_path / "slow_store.py", list[CheckOutcome]()
    file.write_text(SLOW)
    subject = f"{file}:make"
    with Engine(Settings(operation_timeout_s=1.0), tmp_path, jobs=1) as engine:
        engine.load([subject])
        engine.run(
            [(subject, load_checks()["kv.put_then_get"])], lambda _, each: found.append(each)
        )
    (outcome,) = found
    assert error in outcome.subject_error
    assert bool(outcome.evidence.exercised) == (not error)
