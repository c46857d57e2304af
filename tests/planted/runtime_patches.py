"""Mistakes in the simulated runtime, as patches: each docstring begins with the seam.

Each is a mistake that somebody would make in the runtime of Kafka Streams. A mistake outside of the
seams replaces a method of one object, which its seam gets, for as long as that object lives.
"""

from __future__ import annotations

from streamproof.sim.decisions.recovery import Closing
from streamproof.sim.tasks.stream_task import TaskState

# --- commits ---------------------------------------------------------------------------


def commits_positions_of_other_tasks(original, task, positions):
    """task.committable_offsets: A task commits all positions of the consumer, those of other tasks included."""
    known = {partition: at for partition, at in positions.items() if at is not None}
    return known | original(task, positions)


def commits_no_paused_inputs(original, task, positions):
    """task.committable_offsets: An input that is paused, because too much of it is buffered, is left out."""
    found, queues = original(task, positions), task.queues
    return {each: at for each, at in found.items() if queues.buffered(each) <= queues.limit}


def commits_offset_of_first_store(original, task, name):
    """task.commit_store: All stores of a task are committed with the offset of the first one."""
    holder, first = task.stores[name], next(iter(task.stores.values()))
    kept, holder.offset = holder.offset, first.offset
    try:
        original(task, name)
    finally:
        holder.offset = kept


def commits_no_unknown_offset(original, task, name):
    """task.commit_store: A store without an offset is not committed, so that it looks like one that has crashed."""
    if task.stores[name].offset is not None:
        original(task, name)


def flushes_one_cache(original, task):
    """task.flush_caches: Only the first cache of a task is flushed before its commit."""
    for holder in task.stores.values():
        if holder.cache is not None:
            holder.cache.flush_cache()
            return


def flush_ignores_lingering(original, producer):
    """producer.flush: The flush waits for the records in flight alone, and not for those that linger."""
    lingering = sum(map(len, producer._buffered.values()))
    if producer.error is None and lingering == producer._unconfirmed:
        return
    yield from original(producer)


def begins_without_commit(original, thread, task):
    """thread.begin: (outside) The restored records are not committed to the stores before the task runs."""
    task.commit_stores = lambda closing: None
    yield from original(thread, task)
    del task.commit_stores


def revokes_without_commit(original, thread, assignment):
    """thread.take_assignment: Revoked tasks are given up without a commit of what they have processed."""
    before = [task for task in thread.active if task.commit_needed]
    for task in before:
        task.commit_needed = False
    yield from original(thread, assignment)
    for task in before:
        if thread.tasks.get(task.id) is task:
            task.commit_needed = True


# --- records: order, time, positions ---------------------------------------------------


def takes_from_longest_queue(original, queues):
    """queues.next_record: The next record comes from the input with the most buffered records."""
    waiting = {name: queue for name, queue in queues._queues.items() if queue}
    if not waiting:
        return None
    partition = max(sorted(waiting), key=lambda name: len(waiting[name]))
    record = waiting[partition].popleft()
    queues._advance(partition, record.timestamp)
    return partition, record


def stream_time_includes_buffered(original, queues):
    """queues.next_record: The time of each input moves to its next record before that is processed."""
    found = original(queues)
    for name, queue in queues._queues.items():
        if found is not None and queue:
            queues._advance(name, queue[0].timestamp)
    return found


def waits_for_space_in_all_inputs(original, queues, partition):
    """queues.has_space: A paused input is resumed once all inputs of its task have space."""
    return all(len(queue) <= queues.limit for queue in queues._queues.values())


def begins_at_the_end(original, thread, task):
    """thread.begin: An input without a committed offset is read from the end of its log."""
    application = thread._application
    group = application.cluster.group(application.topology.application_id)
    new = [each for each in task.spec.inputs if group.committed(each) is None]
    yield from original(thread, task)
    if task.state is TaskState.RUNNING:
        for each in new:
            thread._consumer.seek(each, application.cluster.logs[each].end)


