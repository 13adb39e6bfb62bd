# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in clients and Spark that break a promise, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

PRODUCER = "src/odradek/client/producer"
CONSUMER = "src/odradek/client/consumer"
SPARK = "src/odradek/spark"

CLIENT_PLANTS: list[Plant] = [
    Plant(
        "delivery.timeout.ms holds for batches in flight",
        f"{PRODUCER}/sender/batch_completion.py",
        "if created_ms <= limit_ms and not batch.done",
        "if False",
        ("unit/client/producer/sender/test_sender.py::test_batch_in_flight_fails_after_delivery_timeout",),
    ),
    Plant(
        "records that are not delivered in time fail",
        f"{PRODUCER}/accumulator/record_accumulator.py",
        "            while queue and queue[0].created_ms + self._delivery_timeout_ms <= now_ms:",
        "            while queue and queue[0].created_ms + 3 * self._delivery_timeout_ms <= now_ms:",
        ("unit/client/producer/test_producer.py::test_records_fail_after_delivery_timeout",),
    ),
    Plant(
        "a callback that raises disturbs no other",
        f"{PRODUCER}/deliveries.py",
        '            log.failure("delivery_callback_failed", error)',
        "            raise",
        ("unit/client/producer/test_producer.py::test_failing_callback_does_not_affect_other_records",),
    ),
    Plant(
        "retried batches come back in order",
        f"{PRODUCER}/accumulator/record_accumulator.py",
        "        while index < len(queue) and _is_before(queue[index], batch):\n            index += 1\n",
        "",
        (
            "unit/client/producer/sender/test_delivery_under_failures.py::test_records_are_written_once_in_order_and_completed_once_in_order",
        ),
    ),
    Plant(
        "retried batches come before those that were not sent yet",
        f"{PRODUCER}/accumulator/record_accumulator.py",
        "        queue.insert(index, batch)\n",
        "        queue.append(batch)\n",
        (
            "unit/client/producer/sender/test_sender.py::test_retried_batch_without_idempotence_goes_before_queued_ones",
            "unit/client/producer/sender/test_sender.py::test_five_requests_failing_together_are_retried_in_order",
        ),
    ),
    Plant(
        "memory of a request is not used again before its answer",
        f"{PRODUCER}/sender/batch_completion.py",
        "                if batch in self.in_flight:",
        "                if False:",
        (
            "unit/client/producer/sender/test_sender.py::test_memory_in_flight_is_not_reused_before_the_request_ends",
        ),
    ),
    Plant(
        "send waits for max.block.ms at most",
        f"{PRODUCER}/producer.py",
        "deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms",
        "deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms // 2",
        ("unit/client/producer/test_producer.py::test_send_waits_for_memory_up_to_max_block_ms",),
    ),
    Plant(
        "a forced close tells every record",
        f"{PRODUCER}/sender/batch_completion.py",
        "        for batch in batches:\n            self.fail(batch, error, adjust_sequences=False)\n\n\ndef",
        "        for batch in batches[1:]:\n            self.fail(batch, error, adjust_sequences=False)\n\n\ndef",
        (
            "unit/client/producer/test_producer.py::test_forced_close_fails_every_record_and_every_waiter",
            "unit/client/producer/sender/test_delivery_under_failures.py::test_close_at_any_moment_completes_every_record_once_in_order",
        ),
    ),
    Plant(
        "sequences are given once",
        f"{PRODUCER}/transactions/sequences.py",
        "            self.next_sequence = sequence_after(batch)\n            self._in_flight.append",
        "            self._in_flight.append",
        (
            "unit/client/producer/transactions/test_sequences.py::test_batches_are_written_once_and_in_order_under_failures",
            "unit/client/producer/sender/test_delivery_under_failures.py::test_records_are_written_once_in_order_and_completed_once_in_order",
        ),
    ),
    Plant(
        "the first batch of a producer goes alone",
        f"{PRODUCER}/transactions/sequences.py",
        "            self.last_acked is None\n            or self.unresolved_after is not None",
        "            self.unresolved_after is not None",
        (
            "unit/client/producer/transactions/test_sequences.py::test_batches_are_written_once_and_in_order_under_failures",
        ),
    ),
    Plant(
        "a batch goes only to partitions that its coordinator knows of",
        f"{PRODUCER}/transactions/transaction_manager.py",
        "        if self.is_transactional and partition_of(batch) not in self._requests.partitions_in_transaction:\n            return False\n",
        "",
        (
            "unit/client/producer/transactions/test_transaction_invariants.py::test_transaction_invariants_hold_under_failures",
        ),
    ),
    Plant(
        "a fenced producer can do nothing more",
        f"{PRODUCER}/transactions/transaction_manager.py",
        '        self._status.check_call("send")\n',
        "",
        (
            "unit/client/producer/transactions/test_transactions.py::test_second_producer_with_the_same_id_fences_the_first",
        ),
    ),
    Plant(
        "partitions are committed before they are revoked",
        f"{CONSUMER}/group/rebalance/assignment_handler.py",
        "        if self._auto_commit.enabled and not revocation.lost and self.last_commit is None:",
        "        if False:",
        (
            "unit/client/consumer/group/test_offset_committer.py::test_positions_are_committed_before_revocation",
            "unit/client/consumer/test_consumers_during_rebalance.py::test_records_are_read_once_through_rebalances",
        ),
    ),
    Plant(
        "commit callbacks run in order",
        f"{CONSUMER}/group/offset_committer.py",
        "            pending = self._pending.popleft()",
        "            pending = self._pending.pop()",
        (
            "unit/client/consumer/group/test_offset_committer.py::test_commit_callbacks_run_in_order_inside_poll",
        ),
    ),
    Plant(
        "polled records are committed automatically",
        f"{CONSUMER}/group/consumer_coordinator.py",
        "        if not self._auto_commit.is_due(now_ms):\n            return\n",
        "        return\n",
        ("unit/client/consumer/test_consumer_in_group.py::test_auto_commit_covers_exactly_polled_records",),
    ),
    Plant(
        "log truncation is detected",
        f"{CONSUMER}/positions/subscription_state.py",
        "        elif end_offset < validated.offset:",
        "        elif False:",
        ("unit/client/consumer/positions/test_offset_fetcher.py::test_truncation_resets_position_or_raises",),
    ),
    Plant(
        "every offset is in one range of a plan",
        f"{SPARK}/source/range_planner.py",
        "        start = end\n",
        "        start = end + 1\n",
        (
            "unit/spark/source/test_range_planner.py::test_every_offset_is_planned_once_in_a_deterministic_order",
        ),
    ),
    Plant(
        "a plan does not depend on order",
        f"{SPARK}/source/range_planner.py",
        "        for partition in sorted(end)\n",
        "        for partition in end\n",
        (
            "unit/spark/source/test_range_planner.py::test_every_offset_is_planned_once_in_a_deterministic_order",
        ),
    ),
    Plant(
        "two attempts at one batch add it once",
        f"{SPARK}/delta/sink/commits.py",
        "    return committed_version is not None and committed_version >= app_transaction.version",
        "    return False",
        ("unit/spark/delta/sink/test_writer.py::test_concurrent_attempts_at_a_batch_add_it_once",),
    ),
    Plant(
        "a replay whose markers may be gone is refused",
        f"{SPARK}/sink/markers.py",
        "return now_ms - batch_time_ms <= kept_ms * (1 - _MARGIN_SHARE)",
        "return True",
        (
            "unit/pipelines/run/test_supervisor.py::test_unfinished_batch_with_expired_markers_is_not_replayed",
        ),
    ),
    Plant(
        "others are fenced before the marker is read",
        f"{SPARK}/sink/transactional_writer.py",
        "        pooled.producer.init_transactions()\n        marker_topics.ensure(options, recheck=has_no_markers)\n        pooled.marker = read_marker(options, unit.key)\n",
        "        marker_topics.ensure(options, recheck=has_no_markers)\n        pooled.marker = read_marker(options, unit.key)\n        pooled.producer.init_transactions()\n",
        (
            "unit/spark/sink/test_transactional_writer.py::test_takeover_fences_before_reading_the_marker_and_commits_rows_with_it",
        ),
    ),
    Plant(
        "rows and marker are in one transaction",
        f"{SPARK}/sink/transactional_writer.py",
        "        _send_marker(pooled.producer, options, unit, pooled.marker)\n        if open_transaction is None:\n            pooled.producer.commit_transaction()\n",
        "        if open_transaction is None:\n            pooled.producer.commit_transaction()\n        _send_marker(pooled.producer, options, unit, pooled.marker)\n",
        (
            "unit/spark/sink/test_transactional_writer.py::test_takeover_fences_before_reading_the_marker_and_commits_rows_with_it",
            "spark/sink/test_transactions.py::test_rows_and_marker_become_visible_atomically",
        ),
    ),
    Plant(
        "a batch that is written already is not written again",
        f"{SPARK}/sink/markers.py",
        "        return batch_id < self.next_batch\n",
        "        return batch_id + 1 < self.next_batch\n",
        ("unit/spark/sink/test_transactional_writer.py::test_written_batch_is_consumed_and_skipped",),
    ),
    Plant(
        "a replay dealt otherwise is refused",
        f"{SPARK}/sink/markers.py",
        "    if marker.next_batch != batch_id + 1 or marker.rows_count in {None, rows_count}:\n        return\n",
        "    return\n",
        (
            "unit/spark/sink/test_transactional_writer.py::test_replay_with_another_row_count_raises_replay_mismatch",
            "spark/sink/test_transactions.py::test_replay_with_other_rows_is_rejected",
        ),
    ),
    Plant(
        "a marker that was lost is missed",
        f"{SPARK}/sink/transactional_writer.py",
        "        raise markers_lost_error(key, options.marker_topic)",
        "        pass",
        ("unit/spark/sink/test_transactional_writer.py::test_lost_markers_are_detected_before_the_takeover",),
    ),
    Plant(
        "what waits to be read is bounded",
        f"{CONSUMER}/fetch/fetcher.py",
        "            if is_full or available_bytes < self._config.partition_max_bytes:\n                return None",
        "            pass",
        ("unit/client/consumer/test_consumer.py::test_fetch_buffer_is_bounded",),
    ),
    Plant(
        "a Delta checkpoint that went back in time is refused",
        f"{SPARK}/delta/sink/commits.py",
        "    if committed_version is not None and committed_version > app_transaction.version:",
        "    if False:",
        ("unit/spark/delta/sink/test_writer.py::test_stale_checkpoint_is_rejected",),
    ),
    Plant(
        "only batches of an exactly-once topic can be too old",
        "src/odradek/pipelines/query/marker_retention.py",
        '    if spec.sink.type != "topic" or spec.sink.guarantee != "exactly_once":\n        return\n',
        "",
        ("unit/pipelines/run/test_supervisor.py::test_marker_retention_applies_to_exactly_once_topics_only",),
    ),
    Plant(
        "close calls back for all commits",
        f"{CONSUMER}/group/offset_committer.py",
        "        while self._pending and self._pending[0].task.done():",
        "        if self._pending and self._pending[0].task.done():",
        ("unit/client/consumer/group/test_offset_committer.py::test_close_runs_all_commit_callbacks",),
    ),
]
