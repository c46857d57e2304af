"""A walk through a run, event by event: the changes of each, and the state at that moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streamproof.errors import UsageError
from streamproof.scenarios.event_words import told
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.state import tables
from streamproof.scenarios.state.diff import changes
from streamproof.scenarios.state.fold import Moments, moments
from streamproof.sim.run_state import Moment, process_of
from streamproof.sim.trace import Event

__all__ = ["step"]

PROMPT = "step> "


def step(played: RecordedRun, console: Console, read_line: Callable[[str], str]) -> None:
    """Walk through a run at the user's commands, until ``q`` or the end of the input.

    Args:
        played: the run.
        console: the console for all output.
        read_line: reads a line after a prompt, as ``input`` does. It raises EOFError at the end.
    """
    if not played.events:
        console.print(Text(f"{played.name} has no events, so it has no state to show."))
        return
    walk = _Walk(played, console)
    walk.begin()
    last = "n"
    while True:
        try:
            line = read_line(PROMPT).strip() or last
        except EOFError:
            console.print()
            return
        if line in ("q", "quit"):
            return
        try:
            walk.do(line)
            last = line
        except UsageError as error:
            console.print(Text(str(error)))


class _Command(NamedTuple):
    """A command of the walk."""

    usage: str
    help: str
    do: Callable[[_Walk, str], None]


class _Walk:
    """A walk: the run, the present place in it, and the commands."""

    def __init__(self, played: RecordedRun, console: Console) -> None:
        self._played = played
        self._events = played.events
        self._console = console
        self._moments: Moments = moments(played)
        self._place = 0
        self._searched = ""

    def begin(self) -> None:
        """Introduce the run, and show its first event."""
        played, plan = self._played, self._played.plan
        guarantee = "exactly-once" if played.exactly_once else "at-least-once"
        topology = "" if plan is None else f"{plan.topology}, "
        defects = f", with {' and '.join(played.defects)}" if played.defects else ""
        self._say(f"{played.name}: {topology}{guarantee}{defects}; {len(self._events):,} events")
        if played.violations:
            self._say(f"broken in the end: {played.violations[0].message}", "red")
        self._say("Type n for the next event, f for the first violation, ? for all commands.")
        self._show()

    def do(self, line: str) -> None:
        """Carry out a command line.

        Raises:
            UsageError: the line is no command.
        """
        if line.startswith("/"):
            self.search(line[1:])
            return
        word, _, rest = line.partition(" ")
        command = _COMMANDS.get(word)
        if command is None:
            raise UsageError(
                f"{word!r} is no command. The commands are: {', '.join(_COMMANDS)}, /TEXT."
            )
        command.do(self, rest.strip())

    # Moving through the run.

    def next(self, rest: str) -> None:
        """Go forward by a number of events."""
        self._by(_number(rest or "1", "n 10"))

    def back(self, rest: str) -> None:
        """Go back by a number of events."""
        self._by(-_number(rest or "1", "b 10"))

    def _by(self, count: int) -> None:
        place = min(max(self._place + count, 0), len(self._events) - 1)
        if place == self._place and count:
            self._say("This is the last event." if count > 0 else "This is the first event.")
            return
        self._go(place)

    def go(self, rest: str) -> None:
        """Go to an event by its number."""
        number, last = _number(rest, "g 120"), self._events[-1].sequence
        if number > last:
            raise UsageError(f"There is no event {number}; the last one is {last}.")
        self._go(bisect_left(self._events, number, key=lambda event: event.sequence))

    def go_to_time(self, rest: str) -> None:
        """Go to the first event at or after a time."""
        time, last = _number(rest, "t 5000"), self._events[-1].time
        if time > last:
            raise UsageError(f"Nothing happens at {time} ms or later; the end is at {last} ms.")
        self._go(bisect_left(self._events, time, key=lambda event: event.time))

    def search(self, text: str) -> None:
        """Go to the next event that contains a text; the search wraps around at the last one."""
        text = self._searched = text or self._searched
        if not text:
            raise UsageError("The search needs a text, as in: /crash")
        count = len(self._events)
        for ahead in range(1, count + 1):
            place = (self._place + ahead) % count
            if text.casefold() in _all_of(self._events[place]).casefold():
                if place <= self._place:
                    self._say("The search went on at the first event.")
                self._go(place)
                return
        raise UsageError(f"No event contains {text!r}.")

    def first_violation(self, _: str) -> None:
        """Go to the event that broke the first promise."""
        if not self._played.violations:
            self._say("This run breaks no promise.")
            return
        event = self._played.violations[0].event
        self._go(
            len(self._events) - 1
            if event is None
            else bisect_left(self._events, event.sequence, key=lambda each: each.sequence)
        )

    def _go(self, place: int) -> None:
        self._place = place
        self._show()

    # Showing the state.

    def task(self, rest: str) -> None:
        """Show a task."""
        self._print(tables.task_of(self._here(), _name(rest, "task 0_0")))

    def store(self, rest: str) -> None:
        """Show the stores of a task, or the stores with a name."""
        self._print(tables.store_of(self._here(), _name(rest, "store 0_0")))

    def log(self, rest: str) -> None:
        """Show the last records of one log, or the ends of all logs."""
        name, _, count = rest.partition(" ")
        if not name:
            self._print(tables.logs(self._here()))
            return
        many = _number(count or str(tables.LAST_RECORDS), "log in-0 20")
        self._print(tables.log_of(self._here(), name, many))

    def offsets(self, _: str) -> None:
        """Show the committed offsets of the inputs."""
        self._print(tables.offsets(self._here()))

    def transactions(self, _: str) -> None:
        """Show the transactions."""
        self._print(tables.transactions(self._here()))

    def who(self, _: str) -> None:
        """Show the processes and their threads."""
        self._print(tables.who(self._here()))

    def help(self, _: str) -> None:
        """Show the commands."""
        table = Table.grid(padding=(0, 2))
        for command in _COMMANDS.values():
            table.add_row(Text(command.usage, style="bold"), Text(command.help))
        self._print(table)
        self._say("An empty line repeats the last command.")

    def _here(self) -> Moment:
        return self._moments.at(self._events[self._place].sequence)

    def _show(self) -> None:
        """Show the event, its changes, and the promises that it broke."""
        event = self._events[self._place]
        head = f"#{event.sequence} of {self._events[-1].sequence} · {event.time:,} ms"
        about = " ".join(each for each in (event.actor, event.kind, event.task) if each)
        self._console.print(Text.assemble((head, "bold"), f" · {about}"))
        now = self._here()
        before = self._moments.at(self._events[self._place - 1].sequence if self._place else -1)
        store = now.stores.get((process_of(event.actor), event.partition))
        self._say(told(event, store.name if store else ""), indent=2)
        table = Table.grid(padding=(0, 1))
        table.add_column(overflow="fold", ratio=2)
        table.add_column(overflow="fold", ratio=3)
        for change in changes(before, now):
            table.add_row(Text(f"  · {change.what}", style="cyan"), Text(change.how))
        if table.row_count:
            self._print(table)
        for each in self._played.violations:
            if each.event is not None and each.event.sequence == event.sequence:
                self._say(f"broken here: {each.invariant} ({each.requirement})", "red", 2)
                self._say(each.message, "red", 2)

    def _say(self, text: str, style: str = "", indent: int = 0) -> None:
        self._print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what)


def _all_of(event: Event) -> str:
    """The text of an event that a search covers."""
    return f"{event} {told(event)}"


def _number(text: str, example: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{text!r} is no number. Write, for example: {example}")
    return int(text)


def _name(text: str, example: str) -> str:
    if not text:
        raise UsageError(f"The command needs a name. Write, for example: {example}")
    return text


_COMMANDS = {
    "n": _Command("n [COUNT]", "go forward by one event, or by COUNT", _Walk.next),
    "b": _Command("b [COUNT]", "go back by one event, or by COUNT", _Walk.back),
    "g": _Command("g NUMBER", "go to the event with this number", _Walk.go),
    "t": _Command("t MS", "go to the first event at or after this time", _Walk.go_to_time),
    "f": _Command("f", "go to the event of the first violation", _Walk.first_violation),
    "task": _Command("task ID", "show a task in each thread, and its stores", _Walk.task),
    "store": _Command("store ID", "show a task's stores: rows and layers", _Walk.store),
    "log": _Command("log [NAME [COUNT]]", "show the last records of a log, or all logs", _Walk.log),
    "offsets": _Command("offsets", "show the committed offsets of the inputs", _Walk.offsets),
    "txns": _Command("txns", "show the transactions", _Walk.transactions),
    "who": _Command("who", "show the instances and threads, with their work", _Walk.who),
    "?": _Command("?", "show this help", _Walk.help),
}
"""The commands, by the first word of a line."""
