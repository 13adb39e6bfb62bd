"""Lookup of coordinators: the leader of the partition of an internal topic that a key hashes to.

The topic is created by the first lookup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.topics.admin import AdminManager
from odradek.broker.topics.auto_topic_creation import AutoTopicCreation
from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache, TopicMetadata
from odradek.coordinators.partitioning import partition_of
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId
from odradek.replication.control_requests import MetadataChange
from odradek.store.port import StoreError
from odradek.telemetry import events

log = events.logger("coordinator_topic")


class _PinnedCount(NamedTuple):
    """Number of partitions of a topic; its id is None in a cluster that does not use topic ids yet."""

    topic_id: TopicId | None
    partition_count: int


class CoordinatorTopic:
    """Internal topic whose partition leaders are coordinators; ``partition_count`` applies until it exists.

    The count of an existing topic is that of its assignment in the store, read once and kept for the lifetime
    of the topic: with another one, keys would be looked up in partitions that do not hold them. Metadata does
    not tell it, because partitions without a leader so far are missing there. It serves only until the store
    is read, and only if it has exactly the configured number of partitions.
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
        self._admin_manager = admin_manager
        self._partition_count = partition_count
        self._pinned: _PinnedCount | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._creation = AutoTopicCreation(name, admin_manager.create_internal_topic)

    async def stop(self) -> None:
        self._is_stopped = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._creation.stop()

    # The number of partitions.

    def partition_of(self, key: str) -> int:
        """Return the partition that a key belongs to.

        Raises COORDINATOR_NOT_AVAILABLE while the number of partitions is not known.
        """
        return partition_of(key, self._count())

    def on_metadata_change(self, change: MetadataChange) -> None:
        """Read the number of partitions of a topic that has just appeared, before it is asked for."""
        if self._name in change.topics and (topic := self._metadata_cache.topic(self._name)) is not None:
            self._find_pinned(topic)

    def _count(self) -> int:
        topic = self._metadata_cache.topic(self._name)
        if topic is None:
            return self._partition_count()
        pinned = self._find_pinned(topic)
        if pinned is not None:
            return pinned.partition_count
        configured = self._partition_count()
        if len(topic.partitions) != configured or max(topic.partitions) != configured - 1:
            raise BrokerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partitions of {self._name} are not known yet"
            )
        return configured

    def _find_pinned(self, topic: TopicMetadata) -> _PinnedCount | None:
        """Return the count of this topic; if there is none, start to read it."""
        pinned = self._pinned
        if pinned is not None and (
            pinned.topic_id is None or topic.topic_id in (pinned.topic_id, ZERO_TOPIC_ID)
        ):
            return pinned
        if self._reading is None and not self._is_stopped:
            self._reading = asyncio.get_running_loop().create_task(self._read_count())
        return None

    async def _read_count(self) -> None:
        try:
            assignment = await self._admin_manager.read_assignment(self._name)
        except StoreError as error:
            log.warning("partition_count_unknown", topic=self._name, reason=str(error))
            return  # the next request tries again
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("partition_count_read_crashed", error, topic=self._name)
            return
        finally:
            self._reading = None
        if assignment is not None:
            self._pinned = _PinnedCount(assignment.topic_id, len(assignment.partitions))

    # The coordinator of a key.

    def leader_of(self, key: str) -> BrokerMetadata | None:
        """Return the live broker that leads the partition of a key, if there is one."""
        partition = self._metadata_cache.partition(self._name, self.partition_of(key))
        return None if partition is None else self._metadata_cache.brokers.get(partition.leader)

    def coordinator_of(self, key: str, listener: str) -> tuple[BrokerMetadata, BrokerEndpoint]:
        """Return the coordinator of a key and its endpoint for ``listener``.

        Raises COORDINATOR_NOT_AVAILABLE while there is none; a missing topic is created in the background.
        """
        if self._metadata_cache.topic(self._name) is None:
            self._creation.ensure_created()
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} is being created")
        broker = self.leader_of(key)
        if broker is None or listener not in broker.endpoints:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker, broker.endpoints[listener]
