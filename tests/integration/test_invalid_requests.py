"""Requests that can be read but not granted: each gets Kafka's own error code, and the connection stays."""

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
OURS_ALONE = pytest.mark.skipif(IS_FOREIGN, reason="Kafka answers with an unknown server error")
ILLEGAL_NAMES = ["", ".", "..", "a b", "a/b", "ümlaut", "new\nline", "k" * 250]


@pytest.fixture
def connection(bootstrap: str) -> Iterator[RawConnection]:
    """One connection, which must still be answered at the end."""
    with RawConnection(bootstrap) as opened:
        yield opened
        assert opened.exchange(metadata_request()).brokers


def created_code(connection: RawConnection, message: Message) -> int:
    (created,) = connection.exchange(message).topics
    return int(created.error_code)


@pytest.mark.parametrize("name", ILLEGAL_NAMES)
def test_topic_with_an_illegal_name_is_not_created(connection: RawConnection, name: str) -> None:
    assert created_code(connection, create_topics_request(name)) == INVALID_TOPIC


@pytest.mark.parametrize("name", [name for name in ILLEGAL_NAMES if name])
def test_metadata_of_an_illegal_name_creates_nothing(connection: RawConnection, name: str) -> None:
    (described,) = connection.exchange(metadata_request(name, create=True)).topics
    assert described.error_code == INVALID_TOPIC


def test_metadata_of_an_unknown_topic_says_so_and_creates_nothing_unasked(
    connection: RawConnection, topic: str
) -> None:
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
def test_topic_with_a_bad_setting_is_not_created(
    connection: RawConnection, topic: str, name: str, value: str | None
) -> None:
    assert created_code(connection, create_topics_request(topic, 1, {name: value})) == INVALID_CONFIG
    (described,) = connection.exchange(metadata_request(topic)).topics
    assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_existing_topic_is_not_created_again(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    assert created_code(connection, create_topics_request(topic)) == TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("count", [0, -2])
def test_impossible_number_of_partitions_is_refused(
    connection: RawConnection, topic: str, count: int
) -> None:
    assert created_code(connection, create_topics_request(topic, count)) == INVALID_PARTITIONS


@pytest.mark.parametrize("count", [0, -2, 2, 100])
def test_impossible_number_of_replicas_is_refused(connection: RawConnection, topic: str, count: int) -> None:
    assert (
        created_code(connection, create_topics_request(topic, 1, replicas=count))
        == INVALID_REPLICATION_FACTOR
    )


def test_topic_named_twice_in_one_request_is_refused(connection: RawConnection, topic: str) -> None:
    one = create_topics_request(topic).topics
    answer = connection.exchange(
        create_topics.CreateTopicsRequest(topics=one + one, timeout=timedelta(seconds=5), validate_only=False)
    )
    assert {created.error_code for created in answer.topics} == {INVALID_REQUEST}


def test_topic_that_is_only_validated_is_not_created(connection: RawConnection, topic: str) -> None:
    answer = connection.exchange(
        create_topics.CreateTopicsRequest(
            topics=create_topics_request(topic).topics, timeout=timedelta(seconds=5), validate_only=True
        )
    )
    assert [created.error_code for created in answer.topics] == [0]
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
        pytest.param("retention.ms", "1", 9, INVALID_REQUEST, marks=OURS_ALONE),
    ],
)
def test_bad_change_of_a_setting_is_refused(
    connection: RawConnection, topic: str, name: str, value: str, operation: int, code: int
) -> None:
    create_topic(connection, topic)
    (answer,) = connection.exchange(alter(topic, name, value, operation)).responses
    assert answer.error_code == code
    assert answer.error_message


def test_settings_of_an_unknown_topic_are_refused(connection: RawConnection, topic: str) -> None:
    (answer,) = connection.exchange(alter(topic, "retention.ms", "1000")).responses
    assert answer.error_code == UNKNOWN_TOPIC_OR_PARTITION
    resource = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,))
    (described,) = connection.exchange(request).results
    assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("resource_type", [-19, 0, 1, 99])
def test_settings_of_an_unknown_kind_of_thing_are_refused(
    connection: RawConnection, topic: str, resource_type: int
) -> None:
    change = alter_configs.AlterableConfig(name="retention.ms", config_operation=SET, value="1000")
    altered = alter_configs.AlterConfigsResource(
        resource_type=resource_type, resource_name=topic, configs=(change,)
    )
    request = alter_configs.IncrementalAlterConfigsRequest(resources=(altered,), validate_only=False)
    (answer,) = connection.exchange(request).responses
    assert answer.error_code == INVALID_REQUEST
    described = describe_configs.DescribeConfigsResource(
        resource_type=resource_type, resource_name=topic, configuration_keys=None
    )
    (answer,) = connection.exchange(describe_configs.DescribeConfigsRequest(resources=(described,))).results
    assert answer.error_code == INVALID_REQUEST


