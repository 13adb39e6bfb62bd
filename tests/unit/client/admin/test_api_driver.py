"""Retries and lookups of admin calls: moved brokers, lost connections, old brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


class FakeNetworkClient:
    """Brokers with scripted responses: ``responses[API name]`` gets the node and the request."""

    def __init__(
        self, responses: dict[str, Callable[..., Any]], versions: dict[str, int] | None = None
    ) -> None:
        self._responses = responses
        self._versions = versions or {}
        self.sent: list[tuple[str, int]] = []
        self.metadata = ClusterMetadata(1, "id", 1, NODES, {})

    async def start(self) -> None:
        pass

    def request_update(self) -> int:
        return self.metadata.version

    async def await_update(self, last_version: int, timeout_ms: int) -> ClusterMetadata:
        self.metadata = self.metadata._replace(version=last_version + 1)
        return self.metadata

    async def send(self, node_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        kind: Any = request.request if isinstance(request, RequestBuilder) else type(request)
        name = api_of_request(kind).name
        version = self._versions.get(name, kind.VERSIONS[-1])
        message = request.build(version) if isinstance(request, RequestBuilder) else request
        self.sent.append((name, node_id))
        response = self._responses[name](node_id, message)
        if isinstance(response, Exception):
            raise response
        return response


class FakeAdmin(TopicsApi, GroupOffsetsApi, OffsetsApi, TransactionsApi):
    """The tested APIs on a fake network client."""

    def __init__(self, network: FakeNetworkClient, **options: Any) -> None:
        settings = read_options(ADMIN, {"bootstrap.servers": "one:9092"}, options)
        clock = VirtualClock(asyncio.get_running_loop())
        environment = ClientEnvironment(clock, SeededEntropy(1), lambda *_: None)  # type: ignore[arg-type]
        self._driver = AdminApiDriver(network, settings, environment)  # type: ignore[arg-type]


def created(code: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult("a", error_code=code)])


def test_request_is_retried_after_the_controller_moved() -> None:
    async def scenario() -> None:
        codes = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE])
        network = FakeNetworkClient({"CreateTopics": lambda node, message: created(next(codes))})
        created_topics = await FakeAdmin(network).create_topics([NewTopic("a", 1, 1)])
        assert list(created_topics) == ["a"]
        assert network.sent == [("CreateTopics", CONTROLLER)] * 3
        assert network.metadata.version == 3, "metadata is updated before each retry"

    run_virtually(scenario)


def test_only_open_keys_are_retried() -> None:
    async def scenario() -> None:
        requested = []

        def response(node: int, message: Any) -> CreateTopicsResponse:
            names = [topic.name for topic in message.topics]
            requested.append(names)
            codes = {"a": 0, "b": 0 if len(requested) > 1 else ErrorCode.THROTTLING_QUOTA_EXCEEDED}
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name, error_code=codes[name]) for name in names]
            )

        await FakeAdmin(FakeNetworkClient({"CreateTopics": response})).create_topics(["a", "b"])
        assert requested == [["a", "b"], ["b"]]

    run_virtually(scenario)


def test_call_times_out_with_the_last_error() -> None:
    async def scenario() -> None:
        network = FakeNetworkClient({"CreateTopics": lambda node, message: ConnectionFailed("refused")})
        clock = asyncio.get_running_loop()
        started = clock.time()
        with pytest.raises(TimedOut, match=r"topic a: not completed within .* ms; last error: refused"):
            await FakeAdmin(network).create_topics(["a"], timeout_s=7)
        assert 5 < clock.time() - started <= 7

    run_virtually(scenario)


def test_retries_limits_the_number_of_attempts() -> None:
    async def scenario() -> None:
        network = FakeNetworkClient({"CreateTopics": lambda node, message: created(ErrorCode.NOT_CONTROLLER)})
        with pytest.raises(PartialFailure, match="NOT_CONTROLLER"):
            await FakeAdmin(network, retries=2).create_topics(["a"])
        assert len(network.sent) == 3

    run_virtually(scenario)


def with_leaders(*leaders: int) -> Callable[[int, Any], MetadataResponse]:
    """Return metadata of topic t, whose partition 0 has these leaders, one after the other."""
    left = list(leaders)

    def response(node: int, message: Any) -> MetadataResponse:
        leader = left.pop(0) if len(left) > 1 else left[0]
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader)
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])

    return response


def test_leader_is_looked_up_again_after_it_moved() -> None:
    async def scenario() -> None:
        def offsets(node: int, message: Any) -> ListOffsetsResponse:
            code = ErrorCode.NONE if node == 2 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            entry = ListOffsetsPartitionResponse(0, code, offset=5)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [entry])])

        network = FakeNetworkClient({"Metadata": with_leaders(1, -1, 2), "ListOffsets": offsets})
        results = await FakeAdmin(network).list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST})
        assert results[TopicPartition("t", 0)].offset == 5
        assert [node for name, node in network.sent if name == "ListOffsets"] == [1, 2]

    run_virtually(scenario)


def test_max_timestamp_is_not_sent_to_an_old_broker() -> None:
    async def scenario() -> None:
        def offsets(node: int, message: Any) -> ListOffsetsResponse:
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        "t", [ListOffsetsPartitionResponse(partition.partition_index, offset=5)]
                    )
                    for partition in message.topics[0].partitions
                ]
            )

        network = FakeNetworkClient({"Metadata": with_leaders(1), "ListOffsets": offsets}, {"ListOffsets": 6})
        with pytest.raises(UnsupportedVersion, match="partition t-0: not supported by the broker"):
            await FakeAdmin(network).list_offsets({TopicPartition("t", 0): OffsetSpec.MAX_TIMESTAMP})
        assert ("ListOffsets", 1) not in network.sent

    run_virtually(scenario)


def offset_fetch_response(node: int, message: Any) -> OffsetFetchResponse:
    """Return offsets in the format of the request's version."""
    if message.groups:
        entry = OffsetFetchResponsePartitions(0, 7, metadata="")
        topics = [OffsetFetchResponseTopics("t", [entry])]
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group.group_id, topics) for group in message.groups]
        )
    return OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic("t", [OffsetFetchResponsePartition(0, 7, metadata="")])]
    )


