"""Lookup of coordinators: the leader of the partition of an internal topic that a key hashes to.

The topic is created by the first lookup.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.topics.admin import AdminManager
from odradek.broker.topics.auto_topic_creation import AutoTopicCreation
from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache
from odradek.coordinators.partitioning import partition_of
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicId


class CoordinatorTopic:
    """Internal topic whose partition leaders are coordinators; ``partition_count`` applies until it exists.

    The count of an existing topic is fixed at its first use for the lifetime of the topic: with another one,
    keys would be looked up in partitions that do not hold them.
    """

    def __init__(
        self,
        name: str,
        metadata_cache: MetadataCache,
        admin_manager: AdminManager,
        partition_count: Callable[[], int],
    ) -> None:
        self._name = name
        self._metadata_cache = metadata_cache
        self._partition_count = partition_count
        self._fixed_count: tuple[TopicId, int] | None = None
        self._creation = AutoTopicCreation(name, admin_manager.create_internal_topic)

    async def stop(self) -> None:
        await self._creation.stop()

    def partition_of(self, key: str) -> int:
        """Return the partition that a key belongs to."""
        return partition_of(key, self._count())

    def _count(self) -> int:
        topic = self._metadata_cache.topic(self._name)
        if topic is None:
            return self._partition_count()
        if self._fixed_count is None or self._fixed_count[0] != topic.topic_id:
            self._fixed_count = (topic.topic_id, len(topic.partitions))
        return self._fixed_count[1]

    def coordinator_of(self, key: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """Return the coordinator of a key and its endpoint for ``listener``.

        Raises COORDINATOR_NOT_AVAILABLE while there is none; a missing topic is created in the background.
        """
        if self._metadata_cache.topic(self._name) is None:
            self._creation.ensure_created()
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} is being created")
        partition = self._metadata_cache.partition(self._name, self.partition_of(key))
        broker = None if partition is None else self._metadata_cache.brokers.get(partition.leader)
        if broker is None or listener not in broker.endpoints:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker, broker.endpoints[listener]