def test_metadata_of_a_topic_without_a_name_is_refused_where_ids_are_not_yet_served(
    connection: RawConnection,
) -> None:
    metadata_11 = kio_requests("metadata", 11)
    wanted = metadata_11.MetadataRequestTopic(topic_id=None, name=None)
    request = metadata_11.MetadataRequest(
        topics=(wanted,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    assert [one.error_code for one in connection.exchange(request).topics] == [INVALID_REQUEST]


@pytest.mark.skipif(IS_FOREIGN, reason="Kafka tries, and runs out of memory")
@pytest.mark.parametrize("count", [2**31 - 1, 50_000_000])
def test_more_partitions_than_a_broker_can_hold_are_refused_at_once(
    connection: RawConnection, topic: str, count: int
) -> None:
    assert created_code(connection, create_topics_request(topic, count)) == INVALID_PARTITIONS
    create_topic(connection, topic)
    create_partitions = kio_requests("create_partitions", 2)
    wanted = create_partitions.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = create_partitions.CreatePartitionsRequest(
        topics=(wanted,), timeout=timedelta(seconds=5), validate_only=False
    )
    (answer,) = connection.exchange(request).results
    assert answer.error_code == INVALID_PARTITIONS


def offsets_request(topic: str, partition: int, timestamp: int, leader_epoch: int = -1) -> Message:
    wanted = list_offsets.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(wanted,)),),
    )


def listed_code(connection: RawConnection, message: Message) -> int:
    (answered,) = connection.exchange(message).topics
    (partition,) = answered.partitions
    return int(partition.error_code)


def test_offsets_of_an_unknown_partition_are_refused(connection: RawConnection, topic: str) -> None:
    assert listed_code(connection, offsets_request(topic, 0, -1)) == UNKNOWN_TOPIC_OR_PARTITION
    create_topic(connection, topic)
    assert listed_code(connection, offsets_request(topic, 0, -1)) == 0
    assert listed_code(connection, offsets_request(topic, 1, -1)) == UNKNOWN_TOPIC_OR_PARTITION
    assert listed_code(connection, offsets_request(topic, -1, -1)) == UNKNOWN_TOPIC_OR_PARTITION


def test_leader_epoch_from_the_future_is_refused(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    assert listed_code(connection, offsets_request(topic, 0, -1, leader_epoch=99)) == UNKNOWN_LEADER_EPOCH
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1, current_leader_epoch=99)
    assert fetched_partition(connection.exchange(fetch_of(topic, wanted))).error_code == UNKNOWN_LEADER_EPOCH


def fetch_of(topic: str, wanted: Message, session_id: int = 0, session_epoch: int = -1) -> Message:
    return fetch.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=(fetch.FetchTopic(topic=topic, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )


@pytest.mark.parametrize("offset", [1, -1, 2**62])
def test_fetch_outside_the_log_is_refused(connection: RawConnection, topic: str, offset: int) -> None:
    create_topic(connection, topic)
    answer = fetched_partition(connection.exchange(fetch_request(topic, offset)))
    assert answer.error_code == OFFSET_OUT_OF_RANGE


def test_fetch_of_an_unknown_topic_is_refused_without_waiting(connection: RawConnection, topic: str) -> None:
    answer = fetched_partition(connection.exchange(fetch_request(topic, 0, wait_ms=8_000)))
    assert answer.error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "code"),
    [(12_345, 1, FETCH_SESSION_ID_NOT_FOUND), (0, 5, FETCH_SESSION_ID_NOT_FOUND)],
)
def test_unknown_fetch_session_is_refused(
    connection: RawConnection, topic: str, session_id: int, session_epoch: int, code: int
) -> None:
    create_topic(connection, topic)
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    assert connection.exchange(fetch_of(topic, wanted, session_id, session_epoch)).error_code == code


def test_fetch_session_out_of_step_is_refused(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    opened = connection.exchange(fetch_of(topic, wanted, 0, 0))
    assert opened.error_code == 0
    assert opened.session_id > 0
    answer = connection.exchange(fetch_of(topic, wanted, opened.session_id, 7))
    assert answer.error_code == INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("before", [1, -2, 2**62])
def test_deletion_of_records_that_are_not_there_is_refused(
    connection: RawConnection, topic: str, before: int
) -> None:
    create_topic(connection, topic)
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=before)
    named = delete_records.DeleteRecordsTopic(name=topic, partitions=(partition,))
    request = delete_records.DeleteRecordsRequest(topics=(named,), timeout=timedelta(seconds=5))
    (answered,) = connection.exchange(request).topics
    assert [one.error_code for one in answered.partitions] == [OFFSET_OUT_OF_RANGE]
