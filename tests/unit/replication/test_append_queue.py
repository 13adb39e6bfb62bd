"""Queued appends."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.append_queue import AppendQueue, QueuedAppend
from odradek.testing.workers import InlineWorkers


class Partition:
    """Records appended batches."""

    topic_partition = "orders-0"

    def __init__(self):
        self.queued_appends = 0
        self.appended = []

    def append(self, records, acks, produce_version, now_ms):
        self.appended.append(bytes(records))
        return len(self.appended)


def reject():
    raise BrokerError(ErrorCode.INVALID_TXN_STATE)


@pytest.mark.sources
def test_queued_append_is_checked_again_before_appending():
    async def main():
        partition: Any = Partition()
        results: list[Any] = []
        clock: Any = SimpleNamespace(wall_ms=lambda: 0)
        queue = AppendQueue(InlineWorkers(), clock)
        for records, check in ((b"a", lambda: None), (b"b", reject), (b"c", lambda: None)):
            queue.add(partition, "connection", QueuedAppend(records, 1, 9, check, results.append))
        assert queue.has(partition, "connection")
        await queue.drain()
        assert partition.appended == [b"a", b"c"]
        assert (results[0], results[1].code, results[2]) == (1, ErrorCode.INVALID_TXN_STATE, 2)
        assert (partition.queued_appends, queue.has(partition, "connection")) == (0, False)

    asyncio.run(main())
