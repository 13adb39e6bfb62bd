"""Lookup strategies: the controller, any broker, a given broker, a partition leader, a coordinator."""

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


async def at_controller(network: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
    return LookupResult({CONTROLLER: list(keys)}, {})


async def at_any_broker(network: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
    return LookupResult({ANY_NODE: list(keys)}, {})


def at_broker(broker_of: Callable[[K], int]) -> LookupStrategy[K]:
    """Return a strategy that finds the broker of each key by its id, or any broker."""

    async def lookup(network: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
        node_ids = {broker_of(key) for key in keys} - {ANY_NODE}
        if node_ids - network.metadata.nodes.keys():
            await network.await_update(network.request_update(), timeout_ms)
        unknown = node_ids - network.metadata.nodes.keys()
        errors = {key: _unknown_broker(broker_of(key)) for key in keys if broker_of(key) in unknown}
        return LookupResult(grouped((broker_of(key), key) for key in keys if key not in errors), errors)

    return lookup


def _unknown_broker(broker: int) -> ApiError:
    return ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {broker}")


async def _with_known_nodes(
    network: NetworkClient, result: LookupResult[K], timeout_ms: int
) -> LookupResult[K]:
    """Return the result once the metadata has the addresses of its nodes."""
    if result.nodes.keys() - network.metadata.nodes.keys():
        await network.await_update(network.request_update(), timeout_ms)
    if unknown := result.nodes.keys() - network.metadata.nodes.keys():
        raise ConnectionFailed(f"brokers {sorted(unknown)} are not in the cluster metadata")
    return result


def at_leader(partition_of: Callable[[K], TopicPartition]) -> LookupStrategy[K]:
    """Return a strategy that finds the leader of each key's partition, from current metadata."""

    async def lookup(network: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
        topics = dict.fromkeys(partition_of(key).topic for key in keys)
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in topics], False)
        leaders = leaders_in(await network.send(ANY_NODE, request, timeout_ms=timeout_ms))
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        errors: dict[K, ApiError] = {}
        nodes: list[tuple[int, K]] = []
        for key in keys:
            partition = partition_of(key)
            leader = leaders.get(partition, leaders.get(TopicPartition(partition.topic, -1), unknown))
            if isinstance(leader, ApiError):
                errors[key] = leader
            else:
                nodes.append((leader, key))
        return await _with_known_nodes(network, LookupResult(grouped(nodes), errors), timeout_ms)

    return lookup


def leaders_in(metadata: MetadataResponse) -> dict[TopicPartition, int | ApiError]:
    """Return leaders or errors by partition; the error of a topic has partition -1."""
    leaders: dict[TopicPartition, int | ApiError] = {}
    for topic in metadata.topics:
        name = topic.name or ""
        if topic.error_code:
            leaders[TopicPartition(name, -1)] = ApiError(ErrorCode(topic.error_code))
        for partition in topic.partitions:
            leaders[TopicPartition(name, partition.partition_index)] = (
                partition.leader_id
                if partition.leader_id != NO_LEADER
                else ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
            )
    return leaders


def at_coordinator(key_type: CoordinatorType, name_of: Callable[[K], str]) -> LookupStrategy[K]:
    """Return a strategy that finds the coordinator of each key's group or transactional id."""

    async def lookup(network: NetworkClient, keys: Sequence[K], timeout_ms: int) -> LookupResult[K]:
        names = dict.fromkeys(name_of(key) for key in keys)
        results = await _find_coordinators(network, key_type, list(names), timeout_ms)
        errors: dict[K, ApiError] = {}
        nodes: list[tuple[int, K]] = []
        for key in keys:
            result = results[name_of(key)]
            if result.error:
                errors[key] = ApiError(result.error, result.message)
            else:
                nodes.append((result.node_id, key))
        return await _with_known_nodes(network, LookupResult(grouped(nodes), errors), timeout_ms)

    return lookup


async def _find_coordinators(
    network: NetworkClient, key_type: CoordinatorType, names: Sequence[str], timeout_ms: int
) -> dict[str, CoordinatorResult]:
    """Return the coordinator of each name, with one request where the broker supports it."""
    results: dict[str, CoordinatorResult] = {}
    while missing := [name for name in names if name not in results]:
        request = find_coordinator_request(key_type, missing)
        response = await network.send(ANY_NODE, request, timeout_ms=timeout_ms)
        coordinators = read_find_coordinator(missing, response)
        results.update((result.key, result) for result in coordinators)
        if not any(result.key in missing for result in coordinators):
            message = "the FindCoordinator response has no entry for it"
            results.update(
                (name, CoordinatorResult(name, -1, "", -1, ErrorCode.UNKNOWN_SERVER_ERROR, message))
                for name in missing
            )
    return results


def grouped(pairs: Iterable[tuple[int, T]]) -> dict[int, list[T]]:
    """Return values by node id, in order."""
    groups: dict[int, list[T]] = {}
    for node_id, value in pairs:
        groups.setdefault(node_id, []).append(value)
    return groups


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition numbers by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
