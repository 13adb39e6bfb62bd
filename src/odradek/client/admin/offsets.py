"""OffsetsApi of partitions: where they begin and end, and what was written at a time."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import LEADER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_leader, by_topic
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


class OffsetSpec(enum.IntEnum):
    """Which offset is meant, where it is not the first at or after a time in milliseconds."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp (brokers from 3.0 on)."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


_VERSION_MIN: Final[Mapping[int, int]] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}


class OffsetsApi(AdminApi):
    """The offsets of ``Admin``."""

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_UNCOMMITTED,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """One offset per partition: an ``OffsetSpec``, or the first at or after a time in milliseconds.

        The offset is -1 where there is none: no record so late, or none at all.

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
            needed = max(_VERSION_MIN.get(wanted[one], 0) for one in partitions)
            asked = [
                ListOffsetsTopic(topic, [_asked(one, wanted[TopicPartition(topic, one)]) for one in numbers])
                for topic, numbers in by_topic(partitions).items()
            ]

            def build(version: int) -> ListOffsetsRequest:
                if version < needed:
                    # It would take the special number for a time.
                    raise UnsupportedVersion(f"ListOffsets of version {needed} is needed, not {version}")
                return ListOffsetsRequest(_CONSUMER, level, asked)

            return RequestBuilder(ListOffsetsRequest, build)

        work: AdminApiHandler[TopicPartition, OffsetAndTimestamp] = AdminApiHandler(
            what="list offsets",
            name=lambda partition: f"partition {partition}",
            route=at_leader(lambda partition: partition),
            request=request,
            read=_read,
            again=LEADER_MOVED,
        )
        return await self._driver.run(work, wanted, timeout_s)


def _asked(partition: int, timestamp: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition, timestamp=timestamp)


def _level(given: IsolationLevel | str) -> IsolationLevel:
    return IsolationLevel[given.upper()] if isinstance(given, str) else given


def _read(
    partitions: Sequence[TopicPartition], answer: ListOffsetsResponse
) -> Iterable[tuple[TopicPartition, OffsetAndTimestamp | ApiError]]:
    for topic in answer.topics:
        for one in topic.partitions:
            code = ErrorCode(one.error_code)
            yield (
                TopicPartition(topic.name, one.partition_index),
                ApiError(code) if code else OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch),
            )
