"""Isolation line by line: a commit in the middle of a query, a query in the middle of a commit.

The checks of races let threads run freely, and find what the scheduler brings about. Here two calls
meet at a chosen line, so a seed finds the same races on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from random import Random
from typing import Any, NamedTuple

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.anomaly_checks import KEYS, AnomalyStage, judge
from streamproof.conformance.checks.race_checks import scanned
from streamproof.conformance.interleaving import PATIENCE_S, Pause, Who, meet
from streamproof.conformance.isolation_history import ObservedTransaction, Read
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.program_text import render
from streamproof.conformance.subject_lines import told
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import Skipped, SubjectRaised

SHORT_PATIENCE_S = 0.02
"""How long a call waits once the store has turned out to use a lock, in seconds."""

MOST_VAIN = 2
"""How often a call waits long in vain for another one that needs a lock."""

Meet = Callable[[Trial, int, float], Pause]
"""Lets two calls meet in a new store: the trial, the line at which one waits, and its patience."""


class Query(NamedTuple):
    """A query that meets a write.

    Attributes:
        reader: the number of the reader.
        scans: whether the query reads all keys.
        who: whether the query waits in the middle, which is the ``other`` call, or the write.
    """

    reader: int
    scans: bool
    who: Who


def at_lines(run: CheckRun, promised: Sequence[str], let_meet: Meet) -> None:
    """Let two calls meet at each line of the one that waits, or at some of its lines."""
    with run.trial(promised[0]) as t:
        lines = let_meet(t, 0, PATIENCE_S).lines
    vain = 0
    for line in sorted(chosen(run, lines)):
        with run.trial(promised[0]) as t:
            patience_s = PATIENCE_S if vain < MOST_VAIN else SHORT_PATIENCE_S
            vain += let_meet(t, line, patience_s).was_vain
            for requirement in promised:
                t.claim(requirement, run.check.tried)
                t.held()


def chosen(run: CheckRun, lines: Sequence[tuple[str, int]]) -> list[int]:
    """The numbers of the lines to try: each line once, and first those of the subject's module."""
    numbers = {line: number for number, line in reversed([*enumerate(lines, start=1)])}
    order = Random(run.seed).sample(sorted(numbers.values()), len(numbers))
    mine = getattr(run.subject.module, "__file__", None)
    order.sort(key=lambda number: lines[number - 1][0] != mine)
    return order[: run.settings.limits.meetings]


def met(
    stage: AnomalyStage,
    other: tuple[str, Callable[[], Any]],
    own: Callable[[], None],
    who: Who,
    pause: Pause,
) -> Any:
    """The answer of a call, told as a line of a program, beside calls that handles write down."""
    t, kept = stage.t, len(stage.t.lines)
    text, call = other
    answer, raised = None, None
    try:
        with t.watching(f"{text} beside another call"):
            answer = meet(call, own, pause, who)
    except SubjectRaised as error:
        raised = error.__cause__ or error
    calls = f"lambda: {text}, lambda: [{', '.join(t.lines[kept:])}]"
    t.lines[kept:] = [f"lab.meet({calls}, {who}_line={pause.line})"]
    if raised is not None:
        t.fail("both calls to succeed", told(raised), f"raised-{type(raised).__name__}")
    t.answered(answer)
    return answer


def query_meets_commit(query: Query, t: Trial, line: int, patience_s: float) -> Pause:
    """Let a query and a commit meet, and judge what every reader gets."""
    stage, pause = AnomalyStage(t), Pause(line, patience_s)
    (handle, level), writer = stage.readers[query.reader], stage.writers[0]
    # Every other line reads the key that had no value before.
    key = KEYS[0] if line % 2 else KEYS[-1]
    stage.put(writer, KEYS[0])
    stage.put(writer, KEYS[-1])
    place, spans = len(t.lines), []

    def read() -> Any:
        start = stage.history.now()
        answer = scanned(handle.raw) if query.scans else handle.raw.get(key)
        spans.append(stage.history.span(start))
        return answer

    def write() -> None:
        stage.commit(writer)
        if writer == 0:
            # The next transaction of the store has begun when the query goes on.
            stage.put(writer, KEYS[1])

    text = f"dict({handle.label}.all())" if query.scans else f"{handle.label}.get({key!r})"
    t.claim(stage.blamed(level), t.run.check.tried)
    answer = met(stage, (text, read), write, query.who, pause)
    values = dict.fromkeys(KEYS) | answer if query.scans else {key: answer}
    stage.history.read(Read(handle.label, level, spans[0], values, place=place))
    stage.look()
    judge(stage, t.run.check.tried)
    return pause


@check(
    *("ISO-009", "ISO-011", "ISO-012", "ISO-013", "ISO-016", "ISO-019", "ISO-020"),
    raw=True,
    weight=20,
)
def queries_between_lines(run: CheckRun) -> None:
    """Query before each line of a commit, and commit before each line of a query."""
    promised = promised_by(run)
    with run.trial(promised[0]) as t:
        stage = AnomalyStage(t)
        scans = (False, True) if stage.scans else (False,)
        readers = range(len(stage.readers))
    waiting: tuple[Who, ...] = ("other", "own")
    for query in (Query(*each) for each in product(readers, scans, waiting)):
        at_lines(run, promised, partial(query_meets_commit, query))


def transactions_meet(t: Trial, line: int, patience_s: float) -> Pause:
    """Let a transaction write and commit while another one commits, and judge every reader."""
    stage, pause = AnomalyStage(t), Pause(line, patience_s)
    (one, its), (another, theirs) = stage.transaction(1), stage.transaction(2)
    for key in KEYS:
        stage.put(1, key)
    # Two threads cannot agree on growing offsets.
    offsets = {CHANGELOG: stage.next_offset()}

    def committed(handle: Any, told: ObservedTransaction) -> None:
        start = stage.history.now()
        handle.commit(offsets)
        stage.history.end([told], "committed", stage.history.span(start))

    def write() -> None:
        for key in KEYS:
            stage.put(2, key)
        committed(another, theirs)
        stage.look()

    text = f"{one.label}.commit({render(offsets)})"
    t.claim("ISO-021", t.run.check.tried)
    met(stage, (text, partial(committed, one.raw, its)), write, "other", pause)
    stage.open.clear()
    stage.look()
    judge(stage, t.run.check.tried, "ISO-021")
    return pause


@check("ISO-021", raw=True, weight=10)
def transactions_between_lines(run: CheckRun) -> None:
    """Write and commit a transaction before each line of the commit of another one."""
    at_lines(run, promised_by(run), transactions_meet)


def promised_by(run: CheckRun) -> list[str]:
    """The requirements of a check that apply.

    Raises:
        Skipped: the store runs in another process, where lines cannot be told.
    """
    if run.subject.is_remote:
        raise Skipped("the lines of the store run in another process")
    return [each for each in run.check.requirements if run.applies(each)]
