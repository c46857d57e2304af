"""What is shown of a moment, where the walks of the small run do not come."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType
from small_runs import CHANGELOG, THREAD, told

from streamproof.scenarios.state import tables as views

STORE = {"task": "0_0", "partition": CHANGELOG}
KILLED: tuple[str, str, dict[str, Any]] = ("instance.crashed", "instance-0", {})


def shown(view: RenderableType) -> str:
    """A view at 80 columns."""
    file = StringIO()
    Console(file=file, width=80).print(view)
    return file.getvalue()


def test_a_process_that_holds_its_work() -> None:
    """It is up."""
    assert "up, holds its work" in shown(views.who(told(("instance.paused", "instance-0", {}))))
    assert "down" in shown(views.who(told(KILLED)))


def test_a_task_that_waits() -> None:
    """For each input, with the reason."""
    waits = ("task.waiting", THREAD, {"task": "0_0", "waiting": {"in-0": "idling"}})
    text = shown(views.task_of(told(waits), "0_0"))
    assert "RUNNING since 0.200 s" in text
    assert "in-0: processed up to 2, committed 2, end 3" in text
    assert "waits for in-0: idling" in text


def test_a_task_that_is_open_nowhere() -> None:
    """Its stores are there still."""
    text = shown(views.task_of(told(KILLED), "0_0"))
    assert "Task 0_0 is open nowhere." in text
    assert "counts   instance-0   closed      1        1           1         1" in text


def test_a_store_that_has_lost_flushes() -> None:
    """What is left is not known."""
    lost = told(KILLED, ("disk.power_lost", "instance-0", {"flushes": 1}))
    text = shown(views.store_of(lost, "counts"))
    assert "the power has failed: the remaining rows show when it is opened again" in text


@pytest.mark.parametrize("name", ["0_0", "counts", CHANGELOG])
def test_a_store_by_each_of_its_names(name: str) -> None:
    """A staged row, what is beneath it, and what was committed last."""
    text = shown(views.store_of(told(), name))
    assert "key-0   3       staged   2 on the disk   2" in text


def test_many_rows_are_counted() -> None:
    """Twenty of them are shown."""
    puts = [
        ("store.put", THREAD, {**STORE, "key": f"k{number:02}".encode(), "value": b"1"})
        for number in range(25)
    ]
    text = shown(views.store_of(told(*puts), "counts"))
    assert "k19" in text
    assert "k20" not in text
    assert "and 6 more rows" in text


def test_records_that_are_gone() -> None:
    """They are shown all the same, and as what they are."""
    compacted = ("log.compacted", "brokers", {"partition": "in-0", "offset": 3})
    assert shown(views.log_of(told(compacted), "in-0")).count("compacted away") == 2
    deleted = ("log.deleted", "brokers", {"partition": "in-0", "offset": 1})
    assert shown(views.log_of(told(deleted), "in-0")).count("deleted") == 1


def test_an_open_transaction() -> None:
    """It is part of the log that it is in, and its offsets are told beside the committed ones."""
    text = shown(views.log_of(told(), CHANGELOG))
    assert "count-instance-0-0: open from 3 on" in text
    assert "last stable offset 3" in text
    added = ("offsets.added", "brokers", {"producer": 7, "offsets": {"in-0": 3}})
    assert "3 by count-instance-0-0, open" in shown(views.offsets(told(added)))
