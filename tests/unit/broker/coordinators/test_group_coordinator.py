"""Groups in a whole broker: the topic they live in, who coordinates them, and what restarts leave of them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from odradek.broker.coordinators.group_coordinator import Groups
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
SMALL = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "5"}
ORDERS = TopicPartition("orders", 0)


class Town:
    def __init__(self, cluster: MemoryCluster, memory: MemoryBroker, client: Client) -> None:
        self.cluster, self.memory, self.client = cluster, memory, client
        self.broker = memory.broker
        self.groups: Groups = memory.broker._groups

    def coordinator(self, group: str = "g", listener: str = "PLAINTEXT") -> Any:
        try:
            node, endpoint = self.groups.coordinator_of(group, listener)
        except BrokerError as refused:
            return refused.code
        return node.id, endpoint.host, endpoint.port

    async def settle(self) -> None:
        """Have the topic, and all of it loaded."""
        while self.coordinator() is ErrorCode.COORDINATOR_NOT_AVAILABLE or self.groups.is_loading:
            await self.cluster.clock.sleep_ms(5)

    def ask(self, group: str, command: Any) -> list[Any]:
        answers: list[Any] = []
        self.groups.submit(group, command, answers.append)
        return answers

    def commit(self, group: str, offset: int, partition: TopicPartition = ORDERS) -> list[Any]:
        committed = OffsetAndMetadata(offset, -1, "", self.cluster.clock.wall_ms())
        return self.ask(group, CommitOffsets(group, -1, "", None, {partition: committed}))

    def committed(self, group: str, partition: TopicPartition = ORDERS) -> int:
        code, found = self.groups.shard_of(group).fetch_offsets(group, None, False)
        assert code is ErrorCode.NONE
        return found[partition].offset if partition in found else -1


Scenario = Callable[[Town], Awaitable[None]]


def play(*scenarios: Scenario, settings: Mapping[str, str] = SMALL, kills: bool = False) -> None:
    """Run scenarios, each in another life of the broker on the same files."""

    async def main() -> None:
        cluster = MemoryCluster()
        try:
            for scenario in scenarios:
                memory = await cluster.start(settings)
                try:
                    await scenario(Town(cluster, memory, await memory.connect()))
                finally:
                    await (memory.kill() if kills else memory.stop())
        finally:
            await cluster.close()

    run_virtually(main)


def test_the_offsets_topic_is_made_when_a_coordinator_is_first_asked_for() -> None:
    async def scenario(town: Town) -> None:
        assert town.broker.image.topic(OFFSETS_TOPIC) is None
        assert town.coordinator() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await town.settle()
        topic = town.broker.image.topic(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 5
        assert town.coordinator() == (town.broker.broker_id, "broker", 9092)
        assert town.coordinator(listener="ELSEWHERE") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log = town.broker._replicas.get_leader_partition(OFFSETS_TOPIC, 0).log
        assert log.config.cleanup_policy == ("compact",)

    play(scenario)


def test_with_too_few_brokers_for_its_replicas_it_is_not_made() -> None:
    async def scenario(town: Town) -> None:
        for _ in range(5):
            assert town.coordinator() is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await town.cluster.clock.sleep_ms(100)
        assert town.broker.image.topic(OFFSETS_TOPIC) is None

    play(scenario, settings={})


def test_it_is_made_though_clients_may_not_create_topics() -> None:
    async def scenario(town: Town) -> None:
        await town.settle()
        assert town.coordinator() != ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario, settings={**SMALL, "auto.create.topics.enable": "false"})


def test_a_client_that_asks_for_the_topic_has_it_made_the_same_way() -> None:
    async def scenario(town: Town) -> None:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
        answer = await town.client.request(METADATA, 12, asked)
        assert (len(answer.topics[0].partitions), answer.topics[0].is_internal) == (5, True)
        await town.settle()
        assert town.ask("g", Heartbeat("g", 1, "m", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]

    play(scenario)


def test_before_the_topic_is_there_no_group_is_coordinated_here() -> None:
    async def scenario(town: Town) -> None:
        for call in (lambda: town.commit("g", 1), lambda: town.groups.shard_of("g")):
            with pytest.raises(BrokerError) as refused:
                call()
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert town.groups.shards() == []
        assert town.groups.partition_of("g") == partition_of("g", 5)

    play(scenario)


@pytest.mark.parametrize("kills", [False, True])
def test_committed_offsets_survive_the_broker(kills: bool) -> None:
    async def first(town: Town) -> None:
        await town.settle()
        for group in ("g", "h"):
            assert town.commit(group, 7) == [CommitOffsetsResult({ORDERS: ErrorCode.NONE})]
            assert town.commit(group, 42) == [CommitOffsetsResult({ORDERS: ErrorCode.NONE})]
        assert town.committed("g") == 42
        if kills:
            for partition in town.broker._replicas:
                await partition.log.flush()

    async def second(town: Town) -> None:
        await town.settle()
        assert (town.committed("g"), town.committed("h"), town.committed("none")) == (42, 42, -1)

    play(first, second, kills=kills)


def test_offsets_in_a_deleted_topic_go_with_it() -> None:
    async def scenario(town: Town) -> None:
        await town.settle()
        wishes = [CreatableTopic(name, 1, 1, [], []) for name in ("orders", "letters")]
        await town.client.request(CREATE_TOPICS, 7, CreateTopicsRequest(wishes))
        letters = TopicPartition("letters", 0)
        for group in ("g", "h"):
            town.commit(group, 7)
            town.commit(group, 8, letters)
        gone = DeleteTopicsRequest([DeleteTopicState("orders")], [], 30_000)
        await town.client.request(DELETE_TOPICS, 6, gone)
        for group in ("g", "h"):
            assert (town.committed(group), town.committed(group, letters)) == (-1, 8)

    async def after(town: Town) -> None:
        await town.settle()
        assert (town.committed("g"), town.committed("g", TopicPartition("letters", 0))) == (-1, 8)

    play(scenario, after)


def test_old_offsets_go_and_do_not_come_back() -> None:
    retention = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "10000"}

    async def scenario(town: Town) -> None:
        await town.settle()
        town.commit("g", 7)
        town.commit("h", 8)
        await town.cluster.clock.sleep_ms(40_000)
        assert town.commit("h", 9) == [CommitOffsetsResult({ORDERS: ErrorCode.NONE})]
        assert town.committed("g") == 7
        await town.cluster.clock.sleep_ms(31_000)
        assert (town.committed("g"), town.committed("h")) == (-1, 9)

    async def after(town: Town) -> None:
        await town.settle()
        assert (town.committed("g"), town.committed("h")) == (-1, 9)
        assert town.groups.shard_of("g").describe("g").state == "Dead"

    play(scenario, after, settings={**SMALL, **retention})


def test_a_deleted_group_does_not_come_back() -> None:
    async def scenario(town: Town) -> None:
        await town.settle()
        town.commit("g", 7)
        assert town.ask("g", DeleteGroup("g")) == [ErrorCode.NONE]
        assert town.ask("g", DeleteGroup("g")) == [ErrorCode.GROUP_ID_NOT_FOUND]

    async def after(town: Town) -> None:
        await town.settle()
        assert town.committed("g") == -1
        assert town.ask("g", DeleteGroup("g")) == [ErrorCode.GROUP_ID_NOT_FOUND]

    play(scenario, after)


def test_deleting_the_offsets_topic_ends_its_groups_and_it_can_be_made_anew() -> None:
    async def scenario(town: Town) -> None:
        await town.settle()
        town.commit("g", 7)
        gone = DeleteTopicsRequest([DeleteTopicState(OFFSETS_TOPIC)], [], 30_000)
        await town.client.request(DELETE_TOPICS, 6, gone)
        assert town.groups.shards() == []
        await town.settle()
        assert len(town.groups.shards()) == 5
        assert town.committed("g") == -1

    play(scenario)


def test_each_group_is_in_one_partition_and_those_spread() -> None:
    async def scenario(town: Town) -> None:
        await town.settle()
        numbers = {town.groups.partition_of(f"group-{number}") for number in range(50)}
        assert numbers == set(range(5))
        assert len({id(town.groups.shard_of(f"group-{number}")) for number in range(50)}) == 5
        assert len(town.groups.shards()) == 5

    play(scenario)


def joining(member: str = "") -> JoinGroup:
    protocols = (("range", b"what I read"),)
    return JoinGroup(
        "g", member, None, "app", "/10.0.0.1", 10_000, 60_000, "consumer", protocols, False, False
    )


async def joined(town: Town) -> JoinGroupResult:
    await town.settle()
    answers = town.ask("g", joining())
    while not answers:
        await town.cluster.clock.sleep_ms(100)
    answer = answers[0]
    assert isinstance(answer, JoinGroupResult)
    assert answer.error is ErrorCode.NONE
    return answer


@pytest.mark.parametrize("kills", [False, True])
def test_a_settled_group_goes_on_where_it_was_when_the_broker_comes_back(kills: bool) -> None:
    member = ""

    def beats(town: Town, generation: int) -> list[Any]:
        return town.ask("g", Heartbeat("g", generation, member, None))

    async def first(town: Town) -> None:
        nonlocal member
        answer = await joined(town)
        member = answer.member
        assert re.fullmatch(r"app-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", member)
        town.ask("g", SyncGroup("g", 1, member, None, "consumer", "range", {member: b"all of it"}))
        assert beats(town, 1) == [ErrorCode.NONE]
        for partition in town.broker._replicas:
            await partition.log.flush()

    async def second(town: Town) -> None:
        await town.settle()
        assert beats(town, 1) == [ErrorCode.NONE]
        assert beats(town, 0) == [ErrorCode.ILLEGAL_GENERATION]
        synced = town.ask("g", SyncGroup("g", 1, member, None, "consumer", "range", {}))
        assert synced[0].assignment == b"all of it"
        await town.cluster.clock.sleep_ms(10_001)
        assert beats(town, 1) == [ErrorCode.UNKNOWN_MEMBER_ID]

    play(first, second, kills=kills)


def test_who_waits_for_a_group_when_the_broker_stops_is_answered() -> None:
    answers: list[Any] = []

    async def scenario(town: Town) -> None:
        await town.settle()
        town.groups.submit("g", joining(), answers.append)
        assert answers == []

    play(scenario)
    assert [answer.error for answer in answers] == [ErrorCode.NOT_COORDINATOR]
