"""The file ``partition.metadata`` of a log: the id of its topic."""

from __future__ import annotations

from odradek.log.checkpoints import PARTITION_METADATA, encode_partition_metadata, read_partition_metadata
from odradek.log.disk_health import DiskHealth
from odradek.log.segments.log_segment import SegmentContext
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicId, TopicPartition


class PartitionMetadataFile:
    __slots__ = ("_context", "_disk_health", "_topic_id", "_topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, context: SegmentContext, disk_health: DiskHealth
    ) -> None:
        self._topic_partition = topic_partition
        self._context = context
        self._disk_health = disk_health
        self._topic_id: TopicId | None = None

    @property
    def topic_id(self) -> TopicId | None:
        """Topic id from ``partition.metadata``, if there is one."""
        if self._topic_id is None:
            path = f"{self._context.directory}/{PARTITION_METADATA}"
            try:
                self._topic_id = read_partition_metadata(self._context.files, path)
            except OSError as error:
                raise self._disk_health.error_for(error, "read") from error
        return self._topic_id

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Write the topic id; raises INCONSISTENT_TOPIC_ID if the log has another one. Blocks."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"the log of {self._topic_partition} belongs to another topic id",
            )
        path = f"{self._context.directory}/{PARTITION_METADATA}"
        try:
            self._context.files.write_whole(path, encode_partition_metadata(topic_id))
        except OSError as error:
            raise self._disk_health.error_for(error, "write") from error
        self._topic_id = topic_id
