"""An internal topic whose partitions are coordinated by their leaders: where an identifier belongs, and who
looks after it.

The topic is made when the coordinator of an identifier is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.topics.admin import Topics
from odradek.broker.topics.auto_topic_creation import OwnTopic
from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache
from odradek.coordinators.partitioning import partition_of
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicId


class CoordinatedTopic:
    """``partition_count`` holds for a topic that is still to be made.

    Of a topic that is there, the count it had when it was first used holds for as long as the topic lives:
    with another one, identifiers would be looked for in partitions that do not hold them.
    """

    def __init__(
        self, name: str, image: MetadataCache, topics: Topics, partition_count: Callable[[], int]
    ) -> None:
        self._name = name
        self._image = image
        self._partition_count = partition_count
        self._pinned: tuple[TopicId, int] | None = None
        self._own = OwnTopic(name, topics.create_internal)

    async def stop(self) -> None:
        await self._own.stop()

    def partition_of(self, identifier: str) -> int:
        """The partition that an identifier belongs to."""
        return partition_of(identifier, self._count())

    def _count(self) -> int:
        topic = self._image.topic(self._name)
        if topic is None:
            return self._partition_count()
        if self._pinned is None or self._pinned[0] != topic.topic_id:
            self._pinned = (topic.topic_id, len(topic.partitions))
        return self._pinned[1]

    def coordinator_of(self, identifier: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """The broker that coordinates an identifier, and where clients of this listener reach it.

        While there is none: COORDINATOR_NOT_AVAILABLE; the topic is made if it is missing.
        """
        if self._image.topic(self._name) is None:
            self._own.need()
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} is being made")
        partition = self._image.partition(self._name, self.partition_of(identifier))
        broker = None if partition is None else self._image.brokers.get(partition.leader)
        if broker is None or listener not in broker.endpoints:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker, broker.endpoints[listener]
