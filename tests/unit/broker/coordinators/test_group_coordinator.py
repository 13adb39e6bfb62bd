"""Group coordinator in a whole broker: offsets topic, coordinator lookup, restarts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from odradek.broker.coordinators.group_coordinator import GroupCoordinator
from odradek.coordinators.groups.commands import (
    CommitOffsets,
    CommitOffsetsResult,
    DeleteGroup,
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    OffsetAndMetadata,
    SyncGroup,
)
from odradek.coordinators.partitioning import partition_of
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.testing.broker import Client, MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA, CREATE_TOPICS, DELETE_TOPICS = 3, 19, 20
SINGLE_REPLICA = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "5"}
ORDERS = TopicPartition("orders", 0)


class BrokerHarness:
    def __init__(self, cluster: MemoryCluster, memory_broker: MemoryBroker, client: Client) -> None:
        self.cluster, self.memory_broker, self.client = cluster, memory_broker, client
        self.broker = memory_broker.broker
        self.group_coordinator: GroupCoordinator = memory_broker.broker._group_coordinator

    def coordinator(self, group: str = "g", listener: str = "PLAINTEXT") -> Any:
        try:
            node, endpoint = self.group_coordinator.coordinator_of(group, listener)
        except BrokerError as error:
            return error.code
        return node.id, endpoint.host, endpoint.port

    async def create_offsets_topic(self) -> None:
        """Create the offsets topic and wait until it is loaded."""
        while self.coordinator() is ErrorCode.COORDINATOR_NOT_AVAILABLE or self.group_coordinator.is_loading:
            await self.cluster.clock.sleep_ms(5)

    def request(self, group: str, command: Any) -> list[Any]:
        responses: list[Any] = []
        self.group_coordinator.submit(group, command, responses.append)
        return responses

    def commit(self, group: str, offset: int, partition: TopicPartition = ORDERS) -> list[Any]:
        committed = OffsetAndMetadata(offset, -1, "", self.cluster.clock.wall_ms())
        return self.request(group, CommitOffsets(group, -1, "", None, {partition: committed}))

    def committed(self, group: str, partition: TopicPartition = ORDERS) -> int:
        code, result = self.group_coordinator.shard_of(group).fetch_offsets(group, None, False)
        assert code is ErrorCode.NONE
        return result[partition].offset if partition in result else -1


Scenario = Callable[[BrokerHarness], Awaitable[None]]


def run_scenario(
    *scenarios: Scenario, settings: Mapping[str, str] = SINGLE_REPLICA, kill: bool = False
) -> None:
    """Run scenarios, each after a restart of the broker on the same files."""

    async def main() -> None:
        cluster = MemoryCluster()
        try:
            for scenario in scenarios:
                memory_broker = await cluster.start(settings)
                try:
                    await scenario(BrokerHarness(cluster, memory_broker, await memory_broker.connect()))
                finally:
                    await (memory_broker.kill() if kill else memory_broker.stop())
        finally:
            await cluster.close()

    run_virtually(main)


def test_offsets_topic_is_created_by_the_first_find_coordinator() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        assert harness.broker.metadata_cache.topic(OFFSETS_TOPIC) is None
        assert harness.coordinator() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await harness.create_offsets_topic()
        topic = harness.broker.metadata_cache.topic(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 5
        assert harness.coordinator() == (harness.broker.broker_id, "broker", 9092)
        assert harness.coordinator(listener="ELSEWHERE") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log = harness.broker._replica_manager.get_leader_partition(OFFSETS_TOPIC, 0).log
        assert log.config.cleanup_policy == ("compact",)

    run_scenario(scenario)


def test_offsets_topic_is_not_created_with_too_few_brokers() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        for _ in range(5):
            assert harness.coordinator() is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await harness.cluster.clock.sleep_ms(100)
        assert harness.broker.metadata_cache.topic(OFFSETS_TOPIC) is None

    run_scenario(scenario, settings={})


def test_offsets_topic_is_created_with_auto_creation_disabled() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        assert harness.coordinator() != ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_scenario(scenario, settings={**SINGLE_REPLICA, "auto.create.topics.enable": "false"})


def test_metadata_request_creates_the_offsets_topic_with_its_own_settings() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        requested = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
        response = await harness.client.request(METADATA, 12, requested)
        assert (len(response.topics[0].partitions), response.topics[0].is_internal) == (5, True)
        await harness.create_offsets_topic()
        assert harness.request("g", Heartbeat("g", 1, "m", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]

    run_scenario(scenario)


def test_groups_have_no_coordinator_before_the_offsets_topic_exists() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        for call in (lambda: harness.commit("g", 1), lambda: harness.group_coordinator.shard_of("g")):
            with pytest.raises(BrokerError) as error:
                call()
            assert error.value.code is ErrorCode.NOT_COORDINATOR
        assert harness.group_coordinator.shards() == []
        assert harness.group_coordinator.partition_of("g") == partition_of("g", 5)

    run_scenario(scenario)


@pytest.mark.parametrize("kill", [False, True])
def test_committed_offsets_survive_a_broker_restart(kill: bool) -> None:
    async def first(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        for group in ("g", "h"):
            assert harness.commit(group, 7) == [CommitOffsetsResult({ORDERS: ErrorCode.NONE})]
            assert harness.commit(group, 42) == [CommitOffsetsResult({ORDERS: ErrorCode.NONE})]
        assert harness.committed("g") == 42
        if kill:
            for partition in harness.broker._replica_manager:
                await partition.log.flush()

    async def second(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        assert (harness.committed("g"), harness.committed("h"), harness.committed("none")) == (42, 42, -1)

    run_scenario(first, second, kill=kill)


def test_deleting_a_topic_deletes_its_committed_offsets() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        new_topics = [CreatableTopic(name, 1, 1, [], []) for name in ("orders", "letters")]
        await harness.client.request(CREATE_TOPICS, 7, CreateTopicsRequest(new_topics))
        letters = TopicPartition("letters", 0)
        for group in ("g", "h"):
            harness.commit(group, 7)
            harness.commit(group, 8, letters)
        deletion = DeleteTopicsRequest([DeleteTopicState("orders")], [], 30_000)
        await harness.client.request(DELETE_TOPICS, 6, deletion)
        for group in ("g", "h"):
            assert (harness.committed(group), harness.committed(group, letters)) == (-1, 8)

    async def after(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        assert (harness.committed("g"), harness.committed("g", TopicPartition("letters", 0))) == (-1, 8)

    run_scenario(scenario, after)


def test_expired_offsets_stay_deleted_after_a_restart() -> None:
    retention = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "10000"}

    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        harness.commit("g", 7)
        harness.commit("h", 8)
        await harness.cluster.clock.sleep_ms(40_000)
        assert harness.commit("h", 9) == [CommitOffsetsResult({ORDERS: ErrorCode.NONE})]
        assert harness.committed("g") == 7
        await harness.cluster.clock.sleep_ms(31_000)
        assert (harness.committed("g"), harness.committed("h")) == (-1, 9)

    async def after(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        assert (harness.committed("g"), harness.committed("h")) == (-1, 9)
        assert harness.group_coordinator.shard_of("g").describe("g").state == "Dead"

    run_scenario(scenario, after, settings={**SINGLE_REPLICA, **retention})


def test_deleted_group_stays_deleted_after_a_restart() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        harness.commit("g", 7)
        assert harness.request("g", DeleteGroup("g")) == [ErrorCode.NONE]
        assert harness.request("g", DeleteGroup("g")) == [ErrorCode.GROUP_ID_NOT_FOUND]

    async def after(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        assert harness.committed("g") == -1
        assert harness.request("g", DeleteGroup("g")) == [ErrorCode.GROUP_ID_NOT_FOUND]

    run_scenario(scenario, after)


def test_deleting_the_offsets_topic_removes_its_groups_and_it_can_be_recreated() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        harness.commit("g", 7)
        deletion = DeleteTopicsRequest([DeleteTopicState(OFFSETS_TOPIC)], [], 30_000)
        await harness.client.request(DELETE_TOPICS, 6, deletion)
        assert harness.group_coordinator.shards() == []
        await harness.create_offsets_topic()
        assert len(harness.group_coordinator.shards()) == 5
        assert harness.committed("g") == -1

    run_scenario(scenario)


def test_groups_are_spread_over_the_offsets_partitions() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        numbers = {harness.group_coordinator.partition_of(f"group-{number}") for number in range(50)}
        assert numbers == set(range(5))
        assert len({id(harness.group_coordinator.shard_of(f"group-{number}")) for number in range(50)}) == 5
        assert len(harness.group_coordinator.shards()) == 5

    run_scenario(scenario)


def joining(member: str = "") -> JoinGroup:
    protocols = (("range", b"what I read"),)
    return JoinGroup(
        "g", member, None, "app", "/10.0.0.1", 10_000, 60_000, "consumer", protocols, False, False
    )


async def joined(harness: BrokerHarness) -> JoinGroupResult:
    await harness.create_offsets_topic()
    responses = harness.request("g", joining())
    while not responses:
        await harness.cluster.clock.sleep_ms(100)
    response = responses[0]
    assert isinstance(response, JoinGroupResult)
    assert response.error is ErrorCode.NONE
    return response


@pytest.mark.parametrize("kill", [False, True])
def test_stable_group_keeps_its_generation_after_a_broker_restart(kill: bool) -> None:
    member = ""

    def beats(harness: BrokerHarness, generation: int) -> list[Any]:
        return harness.request("g", Heartbeat("g", generation, member, None))

    async def first(harness: BrokerHarness) -> None:
        nonlocal member
        response = await joined(harness)
        member = response.member_id
        assert re.fullmatch(r"app-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", member)
        harness.request("g", SyncGroup("g", 1, member, None, "consumer", "range", {member: b"all of it"}))
        assert beats(harness, 1) == [ErrorCode.NONE]
        for partition in harness.broker._replica_manager:
            await partition.log.flush()

    async def second(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        assert beats(harness, 1) == [ErrorCode.NONE]
        assert beats(harness, 0) == [ErrorCode.ILLEGAL_GENERATION]
        synced = harness.request("g", SyncGroup("g", 1, member, None, "consumer", "range", {}))
        assert synced[0].assignment == b"all of it"
        await harness.cluster.clock.sleep_ms(10_001)
        assert beats(harness, 1) == [ErrorCode.UNKNOWN_MEMBER_ID]

    run_scenario(first, second, kill=kill)


def test_broker_stop_completes_requests_waiting_for_a_group() -> None:
    responses: list[Any] = []

    async def scenario(harness: BrokerHarness) -> None:
        await harness.create_offsets_topic()
        harness.group_coordinator.submit("g", joining(), responses.append)
        assert responses == []

    run_scenario(scenario)
    assert [response.error for response in responses] == [ErrorCode.NOT_COORDINATOR]
