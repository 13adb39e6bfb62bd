"""Well-formed invalid requests: each gets Kafka's error code, and the connection stays open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.support.broker import IS_FOREIGN
from tests.support.kio_requests import (
    Message,
    create_topic,
    create_topics_request,
    fetch_request,
    fetched_partition,
    kio_requests,
    metadata_request,
)
from tests.support.raw_connection import RawConnection

create_topics = kio_requests("create_topics", 5)
delete_records = kio_requests("delete_records", 2)
describe_configs = kio_requests("describe_configs", 4)
fetch = kio_requests("fetch", 11)
alter_configs = kio_requests("incremental_alter_configs", 1)
list_offsets = kio_requests("list_offsets", 7)

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
INVALID_REQUEST = 42
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
UNKNOWN_LEADER_EPOCH = 75
TOPIC_RESOURCE, SET = 2, 0
ODRADEK_ONLY = pytest.mark.skipif(IS_FOREIGN, reason="Kafka responds with UNKNOWN_SERVER_ERROR")
INVALID_NAMES = ["", ".", "..", "a b", "a/b", "ümlaut", "new\nline", "k" * 250]


@pytest.fixture
def connection(bootstrap: str) -> Iterator[RawConnection]:
    """A connection that must still get responses at the end."""
    with RawConnection(bootstrap) as opened:
        yield opened
        assert opened.exchange(metadata_request()).brokers


def created_code(connection: RawConnection, message: Message) -> int:
    (created,) = connection.exchange(message).topics
    return int(created.error_code)


@pytest.mark.parametrize("name", INVALID_NAMES)
def test_topic_with_an_invalid_name_is_not_created(connection: RawConnection, name: str) -> None:
    assert created_code(connection, create_topics_request(name)) == INVALID_TOPIC


@pytest.mark.parametrize("name", [name for name in INVALID_NAMES if name])
def test_metadata_for_an_invalid_name_creates_no_topic(connection: RawConnection, name: str) -> None:
    (described,) = connection.exchange(metadata_request(name, create=True)).topics
    assert described.error_code == INVALID_TOPIC


def test_metadata_for_an_unknown_topic_without_auto_creation(connection: RawConnection, topic: str) -> None:
    for _ in range(2):
        (described,) = connection.exchange(metadata_request(topic, create=False)).topics
        assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"),
        ("cleanup.policy", "shred"),
        ("segment.bytes", "1"),
        ("compression.type", "rar"),
        ("min.insync.replicas", "0"),
        ("no.such.setting", "1"),
        ("retention.ms", None),
    ],
)
def test_topic_with_an_invalid_config_is_not_created(
    connection: RawConnection, topic: str, name: str, value: str | None
) -> None:
    assert created_code(connection, create_topics_request(topic, 1, {name: value})) == INVALID_CONFIG
    (described,) = connection.exchange(metadata_request(topic)).topics
    assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_existing_topic_is_not_created_again(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    assert created_code(connection, create_topics_request(topic)) == TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("count", [0, -2])
def test_invalid_partition_count_is_rejected(connection: RawConnection, topic: str, count: int) -> None:
    assert created_code(connection, create_topics_request(topic, count)) == INVALID_PARTITIONS


@pytest.mark.parametrize("count", [0, -2, 2, 100])
def test_invalid_replication_factor_is_rejected(connection: RawConnection, topic: str, count: int) -> None:
    assert (
        created_code(connection, create_topics_request(topic, 1, replicas=count))
        == INVALID_REPLICATION_FACTOR
    )


def test_duplicate_topic_in_one_request_is_rejected(connection: RawConnection, topic: str) -> None:
    topics = create_topics_request(topic).topics
    response = connection.exchange(
        create_topics.CreateTopicsRequest(
            topics=topics + topics, timeout=timedelta(seconds=5), validate_only=False
        )
    )
    assert {created.error_code for created in response.topics} == {INVALID_REQUEST}


def test_validate_only_creates_no_topic(connection: RawConnection, topic: str) -> None:
    response = connection.exchange(
        create_topics.CreateTopicsRequest(
            topics=create_topics_request(topic).topics, timeout=timedelta(seconds=5), validate_only=True
        )
    )
    assert [created.error_code for created in response.topics] == [0]
    (described,) = connection.exchange(metadata_request(topic)).topics
    assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION


def alter(topic: str, name: str, value: str | None, operation: int = SET) -> Message:
    change = alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
    resource = alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=(change,)
    )
    return alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


@pytest.mark.parametrize(
    ("name", "value", "operation", "code"),
    [
        ("retention.ms", "soon", SET, INVALID_CONFIG),
        ("no.such.setting", "1", SET, INVALID_CONFIG),
        ("retention.ms", "1", 2, INVALID_CONFIG),
        pytest.param("retention.ms", "1", 9, INVALID_REQUEST, marks=ODRADEK_ONLY),
    ],
)
def test_invalid_config_change_is_rejected(
    connection: RawConnection, topic: str, name: str, value: str, operation: int, code: int
) -> None:
    create_topic(connection, topic)
    (response,) = connection.exchange(alter(topic, name, value, operation)).responses
    assert response.error_code == code
    assert response.error_message


def test_configs_of_an_unknown_topic_are_rejected(connection: RawConnection, topic: str) -> None:
    (response,) = connection.exchange(alter(topic, "retention.ms", "1000")).responses
    assert response.error_code == UNKNOWN_TOPIC_OR_PARTITION
    resource = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,))
    (described,) = connection.exchange(request).results
    assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("resource_type", [-19, 0, 1, 99])
def test_configs_of_an_unknown_resource_type_are_rejected(
    connection: RawConnection, topic: str, resource_type: int
) -> None:
    change = alter_configs.AlterableConfig(name="retention.ms", config_operation=SET, value="1000")
    altered = alter_configs.AlterConfigsResource(
        resource_type=resource_type, resource_name=topic, configs=(change,)
    )
    request = alter_configs.IncrementalAlterConfigsRequest(resources=(altered,), validate_only=False)
    (response,) = connection.exchange(request).responses
    assert response.error_code == INVALID_REQUEST
    described = describe_configs.DescribeConfigsResource(
        resource_type=resource_type, resource_name=topic, configuration_keys=None
    )
    (response,) = connection.exchange(describe_configs.DescribeConfigsRequest(resources=(described,))).results
    assert response.error_code == INVALID_REQUEST


def test_metadata_v11_for_a_topic_without_name_is_rejected(
    connection: RawConnection,
) -> None:
    metadata_11 = kio_requests("metadata", 11)
    requested = metadata_11.MetadataRequestTopic(topic_id=None, name=None)
    request = metadata_11.MetadataRequest(
        topics=(requested,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    assert [described.error_code for described in connection.exchange(request).topics] == [INVALID_REQUEST]


@pytest.mark.skipif(IS_FOREIGN, reason="Kafka runs out of memory")
@pytest.mark.parametrize("count", [2**31 - 1, 50_000_000])
def test_excessive_partition_count_is_rejected_immediately(
    connection: RawConnection, topic: str, count: int
) -> None:
    assert created_code(connection, create_topics_request(topic, count)) == INVALID_PARTITIONS
    create_topic(connection, topic)
    create_partitions = kio_requests("create_partitions", 2)
    requested = create_partitions.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = create_partitions.CreatePartitionsRequest(
        topics=(requested,), timeout=timedelta(seconds=5), validate_only=False
    )
    (response,) = connection.exchange(request).results
    assert response.error_code == INVALID_PARTITIONS


def offsets_request(topic: str, partition: int, timestamp: int, leader_epoch: int = -1) -> Message:
    requested = list_offsets.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(requested,)),),
    )


def listed_code(connection: RawConnection, message: Message) -> int:
    (response_topic,) = connection.exchange(message).topics
    (partition,) = response_topic.partitions
    return int(partition.error_code)


def test_list_offsets_of_an_unknown_partition_is_rejected(connection: RawConnection, topic: str) -> None:
    assert listed_code(connection, offsets_request(topic, 0, -1)) == UNKNOWN_TOPIC_OR_PARTITION
    create_topic(connection, topic)
    assert listed_code(connection, offsets_request(topic, 0, -1)) == 0
    assert listed_code(connection, offsets_request(topic, 1, -1)) == UNKNOWN_TOPIC_OR_PARTITION
    assert listed_code(connection, offsets_request(topic, -1, -1)) == UNKNOWN_TOPIC_OR_PARTITION


def test_unknown_leader_epoch_is_rejected(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    assert listed_code(connection, offsets_request(topic, 0, -1, leader_epoch=99)) == UNKNOWN_LEADER_EPOCH
    requested = fetch.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1, current_leader_epoch=99
    )
    assert (
        fetched_partition(connection.exchange(fetch_of(topic, requested))).error_code == UNKNOWN_LEADER_EPOCH
    )


def fetch_of(topic: str, requested: Message, session_id: int = 0, session_epoch: int = -1) -> Message:
    return fetch.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=(fetch.FetchTopic(topic=topic, partitions=(requested,)),),
        forgotten_topics_data=(),
    )


@pytest.mark.parametrize("offset", [1, -1, 2**62])
def test_fetch_offset_out_of_range_is_rejected(connection: RawConnection, topic: str, offset: int) -> None:
    create_topic(connection, topic)
    response = fetched_partition(connection.exchange(fetch_request(topic, offset)))
    assert response.error_code == OFFSET_OUT_OF_RANGE


def test_fetch_of_an_unknown_topic_fails_without_waiting(connection: RawConnection, topic: str) -> None:
    response = fetched_partition(connection.exchange(fetch_request(topic, 0, wait_ms=8_000)))
    assert response.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "code"),
    [(12_345, 1, FETCH_SESSION_ID_NOT_FOUND), (0, 5, FETCH_SESSION_ID_NOT_FOUND)],
)
def test_unknown_fetch_session_is_rejected(
    connection: RawConnection, topic: str, session_id: int, session_epoch: int, code: int
) -> None:
    create_topic(connection, topic)
    requested = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    assert connection.exchange(fetch_of(topic, requested, session_id, session_epoch)).error_code == code


def test_invalid_fetch_session_epoch_is_rejected(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    requested = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    opened = connection.exchange(fetch_of(topic, requested, 0, 0))
    assert opened.error_code == 0
    assert opened.session_id > 0
    response = connection.exchange(fetch_of(topic, requested, opened.session_id, 7))
    assert response.error_code == INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("before", [1, -2, 2**62])
def test_delete_records_out_of_range_is_rejected(connection: RawConnection, topic: str, before: int) -> None:
    create_topic(connection, topic)
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=before)
    named = delete_records.DeleteRecordsTopic(name=topic, partitions=(partition,))
    request = delete_records.DeleteRecordsRequest(topics=(named,), timeout=timedelta(seconds=5))
    (response_topic,) = connection.exchange(request).topics
    assert [partition.error_code for partition in response_topic.partitions] == [OFFSET_OUT_OF_RANGE]
