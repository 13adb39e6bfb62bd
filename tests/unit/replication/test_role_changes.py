"""Requests of the controller on a replica manager: epochs, topic ids, roles, fetchers, waiting requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from odradek.cluster.metadata_cache import MetadataUpdate
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.replication.delayed.delayed_fetch import DelayedFetch
from odradek.replication.follower import Follower
from odradek.replication.partition import CONSUMER_REPLICA_ID, DEBUGGING_CONSUMER_ID
from odradek.replication.reads.offset_lookup import find_offset_by_timestamp, find_special_offset
from odradek.testing.entropy import SeededEntropy
from odradek.timers import turns
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = b"t" * 16
STALE = ErrorCode.STALE_CONTROLLER_EPOCH


class FetcherRecorder:
    """Keeps the followers that are fetched."""

    def __init__(self) -> None:
        self.followers: dict[TopicPartition, Follower] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}
        self.calls: list[str] = []

    def add_partitions(
        self, partitions: Mapping[TopicPartition, Follower], topic_ids: Mapping[TopicPartition, bytes]
    ) -> None:
        self.calls.append("add")
        self.followers.update(partitions)
        self.topic_ids.update(topic_ids)

    def refresh(self, topic_partition: TopicPartition) -> None: ...

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        removed = list(partitions)
        if removed:
            self.calls.append("remove")
        for topic_partition in removed:
            self.followers.pop(topic_partition, None)


# Controllers.


def test_requests_of_an_outdated_controller_are_rejected(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        replicas, cache = fixture.replicas, fixture.metadata_cache
        await replicas.update_metadata(
            UpdateMetadataRequest(controller_epoch=5, live_brokers=[UpdateMetadataBroker(1)])
        )
        assert replicas.state_changes.controller_epoch == 5
        outdated = LeaderAndIsrRequest(controller_epoch=4)
        assert (await replicas.become_leader_or_follower(outdated)).error == STALE
        assert (await replicas.stop_replicas(StopReplicaRequest(controller_epoch=4))).error == STALE
        assert (await replicas.update_metadata(UpdateMetadataRequest(controller_epoch=4))).error == STALE
        assert list(cache.brokers) == [1]
        assert replicas.state_changes.controller_epoch == 5
        assert fixture.replicas.get_partition(*ORDERS) is partition
        newer = LeaderAndIsrRequest(controller_epoch=6)
        assert (await replicas.become_leader_or_follower(newer)).error == ErrorCode.NONE
        assert (await replicas.stop_replicas(StopReplicaRequest(controller_epoch=7))).error == ErrorCode.NONE
        assert replicas.state_changes.controller_epoch == 7

    run_scenario(scenario)


def test_requests_are_applied_one_after_the_other(run_scenario, leader_and_isr):
    """Creating a log awaits: a later request must not overtake."""

    async def scenario(fixture):
        create = fixture.send_leader_and_isr({ORDERS: leader_and_isr(isr=(1, 2))})
        follow = fixture.send_leader_and_isr({ORDERS: leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2))})
        stop = fixture.stop_replicas(ORDERS)
        results = await asyncio.gather(create, follow, stop)
        assert [result[ORDERS] for result in results] == [ErrorCode.NONE] * 3
        assert fixture.replicas.get_partition(*ORDERS) is None
        assert fixture.directory.log_count == 0

    run_scenario(scenario)


# Requests for many partitions.


def test_many_partitions_change_in_turns(run_scenario, leader_and_isr, monkeypatch):
    monkeypatch.setattr(turns, "TURN_ITEMS", 4)

    async def scenario(fixture):
        fetchers = fixture.replicas.state_changes.fetcher_manager = FetcherRecorder()
        partitions = [TopicPartition("orders", number) for number in range(10)]
        await fixture.send_leader_and_isr({each: leader_and_isr(isr=(1, 2)) for each in partitions})
        following: list[int] = []

        async def watch():
            while len(following) < 100:
                following.append(sum(not partition.is_leader for partition in fixture.replicas))
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        errors = await fixture.send_leader_and_isr(
            {each: leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2)) for each in partitions}
        )
        watching.cancel()
        assert errors == dict.fromkeys(partitions, ErrorCode.NONE)
        assert sorted(set(following)) == [0, 4, 8, 10]
        assert fetchers.followers.keys() == set(partitions)
        assert fetchers.calls.count("add") == 3

    run_scenario(scenario)


def test_directory_that_fails_between_turns(run_scenario, leader_and_isr, monkeypatch):
    """Its other partitions are offline, and get no empty log in another directory."""
    monkeypatch.setattr(turns, "TURN_ITEMS", 4)

    async def scenario(fixture):
        other = LogDirectory.open(fixture.files, "/other", SeededEntropy())
        await other.load(lambda topic: LogConfig(), 0)
        partitions = [TopicPartition("orders", number) for number in range(10)]
        await fixture.send_leader_and_isr({each: leader_and_isr(isr=(1, 2)) for each in partitions})
        fixture.replicas._logs._log_manager._online.append(other)

        def fail_directory(partition):
            if not fixture.directory.failure and partition.leader_epoch == 1:
                fixture.directory.fail(StorageError("the disk is gone"))
                fixture.replicas.handle_log_dir_failure(fixture.directory)

        fixture.replicas.leadership_observers.append(fail_directory)
        errors = await fixture.send_leader_and_isr(
            {each: leader_and_isr(leader_epoch=1, isr=(1, 2), is_new=True) for each in partitions}
        )
        assert errors[partitions[0]] == ErrorCode.NONE
        assert {errors[each] for each in partitions[4:]} == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert other.log_count == 0

    run_scenario(scenario)


# Epochs.


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize("leader_epoch", [4, 5])
def test_older_and_equal_leader_epochs_are_stale(run_scenario, leader_and_isr, leader, leader_epoch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(
            leader_and_isr(leader=leader, leader_epoch=5, isr=(1, 2))
        )
        roles = partition.leader_state, partition.follower_state
        for other in (1, 2):
            state = leader_and_isr(leader=other, leader_epoch=leader_epoch, isr=(1,), partition_epoch=9)
            assert await fixture.send_leader_and_isr({ORDERS: state}) == {ORDERS: STALE}
        assert (partition.leader_state, partition.follower_state) == roles
        assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (leader, 5, 0)

    run_scenario(scenario)


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize("next_leader", [1, 2])
def test_lower_partition_epoch_is_skipped(run_scenario, leader_and_isr, leader, next_leader):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(
            leader_and_isr(leader=leader, leader_epoch=5, isr=(1, 2), partition_epoch=8)
        )
        state = leader_and_isr(leader=next_leader, leader_epoch=6, isr=(1, 2), partition_epoch=7)
        assert await fixture.send_leader_and_isr({ORDERS: state}) == {ORDERS: ErrorCode.NONE}
        assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (leader, 5, 8)
        assert partition.is_leader is (leader == 1)

    run_scenario(scenario)


def test_broker_that_is_not_a_replica_gets_no_log(run_scenario, leader_and_isr):
    async def scenario(fixture):
        errors = await fixture.send_leader_and_isr({ORDERS: leader_and_isr(leader=2, isr=(2, 3))})
        assert errors == {ORDERS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert fixture.directory.log_count == 0

    run_scenario(scenario)


# Topic ids.


def test_another_topic_id_is_inconsistent(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        errors = await fixture.send_leader_and_isr({ORDERS: leader_and_isr(leader_epoch=1)}, b"o" * 16)
        assert errors == {ORDERS: ErrorCode.INCONSISTENT_TOPIC_ID}
        assert (partition.leader_epoch, partition.topic_id) == (0, TOPIC_ID)

    run_scenario(scenario)


@pytest.mark.parametrize("leader", [1, 2])
def test_topic_id_is_assigned_without_a_new_epoch(run_scenario, leader_and_isr, leader):
    async def scenario(fixture):
        fetchers = fixture.replicas.state_changes.fetcher_manager = FetcherRecorder()
        state = leader_and_isr(leader=leader, isr=(1, 2))
        partition = await fixture.make_leader_or_follower(state, topic_id=ZERO_TOPIC_ID)
        assert (partition.topic_id, partition.log.topic_id) == (ZERO_TOPIC_ID, None)
        errors = await fixture.send_leader_and_isr({ORDERS: state}, TOPIC_ID)
        assert errors == {ORDERS: ErrorCode.NONE}
        assert (partition.topic_id, partition.log.topic_id) == (TOPIC_ID, TOPIC_ID)
        assert fetchers.topic_ids == ({} if leader == 1 else {ORDERS: TOPIC_ID})

    run_scenario(scenario)


def test_follower_drops_the_topic_id_for_fetches_only(run_scenario, leader_and_isr):
    async def scenario(fixture):
        fetchers = fixture.replicas.state_changes.fetcher_manager = FetcherRecorder()
        state = leader_and_isr(leader=2, isr=(1, 2))
        partition = await fixture.make_leader_or_follower(state)
        assert fetchers.topic_ids == {ORDERS: TOPIC_ID}
        errors = await fixture.send_leader_and_isr({ORDERS: state}, ZERO_TOPIC_ID)
        assert errors == {ORDERS: ErrorCode.NONE}
        assert fetchers.topic_ids == {ORDERS: ZERO_TOPIC_ID}
        assert (partition.topic_id, partition.log.topic_id) == (TOPIC_ID, TOPIC_ID)

    run_scenario(scenario)


def test_log_keeps_its_topic_id_under_a_controller_without_ids(run_scenario, leader_and_isr):
    async def scenario(fixture):
        await fixture.directory.create(ORDERS, LogConfig(), TOPIC_ID)
        partition = await fixture.make_leader_or_follower(leader_and_isr(), topic_id=ZERO_TOPIC_ID)
        assert partition.topic_id == TOPIC_ID

    run_scenario(scenario)


# Roles.


def test_new_leader_starts_its_epoch_and_forgets_follower_offsets(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        log = await fixture.directory.create(ORDERS, LogConfig(), TOPIC_ID)
        for epoch in (0, 0, 2):
            log.append_as_leader(make_batch(b"x"), epoch, 0)
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=7, isr=(1, 2)))
        assert partition.leader_state.leader_epoch_start_offset == 3
        assert log.epochs.entries[-1] == (7, 3), "before its first record"
        assert partition.leader_state.replica(2).log_end_offset == -1
        partition.advance_high_watermark()
        assert log.high_watermark == 0, "it waits for fetches of this epoch"
        fixture.fetch_as_follower(partition, 2, 2)
        assert log.high_watermark == 2

    run_scenario(scenario)


def test_latest_offset_is_not_available_until_the_epoch_start_is_committed(
    run_scenario, leader_and_isr, make_batch
):
    async def scenario(fixture):
        log = await fixture.directory.create(ORDERS, LogConfig(), TOPIC_ID)
        for _ in range(3):
            log.append_as_leader(make_batch(b"x"), 0, 0)
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=1, isr=(1, 2)))

        def latest(replica_id):
            return find_special_offset(partition, -1, 0, 1, replica_id).offset

        fixture.fetch_as_follower(partition, 2, 2)
        for isolation in (0, 1):
            with pytest.raises(BrokerError, match="OFFSET_NOT_AVAILABLE"):
                find_special_offset(partition, -1, isolation, 1, CONSUMER_REPLICA_ID)
        with pytest.raises(BrokerError, match="OFFSET_NOT_AVAILABLE"):
            await find_offset_by_timestamp(partition, 10**15, 0, -1, CONSUMER_REPLICA_ID)
        assert (await find_offset_by_timestamp(partition, 0, 0, -1, CONSUMER_REPLICA_ID)).offset == 0
        assert find_special_offset(partition, -2, 0, 1, CONSUMER_REPLICA_ID).offset == 0
        assert latest(2) == latest(DEBUGGING_CONSUMER_ID) == 3, "only consumers wait"
        fixture.fetch_as_follower(partition, 2, 3)
        assert latest(CONSUMER_REPLICA_ID) == 3
        partition.append(make_batch(b"y"), ACKS_LEADER, 11, 0)
        assert latest(CONSUMER_REPLICA_ID) == 3, "later records of this epoch need not be committed"

    run_scenario(scenario)


def test_replaced_follower_is_not_active(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader=2, isr=(1, 2, 3)))
        first = partition.follower_state
        assert (first.leader_id, first.leader_epoch, first.is_active) == (2, 0, True)
        await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2, 3), partition_epoch=1)
        )
        second = partition.follower_state
        assert second is not first
        assert (first.is_active, second.is_active, second.leader_epoch) == (False, True, 1)
        await fixture.make_leader_or_follower(
            leader_and_isr(leader_epoch=2, isr=(1, 2, 3), partition_epoch=2)
        )
        assert (partition.follower_state, second.is_active) == (None, False)

    run_scenario(scenario)


def test_fetchers_follow_the_roles(run_scenario, leader_and_isr):
    async def scenario(fixture):
        fetchers = fixture.replicas.state_changes.fetcher_manager = FetcherRecorder()
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader=2, isr=(1, 2)))
        assert fetchers.followers == {ORDERS: partition.follower_state}
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=1, isr=(1, 2)))
        assert fetchers.followers == {ORDERS: partition.follower_state}, "restarted for each epoch"
        assert fetchers.calls == ["add"] * 2
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=2, isr=(1, 2)))
        assert fetchers.followers == {}
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=3, isr=(1, 2)))
        assert await fixture.stop_replicas(ORDERS, leader_epoch=3, delete=False) == {ORDERS: ErrorCode.NONE}
        assert fetchers.followers == {}
        assert fixture.replicas.get_partition(*ORDERS) is partition
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=4, isr=(1, 2)))
        assert list(fetchers.followers) == [ORDERS]
        fixture.replicas.handle_log_dir_failure(fixture.directory)
        assert fetchers.followers == {}

    run_scenario(scenario)


def test_follower_of_an_unknown_leader_creates_its_log_only(run_scenario, leader_and_isr):
    async def scenario(fixture):
        fetchers = fixture.replicas.state_changes.fetcher_manager = FetcherRecorder()
        fixture.metadata_cache.apply(MetadataUpdate(brokers={2: None}))
        state = leader_and_isr(leader=2, leader_epoch=3, isr=(1, 2))
        assert await fixture.send_leader_and_isr({ORDERS: state}) == {ORDERS: ErrorCode.NONE}
        partition = fixture.replicas.get_partition(*ORDERS)
        assert fixture.directory.get(ORDERS) is partition.log
        assert (partition.leader_epoch, partition.follower_state, fetchers.followers) == (-1, None, {})

    run_scenario(scenario)


def test_waiting_requests_complete_at_a_role_change(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        responses: list[str] = []
        delayed = DelayedFetch(lambda: not partition.is_leader, lambda: responses.append("fetch"))
        fixture.replicas.delay_fetch(delayed, [partition], 60_000)
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=1, isr=(1, 2)))
        assert responses == []
        await fixture.make_leader_or_follower(leader_and_isr(leader=2, leader_epoch=2, isr=(1, 2)))
        assert responses == ["fetch"]

    run_scenario(scenario)


def test_new_leader_commits_its_unflushed_records_after_a_flush(run_scenario, leader_and_isr, make_batch):
    """With flush.messages=1 nothing is committed that a crash of this broker could take back."""

    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(flush_messages=1), 1)
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader=2, isr=(1, 2)))
        partition.follower_state.append(make_batch(b"a", b"b"), 0, 0, fixture.clock.now_ms)
        assert partition.log.recovery_point == 0
        at_change = []
        fixture.replicas.leadership_observers.append(lambda changed: at_change.append(changed.high_watermark))
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=1, partition_epoch=1))
        assert at_change == [0], "not flushed yet"
        await fixture.replicas.drain_flushes()
        assert (partition.log.recovery_point, partition.high_watermark) == (2, 2)
        assert not partition.is_flush_pending

    run_scenario(scenario)


# UpdateMetadata of a partition that was reassigned.


def reassigned(replicas: list[int], leader_epoch: int, topic_id: bytes = TOPIC_ID) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(
        partition_index=0, leader=2, leader_epoch=leader_epoch, isr=[2, 3], replicas=replicas
    )
    return UpdateMetadataRequest(
        controller_epoch=1, topic_states=[UpdateMetadataTopicState(ORDERS.topic, topic_id, [state])]
    )


def test_leader_that_was_reassigned_away_without_stop_replica_resigns(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5, isr=(1, 2)))
        responses: list[str] = []
        delayed = DelayedFetch(lambda: not partition.is_leader, lambda: responses.append("fetch"))
        fixture.replicas.delay_fetch(delayed, [partition], 60_000)
        await fixture.replicas.update_metadata(reassigned([2, 3], leader_epoch=6))
        assert (partition.is_leader, partition.leader_state, responses) == (False, None, ["fetch"])
        assert fixture.directory.get(ORDERS) is not None
        await fixture.send_leader_and_isr({ORDERS: leader_and_isr(leader_epoch=7, isr=(1, 2))})
        assert partition.is_leader, "reassigned back"

    run_scenario(scenario)


@pytest.mark.parametrize(
    "update",
    [
        reassigned([2, 3], leader_epoch=5),
        reassigned([1, 2, 3], leader_epoch=6),
        reassigned([2, 3], leader_epoch=6, topic_id=b"o" * 16),
    ],
    ids=["same epoch", "still a replica", "another topic"],
)
def test_leader_that_may_still_be_one_does_not_resign(run_scenario, leader_and_isr, update):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5, isr=(1, 2)))
        await fixture.replicas.update_metadata(update)
        assert partition.is_leader

    run_scenario(scenario)


# StopReplica.


@pytest.mark.parametrize("delete", [False, True])
def test_stop_replica_is_fenced_by_leader_epoch(run_scenario, leader_and_isr, delete):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5))
        errors = await fixture.stop_replicas(ORDERS, leader_epoch=4, delete=delete)
        assert errors == {ORDERS: ErrorCode.FENCED_LEADER_EPOCH}
        assert fixture.replicas.get_leader_partition(*ORDERS) is partition
        errors = await fixture.stop_replicas(ORDERS, leader_epoch=5, delete=delete)
        assert errors == {ORDERS: ErrorCode.NONE}
        assert (fixture.directory.get(ORDERS) is None) is delete
        assert (fixture.replicas.get_partition(*ORDERS) is None) is delete

    run_scenario(scenario)


def test_stop_replica_checks_waiting_requests(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        checks: list[int] = []

        def check() -> bool:
            checks.append(1)
            return False

        delayed = DelayedFetch(check, lambda: None)
        fixture.replicas.delay_fetch(delayed, [partition], 60_000)
        assert len(checks) == 1
        await fixture.stop_replicas(ORDERS, delete=False)
        assert len(checks) == 2

    run_scenario(scenario)


@pytest.mark.parametrize("leader_epoch", [-1, -2])
def test_stop_replica_without_an_epoch_always_applies(run_scenario, leader_and_isr, leader_epoch):
    async def scenario(fixture):
        await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=5))
        assert await fixture.stop_replicas(ORDERS, leader_epoch=leader_epoch) == {ORDERS: ErrorCode.NONE}
        assert fixture.directory.get(ORDERS) is None

    run_scenario(scenario)


def test_log_without_a_partition_is_deleted(run_scenario):
    async def scenario(fixture):
        await fixture.directory.create(ORDERS, LogConfig(), TOPIC_ID)
        assert await fixture.stop_replicas(ORDERS, delete=False) == {ORDERS: ErrorCode.NONE}
        assert fixture.directory.get(ORDERS) is not None
        assert await fixture.stop_replicas(ORDERS) == {ORDERS: ErrorCode.NONE}
        assert fixture.directory.get(ORDERS) is None

    run_scenario(scenario)
