"""The cluster as this broker knows it: brokers, topics, partitions, controller.

One ``MetadataCache`` lives as long as the broker; requests look things up in it. What it holds (a broker, a
topic with its partitions, a partition) never changes: news replaces an entry, so whoever holds one may keep
it and compares by identity. A ``MetadataUpdate`` costs what it brings: dictionary entries of brokers and
topics, and for changed partitions one copy of their topic's entry.

Invariants: a topic is found by name and by id or by neither; a broker is alive exactly while it is in
``brokers``; ``apply`` is the only writer, and does not wait, so that no request sees half a delta.
"""

from __future__ import annotations

from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.model.ids import NO_LEADER, ZERO_TOPIC_ID, TopicId

NO_CONTROLLER: Final = -1


class BrokerEndpoint(NamedTuple):
    """Where a broker is reached through one of its listeners."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """A live broker. ``endpoints`` by listener name."""

    id: int
    endpoints: Mapping[str, BrokerEndpoint]
    rack: str | None = None
    broker_epoch: int = -1


class PartitionMetadata(NamedTuple):
    """A partition as its controller decided. ``partition_epoch`` counts changes of leader and ISR."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    partition_epoch: int = 0


class TopicMetadata:
    """A topic. ``partitions`` by number, in the order of numbers; those not yet decided on are missing."""

    __slots__ = ("has_all_leaders", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, partitions: Mapping[int, PartitionMetadata]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: Mapping[int, PartitionMetadata] = dict(sorted(partitions.items()))
        self.has_all_leaders = all(each.leader != NO_LEADER for each in partitions.values())

    def with_partitions(self, changed: Sequence[PartitionMetadata]) -> TopicMetadata:
        """This topic with some partitions as they are now."""
        news = {each.partition: each for each in changed}
        return TopicMetadata(self.name, self.topic_id, {**self.partitions, **news})


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """What is new. None for a broker or a topic: it is gone. ``partitions`` are of topics already known."""

    brokers: Mapping[int, BrokerMetadata | None] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata | None] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[PartitionMetadata]] = field(default_factory=dict)
    controller_id: int | None = None


class MetadataCache:
    """What requests look things up in. Its dictionaries are for reading; ``apply`` changes them."""

    __slots__ = ("_by_id", "_nodes", "brokers", "change_count", "controller_id", "topics")

    def __init__(self) -> None:
        self.change_count = 0
        """Number of changes so far: what was derived from the image holds while this stays the same."""
        self.controller_id = NO_CONTROLLER
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._by_id: dict[TopicId, TopicMetadata] = {}
        self._nodes: dict[str, list[tuple[BrokerMetadata, BrokerEndpoint]]] = {}

    def snapshot(self) -> MetadataCache:
        """The image as it is now, for a reader that is not on the event loop."""
        copy = MetadataCache()
        copy.change_count = self.change_count
        copy.controller_id = self.controller_id
        copy.brokers = dict(self.brokers)
        copy.topics = dict(self.topics)
        copy._by_id = dict(self._by_id)
        copy._nodes = dict(self._nodes)
        return copy

    @property
    def alive_brokers(self) -> KeysView[int]:
        """Ids of the live brokers: a view that follows the image."""
        return self.brokers.keys()

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    def nodes(self, listener: str) -> Sequence[tuple[BrokerMetadata, BrokerEndpoint]]:
        """The live brokers that have this listener, by id, and where it is."""
        return self._nodes.get(listener, ())

    def topic(self, name: str) -> TopicMetadata | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: TopicId) -> TopicMetadata | None:
        return self._by_id.get(topic_id)

    def name_of(self, topic_id: TopicId) -> str | None:
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def apply(self, delta: MetadataUpdate) -> list[str]:
        """Take the news in; give the names of the topics they change.

        News of partitions whose topic is not known are passed over: it was deleted while they came.
        """
        self.change_count += 1
        if delta.controller_id is not None:
            self.controller_id = delta.controller_id
        if delta.brokers:
            self._apply_brokers(delta.brokers)
        changed: dict[str, None] = {}
        for name, topic in delta.topics.items():
            if topic is not None or name in self.topics:
                self._put_topic(name, topic)
                changed[name] = None
        for name, partitions in delta.partitions.items():
            known = self.topics.get(name)
            if known is not None and partitions:
                self._put_topic(name, known.with_partitions(partitions))
                changed[name] = None
        return list(changed)

    def _put_topic(self, name: str, topic: TopicMetadata | None) -> None:
        old = self.topics.pop(name, None) if topic is None else self.topics.get(name)
        if old is not None:
            self._by_id.pop(old.topic_id, None)
        if topic is not None:
            assert topic.name == name, f"topic {topic.name} put under the name {name}"
            self.topics[name] = topic
            if topic.topic_id != ZERO_TOPIC_ID:
                self._by_id[topic.topic_id] = topic

    def _apply_brokers(self, changed: Mapping[int, BrokerMetadata | None]) -> None:
        for broker_id, broker in changed.items():
            if broker is None:
                self.brokers.pop(broker_id, None)
            else:
                assert broker.id == broker_id, f"broker {broker.id} put under the id {broker_id}"
                self.brokers[broker_id] = broker
        self._nodes = {}
        for broker_id in sorted(self.brokers):
            broker = self.brokers[broker_id]
            for listener, endpoint in broker.endpoints.items():
                self._nodes.setdefault(listener, []).append((broker, endpoint))
