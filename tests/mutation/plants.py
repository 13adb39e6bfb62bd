# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs that break a promise of ``docs/guarantees.md``, each with the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple

LOG = "src/odradek/log"
GROUPS = "src/odradek/coordinators/groups"
TRANSACTIONS = "src/odradek/coordinators/transactions"
REPLICATION = "src/odradek/replication"
BROKER = "src/odradek/broker"
PRODUCER = "src/odradek/client/producer"
CONSUMER = "src/odradek/client/consumer"
STORE = "src/odradek/store"
SPARK = "src/odradek/spark"


class Plant(NamedTuple):
    """``before`` occurs once in the module, and becomes ``after``."""

    promise: str
    path: str
    before: str
    after: str
    tests: tuple[str, ...]


PLANTS: list[Plant] = [
    Plant(
        "delivery.timeout.ms holds for batches in flight",
        f"{PRODUCER}/fates.py",
        "return [one for one, created_ms in self.in_flight.items() if created_ms <= bound_ms and not one.done]",
        "return []",
        ("unit/client/producer/test_sender.py::test_a_batch_whose_answer_is_due_fails_when_its_time_is_up",),
    ),
    Plant(
        "members of an older generation cannot commit",
        f"{GROUPS}/presence.py",
        "    if command.generation != group.generation:\n        return ErrorCode.ILLEGAL_GENERATION\n    if group",
        "    if group",
        (
            "unit/coordinators/groups/test_commit_verdict.py::test_zombies_are_fenced",
            "unit/coordinators/groups/test_membership_laws.py::test_books_timers_answers_and_the_log_agree_whatever_happens",
        ),
    ),
    Plant(
        "a refused commit changes nothing",
        f"{GROUPS}/committing.py",
        "        _refuse(command, code, to, turn)\n        return\n    has_committed",
        "        pass\n    has_committed",
        (
            "unit/coordinators/groups/test_membership_laws.py::test_books_timers_answers_and_the_log_agree_whatever_happens",
        ),
    ),
    Plant(
        "a late transaction does not override a newer commit",
        f"{GROUPS}/offsets.py",
        "if known is None or known.place < placed.place:",
        "if True:",
        (
            "unit/coordinators/groups/test_offsets.py::test_the_last_record_counts_but_for_open_and_aborted_transactions",
            "unit/coordinators/groups/test_offsets.py::test_a_load_after_compaction_gives_the_same",
            "unit/coordinators/groups/test_offsets.py::test_a_transaction_that_ends_late_does_not_bring_back_what_is_older",
        ),
    ),
    Plant(
        "a batch is stored whole or not at all",
        f"{LOG}/active_segment.py",
        "            self.log_file.truncate(position)\n            raise",
        "            raise",
        ("unit/log/test_active_segment.py::test_a_failed_append_leaves_everything_as_it_was",),
    ),
    Plant(
        "min.insync.replicas counts as the number of replicas at most",
        f"{REPLICATION}/acks.py",
        "return min_isr if min_isr < replica_count else replica_count",
        "return min_isr",
        ("unit/replication/test_acks.py::test_no_more_is_asked_than_there_are_replicas",),
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
        f"{LOG}/producers.py",
        "batches = (*earlier[1 - BATCHES_KEPT :], kept)",
        "batches = (*earlier[2 - BATCHES_KEPT :], kept)",
        (
            "unit/log/test_producers.py::test_with_retries_of_up_to_five_batches_every_batch_is_in_the_log_once",
        ),
    ),
    Plant(
        "a batch of an idempotent producer is stored once",
        f"{LOG}/log.py",
        "            if duplicate is not None:",
        "            if duplicate is not None and False:",
        (
            "integration/test_bad_batches.py::test_repeated_batch_is_answered_with_its_first_offset_and_stored_once",
            "unit/broker/handlers/test_read_committed.py::test_a_repeated_batch_is_answered_as_before_though_much_lies_behind_it",
        ),
    ),
    Plant(
        "a gap is refused",
        f"{LOG}/producers.py",
        "    if repeated is None and producer.producer_epoch != NO_PRODUCER_EPOCH:",
        "    if False:",
        ("integration/test_bad_batches.py::test_gap_in_the_sequence_is_refused",),
    ),
    Plant(
        "an older epoch is fenced",
        f"{LOG}/producers.py",
        "    if header.producer_epoch < producer.producer_epoch:",
        "    if False:",
        ("integration/test_bad_batches.py::test_older_epoch_of_a_producer_is_fenced",),
    ),
    Plant(
        "idempotence holds across restarts",
        f"{LOG}/producer_history.py",
        "ProducerHistory(offset, decode_snapshot(place.files.read_whole(path), path))",
        "ProducerHistory(offset, decode_snapshot(place.files.read_whole(path), path)[:0])",
        (
            "unit/broker/handlers/test_read_committed.py::test_a_repeated_batch_is_answered_as_before_though_much_lies_behind_it",
            "unit/log/test_producer_history.py::test_a_restart_knows_the_last_batch_and_those_behind_the_snapshot",
            "unit/log/test_producer_model.py::test_state_is_what_the_batches_say",
        ),
    ),
    Plant(
        "a recovery reads producers from the batches it scans",
        f"{LOG}/recovery.py",
        "            found = producers.appended(header, window, header.position)",
        "            found = None",
        ("unit/log/test_producer_model.py::test_state_is_what_the_batches_say",),
    ),
    Plant(
        "a snapshot keeps the last batch of each producer",
        f"{LOG}/producer_snapshots.py",
        "    if last_offset >= 0:",
        "    if False:",
        (
            "unit/log/test_producer_history.py::test_a_restart_knows_the_last_batch_and_those_behind_the_snapshot",
        ),
    ),
    Plant(
        "a damaged snapshot is not believed",
        f"{LOG}/producer_snapshots.py",
        "    if crc != computed:",
        "    if False:",
        ("unit/log/test_producer_snapshots.py::test_no_flipped_bit_and_no_cut_is_believed",),
    ),
    Plant(
        "a broken snapshot leaves it to the one before",
        f"{LOG}/producer_history.py",
        "                    place.files.remove(path)\n                    continue",
        "                    break",
        ("unit/log/test_producer_history.py::test_one_that_is_broken_or_gone_leaves_it_to_the_one_before",),
    ),
    Plant(
        "the producer that appended longest ago is forgotten first",
        f"{LOG}/producers.py",
        "            self._producers.move_to_end(producer_id)",
        "            pass",
        ("unit/log/test_producers.py::test_too_many_producers_forget_the_one_that_appended_longest_ago",),
    ),
    Plant(
        "a producer with an open transaction is not forgotten",
        f"{LOG}/producers.py",
        "            if producer.transaction_first_offset < 0:\n                del",
        "            if True:\n                del",
        ("unit/log/test_producers.py::test_who_has_a_transaction_open_is_not_forgotten_for_want_of_room",),
    ),
    Plant(
        "with one replica the high watermark is the end of the log",
        f"{REPLICATION}/progress.py",
        "            return end_offset if end_offset > current else current\n",
        "            return current\n",
        ("unit/replication/test_progress.py::test_with_one_replica_the_watermark_is_the_end",),
    ),
    Plant(
        "read_committed stops where a transaction is open",
        f"{REPLICATION}/partition.py",
        "        end_offset = stable if is_committed else high_watermark",
        "        end_offset = high_watermark",
        ("unit/broker/handlers/test_read_committed.py::test_they_stop_where_a_transaction_is_open",),
    ),
    Plant(
        "read_committed is told of aborted transactions",
        f"{REPLICATION}/partition.py",
        "            aborted = log.aborted_in(asked.fetch_offset, fetched, may_wait) if is_committed else None",
        "            aborted = None",
        ("unit/broker/handlers/test_read_committed.py::test_they_are_told_of_aborted_transactions",),
    ),
    Plant(
        "a waiting reader is woken by the end of a transaction",
        f"{BROKER}/transaction_markers.py",
        "        self._replicas.appended(partition)\n",
        "",
        (
            "unit/broker/handlers/test_read_committed.py::test_one_that_waits_is_woken_by_the_end_of_the_transaction",
        ),
    ),
    Plant(
        "a refused commit leaves nothing under way",
        f"{GROUPS}/committing.py",
        "    def refused(self, code: ErrorCode, turn: Turn) -> None:\n        self.offsets.end(self.written)\n",
        "    def refused(self, code: ErrorCode, turn: Turn) -> None:\n",
        (
            "unit/coordinators/groups/test_offsets_commands.py::test_what_the_log_refuses_is_told_as_a_coordinators_error_and_nothing_is_changed",
        ),
    ),
    Plant(
        "of commits under way together the last in the log stays",
        f"{GROUPS}/offsets.py",
        "            self._committed[partition] = placed\n        else:",
        "            self._committed.setdefault(partition, placed)\n        else:",
        (
            "unit/coordinators/groups/test_offsets_commands.py::test_of_commits_under_way_together_the_last_in_the_log_stays",
            "unit/coordinators/groups/test_membership_laws.py::test_books_timers_answers_and_the_log_agree_whatever_happens",
        ),
    ),
    Plant(
        "a commit that took too long counts once it is in the log",
        f"{GROUPS}/machine.py",
        "                group.offsets.apply(TopicPartition(key.topic, key.partition), offset, producer_id)",
        "                if key in {one for one in ()}: group.offsets.apply(TopicPartition(key.topic, key.partition), offset, producer_id)",
        (
            "unit/coordinators/groups/test_offsets_commands.py::test_a_commit_that_took_too_long_counts_once_it_is_in_the_log",
            "unit/broker/test_group_coordinator.py::test_committed_offsets_survive_the_broker",
        ),
    ),
    Plant(
        "a settled group goes on in its generation",
        f"{GROUPS}/group.py",
        "    group.protocol_type, group.generation = stored.protocol_type, stored.generation",
        "    group.protocol_type, group.generation = stored.protocol_type, stored.generation + 1",
        (
            "unit/broker/test_group_coordinator.py::test_a_settled_group_goes_on_where_it_was_when_the_broker_comes_back",
        ),
    ),
    Plant(
        "offsets of a transaction count from its end on, or never",
        f"{GROUPS}/offsets.py",
        "        if not commits:\n            return\n",
        "",
        (
            "unit/coordinators/groups/test_offsets.py::test_the_last_record_counts_but_for_open_and_aborted_transactions",
            "unit/coordinators/groups/test_membership_laws.py::test_books_timers_answers_and_the_log_agree_whatever_happens",
        ),
    ),
    Plant(
        "who asks for stable offsets is told of open ones",
        f"{GROUPS}/offsets.py",
        "        if require_stable and self.is_unsettled(partition):\n            return _UNSTABLE\n",
        "",
        (
            "unit/coordinators/groups/test_offsets.py::test_an_offset_of_a_transaction_counts_once_that_is_committed",
        ),
    ),
    Plant(
        "a deletion survives compaction and a load",
        f"{GROUPS}/offsets.py",
        "            self._committed.pop(partition, None)",
        "            pass",
        ("unit/coordinators/groups/test_offsets.py::test_a_load_after_compaction_gives_the_same",),
    ),
    Plant(
        "subscribed topics keep their offsets",
        f"{GROUPS}/expiry.py",
        "if partition.topic not in rule.spared and now_ms",
        "if now_ms",
        (
            "unit/coordinators/groups/test_offsets_expiry.py::test_a_stable_group_of_consumers_keeps_offsets_in_topics_it_subscribes_to",
        ),
    ),
    Plant(
        "the week of a group begins when its last member leaves",
        f"{GROUPS}/expiry.py",
        "        return Rule(_NO_TOPICS, group.state_since_ms)",
        "        return Rule(_NO_TOPICS, None)",
        (
            "unit/coordinators/groups/test_offsets_expiry.py::test_without_members_all_may_go_some_time_after_the_last_member_left",
        ),
    ),
    Plant(
        "what is being committed anew does not expire",
        f"{GROUPS}/removal.py",
        "    going = [partition for partition in old if not group.offsets.is_unsettled(partition)]",
        "    going = list(old)",
        (
            "unit/coordinators/groups/test_offsets_expiry.py::test_what_is_being_committed_anew_does_not_expire",
        ),
    ),
    Plant(
        "offsets go with their topic",
        f"{GROUPS}/removal.py",
        "            remove(groups, group, going, _tell_nobody, turn)\n    turn.reply(to, count)",
        "            pass\n    turn.reply(to, count)",
        ("unit/broker/test_group_coordinator.py::test_offsets_in_a_deleted_topic_go_with_it",),
    ),
    Plant(
        "a transaction counts in all of its partitions",
        f"{TRANSACTIONS}/writing.py",
        "        tuple(sorted(stored.partitions)),",
        "        tuple(sorted(stored.partitions))[:1],",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_a_transaction_counts_in_all_of_its_partitions_or_in_none",
        ),
    ),
    Plant(
        "an aborted transaction counts nowhere",
        f"{TRANSACTIONS}/writing.py",
        "        stored.state is State.PREPARE_COMMIT,\n",
        "        True,\n",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_a_transaction_counts_in_all_of_its_partitions_or_in_none",
        ),
    ),
    Plant(
        "offsets of a transaction count from its commit on",
        f"{GROUPS}/machine.py",
        "                self.groups[name].offsets.end_transaction(producer_id, commits=commits)",
        "                self.groups[name].offsets.end_transaction(producer_id, commits=False)",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_offsets_of_a_transaction_count_from_its_commit_on",
        ),
    ),
    Plant(
        "a settled commit is carried out by the next broker",
        f"{TRANSACTIONS}/machine.py",
        "            go_on(self.ids[name], turn)\n        turn.arm(TIMEOUTS, turn",
        "            pass\n        turn.arm(TIMEOUTS, turn",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_what_was_settled_when_the_broker_went_is_carried_out_by_the_next",
        ),
    ),
    Plant(
        "a fenced instance begins nothing",
        f"{TRANSACTIONS}/verdicts.py",
        "    if stored.producer_epoch != producer_epoch:",
        "    if stored.producer_epoch < producer_epoch:",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_a_fenced_instance_begins_nothing_in_a_partition_it_has_not_written_to",
        ),
    ),
    Plant(
        "a late write begins no transaction",
        f"{TRANSACTIONS}/verdicts.py",
        "        partition: refusal or (ErrorCode.NONE if partition in added else missing)",
        "        partition: refusal or ErrorCode.NONE",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_a_write_without_its_partition_in_the_transaction_is_refused",
        ),
    ),
    Plant(
        "a hanging transaction is aborted",
        f"{TRANSACTIONS}/verdicts.py",
        "    return stored.start_ms + stored.timeout_ms < now_ms",
        "    return stored.start_ms + 10 * stored.timeout_ms < now_ms",
        (
            "unit/broker/handlers/test_transaction_rules.py::test_a_transaction_that_hangs_is_aborted_after_its_timeout_and_one_check",
        ),
    ),
    Plant(
        "only segments from the recovery point on are scanned",
        f"{LOG}/recovery.py",
        "        first = max(sum(segment.base_offset < how.recovery_point for segment in segments) - 1, 0)",
        "        first = 0",
        ("unit/log/test_recovery.py::test_only_segments_from_the_recovery_point_on_are_scanned",),
    ),
    Plant(
        "after a loss of power the log is a prefix",
        f"{LOG}/recovery.py",
        "        if segment.base_offset < end_offset or segment.base_offset > max(end_offset, holes_end):",
        "        if False:",
        (
            "unit/log/test_recovery.py::test_after_a_crash_the_log_is_a_prefix_that_holds_all_that_was_flushed",
            "unit/log/test_log_model.py::test_a_log_is_what_its_model_is_whatever_happens",
        ),
    ),
    Plant(
        "a torn last write is cut off",
        f"{LOG}/recovery.py",
        "        file.truncate(scanned.valid_end)\n",
        "",
        ("unit/log/test_recovery.py::test_a_torn_tail_is_cut_at_every_byte_of_the_last_batch",),
    ),
    Plant(
        "all after a damaged batch goes",
        f"{LOG}/recovery.py",
        "            _drop_from(segments, number + 1, recovered)\n            break",
        "            pass",
        ("unit/log/test_recovery.py::test_damage_in_the_middle_drops_all_that_follows",),
    ),
    Plant(
        "a lost or odd index is rebuilt",
        f"{LOG}/recovery.py",
        "    if offsets % OFFSETS.entry_bytes or times % TIMES.entry_bytes:",
        "    if False:",
        (
            "unit/log/test_recovery.py::test_an_index_that_is_missing_or_odd_is_rebuilt_even_after_a_clean_stop",
        ),
    ),
    Plant(
        "a closed log is whole without a scan",
        f"{LOG}/segmented_log.py",
        "            sealed.sync()\n            flush()",
        "            flush()",
        ("unit/log/test_log_cuts.py::test_a_closed_log_is_whole_after_a_crash_without_any_scan",),
    ),
    Plant(
        "a flush syncs the batches",
        f"{LOG}/flushing.py",
        "                active.sync_log()",
        "                pass",
        (
            "unit/log/test_recovery.py::test_after_a_crash_the_log_is_a_prefix_that_holds_all_that_was_flushed",
            "unit/log/test_log_model.py::test_a_log_is_what_its_model_is_whatever_happens",
            "unit/broker/test_upkeep.py::test_with_a_flush_per_record_power_loss_takes_no_acknowledged_record",
        ),
    ),
    Plant(
        "readers and answers wait for the flush",
        f"{REPLICATION}/partition.py",
        "        end_offset = log.recovery_point if self.awaits_flush else log.log_end_offset",
        "        end_offset = log.log_end_offset",
        ("unit/broker/test_upkeep.py::test_an_answer_waits_for_the_flush_and_so_do_readers",),
    ),
    Plant(
        "flushes come at the given count",
        f"{LOG}/segmented_log.py",
        "return self.log_end_offset - self.recovery_point >= self._config.flush_messages",
        "return self.log_end_offset - self.recovery_point > self._config.flush_messages",
        ("unit/broker/test_upkeep.py::test_flushes_come_at_the_given_count",),
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
        f"{LOG}/segmented_log.py",
        "                await self._sync_names()\n                # Not before",
        "                # Not before",
        ("unit/log/test_retention.py::test_power_lost_at_any_step_leaves_the_end_of_the_log_and_no_hole",),
    ),
    Plant(
        "a start offset survives once it is checkpointed",
        f"{LOG}/recovery.py",
        "    start_offset = max(log_start_offset, segments[0].base_offset)",
        "    start_offset = segments[0].base_offset",
        ("unit/log/test_directory.py::test_a_start_offset_survives_once_it_is_checkpointed",),
    ),
    Plant(
        "compaction leaves what is not flushed or is last",
        f"{LOG}/compaction.py",
        "    first = min(last_stable_offset, recovery_point, last_base_offset)",
        "    first = min(last_stable_offset, last_base_offset)",
        ("unit/log/test_cleaner.py::test_neither_the_last_segment_nor_what_was_not_flushed_is_touched",),
    ),
    Plant(
        "young records are not compacted",
        f"{LOG}/compaction.py",
        "    return first if young_offset is None else min(first, young_offset)",
        "    return first",
        ("unit/log/test_cleaner.py::test_young_records_are_compacted_once_they_are_old_enough",),
    ),
    Plant(
        "the last batch of a producer stays though empty",
        f"{LOG}/cleaning_round.py",
        "kept = await self._files.offload(lambda: kept_for(self._producers))",
        "kept = await self._files.offload(lambda: kept_for([]))",
        ("unit/log/test_cleaner.py::test_the_last_batch_of_a_producer_stays_though_empty",),
    ),
    Plant(
        "a tombstone stays for delete.retention.ms",
        f"{LOG}/cleaning_round.py",
        "rules = SiftRules(self._now_ms, self._log.config.delete_retention_ms, horizon_ms)",
        "rules = SiftRules(self._now_ms, 0, horizon_ms)",
        ("unit/log/test_cleaner.py::test_a_tombstone_stays_for_as_long_as_readers_may_need_it",),
    ),
    Plant(
        "the newest record of each key is left",
        f"{LOG}/cleaning_steps.py",
        "        if made is not None:\n            self._keep(made)",
        "        pass",
        ("unit/log/test_compaction_model.py::test_what_is_left_is_the_newest_of_each_key",),
    ),
    Plant(
        "old copies of a key go",
        f"{LOG}/cleaning_steps.py",
        "        sifted = sift(window, position, self._keys, kept",
        "        sifted = sift(window, position, KeyOffsets(2, bytes(16)), kept",
        ("unit/log/test_compaction_model.py::test_what_is_left_is_the_newest_of_each_key",),
    ),
    Plant(
        "a crash in a compaction loses no newest record",
        f"{LOG}/cleaned_segment.py",
        "        self._file.sync()\n        self._file.close()\n        self._place",
        "        self._file.close()\n        self._place",
        ("unit/log/test_cleaning_crashes.py::test_a_crash_at_any_step_leaves_the_newest_record_of_each_key",),
    ),
    Plant(
        "a damaged log is put aside",
        f"{LOG}/cleaner.py",
        "        else:\n            self._put_aside(log, str(failed))\n\n    async def _pace",
        "\n    async def _pace",
        ("unit/log/test_cleaner.py::test_a_damaged_log_is_put_aside_and_the_others_go_on",),
    ),
    Plant(
        "a full disk costs a compaction one round",
        f"{LOG}/cleaner.py",
        "        if is_full or under_way.is_over:",
        "        if under_way.is_over:",
        ("unit/log/test_cleaner.py::test_a_full_disk_gives_a_round_up_and_it_is_tried_again",),
    ),
    Plant(
        "after a loss of power the log has no hole",
        f"{LOG}/recovery.py",
        "        if segment.base_offset < end_offset or segment.base_offset > max(end_offset, holes_end):",
        "        if False:",
        (
            "unit/log/test_recovery.py::test_a_segment_whose_forerunner_lost_its_end_goes_unless_compaction_makes_holes",
        ),
    ),
    Plant(
        "a deleted offset does not come back with a late transaction",
        f"{GROUPS}/offsets.py",
        "        for producer in [producer_id] if producer_id != NO_PRODUCER_ID else list(self._in_transactions):",
        "        for producer in [producer_id]:",
        (
            "unit/coordinators/groups/test_offsets.py::test_a_deleted_offset_does_not_come_back_with_a_transaction_that_wrote_before",
        ),
    ),
    Plant(
        "a commit of an older generation is refused by the coordinator",
        f"{GROUPS}/committing.py",
        "        _refuse(command, code, to, turn)\n        return\n    has_committed",
        "        pass\n    has_committed",
        (
            "unit/coordinators/groups/test_offsets_commands.py::test_a_commit_of_a_generation_that_is_over_is_refused_and_changes_nothing",
        ),
    ),
    Plant(
        "an aborted transaction is known while a batch of it is there",
        f"{LOG}/cleaned_segment.py",
        "        if aborted:\n",
        "        if False:\n",
        (
            "unit/log/test_cleaner.py::test_an_aborted_transaction_is_known_as_long_as_something_of_it_is_there",
        ),
    ),
    Plant(
        "records that are not delivered in time fail",
        f"{PRODUCER}/accumulator.py",
        "            while line and line[0].created_ms + self._delivery_timeout_ms <= now_ms:",
        "            while line and line[0].created_ms + 3 * self._delivery_timeout_ms <= now_ms:",
        ("unit/client/producer/test_producer.py::test_records_that_are_not_delivered_in_time_fail",),
    ),
    Plant(
        "a callback that raises disturbs no other",
        f"{PRODUCER}/deliveries.py",
        '            log.failure("delivery_callback_failed", failed)',
        "            raise",
        ("unit/client/producer/test_producer.py::test_a_callback_that_raises_disturbs_nobody",),
    ),
    Plant(
        "retried batches come back in order",
        f"{PRODUCER}/accumulator.py",
        "        while place < len(line) and _is_before(line[place], batch):\n            place += 1\n",
        "",
        (
            "unit/client/producer/test_bad_days.py::test_records_are_written_once_in_order_and_told_once_in_order",
        ),
    ),
    Plant(
        "retried batches come before those that were not sent yet",
        f"{PRODUCER}/accumulator.py",
        "        line.insert(place, batch)\n",
        "        line.append(batch)\n",
        (
            "unit/client/producer/test_sender.py::test_a_batch_that_comes_back_without_idempotence_goes_before_those_that_wait",
            "unit/client/producer/test_sender.py::test_five_requests_that_fail_at_once_come_back_in_order",
        ),
    ),
    Plant(
        "memory of a request is not used again before its answer",
        f"{PRODUCER}/fates.py",
        "                if batch in self.in_flight:",
        "                if False:",
        (
            "unit/client/producer/test_sender.py::test_memory_of_a_request_without_answer_is_not_used_again_before_it_ends",
        ),
    ),
    Plant(
        "send waits for max.block.ms at most",
        f"{PRODUCER}/producer.py",
        "deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms",
        "deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms // 2",
        (
            "unit/client/producer/test_producer.py::test_memory_that_is_full_is_waited_for_in_turns_and_then_told",
        ),
    ),
    Plant(
        "a forced close tells every record",
        f"{PRODUCER}/fates.py",
        "        for batch in batches:\n            self.fail(batch, error, never_tried_again=False)\n\n\ndef",
        "        for batch in batches[1:]:\n            self.fail(batch, error, never_tried_again=False)\n\n\ndef",
        (
            "unit/client/producer/test_producer.py::test_a_forced_close_tells_every_record_and_every_waiter",
            "unit/client/producer/test_bad_days.py::test_a_close_at_any_moment_tells_every_record_once_and_in_order",
        ),
    ),
    Plant(
        "sequences are given once",
        f"{PRODUCER}/transactions/sequences.py",
        "            self.next_sequence = sequence_after(batch)\n            self._flights.append",
        "            self._flights.append",
        (
            "unit/client/producer/test_sequences.py::test_batches_are_written_once_and_in_order_whatever_happens",
            "unit/client/producer/test_bad_days.py::test_records_are_written_once_in_order_and_told_once_in_order",
        ),
    ),
    Plant(
        "the first batch of a producer goes alone",
        f"{PRODUCER}/transactions/sequences.py",
        "        if self.acked is None or self.doubt is not None or len",
        "        if self.doubt is not None or len",
        (
            "unit/client/producer/test_sequences.py::test_batches_are_written_once_and_in_order_whatever_happens",
        ),
    ),
    Plant(
        "a batch goes only to partitions that its coordinator knows of",
        f"{PRODUCER}/transactions/machine.py",
        "        if self.is_transactional and partition_of(batch) not in self._exchange.added:\n            return False\n",
        "",
        ("unit/client/producer/test_transaction_laws.py::test_transactions_hold_whatever_happens",),
    ),
    Plant(
        "a fenced producer can do nothing more",
        f"{PRODUCER}/transactions/machine.py",
        '        self._standing.refuse("send")\n',
        "",
        (
            "unit/client/producer/test_transactions.py::test_a_twin_fences_the_one_before_for_good_and_clearly",
        ),
    ),
    Plant(
        "partitions are committed before they are revoked",
        f"{CONSUMER}/group/handover.py",
        "        if self._auto_commit.enabled and not giving_up.lost and self.last_commit is None:",
        "        if False:",
        (
            "unit/client/consumer/test_commits.py::test_what_was_read_is_committed_before_partitions_are_revoked",
            "unit/client/consumer/test_group_consumers.py::test_members_that_come_and_go_in_order_read_every_record_once",
        ),
    ),
    Plant(
        "callbacks of commits come in their order",
        f"{CONSUMER}/group/commits.py",
        "            pending = self._pending.popleft()",
        "            pending = self._pending.pop()",
        ("unit/client/consumer/test_commits.py::test_callbacks_come_in_order_inside_a_poll_and_not_before",),
    ),
    Plant(
        "what was polled is committed from time to time",
        f"{CONSUMER}/group/coordination.py",
        "        if not self._auto_commit.is_due(now_ms):\n            return\n",
        "        return\n",
        (
            "unit/client/consumer/test_group_reading.py::test_what_was_polled_is_committed_from_time_to_time_and_never_what_was_not",
        ),
    ),
    Plant(
        "a truncated log is noticed",
        f"{CONSUMER}/positions.py",
        "        elif end_offset < asked.offset:",
        "        elif False:",
        (
            "unit/client/consumer/test_offsets.py::test_a_truncated_log_moves_its_reader_back_by_policy_or_names_the_offsets",
        ),
    ),
    Plant(
        "every offset is in one range of a plan",
        f"{SPARK}/plan.py",
        "        start = end\n",
        "        start = end + 1\n",
        ("unit/spark/test_plan.py::test_every_offset_is_read_once_in_a_plan_that_does_not_depend_on_order",),
    ),
    Plant(
        "a plan does not depend on order",
        f"{SPARK}/plan.py",
        "        for partition in sorted(end)\n",
        "        for partition in end\n",
        ("unit/spark/test_plan.py::test_every_offset_is_read_once_in_a_plan_that_does_not_depend_on_order",),
    ),
    Plant(
        "two attempts at one batch add it once",
        f"{SPARK}/delta/commits.py",
        "    return seen is not None and seen >= application.version",
        "    return False",
        ("unit/spark/delta/test_table_writing.py::test_two_attempts_at_one_batch_add_it_once",),
    ),
    Plant(
        "no two brokers give out the same producer id",
        f"{STORE}/producer_ids.py",
        "            await store.set(path, encode_producer_id_block(block), stat.version)\n        except BadVersion:\n            continue  # another broker was quicker\n        return block",
        "            await store.set(path, encode_producer_id_block(block))\n        except BadVersion:\n            continue  # another broker was quicker\n        return block",
        ("unit/store/test_producer_ids.py::test_no_two_brokers_give_out_the_same_id",),
    ),
    Plant(
        "a log is flushed when its time is up",
        f"{BROKER}/upkeep.py",
        "            if now_ms - one.flushed_ms >= one.config.flush_ms:",
        "            if now_ms - one.flushed_ms >= 2 * one.config.flush_ms:",
        ("unit/broker/test_upkeep.py::test_a_log_is_flushed_when_its_time_is_up",),
    ),
    Plant(
        "flush settings hold from when they are changed",
        f"{LOG}/segmented_log.py",
        "        self._config = config\n        self._rules = config.append_rules()",
        "        self._rules = config.append_rules()",
        (
            "unit/broker/test_upkeep.py::test_flush_settings_hold_from_when_they_are_changed",
            "unit/broker/test_upkeep.py::test_a_bound_lowered_while_running_holds_from_the_next_check_on",
        ),
    ),
    Plant(
        "after a failed sync the log is not trusted",
        f"{LOG}/trust.py",
        "        return self._passing(error, what) if error.errno in _NOT_OF_A_SYNC else self.lose(error, what)",
        "        return self._passing(error, what)",
        (
            "unit/broker/test_upkeep.py::test_after_a_failed_flush_the_producer_is_refused_and_the_log_is_not_trusted",
            "unit/broker/handlers/test_log_dirs.py::test_a_failed_sync_is_the_end_of_its_directory",
        ),
    ),
    Plant(
        "a full disk refuses the append and no more",
        f"{LOG}/trust.py",
        "        return self._passing(error, what) if error.errno in OF_ONE_LOG else self.lose(error, what)",
        "        return self.lose(error, what)",
        ("unit/log/test_log.py::test_a_full_disk_refuses_the_append_and_no_more",),
    ),
    Plant(
        "a failing disk fails the log",
        f"{LOG}/trust.py",
        "        return self._passing(error, what) if error.errno in OF_ONE_LOG else self.lose(error, what)",
        "        return self._passing(error, what)",
        (
            "unit/log/test_log.py::test_a_failing_disk_fails_the_log",
            "unit/broker/handlers/test_log_dirs.py::test_a_failed_directory_goes_offline_alone",
        ),
    ),
    Plant(
        "the high watermark goes on once there is room",
        f"{REPLICATION}/flushes.py",
        "                self._unflushed.add(partition)",
        "                pass",
        ("unit/broker/handlers/test_flush_retries.py::test_the_high_watermark_goes_on_once_there_is_room",),
    ),
    Plant(
        "lives cut short lose nothing that was flushed",
        f"{LOG}/flushing.py",
        "                active.sync_log()",
        "                pass",
        ("unit/broker/test_crashes.py::test_lives_cut_short",),
    ),
    Plant(
        "offsets count with the transaction",
        f"{GROUPS}/machine.py",
        "                self.groups[name].offsets.end_transaction(producer_id, commits=commits)",
        "                self.groups[name].offsets.end_transaction(producer_id, commits=False)",
        ("unit/client/producer/test_transactions.py::test_offsets_count_with_the_transaction",),
    ),
    Plant(
        "a replay whose markers may be gone is refused",
        f"{SPARK}/markers.py",
        "return now_ms - batch_time_ms <= kept_ms * (1 - _MARGIN_SHARE)",
        "return True",
        (
            "unit/pipelines/test_runner.py::test_an_unfinished_batch_whose_markers_may_be_forgotten_is_not_played_again",
        ),
    ),
]
