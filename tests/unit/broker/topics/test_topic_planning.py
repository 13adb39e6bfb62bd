"""Planning of topics and partitions: assignments, and every error code."""

import pytest

from odradek.broker.topics.topic_planning import (
    ClusterView,
    NewTopic,
    PartitionIncrease,
    plan_partition_increase,
    plan_topic,
)
from odradek.cluster.replica_assignment import BrokerRack
from odradek.model.errors import BrokerError, ErrorCode


def cluster_view(topics=(), brokers=3):
    return ClusterView(
        dict.fromkeys(topics), [BrokerRack(number, None) for number in range(brokers)], 2, 1, 0, 0
    )


def test_partitions_are_assigned_to_brokers():
    plan = plan_topic(NewTopic("orders", 4, 2), cluster_view())
    assert sorted(plan) == [0, 1, 2, 3]
    assert all(len(set(replicas)) == 2 for replicas in plan.values())


def test_defaults_apply_to_omitted_counts():
    plan = plan_topic(NewTopic("orders"), cluster_view())
    assert len(plan) == 2
    assert all(len(replicas) == 1 for replicas in plan.values())
    assert len(plan_topic(NewTopic("orders", 5), cluster_view())) == 5
    assert len(plan_topic(NewTopic("orders", replication_factor=3), cluster_view())[0]) == 3


def test_partition_count_limit():
    assert len(plan_topic(NewTopic("orders", 20_000, 1), cluster_view())) == 20_000


def test_manual_assignment_is_kept():
    specified = {0: (2, 1), 1: (1, 0)}
    assert plan_topic(NewTopic("orders", assignments=specified), cluster_view()) == specified


INVALID_TOPICS = {
    "empty name": (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dot": (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "slash": (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "too long": (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "exists": (NewTopic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "collides": (NewTopic("with.dot"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "null setting": (NewTopic("t", settings={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
    "counts and replicas": (NewTopic("t", 1, assignments={0: (1,)}), ErrorCode.INVALID_REQUEST),
    "factor and replicas": (
        NewTopic("t", replication_factor=1, assignments={0: (1,)}),
        ErrorCode.INVALID_REQUEST,
    ),
    "no partitions": (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    "negative partitions": (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
    "far too many partitions": (NewTopic("t", 2**31 - 1, 1), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many replicas": (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
    "gap": (NewTopic("t", assignments={0: (1,), 2: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "not from 0": (NewTopic("t", assignments={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "empty replicas": (NewTopic("t", assignments={0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "broker twice": (NewTopic("t", assignments={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "uneven": (NewTopic("t", assignments={0: (1,), 1: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no live replica": (NewTopic("t", assignments={0: (1,), 1: (99,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


def test_manual_assignment_may_name_some_dead_brokers():
    """Unlike for added partitions, as in Kafka; but one live replica is required."""
    assert plan_topic(NewTopic("t", assignments={0: (99, 1)}), cluster_view()) == {0: (99, 1)}


@pytest.mark.parametrize(("new_topic", "code"), INVALID_TOPICS.values(), ids=INVALID_TOPICS)
def test_invalid_topic_is_rejected(new_topic, code):
    with pytest.raises(BrokerError) as error:
        plan_topic(new_topic, cluster_view(["there", "with_dot"]))
    assert error.value.code == code
    assert error.value.message


EXISTING: dict[int, tuple[int, ...]] = {0: (0,), 1: (1,)}


def test_new_partitions_follow_the_existing_ones():
    plan = plan_partition_increase(PartitionIncrease("t", 5), EXISTING, cluster_view())
    assert sorted(plan) == [2, 3, 4]
    specified = plan_partition_increase(PartitionIncrease("t", 4, [(2,), (0,)]), EXISTING, cluster_view())
    assert specified == {2: (2,), 3: (0,)}


INVALID_INCREASES = {
    "fewer": (PartitionIncrease("t", 1), ErrorCode.INVALID_PARTITIONS),
    "as many": (PartitionIncrease("t", 2), ErrorCode.INVALID_PARTITIONS),
    "far too many": (PartitionIncrease("t", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
    "too few assignments": (PartitionIncrease("t", 4, [(0,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "too many assignments": (PartitionIncrease("t", 3, [(0,), (1,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unknown broker": (PartitionIncrease("t", 3, [(9,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "other factor": (PartitionIncrease("t", 3, [(0, 1)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "twice": (PartitionIncrease("t", 3, [(0, 0)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "empty": (PartitionIncrease("t", 3, [()]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize(("increase", "code"), INVALID_INCREASES.values(), ids=INVALID_INCREASES)
def test_invalid_partition_increase_is_rejected(increase, code):
    with pytest.raises(BrokerError) as error:
        plan_partition_increase(increase, EXISTING, cluster_view())
    assert error.value.code == code
