"""The run log: what is written is read back, and anything else is refused by name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_logs import failure, footer, good_log, header, mixed_log, result, write_log

from streamproof.conformance.results import (
    SCHEMA_VERSION,
    Failure,
    Footer,
    Header,
    Record,
    RequirementResult,
)
from streamproof.errors import StreamproofError
from streamproof.reports import run_log as runlog
from streamproof.reports.run_log import MAX_LINE_BYTES, RunLogWriter, read_run_log
from streamproof.reports.run_log_errors import (
    DuplicateResultError,
    RunLogError,
    RunLogHeaderError,
    RunLogLineError,
    RunLogMissingError,
    RunLogVersionError,
    RunLogWriteError,
)

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_SUBJECTS = ["rocksdb", "cmd:./host", "a|b", "\u202e</script>"]
_NAMES = st.sampled_from(_SUBJECTS)
_HEADERS = st.builds(
    Header, schema_version=st.just(SCHEMA_VERSION), subjects=st.just(header(*_SUBJECTS).subjects)
)
_RESULTS = st.builds(
    RequirementResult,
    subject=_NAMES,
    requirement=st.from_regex(r"[A-Z]{2,5}-[0-9]{3}", fullmatch=True),
    reason=_TEXT,
    duration_s=st.floats(0, 1e6),
)
_FAILURES = st.builds(Failure, subject=_NAMES, found=_TEXT, program=_TEXT)
_FOOTERS = st.none() | st.builds(Footer, duration_s=st.floats(0, 1e6), verdicts=st.just([]))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    _HEADERS,
    st.lists(
        st.one_of(_RESULTS, _FAILURES),
        max_size=8,
        unique_by=lambda each: (each.subject, each.requirement, type(each)),
    ),
    _FOOTERS,
)
def test_what_is_written_is_read_back(
    first: Header, between: list[RequirementResult | Failure], last: Footer | None
) -> None:
    """Any legal list of records comes back equal, with text of every kind in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ndjson"
        with RunLogWriter(path) as writer:
            for record in (first, *between, *([last] if last else [])):
                writer.write(record)
        log = read_run_log(path)
    assert log.header == first
    assert log.results == [each for each in between if isinstance(each, RequirementResult)]
    assert log.failures == [each for each in between if isinstance(each, Failure)]
    assert log.footer == last
    assert log.complete == (last is not None)


def test_each_record_reaches_the_operating_system_at_once(tmp_path: Path) -> None:
    """What was written can be read by others while the writer is still open."""
    path = tmp_path / "run.ndjson"
    with RunLogWriter(path) as writer:
        writer.write(header("rocksdb"))
        writer.write(result())
        assert len(read_run_log(path).results) == 1


def test_a_log_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    """A second writer on the same path is refused, and the log stays as it was."""
    path = write_log(tmp_path / "run.ndjson", good_log())
    before = path.read_bytes()
    with pytest.raises(RunLogWriteError, match="exists already"):
        RunLogWriter(path)
    assert path.read_bytes() == before


def test_a_log_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(RunLogWriteError, match=r"none/run\.ndjson: cannot be created"):
        RunLogWriter(tmp_path / "none" / "run.ndjson")


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([result()], "first record must be the header"),
        ([header("a"), header("a")], "second header"),
        ([header("a"), result("b")], "does not list the subject 'b'"),
        ([header("a"), failure(result("b", status="fail"))], "does not list the subject 'b'"),
        ([header("a"), result("a"), result("a", status="fail")], "KV-001 of a"),
        ([header("a"), footer([], {}), result("a")], "nothing may follow"),
        ([header("a"), footer([], {}), footer([], {})], "nothing may follow"),
    ],
)
def test_the_writer_and_the_reader_refuse_the_same(
    tmp_path: Path, records: list[Record], why: str
) -> None:
    """A record out of its place is refused when written, and when found in a file."""
    path = tmp_path / "run.ndjson"
    with RunLogWriter(path) as writer:
        for record in records[:-1]:
            writer.write(record)
        with pytest.raises(RunLogWriteError, match=why):
            writer.write(records[-1])
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    with pytest.raises(RunLogError):
        read_run_log(path)


def test_a_closed_writer_refuses(tmp_path: Path) -> None:
    """Writing after the end of the context is an error of its own."""
    with RunLogWriter(tmp_path / "run.ndjson") as writer:
        pass
    with pytest.raises(RunLogWriteError, match="closed"):
        writer.write(header("a"))


def test_text_that_json_cannot_hold_does_not_cost_the_record(tmp_path: Path) -> None:
    """Undecodable bytes in a subject's message are written as escapes."""
    log = good_log()
    log.results[0] = msgspec.structs.replace(log.results[0], reason="a\udc80b")
    assert read_run_log(write_log(tmp_path / "run.ndjson", log)).results[0].reason == "a\\udc80b"


