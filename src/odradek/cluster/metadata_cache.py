"""The metadata cache of a broker: live brokers, topics, partitions and the controller.

One ``MetadataCache`` lives as long as the broker. Its values (a broker, a topic with its partitions, a
partition) are immutable: an update replaces them, so they can be kept and compared by identity. The cost of
a ``MetadataUpdate`` is proportional to its size: dictionary entries of brokers and topics, and one copy of
the topic for changed partitions.

Invariants: a topic is found both by name and by id or by neither; a broker is alive exactly while it is in
``brokers``; ``apply`` is the only writer and does not await, so no request sees a partial update.
"""

from __future__ import annotations

from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.model.ids import NO_LEADER, ZERO_TOPIC_ID, TopicId

NO_CONTROLLER: Final = -1


class BrokerEndpoint(NamedTuple):
    """Address of one listener of a broker."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """A live broker. ``endpoints`` by listener name."""

    id: int
    endpoints: Mapping[str, BrokerEndpoint]
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """A partition's leader and ISR. ``partition_epoch`` counts changes of them."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    partition_epoch: int = 0


class TopicMetadata:
    """A topic. ``partitions`` are ordered by number; those without a leader decision yet are missing."""

    __slots__ = ("has_all_leaders", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, partitions: Mapping[int, PartitionMetadata]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: Mapping[int, PartitionMetadata] = dict(sorted(partitions.items()))
        self.has_all_leaders = all(partition.leader != NO_LEADER for partition in partitions.values())

    def with_partitions(self, changed: Sequence[PartitionMetadata]) -> TopicMetadata:
        """Return this topic with some partitions replaced."""
        updated = {partition.partition: partition for partition in changed}
        return TopicMetadata(self.name, self.topic_id, {**self.partitions, **updated})


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """Changes to the cache; None for a dead broker or a deleted topic. ``partitions`` are of known topics."""

    brokers: Mapping[int, BrokerMetadata | None] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata | None] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[PartitionMetadata]] = field(default_factory=dict)
    controller_id: int | None = None


class MetadataCache:
    """Cluster metadata for request handlers. Its dictionaries are read-only; ``apply`` updates them."""

    __slots__ = ("_by_id", "_nodes", "brokers", "change_count", "controller_id", "topics")

    def __init__(self) -> None:
        self.change_count = 0
        """Number of updates so far: derived values are valid while it stays the same."""
        self.controller_id = NO_CONTROLLER
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._by_id: dict[TopicId, TopicMetadata] = {}
        self._nodes: dict[str, list[tuple[BrokerMetadata, BrokerEndpoint]]] = {}

    def snapshot(self) -> MetadataCache:
        """Return a copy, for a reader off the event loop."""
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
        """Ids of the live brokers, as a view of the cache."""
        return self.brokers.keys()

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    def nodes(self, listener: str) -> Sequence[tuple[BrokerMetadata, BrokerEndpoint]]:
        """Return the live brokers with this listener, ordered by id, with their endpoints."""
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
        """Apply an update; return the names of changed topics.

        Updates of partitions of unknown topics are ignored: the topic was deleted meanwhile.
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
            assert topic.name == name, f"topic {topic.name} under key {name}"
            self.topics[name] = topic
            if topic.topic_id != ZERO_TOPIC_ID:
                self._by_id[topic.topic_id] = topic

    def _apply_brokers(self, changed: Mapping[int, BrokerMetadata | None]) -> None:
        for broker_id, broker in changed.items():
            if broker is None:
                self.brokers.pop(broker_id, None)
            else:
                assert broker.id == broker_id, f"broker {broker.id} under key {broker_id}"
                self.brokers[broker_id] = broker
        self._nodes = {}
        for broker_id in sorted(self.brokers):
            broker = self.brokers[broker_id]
            for listener, endpoint in broker.endpoints.items():
                self._nodes.setdefault(listener, []).append((broker, endpoint))
