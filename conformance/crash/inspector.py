"""Inspects the state after a crash: a new process opens, reads and restores the store."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import signal
from collections.abc import Sequence
from typing import Any

import msgspec

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash.crash_records import Crashed, Observation
from streamproof.conformance.lab import ChangelogRecord, Lab
from streamproof.conformance.oracle import History, Write, changelog_of, ends_of, partitions_of
from streamproof.conformance.subject_lines import told, traceback_of
from streamproof.conformance.trial import SCAN_LIMIT
from streamproof.conformance.violations import brief
from streamproof.stores.api import TopicPartition
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.host.lending import Lender, hand_over

__all__ = ["BATCH", "Inspector", "how_it_ended"]

BATCH = 24
"""The number of crashed directories that one process inspects."""

REOPEN_EVERY = 4
"""One in this number of restorations is followed by closing and reopening the store. That takes
longer than all the rest, so the other restorations do without."""

RESTORE_BATCH = 3
"""The fewest records in one batch of a restoration. A small number gives several batches."""

MOST_BATCHES = 50
"""The most batches of a restoration: each is a call, which takes long if the store is remote."""


class Inspector:
    """Opens the stores of one subject after crashes and observes what they hold."""

    def __init__(self, run: CheckContext) -> None:
        self._run = run
        self._lender = Lender()
        self._kept: list[Any] = []
        self._death = ""

    def observe(
        self, crashes: Sequence[Crashed], histories: Sequence[History]
    ) -> list[Observation]:
        """Inspect crashed directories in new processes, which have no memory of the stores."""
        observations: list[Observation] = []
        while len(observations) < len(crashes):
            at = len(observations)
            batch = list(zip(crashes[at : at + BATCH], histories[at : at + BATCH], strict=True))
            found = self._observe_in_child(batch)
            if len(found) < len(batch):
                # The process died at one directory, so its death is the observation for that one.
                found.append(Observation(error=self._death))
            observations += found
        return observations

    def _observe_in_child(self, batch: list[tuple[Crashed, History]]) -> list[Observation]:
        target = batch[0][0].directory.parent / "observations"
        pid = self._lender.fork()
        if pid == 0:
            with contextlib.suppress(BaseException), target.open("wb") as file:
                for number, (crashed, history) in enumerate(batch):
                    observation = self._look(crashed, history, reopen=not number % REOPEN_EVERY)
                    line = msgspec.msgpack.encode(observation)
                    file.write(len(line).to_bytes(8, "big") + line)
                    file.flush()
                hand_over(self._lender.channel)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        self._lender.returned(pid)
        call = self._run.status.current()
        during = f" while {call[0]}" if call else ""
        self._death = f"the process ended{during}: {how_it_ended(status)}"
        self._run.status.clear()
        found = []
        if target.is_file():
            data = target.read_bytes()
            while data:
                size = int.from_bytes(data[:8], "big")
                line, data = data[8 : 8 + size], data[8 + size :]
                if len(line) == size:
                    found.append(msgspec.msgpack.decode(line, type=Observation))
        return found

    def _look(self, crashed: Crashed, history: History, *, reopen: bool) -> Observation:
        """Open, read, replay the changelog, commit, read; in a process of its own."""
        lab = self._lab_of(crashed)
        found = Observation()
        stage = "opening"
        try:
            with self._during(stage):
                store = self._open(lab, found)
            # Closing takes as long as all the rest, and the end of the process closes for free.
            self._kept.append(store)
            stage = "reading"
            self._read(store, crashed, history, found)
            stage = "restoring"
            self._replay(lab, store, history, found)
            if reopen:
                found.reopened = True
                with self._during(stage):
                    store.close()
                with self._during(stage):
                    store = lab.rows()
                self._kept.append(store)
            found.restored = self._rows(store, crashed.keys, stage)
            found.restored_offsets = self._offsets(store, history, stage)
        except BaseException as error:
            found.error = f"{stage} the store raised {told(error)}"
            found.traceback = traceback_of(error)
        if self._run.subject.is_remote:
            self._release_hosts()
        return found

    def _during(self, stage: str) -> contextlib.AbstractContextManager[None]:
        """Report one call. Each has its own limit of time, as a stage may have thousands."""
        return self._run.status.operation(f"{stage} the store after the crash")

    def _release_hosts(self) -> None:
        """Close remote stores, because each has a host, and a host can then open the next one."""
        with contextlib.suppress(BaseException):
            for store in self._kept:
                store.close()
        self._kept.clear()

    def _lab_of(self, crashed: Crashed) -> Lab:
        """The lab of a store; stores that share a directory get copies, as one may be wiped."""
        lab = self._run.lab(crashed.directory)
        if crashed.store and lab.subject.shares_directory:
            own = crashed.directory.with_name(f"{crashed.directory.name}-of-{crashed.store}")
            lab = self._run.lab(shutil.copytree(crashed.directory, own))
        return lab.beside(crashed.store) if crashed.store else lab

    def _open(self, lab: Lab, found: Observation) -> Any:
        try:
            return lab.rows()
        except TaskCorruptedError as refusal:
            found.refused = brief(refusal)
            lab.wipe()
            return lab.rows()

    def _read(self, store: Any, crashed: Crashed, history: History, found: Observation) -> None:
        stage = "reading"
        found.offsets = self._offsets(store, history, stage)
        found.content = self._rows(store, crashed.keys, stage)
        if self._run.subject.capabilities.scan:
            with self._during(stage):
                found.scanned = _entries(store)
        if self._run.subject.capabilities.position:
            with self._during(stage):
                offsets = store.position.as_dict()
            found.position = {partition: offset for (_, partition), offset in offsets.items()}

    def _replay(self, lab: Lab, store: Any, history: History, found: Observation) -> None:
        changelog = changelog_of(history)
        offsets = dict(zip(partitions_of(history), found.offsets, strict=True))
        records = _missing(changelog, offsets)
        size = max(RESTORE_BATCH, math.ceil(len(records) / MOST_BATCHES))
        for at in range(0, len(records), size):
            with self._during("restoring"):
                lab.restore(store, records[at : at + size])
        with self._during("restoring"):
            store.commit(ends_of(changelog))

    def _rows(self, store: Any, keys: list[bytes], stage: str) -> dict[bytes, bytes]:
        content = {}
        for key in keys:
            with self._during(stage):
                value = store.get(key)
            if value is not None:
                content[key] = bytes(value)
        return content

    def _offsets(self, store: Any, history: History, stage: str) -> list[int | None]:
        found = []
        for each in partitions_of(history):
            with self._during(stage):
                found.append(store.committed_offset(each))
        return found


def _missing(
    changelog: list[Write], offsets: dict[TopicPartition, int | None]
) -> list[ChangelogRecord]:
    """The records after the committed offset of their partition; all records without one."""
    return [
        write.record()
        for write in changelog
        if write.offset > (-1 if (end := offsets.get(write.partition)) is None else end)
    ]


def how_it_ended(status: int) -> str:
    """How a process ended, from the status of ``os.waitpid``: an exit code or a signal."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _entries(store: Any) -> list[tuple[bytes, bytes]]:
    iterator = store.all()
    some = itertools.islice(iterator, SCAN_LIMIT)
    entries = [(bytes(entry[0]), bytes(entry[1])) for entry in some]
    if hasattr(iterator, "close"):
        iterator.close()
    return entries
