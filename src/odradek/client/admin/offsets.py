"""Admin API of the offsets of partitions: earliest, latest, by timestamp, log end of each replica."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import LEADER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.log_dirs import Replica
from odradek.client.admin.lookup_strategies import at_broker, at_leader, by_topic
from odradek.client.values import OffsetAndTimestamp
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import IsolationLevel
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CONSUMER: Final = -1
_DEBUGGING_CONSUMER: Final = -2
"""Replica id for which followers respond, too, with their log end offset."""


class OffsetSpec(enum.IntEnum):
    """Special offsets, instead of the first at or after a timestamp in milliseconds."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp (brokers since 3.0)."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


_VERSION_MIN: Final[Mapping[int, int]] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}


class OffsetsApi(AdminApi):
    """Offset methods of ``Admin``."""

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_UNCOMMITTED,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return one offset per partition: an ``OffsetSpec``, or the first at or after a timestamp in
        milliseconds.

        The offset is -1 if there is no such record.

        >>> from odradek import Admin, OffsetSpec, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["measured"])
        >>> measured = TopicPartition("measured", 0)
        >>> admin.list_offsets({measured: OffsetSpec.LATEST})[measured].offset
        0
        >>> admin.close()
        """
        level = _level(isolation_level)

        def request(partitions: Sequence[TopicPartition], timeout_ms: int) -> RequestBuilder:
            version_min = max(_VERSION_MIN.get(wanted[partition], 0) for partition in partitions)
            topics = [
                ListOffsetsTopic(
                    topic,
                    [
                        ListOffsetsPartition(number, timestamp=wanted[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ]

            def build(version: int) -> ListOffsetsRequest:
                if version < version_min:
                    # The broker would take the special offset for a timestamp.
                    raise UnsupportedVersion(f"ListOffsets version {version_min} required, got {version}")
                return ListOffsetsRequest(_CONSUMER, level, topics)

            return RequestBuilder(ListOffsetsRequest, build)

        handler: AdminApiHandler[TopicPartition, OffsetAndTimestamp] = AdminApiHandler(
            call="list offsets",
            key_name=lambda partition: f"partition {partition}",
            lookup=at_leader(lambda partition: partition),
            build_request=request,
            read_response=_read,
            retry_codes=LEADER_MOVED,
        )
        return await self._driver.run(handler, wanted, timeout_s)

    async def list_log_end_offsets(
        self, replicas: Iterable[Replica], *, timeout_s: float | None = None
    ) -> dict[Replica, int]:
        """Return the log end offset of replicas, each from its own broker: a follower's lag is the
        difference to its leader's.

        >>> from odradek import Admin, Replica
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["followed"])
        >>> replica = Replica("followed", 0, broker=admin.describe_cluster().nodes[0].id)
        >>> admin.list_log_end_offsets([replica])[replica]
        0
        >>> admin.close()
        """
        return await self._driver.run(_log_end_offsets(), replicas, timeout_s)


def _log_end_offsets() -> AdminApiHandler[Replica, int]:
    def request(replicas: Sequence[Replica], timeout_ms: int) -> ListOffsetsRequest:
        partitions = by_topic(TopicPartition(replica.topic, replica.partition) for replica in replicas)
        topics = [
            ListOffsetsTopic(
                topic, [ListOffsetsPartition(number, timestamp=OffsetSpec.LATEST) for number in numbers]
            )
            for topic, numbers in partitions.items()
        ]
        return ListOffsetsRequest(_DEBUGGING_CONSUMER, IsolationLevel.READ_UNCOMMITTED, topics)

    def read(
        replicas: Sequence[Replica], response: ListOffsetsResponse
    ) -> Iterable[tuple[Replica, int | ApiError]]:
        partitions = [TopicPartition(replica.topic, replica.partition) for replica in replicas]
        for partition, result in _read(partitions, response):
            offset = result if isinstance(result, ApiError) else result.offset
            yield Replica(partition.topic, partition.partition, replicas[0].broker), offset

    return AdminApiHandler(
        call="list log end offsets",
        key_name=str,
        lookup=at_broker(lambda replica: replica.broker),
        build_request=request,
        read_response=read,
    )


def _level(level: IsolationLevel | str) -> IsolationLevel:
    return IsolationLevel[level.upper()] if isinstance(level, str) else level


def _read(
    partitions: Sequence[TopicPartition], response: ListOffsetsResponse
) -> Iterable[tuple[TopicPartition, OffsetAndTimestamp | ApiError]]:
    for topic in response.topics:
        for entry in topic.partitions:
            code = ErrorCode(entry.error_code)
            yield (
                TopicPartition(topic.name, entry.partition_index),
                ApiError(code)
                if code
                else OffsetAndTimestamp(entry.offset, entry.timestamp, entry.leader_epoch),
            )
