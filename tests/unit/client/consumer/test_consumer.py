"""The consumer against a broker on virtual time: polls, seeks, resets, errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.simulation.consumer_fixture import (
    COMPRESSIONS,
    DELETE_RECORDS,
    ConsumerFixture,
    play,
    read_some,
    values_of,
)

from odradek.client.consumer.fetch.buffer import COMPLETED_FETCHES_MAX
from odradek.client.interceptors import ConsumerInterceptor
from odradek.client.values import OffsetAndMetadata, OffsetAndTimestamp
from odradek.model.client_errors import (
    ClientClosed,
    ConcurrentUse,
    InvalidState,
    NoOffset,
    OffsetOutOfRange,
    RequestRefused,
    SerializationFailed,
    TimedOut,
    UnknownTopic,
    WakeupError,
)
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import Compression
from odradek.records.client.consumer import ConsumerRecord
from odradek.testing.clock import WALL_START_MS
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

A0, A1, A2 = (TopicPartition("a", index) for index in range(3))
MISSING = TopicPartition("missing", 0)


def test_records_are_complete_and_in_order() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        for start in range(0, 100, 10):
            await fixture.write(A0, *(b"%d" % index for index in range(start, start + 10)))
        records = await read_some(fixture.reader(A0), 100)
        assert [record.offset for record in records] == list(range(100))
        assert values_of(records) == [b"%d" % index for index in range(100)]
        assert (records[3].topic, records[3].partition, records[3].key) == ("a", 0, b"k3")
        assert (records[3].timestamp, records[3].headers) == (WALL_START_MS + 3, (("h", b"3"),))

    play(scenario)


def test_poll_returns_at_most_max_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, *(b"%d" % index for index in range(10)))
        reader = fixture.reader(A0, max_poll_records=4)
        assert values_of(await reader.poll(5)) == [b"0", b"1", b"2", b"3"]
        assert values_of(await reader.poll(5, max_records=1)) == [b"4"]
        assert values_of(await reader.poll(5)) == [b"5", b"6", b"7", b"8"]
        assert values_of(await reader.poll(5)) == [b"9"]
        assert await reader.poll(0.1) == []
        with pytest.raises(InvalidState, match="max_records must be >= 1, got 0"):
            await reader.poll(1, max_records=0)

    play(scenario)


def test_poll_without_records_lasts_for_timeout() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = fixture.reader(A0)
        await reader.position(A0)
        began_ms = fixture.memory.clock.monotonic_ms()
        assert await reader.poll(3) == []
        assert 3000 <= fixture.memory.clock.monotonic_ms() - began_ms < 3100

    play(scenario)


def test_waiting_poll_returns_when_record_arrives() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = fixture.reader(A0)
        polled = asyncio.create_task(reader.poll(float("inf")))
        await asyncio.sleep(7)
        began_ms = fixture.memory.clock.monotonic_ms()
        await fixture.write(A0, b"now")
        assert values_of(await polled) == [b"now"]
        assert fixture.memory.clock.monotonic_ms() - began_ms < 100

    play(scenario)


def test_poll_with_zero_timeout_makes_progress() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"x")
        reader = fixture.reader(A0)
        for _ in range(1000):
            if records := await reader.poll(0):
                break
            await asyncio.sleep(0.001)
        assert values_of(records) == [b"x"]

    play(scenario)


def test_partitions_are_fetched_in_turn() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 3)
        for partition in (A0, A1, A2):
            for _ in range(20):
                await fixture.write(partition, bytes(1000))
        reader = fixture.reader(A0, A1, A2, max_partition_fetch_bytes=2100, fetch_max_bytes=4000)
        seen: list[int] = []
        for record in await read_some(reader, 60):
            if seen[-1:] != [record.partition]:
                seen.append(record.partition)
        assert sorted(set(seen)) == [0, 1, 2]
        assert len(seen) > 15

    play(scenario)


def test_paused_partitions_return_no_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        await fixture.write(A0, b"0", b"1")
        await fixture.write(A1, b"2")
        reader = fixture.reader(A0, A1, max_poll_records=1)
        assert len(await reader.poll(5)) == 1
        await asyncio.sleep(1)  # the remaining records are fetched meanwhile
        reader.pause(A0)
        assert reader.paused() == {A0}
        rest = await read_some(reader, 3, 1)
        assert {record.partition for record in rest} <= {1}
        reader.resume(A0)
        rest += await read_some(reader, 3 - len(rest), 1)
        assert sorted(value or b"" for value in values_of(rest))[-1] == b"2"
        assert sorted(record.offset for record in rest if record.partition == 0)[-1] == 1

    play(scenario)


def test_records_buffered_before_seek_are_dropped() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, *(b"%d" % index for index in range(10)))
        reader = fixture.reader(A0, max_poll_records=2)
        assert values_of(await reader.poll(5)) == [b"0", b"1"]
        reader.seek(A0, 7)
        assert values_of(await reader.poll(5)) == [b"7", b"8"]
        reader.seek(A0, OffsetAndMetadata(1))
        assert values_of(await reader.poll(5)) == [b"1", b"2"]
        reader.seek_to_end()
        assert await reader.poll(1) == []
        assert await reader.position(A0) == 10
        reader.seek_to_beginning(A0)
        assert await reader.position(A0) == 0

    play(scenario)


@pytest.mark.parametrize("pause_s", [0, 1, 60])
def test_seek_is_not_delayed_by_buffered_records(pause_s: int) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        for index in range(6):
            await fixture.write(A0, b"%d" % index)
        reader = fixture.reader(A0, max_partition_fetch_bytes=1, max_poll_records=1)
        assert values_of(await reader.poll(5)) == [b"0"]
        await asyncio.sleep(pause_s)  # two completed fetches are buffered by now
        reader.seek(A0, 4)
        await asyncio.sleep(pause_s)
        began_ms = fixture.memory.clock.monotonic_ms()
        assert values_of(await reader.poll(30)) == [b"4"]
        assert fixture.memory.clock.monotonic_ms() - began_ms < 1000

    play(scenario)


def test_invalid_topic_name_is_reported() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        reader = fixture.consumer()
        reader.assign([TopicPartition("no/topic", 0)])
        with pytest.raises(RequestRefused, match="no/topic: INVALID_TOPIC_EXCEPTION"):
            await reader.poll(5)

    play(scenario)


def test_assign_keeps_positions_of_kept_partitions() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        await fixture.write(A0, b"0", b"1", b"2")
        await fixture.write(A1, b"3")
        reader = fixture.reader(A0, max_poll_records=1)
        assert values_of(await reader.poll(5)) == [b"0"]
        reader.assign([A0, A1])
        values = values_of(await read_some(reader, 3))
        assert sorted(value or b"" for value in values) == [b"1", b"2", b"3"]
        reader.assign([A1])
        await fixture.write(A0, b"4")
        await fixture.write(A1, b"5")
        assert values_of(await reader.poll(5)) == [b"5"]
        assert reader.assignment() == {A1}
        with pytest.raises(InvalidState, match="must be assigned to this consumer, got a-0"):
            await reader.position(A0)

    play(scenario)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [b"old", b"new"]), ("latest", [b"new"])])
def test_reset_policy_applies_without_committed_offset(policy: str, expected: list[bytes]) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"old")
        reader = fixture.consumer(auto_offset_reset=policy)
        reader.assign([A0])
        await reader.position(A0)
        await fixture.write(A0, b"new")
        assert values_of(await read_some(reader, len(expected))) == expected

    play(scenario)


def test_no_committed_offset_and_no_policy_raises() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = fixture.consumer(auto_offset_reset="none")
        reader.assign([A0])
        with pytest.raises(NoOffset, match="a-0"):
            await reader.poll(5)
        reader.seek(A0, 0)
        await fixture.write(A0, b"x")
        assert values_of(await reader.poll(5)) == [b"x"]

    play(scenario)


async def delete_before(fixture: ConsumerFixture, partition: TopicPartition, offset: int) -> None:
    data = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
    topic = DeleteRecordsTopic(name=partition.topic, partitions=[data])
    await fixture.ask(DELETE_RECORDS, 1, DeleteRecordsRequest(topics=[topic], timeout_ms=5000))


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [6, 7, 8, 9]), ("latest", [])])
def test_out_of_range_position_is_reset_by_policy(policy: str, expected: list[int]) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, *(b"%d" % index for index in range(10)))
        await delete_before(fixture, A0, 6)
        reader = fixture.consumer(auto_offset_reset=policy)
        reader.assign([A0])
        reader.seek(A0, 2)
        assert [record.offset for record in await read_some(reader, 4, 2)] == expected
        assert await reader.position(A0) == 10

    play(scenario)


def test_out_of_range_without_policy_raises_until_seek() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0")
        reader = fixture.consumer(auto_offset_reset="none")
        reader.assign([A0])
        reader.seek(A0, 17)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match="offset 17 of a-0") as error:
                await reader.poll(5)
            assert "broker" in str(error.value)
        reader.seek(A0, 0)
        assert values_of(await reader.poll(5)) == [b"0"]

    play(scenario)


def test_busy_partition_does_not_delay_reset_of_another() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        await fixture.write(A1, b"there")
        reader = fixture.reader(A0, A1)
        reader.seek(A1, 17)
        seen: list[ConsumerRecord] = []
        for _ in range(50):
            await fixture.write(A0, b"busy")
            seen += await reader.poll(5)
            await asyncio.sleep(0.1)
        assert b"there" in values_of(seen)
        assert len(seen) == 51

    play(scenario)


def test_batch_larger_than_fetch_limits_is_returned() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, bytes(50_000), b"next")
        await fixture.write(A0, b"last")
        reader = fixture.reader(A0, max_partition_fetch_bytes=100, fetch_max_bytes=100)
        sizes = [len(record.value or b"") for record in await read_some(reader, 3)]
        assert sizes == [50_000, 4, 4]

    play(scenario)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda compression: compression.name)
def test_arrow_columns_equal_records(compression: Compression) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        for partition in (A0, A1):
            await fixture.write(partition, b"x" * 300, None, b"", b"z", compression=compression)
        records = sorted(
            await read_some(fixture.reader(A0, A1), 8), key=lambda record: (record.partition, record.offset)
        )
        reader, rows = fixture.reader(A0, A1), list[dict[str, Any]]()
        while len(rows) < 8:
            rows += (await reader.poll_arrow(5)).to_pylist()
        rows.sort(key=lambda row: (row["partition"], row["offset"]))
        assert [row["value"] for row in rows] == values_of(records)
        assert [row["key"] for row in rows] == [record.key for record in records]
        assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
            (record.topic, record.partition, record.offset) for record in records
        ]
        assert [round(row["timestamp"].timestamp() * 1000) for row in rows] == [
            record.timestamp for record in records
        ]
        assert [tuple((pair["key"], pair["value"]) for pair in row["headers"]) for row in rows] == [
            record.headers for record in records
        ]

    play(scenario)


def test_poll_arrow_max_records_and_empty_batch() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2")
        reader = fixture.reader(A0)
        assert (await reader.poll_arrow(5, max_records=2)).column("value").to_pylist() == [b"0", b"1"]
        assert (await reader.poll_arrow(5)).column("value").to_pylist() == [b"2"]
        empty = await reader.poll_arrow(0.2)
        assert empty.num_rows == 0
        assert empty.schema.field("headers").type.value_type.num_fields == 2

    play(scenario)


def test_deserialization_error_keeps_position() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"two", b"3")
        reader = fixture.reader(A0, value_deserializer=int, key_deserializer="str")
        records = await reader.poll(5)
        assert [(record.key, record.value) for record in records] == [("k0", 0), ("k1", 1)]
        for _ in range(2):
            with pytest.raises(SerializationFailed, match="offset 2 of a-0") as error:
                await reader.poll(5)
            assert isinstance(error.value.__cause__, SerializationFailed)
            assert await reader.position(A0) == 2
        assert (await reader.poll_arrow(5, max_records=1)).column("value").to_pylist() == [b"two"]
        assert [record.value for record in await reader.poll(5)] == [3]

    play(scenario)


def test_seek_skips_undeserializable_record() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"zero", b"1")
        reader = fixture.reader(A0, value_deserializer=int)
        with pytest.raises(SerializationFailed):
            await reader.poll(5)
        reader.seek(A0, 1)
        assert [record.value for record in await reader.poll(5)] == [1]

    play(scenario)


class UppercaseInterceptor(ConsumerInterceptor):
    def __init__(self) -> None:
        self.closed = 0

    def on_consume(self, records: list[Any]) -> list[Any]:
        return [record.deserialized(record.key, record.value.upper()) for record in records]

    def close(self) -> None:
        self.closed += 1


def test_interceptors_modify_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"x")
        interceptor = UppercaseInterceptor()
        reader = fixture.reader(A0, interceptors=[interceptor])
        assert values_of(await reader.poll(5)) == [b"X"]
        await reader.close()
        assert interceptor.closed == 1

    play(scenario)


def test_iteration_returns_records_in_order() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1")
        seen: list[ConsumerRecord] = []
        async with fixture.reader(A0) as reader:
            async for record in reader:
                seen.append(record)
                if len(seen) == 2:
                    await fixture.write(A0, b"2")
                if len(seen) == 3:
                    break
        assert values_of(seen) == [b"0", b"1", b"2"]

    play(scenario)


def test_wakeup_interrupts_current_or_next_call() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = fixture.reader(A0, allow_auto_create_topics=False)
        polled = asyncio.create_task(reader.poll(600))
        await asyncio.sleep(1)
        reader.wakeup()
        with pytest.raises(WakeupError):
            await polled
        reader.wakeup()
        with pytest.raises(WakeupError):
            await reader.poll(600)
        lookup = asyncio.create_task(reader.beginning_offsets([MISSING]))
        await asyncio.sleep(1)
        reader.wakeup()
        with pytest.raises(WakeupError):
            await lookup
        await fixture.write(A0, b"x")
        assert values_of(await reader.poll(5)) == [b"x"]

    play(scenario)


def test_concurrent_calls_of_two_tasks_fail() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = fixture.reader(A0)
        polled = asyncio.create_task(reader.poll(5))
        await asyncio.sleep(1)
        with pytest.raises(ConcurrentUse, match="two tasks"):
            await reader.poll(1)
        with pytest.raises(ConcurrentUse):
            reader.pause(A0)
        assert await polled == []
        reader.pause(A0)

    play(scenario)


def test_invalid_calls_are_rejected() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        reader = fixture.consumer()
        with pytest.raises(InvalidState, match="consumer has no subscription"):
            await reader.poll(1)
        with pytest.raises(InvalidState, match=r"group\.id must be set for subscribe, got None"):
            reader.subscribe(["a"])
        with pytest.raises(InvalidState, match=r"group\.id"):
            await reader.commit()
        with pytest.raises(InvalidState, match=r"group\.id"):
            await reader.committed(A0)
        reader.assign([A0])
        with pytest.raises(InvalidState, match="offset of a-0 must be an int >= 0, got -1"):
            reader.seek(A0, -1)
        with pytest.raises(InvalidState, match="must be assigned"):
            reader.pause(A1)
        await reader.close()
        await reader.close()
        with pytest.raises(ClientClosed):
            await reader.poll(1)
        with pytest.raises(ClientClosed):
            reader.assign([A0])

    play(scenario)


def test_subscribe_arguments() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        reader = fixture.consumer(group_id="g")
        invalid: list[dict[str, Any]] = [{}, {"topics": ["a"], "pattern": "a"}, {"topics": []}]
        for arguments in invalid:
            with pytest.raises(InvalidState):
                reader.subscribe(**arguments)
        with pytest.raises(TypeError, match="topics must be a list of names, got 'a'"):
            reader.subscribe("a")  # type: ignore[arg-type]
        reader.subscribe(["a"])
        with pytest.raises(InvalidState, match="subscription must stay with"):
            reader.assign([A0])
        await reader.unsubscribe()
        reader.assign([A0])

    play(scenario)


def test_offset_lookups() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        await fixture.write(A0, b"0", b"1", b"2", base_timestamp=5000)
        reader = fixture.consumer()
        assert await reader.beginning_offsets([A0, A1]) == {A0: 0, A1: 0}
        assert await reader.end_offsets([A0, A1]) == {A0: 3, A1: 0}
        offsets = await reader.offsets_for_times({A0: 5001, A1: 5001})
        assert offsets == {A0: OffsetAndTimestamp(1, 5001, 0), A1: None}
        with pytest.raises(InvalidState, match="-1"):
            await reader.offsets_for_times({A0: -1})

    play(scenario)


def test_missing_topics() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        reader = fixture.consumer(allow_auto_create_topics=False, default_api_timeout_ms=2000)
        assert [info.partition for info in await reader.partitions_for("a")] == [0, 1]
        assert await reader.partitions_for("missing") == []
        assert list(await reader.list_topics()) == ["a"]
        with pytest.raises(UnknownTopic):
            await reader.end_offsets([MISSING])
        reader.assign([MISSING])
        with pytest.raises(TimedOut, match="missing-0"):
            await reader.position(MISSING)
        assert await reader.poll(1) == []

    play(scenario, {"auto.create.topics.enable": "false"})


def test_current_lag() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2")
        reader = fixture.reader(A0)
        assert reader.current_lag(A0) is None
        reader.seek(A0, 1)
        await reader.end_offsets([A0])
        assert reader.current_lag(A0) == 2
        await reader.poll(5)
        assert reader.current_lag(A0) == 0

    play(scenario)


def test_fetch_buffer_is_bounded() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 3)
        for partition in (A0, A1, A2):
            for _ in range(10):
                await fixture.write(partition, bytes(10_000))
        reader = fixture.reader(A0, A1, A2, max_partition_fetch_bytes=10_200, fetch_max_bytes=40_000)
        await reader.poll(5, max_records=1)
        await asyncio.sleep(60)
        buffer = reader._engine._buffer
        # A partition without buffered records is always fetched, so that none can starve another.
        assert buffer.size_bytes <= 40_000 + 10_200
        assert all(partition.fetch_count <= COMPLETED_FETCHES_MAX for partition in buffer.buffered().values())
        assert len(await read_some(reader, 29)) == 29

    play(scenario)


@pytest.mark.parametrize("slots", ["1000", "0"], ids=["with sessions", "without"])
def test_broker_restarts_lose_and_repeat_no_records(slots: str) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        reader = fixture.reader(A0, A1)
        seen: list[ConsumerRecord] = []
        for restart in range(3):
            for index in range(5):
                await fixture.write(A0, b"%d.%d" % (restart, index))
                await fixture.write(A1, b"%d.%d" % (restart, index))
                if index < 4:
                    seen += await reader.poll(1)
            await fixture.broker.stop()
            fixture.broker = await fixture.memory.start(settings)
            seen += await read_some(reader, 1, 10)
        seen += await read_some(reader, 30 - len(seen), 10)
        for partition in (0, 1):
            offsets = [record.offset for record in seen if record.partition == partition]
            assert offsets == list(range(15))

    settings = {"max.incremental.fetch.session.cache.slots": slots}
    play(scenario, settings)


def test_slow_fragmented_network_loses_nothing() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        for _ in range(20):
            await fixture.write(A0, b"x", b"y")
            await fixture.write(A1, b"z")
        records = await read_some(fixture.reader(A0, A1, max_poll_records=3), 60, 20)
        for partition, count in ((0, 40), (1, 20)):
            offsets = [record.offset for record in records if record.partition == partition]
            assert offsets == list(range(count))

    play(scenario, seed=7, delay_max_ms=50, splits=True)


def test_metrics() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2")
        reader = fixture.reader(A0, max_poll_records=2)
        await reader.poll(5)
        await asyncio.sleep(4)
        metrics = reader.metrics()
        assert (metrics["records-consumed-total"], metrics["last-poll-seconds-ago"]) == (2, 4)
        assert (metrics["records-lag-max"], metrics["fetch-total"] > 0) == (1, True)
        await reader.poll(5)
        assert reader.metrics()["time-between-poll-max"] >= 4000

    play(scenario)