def coordinators(node: int, message: Any) -> FindCoordinatorResponse:
    if message.coordinator_keys:
        results = [Coordinator(key, 1 + index % 2) for index, key in enumerate(message.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=results)
    return FindCoordinatorResponse(node_id=2)


def test_many_groups_take_one_lookup_and_one_request_per_coordinator() -> None:
    async def scenario() -> None:
        network = FakeNetworkClient({"FindCoordinator": coordinators, "OffsetFetch": offset_fetch_response})
        results = await FakeAdmin(network).list_offsets_of_groups(dict.fromkeys("abcd"))
        assert results == {group: {TopicPartition("t", 0): OffsetAndMetadata(7)} for group in "abcd"}
        assert sorted(network.sent) == [
            ("FindCoordinator", ANY_NODE),
            ("OffsetFetch", 1),
            ("OffsetFetch", 2),
        ]

    run_virtually(scenario)


def test_old_brokers_get_one_group_per_request() -> None:
    async def scenario() -> None:
        old = {"FindCoordinator": 3, "OffsetFetch": 7}
        network = FakeNetworkClient(
            {"FindCoordinator": coordinators, "OffsetFetch": offset_fetch_response}, old
        )
        results = await FakeAdmin(network).list_offsets_of_groups(dict.fromkeys("abc"))
        assert results == {group: {TopicPartition("t", 0): OffsetAndMetadata(7)} for group in "abc"}
        assert network.sent == [("FindCoordinator", ANY_NODE)] * 3 + [("OffsetFetch", 2)] * 3

    run_virtually(scenario)


@pytest.mark.parametrize("version", [3, 5, 6])
def test_delete_topics_by_name_in_every_version(version: int) -> None:
    async def scenario() -> None:
        def response(node: int, message: Any) -> DeleteTopicsResponse:
            names = [topic.name for topic in message.topics] if version >= 6 else message.topic_names
            return DeleteTopicsResponse(responses=[DeletableTopicResult(name) for name in names])

        await FakeAdmin(
            FakeNetworkClient({"DeleteTopics": response}, {"DeleteTopics": version})
        ).delete_topics(["a", "b"])

    run_virtually(scenario)


def test_producers_are_fenced_one_per_request() -> None:
    async def scenario() -> None:
        network = FakeNetworkClient(
            {
                "FindCoordinator": coordinators,
                "InitProducerId": lambda node, message: InitProducerIdResponse(
                    producer_id=ord(message.transactional_id), producer_epoch=3
                ),
            }
        )
        fenced = await FakeAdmin(network).fence_producers(["a", "b", "c"])
        assert {name: identity.producer_id for name, identity in fenced.items()} == {
            "a": 97,
            "b": 98,
            "c": 99,
        }

    run_virtually(scenario)
