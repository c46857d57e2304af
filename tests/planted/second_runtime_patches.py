"""More mistakes in the simulated runtime, in the form of ``runtime_patches``.

Their author had read the contract and the runtime, and none of the checks.
"""

from __future__ import annotations

from dataclasses import replace

from streamproof.sim.decisions.lag import LATEST_OFFSET
from streamproof.sim.decisions.recovery import Closing
from streamproof.sim.tasks.stream_task import TaskState
from streamproof.sim.topologies.windowed_count import SIZE_MS
from streamproof.stores.api import NO_TIMESTAMP
from streamproof.stores.windowed.keys import parse_window_key

# --- commits ---------------------------------------------------------------------------


def commits_revoked_tasks_alone(original, thread, assignment):
    """thread.take_assignment: (outside) The commit before a revocation leaves out the tasks that stay."""
    committer, commit = thread._committer, thread._committer.commit

    def commit_revoked(tasks, closing):
        yield from commit([task for task in tasks if task.id not in assignment.active], closing)

    committer.commit = commit_revoked
    try:
        yield from original(thread, assignment)
    finally:
        del committer.commit


def commits_requesting_tasks_alone(original, committer, tasks, closing):
    """committer.commit: A commit that processors have requested covers the tasks of these processors alone."""
    requesting = [task for task in tasks if task.commit_requested]
    yield from original(committer, requesting or tasks, closing)


def commits_no_offsets_without_output(original, committer, tasks, closing):
    """committer.commit: Without a record in the transaction there is nothing to commit, offsets included."""
    if committer._config.exactly_once and not committer.producer.in_transaction:
        for task in tasks:
            task.flush_caches()
        if not committer.producer.in_transaction:
            return
    yield from original(committer, tasks, closing)


def commits_times_of_buffered_records(original, committer, tasks, closing):
    """committer.commit: (outside) The time that is committed with an offset is that of the last record that was fetched."""
    for task in tasks:
        task.committable_times = lambda task=task: _fetched_times(task)
    yield from original(committer, tasks, closing)


def _fetched_times(task):
    queues = task.queues
    times = {
        each: max([queues.partition_times[each], *(record.timestamp for record in queue)])
        for each, queue in queues._queues.items()
    }
    return {each: time for each, time in times.items() if time >= 0}


def flush_stamps_with_last_record(original, task):
    """task.flush_caches: (outside) Flushed entries are sent with the timestamp of the record that was processed last."""
    producer, time = task._sender(), task._opened().record_timestamp

    class Stamping:
        def send(self, partition, key, value, timestamp):
            producer.send(partition, key, value, time)

    task._sender = Stamping
    try:
        original(task)
    finally:
        del task._sender


# --- restorations and standbys ---------------------------------------------------------


def restores_inputs_without_commit_to_the_end(original, updater, task, *, is_active):
    """updater.add: (outside) A table without a committed offset is restored up to the end of its input."""
    if "_committed" not in vars(updater):
        committed = updater._committed

        def or_end(partitions):
            found = yield from committed(partitions)
            if found is None:
                return None
            logs = updater._cluster.logs
            return {each: logs[each].end if at is None else at for each, at in found.items()}

        updater._committed = or_end
    original(updater, task, is_active=is_active)


def restores_one_record_too_many(original, updater, task, *, is_active):
    """updater.add: (outside) The record at the end of a restoration is restored as well, if it was fetched."""
    if "_applicable" not in vars(updater):
        applicable = updater._applicable
        updater._applicable = lambda updating, each: (
            applicable(updating, each)
            if each.end is None
            else min(applicable(updating, each) + 1, len(each.kept))
        )
    original(updater, task, is_active=is_active)


def standby_keeps_first_limit(original, updater, task, *, is_active):
    """updater.add: (outside) A standby asks once how far the input of its table is committed, and stops there."""
    if "_committed" not in vars(updater):
        committed, first = updater._committed, {}

        def once(partitions):
            found = yield from committed(partitions)
            for each in found or ():
                owner = updater._owner(each)
                if owner is not None and not owner.is_active and found[each] is not None:
                    found[each] = first.setdefault((each, id(owner)), found[each])
            return found

        updater._committed = once
    original(updater, task, is_active=is_active)


def never_commits_standbys(original, updater, task, *, is_active):
    """updater.add: (outside) The updater commits the tasks that restore, and no standby."""
    if "_commit" not in vars(updater):
        commit = updater._commit

        def commit_restoring():
            for each in updater._updating.values():
                each.has_news &= each.is_active
            yield from commit()

        updater._commit = commit_restoring
    original(updater, task, is_active=is_active)


