# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in the log that break a promise, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

LOG = "src/odradek/log"

LOG_PLANTS: list[Plant] = [
    Plant(
        "a batch is stored whole or not at all",
        f"{LOG}/segments/active_segment.py",
        "            self.log_file.truncate(position)\n            raise",
        "            raise",
        ("unit/log/segments/test_active_segment.py::test_a_failed_append_leaves_everything_as_it_was",),
    ),
    Plant(
        "records are read in order from any offset",
        f"{LOG}/log.py",
        "        first = bisect_left(offsets, offset)\n",
        "        first = max(bisect_left(offsets, offset) - 1, 0)\n",
        ("unit/log/test_log.py::test_reads_give_whole_batches_from_any_offset",),
    ),
    Plant(
        "one of the last five batches is known as a repetition",
        f"{LOG}/producers/producer_states.py",
        "batches = (*earlier[1 - BATCHES_KEPT :], kept)",
        "batches = (*earlier[2 - BATCHES_KEPT :], kept)",
        (
            "unit/log/producers/test_producer_states.py::test_with_retries_of_up_to_five_batches_every_batch_is_in_the_log_once",
        ),
    ),
    Plant(
        "a batch of an idempotent producer is stored once",
        f"{LOG}/log.py",
        "            if duplicate is not None:",
        "            if duplicate is not None and False:",
        (
            "integration/test_invalid_batches.py::test_repeated_batch_is_answered_with_its_first_offset_and_stored_once",
            "unit/broker/handlers/test_read_committed.py::test_a_repeated_batch_is_answered_as_before_though_much_lies_behind_it",
            "compat/test_idempotent_restarts.py::test_no_record_is_lost_or_doubled_by_ends_of_the_broker",
            "clients/test_producer.py::test_a_broker_that_restarts_gets_all_records_once",
        ),
    ),
    Plant(
        "a gap is refused",
        f"{LOG}/producers/producer_states.py",
        "    if repeated is None and producer.producer_epoch != NO_PRODUCER_EPOCH:",
        "    if False:",
        ("integration/test_invalid_batches.py::test_gap_in_the_sequence_is_refused",),
    ),
    Plant(
        "an older epoch is fenced",
        f"{LOG}/producers/producer_states.py",
        "    if header.producer_epoch < producer.producer_epoch:",
        "    if False:",
        ("integration/test_invalid_batches.py::test_older_epoch_of_a_producer_is_fenced",),
    ),
    Plant(
        "idempotence holds across restarts",
        f"{LOG}/producers/producer_state_manager.py",
        "decode_snapshot(place.files.read_whole(path), path)\n",
        "decode_snapshot(place.files.read_whole(path), path)[:0]\n",
        (
            "unit/broker/handlers/test_read_committed.py::test_a_repeated_batch_is_answered_as_before_though_much_lies_behind_it",
            "unit/log/producers/test_producer_state_manager.py::test_a_restart_knows_the_last_batch_and_those_behind_the_snapshot",
            "unit/log/producers/test_producer_state_model.py::test_state_is_what_the_batches_say",
        ),
    ),
    Plant(
        "a recovery reads producers from the batches it scans",
        f"{LOG}/recovery/log_loader.py",
        "            found = producers.appended(header, window, header.position)",
        "            found = None",
        ("unit/log/producers/test_producer_state_model.py::test_state_is_what_the_batches_say",),
    ),
    Plant(
        "a snapshot keeps the last batch of each producer",
        f"{LOG}/producers/snapshot_file.py",
        "    if last_offset >= 0:",
        "    if False:",
        (
            "unit/log/producers/test_producer_state_manager.py::test_a_restart_knows_the_last_batch_and_those_behind_the_snapshot",
        ),
    ),
    Plant(
        "a damaged snapshot is not believed",
        f"{LOG}/producers/snapshot_file.py",
        "    if crc != computed:",
        "    if False:",
        ("unit/log/producers/test_snapshot_file.py::test_no_flipped_bit_and_no_cut_is_believed",),
    ),
    Plant(
        "a broken snapshot leaves it to the one before",
        f"{LOG}/producers/producer_state_manager.py",
        "                    place.files.remove(path)\n                    continue",
        "                    break",
        (
            "unit/log/producers/test_producer_state_manager.py::test_one_that_is_broken_or_gone_leaves_it_to_the_one_before",
        ),
    ),
    Plant(
        "the producer that appended longest ago is forgotten first",
        f"{LOG}/producers/producer_states.py",
        "            self._producers.move_to_end(producer_id)",
        "            pass",
        (
            "unit/log/producers/test_producer_states.py::test_too_many_producers_forget_the_one_that_appended_longest_ago",
        ),
    ),
    Plant(
        "a producer with an open transaction is not forgotten",
        f"{LOG}/producers/producer_states.py",
        "            if producer.transaction_first_offset < 0:\n                del",
        "            if True:\n                del",
        (
            "unit/log/producers/test_producer_states.py::test_who_has_a_transaction_open_is_not_forgotten_for_want_of_room",
        ),
    ),
    Plant(
        "only segments from the recovery point on are scanned",
        f"{LOG}/recovery/log_loader.py",
        "        first = max(sum(segment.base_offset < how.recovery_point for segment in segments) - 1, 0)",
        "        first = 0",
        ("unit/log/recovery/test_log_loader.py::test_only_segments_from_the_recovery_point_on_are_scanned",),
    ),
    Plant(
        "a torn last write is cut off",
        f"{LOG}/recovery/log_loader.py",
        "        file.truncate(scanned.valid_end)\n",
        "",
        (
            "unit/log/recovery/test_log_loader.py::test_a_torn_tail_is_cut_at_every_byte_of_the_last_batch",
            "faults/test_storage_faults.py::test_a_batch_cut_at_any_byte_is_gone_and_all_before_it_is_there",
        ),
    ),
    Plant(
        "all after a damaged batch goes",
        f"{LOG}/recovery/log_loader.py",
        "            _drop_from(segments, number + 1, recovered)\n            break",
        "            pass",
        ("unit/log/recovery/test_log_loader.py::test_damage_in_the_middle_drops_all_that_follows",),
    ),
    Plant(
        "a lost or odd index is rebuilt",
        f"{LOG}/recovery/log_loader.py",
        "    if offsets % OFFSETS.entry_bytes or times % TIMES.entry_bytes:",
        "    if False:",
        (
            "unit/log/recovery/test_log_loader.py::test_an_index_that_is_missing_or_odd_is_rebuilt_even_after_a_clean_stop",
        ),
    ),
    Plant(
        "a closed log is whole without a scan",
        f"{LOG}/local_log.py",
        "            sealed.sync()\n            flush()",
        "            flush()",
        ("unit/log/test_log_truncation.py::test_a_closed_log_is_whole_after_a_crash_without_any_scan",),
    ),
    Plant(
        "a flush syncs the batches",
        f"{LOG}/log_flusher.py",
        "                active.sync_log()",
        "                pass",
        (
            "unit/log/recovery/test_log_loader.py::test_after_a_crash_the_log_is_a_prefix_that_holds_all_that_was_flushed",
            "unit/log/test_log_model.py::test_a_log_is_what_its_model_is_whatever_happens",
            "unit/broker/storage/test_log_maintenance.py::test_with_a_flush_per_record_power_loss_takes_no_acknowledged_record",
        ),
    ),
    Plant(
        "flushes come at the given count",
        f"{LOG}/local_log.py",
        "return self.log_end_offset - self.recovery_point >= self._config.flush_messages",
        "return self.log_end_offset - self.recovery_point > self._config.flush_messages",
        ("unit/broker/storage/test_log_maintenance.py::test_flushes_come_at_the_given_count",),
    ),
    Plant(
        "nothing that is not committed is deleted",
        f"{LOG}/retention.py",
        "    if segment.end_offset > of.high_watermark or (segment",
        "    if (segment",
        ("unit/log/test_retention.py::test_what_is_not_committed_stays",),
    ),
    Plant(
        "retention deletes what Kafka would",
        f"{LOG}/retention.py",
        "segment.size_bytes <= surplus",
        "segment.size_bytes < surplus",
        ("unit/log/test_retention.py::test_what_goes_is_what_kafka_would_delete",),
    ),
    Plant(
        "a timestamp ahead keeps its segment and those behind it",
        f"{LOG}/retention.py",
        "        if reason is None:\n            break",
        "        if reason is None:\n            continue",
        (
            "unit/log/test_retention.py::test_a_timestamp_ahead_of_the_clock_keeps_its_segment_and_those_behind_it",
        ),
    ),
    Plant(
        "a clock set back deletes nothing",
        f"{LOG}/retention.py",
        "now_ms - segment.newest_ms > config.retention_ms",
        "abs(now_ms - segment.newest_ms) > config.retention_ms",
        ("unit/log/test_retention.py::test_a_clock_set_back_deletes_nothing",),
    ),
    Plant(
        "a deletion leaves the end of the log through a loss of power",
        f"{LOG}/local_log.py",
        "                await self._sync_names()\n                # Not before",
        "                # Not before",
        ("unit/log/test_retention.py::test_power_lost_at_any_step_leaves_the_end_of_the_log_and_no_hole",),
    ),
    Plant(
        "a start offset survives once it is checkpointed",
        f"{LOG}/recovery/log_loader.py",
        "    start_offset = max(log_start_offset, segments[0].base_offset)",
        "    start_offset = segments[0].base_offset",
        (
            "unit/log/test_log_directory.py::test_a_start_offset_survives_once_it_is_checkpointed",
            "compat/test_restarts.py::test_first_offset_after_a_deletion_survives_a_clean_stop",
        ),
    ),
    Plant(
        "compaction leaves what is not flushed or is last",
        f"{LOG}/cleaning/log_to_clean.py",
        "    first = min(last_stable_offset, recovery_point, last_base_offset)",
        "    first = min(last_stable_offset, last_base_offset)",
        (
            "unit/log/cleaning/test_log_cleaner.py::test_neither_the_last_segment_nor_what_was_not_flushed_is_touched",
        ),
    ),
    Plant(
        "young records are not compacted",
        f"{LOG}/cleaning/log_to_clean.py",
        "    return first if young_offset is None else min(first, young_offset)",
        "    return first",
        ("unit/log/cleaning/test_log_cleaner.py::test_young_records_are_compacted_once_they_are_old_enough",),
    ),
    Plant(
        "the last batch of a producer stays though empty",
        f"{LOG}/cleaning/cleaner.py",
        "kept = await self._files.offload(lambda: kept_for(self._producers))",
        "kept = await self._files.offload(lambda: kept_for([]))",
        ("unit/log/cleaning/test_log_cleaner.py::test_the_last_batch_of_a_producer_stays_though_empty",),
    ),
    Plant(
        "a tombstone stays for delete.retention.ms",
        f"{LOG}/cleaning/cleaner.py",
        "rules = FilterRules(self._now_ms, self._log.config.delete_retention_ms, horizon_ms)",
        "rules = FilterRules(self._now_ms, 0, horizon_ms)",
        ("unit/log/cleaning/test_log_cleaner.py::test_a_tombstone_stays_for_as_long_as_readers_may_need_it",),
    ),
    Plant(
        "the newest record of each key is left",
        f"{LOG}/cleaning/cleaner_passes.py",
        "        if made is not None:\n            self._keep(made)",
        "        pass",
        ("unit/log/cleaning/test_compaction_model.py::test_what_is_left_is_the_newest_of_each_key",),
    ),
    Plant(
        "old copies of a key go",
        f"{LOG}/cleaning/cleaner_passes.py",
        "            window, position, self._keys, kept, rules.now_ms",
        "            window, position, OffsetMap(2, bytes(16)), kept, rules.now_ms",
        (
            "unit/log/cleaning/test_compaction_model.py::test_what_is_left_is_the_newest_of_each_key",
            "integration/test_compaction.py::test_a_consumer_sees_the_last_value_of_each_key_and_tombstones_vanish",
        ),
    ),
    Plant(
        "a crash in a compaction loses no newest record",
        f"{LOG}/segments/cleaned_segment.py",
        "        self._file.sync()\n        self._file.close()\n        self._place",
        "        self._file.close()\n        self._place",
        (
            "unit/log/cleaning/test_cleaner_crashes.py::test_a_crash_at_any_step_leaves_the_newest_record_of_each_key",
        ),
    ),
    Plant(
        "a damaged log is put aside",
        f"{LOG}/cleaning/log_cleaner.py",
        "        else:\n            self._put_aside(log, str(failed))\n\n    async def _pace",
        "\n    async def _pace",
        ("unit/log/cleaning/test_log_cleaner.py::test_a_damaged_log_is_put_aside_and_the_others_go_on",),
    ),
    Plant(
        "a full disk costs a compaction one round",
        f"{LOG}/cleaning/log_cleaner.py",
        "        if is_full or under_way.is_over:",
        "        if under_way.is_over:",
        ("unit/log/cleaning/test_log_cleaner.py::test_a_full_disk_gives_a_round_up_and_it_is_tried_again",),
    ),
    Plant(
        "after a loss of power the log has no hole",
        f"{LOG}/recovery/log_loader.py",
        "        if segment.base_offset < end_offset or segment.base_offset > max(end_offset, holes_end):",
        "        if False:",
        (
            "unit/log/recovery/test_log_loader.py::test_a_segment_whose_forerunner_lost_its_end_goes_unless_compaction_makes_holes",
        ),
    ),
    Plant(
        "an aborted transaction is known while a batch of it is there",
        f"{LOG}/segments/cleaned_segment.py",
        "        if aborted:\n",
        "        if False:\n",
        (
            "unit/log/cleaning/test_log_cleaner.py::test_an_aborted_transaction_is_known_as_long_as_something_of_it_is_there",
        ),
    ),
    Plant(
        "flush settings hold from when they are changed",
        f"{LOG}/local_log.py",
        "        self._config = config\n        self._rules = config.append_rules()",
        "        self._rules = config.append_rules()",
        (
            "unit/broker/storage/test_log_maintenance.py::test_flush_settings_hold_from_when_they_are_changed",
            "unit/broker/storage/test_log_maintenance.py::test_a_bound_lowered_while_running_holds_from_the_next_check_on",
        ),
    ),
    Plant(
        "after a failed sync the log is not trusted",
        f"{LOG}/disk_health.py",
        "        return self._passing(error, what) if error.errno in _NOT_OF_A_SYNC else self.lose(error, what)",
        "        return self._passing(error, what)",
        (
            "unit/broker/storage/test_log_maintenance.py::test_after_a_failed_flush_the_producer_is_refused_and_the_log_is_not_trusted",
            "unit/broker/storage/test_log_dirs.py::test_a_failed_sync_is_the_end_of_its_directory",
        ),
    ),
    Plant(
        "a full disk refuses the append and no more",
        f"{LOG}/disk_health.py",
        "        return self._passing(error, what) if error.errno in SINGLE_LOG_ERRORS else self.lose(error, what)",
        "        return self.lose(error, what)",
        ("unit/log/test_log.py::test_a_full_disk_refuses_the_append_and_no_more",),
    ),
    Plant(
        "a failing disk fails the log",
        f"{LOG}/disk_health.py",
        "        return self._passing(error, what) if error.errno in SINGLE_LOG_ERRORS else self.lose(error, what)",
        "        return self._passing(error, what)",
        (
            "unit/log/test_log.py::test_a_failing_disk_fails_the_log",
            "unit/broker/storage/test_log_dirs.py::test_a_failed_directory_goes_offline_alone",
        ),
    ),
    Plant(
        "lives cut short lose nothing that was flushed",
        f"{LOG}/log_flusher.py",
        "                active.sync_log()",
        "                pass",
        ("unit/broker/storage/test_power_loss.py::test_lives_cut_short",),
    ),
    Plant(
        "everything appended is there after a kill",
        f"{LOG}/recovery/log_loader.py",
        "    if end_offset is None or end_offset < log_start_offset:\n        recovered.dropped",
        "    if end_offset is None or not how.had_clean_shutdown:\n        recovered.dropped",
        (
            "compat/test_restarts.py::test_acknowledged_records_topics_and_settings_survive",
            "faults/test_storage_faults.py::test_what_was_acknowledged_survives_kills_under_load",
            "faults/test_group_faults.py::test_no_place_is_lost_when_the_broker_is_killed_during_commits_and_rebalances",
        ),
    ),
    Plant(
        "what is recovered is intact",
        f"{LOG}/segments/segment_format.py",
        "    if not has_valid_crc(window, header):",
        "    if False:",
        ("unit/log/recovery/test_log_loader.py::test_no_flipped_bit_is_served_as_data",),
    ),
    Plant(
        "a segment that goes is read on",
        f"{LOG}/segments/log_segment.py",
        "        self._file = None\n        if OFFSET_INDEX not in self._unwritten:",
        "        if self._file is not None: self._file.truncate(0)\n        self._file = None\n        if OFFSET_INDEX not in self._unwritten:",
        ("unit/log/test_retention.py::test_whoever_reads_a_segment_that_goes_reads_on",),
    ),
]
