"""Judges the state after a crash: is it legal, and if not, which promise is broken?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamproof.conformance.crash.crash_records import Crashed, Observation
from streamproof.conformance.crash.program import INPUT_TOPIC, OPENING, REPLAYING, Operation
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG
from streamproof.conformance.oracle import (
    Commit,
    History,
    Offsets,
    changelog_of,
    ends_of,
    fold,
    partitions_of,
)
from streamproof.conformance.program_text import brief_source, render
from streamproof.conformance.ruling import Ruling
from streamproof.stores.capabilities import LATE, Capabilities

__all__ = ["MANNER", "POSITION", "history_of", "judge", "state_of"]


POSITION = "POS-012"
"""The promise that position and offsets belong to one commit."""

MANNER = "ERR-010"
"""The recommendation that an error of the disk reaches the caller as such."""

MISLEADING = (
    "AssertionError",
    "AttributeError",
    "IndexError",
    "InvalidStateStoreError",
    "KeyError",
    "NameError",
    "TypeError",
    "UnboundLocalError",
)
"""Errors that blame the caller or the code, and not the disk."""

OFFSETS_READ = "[store.committed_offset(each) for each in (CHANGELOG, OTHER_CHANGELOG)]"


def history_of(crashed: Crashed, capabilities: Capabilities, *, exact: bool) -> History:
    """The writes and commits until the crash; the interrupted operation is the last."""
    history = _history_before(crashed, capabilities, exact=exact)
    returned_commit = history.durable
    settling = {"close", "leave_checkpoint"}
    if capabilities.durability != "close":
        settling.add("flush")
    for index, operation in enumerate(crashed.program.operations[: crashed.started]):
        commits = _note(history, operation)
        returned = index < crashed.finished
        if commits and returned:
            returned_commit = len(history.commits) - 1
        if operation.name == "upgrade":
            history.durable = returned_commit = 0
        elif returned and operation.name in settling:
            history.durable = len(history.commits) - 1
        elif capabilities.durability not in LATE:
            history.durable = max(history.durable, returned_commit)
    if crashed.closed and "close" not in crashed.names:
        # A write that raised may count or not. The close makes every commit that returned durable.
        history.durable = max(history.durable, returned_commit)
    if _left_by_the_older(crashed):
        history.durable = 0
    return history


def _note(history: History, operation: Operation) -> bool:
    """Record the writes and commits of an operation; return whether its end makes them durable."""
    for write in operation.writes:
        restored = operation.name in ("restore", "resume")
        history.write(write, restored=restored)
        if operation.name == "restore":
            # A restored record is already committed in the changelog. So a store may adopt its
            # offset at once, and the runtime commits it anyway.
            history.commit({write.partition: write.offset})
    if operation.name in ("commit", "leave_checkpoint"):
        history.commit(operation.arguments[0])
        return True
    if operation.name == "catch_up" and operation.arguments:
        history.commit({CHANGELOG: operation.arguments[-1].offset})
        history.replayed = len(history.writes)
        return True
    if operation.name == "resume":
        # Each batch is committed, and the starts of batches depend on the committed offset.
        for number, write in enumerate(history.writes, start=1):
            history.commits.append(Commit(number, {write.partition: write.offset}))
        history.replayed = len(history.writes)
    elif operation.name == "rebuild":
        # The commit belongs to the new format, which is filled beside the live one.
        partition, records = operation.arguments
        history.commit_copy(partition, records[-1].offset)
    return False


def _history_before(crashed: Crashed, capabilities: Capabilities, *, exact: bool) -> History:
    """The history before a program: empty, or the changelog that an earlier crash left."""
    if crashed.before is None:
        started = crashed.program.operations[: crashed.started]
        restoring = any(each.name in (*REPLAYING, "rebuild") for each in started)
        # Restored records are committed in the changelog, so a store may keep them at once.
        return History(exact=exact and not restoring)
    history = history_of(crashed.before, capabilities, exact=exact)
    changelog = changelog_of(history)
    history.aborted += history.writes[len(changelog) :]
    history.writes = changelog
    return history


def _left_by_the_older(crashed: Crashed) -> bool:
    """Whether the store that opens after the crash has to upgrade first.

    Such a store may discard everything, and rebuild its content from the changelog.
    """
    started = crashed.program.operations[: crashed.started]
    openings = [each.name for each in started if each.name in OPENING]
    return bool(openings) and openings[-1] in ("open_older", "open_preparing")


def judge(
    crashed: Crashed,
    history: History,
    seen: Observation,
    capabilities: Capabilities,
    *,
    position: bool = False,
) -> list[Ruling]:
    """The rulings on one crash. The list ends with the first broken promise.

    ``position`` adds a ruling on the position.
    """
    rulings = []
    for ruling in _rule(crashed, history, seen, capabilities, position=position):
        rulings.append(ruling)
        if ruling.broken:
            break
    return rulings


def _rule(
    crashed: Crashed,
    history: History,
    seen: Observation,
    capabilities: Capabilities,
    *,
    position: bool,
) -> Iterator[Ruling]:
    yield from _opens(crashed, seen, capabilities)
    if not seen.refused:
        offsets = committed(history, seen)
        yield from _offsets(history, offsets)
        candidates = history.candidates(offsets)
        content = _exact if history.exact else _replayable
        # A row is wrong beside the committed offset alone: a replay may bring it back.
        beside = (OFFSETS_READ, _as_read(offsets)) if capabilities.manages_offsets else None
        for ruling in content(history, candidates, seen):
            yield ruling._replace(beside=beside)
        yield from _durable(history, offsets)
        yield from _scan(seen)
        if position:
            yield _position(history, candidates, seen)
    yield from _restored(history, seen)
    # Late, because it must not hide a promise that says more about the mistake.
    if not history.exact and not capabilities.transactional:
        yield _unclean_stop(crashed, history, seen)
    # Last, because it is a recommendation.
    if crashed.raised:
        yield _told(crashed)


def committed(history: History, seen: Observation) -> Offsets:
    """The committed offsets in the store."""
    pairs = zip(partitions_of(history), seen.offsets, strict=True)
    return {partition: offset for partition, offset in pairs if offset is not None}


def state_of(history: History, seen: Observation) -> str:
    """The kind of state after a crash: the last commit, and the writes after it."""
    if seen.refused or seen.error:
        return "refused" if seen.refused else "error"
    candidates = history.candidates(committed(history, seen))
    if not candidates:
        return "no commit"
    commits = len(history.commits) - 1 - history.commits.index(candidates[-1])
    writes = len(history.writes) - candidates[-1].writes
    exact = history.content_at(candidates[-1]) == seen.content
    return f"{min(commits, 3)} commits and {min(writes, 9)} writes before, exact: {exact}"


def _opens(crashed: Crashed, seen: Observation, capabilities: Capabilities) -> Iterator[Ruling]:
    expected = "the store to open and work"
    if seen.error:
        late = seen.error.startswith("restoring")
        read = "" if seen.error.startswith("opening") else _whole_read(crashed, capabilities)
        yield Ruling(
            "CRASH-001",
            expected,
            seen.error,
            read,
            after_replay=late,
            reopened=seen.reopened,
            traceback=seen.traceback,
        )
    # After an unclean stop of an older store without transactions, its files cannot be trusted.
    if seen.refused and capabilities.transactional and not _left_by_the_older(crashed):
        text = f"init raised TaskCorruptedError: {seen.refused}"
        yield Ruling(
            "CRASH-001",
            "no request for a wipe, because a transactional store keeps its state",
            text,
        )
    yield Ruling("CRASH-001")


def _whole_read(crashed: Crashed, capabilities: Capabilities) -> str:
    """An expression that reads all that the inspector reads."""
    reads = [OFFSETS_READ, _gets(crashed.keys, {})[0]]
    reads += ["list(store.all())"] if capabilities.scan else []
    reads += ["store.position"] if capabilities.position else []
    return ", ".join(reads)


def _offsets(history: History, offsets: Offsets) -> Iterator[Ruling]:
    found = OFFSETS_READ, _as_read(offsets)
    maps = [commit.offsets for commit in history.commits]
    shown = render(offsets)
    legal = " or ".join(dict.fromkeys(render(each) for each in maps[-2:]))
    end = ends_of(changelog_of(history))
    committed = {partition: offset for each in maps for partition, offset in each.items()}
    for partition, offset in offsets.items():
        if offset > max(end.get(partition, -1), committed.get(partition, -1)):
            yield Ruling("CRASH-010", f"no offset beyond {render(end)}", shown, *found)
        if not any(each.get(partition) == offset for each in maps):
            yield Ruling("CRASH-002", f"a committed offset: {legal}", shown, *found)
    if offsets not in maps:
        yield Ruling("CRASH-007", f"the offsets of one commit: {legal}", shown, *found)
    yield from (Ruling("CRASH-010"), Ruling("CRASH-002"))
    if len(partitions_of(history)) > 1:
        yield Ruling("CRASH-007")


def _as_read(offsets: Offsets) -> list[int | None]:
    """The offsets as :data:`OFFSETS_READ` shows them."""
    return [offsets.get(CHANGELOG), offsets.get(OTHER_CHANGELOG)]


def _gets(keys: Iterable[bytes], content: Mapping[bytes, bytes]) -> tuple[str, Any]:
    """An expression that gets the values of these keys, and its value for a content."""
    names = sorted(keys)
    answer = {key: content.get(key) for key in names}
    return f"{{key: store.get(key) for key in {render(names)}}}", answer


def _durable(history: History, offsets: Offsets) -> Iterator[Ruling]:
    if not history.durable:
        return
    if all(commit.offsets != offsets for commit in history.commits[history.durable :]):
        durable = render(history.commits[history.durable].offsets)
        yield Ruling(
            "CRASH-008",
            f"at least the commit {durable}, which the declared durability covers",
            render(offsets),
            OFFSETS_READ,
            _as_read(offsets),
        )
    yield Ruling("CRASH-008")


def _exact(history: History, candidates: list[Commit], seen: Observation) -> Iterator[Ruling]:
    if not any(history.allows(commit, seen.content) for commit in candidates):
        yield from _invented(history, seen.content)
        last = candidates[-1]
        expected, replayed = history.content_at(last), history.early_values(last)
        later = history.values_since(last)
        for write in history.aborted:
            later.setdefault(write.key, {None}).add(write.value)
        for key in later:
            wanted, found = expected.get(key), seen.content.get(key)
            if found == wanted or found in replayed.get(key, ()):
                continue
            wanted_text = "absent" if wanted is None else brief_source(wanted)
            # A value that was written after the commit came too early. Any other value is a loss.
            early = found in later[key]
            yield Ruling(
                "CRASH-004" if early else "CRASH-003",
                f"{render(key)} to be {wanted_text}, as of the committed offset",
                _too_early(found) if early else brief_source(found),
                f"store.get({render(key)})",
                found,
            )
    held = ("CRASH-003", "CRASH-004", "CRASH-005", "CRASH-006")
    yield from (Ruling(requirement) for requirement in held)


def _too_early(found: bytes | None) -> str:
    """A value, or the lack of one, that is of a write after the last commit."""
    if found is None:
        return "None: the key was deleted, which was not committed"
    return f"{brief_source(found)}, which was not committed"


def _replayable(history: History, candidates: list[Commit], seen: Observation) -> Iterator[Ruling]:
    yield from _invented(history, seen.content)
    allowed = [history.values_since(commit) for commit in candidates]
    for key in allowed[-1]:
        value = seen.content.get(key)
        if not any(value in each[key] for each in allowed):
            wanted = ", ".join(sorted(brief_source(one) for one in allowed[-1][key]))
            yield Ruling(
                "CRASH-005",
                f"{render(key)} to be {wanted}, because the committed offset covers that write",
                brief_source(value),
                f"store.get({render(key)})",
                value,
            )
    yield from (Ruling("CRASH-005"), Ruling("CRASH-006"))


def _invented(history: History, content: dict[bytes, bytes]) -> Iterator[Ruling]:
    written = history.values_ever()
    for key, value in content.items():
        if value not in written.get(key, ()):
            yield Ruling(
                "CRASH-006",
                f"{render(key)} to have a value that was written to this key",
                brief_source(value),
                f"store.get({render(key)})",
                value,
            )


def _scan(seen: Observation) -> Iterator[Ruling]:
    if seen.scanned is not None:
        if dict(seen.scanned) != seen.content or len(seen.scanned) != len(seen.content):
            yield Ruling(
                "CRASH-013",
                f"the entries that get returns: {brief_source(seen.content)}",
                brief_source(seen.scanned),
                "list(store.all())",
                seen.scanned,
            )
        yield Ruling("CRASH-013")


def _position(history: History, candidates: list[Commit], seen: Observation) -> Ruling:
    """The position must be that of the commit. Without transactions, later writes may count."""
    counts = {commit.writes for commit in candidates}
    if not history.exact:
        counts.update(range(min(counts), len(history.writes) + 1))
    legal = [history.position_after(count) for count in sorted(counts)]
    if seen.position in legal:
        return Ruling(POSITION)
    text = " or ".join(dict.fromkeys(render(each) for each in legal))
    return Ruling(
        POSITION,
        f"the position of the commit, by input partition: {text}",
        render(seen.position),
        "store.position.as_dict()",
        {(INPUT_TOPIC, partition): offset for partition, offset in seen.position.items()},
    )


def _unclean_stop(crashed: Crashed, history: History, seen: Observation) -> Ruling:
    """A store without transactions must hold a commit, or else report the unclean stop."""
    # The runtime commits before it closes a store, and restores only committed records. So after a
    # close or during a restoration, a store has no uncommitted write to detect.
    if seen.refused or crashed.closed or crashed.names & {*REPLAYING, "close"}:
        return Ruling("CRASH-009")
    candidates = history.candidates(committed(history, seen))
    contents = [history.content_at(commit) for commit in candidates]
    if seen.content in contents:
        return Ruling("CRASH-009")
    # A store that asks to be wiped is empty afterwards.
    legal = [{}, *contents]
    if seen.scanned is None:
        keys = {key for each in (*contents, seen.content) for key in each}
        (read, answer), right = _gets(keys, seen.content), [_gets(keys, each)[1] for each in legal]
    else:
        read, answer = "list(store.all())", seen.scanned
        right = [sorted(each.items()) for each in legal]
    return Ruling(
        "CRASH-009",
        f"TaskCorruptedError from init, or exactly {brief_source(contents[-1])}",
        f"no error, but {brief_source(seen.content)}",
        read,
        answer,
        legal=right,
    )


def _told(crashed: Crashed) -> Ruling:
    """The error of a store whose disk fails must not blame the caller."""
    if not crashed.raised.startswith(MISLEADING):
        return Ruling(MANNER)
    operation = crashed.program.operations[crashed.started - 1]
    expected = "an error about the disk, such as ProcessorStateError or OSError"
    found = f"{operation.name}() raised {crashed.raised}"
    read = f"error.startswith({MISLEADING})"
    return Ruling(MANNER, expected, found, read, answer=True, traceback=crashed.traceback)


def _restored(history: History, seen: Observation) -> Iterator[Ruling]:
    changelog = changelog_of(history)
    expected = fold(changelog)
    if seen.restored != expected:
        yield Ruling(
            "RESTORE-006",
            f"the fold of the changelog, {brief_source(expected)}",
            brief_source(seen.restored),
            *_gets(expected | seen.restored, seen.restored),
            after_replay=True,
            reopened=seen.reopened,
        )
    ends = ends_of(changelog)
    for partition, offset in zip(partitions_of(history), seen.restored_offsets, strict=True):
        if partition in ends and offset != ends[partition]:
            yield Ruling(
                "RESTORE-006",
                f"the end of the changelog {render(ends)} as the committed offset",
                f"{offset} for {render(partition)}",
                f"store.committed_offset({render(partition)})",
                offset,
                after_replay=True,
                reopened=seen.reopened,
            )
    yield Ruling("RESTORE-006")
