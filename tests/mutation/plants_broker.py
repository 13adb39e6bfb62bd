# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in replicas, coordinators and the broker that break a promise, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

GROUPS = "src/odradek/coordinators/groups"
TRANSACTIONS = "src/odradek/coordinators/transactions"
REPLICATION = "src/odradek/replication"
BROKER = "src/odradek/broker"
STORE = "src/odradek/store"

BROKER_PLANTS: list[Plant] = [
    Plant(
        "members of an older generation cannot commit",
        f"{GROUPS}/offset_commit.py",
        "    if command.generation != group.generation:\n        return ErrorCode.ILLEGAL_GENERATION\n    if group",
        "    if group",
        (
            "unit/coordinators/groups/test_offset_commit_validation.py::test_commit_of_an_old_member_is_fenced",
            "faults/test_group_faults.py::test_no_committed_offset_is_lost_when_broker_is_killed",
            "unit/coordinators/groups/test_group_invariants.py::test_group_invariants_hold_for_any_sequence_of_events",
        ),
    ),
    Plant(
        "a refused commit changes nothing",
        f"{GROUPS}/offset_commit.py",
        "        _reject(command, code, to, context)\n        return\n    _renew_session",
        "        pass\n    _renew_session",
        (
            "unit/coordinators/groups/test_group_invariants.py::test_group_invariants_hold_for_any_sequence_of_events",
        ),
    ),
    Plant(
        "a late transaction does not override a newer commit",
        f"{GROUPS}/committed_offsets.py",
        "if current is None or current.sequence < sequenced.sequence:",
        "if True:",
        (
            "unit/coordinators/groups/test_committed_offsets.py::test_last_record_wins_except_open_and_aborted_transactions",
            "unit/coordinators/groups/test_committed_offsets.py::test_load_after_compaction_gives_the_same_offsets",
            "unit/coordinators/groups/test_committed_offsets.py::test_late_transaction_does_not_override_a_newer_commit",
        ),
    ),
    Plant(
        "min.insync.replicas counts as the number of replicas at most",
        f"{REPLICATION}/acks.py",
        "return min_isr if min_isr < replica_count else replica_count",
        "return min_isr",
        ("unit/replication/test_acks.py::test_min_isr_is_capped_at_replication_factor",),
    ),
    Plant(
        "with one replica the high watermark is the end of the log",
        f"{REPLICATION}/leader.py",
        "            return log_end_offset if log_end_offset > current else current\n",
        "            return current\n",
        ("unit/replication/test_leader.py::test_high_watermark_of_single_replica_is_log_end_offset",),
    ),
    Plant(
        "read_committed stops where a transaction is open",
        f"{REPLICATION}/partition.py",
        "        end_offset = stable if is_committed else high_watermark",
        "        end_offset = high_watermark",
        ("unit/broker/handlers/test_read_committed.py::test_read_committed_stops_at_an_open_transaction",),
    ),
    Plant(
        "read_committed is told of aborted transactions",
        f"{REPLICATION}/partition.py",
        "                if is_committed\n                else None",
        "                if not is_committed\n                else None",
        (
            "unit/broker/handlers/test_read_committed.py::test_read_committed_returns_aborted_transactions",
            "clients/test_consumer.py::test_read_committed_skips_aborted_records",
        ),
    ),
    Plant(
        "a waiting reader is woken by the end of a transaction",
        f"{BROKER}/coordinators/transaction_marker_writer.py",
        "        self._replica_manager.complete_delayed_fetches(partition)\n",
        "",
        (
            "unit/broker/handlers/test_read_committed.py::test_waiting_read_committed_fetch_completes_at_the_end_of_the_transaction",
        ),
    ),
    Plant(
        "a refused commit leaves nothing under way",
        f"{GROUPS}/offset_commit.py",
        "    def on_failed(self, code: ErrorCode, context: EventContext) -> None:\n        self.offsets.remove_pending(self.appended)\n",
        "    def on_failed(self, code: ErrorCode, context: EventContext) -> None:\n",
        (
            "unit/coordinators/groups/test_offset_commit_and_delete.py::test_failed_append_returns_a_coordinator_error_and_changes_nothing",
        ),
    ),
    Plant(
        "of commits under way together the last in the log stays",
        f"{GROUPS}/committed_offsets.py",
        "            self._committed[partition] = sequenced\n        else:",
        "            self._committed.setdefault(partition, sequenced)\n        else:",
        (
            "unit/coordinators/groups/test_offset_commit_and_delete.py::test_last_of_concurrent_commits_in_the_log_wins",
        ),
    ),
    Plant(
        "a commit that took too long counts once it is in the log",
        f"{GROUPS}/shard.py",
        "            group.offsets.replay(partition, offset, producer_id)",
        "            if partition in set(): group.offsets.replay(partition, offset, producer_id)",
        (
            "unit/coordinators/groups/test_offset_commit_and_delete.py::test_timed_out_commit_takes_effect_once_it_is_committed",
            "unit/broker/coordinators/test_group_coordinator.py::test_committed_offsets_survive_a_broker_restart",
        ),
    ),
    Plant(
        "a settled group goes on in its generation",
        f"{GROUPS}/group.py",
        "    group.protocol_type, group.generation = stored.protocol_type, stored.generation",
        "    group.protocol_type, group.generation = stored.protocol_type, stored.generation + 1",
        (
            "unit/broker/coordinators/test_group_coordinator.py::test_stable_group_keeps_its_generation_after_a_broker_restart",
        ),
    ),
    Plant(
        "offsets of a transaction count from its end on, or never",
        f"{GROUPS}/committed_offsets.py",
        "        if not commits:\n            return\n",
        "",
        (
            "unit/coordinators/groups/test_committed_offsets.py::test_last_record_wins_except_open_and_aborted_transactions",
            "unit/coordinators/groups/test_group_invariants.py::test_group_invariants_hold_for_any_sequence_of_events",
        ),
    ),
    Plant(
        "who asks for stable offsets is told of open ones",
        f"{GROUPS}/committed_offsets.py",
        "        if require_stable and self.has_pending_commit(partition):\n            return _UNSTABLE\n",
        "",
        (
            "unit/coordinators/groups/test_committed_offsets.py::test_transactional_offset_takes_effect_when_the_transaction_commits",
        ),
    ),
    Plant(
        "a deletion survives compaction and a load",
        f"{GROUPS}/committed_offsets.py",
        "            self._committed.pop(partition, None)",
        "            pass",
        (
            "unit/coordinators/groups/test_committed_offsets.py::test_load_after_compaction_gives_the_same_offsets",
        ),
    ),
    Plant(
        "subscribed topics keep their offsets",
        f"{GROUPS}/deletion.py",
        "if partition.topic not in condition.subscribed_topics\n        and now_ms",
        "if now_ms",
        (
            "unit/coordinators/groups/test_offset_expiration.py::test_offsets_of_subscribed_topics_do_not_expire",
        ),
    ),
    Plant(
        "the week of a group begins when its last member leaves",
        f"{GROUPS}/deletion.py",
        "        return ExpirationCondition(_NO_TOPICS, group.state_since_ms)",
        "        return ExpirationCondition(_NO_TOPICS, None)",
        (
            "unit/coordinators/groups/test_offset_expiration.py::test_offsets_of_an_empty_group_expire_after_the_last_member_left",
        ),
    ),
    Plant(
        "what is being committed anew does not expire",
        f"{GROUPS}/deletion.py",
        "    deleted = [partition for partition in expired if not group.offsets.has_pending_commit(partition)]",
        "    deleted = list(expired)",
        (
            "unit/coordinators/groups/test_offset_expiration.py::test_offset_with_pending_commit_does_not_expire",
        ),
    ),
    Plant(
        "offsets go with their topic",
        f"{GROUPS}/deletion.py",
        "            delete_partitions(groups, group, deleted, _ignore_result, context)\n    context.reply(to, count)",
        "            pass\n    context.reply(to, count)",
        (
            "unit/broker/coordinators/test_group_coordinator.py::test_deleting_a_topic_deletes_its_committed_offsets",
        ),
    ),
    Plant(
        "a transaction counts in all of its partitions",
        f"{TRANSACTIONS}/transition_appends.py",
        "        tuple(sorted(stored.partitions)),",
        "        tuple(sorted(stored.partitions))[:1],",
        (
            "unit/broker/handlers/test_transactions.py::test_transaction_commits_in_all_of_its_partitions_or_in_none",
        ),
    ),
    Plant(
        "an aborted transaction counts nowhere",
        f"{TRANSACTIONS}/transition_appends.py",
        "        stored.state is TransactionState.PREPARE_COMMIT,\n",
        "        True,\n",
        (
            "unit/broker/handlers/test_transactions.py::test_transaction_commits_in_all_of_its_partitions_or_in_none",
        ),
    ),
    Plant(
        "offsets of a transaction count from its commit on",
        f"{GROUPS}/shard.py",
        "                self.groups[group_id].offsets.end_transaction(producer_id, commits=commits)",
        "                self.groups[group_id].offsets.end_transaction(producer_id, commits=False)",
        (
            "unit/broker/handlers/test_transactions.py::test_transactional_offsets_are_visible_after_the_commit",
        ),
    ),
    Plant(
        "a settled commit is carried out by the next broker",
        f"{TRANSACTIONS}/shard.py",
        "            resume(self.ids[transactional_id], context)\n        context.schedule_timer(TIMEOUT_TIMER, context",
        "            pass\n        context.schedule_timer(TIMEOUT_TIMER, context",
        (
            "unit/broker/handlers/test_transactions.py::test_prepared_transaction_is_completed_after_a_restart",
        ),
    ),
    Plant(
        "a fenced instance begins nothing",
        f"{TRANSACTIONS}/transitions.py",
        "    if stored.producer_epoch != producer_epoch:",
        "    if stored.producer_epoch < producer_epoch:",
        (
            "unit/broker/handlers/test_transactions.py::test_fenced_producer_cannot_write_to_a_new_partition",
            "compat/test_transactions.py::test_older_instance_is_fenced_and_its_transaction_aborted",
        ),
    ),
    Plant(
        "a late write begins no transaction",
        f"{TRANSACTIONS}/transitions.py",
        "        partition: rejection or (ErrorCode.NONE if partition in added else missing)",
        "        partition: rejection or ErrorCode.NONE",
        (
            "unit/broker/handlers/test_transactions.py::test_write_to_a_partition_outside_the_transaction_is_rejected",
        ),
    ),
    Plant(
        "a hanging transaction is aborted",
        f"{TRANSACTIONS}/transitions.py",
        "    return stored.start_ms + stored.timeout_ms < now_ms",
        "    return stored.start_ms + 10 * stored.timeout_ms < now_ms",
        ("unit/broker/handlers/test_transactions.py::test_hanging_transaction_is_aborted_after_its_timeout",),
    ),
    Plant(
        "readers and answers wait for the flush",
        f"{REPLICATION}/partition.py",
        "        end_offset = log.recovery_point if self.is_flush_pending else log.log_end_offset",
        "        end_offset = log.log_end_offset",
        ("unit/broker/storage/test_log_maintenance.py::test_response_and_readers_wait_for_the_flush",),
    ),
    Plant(
        "a deleted offset does not come back with a late transaction",
        f"{GROUPS}/committed_offsets.py",
        "        for producer in [producer_id] if producer_id != NO_PRODUCER_ID else list(self._in_transactions):",
        "        for producer in [producer_id]:",
        (
            "unit/coordinators/groups/test_committed_offsets.py::test_late_transaction_does_not_restore_a_deleted_offset",
        ),
    ),
    Plant(
        "a commit of an older generation is refused by the coordinator",
        f"{GROUPS}/offset_commit.py",
        "        _reject(command, code, to, context)\n        return\n    _renew_session",
        "        pass\n    _renew_session",
        (
            "unit/coordinators/groups/test_offset_commit_and_delete.py::test_commit_of_an_old_generation_is_rejected_and_changes_nothing",
        ),
    ),
    Plant(
        "no two brokers give out the same producer id",
        f"{STORE}/producer_id_manager.py",
        "            await store.set(path, encode_producer_id_block(block), stat.version)\n        except BadVersion:\n            continue  # another broker was first\n        return block",
        "            await store.set(path, encode_producer_id_block(block))\n        except BadVersion:\n            continue  # another broker was first\n        return block",
        ("unit/store/test_producer_id_manager.py::test_brokers_never_share_a_producer_id",),
    ),
    Plant(
        "a log is flushed when its time is up",
        f"{BROKER}/storage/log_maintenance.py",
        "            if now_ms - partition_log.flushed_ms >= partition_log.config.flush_ms:",
        "            if now_ms - partition_log.flushed_ms >= 2 * partition_log.config.flush_ms:",
        ("unit/broker/storage/test_log_maintenance.py::test_log_is_flushed_after_flush_ms",),
    ),
    Plant(
        "the high watermark goes on once there is room",
        f"{REPLICATION}/pending_flushes.py",
        "                self._unflushed.add(partition)",
        "                pass",
        ("unit/broker/storage/test_flush_retries.py::test_high_watermark_advances_once_there_is_disk_space",),
    ),
    Plant(
        "offsets count with the transaction",
        f"{GROUPS}/shard.py",
        "                self.groups[group_id].offsets.end_transaction(producer_id, commits=commits)",
        "                self.groups[group_id].offsets.end_transaction(producer_id, commits=False)",
        (
            "unit/client/producer/transactions/test_transactions.py::test_offsets_are_committed_with_the_transaction",
        ),
    ),
    Plant(
        "a copied log parts from its log where their epochs do",
        f"{REPLICATION}/log_dirs/alter_log_dirs.py",
        "        end_offset = min(end_offset, epoch_end, future_end)",
        "        end_offset = min(end_offset, epoch_end)",
        ("unit/replication/log_dirs/test_future_log_truncation.py::test_common_end_by_leader_epochs",),
    ),
    Plant(
        "appends of one connection stay in order on threads",
        f"{REPLICATION}/append_queue.py",
        "        return (partition, source) in self._queues",
        "        return False",
        (
            "unit/broker/handlers/test_produce_validation_threads.py::test_appends_of_one_connection_to_one_partition_keep_their_order",
        ),
    ),
    Plant(
        "a full target makes a move wait",
        f"{REPLICATION}/log_dirs/alter_log_dirs.py",
        "            if is_broken or (isinstance(error, BrokerError) and error.code != _DISK_FULL):\n                raise",
        "            raise",
        ("unit/broker/handlers/test_alter_replica_log_dirs.py::test_full_target_log_dir_delays_the_move",),
    ),
    Plant(
        "a move goes on after a restart",
        f"{REPLICATION}/log_dirs/alter_log_dirs.py",
        "                self._start_copy(_Move(partition, source, directory, future))",
        "                self._drop_future(directory, topic_partition)",
        ("unit/broker/handlers/test_alter_replica_log_dirs.py::test_move_resumes_after_a_restart",),
    ),
    Plant(
        "a fetch of cold data stalls nobody",
        f"{BROKER}/handlers/fetch.py",
        "    attempt = FetchAttempt(request, context, fetch_context, replica_id, may_block=False)",
        "    attempt = FetchAttempt(request, context, fetch_context, replica_id, may_block=True)",
        ("unit/broker/storage/test_cold_reads.py::test_fetch_of_cold_data_does_not_block_the_event_loop",),
    ),
    Plant(
        "a full disk fails no directory",
        "src/odradek/log/directory/log_directory.py",
        "        if error.errno not in TRANSIENT_ERRORS:\n            self.fail(failure)",
        "        self.fail(failure)",
        (
            "unit/broker/storage/test_too_many_open_files.py::test_topic_created_without_descriptors_comes_online_later",
            "unit/broker/storage/test_too_many_open_files.py::test_emfile_in_flush_and_retention_keeps_the_log_dir_online",
            "unit/broker/storage/test_full_disk_new_partitions.py::test_new_partitions_come_online_once_there_is_disk_space",
            "unit/broker/storage/test_full_disk_start.py::test_reads_succeed_and_writes_fail_until_there_is_disk_space",
            "unit/broker/storage/test_full_disk_start.py::test_retention_deletes_old_segments_on_a_full_disk",
            "unit/broker/storage/test_full_disk_start.py::test_delete_records_succeeds_on_a_full_disk",
        ),
    ),
    Plant(
        "partitions without a log get one once there is room",
        f"{REPLICATION}/partition_logs.py",
        "                usable.append(topic_partition)",
        "                pass",
        (
            "unit/broker/storage/test_full_disk_new_partitions.py::test_new_partitions_come_online_once_there_is_disk_space",
            "unit/broker/storage/test_too_many_open_files.py::test_topic_created_without_descriptors_comes_online_later",
        ),
    ),
    Plant(
        "a log that could not be opened is opened once it can",
        f"{REPLICATION}/partition_logs.py",
        "            return await unusable_in.reopen(topic_partition)",
        "            return False",
        (
            "unit/broker/storage/test_unusable_log.py::test_unrecoverable_log_takes_the_partition_offline_until_repaired",
        ),
    ),
    Plant(
        "a partition.metadata that says nothing is not believed",
        "src/odradek/log/checkpoints.py",
        "        raise StorageError(f\"{path}: topic_id must be 16 bytes in base64, got {fields.get('topic_id')!r}\")",
        "        return None",
        (
            "unit/broker/storage/test_unusable_log.py::test_corrupt_partition_metadata_file_takes_the_partition_offline",
        ),
    ),
    Plant(
        "a log that cannot be written refuses appends and no more",
        "src/odradek/log/disk_health.py",
        "        if error.errno in SINGLE_LOG_ERRORS:",
        "        if False:",
        ("unit/broker/storage/test_unusable_log.py::test_read_only_log_rejects_appends_until_writable",),
    ),
    Plant(
        "refused batches leave a few lines",
        "src/odradek/telemetry/rate_limited_events.py",
        "        if count.written >= self._count_max:",
        "        if False:",
        (
            "unit/broker/handlers/test_rejected_batch_log.py::test_rejected_batches_are_logged_with_client_and_peer_a_bounded_number_of_times",
        ),
    ),
    Plant(
        "a deleted topic does not keep its transaction from ending",
        f"{BROKER}/coordinators/marker_channels.py",
        "            return None if is_loaded else NO_LEADER\n",
        "            return NO_LEADER\n",
        ("unit/broker/handlers/test_transactions.py::test_transaction_with_a_deleted_topic_completes",),
    ),
    Plant(
        "a transaction that hangs may be aborted by hand",
        f"{BROKER}/coordinators/transaction_marker_writer.py",
        "            partition = self._replica_manager.get_leader_partition(*topic_partition)\n",
        "            partition = self._replica_manager.get_leader_partition(*topic_partition)\n            if marker_entry.coordinator_epoch < 0: return _PartitionResult(ErrorCode.TRANSACTION_COORDINATOR_FENCED)\n",
        ("unit/broker/handlers/test_transactions.py::test_operator_can_abort_a_hanging_transaction",),
    ),
    Plant(
        "a broker whose last directory failed says so",
        f"{BROKER}/storage/log_dir_failures.py",
        "            self._on_all_failed()",
        "            pass",
        ("unit/broker/storage/test_log_dirs.py::test_failure_of_the_last_log_dir_is_signalled",),
    ),
    Plant(
        "two directories never hold a log under the current name",
        f"{REPLICATION}/log_dirs/alter_log_dirs.py",
        "            await source.sync_directory()\n        while target.get",
        "            pass\n        while target.get",
        (
            "unit/broker/storage/test_replica_move_power_loss.py::test_power_loss_at_any_step_of_a_replica_move_leaves_one_complete_log",
        ),
    ),
    Plant(
        "the name of a moved log is on the disk before the old one goes",
        f"{REPLICATION}/log_dirs/alter_log_dirs.py",
        "        await target.sync_directory()\n        source.schedule_delete",
        "        source.schedule_delete",
        (
            "unit/broker/storage/test_replica_move_power_loss.py::test_moved_log_survives_a_power_loss_without_its_old_directory",
        ),
    ),
]
