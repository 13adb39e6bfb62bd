"""Log lines about refused batches and frames: some, and a bounded number."""

import logging

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE = 0
LINES_MAX = 5


@pytest.fixture
def lines(caplog):
    """The lines of an event."""
    caplog.set_level(logging.INFO, "odradek")

    def of(event):
        return [one.getMessage() for one in caplog.records if one.getMessage().startswith(f"{event} ")]

    return of


async def _send(town, batch, topic="orders"):
    data = [TopicProduceData(topic, [PartitionProduceData(0, bytearray(batch))])]
    response = await town.ask(PRODUCE, 9, ProduceRequest(None, -1, 30_000, data))
    return response.responses[0].partition_responses[0].error_code


def test_refused_batches_leave_a_few_lines_with_where_they_came_from(play, make_batch, lines):
    async def scenario(town):
        await town.create("orders")
        bad = make_batch(b"x")
        bad[-1] ^= 1
        for _ in range(50):
            assert await _send(town, bad) == ErrorCode.CORRUPT_MESSAGE
        said = lines("produce.batch_rejected")
        assert len(said) == LINES_MAX
        assert "partition=orders-0 error=CORRUPT_MESSAGE client_id=client peer=client:" in said[0]
        await town.cluster.clock.sleep_ms(60_000)
        await _send(town, bad)
        assert f"suppressed={50 - LINES_MAX}" in lines("produce.batch_rejected")[-1]

    play(scenario)


def test_each_reason_has_its_own_lines(play, make_batch, lines):
    async def scenario(town):
        await town.create("orders", settings={"max.message.bytes": "100"})
        bad = make_batch(b"x")
        bad[-1] ^= 1
        for batch in (bad, make_batch(bytes(500))):
            for _ in range(20):
                await _send(town, batch)
        said = lines("produce.batch_rejected")
        assert sum("CORRUPT_MESSAGE" in line for line in said) == LINES_MAX
        assert sum("MESSAGE_TOO_LARGE" in line for line in said) == LINES_MAX

    play(scenario)


def test_clients_that_look_for_the_leader_leave_no_line(play, make_batch, lines):
    async def scenario(town):
        for _ in range(3):
            assert await _send(town, make_batch(b"x"), "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lines("produce.batch_rejected") == []

    play(scenario)


def test_garbage_frames_leave_a_few_lines(play, lines):
    async def scenario(town):
        for number in range(30):
            client = await town.memory.connect()
            client.send_bytes(b"\xff\xff\xff\xff" + b"garbage %d" % number)
            await client.lost
        assert len(lines("session.connection_closed")) == LINES_MAX

    play(scenario)
