"""A trial of a subject: it times and records every call, and checks the types of the answers.

Checks use a :class:`Trial`. A check names the promise under test (``claim``), calls the store, and
compares the answers (``expect``). The recorded calls become the program in the report.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.claimed_methods import is_claimed
from streamproof.conformance.crash import triggers
from streamproof.conformance.failure_shapes import (
    asked,
    difference,
    shape_of_error,
    shape_of_words,
)
from streamproof.conformance.lab import ChangelogRecord, Lab
from streamproof.conformance.program_ending import ProgramEnding, unless_refused
from streamproof.conformance.program_text import (
    NO_ANSWER,
    brief_source,
    render,
    render_argument,
    render_program,
    short_comment,
)
from streamproof.conformance.subject_lines import told, traceback_of
from streamproof.conformance.violations import (
    Skipped,
    SubjectRaised,
    Violation,
    brief,
    violation_of,
)
from streamproof.stores.api import NO_TIMESTAMP, IsolationLevel
from streamproof.stores.metrics import Level
from streamproof.stores.windows import Window, Windowed

__all__ = ["SCAN_LIMIT", "Entry", "Handle", "Place", "Trial", "arranged", "entry_key"]

T = TypeVar("T")

Entry = tuple[Any, bytes]
"""An entry of a scan: bytes, the start of a window, or a windowed key; and the value."""

SCAN_LIMIT = 100_000
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
    "isolation_level": IsolationLevel,
}


class Place(NamedTuple):
    """A lab of its own for a neighbour of the store, and its variable in a program."""

    label: str
    lab: Lab


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
        self._last_call = "open"
        # The calls of listeners, and the messages, that a check has seen.
        self._told = 0
        self._said = 0
        # The index of the first line whose answer is not compared yet.
        self._compared = 0
        # Whether an error in place of the last answer would keep the promise.
        self._allows_error = False
        # The index of the line that may raise, and without which nothing after it is promised.
        self._may_refuse: int | None = None
        # The answers of lines, each with its line, because lines may be replaced or deleted.
        self._answers: dict[int, tuple[str, Any]] = {}

    # The promise under test.

    def claim(self, requirement: str, tried: str) -> None:
        """Make ``requirement`` the promise under test; ``tried`` describes the test in words."""
        self.requirement = requirement
        self.tried = tried

    def expect(self, found: Any, expected: Any) -> None:
        """Compare an answer of the subject with the answer that the promise demands."""
        if found != expected or type(found) is not type(expected):
            how = difference(expected, found, "\n".join(self.lines[:-1]))
            texts = self._named(expected, found), brief_source(found)
            self.fail(*texts, how, compared=(expected, found))
        self.held()

    def _named(self, expected: Any, found: Any) -> str:
        """What was expected; of a mere yes or no, with the line that has this answer."""
        asked_yes_or_no = isinstance(expected, bool) and isinstance(found, bool)
        last = self._answers.get(len(self.lines) - 1)
        if asked_yes_or_no and last == (self.last_line, found):
            return brief(f"{self.last_line} to be {expected}")
        return brief_source(expected)

    def expect_in_any_order(
        self, found: list[tuple[Any, Any]], expected: list[tuple[Any, Any]]
    ) -> None:
        """Compare the entries of a scan where the store chooses their order.

        Entries of one key or window keep their order.
        """
        ordered, wanted = arranged(found), arranged(expected)
        _, last = self._answers.get(len(self.lines) - 1, ("", None))
        if ordered != wanted and last in (found, found[::-1]):
            # Else the program would ask for an order, too, and never pass.
            self.reread(f"sorted({self.last_line}, key=lambda entry: entry[0])", ordered)
        self.expect(ordered, wanted)

    def expect_that(self, holds: bool, expected: str, found: Any) -> None:
        """Demand a condition; ``expected`` says it in words."""
        if not holds:
            self.fail(expected, brief(found if isinstance(found, str) else render(found)))
        self.held()

    def expect_or_error(self, found: Any, expected: Any) -> None:
        """Compare an answer as ``expect`` does, where the promise also allows an error."""
        self._allows_error = True
        self.expect(found, expected)
        self._allows_error = False

    def expect_shown(self, line: str, holds: bool, expected: str, found: Any) -> None:
        """Demand a condition that ``line`` asks for in a program in which it does not hold."""
        if not holds:
            # The line says all there is to say, whatever was read before it.
            self._compared = len(self.lines)
            self.asked(line, holds)
        self.expect_that(holds, expected, found)

    def reread(self, line: str, answer: Any) -> None:
        """Put a line with another form of its answer in place of the last line of the program."""
        self.lines[-1] = line
        self.answered(answer)

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Let the program pass where the call before the block raises, as the promise allows."""
        self._may_refuse = len(self.lines) - 1
        yield
        self._may_refuse = None

    def expect_raises(self, call: Callable[[], Any], expected: str) -> None:
        """Demand that a call on the subject raises."""
        try:
            answer = call()
        except SubjectRaised:
            self.go_on_after_error()
            self.held()
        else:
            shown = "a store" if isinstance(answer, Handle) else brief_source(answer)
            self.fail(expected, f"no exception; it returned {shown}", "accepted")

    def raises(self, call: Callable[[], Any]) -> bool:
        """Make a call on the subject that may raise, and return whether it does."""
        try:
            call()
        except SubjectRaised:
            self.go_on_after_error()
            return True
        return False

    def go_on_after_error(self) -> None:
        """Let the program go on after its last line, which raised as it may or must."""
        if self.lines:
            self.lines[-1] = f"with suppress(Exception): {self.lines[-1]}"

    def require_local(self, why: str) -> None:
        """Skip the check if the store runs in a process of its own; ``why`` tells the reason.

        Raises:
            Skipped: the store runs in another process.
        """
        if self.lab.subject.is_remote:
            raise Skipped(why)

    def require_lasting(self, why: str) -> None:
        """Skip the check if the process of the store ends at its close; ``why`` tells the reason.

        Raises:
            Skipped: the process ends.
        """
        if self.lab.subject.ends_with_process:
            raise Skipped(why)

    def held(self) -> None:
        """Record that the promise was tested and held."""
        self.run.evidence.exercised.add(self.requirement)
        self._compared = len(self.lines)

    def fail(
        self,
        expected: str,
        found: str,
        how: str = "",
        compared: tuple[Any, Any] = (NO_ANSWER, NO_ANSWER),
    ) -> NoReturn:
        """Raise the violation of the promise under test.

        ``how`` is the first half of its shape, if it is known better than from the words.
        ``compared`` is the right value and the wrong one, if the promise names a value.
        """
        shape = f"{how}-{asked(self.last_line)}" if how else shape_of_words(expected, found)
        self.run.noticed(self.requirement)
        raise self._violation(expected, found, shape, compared)

    @property
    def last_line(self) -> str:
        """The last line of the program; empty at the beginning."""
        return self.lines[-1] if self.lines else ""

    def note_call(self, method: str, answer: str) -> None:
        """Record a pair of calls in a row, with the kind of the second answer."""
        name = f"{self._last_call}>{method}:{answer}"
        self._last_call = method
        self.run.evidence.reached.add(name)

    def answered(self, answer: Any) -> None:
        """Record the answer of the last line of the program."""
        self._answers[len(self.lines) - 1] = self.last_line, answer

    def _violation(
        self,
        expected: str,
        found: str,
        shape: str,
        compared: tuple[Any, Any] = (NO_ANSWER, NO_ANSWER),
    ) -> Violation:
        comment = short_comment(self.run.without_paths(f"expected {expected}, found {found}"))
        program = self._program(shape, compared, comment)
        violation = violation_of(self.requirement, shape)(self.tried, expected, found, program)
        violation.weaker = self._program(shape, (NO_ANSWER, compared[1]), comment)
        return violation

    def _program(self, shape: str, compared: tuple[Any, Any], comment: str) -> str:
        """The program that fails as long as the finding is there."""
        lines: list[str] = []
        if self.lines:
            ending = ProgramEnding(self.lines, self._answers, self._compared)
            lines = ending.concluded(shape, compared, comment, allows_error=self._allows_error)
        if self._may_refuse is not None:
            lines[self._may_refuse :] = unless_refused(*lines[self._may_refuse :])
        return render_program(self.run.subject.name, self.run.settings.guarantee, lines)

    def has(self, *methods: str) -> bool:
        """Whether the subject claims all of these methods."""
        return all(is_claimed(method, self.lab.subject.capabilities) for method in methods)

    def require(self, method: str) -> None:
        """Skip the check if the subject does not claim a method.

        Raises:
            Skipped: the subject does not claim it.
        """
        if not self.has(method):
            raise Skipped(f"the subject does not claim the method {method}")

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

    def open_copy(self, *, without: Literal["", "files", "content"] = "") -> Handle:
        """Open a store on a copy of the files, as a kill at this moment would leave them.

        The copy may be ``without`` the files that the store declares disposable, or their content.
        """
        label = self.label_for("store")
        disposing = {"files": ".dispose()", "content": ".dispose(empty=True)"}.get(without, "")
        self.lines.append(f"{label} = lab.copied(){disposing}.{self.lab.subject.opener}()")
        copied = self.lab.copied()
        if without:
            copied.dispose(empty=without == "content")
        with self.watching(f"{label} = open()"):
            raw = copied.rows()
        self._open.append(raw)
        return Handle(self, raw, label)

    def other_task(self, task_id: str) -> Place:
        """The directory of another task of the thread, which shares the registry of metrics."""
        return self._place(f"lab.other_task({task_id!r})", self.lab.other_task(task_id))

    def named(self, name: str) -> Place:
        """The task directory for a store of another name.

        Raises:
            Skipped: the factory of the subject takes no name.
        """
        if not self.lab.subject.takes_name:
            raise Skipped("the factory has no parameter `name`, so all its stores have one name")
        return self._place(f"lab.named({name!r})", self.lab.named(name))

    def _place(self, source: str, lab: Lab) -> Place:
        """Another lab, which ``source`` makes in a program."""
        number = self._labels["lab"] = self._labels.get("lab", 0) + 1
        place = Place(f"lab_{number}", lab)
        self.lines.append(f"{place.label} = {source}")
        return place

    def open_at(self, place: Place, *, as_rows: bool = True) -> Handle:
        """Make a store and open it in another lab, by default seen as a key-value store."""
        label = self.label_for("store")
        opener = self.lab.subject.opener if as_rows else "open"
        self.lines.append(f"{label} = {place.label}.{opener}()")
        with self.watching(f"{label} = open()"):
            raw = place.lab.rows() if as_rows else place.lab.open()
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

    def wipe(self) -> None:
        """Delete everything in the task directory, as the runtime does with a corrupted task."""
        self.lines.append("lab.wipe()")
        self.lab.wipe()

    def open_older(self) -> Handle:
        """Open the store that wrote the older format, in the same directory."""
        label = self.label_for("older")
        self.lines.append(f"{label} = lab.open_older()")
        with self.watching(f"{label} = open_older()"):
            raw = self.lab.open_older()
        self._open.append(raw)
        return Handle(self, raw, label)

    def open_built(self) -> Handle:
        """Open the store with the runtime's layers around it."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.open_built()")
        with self.watching(f"{label} = open_built()"):
            raw = self.lab.open_built()
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

    def open_with(self, configs: dict[str, str]) -> Handle:
        """Open the store with entries of the configuration, by Kafka's names."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.rows({configs!r})")
        with self.watching(f"{label} = rows({configs!r})"):
            raw = self.lab.rows(configs)
        self._open.append(raw)
        return Handle(self, raw, label)

    def directories(self) -> list[str]:
        """The directories below that of the task."""
        return self.asked("lab.directories()", self.lab.directories())

    def files_with(self, piece: bytes) -> list[bytes]:
        """The eight bytes before each place at which a file of the task has ``piece``."""
        return self.asked(f"lab.files_with({piece!r})", self.lab.files_with(piece))

    def watch_log(self) -> None:
        """Collect the messages of the level INFO for ``messages``."""
        self.lines.append("lab.watch_log()")
        self.lab.watch_log()

    def messages(self) -> list[str]:
        """The messages of the level INFO since the last call of this method."""
        said = self.asked("lab.messages", list(self.lab.messages))
        found, self._said = said[self._said :], len(said)
        return found

    def open_before_downgrade(self) -> Handle:
        """Open the store so that closing it leaves files for the store of the older format."""
        label = self.label_for("store")
        self.lines.append(f"{label} = lab.open_before_downgrade()")
        with self.watching(f"{label} = open_before_downgrade()"):
            raw = self.lab.open_before_downgrade()
        self._open.append(raw)
        return Handle(self, raw, label)

    def close_failing(self, store: Handle, error: str) -> bool:
        """Close a store while all writes fail with an error, such as ``ENOSPC``.

        Return whether ``close`` raised.

        Raises:
            Skipped: system calls cannot be made to fail here.
        """
        triggers.require_seen()
        self.require_local("the system calls of a running store host cannot be made to fail")
        self.lines.append(f"lab.arm(syscall=1, error={error!r}, lasting=True)")
        self.lab.arm(syscall=1, error=error, lasting=True)
        try:
            return self.raises(store.close)
        finally:
            self.lab.disarm()
            self.lines.append("lab.disarm()")

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
        logged = [(each.key, each.value) for each in self.lab.logged]
        return self.asked("[(each.key, each.value) for each in lab.logged]", logged)

    def told(self) -> list[Any]:
        """The calls of restore listeners since the last call of this method."""
        calls = self.asked("lab.told", list(self.lab.told))
        told, self._told = calls[self._told :], len(calls)
        return told

    def restore(
        self, store: Handle, records: list[ChangelogRecord], at: Place | None = None
    ) -> None:
        """Apply a batch of changelog records, as the runtime does; ``at`` is the store's lab."""
        label, lab = at or Place("lab", self.lab)
        self.lines.append(f"{label}.restore({store.label}, {render(records)})")
        with self.watching("restore(…)"):
            lab.restore(store.raw, records)

    def processing(
        self,
        offset: int,
        *,
        topic: str = "input",
        partition: int = 0,
        timestamp: int = -1,
        at: Place | None = None,
    ) -> None:
        """Tell the store that an input record is being processed; ``at`` is the store's lab."""
        label, lab = at or Place("lab", self.lab)
        arguments = f"{topic!r}, {partition}, {offset}"
        if timestamp != NO_TIMESTAMP:
            arguments += f", timestamp={timestamp}"
        self.lines.append(f"{label}.processing({arguments})")
        lab.processing(topic, partition, offset, timestamp)

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

    def asked(self, line: str, answer: T) -> T:
        """Add a line to the program that asks the lab, and return its answer."""
        self.lines.append(line)
        self.answered(answer)
        return answer

    def opened(self, iterator: Any) -> None:
        """Close an iterator with the trial if it keeps a store host alive."""
        if self.run.subject.is_remote:
            self._open.append(iterator)

    def close_all(self) -> None:
        """Close what is open, and ignore errors: closing is not under test here."""
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
                violation = self._violation("no exception", told(error), shape)
                violation.traceback = traceback_of(error)
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
        call = f"{self.label}.{method}({', '.join(map(render_argument, arguments))})"
        self.trial.lines.append(call)
        with self.trial.watching(brief(call)):
            answer = getattr(self.raw, method)(*arguments)
        self.trial.answered(answer)
        self.trial.note_call(method, "none" if answer is None else "some")
        allowed = _RETURNS.get(method)
        if allowed and (not isinstance(answer, allowed) or isinstance(answer, bool)):
            names = ["None" if kind is type(None) else kind.__name__ for kind in allowed]
            self.trial.lines[-1] = f"isinstance({call}, {' | '.join(names)})"
            self.trial.answered(False)
            self.trial.fail(f"{' or '.join(names)} from {method}", f"{type(answer).__name__}")
        return answer

    def read(self, attribute: str) -> Any:
        """Read one of the plain attributes, such as ``name`` or ``dropped_records``."""
        self.trial.lines.append(f"{self.label}.{attribute}")
        with self.trial.watching(f"{self.label}.{attribute}"):
            answer = getattr(self.raw, attribute)
        self.trial.answered(answer)
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
        self.trial.answered(offsets)
        return {(topic, partition): offset for (topic, partition), offset in offsets.items()}

    def scan(self, method: str, *arguments: Any) -> list[Entry]:
        """Read the whole iterator that ``method`` returns, and close it."""
        call = f"{self.label}.{method}({', '.join(map(render, arguments))})"
        self.trial.lines.append(f"list({call})")
        with self.trial.watching(brief(call)):
            iterator = getattr(self.raw, method)(*arguments)
            answer = list(itertools.islice(iterator, SCAN_LIMIT + 1))
            entries = list(map(tuple, answer))
            close_iterator(iterator)
        self._require_end(call, answer)
        self.trial.answered(answer)
        self.trial.note_call(method, str(min(len(entries), 3)))
        return self._well_formed(entries)

    def _require_end(self, iterator: str, answer: list[Any]) -> None:
        """Demand that an iterator has ended. A program must end itself, so it takes no more."""
        if len(answer) > SCAN_LIMIT:
            self.trial.lines[-1] = f"len(list(islice({iterator}, {len(answer)})))"
            self.trial.answered(len(answer))
            self.trial.fail("an iterator that ends", f"more than {SCAN_LIMIT:,} entries")

    def _well_formed(self, entries: list[Any]) -> list[Entry]:
        """The entries of a scan that has ended, each a key and a value."""
        found: list[Entry] = []
        for entry in entries:
            key = entry_key(entry[0]) if len(entry) == 2 else None
            if key is None:
                self.trial.fail("pairs of a key and a value from an iterator", brief_source(entry))
            found.append((key, entry[1]))
        return found

    def iterate(self, method: str, *arguments: Any) -> Handle:
        """Open an iterator and leave it open."""
        label = self.trial.label_for("entries")
        call = f"{self.label}.{method}({', '.join(map(render, arguments))})"
        self.trial.lines.append(f"{label} = {call}")
        with self.trial.watching(brief(call)):
            iterator = iter(getattr(self.raw, method)(*arguments))
        self.trial.opened(iterator)
        return Handle(self.trial, iterator, label)

    def advance(self) -> Entry | None:
        """The next entry of an open iterator; ``None`` at its end."""
        self.trial.lines.append(f"next({self.label}, None)")
        with self.trial.watching(f"next({self.label})"):
            answer = list(itertools.islice(self.raw, 1))
            entries = list(map(tuple, answer))
        self.trial.answered(answer[0] if answer else None)
        return self._well_formed(entries)[0] if entries else None

    def remaining(self) -> list[Entry]:
        """The remaining entries of an open iterator."""
        self.trial.lines.append(f"list({self.label})")
        with self.trial.watching(f"list({self.label})"):
            answer = list(itertools.islice(self.raw, SCAN_LIMIT + 1))
            entries = list(map(tuple, answer))
        self._require_end(self.label, answer)
        self.trial.answered(answer)
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


def arranged(entries: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Entries by key or window. Entries of one window keep their order."""
    return sorted(entries, key=lambda entry: entry[0])


def close_iterator(iterator: Any) -> None:
    """Close an iterator that has something to close."""
    close = getattr(iterator, "close", None)
    if callable(close):
        close()
