"""Requests built with kio, each at one version."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from tests.support.raw_connection import ConnectionEnded, RawConnection

UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_RESOURCE = 2
LED = (0, 1)
"""Error codes of a fetch from a leader: NONE, or OFFSET_OUT_OF_RANGE."""

Message = Any
"""A kio message; kio's generated classes share no base class."""


def kio_requests(api: str, version: int) -> Any:
    """Return the kio module of a request and its structures."""
    return import_module(f"kio.schema.{api}.v{version}.request")


create_topics = kio_requests("create_topics", 5)
describe_transactions = kio_requests("describe_transactions", 0)
describe_configs = kio_requests("describe_configs", 4)
fetch = kio_requests("fetch", 11)
metadata = kio_requests("metadata", 9)
produce = kio_requests("produce", 8)


def produce_request(topic: str, records: bytes | None, *, acks: int = -1, partition: int = 0) -> Message:
    """Build a Produce request (version 8) for one partition."""
    data = produce.PartitionProduceData(index=partition, records=records)
    return produce.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=timedelta(seconds=5),
        topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),),
    )


def produced_partition(response: Message) -> Message:
    """Return the single partition of a Produce response."""
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


def fetch_request(
    topic: str, offset: int = 0, *, wait_ms: int = 0, bytes_min: int = 1, bytes_max: int = 1 << 26
) -> Message:
    """Build a Fetch request (version 11) for partition 0 without a session."""
    topic_request = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
    return fetch.FetchRequest(
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        topics=(fetch.FetchTopic(topic=topic, partitions=(topic_request,)),),
        forgotten_topics_data=(),
    )


def fetched_partition(response: Message) -> Message:
    """Return the single partition of a Fetch response."""
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def create_topics_request(
    topic: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None, *, replicas: int = 1
) -> Message:
    """Build a CreateTopics request (version 5) for one topic."""
    new = create_topics.CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=tuple(
            create_topics.CreatableTopicConfig(name=name, value=value)
            for name, value in (configs or {}).items()
        ),
    )
    return create_topics.CreateTopicsRequest(
        topics=(new,), timeout=timedelta(seconds=10), validate_only=False
    )


def metadata_request(*topics: str, create: bool = False) -> Message:
    """Build a Metadata request (version 9) for these topics, or for all."""
    topic_request = tuple(metadata.MetadataRequestTopic(name=topic) for topic in topics)
    return metadata.MetadataRequest(
        topics=topic_request or None,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def create_topic(
    connection: RawConnection, topic: str, configs: Mapping[str, str | None] | None = None
) -> None:
    """Create a topic with one partition."""
    (created,) = connection.exchange(create_topics_request(topic, 1, configs)).topics
    assert created.error_code == 0, created


def topic_leaders(address: str, topic: str) -> dict[int, int] | None:
    """Return the leaders of partitions in the metadata of a broker; None if it has no such topic."""
    with RawConnection(address) as connection:
        (described,) = connection.exchange(metadata_request(topic)).topics
    if described.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    return {int(each.partition_index): int(each.leader_id) for each in described.partitions}


def topic_configs(address: str, topic: str) -> dict[str, str | None]:
    """Return the configs of a topic that a broker has applied."""
    resource = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
    )
    with RawConnection(address) as connection:
        request = describe_configs.DescribeConfigsRequest(resources=(resource,))
        (result,) = connection.exchange(request).results
    return {entry.name: entry.value for entry in result.configs}


def transaction_state(bootstrap: str, transactional_id: str) -> str | None:
    """Return the state of a transaction as its coordinator says; None if none of the brokers is that."""
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    for address in bootstrap.split(","):
        try:
            with RawConnection(address) as connection:
                (described,) = connection.exchange(request).transaction_states
        except (ConnectionEnded, OSError):
            continue
        if described.error_code == 0:
            return str(described.transaction_state)
    return None


def leader_address(bootstrap: str, topic: str) -> str:
    """Return the address of the leader of partition 0; the only address of ``bootstrap`` if it has one."""
    first, *others = bootstrap.split(",")
    if not others:
        return first
    with RawConnection(first) as connection:
        response = connection.exchange(metadata_request(topic))
    ((partition, *_),) = (described.partitions for described in response.topics)
    (leader,) = (each for each in response.brokers if each.node_id == partition.leader_id)
    return f"{leader.host}:{leader.port}"


def stored_batches(bootstrap: str, topic: str, offset: int = 0) -> bytes:
    """Return the batches of partition 0 as stored in the leader's log."""
    with RawConnection(leader_address(bootstrap, topic)) as connection:
        partition = fetched_partition(connection.exchange(fetch_request(topic, offset)))
    assert partition.error_code == 0, partition
    return bytes(partition.records or b"")


def wait_until_led(bootstrap: str, topic: str, within_seconds: float = 20) -> None:
    """Wait until partition 0 has a leader, after a restart."""
    deadline = time.monotonic() + within_seconds
    while not _is_led(bootstrap, topic):
        assert time.monotonic() < deadline, f"{topic} must have a leader within {within_seconds} s"
        time.sleep(0.05)


def _is_led(bootstrap: str, topic: str) -> bool:
    try:
        with RawConnection(leader_address(bootstrap, topic)) as connection:
            response = fetched_partition(connection.exchange(fetch_request(topic)))
    except (ConnectionEnded, OSError, ValueError):  # no leader, or one that has just ended
        return False
    # Offset 0 may be deleted already; only a leader reports that.
    return response.error_code in LED
