"""Calls find the right broker in the end: moves, lost connections, brokers of old versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.client.admin.api_driver import AdminApiDriver
from odradek.client.admin.group_offsets import GroupOffsetsApi
from odradek.client.admin.offsets import OffsetsApi, OffsetSpec
from odradek.client.admin.topics import NewTopic, TopicsApi
from odradek.client.admin.transactions import TransactionsApi
from odradek.client.environment import ClientEnvironment
from odradek.client.network.metadata import ClusterMetadata
from odradek.client.network.node_selection import ANY_NODE, CONTROLLER
from odradek.client.options.parsing import read_options
from odradek.client.values import Node, OffsetAndMetadata
from odradek.config.client import ADMIN
from odradek.model.client_errors import ConnectionFailed, PartialFailure, TimedOut, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.net.api_versions import RequestBuilder, api_of_request
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from odradek.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdResponse
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NODES = {1: Node(1, "one", 9092), 2: Node(2, "two", 9092)}


class FakeCluster:
    """Brokers whose answers a test writes: ``answers[API name]`` takes the node, the request, its version."""

    def __init__(
        self, answers: dict[str, Callable[..., Any]], versions: dict[str, int] | None = None
    ) -> None:
        self._answers = answers
        self._versions = versions or {}
        self.asked: list[tuple[str, int]] = []
        self.metadata = ClusterMetadata(1, "id", 1, NODES, {})

    async def start(self) -> None:
        pass

    def request_update(self) -> int:
        return self.metadata.version

    async def await_update(self, beyond: int, timeout_ms: int) -> ClusterMetadata:
        self.metadata = self.metadata._replace(version=beyond + 1)
        return self.metadata

    async def send(self, node_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        kind = request.request if isinstance(request, RequestBuilder) else type(request)
        name = api_of_request(kind).name
        version = self._versions.get(name, kind.VERSIONS[-1])
        message = request.build(version) if isinstance(request, RequestBuilder) else request
        self.asked.append((name, node_id))
        answer = self._answers[name](node_id, message)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Fake(TopicsApi, GroupOffsetsApi, OffsetsApi, TransactionsApi):
    """The areas under test on a fake cluster."""

    def __init__(self, cluster: FakeCluster, **options: Any) -> None:
        settings = read_options(ADMIN, {"bootstrap.servers": "one:9092"}, options)
        clock = VirtualClock(asyncio.get_running_loop())
        world = ClientEnvironment(clock, SeededEntropy(1), lambda *_: None)  # type: ignore[arg-type,return-value]
        self._driver = AdminApiDriver(cluster, settings, world)  # type: ignore[arg-type]


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    run_virtually(scenario)


def created(code: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult("a", error_code=code)])


def test_the_controller_is_asked_again_after_it_moved() -> None:
    async def scenario() -> None:
        codes = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE])
        cluster = FakeCluster({"CreateTopics": lambda node, message: created(next(codes))})
        made = await Fake(cluster).create_topics([NewTopic("a", 1, 1)])
        assert list(made) == ["a"]
        assert cluster.asked == [("CreateTopics", CONTROLLER)] * 3
        assert cluster.metadata.version == 3, "the cluster is learned anew before each new try"

    play(scenario)


def test_only_what_is_open_is_asked_again() -> None:
    async def scenario() -> None:
        asked = []

        def answer(node: int, message: Any) -> CreateTopicsResponse:
            names = [one.name for one in message.topics]
            asked.append(names)
            codes = {"a": 0, "b": 0 if len(asked) > 1 else ErrorCode.THROTTLING_QUOTA_EXCEEDED}
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name, error_code=codes[name]) for name in names]
            )

        await Fake(FakeCluster({"CreateTopics": answer})).create_topics(["a", "b"])
        assert asked == [["a", "b"], ["b"]]

    play(scenario)


def test_a_call_gives_up_when_its_time_is_over_and_says_what_was_last() -> None:
    async def scenario() -> None:
        cluster = FakeCluster({"CreateTopics": lambda node, message: ConnectionFailed("refused")})
        clock = asyncio.get_running_loop()
        begun = clock.time()
        with pytest.raises(TimedOut, match=r"topic a: not done within .* ms; the last try: refused"):
            await Fake(cluster).create_topics(["a"], timeout_s=7)
        assert 5 < clock.time() - begun <= 7

    play(scenario)


def test_retries_bound_the_number_of_tries() -> None:
    async def scenario() -> None:
        cluster = FakeCluster({"CreateTopics": lambda node, message: created(ErrorCode.NOT_CONTROLLER)})
        with pytest.raises(PartialFailure, match="NOT_CONTROLLER"):
            await Fake(cluster, retries=2).create_topics(["a"])
        assert len(cluster.asked) == 3

    play(scenario)


def led_by(*leaders: int) -> Callable[[int, Any], MetadataResponse]:
    """Metadata of topic t: partition 0 has these leaders, one after the other."""
    left = list(leaders)

    def answer(node: int, message: Any) -> MetadataResponse:
        leader = left.pop(0) if len(left) > 1 else left[0]
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader)
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])

    return answer


def test_a_leader_is_found_again_after_it_moved() -> None:
    async def scenario() -> None:
        def offsets(node: int, message: Any) -> ListOffsetsResponse:
            code = ErrorCode.NONE if node == 2 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            entry = ListOffsetsPartitionResponse(0, code, offset=5)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [entry])])

        cluster = FakeCluster({"Metadata": led_by(1, -1, 2), "ListOffsets": offsets})
        found = await Fake(cluster).list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST})
        assert found[TopicPartition("t", 0)].offset == 5
        assert [node for name, node in cluster.asked if name == "ListOffsets"] == [1, 2]

    play(scenario)


def test_an_old_broker_is_not_asked_for_the_largest_timestamp_it_would_misread() -> None:
    async def scenario() -> None:
        def offsets(node: int, message: Any) -> ListOffsetsResponse:
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        "t", [ListOffsetsPartitionResponse(one.partition_index, offset=5)]
                    )
                    for one in message.topics[0].partitions
                ]
            )

        cluster = FakeCluster({"Metadata": led_by(1), "ListOffsets": offsets}, {"ListOffsets": 6})
        with pytest.raises(UnsupportedVersion, match="partition t-0: the broker is too old"):
            await Fake(cluster).list_offsets({TopicPartition("t", 0): OffsetSpec.MAX_TIMESTAMP})
        assert ("ListOffsets", 1) not in cluster.asked

    play(scenario)


def group_answer(node: int, message: Any) -> OffsetFetchResponse:
    """OffsetsApi as a broker of the request's version tells them."""
    if message.groups:
        entry = OffsetFetchResponsePartitions(0, 7, metadata="")
        topics = [OffsetFetchResponseTopics("t", [entry])]
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(one.group_id, topics) for one in message.groups]
        )
    return OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic("t", [OffsetFetchResponsePartition(0, 7, metadata="")])]
    )


