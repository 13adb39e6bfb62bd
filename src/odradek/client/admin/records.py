"""Admin API to delete records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.client.admin.api_driver import AdminApi
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
"""Instead of an offset: all records up to the high watermark."""


class RecordsApi(AdminApi):
    """Record methods of ``Admin``."""

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (or ``ALL_RECORDS``); return the new low watermarks.

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
                    [
                        DeleteRecordsPartition(number, before[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ]
            return DeleteRecordsRequest(topics, timeout_ms)

        def read(
            partitions: Sequence[TopicPartition], response: DeleteRecordsResponse
        ) -> Iterable[tuple[TopicPartition, int | ApiError]]:
            for topic in response.topics:
                for entry in topic.partitions:
                    code = ErrorCode(entry.error_code)
                    yield (
                        TopicPartition(topic.name, entry.partition_index),
                        ApiError(code) if code else entry.low_watermark,
                    )

        handler: AdminApiHandler[TopicPartition, int] = AdminApiHandler(
            call="delete records",
            key_name=lambda partition: f"partition {partition}",
            lookup=at_leader(lambda partition: partition),
            build_request=request,
            read_response=read,
            retry_codes=LEADER_MOVED,
        )
        return await self._driver.run(handler, before, timeout_s)
