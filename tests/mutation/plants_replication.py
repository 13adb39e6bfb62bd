# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in the rules of leaders, the ISR and the controller's requests, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

REPLICATION = "src/odradek/replication"
HANDLERS = "src/odradek/broker/handlers"
UNIT = "unit/replication"

REPLICATION_PLANTS: list[Plant] = [
    Plant(
        "a new leader assigns the start of its epoch",
        f"{REPLICATION}/partition.py",
        "            self.log.assign_leader_epoch(state.leader_epoch)\n",
        "            pass\n",
        (f"{UNIT}/test_role_changes.py::test_new_leader_starts_its_epoch_and_forgets_follower_offsets",),
    ),
    Plant(
        "a new leader forgets follower offsets",
        f"{REPLICATION}/leader.py",
        "        self.log_end_offset = self.log_start_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET\n        self.last_fetch_ms = NEVER_MS\n",
        "        self.log_end_offset = 1 << 62\n",
        (f"{UNIT}/test_role_changes.py::test_new_leader_starts_its_epoch_and_forgets_follower_offsets",),
    ),
    Plant(
        "the latest offset waits for the start of the epoch",
        f"{REPLICATION}/leader.py",
        "        if self.leader_epoch_start_offset > high_watermark:\n",
        "        if self.leader_epoch_start_offset > high_watermark + (1 << 62):\n",
        (
            f"{UNIT}/test_role_changes.py::test_latest_offset_is_not_available_until_the_epoch_start_is_committed",
            "unit/broker/handlers/test_follower_fetch.py::test_latest_offset_waits_for_the_new_epoch",
        ),
    ),
    Plant(
        "proposed members hold the high watermark back",
        f"{REPLICATION}/leader.py",
        "broker_id in self.maximal_isr or",
        "broker_id in self.isr or",
        (
            f"{UNIT}/test_leader.py::test_proposed_isr_member_holds_back_high_watermark",
            f"{UNIT}/isr/test_isr_changes.py::test_proposed_member_holds_the_high_watermark_back",
        ),
    ),
    Plant(
        "a proposed removal counts only once confirmed",
        f"{REPLICATION}/leader.py",
        "        self.maximal_isr = self.isr + tuple(broker_id for broker_id in isr if broker_id not in self.isr)\n",
        "        self.maximal_isr = isr\n",
        (
            f"{UNIT}/test_leader.py::test_proposed_isr_removal_counts_only_once_committed",
            f"{UNIT}/isr/test_isr_changes.py::test_lagging_follower_is_removed_once_confirmed",
        ),
    ),
    Plant(
        "caught-up followers outside the ISR hold the high watermark back",
        f"{REPLICATION}/leader.py",
        " or self._may_join_isr_soon(broker_id, replica, log_end_offset)",
        "",
        (f"{UNIT}/test_leader.py::test_caught_up_follower_outside_isr_holds_back_high_watermark",),
    ),
    Plant(
        "the high watermark stands still below min.insync.replicas",
        f"{REPLICATION}/leader.py",
        "        if self.is_under_min_isr(min_isr):\n            return current\n",
        "",
        (
            f"{UNIT}/test_leader.py::test_high_watermark_stands_still_under_min_isr",
            f"{UNIT}/isr/test_isr_changes.py::test_high_watermark_stands_still_below_min_isr",
        ),
    ),
    Plant(
        "a follower joins the ISR past the start of the epoch only",
        f"{REPLICATION}/leader.py",
        "replica.log_end_offset < max(high_watermark, self.leader_epoch_start_offset):",
        "replica.log_end_offset < high_watermark:",
        (f"{UNIT}/test_leader.py::test_follower_joins_isr_only_past_leader_epoch_start",),
    ),
    Plant(
        "a follower on a dead broker does not join the ISR",
        f"{REPLICATION}/leader.py",
        "        return (*self.isr, broker_id) if self._is_broker_alive(broker_id) else None\n",
        "        return (*self.isr, broker_id)\n",
        (
            f"{UNIT}/test_leader.py::test_members_dead_brokers_and_strangers_do_not_join_isr",
            f"{UNIT}/isr/test_isr_changes.py::test_dead_broker_does_not_join",
        ),
    ),
    Plant(
        "an undecided ISR change stays pending",
        f"{REPLICATION}/leader.py",
        "        if result.error in _REJECTED:\n",
        "        if result.error in _REJECTED or result.error in _UNDECIDED:\n",
        (
            f"{UNIT}/test_leader.py::test_result_of_an_isr_change",
            f"{UNIT}/isr/test_isr_changes.py::test_proposed_member_holds_the_high_watermark_back",
        ),
    ),
    Plant(
        "an ISR change of another leader epoch is not applied",
        f"{REPLICATION}/leader.py",
        "        if result.leader_epoch != self.leader_epoch or result.partition_epoch < self.partition_epoch:\n            return IsrChangeOutcome.PENDING\n",
        "",
        (f"{UNIT}/test_leader.py::test_result_of_an_isr_change",),
    ),
    Plant(
        "the result of a replaced proposal is ignored",
        f"{REPLICATION}/leader.py",
        "        if self._proposed is not change:\n            return IsrChangeOutcome.IGNORED\n",
        "",
        (
            f"{UNIT}/test_leader.py::test_result_of_a_replaced_proposal_is_ignored",
            f"{UNIT}/isr/test_isr_changes.py::test_result_after_a_role_change_is_ignored",
        ),
    ),
    Plant(
        "a follower is proposed for the ISR before the high watermark moves",
        f"{REPLICATION}/replica_manager.py",
        "        self.isr_changes.expand(partition, broker_id)\n",
        "        partition.advance_high_watermark()\n        self.isr_changes.expand(partition, broker_id)\n",
        (f"{UNIT}/isr/test_isr_changes.py::test_slow_follower_joins_before_the_high_watermark_passes_it",),
    ),
    Plant(
        "one ISR change of a partition is on its way",
        f"{REPLICATION}/isr/alter_partition_manager.py",
        "        if topic_partition in self._unsent or self._is_closed:\n",
        "        if self._is_closed:\n",
        (f"{UNIT}/isr/test_alter_partition_manager.py::test_second_change_of_a_partition_is_not_attempted",),
    ),
    Plant(
        "AlterPartition names topics if one has no id",
        f"{REPLICATION}/isr/alter_partition_manager.py",
        "version_max=None if has_topic_ids else VERSION_MAX_WITHOUT_TOPIC_IDS,",
        "version_max=None,",
        (f"{UNIT}/isr/test_alter_partition_manager.py::test_versions_with_topic_ids_need_all_ids",),
    ),
    Plant(
        "a diverging fetch is no progress",
        f"{HANDLERS}/fetch.py",
        "                if result.diverging_epoch < 0:\n                    requested = result.request\n",
        "                if True:\n                    requested = result.request\n",
        (
            "unit/broker/handlers/test_follower_fetch.py::test_diverging_follower_gets_no_records_and_no_credit",
        ),
    ),
    Plant(
        "a failed fetch is no progress",
        f"{HANDLERS}/fetch.py",
        "            if partition is not None and not result.error:\n                result.log_end_offset",
        "            if partition is not None:\n                result.log_end_offset",
        (
            "unit/broker/handlers/test_follower_fetch.py::test_out_of_range_fetch_gives_no_credit",
            "unit/broker/handlers/test_follower_fetch.py::test_only_followers_of_this_epoch_are_served",
        ),
    ),
    Plant(
        "partitions of the session count although not named",
        f"{HANDLERS}/fetch.py",
        "        for partition, result in zip(self._partitions, self._results, strict=True):\n",
        "        for partition, result in list(zip(self._partitions, self._results, strict=True))[:1]:\n",
        (
            "unit/broker/handlers/test_follower_fetch.py::test_partitions_of_the_session_count_although_not_named",
        ),
    ),
    Plant(
        "only assigned followers fetch",
        f"{REPLICATION}/partition.py",
        "            self.leader_state.require_follower(replica_id, request.current_leader_epoch)\n",
        "",
        ("unit/broker/handlers/test_follower_fetch.py::test_only_followers_of_this_epoch_are_served",),
    ),
    Plant(
        "a waiting follower is woken by an append",
        f"{REPLICATION}/partition.py",
        "            or (replica_id >= 0 and self.log.log_end_offset != result.log_end_offset)\n",
        "",
        ("unit/broker/handlers/test_follower_fetch.py::test_waiting_follower_is_woken_by_an_append",),
    ),
    Plant(
        "a new epoch fences waiting followers",
        f"{REPLICATION}/partition.py",
        "            or result.request.current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch)\n",
        "",
        (
            "unit/broker/handlers/test_follower_fetch.py::test_new_epoch_of_the_same_leader_fences_waiting_followers",
        ),
    ),
    Plant(
        "an append of an earlier leadership is not acknowledged",
        f"{REPLICATION}/partition.py",
        "        if leader is None or leader is not appended_by:\n",
        "        if leader is None:\n",
        (f"{UNIT}/test_partition.py::test_append_of_an_earlier_leadership_is_not_acknowledged",),
    ),
    Plant(
        "LeaderAndIsr with an equal leader epoch is stale",
        f"{REPLICATION}/control_requests.py",
        "    if state.leader_epoch > current_epoch:\n",
        "    if state.leader_epoch >= current_epoch:\n",
        (
            f"{UNIT}/test_control_requests.py::test_decision_about_a_role",
            f"{UNIT}/test_role_changes.py::test_older_and_equal_leader_epochs_are_stale",
        ),
    ),
    Plant(
        "another topic id is inconsistent",
        f"{REPLICATION}/control_requests.py",
        "    if ZERO_TOPIC_ID not in (topic_id, current_topic_id) and topic_id != current_topic_id:\n        return RoleDecision(False, ErrorCode.INCONSISTENT_TOPIC_ID)\n",
        "",
        (
            f"{UNIT}/test_control_requests.py::test_decision_about_a_role",
            f"{UNIT}/test_role_changes.py::test_another_topic_id_is_inconsistent",
        ),
    ),
    Plant(
        "requests of an outdated controller are rejected",
        f"{REPLICATION}/state_changes.py",
        "        if controller_epoch < self.controller_epoch:\n",
        "        if False:\n",
        (
            f"{UNIT}/test_role_changes.py::test_requests_of_an_outdated_controller_are_rejected",
            "unit/broker/handlers/test_control_requests.py::test_leader_and_isr_of_an_outdated_controller",
        ),
    ),
    Plant(
        "requests for an earlier registration are stale",
        "src/odradek/broker/requests/broker_epoch.py",
        "    return requested != UNKNOWN_BROKER_EPOCH and requested < current\n",
        "    return False\n",
        (
            "unit/broker/handlers/test_control_requests.py::test_requests_for_an_earlier_registration_are_stale",
        ),
    ),
    Plant(
        "StopReplica is fenced by the leader epoch",
        f"{REPLICATION}/control_requests.py",
        "    return requested_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE) and requested_epoch < leader_epoch\n",
        "    return False\n",
        (
            f"{UNIT}/test_control_requests.py::test_stop_is_fenced_by_a_later_leader_epoch",
            f"{UNIT}/test_role_changes.py::test_stop_replica_is_fenced_by_leader_epoch",
        ),
    ),
    Plant(
        "a replaced follower cannot write",
        f"{REPLICATION}/partition.py",
        "            self.follower_state.is_active = False\n",
        "            pass\n",
        (f"{UNIT}/test_role_changes.py::test_replaced_follower_is_not_active",),
    ),
    Plant(
        "DeleteRecords waits for all live replicas",
        f"{REPLICATION}/leader.py",
        "            if replica.log_start_offset < lowest and self._is_broker_alive(broker_id):\n                lowest = replica.log_start_offset\n",
        "            pass\n",
        (
            f"{UNIT}/delayed/test_delayed_delete_records.py::test_delete_completes_when_all_replicas_have_deleted",
            "unit/broker/handlers/test_follower_fetch.py::test_delete_records_waits_for_followers",
        ),
    ),
    Plant(
        "a consumer reads a follower up to its high watermark",
        f"{REPLICATION}/partition.py",
        "        if not self.is_leader and (only_leader or self.follower_state is None):\n",
        "        if not self.is_leader:\n",
        (
            "unit/broker/handlers/test_follower_fetch.py::test_consumer_reads_a_follower_up_to_its_high_watermark",
        ),
    ),
]
