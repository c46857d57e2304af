"""The model of every picture of a run: lanes, their events, arrows, and the violation.

The text, the page, the Mermaid diagram and the trace for Perfetto are all rendered from one
:class:`Picture`. So they never tell different stories.

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
from streamproof.scenarios.pictures.inputs import Inputs
from streamproof.scenarios.pictures.violation_text import ExplainedViolation, explain
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.defects import DEFECTS
from streamproof.sim.event_kinds import Look
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.trace import Event

__all__ = ["Item", "Lane", "Picture", "chosen", "merged", "picture"]

_FIXED = {
    "world": "outside: input and faults",
    "log": "brokers: logs",
    "groups": "group coordinator",
    "transactions": "transaction coordinator",
    "clients": "clients: queries",
}
"""The lanes that belong to no instance, in their order."""

FEW = 60
"""The most events of a run without a violation for which details are shown as well."""

LEAST_GAP_MS = 2_000
"""The fewest milliseconds without an event that are shown as a gap."""

OFTEN = 3
"""How often a turning point that repeats is shown, at most: the first times and the last."""

_NUMBERS = re.compile(r"(\d+)")


class Lane(NamedTuple):
    """One column of a picture: a place where events happen.

    Attributes:
        key: its identifier, as ``log``, ``instance-0``, ``instance-0/0_1``,
            ``instance-0/0_1/counts-changelog-1`` or ``instance-0/disk``.
        kind: ``world``, ``log``, ``groups``, ``transactions``, ``instance``, ``task``, ``store`` or
            ``disk``.
        title: its name for readers.
        instance: the instance that it belongs to; empty if none.
        parent: the lane that it is merged into where space is short; empty if none.
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
        lane: the key of its lane.
        source: the key of the lane that it comes from; empty if it comes from no other lane.
        look: how it is drawn.
        words: its sentence in plain words, on one line.
        matters: whether it is shown by default.
        repeats: how many similar events just before it are represented by it.
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
        name: the name of the run.
        command: the command that shows this run again; empty if there is none.
        about: the settings of the run, in a few words each.
        defects: the defects that were switched on, each with its effect.
        violation: the broken promise; ``None`` if every promise was kept.
        lanes: the lanes, from left to right.
        items: all events, in order.
        arrows: the arrows between events, in the order of their targets.
        stock: the contents of disks and memory.
        is_explained: whether the events that matter come from a slice, and are not guessed.
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
    def held(self) -> str:
        """What to say of a run without a violation, without the end of the sentence."""
        unjudged = len(self.played.unjudged)
        if not unjudged:
            return "Every invariant held"
        return f"Every judged invariant held; {unjudged} were not judged"

    @property
    def title(self) -> str:
        """The title of the run; empty without one."""
        return harmless(self.played.title)

    @property
    def story(self) -> str:
        """The story of the run; empty without one."""
        return harmless(self.played.story)

    @property
    def found_at(self) -> int | None:
        """The number of the event that broke the promise; ``None`` at the end, or without one."""
        found = self.played.violations[0].event if self.violation else None
        return found.sequence if found else None

    @property
    def surprises(self) -> tuple[str, ...]:
        """The differences from the expected result of the scenario, a sentence each."""
        return tuple(map(visible, self.played.surprises))

    @property
    def long_gap(self) -> int:
        """The milliseconds without an event from which on a picture shows a gap."""
        times = [each.event.time for each in self.items]
        return max(LEAST_GAP_MS, (times[-1] - times[0]) // 20) if times else LEAST_GAP_MS

    @property
    def count(self) -> str:
        """The share of the run that is shown by default, as ``12 of 4,310 events matter``."""
        found = sum(each.matters + each.repeats for each in self.items)
        verb = "matter" if self.is_explained else "are of interest"
        if found == 1:
            verb = "matters" if self.is_explained else "is of interest"
        return f"{found:,} of {len(self.items):,} events {verb}"


def picture(played: RecordedRun, matters: AbstractSet[int] | None = None) -> Picture:
    """The picture of a run.

    Args:
        played: the run.
        matters: the numbers of the events that matter. Without them, they are guessed from the
            first violation.
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
    """The item of the event that broke the promise, marked as such."""
    return item._replace(matters=True, look=item.look._replace(glyph="X"))


def _guessed(played: RecordedRun, items: Sequence[Item]) -> list[Item]:
    """The items, with the interesting ones marked: of similar ones in a row, only the last."""
    focus = _Focus(played, items)
    found = list(items)
    kept = -1
    # Steps that repeat, such as retries: by their words, the places where they were of interest.
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
        *_releases(plan.upgrade),
    )


def _releases(upgrade: str) -> tuple[str, ...]:
    """The releases that the instances run, if a plan has an upgrade."""
    names = list(dict.fromkeys(each.name for each in UPGRADES.get(upgrade, ())))
    if len(names) == 1:
        return (f"release {names[0]}",)
    return (f"upgrade {upgrade}: release {', then '.join(names)}",) if names else ()


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
        self._inputs = Inputs(played.events)
        for each in played.events:
            if each.kind == "instance.started":
                self._instances.add(each.actor)
            elif each.kind == "store.opened":
                self._stores[each.partition] = str(each.attributes.get("store", each.partition))

    def item(self, event: Event) -> Item:
        """An event with its place. Whether it matters is decided later."""
        look = look_of(event)
        sender = self._sender(event)
        if event.kind == "log.appended" and not self._host(sender):
            # Every run has input from outside.
            look = look._replace(weight=0)
        if event.kind == "offsets.committed" and self._exactly_once:
            look = look._replace(source="transactions")
        words = told(event, self._stores.get(event.partition, "")) + self._inputs.aside(event)
        lane = self._place(look.lane, event, event)
        source = self._place(look.source, event, sender if look.source == "sender" else event)
        return Item(event, lane, "" if source == lane else source, look, words)

    def lanes(self, items: Iterable[Item]) -> tuple[Lane, ...]:
        """The lanes in use, from left to right."""
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
        """An event of the actor whose request caused this event, as far as it is known."""
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
"""The producer of a record without one."""


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
    """Guesses which events matter: the turning points, and the events about the violation.

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
        """Whether the event processes the very input record that the violation names."""
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
            # The changes of the record tell more than its processing, if they have one of the keys.
            return event.sequence == self._end
        if event.partition in self._partitions:
            return True
        if event.task in self._tasks:
            # If the violation is about one store, other stores are of no interest.
            return not (self._is_of_store and event.partition)
        named = {*event.attributes.get("offsets", ()), *event.attributes.get("tasks", ())}
        if named:
            return bool(named & (self._partitions | self._tasks))
        host = item.source.partition("/")[0] or event.process
        return weight >= 2 and not event.task and (item.lane == "groups" or host in self._instances)


def chosen(drawn: Picture, most: int) -> list[Item]:
    """The items to show, in order: those that matter.

    Args:
        drawn: the picture.
        most: the most items to show: turning points first, then the latest. 0 shows all events.
    """
    if not most:
        return [each._replace(repeats=0) for each in drawn.items]
    found = [each for each in drawn.items if each.matters]
    if len(found) <= most:
        return found
    # The story often begins with a crash long ago: so some space is kept for turning points.
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
    """The lanes of some rows, merged if they are too many.

    Stores are merged into the lanes of their tasks, and tasks and disks into those of their
    instances: the least used first.

    Args:
        drawn: the picture.
        shown: the items to show.
        most: the most lanes, apart from those that cannot be merged.

    Returns:
        the lanes, from left to right, and by original lane the one that it is merged into.
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
