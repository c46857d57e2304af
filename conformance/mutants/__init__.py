"""Deliberately wrong stores: each must be caught by the requirement that it is bound to.

A mutant is a small difference to a correct store, modelled on a mistake that people make, many
of them bugs that Kafka had. They show that the checks can fail.
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
        mistake: what is wrong with it.
        requirement: what must catch it.
        spec: the specification in which that requirement stands.
        guarantee: the processing guarantee under which it is caught.
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
        """What names the mutant on the command line."""
        return f"{__name__}.{self.module}:{self.name}"


def _windows(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-window", "in-memory-window")
    return Mutant(name, mistake, requirement, module="window_mutants", right=right)


def _sessions(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-session", "in-memory-session")
    return Mutant(name, mistake, requirement, module="window_mutants", right=right)


def _timestamps(name: str, mistake: str, requirement: str) -> Mutant:
    right = ("rocksdb-timestamped", "rocksdb-timestamped-lazy")
    return Mutant(name, mistake, requirement, module="timestamp_mutants", right=right)


def _crashes(name: str, mistake: str, requirement: str) -> Mutant:
    right = (f"{__name__}.crash_mutants:journalled", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="crash_mutants", right=right)


def _power(name: str, mistake: str, requirement: str) -> Mutant:
    right = tuple(f"{__name__}.power_mutants:{store}" for store in ("durable", "whole_file"))
    if requirement == "POWER-010":
        right = ("rocksdb",)
    return Mutant(name, mistake, requirement, module="power_mutants", right=right)


def _basics(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "in-memory")
    return Mutant(name, mistake, requirement, module="basic_mutants", right=right)


def _staged(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="transaction_mutants", right=right)


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


def _metamorphic(name: str, mistake: str, requirement: str, *right: str) -> Mutant:
    right = right or ("rocksdb", "rocksdb-transactional")
    return Mutant(name, mistake, requirement, module="metamorphic_mutants", right=right)


CANARY = Mutant(
    "offsets_written_before_rows",
    "a commit writes its offsets, and close the rows",
    "CRASH-005",
    module="canary_mutant",
    right=("rocksdb", "rocksdb-transactional"),
)
"""The mutant that every run tries first: if it is not caught, no answer can be trusted."""

MUTANTS = (
    CANARY,
    Mutant(
        "offsets_flushed_before_data",
        "flush writes the offsets column family to disk before the data",
        "CRASH-003",
    ),
    Mutant(
        "data_flushed_alone",
        "flush writes the data column family to disk, and leaves the offsets in memory",
        "CRASH-004",
    ),
    Mutant(
        "closed_one_by_one",
        "close flushes one column family after the other, as rocksdict does by itself",
        "CRASH-011",
    ),
    Mutant("tombstones_dropped_on_commit", "commit applies staged puts but no deletes", "KV-004"),
    Mutant("range_end_exclusive", "the upper bound of a range is exclusive", "RANGE-003"),
    Mutant("live_iterator", "an open iterator sees later writes", "RANGE-011"),
    Mutant(
        "stale_offset_after_empty_commit",
        "commit({}) leaves the committed offsets as they are",
        "OFFSET-005",
        "kafka-4.4",
    ),
    Mutant("transaction_leaks_on_close", "close leaves open transactions open", "TXN-009"),
    Mutant("put_all_bypasses_transaction", "put_all writes past the transaction", "TXN-008"),
    Mutant("committed_reader_sees_staged", "READ_COMMITTED reads the transaction", "ISO-001"),
    Mutant("commit_row_by_row", "commit applies its rows one at a time", "ISO-007"),
    Mutant("largest_offset_wins", "commit ignores an offset below the last one", "OFFSET-008"),
    Mutant(
        "checkpoint_wins",
        "the offset in a .checkpoint replaces the store's own at every opening",
        "OFFSET-014",
    ),
    Mutant("restore_skips_tombstones", "restoring ignores records without a value", "RESTORE-002"),
    Mutant("empty_value_deletes", "an empty value is taken for a tombstone", "KV-008"),
    Mutant("prefix_end_overflows", "a prefix ending in 0xFF is incremented wrongly", "RANGE-009"),
    Mutant(
        "offsets_among_data", "offsets are kept among the data, and scans show them", "RANGE-014"
    ),
    Mutant("unclean_stop_unnoticed", "no status tells an unclean stop", "CRASH-009"),
    _windows("window_bound_exclusive", "the upper bound of time is exclusive", "WIN-007"),
    _windows("longer_keys_match", "keys that begin with the key are taken for it", "WIN-017"),
    _windows("backward_is_forward", "a backward fetch goes forward", "WIN-009"),
    _windows("window_end_overflows", "a window ends after the end of time", "WIN-019"),
    _windows("late_windows_kept", "windows are kept beyond their retention", "WIN-032"),
    _windows("retention_off_by_one", "the oldest window is dropped too early", "WIN-031"),
    _windows("drops_uncounted", "dropped records are not counted", "WIN-033"),
    _windows("delete_takes_all_windows", "a delete takes every window of the key", "WIN-004"),
    _windows("restored_late_windows_kept", "restoring counts no late record", "WIN-047"),
    Mutant(
        "duplicates_overwrite",
        "a put into the same window replaces the one before",
        "WIN-025",
        module="window_mutants",
        right=("rocksdb-window-duplicates",),
    ),
    Mutant(
        "staged_windows_show",
        "READ_COMMITTED reads staged windows",
        "WIN-049",
        module="window_mutants",
        right=("rocksdb-window-transactional",),
    ),
    Mutant(
        "newest_segment_offset",
        "the newest segment's offset stands for all segments",
        "CRASH-005",
        guarantee="at-least-once",
        module="window_mutants",
        right=("rocksdb-window-segments",),
    ),
    _sessions("touching_sessions_missed", "a search leaves out sessions that touch", "SESS-011"),
    _sessions("session_start_ignored", "a search looks at ends alone", "SESS-010"),
    _sessions("sessions_by_start", "sessions come by their starts", "SESS-008"),
    _sessions("remove_needs_only_the_end", "remove looks at the end alone", "SESS-004"),
    _sessions("expired_sessions_found", "expired sessions are found", "SESS-026"),
    _timestamps("older_timestamp_ignored", "an older timestamp does not overwrite", "TS-005"),
    _timestamps("record_timestamp_ignored", "a plain put has no timestamp", "TS-003"),
    _timestamps("restored_without_timestamp", "restoring loses timestamps", "TS-014"),
    _timestamps("timestamps_are_guessed", "restoring guesses which values have one", "TS-016"),
    _timestamps("old_values_at_time_zero", "old values get the timestamp 0", "UPGRADE-008"),
    _timestamps("old_entries_come_back", "a delete leaves the old entry", "UPGRADE-006"),
    _timestamps("scans_miss_old_entries", "scans look at the new format alone", "UPGRADE-003"),
    Mutant(
        "migrates_in_two_steps",
        "an old entry is deleted before the new one is written",
        "UPGRADE-013",
        guarantee="at-least-once",
        module="timestamp_mutants",
        right=("rocksdb-timestamped-lazy",),
    ),
    _timestamps("downgrade_shows_nothing", "the older store begins anew", "UPGRADE-009"),
    Mutant(
        "offset_without_the_old_data",
        "the committed offset is taken over, and no entry",
        "UPGRADE-003",
        module="timestamp_mutants",
        right=("rocksdb",),
    ),
    Mutant(
        "position_not_kept", "a restart forgets the position", "POS-007", module="position_mutants"
    ),
    Mutant("position_goes_back", "the last offset wins", "POS-003", module="position_mutants"),
    Mutant(
        "position_mixes_partitions",
        "partitions share an offset",
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
        "a commit stores the position of the one before",
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
    Mutant(
        "commit_counted_twice",
        "a commit is recorded twice",
        "METRIC-004",
        module="layer_mutants",
        right=("rocksdb-stack",),
    ),
    Mutant(
        "metrics_stay_behind",
        "close leaves the metrics registered",
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
        "recovery deletes the journal before the snapshot has its content",
        "CRASH-016",
    ),
    _crashes(
        "recovery_moves_the_snapshot_aside",
        "a recovery that is interrupted cannot be repeated",
        "CRASH-016",
    ),
    _crashes(
        "offsets_of_all_stores_together",
        "a commit writes its offsets into the other stores of the process, too",
        "CRASH-017",
    ),
    _crashes(
        "snapshot_deleted_before_the_merge",
        "the old snapshot is deleted before the new one is written",
        "CRASH-018",
    ),
    _crashes(
        "restore_commits_its_end_first",
        "restoring keeps the offset of a batch before the batch",
        "RESTORE-015",
    ),
    _crashes(
        "second_upgrade_deletes_first",
        "an upgrade that is tried again deletes the old data before it is copied",
        "UPGRADE-020",
    ),
    _crashes("full_disk_ignored", "a commit ignores that the disk is full", "ERR-008"),
    _crashes(
        "journal_deleted_after_an_error", "a commit that fails deletes the journal", "ERR-009"
    ),
    _crashes("disk_error_as_type_error", "a failed write shows as a TypeError", "ERR-010"),
    _anomalies("scans_show_staged_rows", "scans of a view show staged rows", "ISO-009"),
    _anomalies("rolled_back_rows_are_reused", "a rollback leaves rows to the next", "ISO-010"),
    _anomalies("overwritten_rows_reach_the_store", "intermediate values are visible", "ISO-011"),
    _anomalies("last_row_of_a_commit_comes_late", "a commit shows in two steps", "ISO-012"),
    _anomalies("reader_goes_back_to_an_older_snapshot", "a view goes back", "ISO-013"),
    _anomalies("commit_writes_back_what_was_read", "a commit undoes another's", "ISO-014"),
    _anomalies("transactions_read_each_other", "a transaction reads another's rows", "ISO-015"),
    _anomalies("view_keeps_what_it_read", "a view has a cache that no commit clears", "ISO-016"),
    _anomalies("commit_clears_other_transactions", "a commit discards other rows", "ISO-017"),
    _anomalies("uncommitted_view_is_a_copy", "READ_UNCOMMITTED reads a copy", "ISO-019"),
    _anomalies("plain_view_keeps_what_it_read", "a view has a cache", "ISO-020"),
    _anomalies("committing_threads_share_a_batch", "commits share their rows", "ISO-021"),
    _power(
        "renamed_before_it_is_synced",
        "a snapshot is renamed before it is synced",
        "POWER-004",
    ),
    _power(
        "directory_never_synced",
        "a rename is taken to last by itself",
        "POWER-009",
    ),
    _power(
        "directory_made_without_a_sync",
        "the name of the directory is not synced",
        "POWER-014",
    ),
    _power(
        "journal_never_synced",
        "commits declared durable are not synced",
        "POWER-009",
    ),
    _power("flush_that_syncs_nothing", "flush returns before anything is on the disk", "POWER-010"),
    _power(
        "offsets_synced_and_data_not",
        "offsets are synced, and data is not",
        "POWER-001",
    ),
    _power(
        "data_and_offsets_synced_at_the_end",
        "two files are synced one after the other",
        "POWER-003",
    ),
    _power(
        "partitions_committed_one_by_one",
        "each partition is synced by itself",
        "POWER-007",
    ),
    _power("torn_frame_accepted", "a torn frame of the journal is not noticed", "POWER-002"),
    _power(
        "journal_written_over_too_early",
        "the journal is written over too early",
        "POWER-005",
    ),
    _power("close_syncs_nothing", "close leaves the last snapshot unsynced", "POWER-011"),
    _power(
        "upgrade_syncs_nothing",
        "older files are deleted too early",
        "POWER-012",
    ),
    _power("recovery_syncs_nothing", "what was recovered is not synced", "POWER-016"),
    _power("restored_records_never_synced", "restored records are not synced", "POWER-017"),
    _power("journal_goes_on_behind_a_tear", "new frames are added behind a torn one", "POWER-008"),
    Mutant(
        "loss_of_power_unnoticed",
        "no status tells of a loss of power",
        "POWER-015",
        module="power_mutants",
        right=("rocksdb",),
    ),
    _basics("open_flag_stays", "is_open is true once it was", "LIFE-001"),
    _basics("close_twice_raises", "close works once", "LIFE-002"),
    _basics("closed_store_is_empty", "get of a closed store finds nothing", "LIFE-006"),
    _basics("rows_of_the_class", "the stores of a process share their rows", "LIFE-007"),
    _basics("put_if_absent_overwrites", "put_if_absent writes anyway", "KV-009"),
    _basics("first_entry_of_a_batch_wins", "the first entry of a key counts", "KV-010"),
    _basics("delete_tells_nothing", "delete returns None", "KV-005"),
    _basics("none_is_no_value", "a put of None is ignored", "KV-007"),
    _basics("keys_end_at_a_zero", "keys lose the zero bytes at their end", "KV-011"),
    _basics("lengths_of_two_bytes", "values are cut at 64 KiB", "KV-013"),
    _basics("batches_miss_the_cache", "put_all does not clear the cache of reads", "KV-015"),
    _basics("inverted_ranges_are_turned", "an inverted range is swapped", "RANGE-005"),
    _basics("new_store_is_at_zero", "a new store has the offset 0", "OFFSET-001", "rocksdb"),
    _basics(
        "commit_replaces_all_offsets",
        "a commit forgets the partitions that it does not name",
        "OFFSET-004",
        "rocksdb",
    ),
    _basics("offsets_of_four_bytes", "offsets overflow above 2^31", "OFFSET-007", "rocksdb"),
    Mutant(
        "none_is_offset_zero",
        "None is stored as the offset 0",
        "OFFSET-006",
        "kafka-4.4",
        module="basic_mutants",
        right=("rocksdb",),
    ),
    _basics(
        "partition_appended_to_the_topic",
        "partition 11 of a topic is partition 1 of another",
        "OFFSET-010",
        "rocksdb",
    ),
    _basics(
        "commit_without_writes_is_skipped",
        "a commit without writes does not move the offset",
        "OFFSET-011",
        "rocksdb",
    ),
    _basics("commit_with_nothing_new_raises", "a second commit is refused", "COMMIT-003"),
    _basics("flush_commits", "flush commits", "COMMIT-005", "rocksdb-transactional"),
    _basics("close_commits", "close commits", "COMMIT-004", "rocksdb-transactional"),
    _basics(
        "commit_discards_what_is_staged",
        "a commit closes the transaction first",
        "COMMIT-001",
        "rocksdb-transactional",
    ),
    _basics("none_key_is_the_empty_key", "a key of None is taken for b''", "ERR-001"),
    _basics("batch_written_up_to_the_bad_key", "a bad batch is written in part", "ERR-002"),
    _basics("another_directory_will_do", "it opens elsewhere if it must", "ERR-004", "rocksdb"),
    _basics("iterators_outlive_their_store", "iterators go on after close", "ERR-007"),
    _staged("transaction_reads_the_store", "a transaction misses its own writes", "TXN-001"),
    _staged("transaction_scans_the_store", "scans miss what is staged", "TXN-003"),
    _staged("closed_transaction_is_committed", "close of a transaction writes", "TXN-004"),
    _staged("ended_transaction_goes_on", "a transaction that ended takes writes", "TXN-006"),
    _staged("uncommitted_bytes_never_fall", "committed bytes count on", "TXN-010"),
    _staged("commit_takes_two_transactions", "a commit forgets a transaction", "TXN-013"),
    _staged("batch_of_a_transaction_is_written", "put_all is not staged", "TXN-017"),
    _staged("first_record_of_a_key_wins", "the first record of a batch counts", "RESTORE-003"),
    _staged("restored_again_is_added", "a second restoration adds up", "RESTORE-004", "in-memory"),
    _staged("restored_records_are_staged", "restoring is not committed", "RESTORE-009"),
    _staged(
        "restored_values_lose_a_timestamp",
        "restoring takes off what looks like a timestamp",
        "RESTORE-011",
    ),
    _staged("deletes_are_not_logged", "delete logs nothing", "RESTORE-013", "rocksdb-stack"),
    _staged("restoring_is_logged", "restored records are logged", "RESTORE-014", "rocksdb-stack"),
    _staged("empty_batch_raises", "restoring nothing raises", "LISTEN-005"),
    _staged("last_chunk_of_a_batch_lost", "large batches lose their end", "LISTEN-007"),
    _staged("restoring_closes_iterators", "restoring ends open iterators", "LISTEN-008"),
    _staged("metrics_without_the_task", "metrics name no task", "METRIC-002", "rocksdb-stack"),
    _staged("commit_is_a_flush", "a commit counts as a flush", "METRIC-006", "rocksdb-stack"),
    _staged(
        "commits_of_all_tasks_together",
        "stores of several tasks share their metrics",
        "METRIC-010",
        "rocksdb-stack",
    ),
    _staged("batches_move_no_position", "put_all moves no position", "POS-005"),
    _staged("position_is_given_away", "a reader can change the position", "POS-011"),
    _metamorphic(
        "scans_miss_the_boundary_of_a_commit", "scans miss the last key of a commit", "COMMIT-009"
    ),
    _metamorphic("opening_compacts_values", "opening empties some values", "COMMIT-010"),
    _metamorphic(
        "first_record_of_a_batch_counts",
        "of a batch the first record of a key counts",
        "RESTORE-005",
    ),
    _metamorphic("restoring_again_appends", "a second restoration appends", "RESTORE-004"),
    _metamorphic("restored_values_lose_their_zeros", "restored values are trimmed", "RESTORE-016"),
    _metamorphic("keys_share_a_slot", "keys that collide replace each other", "KV-016"),
    _metamorphic(
        "put_if_absent_tells_the_new_value", "put_if_absent answers with the new value", "KV-017"
    ),
    _metamorphic(
        "delete_wins_in_a_transaction",
        "a put after a delete is ignored",
        "TXN-018",
        "rocksdb-transactional",
    ),
    _metamorphic("open_ranges_end_at_ff", "ranges without an upper bound end at 0xFF", "RANGE-016"),
    _metamorphic(
        "point_fetch_rounds_down",
        "a fetch of one window aligns its time",
        "WIN-053",
        "in-memory-window",
        "rocksdb-window",
    ),
    _metamorphic(
        "forward_windows_only",
        "windows out of order are dropped",
        "WIN-054",
        "in-memory-window",
        "rocksdb-window",
    ),
    _metamorphic(
        "range_of_sessions_excludes_its_end",
        "the upper key of a range is left out",
        "SESS-048",
        "in-memory-session",
        "rocksdb-session",
    ),
    _metamorphic(
        "forward_sessions_only",
        "sessions out of order are dropped",
        "SESS-049",
        "in-memory-session",
        "rocksdb-session",
    ),
    _hygiene("claims_prefix_scans", "a claimed method is missing", "LIFE-008"),
    _hygiene("rows_beside_the_task", "rows are kept outside the directory", "LIFE-013"),
    _hygiene("notes_beside_the_task", "a file is left outside the directory", "LIFE-014"),
    _hygiene("file_stays_open", "close leaves a file open", "LIFE-015"),
    _hygiene("handles_pile_up", "each opening leaves a pipe", "LIFE-016"),
    _hygiene("threads_pile_up", "each opening leaves a thread", "LIFE-017"),
    _hygiene("processes_pile_up", "each opening leaves a process", "LIFE-018"),
    _hygiene("refused_opening_holds_a_file", "a failed init leaves a file open", "ERR-011"),
    _tasks("get_misses_restored_rows", "get does not find what was restored", "PROTOCOL-001"),
    _tasks("restoring_stops_at_a_tombstone", "a tombstone ends a batch", "PROTOCOL-002"),
    _tasks("staged_rows_reach_the_journal", "a crash keeps staged rows", "PROTOCOL-003"),
    _tasks("commit_keeps_deleted_rows", "a commit brings deleted rows back", "PROTOCOL-004"),
    _tasks(
        "get_misses_rows_of_the_last_process",
        "get does not find what was there at the opening",
        "PROTOCOL-005",
        "at-least-once",
    ),
    _tasks("wiped_after_every_crash", "it asks to be wiped without need", "PROTOCOL-006"),
    _tasks("lock_outlives_the_process", "a crash leaves it locked", "PROTOCOL-007"),
    _tasks("unknown_offset_refused", "an unknown offset raises", "PROTOCOL-008"),
    _tasks("restored_in_any_order", "restoring has no order", "PROTOCOL-009"),
    _tasks("restored_rows_lost_at_close", "close saves only what was put", "PROTOCOL-010"),
)
"""All mutants."""
