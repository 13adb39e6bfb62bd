"""Effects of metadata updates on other parts of the broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.broker.topics.admin import AdminManager
from odradek.model.ids import TopicPartition
from odradek.replication.control_requests import MetadataChange
from odradek.replication.replica_manager import ReplicaManager


def observe_metadata(
    replica_manager: ReplicaManager,
    admin_manager: AdminManager,
    on_deleted: Callable[[Sequence[TopicPartition]], None] = lambda _: None,
    on_resized: Callable[[int], None] = lambda _: None,
) -> None:
    """Complete requests that wait for topics, and forget deleted ones, at every metadata update.

    ``on_deleted`` gets the partitions of deleted topics, ``on_resized`` the number of local partitions.
    """

    def on_change(change: MetadataChange) -> None:
        for topic in change.topics:
            admin_manager.on_topic_changed(topic)
        for topic in change.deleted_topics:
            admin_manager.put_topic_overrides(topic, {})
        on_deleted(change.deleted_partitions)
        if change.topics:
            on_resized(len(replica_manager))

    replica_manager.state_changes.metadata_observers.append(on_change)
