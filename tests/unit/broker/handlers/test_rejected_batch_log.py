"""Log lines of rejected batches and invalid frames are rate-limited."""

import logging

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE = 0
LINES_MAX = 5


@pytest.fixture
def lines(caplog):
    """Return the log lines of an event."""
    caplog.set_level(logging.INFO, "odradek")

    def of(event):
        return [
            record.getMessage() for record in caplog.records if record.getMessage().startswith(f"{event} ")
        ]

    return of


async def _send(harness, batch, topic="orders"):
    data = [TopicProduceData(topic, [PartitionProduceData(0, bytearray(batch))])]
    response = await harness.request(PRODUCE, 9, ProduceRequest(None, -1, 30_000, data))
    return response.responses[0].partition_responses[0].error_code


def test_rejected_batches_are_logged_with_client_and_peer_a_bounded_number_of_times(
    run_scenario, make_batch, lines
):
    async def scenario(harness):
        await harness.create("orders")
        bad = make_batch(b"x")
        bad[-1] ^= 1
        for _ in range(50):
            assert await _send(harness, bad) == ErrorCode.CORRUPT_MESSAGE
        said = lines("produce.batch_rejected")
        assert len(said) == LINES_MAX
        assert "partition=orders-0 error=CORRUPT_MESSAGE client_id=client peer=client:" in said[0]
        await harness.cluster.clock.sleep_ms(60_000)
        await _send(harness, bad)
        assert f"suppressed={50 - LINES_MAX}" in lines("produce.batch_rejected")[-1]

    run_scenario(scenario)


def test_each_error_code_has_its_own_log_limit(run_scenario, make_batch, lines):
    async def scenario(harness):
        await harness.create("orders", settings={"max.message.bytes": "100"})
        bad = make_batch(b"x")
        bad[-1] ^= 1
        for batch in (bad, make_batch(bytes(500))):
            for _ in range(20):
                await _send(harness, batch)
        said = lines("produce.batch_rejected")
        assert sum("CORRUPT_MESSAGE" in line for line in said) == LINES_MAX
        assert sum("MESSAGE_TOO_LARGE" in line for line in said) == LINES_MAX

    run_scenario(scenario)


def test_routine_errors_are_not_logged(run_scenario, make_batch, lines):
    async def scenario(harness):
        for _ in range(3):
            assert await _send(harness, make_batch(b"x"), "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lines("produce.batch_rejected") == []

    run_scenario(scenario)


def test_invalid_frames_are_logged_a_bounded_number_of_times(run_scenario, lines):
    async def scenario(harness):
        for number in range(30):
            client = await harness.memory_broker.connect()
            client.send_bytes(b"\xff\xff\xff\xff" + b"garbage %d" % number)
            await client.lost
        assert len(lines("session.connection_closed")) == LINES_MAX

    run_scenario(scenario)