def seek_keeps_fetched(original, consumer, partition, offset):
    """consumer.seek: Records that were fetched from the position before are returned after a seek."""
    state = consumer._of(partition)
    completed, buffered = state.completed, list(state.buffered)
    original(consumer, partition, offset)
    state.completed = completed
    state.buffered.extend(buffered)


def sends_no_tombstones(original, producer, partition, key, value, timestamp):
    """producer.send: A record without a value is not sent, as there is nothing to send."""
    if value is not None:
        original(producer, partition, key, value, timestamp)


def tombstones_take_timestamp(original, producer, partition, key, value, timestamp):
    """producer.send: A tombstone gets the timestamp of the record that is queued before it."""
    queued = producer._buffered.get(partition)
    if value is None and queued:
        timestamp = queued[-1]["timestamp"]
    original(producer, partition, key, value, timestamp)


# --- idling and lag --------------------------------------------------------------------


def unknown_lag_is_zero(original, consumer, partition):
    """consumer.current_lag: A lag that is not known counts as 0."""
    return original(consumer, partition) or 0


def lag_is_kept_until_zero(original, consumer, partition):
    """consumer.current_lag: A lag is remembered, and asked for again only once it was 0."""
    known = vars(consumer).setdefault("known_lags", {})
    if not known.get(partition):
        known[partition] = original(consumer, partition)
    return known[partition]


def idle_time_begins_anew(original, task, now):
    """task.process: Each look at an empty input begins its idle time anew."""
    task.queues._deadlines = {}
    return original(task, now)


def lags_are_read_once(original, thread, task):
    """thread.begin: (outside) The lags of a task are not asked for again once all of them are known."""
    yield from original(thread, task)
    queues = task.queues
    if "update_lags" not in vars(queues):
        update = queues.update_lags
        queues.update_lags = lambda lag: None if queues.knows_lags else update(lag)


# --- punctuation -----------------------------------------------------------------------


def punctuates_busy_tasks_alone(original, task, now):
    """task.punctuate: A task without buffered records is not punctuated."""
    return task.queues.total_buffered() > 0 and original(task, now)


def punctuates_stream_time_by_clock(original, task, now):
    """task.punctuate: Punctuations by stream time follow the clock of the host."""
    punctuated = task.stream_time >= 0 and task._punctuate("stream time", now)
    return task.punctuate_wall_clock(now) or punctuated


def suspend_keeps_punctuations(original, task):
    """task.suspend: The punctuations stay, so that a task which runs again has each of them twice."""
    kept = list(task.punctuations._schedules)
    original(task)
    task.punctuations._schedules[:] = kept


# --- closing, wiping, locks ------------------------------------------------------------


def dirty_counts_as_corrupted(original, thread, task, closing):
    """thread.give_up: A task that is closed after an error of another kind counts as corrupted, and is wiped."""
    yield from original(thread, task, Closing.CORRUPTED if closing is Closing.DIRTY else closing)


def unlocks_before_close(original, thread, task, closing):
    """thread.give_up: The directory is unlocked before the stores of the task are closed."""
    thread._disk.unlock(task.id, thread.name)
    yield from original(thread, task, closing)


def wipe_keeps_sum(original, directory, task_id):
    """directory.wipe: The offset sum of a wiped task is reported as if its stores were there."""
    total = directory._sums.get(task_id)
    original(directory, task_id)
    if total is not None:
        directory._sums[task_id] = total


def lock_is_taken_over(original, directory, task_id, thread):
    """directory.lock: A thread gets the lock of a task that another thread of its process has."""
    if not original(directory, task_id, thread):
        directory._owners[task_id] = thread
    return True


def sums_are_read_once(original, thread, assignment):
    """thread.take_assignment: (outside) A thread reports the offset sums of the directory as it has read them first."""
    directory = thread._disk
    if "sums" not in vars(directory):
        read, known = directory.sums, {}
        directory.sums = lambda name: dict(known.setdefault(name, read(name)))
    yield from original(thread, assignment)


