"""Admin requests that change nothing, or need security: Kafka's error codes."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as KafkaPythonResource
from kafka.errors import NoReassignmentInProgressError, SecurityDisabledError
from tests.compat.clients.kafka_python import KafkaAdminClient

SECURITY_DISABLED = 54
ELECTION_NOT_NEEDED = 84


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def test_confluent_acls_need_an_authorizer(admin: AdminClient) -> None:
    rule = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException) as error:
        admin.create_acls([rule])[rule].result(30)
    assert error.value.args[0].code() == SECURITY_DISABLED


def test_kafka_python_acls_need_an_authorizer(bootstrap: str) -> None:
    resource = ResourcePatternFilter(KafkaPythonResource.ANY, None, ACLResourcePatternType.ANY)
    anything = ACLFilter(None, "*", ACLOperation.ANY, ACLPermissionType.ANY, resource)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin, pytest.raises(SecurityDisabledError):
        admin.describe_acls(anything)


def test_confluent_election_is_not_needed(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 2)])[topic].result(30)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    result = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
    assert [error.code() for error in result.values()] == [ELECTION_NOT_NEEDED] * 2


def test_confluent_finds_no_scram_credentials(admin: AdminClient) -> None:
    future = admin.describe_user_scram_credentials()
    assert isinstance(future, Future)
    assert future.result(30) == {}


def test_kafka_python_reassigns_partitions_to_their_current_replicas(bootstrap: str, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([topic], wait_for_metadata=True)
        [described] = admin.describe_topics([topic])
        [replicas] = [item["replica_nodes"] for item in described["partitions"]]
        partition = KafkaPythonPartition(topic, 0)
        assert admin.alter_partition_reassignments({partition: replicas}) == {partition: None}
        assert not admin.list_partition_reassignments()
        error = admin.alter_partition_reassignments({partition: None})
        assert error == {partition: NoReassignmentInProgressError}


def test_kafka_python_changes_the_level_of_a_logger(bootstrap: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        node, *_ = [str(item["broker_id"]) for item in admin.describe_cluster()["brokers"]]
        kind = ConfigResourceType.BROKER_LOGGER
        admin.alter_configs([ConfigResource(kind, node, {"odradek.session": "ERROR"})])
        result = admin.describe_configs([ConfigResource(kind, node)])
        assert "ERROR" in str(result)
