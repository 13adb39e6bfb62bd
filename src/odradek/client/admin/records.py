"""Records: deleted up to an offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import LEADER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_leader, by_topic
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

ALL_RECORDS: Final = -1
"""In place of an offset: all records that consumers can see."""


class RecordsApi(AdminApi):
    """The records of ``Admin``."""

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (or ``ALL_RECORDS``); gives where each partition now begins.

        >>> from odradek import ALL_RECORDS, Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["emptied"])
        >>> admin.delete_records({TopicPartition("emptied", 0): ALL_RECORDS})[TopicPartition("emptied", 0)]
        0
        >>> admin.close()
        """

        def request(partitions: Sequence[TopicPartition], timeout_ms: int) -> DeleteRecordsRequest:
            topics = [
                DeleteRecordsTopic(
                    topic,
                    [DeleteRecordsPartition(one, before[TopicPartition(topic, one)]) for one in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ]
            return DeleteRecordsRequest(topics, timeout_ms)

        def read(
            partitions: Sequence[TopicPartition], answer: DeleteRecordsResponse
        ) -> Iterable[tuple[TopicPartition, int | ApiError]]:
            for topic in answer.topics:
                for one in topic.partitions:
                    code = ErrorCode(one.error_code)
                    yield (
                        TopicPartition(topic.name, one.partition_index),
                        ApiError(code) if code else one.low_watermark,
                    )

        work: AdminApiHandler[TopicPartition, int] = AdminApiHandler(
            what="delete records",
            name=lambda partition: f"partition {partition}",
            route=at_leader(lambda partition: partition),
            request=request,
            read=read,
            again=LEADER_MOVED,
        )
        return await self._driver.run(work, before, timeout_s)
