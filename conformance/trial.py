"""A trial of a subject: it times and records every call, and checks the types of the answers.

Checks use a :class:`Trial`. A check names the promise under test (``claim``), calls the store, and
compares the answers (``expect``). The recorded calls become the program in the report.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.failure_shapes import (
    answers,
    asked,
    difference,
    shape_of_error,
    shape_of_words,
)
from streamproof.conformance.lab import ChangelogRecord, Lab
from streamproof.conformance.program_text import render, render_program
from streamproof.conformance.violations import (
    SubjectRaised,
    Violation,
    brief,
    violation_of,
)
from streamproof.stores.api import NO_TIMESTAMP, IsolationLevel
from streamproof.stores.metrics import Level
from streamproof.stores.windows import Window, Windowed

__all__ = ["SCAN_LIMIT", "Entry", "Handle", "Trial"]

_ASSIGNMENT = re.compile(
    r"\w+ = |#|lab\.(processing|idle|measure|restore|catch_up|wipe|open_and_close"
    r"|watch_files|look_at_files)\("
)
"""The lines of a program that have no value to print."""

Entry = tuple[Any, bytes]
"""An entry of a scan: bytes, the start of a window, or a windowed key; and the value."""

SCAN_LIMIT = 1_000_000
"""The number of entries after which a scan counts as endless."""

_RETURNS: dict[str, tuple[type, ...]] = {
    "get": (bytes, type(None)),
    "fetch": (bytes, type(None)),
    "fetch_session": (bytes, type(None)),
    "delete": (bytes, type(None)),
    "put_if_absent": (bytes, type(None)),
    "committed_offset": (int, type(None)),
    "approximate_num_entries": (int,),
    "approximate_num_uncommitted_entries": (int,),
    "approximate_num_uncommitted_bytes": (int,),
}

_ATTRIBUTES: dict[str, type] = {
    "name": str,
    "is_open": bool,
    "persistent": bool,
    "manages_offsets": bool,
    "dropped_records": int,
    "prepared": bool,
}


def _printed(line: str) -> str:
    """A line of a program, which shows its value if it has one."""
    return line if _ASSIGNMENT.match(line) else f"print({line})"


class Trial:
    """One task directory, the stores opened in it, and the calls made on them.

    Attributes:
        run: the check of the trial.
        lab: the lab with the directory and the subject.
    """

    def __init__(self, run: CheckContext, lab: Lab) -> None:
        self.run = run
        self.lab = lab
        self.lines: list[str] = []
        self.requirement = run.check.requirements[0]
        self.tried = ""
        self._labels: dict[str, int] = {}
        self._open: list[Any] = []
        self.reached: set[str] = set()
        self._last_call = "open"
        # The index of the first line whose answer is not compared yet.
        self._compared = 0

    # The promise under test.

    def claim(self, requirement: str, tried: str) -> None:
        """Make ``requirement`` the promise under test; ``tried`` describes the test in words."""
        self.requirement = requirement
        self.tried = tried

    def expect(self, found: Any, expected: Any) -> None:
        """Compare an answer of the subject with the answer that the promise demands."""
        if found != expected or type(found) is not type(expected):
            how = difference(expected, found, "\n".join(self.lines[:-1]))
            self.fail(brief(render(expected)), brief(render(found)), how)
        self.held()

    def expect_that(self, holds: bool, expected: str, found: Any) -> None:
        """Demand a condition; ``expected`` says it in words."""
        if not holds:
            self.fail(expected, brief(found if isinstance(found, str) else render(found)))
        self.held()

    def expect_raises(self, call: Callable[[], Any], expected: str) -> None:
        """Demand that a call on the subject raises."""
        try:
            answer = call()
        except SubjectRaised:
            if self.lines:
                self.lines[-1] = f"# {self.lines[-1]} raises, as it must."
            self.held()
        else:
            self.fail(expected, f"no exception; it returned {brief(render(answer))}", "accepted")

    def held(self) -> None:
        """Record that the promise was tested and held."""
        self.run.evidence.exercised.add(self.requirement)
        self._compared = len(self.lines)

    def fail(self, expected: str, found: str, how: str = "") -> NoReturn:
        """Raise the violation of the promise under test.

        ``how`` is the first half of its shape, if it is known better than from the words.
        """
        shape = f"{how}-{asked(self.last_line)}" if how else shape_of_words(expected, found)
        self.run.noticed(self.requirement)
        raise self._violation(expected, found, shape)

    @property
    def last_line(self) -> str:
        """The last line of the program; empty at the beginning."""
        return self.lines[-1] if self.lines else ""

    def note_call(self, method: str, answer: str) -> None:
        """Record a pair of calls in a row, with the kind of the second answer."""
        name = f"{self._last_call}>{method}:{answer}"
        self._last_call = method
        self.reached.add(name)
        self.run.evidence.reached.add(name)

    def _violation(self, expected: str, found: str, shape: str) -> Violation:
        lines = list(self.lines)
        if lines:
            # Every answer since the last comparison may belong to the finding, so all are printed.
            first = len(lines) if shape.startswith("raised-") else self._compared
            for number in range(first, len(lines) - 1):
                if answers(lines[number]):
                    lines[number] = _printed(lines[number])
            comment = f"expected {expected}, found {found}"
            comment = comment if len(comment) <= 160 else comment[:160] + "…"
            lines[-1] = f"{_printed(lines[-1])}  # {comment}"
        program = render_program(self.run.subject.name, self.run.settings.guarantee, lines)
        return violation_of(self.requirement, shape)(self.tried, expected, found, program)

    # Stores.

    def open_store(self) -> Handle:
        """Make a store and open it in the task directory, without a key-value view."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.open()")
        with self.watching(f"{label} = open()"):
            raw = self.lab.open()
        self._open.append(raw)
        return Handle(self, raw, label)

    def reopen_store(self, store: Handle) -> Handle:
        """Close a store and open a new one in the same directory, as ``open_store`` does."""
        store.close()
        return self.open_store()

    def open(self, directory: str = "") -> Handle:
        """Make a store and open it in the task directory, or in one beside it.

        A window or session store is seen as a key-value store.
        """
        label = self.label_for("store")
        lab = self.lab
        if directory:
            lab = Lab(
                lab.subject, guarantee=lab.guarantee, directory=lab.directory.parent / directory
            )
            lab.directory.mkdir(parents=True, exist_ok=True)
            self.lines.append(f"{label} = Lab({lab.subject.name!r}).{lab.subject.opener}()")
        else:
            self.lines.append(f"{label} = lab.{lab.subject.opener}()")
        with self.watching(f"{label} = open()"):
            raw = lab.rows()
        self._open.append(raw)
        return Handle(self, raw, label)

    def open_other_task(self, task_id: str) -> Handle:
        """Make a store of another task of the thread, which shares the registry of metrics."""
        label = self.label_for("store")
        opener = self.lab.subject.opener
        self.lines.append(f"{label} = lab.other_task({task_id!r}).{opener}()")
        with self.watching(f"{label} = open()"):
            raw = self.lab.other_task(task_id).rows()
        self._open.append(raw)
        return Handle(self, raw, label)

    def make(self) -> Handle:
        """Make a store without opening it."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.subject.unopened()")
        with self.watching("factory()"):
            raw = self.lab.subject.unopened()
        return Handle(self, raw, label)

    def reopen(self, store: Handle) -> Handle:
        """Close a store and open a new one in the same directory."""
        store.close()
        return self.open()

    def open_older(self) -> Handle:
        """Open the store that wrote the older format, in the same directory."""
        label = self.label_for("older")
        self.lines.append(f"{label} = lab.open_older()")
        with self.watching(f"{label} = open_older()"):
            raw = self.lab.open_older()
        self._open.append(raw)
        return Handle(self, raw, label)

    def open_preparing(self) -> Handle:
        """Open the store while its upgrade in place is being prepared."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.open_preparing()")
        with self.watching(f"{label} = open_preparing()"):
            raw = self.lab.open_preparing()
        self._open.append(raw)
        return Handle(self, raw, label)

    def open_before_downgrade(self) -> Handle:
        """Open the store so that closing it leaves files for the store of the older format."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.open_before_downgrade()")
        with self.watching(f"{label} = open_before_downgrade()"):
            raw = self.lab.open_before_downgrade()
        self._open.append(raw)
        return Handle(self, raw, label)

    def catch_up(self, store: Handle, changelog: list[ChangelogRecord]) -> None:
        """Replay the changelog after the committed offset, and commit, as the runtime does."""
        self.lines.append(f"lab.catch_up({store.label}, {render(changelog)})")
        with self.watching("catch_up(…)"):
            self.lab.catch_up(store.raw, changelog)

    def restoring(
        self, store: Handle, start: int, end: int, *, listener_fails: bool = False
    ) -> Handle:
        """A restoration with a listener, which notes its calls in ``lab.told``."""
        label = self.label_for("restoration")
        option = ", listener_fails=True" if listener_fails else ""
        self.lines.append(f"{label} = lab.restoring({store.label}, {start}, {end}{option})")
        raw = self.lab.restoring(store.raw, start, end, listener_fails=listener_fails)
        return Handle(self, raw, label)

    def logged(self) -> list[tuple[bytes, bytes | None]]:
        """The keys and values that stores sent to the changelog."""
        self.lines.append("[(each.key, each.value) for each in lab.logged]")
        return [(each.key, each.value) for each in self.lab.logged]

    def told(self) -> list[Any]:
        """The calls of restore listeners since the last call of this method."""
        self.lines.append("lab.told")
        told, self.lab.told[:] = list(self.lab.told), []
        return told

    def restore(self, store: Handle, records: list[ChangelogRecord]) -> None:
        """Apply a batch of changelog records, as the runtime does."""
        self.lines.append(f"lab.restore({store.label}, {render(records)})")
        with self.watching("restore(…)"):
            self.lab.restore(store.raw, records)

    def processing(
        self, offset: int, *, topic: str = "input", partition: int = 0, timestamp: int = -1
    ) -> None:
        """Tell the store that an input record is being processed."""
        arguments = f"{topic!r}, {partition}, {offset}"
        if timestamp != NO_TIMESTAMP:
            arguments += f", timestamp={timestamp}"
        self.lines.append(f"lab.processing({arguments})")
        self.lab.processing(topic, partition, offset, timestamp)

    def measure(self, level: Level) -> None:
        """Give the stores that are opened from now on a registry of metrics."""
        self.lines.append(f"lab.measure({level!r})")
        self.lab.measure(level)

    def idle(self) -> None:
        """Tell the store that no input record is being processed."""
        self.lines.append("lab.idle()")
        self.lab.idle()

    def note(self, line: str) -> None:
        """Add a line to the program that is not a call on the subject."""
        self.lines.append(line)

    def close_all(self) -> None:
        """Close the open stores, and ignore errors: closing is not under test here."""
        for raw in reversed(self._open):
            with contextlib.suppress(BaseException), self.run.status.operation("close()"):
                raw.close()
        self._open.clear()

    def label_for(self, kind: str) -> str:
        """An unused variable name."""
        number = self._labels.get(kind, 0) + 1
        self._labels[kind] = number
        return kind if number == 1 else f"{kind}{number}"

    @contextlib.contextmanager
    def watching(self, call: str) -> Iterator[None]:
        """Count and time a call, and turn an exception of the subject into SubjectRaised."""
        self.run.evidence.operations += 1
        with self.run.status.operation(call):
            try:
                yield
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException as error:
                # A binding may panic with something that is not an Exception.
                shape = shape_of_error(error, self.last_line)
                violation = self._violation("no exception", brief(error), shape)
                raise SubjectRaised(f"{call} raised {brief(error)}", violation) from error


class Handle:
    """A store, a transaction or a view under observation.

    Any method of the subject can be called on it; ``scan`` reads a whole iterator.
    """

    def __init__(self, trial: Trial, raw: Any, label: str) -> None:
        self.trial = trial
        self.raw = raw
        self.label = label

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._call(method, arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the subject that has the same name as a method of a handle."""
        return self._call(method, arguments)

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        call = f"{self.label}.{method}({', '.join(map(render, arguments))})"
        self.trial.lines.append(call)
        with self.trial.watching(brief(call)):
            answer = getattr(self.raw, method)(*arguments)
        self.trial.note_call(method, "none" if answer is None else "some")
        allowed = _RETURNS.get(method)
        if allowed and (not isinstance(answer, allowed) or isinstance(answer, bool)):
            names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)
            self.trial.fail(f"{names} from {method}", f"{type(answer).__name__}")
        return answer

    def read(self, attribute: str) -> Any:
        """Read one of the plain attributes, such as ``name`` or ``dropped_records``."""
        self.trial.lines.append(f"{self.label}.{attribute}")
        with self.trial.watching(f"{self.label}.{attribute}"):
            answer = getattr(self.raw, attribute)
        kind = _ATTRIBUTES[attribute]
        if not isinstance(answer, kind):
            hint = " (is a property missing its decorator?)" if callable(answer) else ""
            self.trial.fail(f"{attribute} to be {kind.__name__}", f"{type(answer).__name__}{hint}")
        return answer

    def position(self) -> dict[tuple[str, int], int]:
        """The input offsets that the content reflects, by topic and partition."""
        self.trial.lines.append(f"{self.label}.position.as_dict()")
        with self.trial.watching(f"{self.label}.position"):
            offsets = self.raw.position.as_dict()
        return {(topic, partition): offset for (topic, partition), offset in offsets.items()}

    def scan(self, method: str, *arguments: Any) -> list[Entry]:
        """Read the whole iterator that ``method`` returns, and close it."""
        call = f"{self.label}.{method}({', '.join(map(render, arguments))})"
        self.trial.lines.append(f"list({call})")
        with self.trial.watching(brief(call)):
            iterator = getattr(self.raw, method)(*arguments)
            entries = [tuple(entry) for entry in itertools.islice(iterator, SCAN_LIMIT + 1)]
            close_iterator(iterator)
        self.trial.note_call(method, str(min(len(entries), 3)))
        return self._well_formed(entries)

    def _well_formed(self, entries: list[Any]) -> list[Entry]:
        """The entries of a scan that has ended, each a key and a value."""
        if len(entries) > SCAN_LIMIT:
            self.trial.fail("an iterator that ends", f"more than {SCAN_LIMIT} entries")
        found: list[Entry] = []
        for entry in entries:
            key = entry_key(entry[0]) if len(entry) == 2 else None
            if key is None:
                self.trial.fail("pairs of a key and a value from an iterator", brief(render(entry)))
            found.append((key, entry[1]))
        return found

    def iterate(self, method: str, *arguments: Any) -> Handle:
        """Open an iterator and leave it open."""
        label = self.trial.label_for("entries")
        call = f"{self.label}.{method}({', '.join(map(render, arguments))})"
        self.trial.lines.append(f"{label} = {call}")
        with self.trial.watching(brief(call)):
            iterator = iter(getattr(self.raw, method)(*arguments))
        return Handle(self.trial, iterator, label)

    def advance(self) -> Entry | None:
        """The next entry of an open iterator; ``None`` at its end."""
        self.trial.lines.append(f"next({self.label}, None)")
        with self.trial.watching(f"next({self.label})"):
            entries = [tuple(entry) for entry in itertools.islice(self.raw, 1)]
        return self._well_formed(entries)[0] if entries else None

    def remaining(self) -> list[Entry]:
        """The remaining entries of an open iterator."""
        self.trial.lines.append(f"list({self.label})")
        with self.trial.watching(f"list({self.label})"):
            entries = [tuple(entry) for entry in itertools.islice(self.raw, SCAN_LIMIT + 1)]
        return self._well_formed(entries)

    def release(self) -> None:
        """Close an open iterator, if it has a way to close."""
        with self.trial.watching(f"{self.label}.close()"):
            close_iterator(self.raw)

    def begin(self) -> Handle:
        """Open a transaction on a store."""
        label = self.trial.label_for("transaction")
        self.trial.lines.append(f"{label} = {self.label}.new_transaction()")
        with self.trial.watching(f"{self.label}.new_transaction()"):
            raw = self.raw.new_transaction()
        return Handle(self.trial, raw, label)

    def view(self, level: IsolationLevel) -> Handle:
        """A read-only view at an isolation level."""
        label = self.trial.label_for("view")
        self.trial.lines.append(f"{label} = {self.label}.read_only({render(level)})")
        with self.trial.watching(f"{self.label}.read_only({level})"):
            raw = self.raw.read_only(level)
        return Handle(self.trial, raw, label)


def entry_key(key: Any) -> bytes | int | Windowed | None:
    """The key of an entry: bytes, a window start or a windowed key; ``None`` for anything else.

    A subject may yield plain tuples for windowed keys.
    """
    if isinstance(key, bytes | int):
        return key
    match key:
        case (bytes() as inner, (int() as start, int() as end)):
            return Windowed(inner, Window(start, end))
    return None


def close_iterator(iterator: Any) -> None:
    """Close an iterator that has something to close."""
    close = getattr(iterator, "close", None)
    if callable(close):
        close()
