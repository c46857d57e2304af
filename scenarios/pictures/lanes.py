"""What every picture of a run is made from: lanes, events in them, arrows, and what went wrong.

The same :class:`Picture` feeds the text, the page, the Mermaid diagram and the trace for Perfetto.
So they never tell different stories.

Source: Jepsen's timeline and ShiViz, which have time downwards and a lane for each process.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from streamproof.scenarios.event_words import harmless, literals, look_of, told, visible
from streamproof.scenarios.pictures.arrows import Arrow, Links
from streamproof.scenarios.pictures.durability import Stock, follow
from streamproof.scenarios.pictures.violation_text import ExplainedViolation, explain
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.defects import DEFECTS
from streamproof.sim.event_kinds import Look
from streamproof.sim.trace import Event

__all__ = ["Item", "Lane", "Picture", "chosen", "merged", "picture"]

_FIXED = {
    "world": "outside: input and faults",
    "log": "brokers: logs",
    "groups": "group coordinator",
    "transactions": "transaction coordinator",
}
"""The lanes that are there once, in their order."""

FEW = 60
"""Of a run in which nothing is wrong, details are shown as well, if there are no more of them."""

OFTEN = 3
"""So often a turning point that comes about again and again is shown: first and last."""

_NUMBERS = re.compile(r"(\d+)")


class Lane(NamedTuple):
    """One place where something happens.

    Attributes:
        key: names it, as ``log``, ``instance-0``, ``instance-0/0_1``,
            ``instance-0/0_1/counts-changelog-1`` or ``instance-0/disk``.
        kind: ``world``, ``log``, ``groups``, ``transactions``, ``instance``, ``task``, ``store`` or
            ``disk``.
        title: what a person calls it.
        instance: the process that it belongs to; empty if none.
        parent: the lane that stands for it where there is no room; empty if none does.
    """

    key: str
    kind: str
    title: str
    instance: str
    parent: str


class Item(NamedTuple):
    """An event as it is drawn.

    Attributes:
        event: the event.
        lane: the key of the lane that it is in.
        source: the key of the lane that it comes from; empty if from nowhere else.
        look: how it is drawn.
        words: what it says, in plain words, on one line.
        matters: whether it is shown by default.
        repeats: how many others like it were just before it, for which it stands.
    """

    event: Event
    lane: str
    source: str
    look: Look
    words: str
    matters: bool = False
    repeats: int = 0


@dataclass(frozen=True)
class Picture:
    """A run, ready to be drawn.

    Attributes:
        played: the run.
        name: what was run.
        command: what a user types to see this run again; empty if there is no such command.
        about: what the run was like, in a few words each.
        defects: the mistakes that the runtime made, each with what goes wrong.
        violation: what did not hold; ``None`` if everything held.
        lanes: where things happened, from the left to the right.
        items: all events, in order.
        arrows: which event led to which, in the order of the events that they come to.
        stock: what was on disks and in memory.
        is_explained: whether the events that matter were given, and not guessed.
    """

    played: RecordedRun
    name: str
    command: str
    about: tuple[str, ...]
    defects: tuple[tuple[str, str], ...]
    violation: ExplainedViolation | None
    lanes: tuple[Lane, ...]
    items: tuple[Item, ...]
    arrows: tuple[Arrow, ...]
    stock: Stock
    is_explained: bool

    @property
    def title(self) -> str:
        """What the run is about; empty if nobody has said so."""
        return harmless(self.played.title)

    @property
    def story(self) -> str:
        """What happens in it and why it matters; empty if nobody has said so."""
        return harmless(self.played.story)

    @property
    def found_at(self) -> int | None:
        """The number of the event by which it was found; ``None`` at the end or if all holds."""
        found = self.played.violations[0].event if self.violation else None
        return found.sequence if found else None

    @property
    def count(self) -> str:
        """How much of the run is shown by default, as ``12 of 4,310 events matter``."""
        found = sum(each.matters + each.repeats for each in self.items)
        verb = "matter" if self.is_explained else "are of interest"
        if found == 1:
            verb = "matters" if self.is_explained else "is of interest"
        return f"{found:,} of {len(self.items):,} events {verb}"


def picture(played: RecordedRun, matters: AbstractSet[int] | None = None) -> Picture:
    """What is to be drawn of a run.

    Args:
        played: the run.
        matters: the numbers of the events that matter; guessed from the first violation, if they
            are not given.
    """
    links = Links(played.events)
    placing = _Placing(played, links)
    items = [placing.item(each) for each in played.events]
    if matters is None:
        items = _guessed(played, items)
    else:
        items = [each._replace(matters=each.event.sequence in matters) for each in items]
    found = played.violations[0].event if played.violations else None
    if found is not None:
        items = [_marked(each) if each.event.sequence == found.sequence else each for each in items]
    return Picture(
        played=played,
        name=harmless(played.name),
        command=harmless(played.command),
        about=tuple(map(harmless, _about(played))),
        defects=tuple(
            (harmless(each), DEFECTS[each].what if each in DEFECTS else "")
            for each in played.defects
        ),
        violation=explain(played),
        lanes=placing.lanes(items),
        items=tuple(items),
        arrows=tuple(sorted(links.arrows, key=lambda each: (each.target, each.source))),
        stock=follow(played, links.origins),
        is_explained=matters is not None,
    )


def _marked(item: Item) -> Item:
    """The event by which it was found that something does not hold."""
    return item._replace(matters=True, look=item.look._replace(glyph="X"))


def _guessed(played: RecordedRun, items: Sequence[Item]) -> list[Item]:
    """The items, with those that are of interest marked: of equal ones in a row the last."""
    focus = _Focus(played, items)
    found = list(items)
    kept = -1
    # What goes on for ever, as trying again does: by what is said, where that was of interest.
    said: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        if not focus.holds(item):
            continue
        each = item
        if focus.names(item.event):
            each = item._replace(look=item.look._replace(weight=3))
        repeats = 0
        again = said[item.event.actor, item.words] if item.look.weight >= 3 else []
        again.append(number)
        replaced = kept if kept >= 0 and _is_like(found[kept], each) else -1
        if len(again) > OFTEN:
            replaced = again.pop(-2)
        if replaced >= 0:
            repeats = found[replaced].repeats + 1
            found[replaced] = items[replaced]
        kept = number
        found[number] = each._replace(matters=True, repeats=repeats)
    return found


def _about(played: RecordedRun) -> tuple[str, ...]:
    plan, is_staged = played.plan, played.settings.get("transactional", False)
    guarantee = "exactly-once" if played.exactly_once else "at-least-once"
    stores = "stores that stage writes" if is_staged else "stores that write at once"
    if plan is None:
        names = {each.actor for each in played.events if each.kind == "instance.started"}
        return guarantee, stores, _instances(len(names))
    return (
        f"topology {plan.topology}",
        guarantee,
        stores if plan.persistent else f"{stores}, and are in memory only",
        _instances(plan.instances),
        f"commit every {plan.config.commit_interval_ms:,} ms",
        *([f"upgrade {plan.upgrade}"] if plan.upgrade else []),
    )


def _instances(count: int) -> str:
    return f"{count} instance{'s' if count != 1 else ''}"


class _Placing:
    """Finds the lane of each event.

    Args:
        played: the run.
        links: of the run.
    """

    def __init__(self, played: RecordedRun, links: Links) -> None:
        self._links = links
        self._exactly_once = played.exactly_once
        self._instances: set[str] = set()
        self._stores: dict[str, str] = {}
        for each in played.events:
            if each.kind == "instance.started":
                self._instances.add(each.actor)
            elif each.kind == "store.opened":
                self._stores[each.partition] = str(each.attributes.get("store", each.partition))

    def item(self, event: Event) -> Item:
        """An event with its place; whether it matters is not known yet."""
        look = look_of(event)
        sender = self._sender(event)
        if event.kind == "log.appended" and not self._host(sender):
            # What comes in is there in every run.
            look = look._replace(weight=0)
        if event.kind == "offsets.committed" and self._exactly_once:
            look = look._replace(source="transactions")
        words = told(event, self._stores.get(event.partition, ""))
        lane = self._place(look.lane, event, event)
        source = self._place(look.source, event, sender if look.source == "sender" else event)
        return Item(event, lane, "" if source == lane else source, look, words)

    def lanes(self, items: Iterable[Item]) -> tuple[Lane, ...]:
        """The lanes in which there is anything, from the left to the right."""
        keys = {each.lane for each in items} | {each.source for each in items} - {""}
        keys |= {key.rpartition("/")[0] for key in keys if key.count("/") == 2}
        keys |= {key.partition("/")[0] for key in keys if "/" in key}
        return tuple(sorted(map(self._lane, keys), key=_order))

    def _lane(self, key: str) -> Lane:
        instance, _, rest = key.partition("/")
        task, _, changelog = rest.partition("/")
        if key in _FIXED:
            return Lane(key, key, _FIXED[key], "", "")
        if not task:
            return Lane(key, "instance", instance, instance, "")
        if task == "disk":
            return Lane(key, "disk", f"disk of {instance}", instance, instance)
        if not changelog:
            return Lane(key, "task", f"task {task}", instance, instance)
        title = f"store {self._stores.get(changelog, changelog)}"
        return Lane(key, "store", visible(title), instance, f"{instance}/{task}")

    def _sender(self, event: Event) -> Event:
        """Who asked the brokers for it: an event of that actor, as far as that is known."""
        origin = self._links.origins.get(event.sequence)
        if origin is not None:
            return origin
        actor = self._links.senders.get(event.attributes.get("producer", NO_PRODUCER))
        return Event(0, 0, actor or "workload", "", "", "", -1, {})

    def _host(self, event: Event) -> str:
        host = event.process
        return host if host in self._instances else ""

    def _place(self, kind: str, event: Event, actor: Event) -> str:
        """The key of a lane."""
        host = self._host(actor)
        if not kind:
            return ""
        if kind in _FIXED:
            return kind
        if not host:
            return "world"
        if kind == "sender" and actor.task:
            return f"{host}/{actor.task}/{actor.partition}"
        if kind == "disk":
            return f"{host}/disk"
        if kind in {"task", "store"} and event.task:
            task = f"{host}/{event.task}"
            return f"{task}/{event.partition}" if kind == "store" and event.partition else task
        return host


NO_PRODUCER = -1
"""The producer of a record that says nothing of it."""


def _order(lane: Lane) -> tuple[int, list[tuple[bool, int, str]], bool, str]:
    """Brokers first, then each instance with its tasks and their stores, and its disk last."""
    fixed = list(_FIXED)
    place = fixed.index(lane.key) if lane.key in fixed else len(fixed)
    numbers = [
        (each.isdigit(), int(each) if each.isdigit() else 0, each)
        for each in _NUMBERS.split(lane.instance)
    ]
    return place, numbers, lane.kind == "disk", lane.key


class _Focus:
    """Guesses which events matter: the turning points, and what is about what was found.

    Args:
        played: the run.
        items: all events.
    """

    def __init__(self, played: RecordedRun, items: Sequence[Item]) -> None:
        self._tasks: set[str] = set()
        self._partitions: set[str] = set()
        self._instances: set[str] = set()
        self._keys: set[bytes] = set()
        self._offsets: set[int] = set()
        self._end = items[-1].event.sequence if items else 0
        self._is_wide = not played.violations
        details = sum(each.look.weight >= 1 for each in items)
        self._least = 1 if details <= FEW else 2
        self._is_of_store = False
        if self._is_wide:
            return
        found = played.violations[0]
        words = set(re.findall(r"[\w.-]+", found.message))
        self._offsets = {int(each) for each in words if each.isdecimal()}
        self._keys = set(literals(found.message))
        if found.event is not None:
            self._end = found.event.sequence
            self._partitions.add(found.event.partition)
            self._tasks.add(found.event.task)
            self._instances.add(found.event.process)
            self._is_of_store = found.event.kind.startswith("store.")
        for each in items:
            event = each.event
            if event.task in words:
                self._tasks.add(event.task)
            if event.partition in words:
                self._partitions.add(event.partition)
        self._partitions -= {""}
        self._tasks |= {
            each.event.task
            for each in items
            if each.event.kind == "task.processed" and each.event.partition in self._partitions
        }
        self._tasks -= {""}

    def names(self, event: Event) -> bool:
        """Whether it is about the very record of an input that the violation names."""
        return (
            event.kind == "task.processed"
            and event.partition in self._partitions
            and event.offset in self._offsets
        )

    def holds(self, item: Item) -> bool:
        """Whether an event is of interest."""
        event, weight = item.event, item.look.weight
        if weight == 0 or event.sequence > self._end:
            return False
        if weight >= 3 or self._is_wide:
            return weight >= self._least
        key = event.attributes.get("key")
        if self._keys and key is not None and key not in self._keys:
            return False
        if event.kind == "task.processed" and self._keys:
            # What it changed tells it all, if it is about one of the keys.
            return event.sequence == self._end
        if event.partition in self._partitions:
            return True
        if event.task in self._tasks:
            # Of another store than the one that was named nothing is of interest.
            return not (self._is_of_store and event.partition)
        named = {*event.attributes.get("offsets", ()), *event.attributes.get("tasks", ())}
        if named:
            return bool(named & (self._partitions | self._tasks))
        host = item.source.partition("/")[0] or event.process
        return weight >= 2 and not event.task and (item.lane == "groups" or host in self._instances)


def chosen(drawn: Picture, most: int) -> list[Item]:
    """What is shown, in order: the events that matter.

    Args:
        drawn: the picture.
        most: so many at most: the turning points first, and then the latest; 0 shows all events.
    """
    if not most:
        return [each._replace(repeats=0) for each in drawn.items]
    found = [each for each in drawn.items if each.matters]
    if len(found) <= most:
        return found
    # A crash long ago is often where it began: so some of the room is kept for turning points.
    turning = [each for each in found if each.look.weight >= 3]
    broken = [each for each in found if each.look.glyph == "X"]
    kept = {each.event.sequence for each in (*broken, *turning[len(turning) - most // 4 :])}
    for each in reversed(found):
        if len(kept) >= most:
            break
        kept.add(each.event.sequence)
    return [each for each in found if each.event.sequence in kept]


def _is_like(one: Item, other: Item) -> bool:
    return (
        one.event.kind == other.event.kind
        and one.lane == other.lane
        and one.source == other.source
        and one.event.partition == other.event.partition
        and one.look.weight < 3
    )


def merged(
    drawn: Picture, shown: Sequence[Item], most: int
) -> tuple[list[Lane], Mapping[str, str]]:
    """The lanes that are needed for some rows, and no more than there is room for.

    Where there are too many, stores go into the lanes of their tasks, tasks and disks into those of
    their instances: first those in which the least is shown.

    Args:
        drawn: the picture.
        shown: what is shown.
        most: so many lanes at most, if there are not more that nothing else stands for.

    Returns:
        the lanes, from the left to the right, and by each lane that was there the one that stands
        for it.
    """
    known = {each.key: each for each in drawn.lanes}
    used = [key for each in shown for key in (each.lane, each.source) if key]
    stands = {key: key for key in used}
    for kind in ("store", "task", "disk"):
        while len(set(stands.values())) > most:
            counts = {
                key: sum(stands[each] == key for each in used)
                for key in sorted(set(stands.values()))
                if known[key].kind == kind
            }
            if not counts:
                break
            least = min(counts, key=lambda key: counts[key])
            stands = {
                key: known[least].parent if lane == least else lane for key, lane in stands.items()
            }
    kept = set(stands.values())
    return [each for each in drawn.lanes if each.key in kept], stands
