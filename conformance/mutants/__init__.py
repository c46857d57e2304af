"""Deliberately wrong stores: the checks of one requirement must catch each of them.

A mutant differs from a correct store in one small mistake that people make. Many of the mistakes
are bugs that Kafka had. The mutants show that the checks can fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamproof.conformance.results import Guarantee, Spec

__all__ = ["CANARY", "MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A wrong store.

    Attributes:
        name: the factory in one of the modules of this package.
        mistake: the mistake of the store, in one line.
        requirement: the requirement whose checks must catch the mutant.
        spec: a specification that contains the requirement.
        guarantee: the processing guarantee under which the checks catch the mutant.
        module: the module of this package.
        right: built-in stores without the mistake, which must keep the requirement.
    """

    name: str
    mistake: str
    requirement: str
    spec: Spec = "kips"
    guarantee: Guarantee = "exactly-once"
    module: str = "store_mutants"
    right: tuple[str, ...] = ("rocksdb", "rocksdb-transactional")

    @property
    def subject(self) -> str:
        """The name of the mutant on the command line."""
        return f"{__name__}.{self.module}:{self.name}"


def _windows(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-window", "in-memory-window")
    return Mutant(name, mistake, requirement, module="window_mutants", right=right)


def _sessions(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-session", "in-memory-session")
    return Mutant(name, mistake, requirement, module="window_mutants", right=right)


def _window_transactions(name: str, mistake: str, requirement: str) -> Mutant:
    kind = "session" if requirement.startswith("SESS") else "window"
    right = (f"rocksdb-{kind}-transactional", f"rocksdb-{kind}-timestamped")
    return Mutant(name, mistake, requirement, module="window_mutants", right=right)


def _orders(name: str, mistake: str, requirement: str, *right: str, spec: Spec = "kips") -> Mutant:
    return Mutant(name, mistake, requirement, spec, module="order_mutants", right=right)


def _key_spaces(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="key_space_mutants", right=right)


def _timestamps(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-timestamped", "rocksdb-timestamped-lazy")
    return Mutant(name, mistake, requirement, module="timestamp_mutants", right=right)


def _timed(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb-timestamped", "rocksdb-timestamped-transactional")
    return Mutant(name, mistake, requirement, module="timestamp_contract_mutants", right=right)


def _upgrades(name: str, mistake: str, requirement: str) -> Mutant:
    right = tuple(f"rocksdb-{each}timestamped" for each in ("", "window-", "session-"))
    return Mutant(name, mistake, requirement, module="upgrade_mutants", right=right)


def _crashes(name: str, mistake: str, requirement: str) -> Mutant:
    right = (f"{__name__}.crash_mutants:journalled", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="crash_mutants", right=right)


def _power(name: str, mistake: str, requirement: str) -> Mutant:
    right = tuple(f"{__name__}.power_mutants:{store}" for store in ("durable", "whole_file"))
    if requirement == "POWER-010":
        right = ("rocksdb",)
    special = {"POWER-018": "logged", "CRASH-019": "importing", "POWER-019": "importing"}
    if requirement in special:
        right = (f"{__name__}.power_mutants:{special[requirement]}",)
    return Mutant(name, mistake, requirement, module="power_mutants", right=right)


def _logged(name: str, mistake: str) -> Mutant:
    right = ("rocksdb-stack", "rocksdb-window-stack-transactional")
    return Mutant(name, mistake, "RESTORE-017", module="layer_mutants", right=right)


def _basics(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "in-memory")
    return Mutant(name, mistake, requirement, module="basic_mutants", right=right)


def _staged(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="transaction_mutants", right=right)


def _interface(
    name: str,
    mistake: str,
    requirement: str,
    *right: str,
    guarantee: Guarantee = "exactly-once",
) -> Mutant:
    right = right or ("rocksdb-transactional", "rocksdb-session-transactional")
    return Mutant(
        name, mistake, requirement, guarantee=guarantee, module="interface_mutants", right=right
    )


def _hygiene(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb", "rocksdb-transactional", "in-memory")
    return Mutant(name, mistake, requirement, module="hygiene_mutants", right=right)


def _anomalies(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-transactional", "rocksdb", "in-memory")
    return Mutant(name, mistake, requirement, module="anomaly_mutants", right=right)


def _tasks(
    name: str, mistake: str, requirement: str, guarantee: Guarantee = "exactly-once"
) -> Mutant:
    right = ("in-memory", "rocksdb-transactional", f"{__name__}.crash_mutants:journalled")
    return Mutant(
        name, mistake, requirement, guarantee=guarantee, module="task_mutants", right=right
    )


def _queries(
    name: str, mistake: str, requirement: str, guarantee: Guarantee = "exactly-once"
) -> Mutant:
    right = ("in-memory", "rocksdb-transactional")
    return Mutant(
        name, mistake, requirement, guarantee=guarantee, module="query_mutants", right=right
    )


def _metamorphic(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="metamorphic_mutants", right=right)


def _contract(
    name: str,
    mistake: str,
    requirement: str,
    *right: str,
    spec: Spec = "kips",
    guarantee: Guarantee = "exactly-once",
) -> Mutant:
    right = right or ("rocksdb-transactional", "rocksdb-window-transactional")
    return Mutant(name, mistake, requirement, spec, guarantee, "contract_mutants", right)


def _commits(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="commit_mutants", right=right)


def _right(name: str) -> str:
    """A store of ``contract_mutants`` that makes no mistake."""
    return f"{__name__}.contract_mutants:{name}"


CANARY = Mutant(
    "offsets_written_before_rows",
    "commit writes the offsets, but only close writes the rows",
    "CRASH-005",
    module="canary_mutant",
    right=("rocksdb", "rocksdb-transactional"),
)
"""The mutant that every run tries first. If a run does not catch it, its answers are worthless."""

MUTANTS = (
    CANARY,
    Mutant(
        "offsets_flushed_before_data",
        "flush writes the offsets column family to disk before the data",
        "CRASH-003",
    ),
    Mutant(
        "offsets_in_a_write_before_rows",
        "a commit writes its offsets first, and its rows in a second write",
        "CRASH-003",
    ),
    Mutant(
        "data_flushed_alone",
        "flush writes the data column family to disk but leaves the offsets in memory",
        "CRASH-004",
    ),
    Mutant(
        "closed_one_by_one",
        "close flushes one column family after the other, as rocksdict does by default",
        "CRASH-011",
    ),
    Mutant(
        "tombstones_dropped_on_commit", "commit applies staged puts but no staged deletes", "KV-004"
    ),
    Mutant("range_end_exclusive", "the upper bound of a range is exclusive", "RANGE-003"),
    Mutant("live_iterator", "an open iterator shows later writes", "RANGE-011"),
    Mutant(
        "stale_offset_after_empty_commit",
        "commit({}) keeps the committed offsets",
        "OFFSET-005",
        "kafka-4.4",
    ),
    Mutant("transaction_leaks_on_close", "close does not close open transactions", "TXN-009"),
    Mutant("three_transactions_close", "close closes only three open transactions", "TXN-009"),
    Mutant(
        "transactions_close_after_their_store",
        "close leaves transactions open if the database cannot be closed",
        "TXN-026",
        right=("rocksdb-transactional", "rocksdb-window-segments-transactional"),
    ),
    Mutant("put_all_bypasses_transaction", "put_all bypasses the transaction", "TXN-008"),
    Mutant("committed_reader_sees_staged", "a READ_COMMITTED view reads staged writes", "ISO-001"),
    Mutant("commit_row_by_row", "commit applies its rows one at a time", "ISO-007"),
    Mutant("largest_offset_wins", "commit ignores an offset below the previous one", "OFFSET-002"),
    Mutant(
        "checkpoint_wins",
        "the offset in a .checkpoint replaces the store's own at every opening",
        "OFFSET-014",
    ),
    Mutant("restore_skips_tombstones", "restoring ignores records without a value", "RESTORE-002"),
    Mutant("empty_value_deletes", "the store treats an empty value as a tombstone", "KV-008"),
    Mutant(
        "prefix_end_overflows",
        "the store increments a prefix that ends in 0xFF wrongly",
        "RANGE-009",
    ),
    Mutant(
        "offsets_among_data",
        "the store keeps offsets among the data, and scans show them",
        "RANGE-014",
    ),
    Mutant(
        "offset_under_a_reserved_key",
        "the store keeps the offset under a key that users cannot have",
        "OFFSET-017",
    ),
    Mutant(
        "partitions_in_two_bytes", "offsets belong to a partition number of two bytes", "OFFSET-010"
    ),
    Mutant("long_topics_are_cut", "offsets belong to the first 128 bytes of a topic", "OFFSET-010"),
    Mutant("unclean_stop_unnoticed", "the store does not record an unclean stop", "CRASH-009"),
    _windows("window_bound_exclusive", "the upper time bound is exclusive", "WIN-007"),
    _windows(
        "longer_keys_match", "a fetch also yields longer keys that begin with the key", "WIN-017"
    ),
    _windows("backward_is_forward", "a backward fetch yields the forward order", "WIN-009"),
    _windows("window_end_overflows", "the end of a window exceeds the largest time", "WIN-019"),
    _windows("late_windows_kept", "the store keeps windows beyond their retention", "WIN-032"),
    _windows("retention_off_by_one", "the store drops the oldest window too early", "WIN-031"),
    _windows(
        "commit_restarts_the_count", "a commit sets the number of dropped windows to 0", "WIN-052"
    ),
    _windows(
        "open_iterators_skip_deleted_windows",
        "an open iterator leaves out windows that are deleted later",
        "WIN-042",
    ),
    _sessions("removals_are_not_logged", "remove sends nothing to the changelog", "SESS-047"),
    _windows("drops_uncounted", "the store does not count dropped records", "WIN-033"),
    _windows("delete_takes_all_windows", "a delete removes every window of the key", "WIN-004"),
    _windows("restored_late_windows_kept", "restoring does not count late records", "WIN-047"),
    Mutant(
        "duplicates_overwrite",
        "a put into the same window replaces the previous value",
        "WIN-025",
        module="window_mutants",
        right=("rocksdb-window-duplicates",),
    ),
    Mutant(
        "numbers_run_out",
        "the number of duplicates does not begin anew behind the largest one",
        "WIN-025",
        module="window_mutants",
        right=("rocksdb-window-duplicates",),
    ),
    Mutant(
        "drops_counted_again",
        "each commit counts all dropped records so far",
        "METRIC-011",
        module="window_mutants",
        right=("rocksdb-window-timestamped-stack", "rocksdb-session-timestamped-stack"),
    ),
    Mutant(
        "staged_windows_show",
        "a READ_COMMITTED view reads staged windows",
        "WIN-049",
        module="window_mutants",
        right=("rocksdb-window-transactional",),
    ),
    _window_transactions(
        "transactions_share_the_stream_time",
        "a rollback keeps the stream time of a staged window",
        "WIN-055",
    ),
    _window_transactions(
        "session_transactions_share_the_stream_time",
        "a rollback keeps the stream time of a staged session",
        "SESS-050",
    ),
    _window_transactions(
        "views_follow_the_staged_time",
        "a READ_COMMITTED view lets windows expire by the staged stream time",
        "WIN-056",
    ),
    _window_transactions(
        "session_views_follow_the_staged_time",
        "a READ_COMMITTED view lets sessions expire by the staged stream time",
        "SESS-051",
    ),
    Mutant(
        "segments_deleted_in_place",
        "an expired segment is deleted file by file under its own name",
        "CRASH-001",
        guarantee="at-least-once",
        module="window_mutants",
        right=("rocksdb-window-segments",),
    ),
    Mutant(
        "newest_segment_offset",
        "the store reports the newest segment's offset for all segments",
        "CRASH-005",
        guarantee="at-least-once",
        module="window_mutants",
        right=("rocksdb-window-segments",),
    ),
    _sessions(
        "touching_sessions_missed", "a search leaves out sessions that touch its bounds", "SESS-011"
    ),
    _sessions("session_start_ignored", "a search compares only the ends of sessions", "SESS-010"),
    _sessions("sessions_by_start", "sessions come in order of their starts", "SESS-008"),
    _sessions(
        "remove_needs_only_the_end", "remove compares only the end of the session", "SESS-004"
    ),
    _sessions("expired_sessions_found", "searches find expired sessions", "SESS-026"),
    _timestamps("older_timestamp_ignored", "a write with an older timestamp is ignored", "TS-005"),
    _timestamps("record_timestamp_ignored", "a plain put writes no timestamp", "TS-003"),
    _timestamps("restored_without_timestamp", "restoring loses timestamps", "TS-014"),
    _timestamps("restored_again_without_timestamp", "restoring again loses timestamps", "TS-015"),
    _timestamps(
        "timestamps_are_guessed", "restoring guesses which values have a timestamp", "TS-016"
    ),
    _timestamps("old_values_at_time_zero", "old values get the timestamp 0", "UPGRADE-008"),
    _timestamps(
        "old_entries_come_back", "a delete keeps the entry in the old format", "UPGRADE-006"
    ),
    _timestamps("scans_miss_old_entries", "scans read only the new format", "UPGRADE-003"),
    _timed(
        "timestamp_in_little_endian",
        "the stored timestamp is in little-endian order",
        "TS-019",
        "rocksdb-timestamped",
        "rocksdb-timestamped-lazy",
    ),
    _timed(
        "timestamp_behind_the_value",
        "the timestamp is stored behind the value",
        "TS-019",
        "rocksdb-window-timestamped",
        "rocksdb-session-timestamped",
    ),
    _timed(
        "timestamp_beside_its_sign",
        "a negative timestamp is stored as an amount and a sign",
        "TS-019",
    ),
    _timed(
        "delete_returns_the_stored_bytes",
        "a plain delete returns the timestamp before the value",
        "TS-002",
    ),
    _timed(
        "reverse_scans_yield_the_stored_bytes",
        "plain scans in reverse yield the timestamp before each value",
        "TS-012",
    ),
    _timed(
        "stored_bytes_logged",
        "the changelog gets the timestamp before the value",
        "TS-020",
        "rocksdb-timestamped-stack",
    ),
    _timed(
        "windows_logged_at_record_time",
        "the changelog gets the time of the input record",
        "TS-020",
        "rocksdb-window-timestamped-stack",
        "rocksdb-session-timestamped-stack",
    ),
    _timed(
        "sessions_logged_at_record_time",
        "the changelog gets the time of the input record",
        "TS-020",
        "rocksdb-session-timestamped-stack",
    ),
    _timed(
        "pairs_logged_at_record_time",
        "the changelog gets pairs at the time of the input record",
        "TS-020",
        "rocksdb-timestamped-stack",
        "rocksdb-window-timestamped-stack",
    ),
    _timed("views_lose_timestamps", "views answer with the timestamp -1", "TS-021"),
    _timed(
        "view_scans_lose_timestamps",
        "scans of views yield the timestamp -1",
        "TS-026",
        "rocksdb-window-timestamped",
        "in-memory-window-timestamped",
        "in-memory-timestamped",
    ),
    _timed(
        "view_searches_ignore_their_times",
        "searches of views ignore the times",
        "TS-026",
        "rocksdb-session-timestamped",
        "in-memory-session-timestamped",
    ),
    _timed(
        "pairs_put_at_record_time",
        "a pair is put without its timestamp",
        "TS-022",
        "rocksdb-timestamped",
        "rocksdb-window-timestamped",
        "in-memory-session-timestamped",
    ),
    _timed(
        "window_scans_ignore_their_times",
        "fetch_all with timestamps ignores the times",
        "TS-023",
        "in-memory-window-timestamped",
        "rocksdb-window-timestamped",
    ),
    _timed(
        "window_fetches_ignore_the_last_time",
        "fetch_between with timestamps ignores the later time",
        "TS-023",
        "in-memory-window-timestamped",
        "rocksdb-window-timestamped",
    ),
    _timed(
        "window_ranges_ignore_the_first_key",
        "fetch_range with timestamps ignores the first key",
        "TS-023",
        "in-memory-window-timestamped",
        "rocksdb-window-timestamped",
    ),
    _timed(
        "plain_window_scans_yield_the_stored_bytes",
        "a plain fetch_all yields the timestamp before each value",
        "TS-023",
        "in-memory-window-timestamped",
        "rocksdb-window-timestamped",
    ),
    _timed(
        "puts_into_the_first_window",
        "a put without a window goes into the window at 0",
        "TS-024",
        "in-memory-window-timestamped",
        "rocksdb-window-timestamped",
    ),
    _timed(
        "puts_into_the_window_of_the_timestamp",
        "a put without a window goes into the window at the timestamp of the value",
        "TS-024",
        "in-memory-window-timestamped",
        "rocksdb-window-timestamped",
    ),
    _timed(
        "removed_sessions_are_empty",
        "remove leaves the session with an empty aggregate",
        "TS-025",
        "in-memory-session-timestamped",
        "rocksdb-session-timestamped",
    ),
    _timed(
        "session_searches_ignore_the_last_key",
        "a search in a range of keys with timestamps ignores the last key",
        "TS-025",
        "in-memory-session-timestamped",
        "rocksdb-session-timestamped",
    ),
    _timed(
        "session_searches_ignore_starts",
        "a search with timestamps ignores the latest start",
        "TS-025",
        "in-memory-session-timestamped",
        "rocksdb-session-timestamped",
    ),
    _upgrades(
        "windows_share_a_directory", "both formats of windows share a directory", "UPGRADE-003"
    ),
    _upgrades(
        "sessions_share_a_directory", "both formats of sessions share a directory", "UPGRADE-009"
    ),
    _upgrades(
        "format_without_a_version", "the directory of the format has no version", "UPGRADE-024"
    ),
    _upgrades(
        "new_store_without_a_version",
        "the directory of a store that is made anew has no version",
        "UPGRADE-024",
    ),
    _upgrades("plain_store_replaced", "the plain store writes timestamps", "UPGRADE-025"),
    _upgrades(
        "roll_over_makes_a_new_format", "a new format is made before a roll-over", "UPGRADE-026"
    ),
    _upgrades("roll_over_rebuilds", "a new format is filled before a roll-over", "UPGRADE-027"),
    Mutant(
        "downgrade_forgets_other_stores",
        "a downgrade drops the offsets of other stores",
        "UPGRADE-037",
        module="upgrade_mutants",
        right=("rocksdb",),
    ),
    _upgrades("readiness_not_logged", "the log does not say that a store is ready", "UPGRADE-028"),
    _upgrades(
        "readiness_not_logged_again",
        "a complete format is not reported when it is opened again",
        "UPGRADE-028",
    ),
    _upgrades("any_mode_accepted", "every mode of an upgrade is accepted", "UPGRADE-029"),
    _upgrades("drafted_mode_accepted", "the mode of a draft is accepted", "UPGRADE-029"),
    _upgrades(
        "one_release_prepares_nothing",
        "an upgrade in place from one release opens the new format at once",
        "UPGRADE-030",
    ),
    _upgrades("any_release_accepted", "every release in upgrade.from is accepted", "UPGRADE-030"),
    _upgrades("mode_not_needed", "an old release without a mode is accepted", "UPGRADE-031"),
    _upgrades("mode_alone_prepares_an_upgrade", "a mode alone prepares an upgrade", "UPGRADE-032"),
    _upgrades("downgrade_prepares_an_upgrade", "a downgrade prepares an upgrade", "UPGRADE-033"),
    _upgrades(
        "rebuilt_windows_lose_rows", "a rebuild keeps its offset before its rows", "UPGRADE-019"
    ),
    _upgrades(
        "rebuilt_sessions_lose_rows", "a rebuild keeps its offset before its rows", "UPGRADE-034"
    ),
    _upgrades("windows_rebuilt_in_part", "the rebuild applies some records", "UPGRADE-017"),
    _upgrades("rebuilds_without_timestamps", "the rebuild drops all timestamps", "UPGRADE-017"),
    _upgrades(
        "offline_upgrade_takes_rows_over",
        "an offline upgrade takes over rows without timestamps",
        "UPGRADE-035",
    ),
    Mutant(
        "migrates_in_two_steps",
        "the upgrade deletes an old entry before it writes the new one",
        "UPGRADE-013",
        guarantee="at-least-once",
        module="timestamp_mutants",
        right=("rocksdb-timestamped-lazy",),
    ),
    _timestamps(
        "downgrade_shows_nothing",
        "the older store ignores newer files and starts empty",
        "UPGRADE-009",
    ),
    Mutant(
        "offset_without_the_old_data",
        "the upgrade takes over the committed offset but no entry",
        "UPGRADE-003",
        module="timestamp_mutants",
        right=("rocksdb",),
    ),
    Mutant(
        "position_not_kept", "a restart loses the position", "POS-007", module="position_mutants"
    ),
    Mutant(
        "position_goes_back",
        "the latest offset wins, not the largest",
        "POS-003",
        module="position_mutants",
    ),
    Mutant(
        "position_mixes_partitions",
        "the partitions of a topic share one offset",
        "POS-004",
        module="position_mutants",
    ),
    Mutant(
        "position_of_staged_writes",
        "staged writes move the position of the store",
        "POS-010",
        module="position_mutants",
        right=("rocksdb-transactional",),
    ),
    Mutant(
        "position_of_the_commit_before",
        "a commit stores the position of the previous commit",
        "POS-012",
        module="position_mutants",
        right=("rocksdb", "rocksdb-transactional"),
    ),
    Mutant(
        "cache_not_flushed_before_the_commit",
        "a commit covers writes that are still in the cache",
        "RESTORE-012",
        module="layer_mutants",
        right=("rocksdb-stack",),
    ),
    _logged("put_if_absent_not_logged", "the store does not log what put_if_absent writes"),
    _logged("deletions_of_a_batch_not_logged", "the store does not log the deletions of put_all"),
    _logged("removed_sessions_not_logged", "the store does not log what remove deletes"),
    _logged("deleted_windows_not_logged", "the store does not log deleted windows"),
    Mutant(
        "commit_counted_twice",
        "the metrics count each commit twice",
        "METRIC-004",
        module="layer_mutants",
        right=("rocksdb-stack",),
    ),
    Mutant(
        "metrics_stay_behind",
        "close does not unregister the metrics",
        "METRIC-009",
        module="layer_mutants",
        right=("rocksdb-stack",),
    ),
    Mutant(
        "last_record_of_a_batch_lost",
        "restoring loses the last record of a batch",
        "LISTEN-001",
        module="layer_mutants",
    ),
    _crashes(
        "journal_deleted_before_it_is_applied",
        "recovery deletes the journal before the snapshot contains it",
        "CRASH-016",
    ),
    _crashes(
        "recovery_moves_the_snapshot_aside",
        "an interrupted recovery cannot be repeated",
        "CRASH-016",
    ),
    _crashes(
        "offsets_of_all_stores_together",
        "a commit also writes its offsets into the other stores of the process",
        "CRASH-017",
    ),
    _crashes(
        "snapshot_deleted_before_the_merge",
        "a merge deletes the old snapshot before it writes the new one",
        "CRASH-018",
    ),
    _crashes(
        "restore_commits_its_end_first",
        "restoring stores the offset of a batch before its records",
        "RESTORE-015",
    ),
    _crashes(
        "second_upgrade_deletes_first",
        "a repeated upgrade deletes the old data before it copies the data",
        "UPGRADE-020",
    ),
    _crashes(
        "large_values_beside",
        "values from 32 KiB on are written to files of their own before the commit",
        "CRASH-004",
    ),
    _crashes(
        "large_commits_in_parts", "a commit writes at most a thousand rows at once", "CRASH-004"
    ),
    _crashes("staged_rows_spill", "staged rows that fill a buffer are written out", "CRASH-004"),
    _crashes("full_disk_ignored", "a commit ignores a full disk", "ERR-008"),
    _crashes("journal_deleted_after_an_error", "a failed commit deletes the journal", "ERR-009"),
    _crashes("disk_error_as_type_error", "a failed write raises a TypeError", "ERR-010"),
    _anomalies("scans_show_staged_rows", "scans of a view show staged rows", "ISO-009"),
    _anomalies(
        "rolled_back_rows_are_reused",
        "the next transaction inherits the rows of a rollback",
        "ISO-010",
    ),
    _anomalies(
        "overwritten_rows_reach_the_store",
        "readers see overwritten values of a transaction",
        "ISO-011",
    ),
    _anomalies(
        "last_row_of_a_commit_comes_late", "a commit becomes visible in two steps", "ISO-012"
    ),
    _anomalies(
        "reader_goes_back_to_an_older_snapshot",
        "a view returns an older value after a newer one",
        "ISO-013",
    ),
    _anomalies("commit_writes_back_what_was_read", "a commit undoes another commit", "ISO-014"),
    _anomalies(
        "transactions_read_each_other",
        "a transaction reads the rows of another transaction",
        "ISO-015",
    ),
    _anomalies("view_keeps_what_it_read", "no commit clears the cache of a view", "ISO-016"),
    _anomalies(
        "commit_clears_other_transactions",
        "a commit discards the rows of other transactions",
        "ISO-017",
    ),
    _anomalies(
        "uncommitted_view_is_a_copy", "a READ_UNCOMMITTED view reads an old copy", "ISO-019"
    ),
    _anomalies(
        "uncommitted_view_takes_no_lock", "a view reads a transaction that has ended", "ISO-019"
    ),
    _anomalies("plain_view_keeps_what_it_read", "a view keeps stale values in a cache", "ISO-020"),
    _anomalies(
        "committing_threads_share_a_batch", "concurrent commits write each other's rows", "ISO-021"
    ),
    _power(
        "renamed_before_it_is_synced",
        "the store renames a snapshot before it syncs the snapshot",
        "POWER-004",
    ),
    _power(
        "directory_never_synced",
        "the store does not sync the directory after a rename",
        "POWER-009",
    ),
    _power(
        "directory_made_without_a_sync",
        "the store does not sync the name of its directory",
        "POWER-014",
    ),
    _power(
        "journal_never_synced",
        "the store declares commits durable but does not sync them",
        "POWER-009",
    ),
    _power("flush_that_syncs_nothing", "flush returns before the data is on the disk", "POWER-010"),
    _power(
        "offsets_synced_and_data_not",
        "a commit syncs the offsets but not the data",
        "POWER-001",
    ),
    _power(
        "data_and_offsets_synced_at_the_end",
        "a commit writes two files and syncs both only at the end",
        "POWER-003",
    ),
    _power(
        "partitions_committed_one_by_one",
        "a commit syncs the partitions one by one",
        "POWER-007",
    ),
    _power("torn_frame_accepted", "recovery accepts a torn frame of the journal", "POWER-002"),
    _power(
        "journal_written_over_too_early",
        "the store overwrites the journal too early",
        "POWER-005",
    ),
    _power("close_syncs_nothing", "close does not sync the last snapshot", "POWER-011"),
    _power(
        "upgrade_syncs_nothing",
        "the upgrade deletes the older files too early",
        "POWER-012",
    ),
    _power("recovery_syncs_nothing", "recovery does not sync its result", "POWER-016"),
    _power(
        "restored_records_never_synced", "the store does not sync restored records", "POWER-017"
    ),
    _power(
        "journal_goes_on_behind_a_tear", "the store appends frames after a torn frame", "POWER-008"
    ),
    _crashes(
        "offsets_alone_kept_in_memory",
        "the store writes nothing in a commit that has offsets and no writes",
        "CRASH-008",
    ),
    _power(
        "offsets_alone_never_synced",
        "the store syncs a commit only if it has writes",
        "POWER-009",
    ),
    _power(
        "offsets_forgotten_before_the_import",
        "the store removes the offsets of an older version before it has them",
        "CRASH-019",
    ),
    _power(
        "offsets_imported_one_by_one",
        "the store imports the offsets of an older version in several commits",
        "CRASH-019",
    ),
    _power(
        "import_never_synced",
        "the store does not sync the offsets that it takes over from an older version",
        "POWER-019",
    ),
    _power(
        "offsets_in_a_disposable_file",
        "the store keeps its offsets in a file that it declares disposable",
        "POWER-018",
    ),
    _power(
        "empty_log_of_a_new_store",
        "the store begins anew where a file that it declares disposable is empty",
        "POWER-018",
    ),
    Mutant(
        "loss_of_power_unnoticed",
        "the store does not record a loss of power",
        "POWER-015",
        module="power_mutants",
        right=("rocksdb",),
    ),
    _basics("open_flag_stays", "is_open stays true after close", "LIFE-001"),
    _basics("close_twice_raises", "a second close raises", "LIFE-002"),
    _basics("closed_store_is_empty", "get on a closed store returns None", "LIFE-006"),
    _basics("rows_of_the_class", "the stores of a process share their rows", "LIFE-007"),
    _basics("put_if_absent_overwrites", "put_if_absent overwrites existing values", "KV-009"),
    _basics(
        "first_entry_of_a_batch_wins",
        "put_all keeps the first value of a key, not the last",
        "KV-010",
    ),
    _basics("delete_tells_nothing", "delete always returns None", "KV-005"),
    _basics("none_is_no_value", "the store ignores a put of None", "KV-007"),
    _basics("keys_end_at_a_zero", "keys lose their trailing zero bytes", "KV-011"),
    _basics("lengths_of_two_bytes", "the store cuts values at 64 KiB", "KV-013"),
    _basics(
        "large_values_are_lost_at_opening",
        "values of more than 64 KiB are lost when the store is closed",
        "LIFE-003",
        "rocksdb",
    ),
    _basics("batches_miss_the_cache", "put_all does not clear the read cache", "KV-015"),
    _basics(
        "inverted_ranges_are_turned", "the store swaps the bounds of an inverted range", "RANGE-005"
    ),
    _basics("the_empty_prefix_finds_nothing", "a scan for the empty prefix is empty", "RANGE-009"),
    _basics("one_key_backward_is_none", "a reverse range with equal bounds is empty", "RANGE-008"),
    _basics("new_store_is_at_zero", "a new store reports the offset 0", "OFFSET-001", "rocksdb"),
    _basics(
        "commit_replaces_all_offsets",
        "a commit forgets the partitions that it does not name",
        "OFFSET-004",
        "rocksdb",
    ),
    _basics("offsets_of_four_bytes", "offsets overflow above 2^31", "OFFSET-007", "rocksdb"),
    Mutant(
        "none_is_offset_zero",
        "the store keeps None as the offset 0",
        "OFFSET-006",
        "kafka-4.4",
        module="basic_mutants",
        right=("rocksdb",),
    ),
    _basics(
        "partition_appended_to_the_topic",
        "the store confuses partition 11 of topic t with partition 1 of topic t1",
        "OFFSET-010",
        "rocksdb",
    ),
    _basics(
        "commit_without_writes_is_skipped",
        "a commit without writes does not move the offset",
        "OFFSET-011",
        "rocksdb",
    ),
    _basics(
        "commit_with_nothing_new_raises", "a second commit of the same offsets raises", "COMMIT-003"
    ),
    _basics(
        "commit_flushes_nothing",
        "the store has only flush, and its commit does not call flush",
        "COMMIT-012",
        "single-file",
    ),
    _basics(
        "flush_is_refused",
        "the deprecated flush raises instead of doing nothing",
        "LIFE-020",
        "in-memory",
        "single-file",
    ),
    _basics(
        "offsets_left_to_the_runtime",
        "a persistent store leaves its offsets to the runtime",
        "LIFE-021",
        "rocksdb",
    ),
    _basics("flush_commits", "flush commits", "COMMIT-005", "rocksdb-transactional"),
    _basics("close_commits", "close commits", "COMMIT-004", "rocksdb-transactional"),
    _basics(
        "large_transactions_spill",
        "staged rows above 64 KiB reach the database",
        "COMMIT-004",
        "rocksdb-transactional",
    ),
    _basics(
        "many_staged_rows_spill",
        "more than 1,000 staged rows reach the database",
        "COMMIT-004",
        "rocksdb-transactional",
    ),
    _basics(
        "commit_discards_what_is_staged",
        "commit closes the transaction first and finds nothing to apply",
        "COMMIT-001",
        "rocksdb-transactional",
    ),
    _basics("none_key_is_the_empty_key", "the store treats a key of None as b''", "ERR-001"),
    _basics("batch_written_up_to_the_bad_key", "the store writes a part of a bad batch", "ERR-002"),
    _basics(
        "another_directory_will_do",
        "the store opens elsewhere if its directory is unusable",
        "ERR-004",
        "rocksdb",
    ),
    _basics("rows_limited_in_number", "the store drops rows that were long unused", "KV-018"),
    _crashes("rows_limited_in_bytes", "the store drops old rows to limit its files", "KV-018"),
    _basics("iterators_outlive_their_store", "iterators keep yielding after close", "ERR-007"),
    _staged("transaction_reads_the_store", "a transaction does not read its own writes", "TXN-001"),
    _staged("transaction_scans_the_store", "scans of a transaction miss staged writes", "TXN-003"),
    _staged("failed_commit_discards", "a commit that fails discards what was staged", "ERR-012"),
    _staged("closed_transaction_is_committed", "closing a transaction commits it", "TXN-004"),
    _staged("ended_transaction_goes_on", "an ended transaction accepts writes", "TXN-006"),
    _staged("ended_transaction_scans_prefixes", "an ended transaction scans a prefix", "TXN-006"),
    _timed(
        "ended_transaction_reads_timestamps",
        "an ended transaction answers with timestamps",
        "TXN-006",
        "rocksdb-timestamped-transactional",
        "rocksdb-window-timestamped",
    ),
    _window_transactions(
        "ended_transaction_fetches_backward",
        "an ended transaction fetches windows backward",
        "TXN-006",
    ),
    _staged(
        "uncommitted_bytes_never_fall", "committed bytes still count as uncommitted", "TXN-032"
    ),
    _staged("staged_deletes_are_not_counted", "staged deletes do not count", "TXN-010"),
    _staged(
        "commit_takes_two_transactions",
        "a commit of the store skips an open transaction",
        "TXN-013",
    ),
    _staged(
        "batch_of_a_transaction_is_written", "put_all in a transaction is not staged", "TXN-017"
    ),
    _staged(
        "first_record_of_a_key_wins",
        "restoring keeps the first record of a key, not the last",
        "RESTORE-003",
    ),
    _staged(
        "restored_again_is_added",
        "a second restoration adds to the existing values",
        "RESTORE-004",
        "in-memory",
    ),
    _staged("restored_records_are_staged", "restored records stay uncommitted", "RESTORE-009"),
    _staged(
        "restored_values_lose_a_timestamp",
        "restoring strips bytes that look like a timestamp",
        "RESTORE-011",
    ),
    _staged("deletes_are_not_logged", "delete logs nothing", "RESTORE-013", "rocksdb-stack"),
    _staged("restoring_is_logged", "restored records are logged", "RESTORE-014", "rocksdb-stack"),
    _staged("empty_batch_raises", "restoring an empty batch raises", "LISTEN-005"),
    _staged("last_chunk_of_a_batch_lost", "large batches lose their last records", "LISTEN-007"),
    _staged("restoring_closes_iterators", "restoring ends open iterators", "LISTEN-008"),
    _staged(
        "metrics_without_the_task",
        "the metrics have no tag for the task",
        "METRIC-002",
        "rocksdb-stack",
    ),
    _staged(
        "commit_is_a_flush", "the metrics count a commit as a flush", "METRIC-006", "rocksdb-stack"
    ),
    _staged(
        "commits_take_no_time", "the latency of each commit is 0", "METRIC-005", "rocksdb-stack"
    ),
    _staged(
        "largest_latency_is_the_mean",
        "commit-latency-max is the mean latency",
        "METRIC-005",
        "rocksdb-stack",
    ),
    _staged(
        "mean_latency_is_the_last",
        "commit-latency-avg is the last latency",
        "METRIC-005",
        "rocksdb-stack",
    ),
    _staged("flush_metrics_are_gone", "there are no flush metrics", "METRIC-006", "rocksdb-stack"),
    _staged(
        "staged_bytes_are_not_counted",
        "uncommitted-bytes is always 0",
        "METRIC-007",
        "rocksdb-stack-transactional",
    ),
    Mutant(
        "staged_bytes_are_unknown",
        "uncommitted-bytes is always -1, which Kafka does not have",
        "METRIC-007",
        spec="kafka-4.4",
        module="transaction_mutants",
        right=("rocksdb-stack-transactional",),
    ),
    _staged(
        "commits_of_all_tasks_together",
        "the stores of several tasks share their metrics",
        "METRIC-010",
        "rocksdb-stack",
    ),
    _staged("batches_move_no_position", "put_all does not move the position", "POS-005"),
    _staged("position_is_given_away", "a reader can change the position", "POS-011"),
    _metamorphic(
        "scans_miss_the_boundary_of_a_commit", "scans miss the last key of a commit", "COMMIT-009"
    ),
    _metamorphic("opening_compacts_values", "opening the store empties some values", "COMMIT-010"),
    _metamorphic(
        "first_record_of_a_batch_counts",
        "a batch keeps the first record of a key, not the last",
        "RESTORE-005",
    ),
    _metamorphic(
        "restoring_again_appends",
        "a second restoration appends to the existing values",
        "RESTORE-004",
    ),
    _metamorphic(
        "restored_values_lose_their_zeros",
        "restored values lose their trailing zero bytes",
        "RESTORE-016",
    ),
    _metamorphic("keys_share_a_slot", "keys with the same hash replace each other", "KV-016"),
    _metamorphic(
        "put_if_absent_tells_the_new_value", "put_if_absent returns the new value", "KV-017"
    ),
    _metamorphic(
        "delete_wins_in_a_transaction",
        "a transaction ignores a put after a delete",
        "TXN-018",
        "rocksdb-transactional",
    ),
    _metamorphic("open_ranges_end_at_ff", "ranges without an upper bound end at 0xFF", "RANGE-016"),
    _metamorphic(
        "point_fetch_rounds_down",
        "a fetch of one window rounds its time down",
        "WIN-053",
        "in-memory-window",
        "rocksdb-window",
    ),
    _metamorphic(
        "forward_windows_only",
        "the store drops windows that come out of order",
        "WIN-054",
        "in-memory-window",
        "rocksdb-window",
    ),
    _metamorphic(
        "range_of_sessions_excludes_its_end",
        "the upper key bound of a range is exclusive",
        "SESS-048",
        "in-memory-session",
        "rocksdb-session",
    ),
    _metamorphic(
        "forward_sessions_only",
        "the store drops sessions that come out of order",
        "SESS-049",
        "in-memory-session",
        "rocksdb-session",
    ),
    _hygiene("claims_prefix_scans", "the store lacks a method that it claims", "LIFE-008"),
    _hygiene("rows_beside_the_task", "the store keeps its rows outside its directory", "LIFE-013"),
    _hygiene("notes_beside_the_task", "the store leaves a file outside its directory", "LIFE-014"),
    _hygiene("file_stays_open", "close leaves a file open", "LIFE-015"),
    _hygiene("handles_pile_up", "each opening leaks a pipe", "LIFE-016"),
    _hygiene("threads_pile_up", "each opening leaks a thread", "LIFE-017"),
    _hygiene("processes_pile_up", "each opening leaks a process", "LIFE-018"),
    _hygiene("refused_opening_holds_a_file", "a failed init leaves a file open", "ERR-011"),
    _tasks("get_misses_restored_rows", "get does not find restored entries", "PROTOCOL-001"),
    _tasks(
        "restoring_stops_at_a_tombstone", "restoring stops a batch at a tombstone", "PROTOCOL-002"
    ),
    _tasks("staged_rows_reach_the_journal", "a crash keeps staged rows", "PROTOCOL-003"),
    _tasks("commit_keeps_deleted_rows", "a commit brings deleted rows back", "PROTOCOL-004"),
    _tasks(
        "get_misses_rows_of_the_last_process",
        "get does not find entries from before the opening",
        "PROTOCOL-005",
        "at-least-once",
    ),
    _tasks(
        "wiped_after_every_crash", "the store asks to be wiped after every crash", "PROTOCOL-006"
    ),
    _tasks("lock_outlives_the_process", "a crash leaves the store locked", "PROTOCOL-007"),
    _tasks("unknown_offset_refused", "committing an unknown offset raises", "PROTOCOL-008"),
    _tasks("restored_in_any_order", "restoring applies records in random order", "PROTOCOL-009"),
    _tasks("restored_rows_lost_at_close", "close does not save restored entries", "PROTOCOL-010"),
    _queries("ranges_show_staged_rows", "ranges of a view show staged rows", "QUERY-001"),
    _queries(
        "views_wait_for_the_commit",
        "views show the last commit under at-least-once",
        "QUERY-002",
        "at-least-once",
    ),
    _queries("views_miss_restored_rows", "views do not show restored rows", "QUERY-003"),
    _queries(
        "position_waits_for_the_commit", "the position is that of the last commit", "QUERY-004"
    ),
    _contract(
        "uncommitted_is_always_zero",
        "the uncommitted numbers are always 0",
        "TXN-010",
        "rocksdb-transactional",
        _right("cannot_count"),
    ),
    _contract(
        "gets_past_staged_at_least_once",
        "under at-least-once, a transaction does not get its own writes",
        "TXN-001",
        guarantee="at-least-once",
    ),
    _contract(
        "scans_past_staged_at_least_once",
        "under at-least-once, a transaction does not scan its own writes",
        "TXN-003",
        "rocksdb-transactional",
        "rocksdb-timestamped-transactional",
        guarantee="at-least-once",
    ),
    _contract("isolation_level_is_fixed", "every transaction is READ_UNCOMMITTED", "TXN-019"),
    _contract(
        "level_is_not_handed_on",
        "a transaction opens transactions of one level under each guarantee",
        "TXN-019",
        guarantee="at-least-once",
    ),
    _contract(
        "ended_transaction_opens_none",
        "an ended transaction refuses new_transaction",
        "TXN-020",
    ),
    _contract(
        "transaction_returns_itself",
        "a transaction returns itself from new_transaction, with its writes",
        "TXN-020",
    ),
    _contract("init_discards_a_transaction", "init of a transaction discards writes", "TXN-021"),
    _contract("block_commits_a_transaction", "the end of a block commits", "TXN-022"),
    _contract(
        "largest_transaction_counts",
        "the uncommitted entries are those of one transaction",
        "TXN-023",
    ),
    _contract(
        "transactions_are_made_elsewhere",
        "a store opens transactions without create_transaction",
        "TXN-027",
        "rocksdb-transactional",
        "rocksdb-stack-transactional",
    ),
    _contract("ended_transactions_stay", "a store keeps its ended transactions", "TXN-024"),
    _contract(
        "staged_keys_are_locked",
        "a READ_UNCOMMITTED view shows no value of a staged key",
        "ISO-006",
        "rocksdb-transactional",
        _right("hides_staged_writes"),
    ),
    _contract(
        "hides_staged_writes",
        "a READ_UNCOMMITTED view hides staged writes",
        "ISO-022",
        spec="kafka-4.4",
    ),
    _contract(
        "uncommitted_views_scan_the_commit",
        "a READ_UNCOMMITTED view gets staged writes, and scans committed ones",
        "ISO-025",
    ),
    _contract(
        "stages_at_least_once",
        "the store stages its writes under at-least-once",
        "ISO-023",
        guarantee="at-least-once",
    ),
    _contract(
        "views_scan_the_last_commit",
        "under at-least-once, a view scans what was there at the last commit",
        "ISO-023",
        guarantee="at-least-once",
    ),
    _contract(
        "views_take_ranges_from_the_last_commit",
        "under at-least-once, a view takes ranges from the last commit",
        "ISO-023",
        guarantee="at-least-once",
    ),
    _contract(
        "close_discards_at_least_once",
        "close discards writes under at-least-once",
        "ISO-024",
        guarantee="at-least-once",
    ),
    _contract(
        "volatile_store_claims_offsets", "a volatile store claims offsets", "LIFE-019", "in-memory"
    ),
    _contract(
        "volatile_store_returns_offsets",
        "a volatile store returns committed offsets",
        "OFFSET-015",
        "in-memory",
    ),
    _contract(
        "input_offsets_are_dropped",
        "a commit keeps the offsets of changelogs alone",
        "OFFSET-016",
        "rocksdb",
        "rocksdb-window-segments",
    ),
    _contract(
        "checkpoint_is_ignored",
        "the store does not read the .checkpoint that it claims to import",
        "OFFSET-014",
        "rocksdb",
        "rocksdb-legacy",
        "rocksdb-window-segments",
    ),
    _contract(
        "checkpoint_comes_back",
        "an imported offset comes back from the .checkpoint after the store forgot it",
        "OFFSET-014",
        "rocksdb",
        "rocksdb-legacy",
        "rocksdb-window-segments",
    ),
    _contract(
        "one_partition_is_imported",
        "of the partitions in a .checkpoint, one is imported",
        "OFFSET-014",
        "rocksdb",
        "rocksdb-legacy",
        "rocksdb-window-segments",
    ),
    _contract(
        "commit_flushes",
        "each commit flushes the memtables",
        "COMMIT-011",
        "rocksdb",
        "rocksdb-transactional",
        "rocksdb-window-segments",
        "rocksdb-window-segments-transactional",
    ),
    _contract(
        "position_file_stays",
        "the position file of an older version stays",
        "POS-013",
        "rocksdb",
        "rocksdb-transactional",
        "rocksdb-window-segments",
    ),
    _contract(
        "position_file_of_a_downgrade_stays",
        "the position file in the directory of the store stays",
        "POS-014",
        "rocksdb",
        "rocksdb-transactional",
        "rocksdb-window-segments",
    ),
    _contract(
        "offsets_in_files_for_every_release",
        "the release that manages offsets is taken for an older one",
        "UPGRADE-036",
        "rocksdb",
        "rocksdb-transactional",
        "rocksdb-window-segments",
    ),
    _contract(
        "offsets_in_files_for_one_release",
        "only the release before is taken for one without offsets in the stores",
        "UPGRADE-021",
        "rocksdb",
        "rocksdb-transactional",
        "rocksdb-window-segments",
    ),
    _commits(
        "unmanaged_offsets_of_others_are_told",
        "a store that manages no offsets tells those of some partitions",
        "OFFSET-012",
        "in-memory",
        "single-file",
    ),
    _commits(
        "reopened_store_knows_every_partition",
        "after a reopening, unknown partitions are at offset 0",
        "OFFSET-009",
    ),
    _commits(
        "offsets_of_older_rows_are_dropped",
        "the offset in a .checkpoint is dropped if the rows have the older format",
        "UPGRADE-002",
        "rocksdb",
        "rocksdb-window-segments",
    ),
    _commits(
        "offsets_among_the_rows",
        "the offsets are rows among the data",
        "COMMIT-013",
        "rocksdb",
        "rocksdb-window-segments",
    ),
    _commits(
        "column_families_are_flushed_apart",
        "the offsets are flushed without the data",
        "COMMIT-013",
        "rocksdb-timestamped",
    ),
    _commits(
        "flush_shows_staged_rows",
        "after a flush, queries for committed rows show staged ones",
        "COMMIT-005",
        "rocksdb-transactional",
    ),
    _commits(
        "timed_batches_move_no_position",
        "put_all_with_timestamp does not move the position",
        "POS-005",
        "rocksdb-timestamped",
        "rocksdb-window-timestamped",
    ),
    _commits(
        "removed_sessions_move_no_position",
        "removing a session does not move the position",
        "POS-005",
        "rocksdb-session",
        "rocksdb-session-timestamped",
    ),
    _commits(
        "position_is_left_for_one_release",
        "the position is left in a file for the release before only",
        "UPGRADE-022",
        "rocksdb",
        "rocksdb-window-segments",
    ),
    _commits(
        "metrics_without_the_thread",
        "the tag thread-id is empty",
        "METRIC-002",
        "rocksdb-stack",
    ),
    _commits(
        "metrics_of_a_window_store",
        "the metrics of a key-value store have the tag of a window store",
        "METRIC-002",
        "rocksdb-stack",
        "rocksdb-window-timestamped-stack",
    ),
    _commits(
        "rate_is_a_number",
        "commit-rate does not fall as time passes",
        "METRIC-004",
        "rocksdb-stack",
    ),
    _commits(
        "write_buffers_are_flushes",
        "the metrics count full write buffers as flushes",
        "METRIC-006",
        "rocksdb-stack",
    ),
    _contract(
        "transaction_stages_nothing",
        "the transactions of a store stage nothing",
        "TXN-025",
        "rocksdb-transactional",
        "rocksdb-window-stack-transactional",
        _right("offers_transactions"),
    ),
    _contract(
        "journal_is_not_repeated",
        "an opening does not repeat the writes of the journal",
        "CRASH-004",
        "rocksdb-window-segments-transactional",
    ),
    _contract(
        "journal_is_forgotten_too_early",
        "the journal is emptied before the segments are flushed",
        "CRASH-003",
        "rocksdb-window-segments-transactional",
    ),
    _interface(
        "flush_commits_a_transaction", "flush writes what a transaction has staged", "TXN-028"
    ),
    _interface(
        "transaction_overwrites_if_absent",
        "put_if_absent in a transaction overwrites",
        "TXN-028",
    ),
    _interface(
        "transaction_scans_old_timestamps",
        "a transaction scans values with timestamps past its own writes",
        "TXN-028",
        "rocksdb-timestamped-transactional",
        "rocksdb-window-timestamped",
        "rocksdb-session-timestamped",
    ),
    _interface(
        "transaction_searches_the_store",
        "a transaction finds sessions by time past its own writes",
        "TXN-028",
    ),
    _interface(
        "ended_transaction_searches_the_store",
        "an ended transaction finds sessions by time",
        "TXN-006",
    ),
    _interface(
        "commit_takes_all_transactions",
        "the commit of a transaction writes all the others",
        "TXN-029",
    ),
    _interface(
        "close_discards_all_transactions",
        "the close of a transaction discards all the others",
        "TXN-029",
    ),
    _interface(
        "callbacks_come_too_early",
        "callbacks are called while the transaction is open",
        "TXN-030",
    ),
    _interface("large_transaction_spills", "a large transaction writes to the store", "TXN-031"),
    _interface(
        "store_commit_ends_nothing",
        "the commit of a store leaves its transactions open",
        "TXN-013",
    ),
    _interface(
        "ended_transaction_reads_at_least_once",
        "under at-least-once, an ended transaction can be read",
        "TXN-006",
        guarantee="at-least-once",
    ),
    _interface(
        "closing_again_fails_at_least_once",
        "under at-least-once, a transaction can be closed only once",
        "TXN-007",
        guarantee="at-least-once",
    ),
    _interface("staged_bytes_are_not_measured", "staged bytes do not count", "TXN-032"),
    _interface(
        "uncommitted_bytes_are_thousandfold", "a store takes bytes for kilobytes", "TXN-032"
    ),
    _interface(
        "ranges_backward_show_staged_rows",
        "a READ_COMMITTED view shows staged rows in a range that is read backward",
        "ISO-003",
    ),
    _orders(
        "refused_keys_end_the_batch",
        "a put without a key discards what was staged",
        "WIN-022",
        "rocksdb-window-transactional",
        "rocksdb-window-timestamped",
    ),
    _orders(
        "refused_windows_are_dropped_records",
        "a window before time 0 counts as dropped",
        "WIN-023",
        "rocksdb-window",
        "in-memory-window",
    ),
    _orders(
        "refused_sessions_roll_back",
        "a refused put discards what was staged",
        "SESS-045",
        "rocksdb-session-transactional",
        "rocksdb-session-timestamped",
    ),
    _orders(
        "tombstones_move_no_time",
        "the delete of a window does not move the stream time",
        "WIN-034",
        "rocksdb-window",
        "in-memory-window",
    ),
    _orders(
        "time_is_restored_once",
        "the first restored batch alone moves the stream time",
        "SESS-038",
        "rocksdb-session",
        "in-memory-session",
    ),
    _orders(
        "rollback_undoes_one_step_of_time",
        "a rollback undoes the last step of the stream time alone",
        "WIN-055",
        "rocksdb-window-transactional",
        "rocksdb-window-timestamped",
    ),
    _orders(
        "staged_deletes_win",
        "a staged delete hides what is put later",
        "WIN-048",
        "rocksdb-window-transactional",
        "rocksdb-window-timestamped",
    ),
    _orders(
        "iterators_count_windows",
        "a deleted window moves open iterators on by one",
        "WIN-041",
        "rocksdb-window",
        "in-memory-window",
    ),
    _orders(
        "offsets_in_a_list",
        "partitions below a committed one have the offset 0",
        "OFFSET-009",
        "rocksdb",
        "rocksdb-transactional",
    ),
    _orders(
        "none_ends_a_commit",
        "a commit ends at the first partition whose offset is None",
        "OFFSET-006",
        "rocksdb",
        "rocksdb-transactional",
        spec="kafka-4.4",
    ),
    _orders(
        "import_ends_at_another_store",
        "a .checkpoint is read up to the first line of another store",
        "OFFSET-014",
        "rocksdb",
        "rocksdb-window-segments",
    ),
    _key_spaces(
        "offsets_are_replaced_by_prefix",
        "a commit forgets the partitions whose names begin with that of a committed one",
        "OFFSET-010",
    ),
    _key_spaces(
        "dots_are_underscores",
        "topics that differ in a dot and an underscore share one offset",
        "OFFSET-010",
    ),
    _key_spaces("positions_of_four_bytes", "a commit cuts the offsets of the position", "POS-007"),
    _key_spaces(
        "positions_by_joined_names",
        "the position takes partition 3 of t1 for partition 13 of t",
        "POS-004",
    ),
    _key_spaces(
        "one_place_for_every_name",
        "the files of all stores of a task have one name",
        "LIFE-022",
        f"{__name__}.key_space_mutants:journalled",
        "rocksdb",
    ),
    _key_spaces(
        "names_lose_their_suffix",
        "names that differ behind a dot share their files",
        "LIFE-022",
        f"{__name__}.key_space_mutants:journalled",
        "rocksdb",
    ),
    _key_spaces(
        "names_have_no_case",
        "names that differ in case share their files",
        "LIFE-022",
        f"{__name__}.key_space_mutants:journalled",
        "rocksdb",
    ),
    _key_spaces(
        "names_run_into_keys",
        "store a takes the key b-x for the key x of store a-b",
        "LIFE-022",
        "in-memory",
        "rocksdb",
    ),
    _key_spaces(
        "temporary_file_of_the_task",
        "an opening takes over what another store was writing at a crash",
        "CRASH-017",
        f"{__name__}.key_space_mutants:journalled",
        "rocksdb",
    ),
    _key_spaces(
        "open_ranges_run_on",
        "a range without an upper bound goes on with the rows of other stores",
        "LIFE-022",
        "in-memory",
        "rocksdb",
    ),
    _key_spaces(
        "one_position_for_the_task",
        "a write moves the position of all stores",
        "LIFE-022",
        "in-memory",
        "rocksdb",
    ),
    _key_spaces(
        "restores_the_newest",
        "restored records go to the store that was opened last",
        "LIFE-022",
        "in-memory",
        "rocksdb",
    ),
    _key_spaces(
        "close_discards_for_all",
        "a close rolls back what other stores of the task have staged",
        "LIFE-022",
        "rocksdb-transactional",
        "rocksdb",
    ),
    _key_spaces(
        "prefixes_run_into_keys",
        "prefix a with the key b|c is prefix a|b with the key c",
        "KV-011",
        "in-memory",
        "rocksdb",
    ),
    _key_spaces(
        "partitions_of_one_digit",
        "partitions 1 and 11 of one directory share their files",
        "LIFE-007",
        f"{__name__}.key_space_mutants:by_partition",
        "rocksdb",
    ),
    _key_spaces(
        "stream_time_of_the_process",
        "windows of one task come too late because of another task",
        "LIFE-007",
        "in-memory-window",
        "rocksdb-window",
    ),
    _key_spaces(
        "close_ends_every_task",
        "close ends the stores of its name in all tasks",
        "LIFE-007",
        "in-memory",
        "rocksdb",
    ),
)
"""All mutants."""
