# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Planted bugs in followers and their logs, each with the tests that must detect it."""

from __future__ import annotations

from tests.mutation.plant import Plant

LOG = "src/odradek/log"
REPLICATION = "src/odradek/replication"
FETCHERS = f"{REPLICATION}/fetchers"
UNIT = "unit/replication/fetchers"
SIMULATION = f"{UNIT}/test_replication_simulation.py::test_replicas_converge"

FOLLOWER_PLANTS: list[Plant] = [
    # Truncation offsets.
    Plant(
        "a follower truncates to the smaller end of an epoch that both know",
        f"{FETCHERS}/truncation.py",
        "    return OffsetTruncation(min(own.end_offset, leader.end_offset, local.log_end_offset), is_complete=True)",
        "    return OffsetTruncation(min(leader.end_offset, local.log_end_offset), is_complete=True)",
        (f"{UNIT}/test_truncation.py::test_truncation_by_the_end_of_an_epoch",),
    ),
    Plant(
        "a follower truncates to the leader's end of an epoch that both know",
        f"{FETCHERS}/truncation.py",
        "    return OffsetTruncation(min(own.end_offset, leader.end_offset, local.log_end_offset), is_complete=True)",
        "    return OffsetTruncation(min(own.end_offset, local.log_end_offset), is_complete=True)",
        (f"{UNIT}/test_truncation.py::test_repeated_truncation_ends_at_the_point_of_divergence", SIMULATION),
    ),
    Plant(
        "a follower that does not know the leader's epoch asks again",
        f"{FETCHERS}/truncation.py",
        "        return OffsetTruncation(min(own.end_offset, local.log_end_offset), is_complete=False)",
        "        return OffsetTruncation(min(own.end_offset, local.log_end_offset), is_complete=True)",
        (f"{UNIT}/test_fetcher.py::test_old_leader_is_asked_for_the_ends_of_epochs",),
    ),
    Plant(
        "a follower that does not know the leader's epoch truncates to its own largest smaller epoch",
        f"{FETCHERS}/truncation.py",
        "    if own.leader_epoch != leader.leader_epoch:",
        "    if False:",
        (f"{UNIT}/test_truncation.py::test_truncation_by_the_end_of_an_epoch",),
    ),
    Plant(
        "an undefined epoch end means the high watermark",
        f"{FETCHERS}/truncation.py",
        "    if leader.end_offset == UNKNOWN_OFFSET:\n        # The leader knows no epochs, or only later ones.\n        return truncate_to_high_watermark(local)",
        "    if leader.end_offset == UNKNOWN_OFFSET:\n        return OffsetTruncation(local.log_end_offset, is_complete=True)",
        (f"{UNIT}/test_truncation.py::test_truncation_by_the_end_of_an_epoch",),
    ),
    Plant(
        "a log without epochs is truncated to the high watermark",
        f"{FETCHERS}/truncation.py",
        "    return OffsetTruncation(min(local.high_watermark, local.log_end_offset), is_complete=True)",
        "    return OffsetTruncation(local.log_end_offset, is_complete=True)",
        (f"{UNIT}/test_fetcher.py::test_log_without_epochs_is_truncated_to_the_high_watermark",),
    ),
    Plant(
        "a diverging log with epochs is not truncated to the high watermark only",
        f"{FETCHERS}/fetched_partition.py",
        "        self._truncate(truncation.truncate_to_epoch_end(leader, self._local_offsets()))",
        "        self._truncate(truncation.truncate_to_high_watermark(self._local_offsets()))",
        (SIMULATION, f"{UNIT}/test_fetcher.py::test_diverging_log_is_truncated_where_it_diverges"),
    ),
    Plant(
        "divergence is checked in every leader epoch (KAFKA-7164)",
        f"{FETCHERS}/fetcher.py",
        "        if partition is not None and partition.follower is follower and not partition.is_failed:",
        "        if partition is not None and not partition.is_failed:\n            partition.follower = follower",
        (f"{UNIT}/test_fetcher.py::test_truncation_is_checked_in_every_leader_epoch",),
    ),
    Plant(
        "a fetch has the epoch of the last batch",
        f"{FETCHERS}/fetch_requests.py",
        "        state.last_fetched_epoch if sends_epochs else -1,",
        "        -1,",
        (
            SIMULATION,
            f"{UNIT}/test_fetch_requests.py::test_request_has_the_offsets_and_epochs_of_the_follower",
        ),
    ),
    Plant(
        "a diverging epoch does not change the high watermark",
        f"{FETCHERS}/fetched_partition.py",
        "            self.truncate_to_epoch_end(EpochEnd(diverging.epoch, diverging.end_offset))\n            return 0",
        "            self.follower.append(b'', data.high_watermark, data.log_start_offset, 0)\n            self.truncate_to_epoch_end(EpochEnd(diverging.epoch, diverging.end_offset))\n            return 0",
        (f"{UNIT}/test_fetcher.py::test_diverging_epoch_does_not_change_the_high_watermark",),
    ),
    # Errors.
    Plant(
        "a fenced replica waits for the controller",
        f"{FETCHERS}/fetch_state.py",
        "        case ErrorCode.FENCED_LEADER_EPOCH:",
        "        case ErrorCode.NONE:",
        (f"{UNIT}/test_fetcher.py::test_fenced_replica_waits_for_the_controller",),
    ),
    Plant(
        "a leader that lags behind is asked again",
        f"{FETCHERS}/fetch_state.py",
        "        case ErrorCode.FENCED_LEADER_EPOCH:",
        "        case ErrorCode.FENCED_LEADER_EPOCH | ErrorCode.UNKNOWN_LEADER_EPOCH:",
        (f"{UNIT}/test_fetcher.py::test_leader_that_does_not_know_of_its_role_is_asked_again_soon",),
    ),
    Plant(
        "a failing partition is delayed alone",
        f"{FETCHERS}/fetcher.py",
        "        for partition in to_flush:",
        "        if any(data.error_code for data in results.values()):\n            self._delay(self.partitions.values())\n        for partition in to_flush:",
        (f"{UNIT}/test_fetcher.py::test_partition_with_an_error_is_delayed_alone_and_retried",),
    ),
    Plant(
        "a failing partition is delayed",
        f"{FETCHERS}/fetch_state.py",
        "        return self if self.is_delayed(now_ms) else self._replace(delayed_until_ms=until_ms)",
        "        return self",
        (f"{UNIT}/test_fetch_state.py::test_delayed_partition_is_not_ready_until_its_delay_ends",),
    ),
    Plant(
        "a log that ends before the leader's start is replaced",
        f"{FETCHERS}/truncation.py",
        "    if leader_start_offset > log_end_offset:\n        return OffsetReset(leader_start_offset, is_full=True)\n",
        "",
        (f"{UNIT}/test_fetcher.py::test_log_behind_the_leaders_start_is_replaced",),
    ),
    Plant(
        "a log that ends after the leader's end is truncated to it",
        f"{FETCHERS}/truncation.py",
        "    if leader_end_offset < log_end_offset:\n        return OffsetReset(leader_end_offset, is_full=False)\n",
        "",
        (f"{UNIT}/test_fetcher.py::test_log_beyond_the_leaders_end_is_truncated_to_it",),
    ),
    Plant(
        "a corrupt batch is counted",
        f"{FETCHERS}/fetched_partition.py",
        "        self.corrupt_count += error.code in _CORRUPT\n",
        "",
        (f"{UNIT}/test_fetcher.py::test_corrupt_batch_is_fetched_again_and_counted",),
    ),
    Plant(
        "a corrupt batch is not appended",
        "src/odradek/records/validation.py",
        '        if not codec.has_valid_crc(buffer, header):\n            raise BrokerError(\n                ErrorCode.CORRUPT_MESSAGE,\n                f"CRC of the replicated',
        '        if False:\n            raise BrokerError(\n                ErrorCode.CORRUPT_MESSAGE,\n                f"CRC of the replicated',
        (f"{UNIT}/test_fetcher.py::test_corrupt_batch_is_fetched_again_and_counted",),
    ),
    Plant(
        "a corrupt batch does not end the replication",
        f"{FETCHERS}/fetched_partition.py",
        "        if error.code not in _CORRUPT and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:",
        "        if True:",
        (
            f"{UNIT}/test_fetcher.py::test_corrupt_batch_is_fetched_again_and_counted",
            f"{UNIT}/test_fetcher.py::test_full_disk_delays_the_partition",
        ),
    ),
    # Role changes.
    Plant(
        "a response for a removed partition is dropped",
        f"{FETCHERS}/fetcher.py",
        "        if self.partitions.pop(topic_partition, None) is not None:",
        "        if self.partitions.get(topic_partition) is not None:",
        (f"{UNIT}/test_fetcher.py::test_response_for_a_removed_partition_is_dropped",),
    ),
    Plant(
        "an offset of a removed or replaced partition is dropped",
        f"{FETCHERS}/fetcher.py",
        "        return self.partitions.get(partition.topic_partition) is partition and partition.follower.is_active",
        "        return partition.follower.is_active",
        (
            f"{UNIT}/test_fetcher.py::test_offset_of_a_removed_partition_is_dropped",
            f"{UNIT}/test_fetcher.py::test_end_of_an_epoch_of_a_removed_partition_is_dropped",
        ),
    ),
    Plant(
        "a replaced follower does not write",
        f"{REPLICATION}/follower.py",
        "        if not self.is_active:",
        "        if False:",
        ("unit/replication/test_follower.py::test_replaced_follower_changes_nothing",),
    ),
    Plant(
        "offsets of a dropped response are fetched again",
        f"{FETCHERS}/fetcher.py",
        "                self._session.handle_error()\n                self._changed[topic_partition] = None\n",
        "",
        (f"{UNIT}/test_fetcher.py::test_offsets_of_a_dropped_response_are_fetched_again",),
    ),
    Plant(
        "offsets are sent again after a diverging epoch",
        f"{REPLICATION}/fetch_sessions/fetch_session.py",
        "        is_usable = result.error == _NONE and result.diverging_epoch < 0\n",
        "        is_usable = result.error == _NONE\n",
        (
            "unit/replication/fetch_sessions/test_fetch_session.py::test_partition_is_returned_again_after_a_diverging_epoch",
        ),
    ),
    # Offsets.
    Plant(
        "the high watermark of a follower is at most its log end offset",
        f"{REPLICATION}/follower.py",
        "        high_watermark = min(leader_high_watermark, log.log_end_offset)",
        "        high_watermark = leader_high_watermark",
        (
            "unit/replication/test_follower.py::test_high_watermark_is_at_most_the_own_log_end_offset",
            SIMULATION,
        ),
    ),
    Plant(
        "the high watermark of a follower does not go back",
        f"{REPLICATION}/follower.py",
        "        log.high_watermark = max(log.high_watermark, high_watermark)",
        "        log.high_watermark = high_watermark",
        ("unit/replication/test_follower.py::test_high_watermark_does_not_go_back",),
    ),
    Plant(
        "the log start offset of a follower follows the leader's",
        f"{REPLICATION}/follower.py",
        "            log.advance_log_start_offset(log_start_offset)",
        "            pass",
        (f"{UNIT}/test_fetcher.py::test_log_start_offset_follows_the_leaders",),
    ),
    Plant(
        "an append is flushed before it is acknowledged",
        f"{FETCHERS}/fetcher.py",
        "            if partition.follower.is_flush_due:",
        "            if False:",
        (f"{UNIT}/test_fetcher.py::test_append_is_flushed_before_the_next_fetch_acknowledges_it",),
    ),
    # The log.
    Plant(
        "an empty log starts with the leader's first batch",
        f"{LOG}/log.py",
        "            if self.log_start_offset == self.log_end_offset:\n                self.truncate_fully",
        "            if False:\n                self.truncate_fully",
        (
            "unit/log/test_follower_append.py::test_empty_log_starts_with_the_batch_that_contains_the_leaders_log_start_offset",
            f"{UNIT}/test_fetcher.py::test_new_follower_starts_with_the_batch_that_contains_the_leaders_start",
        ),
    ),
    Plant(
        "a batch that was removed by a truncation inside it is fetched again",
        f"{LOG}/log.py",
        "            if first.base_offset >= self._segments[-1].next_offset():",
        "            if False:",
        (
            "unit/log/test_follower_append.py::test_log_is_equal_to_the_leaders_after_a_truncation_inside_a_batch",
        ),
    ),
    Plant(
        "a fetched batch does not overlap another",
        f"{LOG}/log.py",
        "            if first.base_offset >= self._segments[-1].next_offset():",
        "            if True:",
        ("unit/log/test_follower_append.py::test_batch_that_overlaps_another_is_refused",),
    ),
    Plant(
        "epochs without batches do not cover later batches",
        f"{LOG}/log.py",
        "                self.epochs.truncate_from_end(first.base_offset)\n",
        "",
        ("unit/log/test_follower_append.py::test_epoch_that_starts_in_a_hole_is_replaced_with_the_batch",),
    ),
    Plant(
        "recovery does not take a hole for a loss",
        f"{LOG}/local_log.py",
        "            base_offset = old.next_offset() if first_offset is None else first_offset",
        "            base_offset = self.log_end_offset if first_offset is None else first_offset",
        ("unit/log/test_follower_append.py::test_hole_of_a_truncation_is_not_taken_for_a_loss",),
    ),
    Plant(
        "a segment contains only offsets that fit into its indexes",
        f"{LOG}/log.py",
        "            if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:",
        "            if False:",
        (
            "unit/log/test_follower_append.py::test_first_batch_may_be_far_beyond_the_start_of_a_compacted_log",
            "unit/log/test_follower_append.py::test_fetched_batches_may_be_further_apart_than_a_segment_reaches",
        ),
    ),
    Plant(
        "a truncation removes leader epochs",
        f"{LOG}/local_log.py",
        "        self.epochs.truncate_from_end(offset)\n        self._set_end(offset)",
        "        self._set_end(offset)",
        ("unit/log/test_log_truncation.py::test_truncation_removes_later_epochs_and_producer_state",),
    ),
    Plant(
        "a truncation writes the leader epochs",
        f"{LOG}/local_log.py",
        "        self._set_end(offset)\n        self._write_epochs()\n        self._on_truncate(self)\n        return True",
        "        self._set_end(offset)\n        self._on_truncate(self)\n        return True",
        (
            "unit/log/test_truncation_durability.py::test_epoch_checkpoint_is_written_before_the_truncation_returns",
        ),
    ),
    Plant(
        "a truncation is durable before anything is appended",
        f"{LOG}/local_log.py",
        "        active.truncate(offset)\n        # If the truncation were lost after the next roll, two segments would contain the same offsets.\n        active.sync_log()",
        "        active.truncate(offset)",
        ("unit/log/test_truncation_durability.py::test_truncated_batches_do_not_return_after_a_power_loss",),
    ),
    Plant(
        "a truncation lowers the high watermark",
        f"{LOG}/local_log.py",
        "        self.high_watermark = min(self.high_watermark, offset)",
        "        pass",
        ("unit/replication/test_follower.py::test_truncation_lowers_the_high_watermark",),
    ),
    Plant(
        "a truncation removes producer state",
        f"{LOG}/local_log.py",
        "            self._producers.truncate(self._context, list(self._segments), offset)",
        "            pass",
        ("unit/log/test_log_truncation.py::test_truncation_removes_later_epochs_and_producer_state",),
    ),
    Plant(
        "segments below an old recovery point are synced before the next one exists",
        f"{LOG}/local_log.py",
        "                sealed.sync()\n            new",
        "                pass\n            new",
        (
            "unit/log/test_truncation_durability.py::test_old_recovery_point_hides_nothing_that_was_appended_after_a_truncation",
        ),
    ),
    Plant(
        "recovery notices leader epochs that are older than the batches",
        f"{LOG}/recovery/log_loader.py",
        "        _rebuild_stale_epochs(epochs, segments[:first])\n",
        "",
        (
            "unit/log/test_truncation_durability.py::test_old_recovery_point_hides_nothing_that_was_appended_after_a_truncation",
        ),
    ),
    Plant(
        "a flush during a truncation leaves no removed leader epochs",
        f"{LOG}/local_log.py",
        "            await self._flusher.replace_stale_epochs(self.epochs.entries)\n",
        "",
        (
            "unit/log/test_truncation_durability.py::test_flush_during_a_truncation_does_not_leave_removed_epochs",
        ),
    ),
    Plant(
        "a truncation lowers the cleaner checkpoint",
        f"{LOG}/directory/log_directory.py",
        "            for offsets in (self.cleaned_offsets, self.high_watermarks):",
        "            for offsets in (self.high_watermarks,):",
        ("unit/log/directory/test_log_directory.py::test_truncation_lowers_the_checkpoints",),
    ),
    Plant(
        "a swap that a truncation has overtaken brings no batches back",
        f"{LOG}/local_log.py",
        "        if self.swap is not None:",
        "        if False:",
        ("unit/log/cleaning/test_log_cleaner.py::test_truncation_during_a_swap_does_not_bring_batches_back",),
    ),
    Plant(
        "a cleaning that a truncation has overtaken does not count",
        f"{LOG}/cleaning/log_cleaner.py",
        '            if cleaning.must_end:\n                raise LogCleaningAborted("the log has changed")\n',
        "",
        (
            "unit/log/cleaning/test_log_cleaner.py::test_cleaning_overtaken_by_a_truncation_does_not_move_the_checkpoint",
        ),
    ),
]
