# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Planted bugs in the log, each with the tests that must detect it."""

from __future__ import annotations

from tests.mutation.plant import Plant

LOG = "src/odradek/log"

LOG_PLANTS: list[Plant] = [
    Plant(
        "a batch is stored completely or not at all",
        f"{LOG}/segments/active_segment.py",
        "            self.log_file.truncate(position)\n            raise",
        "            raise",
        ("unit/log/segments/test_active_segment.py::test_failed_append_changes_nothing",),
    ),
    Plant(
        "records are read in order from any offset",
        f"{LOG}/log.py",
        "        first = bisect_left(offsets, offset)\n",
        "        first = max(bisect_left(offsets, offset) - 1, 0)\n",
        ("unit/log/test_log.py::test_reads_return_complete_batches_from_any_offset",),
    ),
    Plant(
        "duplicates of the last five batches are detected",
        f"{LOG}/producers/producer_states.py",
        "batches = (*earlier[1 - BATCHES_RETAINED_MAX :], batch)",
        "batches = (*earlier[2 - BATCHES_RETAINED_MAX :], batch)",
        ("unit/log/producers/test_producer_states.py::test_retries_of_up_to_five_batches_are_stored_once",),
    ),
    Plant(
        "a batch of an idempotent producer is stored once",
        f"{LOG}/log.py",
        "            if duplicate is not None:",
        "            if duplicate is not None and False:",
        (
            "integration/test_invalid_batches.py::test_duplicate_batch_gets_its_original_offset_and_is_stored_once",
            "unit/broker/handlers/test_read_committed.py::test_duplicate_of_an_older_batch_gets_its_original_offset",
            "compat/test_idempotent_restarts.py::test_no_record_is_lost_or_duplicated_by_broker_crashes",
            "clients/test_producer.py::test_broker_restart_delivers_records_once",
        ),
    ),
    Plant(
        "a sequence gap is rejected",
        f"{LOG}/producers/producer_states.py",
        "    if duplicate is None and producer.producer_epoch != NO_PRODUCER_EPOCH:",
        "    if False:",
        ("integration/test_invalid_batches.py::test_sequence_gap_is_rejected",),
    ),
    Plant(
        "an older epoch is fenced",
        f"{LOG}/producers/producer_states.py",
        "    if header.producer_epoch < producer.producer_epoch:",
        "    if False:",
        ("integration/test_invalid_batches.py::test_older_producer_epoch_is_fenced",),
    ),
    Plant(
        "idempotence holds across restarts",
        f"{LOG}/producers/producer_state_manager.py",
        "decode_snapshot(context.files.read_whole(path), path))\n",
        "decode_snapshot(context.files.read_whole(path), path)[:0])\n",
        (
            "unit/broker/handlers/test_read_committed.py::test_duplicate_of_an_older_batch_gets_its_original_offset",
            "unit/log/producers/test_producer_state_manager.py::test_duplicates_of_the_last_batch_and_after_the_snapshot_are_detected_after_a_restart",
            "unit/log/producers/test_producer_state_model.py::test_producer_state_matches_the_batches",
        ),
    ),
    Plant(
        "recovery rebuilds producer state from the scanned batches",
        f"{LOG}/recovery/log_loader.py",
        "            transaction = producers.update(header, window, header.position)",
        "            transaction = None",
        ("unit/log/producers/test_producer_state_model.py::test_producer_state_matches_the_batches",),
    ),
    Plant(
        "a snapshot contains the last batch of each producer",
        f"{LOG}/producers/snapshot_file.py",
        "    if last_offset >= 0:",
        "    if False:",
        (
            "unit/log/producers/test_producer_state_manager.py::test_duplicates_of_the_last_batch_and_after_the_snapshot_are_detected_after_a_restart",
        ),
    ),
    Plant(
        "a corrupt snapshot is rejected",
        f"{LOG}/producers/snapshot_file.py",
        "    if crc != computed:",
        "    if False:",
        ("unit/log/producers/test_snapshot_file.py::test_corrupt_or_truncated_snapshot_is_rejected",),
    ),
    Plant(
        "the snapshot before a corrupt one is used",
        f"{LOG}/producers/producer_state_manager.py",
        "            context.files.remove(path)\n        return None",
        "            pass\n        raise",
        (
            "unit/log/producers/test_producer_state_manager.py::test_previous_snapshot_is_used_if_one_is_corrupt_or_missing",
        ),
    ),
    Plant(
        "the producer that appended longest ago is evicted first",
        f"{LOG}/producers/producer_states.py",
        "            self._producers.move_to_end(producer_id)",
        "            pass",
        ("unit/log/producers/test_producer_states.py::test_oldest_producer_is_evicted_above_the_limit",),
    ),
    Plant(
        "a producer with an open transaction is not evicted",
        f"{LOG}/producers/producer_states.py",
        "            if producer.transaction_first_offset < 0:\n                del",
        "            if True:\n                del",
        (
            "unit/log/producers/test_producer_states.py::test_producer_with_an_open_transaction_is_not_evicted",
        ),
    ),
    Plant(
        "only segments from the recovery point on are scanned",
        f"{LOG}/recovery/log_loader.py",
        "        first = max(sum(segment.base_offset < context.recovery_point for segment in segments) - 1, 0)",
        "        first = 0",
        ("unit/log/recovery/test_log_loader.py::test_only_segments_from_the_recovery_point_are_scanned",),
    ),
    Plant(
        "a torn last write is truncated",
        f"{LOG}/recovery/log_loader.py",
        "        file.truncate(scanned.valid_end)\n",
        "",
        (
            "unit/log/recovery/test_log_loader.py::test_torn_last_batch_is_truncated_at_any_byte",
            "faults/test_storage_faults.py::test_torn_batch_is_truncated_and_earlier_batches_are_kept",
        ),
    ),
    Plant(
        "the log is truncated at a corrupt batch",
        f"{LOG}/recovery/log_loader.py",
        "            _remove_from(segments, number + 1, recovered)\n            break",
        "            pass",
        ("unit/log/recovery/test_log_loader.py::test_log_is_truncated_at_a_corrupt_batch",),
    ),
    Plant(
        "a missing or odd-sized index is rebuilt",
        f"{LOG}/recovery/log_loader.py",
        "    if offsets % OFFSETS.entry_bytes or times % TIMES.entry_bytes:",
        "    if False:",
        (
            "unit/log/recovery/test_log_loader.py::test_missing_or_odd_sized_index_is_rebuilt_after_a_clean_shutdown",
        ),
    ),
    Plant(
        "a closed log is complete without a scan",
        f"{LOG}/local_log.py",
        "            sealed.sync()\n            flush()",
        "            flush()",
        ("unit/log/test_log_truncation.py::test_closed_log_survives_a_crash_without_a_scan",),
    ),
    Plant(
        "a flush syncs the batches",
        f"{LOG}/log_flusher.py",
        "                active.sync_log()",
        "                pass",
        (
            "unit/log/recovery/test_log_loader.py::test_log_is_a_prefix_with_all_flushed_records_after_a_crash",
            "unit/log/test_log_model.py::test_log_matches_its_model",
            "unit/broker/storage/test_log_maintenance.py::test_no_acknowledged_record_is_lost_with_flush_messages_1",
        ),
    ),
    Plant(
        "a flush is due after flush.messages",
        f"{LOG}/local_log.py",
        "return self.log_end_offset - self.recovery_point >= self._config.flush_messages",
        "return self.log_end_offset - self.recovery_point > self._config.flush_messages",
        ("unit/broker/storage/test_log_maintenance.py::test_log_is_flushed_every_flush_messages",),
    ),
    Plant(
        "uncommitted records are not deleted",
        f"{LOG}/retention.py",
        "    if segment.end_offset > log.high_watermark or (segment",
        "    if (segment",
        ("unit/log/test_retention.py::test_uncommitted_records_are_not_deleted",),
    ),
    Plant(
        "retention deletes what Kafka would",
        f"{LOG}/retention.py",
        "segment.size_bytes <= surplus",
        "segment.size_bytes < surplus",
        ("unit/log/test_retention.py::test_deletable_segments_equal_those_of_kafka",),
    ),
    Plant(
        "a future timestamp keeps its segment and all after it",
        f"{LOG}/retention.py",
        "        if reason is None:\n            break",
        "        if reason is None:\n            continue",
        ("unit/log/test_retention.py::test_future_timestamp_keeps_its_segment_and_all_after_it",),
    ),
    Plant(
        "a clock set back deletes nothing",
        f"{LOG}/retention.py",
        "now_ms - segment.largest_timestamp > config.retention_ms",
        "abs(now_ms - segment.largest_timestamp) > config.retention_ms",
        ("unit/log/test_retention.py::test_a_clock_set_back_deletes_nothing",),
    ),
    Plant(
        "the end of the log survives a power loss during retention",
        f"{LOG}/old_segments.py",
        "            await log.sync_names()\n            # Not earlier",
        "            # Not earlier",
        ("unit/log/test_retention.py::test_power_loss_at_any_step_of_retention_leaves_no_gap",),
    ),
    Plant(
        "a checkpointed log start offset survives a crash",
        f"{LOG}/recovery/log_loader.py",
        "    start_offset = max(log_start_offset, segments[0].base_offset)",
        "    start_offset = segments[0].base_offset",
        (
            "unit/log/directory/test_log_directory.py::test_checkpointed_log_start_offset_survives_a_crash",
            "compat/test_restarts.py::test_beginning_offset_after_delete_records_survives_a_clean_stop",
        ),
    ),
    Plant(
        "unflushed records and the active segment are not cleaned",
        f"{LOG}/cleaning/log_to_clean.py",
        "    first = min(last_stable_offset, recovery_point, last_base_offset)",
        "    first = min(last_stable_offset, last_base_offset)",
        ("unit/log/cleaning/test_log_cleaner.py::test_active_segment_and_unflushed_records_are_not_cleaned",),
    ),
    Plant(
        "records within min.compaction.lag.ms are not cleaned",
        f"{LOG}/cleaning/log_to_clean.py",
        "    return first if too_recent_offset is None else min(first, too_recent_offset)",
        "    return first",
        ("unit/log/cleaning/test_log_cleaner.py::test_records_are_cleaned_after_min_compaction_lag",),
    ),
    Plant(
        "the last batch of a producer is retained",
        f"{LOG}/cleaning/cleaner.py",
        "retention = await self._files.offload(lambda: producer_retention(self._producers))",
        "retention = await self._files.offload(lambda: producer_retention([]))",
        (
            "unit/log/cleaning/test_log_cleaner.py::test_last_batch_of_a_producer_is_retained_as_an_empty_batch",
        ),
    ),
    Plant(
        "a tombstone is kept for delete.retention.ms",
        f"{LOG}/cleaning/cleaner.py",
        "rules = FilterRules(self._now_ms, self._log.config.delete_retention_ms, horizon_ms)",
        "rules = FilterRules(self._now_ms, 0, horizon_ms)",
        ("unit/log/cleaning/test_log_cleaner.py::test_tombstone_is_kept_for_delete_retention_ms",),
    ),
    Plant(
        "the latest record of each key is kept",
        f"{LOG}/cleaning/cleaner_passes.py",
        "        if filtered is not None:\n            self._append(filtered)",
        "        pass",
        ("unit/log/cleaning/test_compaction_model.py::test_cleaning_keeps_the_latest_record_of_each_key",),
    ),
    Plant(
        "older records of a key are removed",
        f"{LOG}/cleaning/cleaner_passes.py",
        "            window, position, self._offset_map, retention, rules.now_ms",
        "            window, position, OffsetMap(2, bytes(16)), retention, rules.now_ms",
        (
            "unit/log/cleaning/test_compaction_model.py::test_cleaning_keeps_the_latest_record_of_each_key",
            "integration/test_compaction.py::test_consumer_reads_latest_value_per_key_and_tombstones_are_removed",
        ),
    ),
    Plant(
        "a crash during a cleaning loses no latest record",
        f"{LOG}/segments/cleaned_segment.py",
        "        self._file.sync()\n        self._file.close()\n        self._context",
        "        self._file.close()\n        self._context",
        (
            "unit/log/cleaning/test_cleaner_crashes.py::test_crash_at_any_step_keeps_the_latest_record_of_each_key",
        ),
    ),
    Plant(
        "a corrupt log is marked uncleanable",
        f"{LOG}/cleaning/log_cleaner.py",
        "        else:\n            self._uncleanable.mark(log, str(error))\n\n    async def _throttle_io",
        "\n    async def _throttle_io",
        (
            "unit/log/cleaning/test_log_cleaner.py::test_corrupt_log_is_marked_uncleanable_and_others_are_cleaned",
        ),
    ),
    Plant(
        "a full disk aborts only the current cleaning",
        f"{LOG}/cleaning/log_cleaner.py",
        "        if is_full or cleaning.must_end:",
        "        if cleaning.must_end:",
        ("unit/log/cleaning/test_log_cleaner.py::test_cleaning_is_aborted_on_a_full_disk_and_retried",),
    ),
    Plant(
        "the log has no gap after a power loss",
        f"{LOG}/recovery/log_loader.py",
        "        if segment.base_offset < end_offset or segment.base_offset > max(end_offset, holes_end):",
        "        if False:",
        (
            "unit/log/recovery/test_log_loader.py::test_segment_after_a_gap_is_removed_unless_the_topic_is_compacted",
        ),
    ),
    Plant(
        "an aborted transaction stays indexed while a batch is left",
        f"{LOG}/segments/cleaned_segment.py",
        "        if aborted:\n",
        "        if False:\n",
        (
            "unit/log/cleaning/test_log_cleaner.py::test_aborted_transaction_stays_indexed_while_a_batch_is_left",
        ),
    ),
    Plant(
        "changed flush settings apply immediately",
        f"{LOG}/local_log.py",
        "        self._config = config\n        self._rules = config.append_rules()",
        "        self._rules = config.append_rules()",
        (
            "unit/broker/storage/test_log_maintenance.py::test_changed_flush_settings_apply_at_once",
            "unit/broker/storage/test_log_maintenance.py::test_lowered_retention_applies_at_the_next_check",
        ),
    ),
    Plant(
        "a failed sync fails the log",
        f"{LOG}/disk_health.py",
        "        if error.errno in _NON_SYNC_ERRORS:",
        "        if True:",
        (
            "unit/broker/storage/test_log_maintenance.py::test_failed_flush_fails_the_produce_and_takes_the_log_offline",
            "unit/broker/storage/test_log_dirs.py::test_failed_fsync_takes_the_log_dir_offline",
        ),
    ),
    Plant(
        "a full disk fails only the append",
        f"{LOG}/disk_health.py",
        "        if error.errno in SINGLE_LOG_ERRORS:",
        "        if False:",
        ("unit/log/test_log.py::test_full_disk_fails_only_the_append",),
    ),
    Plant(
        "a disk error fails the log",
        f"{LOG}/disk_health.py",
        "        if error.errno in SINGLE_LOG_ERRORS:",
        "        if True:",
        (
            "unit/log/test_log.py::test_disk_error_fails_the_log",
            "unit/broker/storage/test_log_dirs.py::test_failed_log_dir_goes_offline_alone",
        ),
    ),
    Plant(
        "flushed records survive a crash",
        f"{LOG}/log_flusher.py",
        "                active.sync_log()",
        "                pass",
        ("unit/broker/storage/test_power_loss.py::test_flushed_records_survive_random_power_losses",),
    ),
    Plant(
        "appended records survive a kill",
        f"{LOG}/recovery/log_loader.py",
        "    if end_offset is None or end_offset < log_start_offset:\n        recovered.dropped",
        "    if end_offset is None or not how.had_clean_shutdown:\n        recovered.dropped",
        (
            "compat/test_restarts.py::test_acknowledged_records_topics_and_configs_survive",
            "faults/test_storage_faults.py::test_acknowledged_records_survive_kills_under_load",
            "faults/test_group_faults.py::test_no_committed_offset_is_lost_when_broker_is_killed",
        ),
    ),
    Plant(
        "recovered batches are intact",
        f"{LOG}/segments/segment_format.py",
        "    if not has_valid_crc(window, header):",
        "    if False:",
        ("unit/log/recovery/test_log_loader.py::test_no_flipped_bit_is_served",),
    ),
    Plant(
        "a read in progress survives retention",
        f"{LOG}/segments/log_segment.py",
        "        self._file = None\n        self.release_indexes()",
        "        if self._file is not None: self._file.truncate(0)\n        self._file = None\n        self.release_indexes()",
        ("unit/log/test_retention.py::test_read_in_progress_survives_retention",),
    ),
]