def coordinators(node: int, message: Any) -> FindCoordinatorResponse:
    if message.coordinator_keys:
        found = [Coordinator(key, 1 + index % 2) for index, key in enumerate(message.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    return FindCoordinatorResponse(node_id=2)


def test_many_groups_are_found_with_one_question_and_asked_once_per_coordinator() -> None:
    async def scenario() -> None:
        cluster = FakeCluster({"FindCoordinator": coordinators, "OffsetFetch": group_answer})
        found = await Fake(cluster).list_offsets_of_groups(dict.fromkeys("abcd"))
        assert found == {group: {TopicPartition("t", 0): OffsetAndMetadata(7)} for group in "abcd"}
        assert sorted(cluster.asked) == [
            ("FindCoordinator", ANY_NODE),
            ("OffsetFetch", 1),
            ("OffsetFetch", 2),
        ]

    play(scenario)


def test_old_brokers_are_asked_about_one_group_at_a_time() -> None:
    async def scenario() -> None:
        old = {"FindCoordinator": 3, "OffsetFetch": 7}
        cluster = FakeCluster({"FindCoordinator": coordinators, "OffsetFetch": group_answer}, old)
        found = await Fake(cluster).list_offsets_of_groups(dict.fromkeys("abc"))
        assert found == {group: {TopicPartition("t", 0): OffsetAndMetadata(7)} for group in "abc"}
        assert cluster.asked == [("FindCoordinator", ANY_NODE)] * 3 + [("OffsetFetch", 2)] * 3

    play(scenario)


@pytest.mark.parametrize("version", [3, 5, 6])
def test_topics_are_deleted_by_name_in_every_version(version: int) -> None:
    async def scenario() -> None:
        def answer(node: int, message: Any) -> DeleteTopicsResponse:
            names = [one.name for one in message.topics] if version >= 6 else message.topic_names
            return DeleteTopicsResponse(responses=[DeletableTopicResult(name) for name in names])

        await Fake(FakeCluster({"DeleteTopics": answer}, {"DeleteTopics": version})).delete_topics(["a", "b"])

    play(scenario)


def test_producers_are_fenced_one_by_one() -> None:
    async def scenario() -> None:
        cluster = FakeCluster(
            {
                "FindCoordinator": coordinators,
                "InitProducerId": lambda node, message: InitProducerIdResponse(
                    producer_id=ord(message.transactional_id), producer_epoch=3
                ),
            }
        )
        fenced = await Fake(cluster).fence_producers(["a", "b", "c"])
        assert {name: one.producer_id for name, one in fenced.items()} == {"a": 97, "b": 98, "c": 99}

    play(scenario)