# --- failures --------------------------------------------------------------------------


def lost_thread_keeps_producer(original, thread, error):
    """thread.handle_lost: (outside) A thread that was lost goes on with its producer, and aborts nothing."""
    thread._committer.renew_producer = lambda tasks: iter(())
    yield from original(thread, error)
    del thread._committer.renew_producer


def revives_first_task_alone(original, thread, assignment):
    """thread.take_assignment: (outside) Of the tasks whose transaction is in doubt, only the first begins anew."""
    if "_begin_anew" not in vars(thread):
        begin = thread._begin_anew
        thread._begin_anew = lambda tasks, *more: begin(tasks[:1], *more)
    yield from original(thread, assignment)


def rejoin_ignored_in_rebalance(original, membership):
    """membership.rejoin: A wish to rejoin during a rebalance is forgotten, instead of kept for the next one."""
    if not membership.is_rebalancing:
        original(membership)


def remove_forgets_all_failures(original, updater, task_id, reason="migrated"):
    """updater.remove: When a task is removed, the failures of all tasks are forgotten."""
    updater.failed.clear()
    return original(updater, task_id, reason)


# --- restoring and standbys ------------------------------------------------------------


def skips_a_record_between_batches(original, updater, task, *, is_active):
    """updater.add: (outside) The first record of each restored batch but the first is skipped."""
    if "apply" not in vars(task):
        apply, begun = task.apply, set()

        def apply_rest(changelog, records):
            batch = list(records)
            apply(changelog, batch[1:] if changelog in begun and len(batch) > 1 else batch)
            begun.add(changelog)

        task.apply = apply_rest
    original(updater, task, is_active=is_active)


def promotes_without_tail(original, updater, task, *, is_active):
    """updater.add: A standby that becomes active is handed back at once, without the records that it still lacks."""
    standbys = vars(updater).setdefault("seen_standbys", [])
    if not is_active:
        standbys.append(task)
    elif updater.fatal is None and any(each is task for each in standbys):
        updater.metrics.add(task.id, is_active=True)
        updater.restored.append(task)
        updater._wake_owner()
        return
    original(updater, task, is_active=is_active)


def suspended_is_told_as_ended(original, updater, task, *, is_active):
    """updater.add: (outside) A restoration that is suspended is announced as ended."""
    announcer = updater._announcer
    if "suspended" not in vars(announcer):
        suspended = announcer.suspended

        def ended_or_suspended(updating, partition, log_end, reason):
            if updating.is_active:
                announcer.ended(updating, partition)
            else:
                suspended(updating, partition, log_end, reason)

        announcer.suspended = ended_or_suspended
    original(updater, task, is_active=is_active)


def announces_last_batch_twice(original, announcer, updating, partition, offset, count, log_end):
    """restoration.applied: The listener hears of the last batch of a restoration twice."""
    original(announcer, updating, partition, offset, count, log_end)
    end = updating.changelogs[partition].end
    if updating.is_active and end is not None and end - offset <= 2:
        original(announcer, updating, partition, offset, count, log_end)


def announces_first_offset(original, announcer, updating, partition, offset, count, log_end):
    """restoration.applied: The listener hears the offset of the first record of a batch instead of the last."""
    original(announcer, updating, partition, offset - count + 1, count, log_end)


# --- pausing ---------------------------------------------------------------------------


def pauses_active_tasks_alone(original, updater, task_id):
    """updater.pause: A pause holds the restoration of active tasks, and not the updates of standbys."""
    found = updater._updating.get(task_id)
    if found is not None and found.is_active:
        original(updater, task_id)


def resume_leaves_restorations_paused(original, thread):
    """thread.resume: The thread goes on after a pause, but the tasks that it restores stay paused."""
    thread._is_paused = False
    thread._consumer.wakeup()


def pause_drops_buffers(original, thread):
    """thread.pause: A pause frees the buffered records, and does not fetch them again."""
    original(thread)
    for task in thread.active:
        for queue in task.queues._queues.values():
            queue.clear()
