"""What the controller says, carried out on the broker it runs on."""

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


class Parts:
    """Stands for replicas and topics: keeps what they are told."""

    def __init__(self):
        self.obeyed, self.removed, self.changes, self.forgotten = {}, [], [], []
        self.sizes = []

    def __len__(self):
        return len(self.obeyed) - len(self.removed)

    async def become_leader_or_follower(self, orders, new):
        self.obeyed.update(orders)
        self.new = new
        return [partition for partition in orders if partition.topic == "broken"]

    def remove(self, partitions):
        self.removed += partitions
        return list(partitions)

    def changed(self, topic):
        self.changes.append(topic)

    def know_overrides(self, topic, overrides):
        assert overrides == {}
        self.forgotten.append(topic)


@pytest.fixture
def parts():
    return Parts()


@pytest.fixture
def image():
    return MetadataCache()


@pytest.fixture
def channel(parts, image):
    return LocalControllerChannel(1, image, parts, parts, on_resized=parts.sizes.append)


def order(topic_id=ONE, leader=1, leader_epoch=0, replicas=(1,)):
    return PartitionStateUpdate(topic_id, leader, leader_epoch, replicas, replicas, 0)


def live(broker_epoch=5):
    return LiveBroker(
        BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "host", 9092),), 0), broker_epoch
    )


def news(orders, brokers=(1,), gone=()):
    return SendUpdateMetadata([1], 1, {number: live() for number in brokers}, orders, frozenset(gone))


def tell(channel, *messages):
    async def main():
        for message in messages:
            await channel.update_metadata(message)

    asyncio.run(main())


def test_orders_become_leaderships(channel, parts):
    partition = TopicPartition("orders", 0)
    asyncio.run(channel.leader_and_isr(SendLeaderAndIsr(1, 1, {partition: order(leader_epoch=4)})))
    assert parts.obeyed == {partition: (ONE, LeaderAndIsr(1, 4, (1,), (1,), 0))}
    assert parts.new == set()


def test_what_is_offline_and_what_is_new_is_passed_on(channel, parts, image):
    new, broken = TopicPartition("orders", 0), TopicPartition("broken", 0)
    orders = {new: order()._replace(is_new=True), broken: order(OTHER)}
    assert asyncio.run(channel.leader_and_isr(SendLeaderAndIsr(1, 1, orders))) == [broken]
    assert parts.new == {new}
    tell(
        channel,
        news({broken: order(OTHER, replicas=(1, 2, 3))._replace(offline_replicas=(1,))}, brokers=(1, 2)),
    )
    shown = image.partition("broken", 0)
    assert shown is not None
    assert shown.offline_replicas == (1, 3), "a failed disk, and a broker that is gone"


def test_stopping_gives_what_was_removed(channel, parts):
    partitions = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    assert asyncio.run(channel.stop_replica(SendStopReplica(1, 1, partitions))) == list(partitions)


def test_news_of_a_topic_show_in_the_image_and_wake_who_waits(channel, parts, image):
    tell(channel, news({TopicPartition("orders", n): order() for n in (1, 0)}))
    assert list(image.topic("orders").partitions) == [0, 1]
    assert image.topic("orders").topic_id == ONE
    assert image.controller_id == 1
    assert image.brokers[1].broker_epoch == 5
    assert parts.changes == ["orders"]


def test_news_of_some_partitions_leave_the_others(channel, image):
    first = news({TopicPartition("orders", n): order() for n in (0, 1)})
    tell(channel, first, news({TopicPartition("orders", 1): order(leader_epoch=7)}))
    epochs = [one.leader_epoch for one in image.topic("orders").partitions.values()]
    assert epochs == [0, 7]


def test_a_topic_with_another_id_replaces_the_old_one_whole(channel, image):
    first = news({TopicPartition("orders", n): order() for n in (0, 1)})
    tell(channel, first, news({TopicPartition("orders", 0): order(OTHER)}))
    assert list(image.topic("orders").partitions) == [0]
    assert image.name_of(ONE) is None
    assert image.name_of(OTHER) == "orders"


def test_a_topic_that_is_gone_leaves_image_and_settings(channel, parts, image):
    tell(channel, news({TopicPartition("orders", 0): order()}), news({}, gone=["orders"]))
    assert image.topic("orders") is None
    assert parts.forgotten == ["orders"]
    assert parts.changes == ["orders", "orders"]


def test_brokers_come_and_go(channel, image):
    tell(channel, news({}, brokers=(1, 2)), news({}, brokers=(1, 3)))
    assert set(image.brokers) == {1, 3}


def test_replicas_on_brokers_that_are_gone_are_offline(channel, image):
    tell(channel, news({TopicPartition("orders", 0): order(replicas=(1, 2, 3))}, brokers=(1, 3)))
    assert image.partition("orders", 0).offline_replicas == (2,)


def test_the_number_of_partitions_is_told_when_it_may_have_changed(channel, parts):
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    parts.obeyed = {a: None, b: None}
    tell(channel, news({a: order(), b: order()}))
    tell(channel, news({}))
    parts.removed = [a, b]
    tell(channel, news({}, gone=["t"]))
    assert parts.sizes == [2, 0]
