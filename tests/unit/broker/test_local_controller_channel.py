"""LeaderAndIsr, UpdateMetadata and StopReplica on the local broker."""

import asyncio

import pytest

from odradek.broker.local_controller_channel import LocalControllerChannel
from odradek.cluster.metadata_cache import MetadataCache
from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.controller_context import LiveBroker
from odradek.model.ids import TopicPartition
from odradek.replication.partition import LeaderAndIsr
from odradek.store.znodes import BrokerRegistration, RegisteredEndpoint

ONE, OTHER = b"1" * 16, b"2" * 16


class Stubs:
    """Stub of replica manager and admin manager that records its calls."""

    def __init__(self):
        self.received_states, self.removed, self.changes, self.forgotten = {}, [], [], []
        self.sizes = []

    def __len__(self):
        return len(self.received_states) - len(self.removed)

    async def become_leader_or_follower(self, states, new):
        self.received_states.update(states)
        self.new = new
        return [partition for partition in states if partition.topic == "broken"]

    def stop_replicas(self, partitions):
        self.removed += partitions
        return list(partitions)

    def on_topic_changed(self, topic):
        self.changes.append(topic)

    def put_topic_overrides(self, topic, overrides):
        assert overrides == {}
        self.forgotten.append(topic)


@pytest.fixture
def stubs():
    return Stubs()


@pytest.fixture
def metadata_cache():
    return MetadataCache()


@pytest.fixture
def channel(stubs, metadata_cache):
    return LocalControllerChannel(1, metadata_cache, stubs, stubs, on_resized=stubs.sizes.append)


def partition_state(topic_id=ONE, leader=1, leader_epoch=0, replicas=(1,)):
    return PartitionStateUpdate(topic_id, leader, leader_epoch, replicas, replicas, 0)


def live_broker(broker_epoch=5):
    return LiveBroker(
        BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),), 0), broker_epoch
    )


def metadata_update(states, brokers=(1,), deleted=()):
    return SendUpdateMetadata(
        [1], 1, {number: live_broker() for number in brokers}, states, frozenset(deleted)
    )


def send_all(channel, *messages):
    async def main():
        for message in messages:
            await channel.update_metadata(message)

    asyncio.run(main())


def test_leader_and_isr_partition_states_become_leaderships(channel, stubs):
    partition = TopicPartition("orders", 0)
    asyncio.run(channel.leader_and_isr(SendLeaderAndIsr(1, 1, {partition: partition_state(leader_epoch=4)})))
    assert stubs.received_states == {partition: (ONE, LeaderAndIsr(1, 4, (1,), (1,), 0))}
    assert stubs.new == set()


def test_offline_and_new_partitions_are_passed_on(channel, stubs, metadata_cache):
    new, broken = TopicPartition("orders", 0), TopicPartition("broken", 0)
    states = {new: partition_state()._replace(is_new=True), broken: partition_state(OTHER)}
    assert asyncio.run(channel.leader_and_isr(SendLeaderAndIsr(1, 1, states))) == [broken]
    assert stubs.new == {new}
    send_all(
        channel,
        metadata_update(
            {broken: partition_state(OTHER, replicas=(1, 2, 3))._replace(offline_replicas=(1,))},
            brokers=(1, 2),
        ),
    )
    shown = metadata_cache.partition("broken", 0)
    assert shown is not None
    assert shown.offline_replicas == (1, 3), "a failed disk, and a dead broker"


def test_stop_replica_returns_the_removed_partitions(channel, stubs):
    partitions = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    assert asyncio.run(channel.stop_replica(SendStopReplica(1, 1, partitions))) == list(partitions)


def test_topic_update_changes_the_metadata_cache_and_completes_waiting_requests(
    channel, stubs, metadata_cache
):
    send_all(channel, metadata_update({TopicPartition("orders", n): partition_state() for n in (1, 0)}))
    assert list(metadata_cache.topic("orders").partitions) == [0, 1]
    assert metadata_cache.topic("orders").topic_id == ONE
    assert metadata_cache.controller_id == 1
    assert metadata_cache.brokers[1].broker_epoch == 5
    assert stubs.changes == ["orders"]


def test_partition_update_keeps_the_other_partitions(channel, metadata_cache):
    first = metadata_update({TopicPartition("orders", n): partition_state() for n in (0, 1)})
    send_all(channel, first, metadata_update({TopicPartition("orders", 1): partition_state(leader_epoch=7)}))
    epochs = [partition.leader_epoch for partition in metadata_cache.topic("orders").partitions.values()]
    assert epochs == [0, 7]


def test_topic_with_another_id_replaces_the_old_topic(channel, metadata_cache):
    first = metadata_update({TopicPartition("orders", n): partition_state() for n in (0, 1)})
    send_all(channel, first, metadata_update({TopicPartition("orders", 0): partition_state(OTHER)}))
    assert list(metadata_cache.topic("orders").partitions) == [0]
    assert metadata_cache.name_of(ONE) is None
    assert metadata_cache.name_of(OTHER) == "orders"


def test_deleted_topic_leaves_metadata_cache_and_overrides(channel, stubs, metadata_cache):
    send_all(
        channel,
        metadata_update({TopicPartition("orders", 0): partition_state()}),
        metadata_update({}, deleted=["orders"]),
    )
    assert metadata_cache.topic("orders") is None
    assert stubs.forgotten == ["orders"]
    assert stubs.changes == ["orders", "orders"]


def test_broker_update_adds_and_removes_brokers(channel, metadata_cache):
    send_all(channel, metadata_update({}, brokers=(1, 2)), metadata_update({}, brokers=(1, 3)))
    assert set(metadata_cache.brokers) == {1, 3}


def test_replicas_on_dead_brokers_are_offline(channel, metadata_cache):
    send_all(
        channel,
        metadata_update({TopicPartition("orders", 0): partition_state(replicas=(1, 2, 3))}, brokers=(1, 3)),
    )
    assert metadata_cache.partition("orders", 0).offline_replicas == (2,)


def test_partition_count_is_reported_when_topics_change(channel, stubs):
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    stubs.received_states = {a: None, b: None}
    send_all(channel, metadata_update({a: partition_state(), b: partition_state()}))
    send_all(channel, metadata_update({}))
    stubs.removed = [a, b]
    send_all(channel, metadata_update({}, deleted=["t"]))
    assert stubs.sizes == [2, 0]