def test_an_absurdly_long_message_is_cut_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record over the bound is shortened, and one that cannot be is an error."""
    monkeypatch.setattr(runlog, "MAX_LINE_BYTES", 200_000)
    log = good_log()
    log.results[0] = msgspec.structs.replace(log.results[0], reason="x" * 300_000)
    path = write_log(tmp_path / "run.ndjson", log)
    assert read_run_log(path).results[0].reason.endswith("(234,464 more)")
    log.results[0] = msgspec.structs.replace(log.results[0], checks=["x" * 10] * 50_000)
    with pytest.raises(RunLogWriteError, match="too long"):
        write_log(tmp_path / "other.ndjson", log)


@pytest.mark.parametrize("lost", [1, 2, 40])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path, lost: int) -> None:
    """A killed run's log is read up to its last whole line, and is not complete."""
    path = write_log(tmp_path / "run.ndjson", mixed_log(complete=False))
    path.write_bytes(path.read_bytes()[:-lost])
    log = read_run_log(path)
    assert not log.complete
    # Only the line's end was lost: the record is whole.
    assert len(log.failures) == (2 if lost == 1 else 1)


def _edit(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return apply


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (Path.unlink, RunLogMissingError, "cannot be read"),
        (lambda path: path.write_bytes(b""), RunLogMissingError, "is empty"),
        (_edit(lambda lines: lines[1:]), RunLogHeaderError, "of type 'result'"),
        (_edit(lambda lines: [lines[0][:50]]), RunLogHeaderError, "not a whole header"),
        (_edit(lambda lines: [b"\xff\xfe\n", *lines]), RunLogHeaderError, "not a whole header"),
        (_edit(lambda _: [b"[" * 100_000]), RunLogHeaderError, "not a whole header"),
        (_edit(lambda _: [b"[1]\n"]), RunLogHeaderError, "not a whole header"),
        (
            _edit(lambda lines: [lines[0].replace(b'"schema_version":2', b'"schema_version":0')]),
            RunLogHeaderError,
            "schema_version",
        ),
        (
            _edit(lambda lines: [lines[0].replace(b'"seed":24378', b'"seed":"x"')]),
            RunLogLineError,
            "line 1: .*seed",
        ),
        (_edit(lambda lines: [lines[0], b"{}\n", *lines[1:]]), RunLogLineError, "line 2: .*type"),
        (_edit(lambda lines: [lines[0], b"\n", *lines[1:]]), RunLogLineError, "line 2: not valid"),
        (_edit(lambda lines: [lines[0], b"{\n"]), RunLogLineError, "line 2: not valid"),
        (_edit(lambda lines: [*lines, b'{"type"']), RunLogLineError, "line 10: not valid"),
        (_edit(lambda lines: [*lines[:-1], b"\0" * 9 + b"\n"]), RunLogLineError, "line 9"),
        (
            _edit(lambda lines: [lines[0], lines[1].replace(b'"pass"', b'"green"')]),
            RunLogLineError,
            r"line 2: .*green.*status",
        ),
        (
            _edit(lambda lines: [*lines[:3], lines[2]]),
            DuplicateResultError,
            "line 4: a second result for CRASH-002 of rocksdb",
        ),
        (
            _edit(lambda lines: [lines[0], b"x" * (MAX_LINE_BYTES + 1)]),
            RunLogLineError,
            "line 2: is longer than",
        ),
    ],
)
def test_a_damaged_log_is_refused_by_name(
    tmp_path: Path, damage: Callable[[Path], None], error: type[RunLogError], message: str
) -> None:
    """The error has a type of its own, and says which file, which line and what is wrong."""
    log = mixed_log()
    log.checks.clear()
    log.failures.clear()
    log.results.pop()
    path = write_log(tmp_path / "run.ndjson", log)
    assert len(path.read_bytes().splitlines()) == 9
    damage(path)
    with pytest.raises(error, match=message) as caught:
        read_run_log(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert isinstance(caught.value, StreamproofError)


def test_a_log_of_a_newer_streamproof_says_so(tmp_path: Path) -> None:
    """Even if the header has changed shape since, the reader says upgrade and not broken."""
    path = tmp_path / "run.ndjson"
    path.write_bytes(b'{"type":"header","schema_version":7,"everything":"else"}\n')
    with pytest.raises(RunLogVersionError, match="made by a newer streamproof; upgrade"):
        read_run_log(path)


def test_unknown_fields_are_passed_over(tmp_path: Path) -> None:
    """A field that a later release adds without need for a new version does no harm."""
    path = write_log(tmp_path / "run.ndjson", good_log())
    path.write_bytes(path.read_bytes().replace(b'"core":true', b'"core":true,"later":[1]'))
    assert read_run_log(path) == good_log()
