"""Where a key is served: at the controller, at any broker, at a broker, at a leader, at a coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from odradek.client.admin.api_handler import ApiError, K, LookupResult, LookupStrategy
from odradek.client.network.coordinator_lookup import (
    CoordinatorResult,
    find_coordinator_request,
    read_find_coordinator,
)
from odradek.client.network.network_client import NetworkClient
from odradek.client.network.node_selection import ANY_NODE, CONTROLLER, CoordinatorType
from odradek.model.client_errors import ConnectionFailed
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")


async def at_controller(cluster: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
    return LookupResult({CONTROLLER: list(keys)}, {})


async def anywhere(cluster: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
    return LookupResult({ANY_NODE: list(keys)}, {})


def at_broker(broker_of: Callable[[K], int]) -> LookupStrategy[K]:
    """Each key at the broker that its value names, or at any."""

    async def route(cluster: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
        wanted = {broker_of(key) for key in keys} - {ANY_NODE}
        if wanted - cluster.metadata.nodes.keys():
            await cluster.await_update(cluster.request_update(), timeout_ms)
        unknown = wanted - cluster.metadata.nodes.keys()
        refused = {key: _no_such_broker(broker_of(key)) for key in keys if broker_of(key) in unknown}
        return LookupResult(grouped((broker_of(key), key) for key in keys if key not in refused), refused)

    return route


def _no_such_broker(broker: int) -> ApiError:
    return ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {broker} now")


async def _known(cluster: NetworkClient, routed: LookupResult[K], timeout_ms: int) -> LookupResult[K]:
    """The same, once the client has heard where all these brokers are."""
    if routed.nodes.keys() - cluster.metadata.nodes.keys():
        await cluster.await_update(cluster.request_update(), timeout_ms)
    if strangers := routed.nodes.keys() - cluster.metadata.nodes.keys():
        raise ConnectionFailed(f"brokers {sorted(strangers)} are not described by the cluster")
    return routed


def at_leader(partition_of: Callable[[K], TopicPartition]) -> LookupStrategy[K]:
    """Each key at the leader of its partition, as a broker knows it now."""

    async def route(cluster: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
        topics = dict.fromkeys(partition_of(key).topic for key in keys)
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in topics], False)
        leaders = leaders_in(await cluster.send(ANY_NODE, request, timeout_ms=timeout_ms))
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        refused: dict[K, ApiError] = {}
        found: list[tuple[int, K]] = []
        for key in keys:
            partition = partition_of(key)
            leader = leaders.get(partition, leaders.get(TopicPartition(partition.topic, -1), unknown))
            if isinstance(leader, ApiError):
                refused[key] = leader
            else:
                found.append((leader, key))
        return await _known(cluster, LookupResult(grouped(found), refused), timeout_ms)

    return route


def leaders_in(metadata: MetadataResponse) -> dict[TopicPartition, int | ApiError]:
    """Leaders by partition, or why there is none; a topic's own error stands at its partition -1."""
    leaders: dict[TopicPartition, int | ApiError] = {}
    for topic in metadata.topics:
        name = topic.name or ""
        if topic.error_code:
            leaders[TopicPartition(name, -1)] = ApiError(ErrorCode(topic.error_code))
        for one in topic.partitions:
            found = one.leader_id if one.leader_id != NO_LEADER else ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
            leaders[TopicPartition(name, one.partition_index)] = found
    return leaders


def at_coordinator(kind: CoordinatorType, name_of: Callable[[K], str]) -> LookupStrategy[K]:
    """Each key at the broker that coordinates its group or transactional id: one find_coordinator_request
    for all of them.
    """

    async def route(cluster: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
        names = dict.fromkeys(name_of(key) for key in keys)
        found = await _coordinators(cluster, kind, list(names), timeout_ms)
        refused: dict[K, ApiError] = {}
        at: list[tuple[int, K]] = []
        for key in keys:
            one = found[name_of(key)]
            if one.error:
                refused[key] = ApiError(one.error, one.message)
            else:
                at.append((one.node_id, key))
        return await _known(cluster, LookupResult(grouped(at), refused), timeout_ms)

    return route


async def _coordinators(
    cluster: NetworkClient, kind: CoordinatorType, names: Sequence[str], timeout_ms: int
) -> dict[str, CoordinatorResult]:
    """Of all names. A broker of an old version takes them one at a time."""
    found: dict[str, CoordinatorResult] = {}
    while missing := [name for name in names if name not in found]:
        answer = await cluster.send(ANY_NODE, find_coordinator_request(kind, missing), timeout_ms=timeout_ms)
        told = read_find_coordinator(missing, answer)
        found.update((one.key, one) for one in told)
        if not any(one.key in missing for one in told):
            silent = "the broker's answer does not name it"
            found.update(
                (name, CoordinatorResult(name, -1, "", -1, ErrorCode.UNKNOWN_SERVER_ERROR, silent))
                for name in missing
            )
    return found


def grouped(pairs: Iterable[tuple[int, T]]) -> dict[int, list[T]]:
    """Values by their number, in order."""
    groups: dict[int, list[T]] = {}
    for number, value in pairs:
        groups.setdefault(number, []).append(value)
    return groups


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
