# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in coordinators of several brokers, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

RUNTIME = "src/odradek/coordinators/runtime.py"
BROKER = "src/odradek/broker/coordinators"
MOVES = "unit/broker/coordinators/test_coordinator_moves.py"
ACROSS = "unit/broker/coordinators/test_requests_across_brokers.py"
VERIFICATION = "unit/broker/coordinators/test_remote_verification.py"
SEEDS = "unit/broker/coordinators/test_transactions_under_moves.py::test_transactions_are_exactly_once_while_coordinators_and_leaders_move"
UNIT_VERIFICATION = "unit/broker/coordinators/test_transaction_verification.py"
MARKERS = "unit/broker/coordinators/test_remote_markers.py"

COORDINATOR_PLANTS: list[Plant] = [
    # Loads and leader epochs.
    Plant(
        "a coordinator is unloaded with its leadership",
        f"{BROKER}/group_coordinator.py",
        "            self._runtime.unload(partition.topic_partition.partition)\n",
        "            pass\n",
        (
            f"{MOVES}::test_commits_wait_for_replicas_and_move_with_the_leadership",
            f"{MOVES}::test_waiting_requests_end_with_not_coordinator",
        ),
    ),
    Plant(
        "a removed replica unloads its coordinator",
        "src/odradek/replication/state_changes.py",
        "        if partition is not None:\n            self._on_leadership_changed(partition)\n        return error\n",
        "        return error\n",
        (f"{MOVES}::test_reassigned_away_coordinator_is_unloaded_by_stop_replica",),
    ),
    Plant(
        "a load that a role change overtakes is dropped",
        RUNTIME,
        "        coordinator = self._coordinators.pop(number, None)\n        if coordinator is None:\n",
        "        coordinator = self._coordinators.get(number)\n        if coordinator is not None and coordinator.state is CoordinatorState.LOADING:\n            return\n        coordinator = self._coordinators.pop(number, None)\n        if coordinator is None:\n",
        (f"{MOVES}::test_load_overtaken_by_a_role_change_is_dropped",),
    ),
    Plant(
        "a load waits until the log it found is committed",
        RUNTIME,
        "            if offset >= end_offset:\n                return\n",
        "            return\n",
        (f"{MOVES}::test_requests_are_rejected_while_the_new_coordinator_loads", SEEDS),
    ),
    Plant(
        "a load includes the last batch",
        RUNTIME,
        "        offset, end_offset = 0, coordinator.load_end_offset\n",
        "        offset, end_offset = 0, coordinator.load_end_offset - 1\n",
        (f"{MOVES}::test_commits_wait_for_replicas_and_move_with_the_leadership", SEEDS),
    ),
    Plant(
        "groups stay in a new epoch of the same leader",
        RUNTIME,
        " and (is_same_epoch or not self._reloads_in_new_epoch)\n",
        " and is_same_epoch\n",
        (
            f"{MOVES}::test_new_epoch_of_the_same_leader_keeps_groups_and_reloads_transactions",
            "unit/coordinators/test_runtime.py::test_new_leader_epoch_keeps_the_shard_and_pending_appends",
        ),
    ),
    Plant(
        "transactions are loaded again in a new epoch of the same leader",
        f"{BROKER}/transaction_coordinator.py",
        "            self._make_shard, environment, reloads_in_new_epoch=True\n",
        "            self._make_shard, environment\n",
        (
            f"{MOVES}::test_new_epoch_of_the_same_leader_keeps_groups_and_reloads_transactions",
            f"{MARKERS}::test_coordinator_that_missed_an_epoch_writes_markers_under_its_new_one",
        ),
    ),
    Plant(
        "too few replicas are a coordinator that is not available",
        "src/odradek/coordinators/append_errors.py",
        "    return too_large if code in _TOO_LARGE else _COORDINATOR_ERRORS.get(code, code)\n",
        "    return too_large if code in _TOO_LARGE else code\n",
        (f"{MOVES}::test_commit_without_enough_replicas_is_coordinator_not_available",),
    ),
    # The number of partitions.
    Plant(
        "the number of partitions is not that of the known ones",
        f"{BROKER}/coordinator_topic.py",
        "        if len(topic.partitions) != configured or max(topic.partitions) != configured - 1:\n",
        "        return len(topic.partitions)\n        if len(topic.partitions) != configured:\n",
        (f"{MOVES}::test_partition_count_is_that_of_the_assignment_not_of_known_partitions",),
    ),
    Plant(
        "the number of partitions is read from the assignment",
        f"{BROKER}/coordinator_topic.py",
        "            self._pinned = _PinnedCount(assignment.topic_id, len(assignment.partitions))\n",
        "            topic = self._metadata_cache.topics[self._name]\n            self._pinned = _PinnedCount(assignment.topic_id, len(topic.partitions))\n",
        (f"{MOVES}::test_partition_count_is_that_of_the_assignment_not_of_known_partitions",),
    ),
    Plant(
        "added partitions of an internal topic do not move groups",
        f"{BROKER}/coordinator_topic.py",
        "        if pinned is not None:\n            return pinned.partition_count\n",
        "        if pinned is not None:\n            return len(topic.partitions)\n",
        (f"{MOVES}::test_added_partitions_do_not_change_the_count",),
    ),
    # Markers.
    Plant(
        "markers go to the leader of the partition",
        f"{BROKER}/marker_channels.py",
        "            if leader == self._broker_id:\n",
        "            if True:\n",
        (f"{MARKERS}::test_all_markers_that_wait_for_a_broker_are_in_one_request",),
    ),
    Plant(
        "one request to a broker has all markers that wait for it",
        f"{BROKER}/marker_queues.py",
        "        while self._waiting and count < MARKERS_PER_REQUEST_MAX:\n",
        "        while self._waiting and count < 1:\n",
        (f"{MARKERS}::test_all_markers_that_wait_for_a_broker_are_in_one_request",),
    ),
    Plant(
        "there is one request with markers to a broker at a time",
        f"{BROKER}/marker_queues.py",
        "        if self._task is None:\n            self._task = asyncio",
        "        if True:\n            self._task = asyncio",
        (f"{MARKERS}::test_one_request_per_broker_is_in_flight",),
    ),
    Plant(
        "a request with markers has one transaction per producer",
        f"{BROKER}/marker_queues.py",
        "                left.append((transaction, partitions))\n                continue\n",
        "                pass\n",
        (f"{MARKERS}::test_markers_of_two_transactions_of_a_producer_are_in_two_requests",),
    ),
    Plant(
        "markers without a response are sent again",
        f"{BROKER}/marker_queues.py",
        "            missing = ErrorCode.NETWORK_EXCEPTION\n",
        "            missing = ErrorCode.NONE\n",
        (f"{MARKERS}::test_lost_response_is_sent_again_to_the_current_leader",),
    ),
    Plant(
        "a partition whose leader is not known is not deleted",
        f"{BROKER}/marker_channels.py",
        "                codes[partition] = ErrorCode.LEADER_NOT_AVAILABLE\n",
        "                codes[partition] = ErrorCode.NONE\n",
        (f"{MARKERS}::test_unknown_leader_is_tried_as_soon_as_metadata_has_it",),
    ),
    Plant(
        "a metadata update ends the backoff of markers",
        f"{BROKER}/marker_channels.py",
        "        if not change.topics:\n            return\n",
        "        return\n",
        (
            f"{MARKERS}::test_unknown_leader_is_tried_as_soon_as_metadata_has_it",
            f"{MARKERS}::test_deleted_partition_is_dropped_and_the_others_go_on",
        ),
    ),
    Plant(
        "markers do not wait for a broker that died",
        f"{BROKER}/marker_channels.py",
        "            self._close_queue(self._remote_queues.pop(broker_id))\n",
        "            pass\n",
        (f"{MARKERS}::test_broker_that_died_is_not_waited_for",),
    ),
    Plant(
        "markers are given up with the transaction state partition",
        f"{BROKER}/transaction_coordinator.py",
        "        self._marker_channels.cancel(number)\n",
        "        pass\n",
        (f"{MARKERS}::test_markers_are_given_up_with_the_transaction_state_partition",),
    ),
    Plant(
        "a fenced transaction is given up",
        f"{BROKER}/marker_channels.py",
        "        if fenced or not transaction.remaining:\n",
        "        if fenced:\n            self._retry_later(transaction, fenced, codes)\n        if not transaction.remaining:\n",
        (f"{MARKERS}::test_fenced_transaction_is_given_up",),
    ),
    Plant(
        "the coordinator epoch of a marker is the leader epoch of the state partition",
        f"{BROKER}/transaction_coordinator.py",
        "            task.producer_id, task.producer_epoch, partition.leader_epoch, task.commits\n",
        "            task.producer_id, task.producer_epoch, 0, task.commits\n",
        (f"{MOVES}::test_new_coordinator_writes_the_markers_of_a_prepared_transaction",),
    ),
    # Verification.
    Plant(
        "later batches wait while the first of a producer is verified",
        f"{BROKER}/transaction_verification.py",
        "        if held is None:\n",
        "        if True:\n",
        (f"{VERIFICATION}::test_later_batches_are_held_back_while_the_first_is_verified",),
    ),
    Plant(
        "batches held back stay in order",
        f"{BROKER}/transaction_verification.py",
        "            verify = held.popleft()\n",
        "            verify = held.pop()\n",
        (f"{VERIFICATION}::test_later_batches_are_held_back_while_the_first_is_verified",),
    ),
    Plant(
        "a write is not verified across leader epochs",
        f"{BROKER}/transaction_verification.py",
        "        if partition.leader_epoch != self.leader_epoch:\n",
        "        if False:\n",
        (f"{UNIT_VERIFICATION}::test_leader_epoch_change_before_the_response_makes_the_producer_retry",),
    ),
    Plant(
        "a marker written during the verification invalidates it",
        f"{BROKER}/transaction_verification.py",
        "        return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE\n",
        "        return ErrorCode.NONE\n",
        (f"{UNIT_VERIFICATION}::test_marker_written_before_the_response_invalidates_it",),
    ),
    Plant(
        "a fenced producer gets the error that producers know",
        f"{BROKER}/transaction_verification.py",
        "        return ErrorCode.INVALID_PRODUCER_EPOCH\n",
        "        return code\n",
        (f"{VERIFICATION}::test_rejected_write_gets_an_error_that_clients_know",),
    ),
    Plant(
        "a lost connection to the coordinator does not verify anything",
        f"{BROKER}/verification_requests.py",
        "            return _same_for_all(by_id, ErrorCode.NETWORK_EXCEPTION)\n",
        "            return _same_for_all(by_id, ErrorCode.NONE)\n",
        (f"{VERIFICATION}::test_lost_connection_is_a_network_exception",),
    ),
    Plant(
        "an offset commit that could not be verified says that the coordinator loads",
        "src/odradek/coordinators/append_errors.py",
        "    if code is ErrorCode.NETWORK_EXCEPTION:\n",
        "    if False:\n",
        (f"{VERIFICATION}::test_lost_connection_is_a_network_exception",),
    ),
    Plant(
        "a coordinator that cannot verify does not stop the write",
        f"{BROKER}/verification_requests.py",
        "            return {transactional_id: {} for transactional_id in by_id}\n",
        "            return _same_for_all(by_id, ErrorCode.UNSUPPORTED_VERSION)\n",
        (f"{VERIFICATION}::test_broker_that_cannot_verify_is_not_asked",),
    ),
    Plant(
        "one request to a coordinator is in flight",
        f"{BROKER}/verification_requests.py",
        "        if self._task is None:\n            self._task = asyncio",
        "        if True:\n            self._task = asyncio",
        (f"{VERIFICATION}::test_one_request_at_a_time_carries_all_waiting_transactions",),
    ),
    Plant(
        "a newer epoch fences a verification that waits",
        f"{BROKER}/verification_requests.py",
        "            is_fenced = waiting.command.producer_epoch < command.producer_epoch\n",
        "            is_fenced = False\n",
        (f"{VERIFICATION}::test_of_two_waiting_requests_the_newer_epoch_or_the_later_one_is_sent",),
    ),
    Plant(
        "an older epoch does not replace a verification that waits",
        f"{BROKER}/verification_requests.py",
        "        if waiting is not None and waiting.command.producer_epoch > command.producer_epoch:\n",
        "        if False:\n",
        (f"{VERIFICATION}::test_of_two_waiting_requests_the_newer_epoch_or_the_later_one_is_sent",),
    ),
    Plant(
        "verification asks the coordinator, wherever it is",
        f"{BROKER}/verification_requests.py",
        "        if coordinator_id == self._broker_id:\n",
        "        if True:\n",
        (f"{VERIFICATION}::test_first_write_is_verified_by_the_coordinator_elsewhere",),
    ),
    # Requests about other brokers.
    Plant(
        "a coordinator whose broker is dead is not available",
        f"{BROKER}/coordinator_topic.py",
        "        return None if partition is None else self._metadata_cache.brokers.get(partition.leader)\n",
        "        return None if partition is None else self._metadata_cache.brokers.get(partition.leader) or next(iter(self._metadata_cache.brokers.values()))\n",
        (f"{ACROSS}::test_coordinator_without_a_live_leader_is_not_available",),
    ),
    Plant(
        "the lag of a log without a role is not known",
        "src/odradek/broker/handlers/describe_log_dirs.py",
        "        return UNKNOWN_LAG\n",
        "        return 0\n",
        (f"{ACROSS}::test_log_without_a_role_has_no_known_lag",),
    ),
    Plant(
        "markers are appended by the leader",
        f"{BROKER}/transaction_marker_writer.py",
        "            partition = self._replica_manager.get_leader_partition(*topic_partition)\n",
        "            partition = self._replica_manager.get_partition(*topic_partition)\n            assert partition is not None\n",
        (f"{ACROSS}::test_markers_are_rejected_by_followers_and_other_brokers",),
    ),
]