def restoration_expires_without_grace(original, updater, task, *, is_active):
    """updater.add: (outside) A restored window counts as expired at its end, and not after its grace period."""
    callback_of = task._restore_callback

    def expiring(holder):
        restore = callback_of(holder)
        if holder.store.name != "windows":
            return restore

        def restore_open(batch):
            newest = max(each.timestamp for each in batch)
            restore([each for each in batch if parse_window_key(each.key)[1] + SIZE_MS > newest])

        return restore_open

    if "_restore_callback" not in vars(task):
        task._restore_callback = expiring
    original(updater, task, is_active=is_active)


def closes_restoring_tasks_dirty(original, thread, task, closing):
    """thread.give_up: A task that is taken away before it runs has no clean state, and is closed dirty."""
    restores = task.state is TaskState.RESTORING and thread.is_active(task.id)
    yield from original(
        thread, task, Closing.DIRTY if restores and closing is Closing.CLEAN else closing
    )


# --- records: order, time, idling ------------------------------------------------------


def lag_leaves_fetched_records_out(original, consumer, partition):
    """consumer.current_lag: Records that the consumer has fetched, and has not returned yet, do not count."""
    lag, state = original(consumer, partition), consumer._partitions[partition]
    if not lag or state.completed is None:
        return lag
    return max(lag - (state.completed.next_offset - state.position), 0)


def idle_time_is_not_restarted(original, task, now):
    """task.process: An input that has had a record does not get its whole idle time again."""
    before = task.queues._deadlines
    found = original(task, now)
    task.queues._deadlines = {**task.queues._deadlines, **before}
    return found


def dropped_records_move_time(original, queues):
    """queues.next_record: A record that cannot be processed moves stream time like any other."""
    taken = original(queues)
    if taken is not None:
        queues._advance(taken[0], taken[1].timestamp)
    return taken


def stream_time_lags_behind(original, queues):
    """queues.next_record: Stream time has the records before this one, until it is processed."""
    time = max(queues.partition_times.values())
    taken = original(queues)
    queues.stream_time = time
    return taken


def dropped_records_are_not_committed(original, task, now):
    """task.process: (outside) A record that is left out is no reason for a commit."""

    def drop(partition, record, reason):
        needed = task.commit_needed
        type(task)._drop(task, partition, record, reason)
        task.commit_needed = needed

    task._drop = drop
    return original(task, now)


def begins_with_the_time_of_one_input(original, thread, task):
    """thread.begin: (outside) Of the times that are committed, the first one alone is taken over."""
    task.queues.set_times = lambda times: type(task.queues).set_times(
        task.queues, dict(list(times.items())[:1])
    )
    yield from original(thread, task)


def punctuations_drift(original, task, now):
    """task.punctuate: (outside) The next punctuation is due an interval after this one happened."""
    punctuations = task.punctuations

    def due(kind, now):
        for each, interval_ms in type(punctuations).due(punctuations, kind, now):
            for schedule in punctuations._schedules:
                if schedule.kind == kind and schedule.punctuator is each:
                    schedule.due = now + schedule.interval_ms
            yield each, interval_ms

    punctuations.due = due
    return original(task, now)


def punctuation_keeps_time_of_last_record(original, task, now):
    """task.punctuate: (outside) Records of a punctuation have the timestamp of the record before it."""
    punctuations, context = task.punctuations, task._opened()
    time = context.record_timestamp

    def due(kind, now):
        for each, interval_ms in type(punctuations).due(punctuations, kind, now):

            def punctuator(now, each=each):
                if time != NO_TIMESTAMP:
                    context.record_timestamp = time
                each(now)

            yield punctuator, interval_ms

    punctuations.due = due
    return original(task, now)


def resumed_input_is_not_fetched(original, thread, assignment):
    """thread.take_assignment: (outside) An input that is resumed is fetched when its log has news, and not before."""
    consumer = thread._consumer

    def resume(partitions):
        for each in partitions:
            consumer._partitions[each].paused = False

    consumer.resume = resume
    yield from original(thread, assignment)


# --- the group, losses, pauses ---------------------------------------------------------


def keeps_restoring_tasks_after_loss(original, thread, error):
    """thread.handle_lost: (outside) Tasks that have not processed anything are kept: they wrote nothing."""
    thread._lost_tasks = thread._running
    yield from original(thread, error)


