"""Appends that wait for their turn are checked when it comes."""

import asyncio
from types import SimpleNamespace

from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.append_queue import AppendQueue, QueuedAppend
from odradek.testing.workers import InlineWorkers


class Partition:
    """Keeps what is appended to it."""

    topic_partition = "orders-0"

    def __init__(self):
        self.queued_appends = 0
        self.appended = []

    def append(self, records, acks, produce_version, now_ms):
        self.appended.append(bytes(records))
        return len(self.appended)


def refuse():
    raise BrokerError(ErrorCode.INVALID_TXN_STATE)


def test_what_must_not_be_appended_any_more_when_its_turn_comes_is_refused():
    async def main():
        partition, told = Partition(), []
        queue = AppendQueue(InlineWorkers(), SimpleNamespace(wall_ms=lambda: 0))
        for records, check in ((b"a", lambda: None), (b"b", refuse), (b"c", lambda: None)):
            queue.add(partition, "connection", QueuedAppend(records, 1, 9, check, told.append))
        assert queue.has(partition, "connection")
        await queue.settle()
        assert partition.appended == [b"a", b"c"]
        assert (told[0], told[1].code, told[2]) == (1, ErrorCode.INVALID_TXN_STATE, 2)
        assert (partition.queued_appends, queue.has(partition, "connection")) == (0, False)

    asyncio.run(main())