def keeps_pending_tasks_after_loss(original, thread, error):
    """thread.handle_lost: Tasks that were assigned, and are not open yet, are opened after a loss."""
    pending = dict(thread._pending)
    yield from original(thread, error)
    thread._pending |= pending


def restores_new_tasks_while_paused(original, thread):
    """thread.pause: (outside) A task that comes to a paused thread is not paused."""
    thread._hand_to_updater = lambda task, *, is_active: thread._updater.add(
        task, is_active=is_active
    )
    original(thread)


def reports_opened_tasks_alone(original, thread, assignment):
    """thread.take_assignment: (outside) A thread does not report tasks as owned that it has not opened yet."""
    thread._membership._describe = lambda: thread._assignor.subscription(
        thread.tasks, {task.id for task in thread.active}
    )
    yield from original(thread, assignment)


def reports_restoring_tasks_as_latest(original, thread, assignment):
    """thread.take_assignment: (outside) An active task counts as caught up while it still restores."""
    assignor = thread._assignor
    assignor._sum_of = lambda task: (
        LATEST_OFFSET if thread.is_active(task.id) else type(assignor)._sum_of(assignor, task)
    )
    yield from original(thread, assignment)


def joins_with_its_last_assignment(original, membership):
    """membership.rejoin: (outside) A member that joins anew takes no assignment that it has had in the same epoch."""
    call = type(membership)._call

    def without_known(what, handle):
        told = yield from call(membership, what, handle)
        known = getattr(membership, "_taken", None)
        if known and what == "join group" and (told.epoch, told.assignment) == known:
            return told._replace(assignment=None)
        return told

    membership._call = without_known
    original(membership)


def static_member_leaves(original, membership):
    """membership.rejoin: (outside) A static member leaves the group when it stops, whatever the setting says."""
    if membership._config.instance_id:
        membership._config = replace(membership._config, leaves=True)
    original(membership)


# --- producers, directories, global stores ---------------------------------------------


def out_of_order_is_fatal(original, producer, partition, key, value, timestamp):
    """producer.send: (outside) A batch that came before an earlier one of its partition ends the producer."""
    producer._is_behind = lambda partition, batch: False
    original(producer, partition, key, value, timestamp)


def keeps_epoch_after_an_abort(original, producer, partition, key, value, timestamp):
    """producer.send: (outside) A producer that has given up a record goes on in the same epoch."""

    def start_over():
        yield from producer.abort()
        producer.error = None
        producer._host.start(producer._send_in_background())

    producer.start_over = start_over
    original(producer, partition, key, value, timestamp)


def cleaner_counts_as_use(original, directory, task_id, thread):
    """directory.lock: The lock is a file in the directory, so that the cleaner uses the directory, too."""
    is_locked = original(directory, task_id, thread)
    if is_locked:
        directory._disk.used[task_id] = directory._host.now
    return is_locked


def commits_next_offset_of_global_stores(original, thread, assignment):
    """thread.take_assignment: (outside) Global stores are committed with the offset that they read next."""
    table = thread._global_table

    def commit_store(name):
        kept = table._offsets
        table._offsets = {each: at + 1 for each, at in kept.items()}
        try:
            type(table)._commit_store(table, name)
        finally:
            table._offsets = kept

    if table is not None:
        table._commit_store = commit_store
    yield from original(thread, assignment)


# --- listeners and metrics -------------------------------------------------------------


def total_is_that_of_the_last_batch(
    original, announcer, updating, partition, offset, count, log_end
):
    """restoration.applied: A restoration that has ended tells the number of records of its last batch."""
    if updating.is_active:
        updating.changelogs[partition].total = count
    original(announcer, updating, partition, offset, count, log_end)


def tells_suspension_at_pause(original, updater, task_id):
    """updater.pause: Listeners are told that the restorations of a paused task are suspended."""
    updating = updater._updating.get(task_id)
    for partition, each in updating.changelogs.items() if updating else ():
        if each.is_open:
            updater._announcer.suspended(
                updating, partition, updater._log_end(partition), "migrated"
            )
    original(updater, task_id)


def suspended_task_keeps_metrics(original, task):
    """task.suspend: The metrics of a task stay when the task is taken away."""
    task._metrics = None
    original(task)


def removed_task_keeps_restore_metrics(original, updater, task_id, reason="migrated"):
    """updater.remove: The metrics of a restoration stay when its task is taken away."""
    return updater._release(task_id, reason)
