"""Producer against an in-memory broker, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.client.interceptors import ProducerInterceptor, ProducerRecord
from odradek.client.producer.partitioner import RoundRobin
from odradek.client.producer.producer import Producer
from odradek.model.client_errors import (
    BufferFull,
    ClientClosed,
    RecordTooLarge,
    RequestRefused,
    SerializationFailed,
    TimedOut,
    UnknownTopic,
)
from odradek.records.client.producer import partition_for_key

NO_AUTO_CREATION = {"auto.create.topics.enable": "false"}


def test_record_is_delivered_with_offset_and_timestamp() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        delivery = await producer.send("letters", b"hello", b"key", [("h", b"1"), ("none", None)])
        metadata = await delivery
        assert (metadata.topic, metadata.partition, metadata.offset) == ("letters", 0, 0)
        assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 5)
        (record,) = await fixture.records("letters")
        assert (record.key, record.value, record.timestamp) == (b"key", b"hello", metadata.timestamp)
        assert tuple(record.headers) == (("h", b"1"), ("none", None))

    run_with_producer(scenario)


def test_delivery_has_the_log_append_time() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", message_timestamp_type="LogAppendTime")
        producer = fixture.producer()
        metadata = await (await producer.send("letters", b"v", timestamp_ms=5))
        (record,) = await fixture.records("letters")
        assert metadata.timestamp == record.timestamp != 5

    run_with_producer(scenario)


def test_acks_0_has_no_offset() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(acks=0)
        for number in range(3):
            assert (await (await producer.send("letters", b"%d" % number))).offset == -1
        await producer.close()
        assert await fixture.values("letters") == [b"0", b"1", b"2"]

    run_with_producer(scenario)


def test_keys_are_partitioned_with_murmur2() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 5)
        producer = fixture.producer()
        for number in range(20):
            key = b"%d" % number
            assert (await (await producer.send("letters", b"v", key))).partition == partition_for_key(key, 5)

    run_with_producer(scenario)


def test_records_without_key_are_spread_per_batch() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 4)
        producer = fixture.producer(batch_size=1000, linger_ms=5)
        deliveries = [await producer.send("letters", bytes(100)) for _ in range(400)]
        used = [(await delivery).partition for delivery in deliveries]
        assert set(used) == {0, 1, 2, 3}
        changes = sum(1 for first, second in pairwise(used) if first != second)
        assert changes <= 400 / 5, "records stick to a partition until a batch is full"

    run_with_producer(scenario)


def test_partitioner_ignore_keys() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 4)
        producer = fixture.producer(batch_size=300, partitioner_ignore_keys=True)
        deliveries = [await producer.send("letters", bytes(100), b"same") for _ in range(60)]
        assert len({(await delivery).partition for delivery in deliveries}) > 1

    run_with_producer(scenario)


def test_custom_partitioner_is_called_once_per_record() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 3)
        producer = fixture.producer(partitioner=RoundRobin(), linger_ms=5)
        deliveries = [await producer.send("letters", b"v", b"same") for _ in range(6)]
        assert [(await delivery).partition for delivery in deliveries] == [0, 1, 2, 0, 1, 2]

    run_with_producer(scenario)


def test_partitioner_must_be_callable() -> None:
    with pytest.raises(TypeError, match="partitioner must be callable, got 'murmur2'"):
        Producer(bootstrap_servers="broker:9092", partitioner=cast(Any, "murmur2"))


def test_partitioner_must_return_an_existing_partition() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 3)
        producer = fixture.producer(partitioner=lambda topic, key, value, partitions: 3)
        with pytest.raises(ValueError, match="got 3"):
            await producer.send("letters", b"v")

    run_with_producer(scenario)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_round_trip(codec: str) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(compression_type=codec, batch_size=2000, linger_ms=5)
        sent = [b"%d " % number * 50 for number in range(100)]
        await (await producer.send_many("letters", sent))
        assert await fixture.values("letters") == sent

    run_with_producer(scenario)


def test_oversized_record_gets_its_own_batch() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(batch_size=500, linger_ms=5)
        sent = [b"a", bytes(5000), b"b"]
        deliveries = [await producer.send("letters", value) for value in sent]
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]
        assert await fixture.values("letters") == sent

    run_with_producer(scenario)


@pytest.mark.parametrize("option", ["max_request_size", "buffer_memory"])
def test_record_above_the_size_limits_is_rejected(option: str) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = fixture.producer(**{option: 20_000, "batch_size": 1000})
        with pytest.raises(RecordTooLarge, match=option.replace("_", ".")):
            await producer.send("letters", bytes(20_000))

    run_with_producer(scenario)


def completes(completed: list[int], number: int) -> Callable[[object, object], None]:
    """Return a delivery callback that records the number."""
    return lambda metadata, error: completed.append(number)


def test_batch_too_large_for_the_topic_is_split_until_it_fits() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", max_message_bytes="700")
        producer = fixture.producer(batch_size=10_000, linger_ms=5)
        completed: list[int] = []
        sent = [bytes([number]) * 100 for number in range(50)]
        for number, value in enumerate(sent):
            await producer.send("letters", value, on_delivery=completes(completed, number))
        await producer.flush()
        assert await fixture.values("letters") == sent
        assert completed == list(range(50))
        assert producer.metrics()["batch-split-total"] > 0

    run_with_producer(scenario)


def test_single_record_too_large_for_the_topic_fails() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", max_message_bytes="700")
        producer = fixture.producer()
        delivery = await producer.send("letters", bytes(1000))
        with pytest.raises(RecordTooLarge, match="letters-0"):
            await delivery
        assert (await (await producer.send("letters", b"small"))).offset == 0

    run_with_producer(scenario)


def test_send_to_unknown_topic_waits_for_max_block_ms() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = fixture.producer(max_block_ms=3000)
        started = fixture.clock.monotonic_ms()
        with pytest.raises(UnknownTopic, match="letters"):
            await producer.send("letters", b"v")
        assert fixture.clock.monotonic_ms() - started >= 3000
        await fixture.create("letters")
        assert (await (await producer.send("letters", b"v"))).offset == 0

    run_with_producer(scenario, NO_AUTO_CREATION)


def test_send_to_missing_partition_fails_after_one_metadata_update() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 2)
        producer = fixture.producer()
        started_ms = fixture.clock.monotonic_ms()
        with pytest.raises(UnknownTopic, match="topic letters has 2 partitions, got partition 2"):
            await producer.send("letters", b"v", partition=2)
        assert fixture.clock.monotonic_ms() - started_ms < 1500

    run_with_producer(scenario)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"value": "text"}, 'value_serializer="str"'),
        ({"value": 5}, "must be bytes"),
        ({"key": 5}, "key"),
        ({"headers": [("h", 5.5)]}, "header 'h' must be bytes, got float"),
        ({"headers": [("h", 5)]}, "header 'h' must be bytes, got int"),
        ({"headers": [("h", [1, 2])]}, "header 'h' must be bytes, got list"),
        ({"headers": [("h", "v")]}, "header 'h' must be bytes, got str"),
        ({"headers": [("\ud800", b"v")]}, "surrogates"),
        ({"headers": "ab"}, "pairs"),
        ({"headers": 7}, "pairs"),
        ({"headers": [(b"h", b"v")]}, "header"),
    ],
)
def test_values_keys_and_headers_must_be_bytes(arguments: dict[str, Any], match: str) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        with pytest.raises(SerializationFailed, match=match):
            await fixture.producer().send("letters", **arguments)

    run_with_producer(scenario)


@pytest.mark.parametrize(
    "arguments", [{"partition": -1}, {"timestamp_ms": -5}, {"timestamp_ms": 1 << 63}, {"topic": ""}]
)
def test_invalid_partition_timestamp_and_topic_are_rejected(arguments: dict[str, Any]) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        with pytest.raises(ValueError):  # noqa: PT011  the messages differ
            await fixture.producer().send(**{"topic": "letters", "value": b"v", **arguments})

    run_with_producer(scenario)


def test_headers_are_copied_on_send() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(linger_ms=50)
        headers = [("a", b"1")]
        delivery = await producer.send("letters", b"v", headers=headers)
        headers.append(("b", b"2"))
        await delivery
        assert tuple((await fixture.records("letters"))[0].headers) == (("a", b"1"),)

    run_with_producer(scenario)


def test_interceptors_run_before_serializers_and_callbacks() -> None:
    seen: list[Any] = []

    class Interceptor:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value=record.value + "!")

        def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
            seen.append(("interceptor", metadata.offset, error))

        def close(self) -> None:
            seen.append("closed")

    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", max_message_bytes="1000")
        producer: Any = fixture.producer(value_serializer="str", interceptors=[Interceptor()])
        await (
            await producer.send(
                "letters",
                "hello",
                on_delivery=lambda metadata, error: seen.append(("callback", metadata.offset)),
            )
        )
        assert await fixture.values("letters") == [b"hello!"]
        with pytest.raises(RecordTooLarge):
            await (await producer.send("letters", "x" * 2000))
        with pytest.raises(RecordTooLarge):
            await producer.send("letters", "x" * 2_000_000)
        await producer.close()
        assert seen[:2] == [("interceptor", 0, None), ("callback", 0)]
        assert [type(call[2]) for call in seen[2:4]] == [RecordTooLarge, RecordTooLarge]
        assert seen[4:] == ["closed"]

    run_with_producer(scenario)


def test_interceptor_gets_rejected_records_and_must_return_a_record() -> None:
    errors: list[BaseException | None] = []

    class Interceptor(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return cast(ProducerRecord, None)

        def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
            errors.append(error)

    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(interceptors=[Interceptor()])
        with pytest.raises(ValueError, match="partition must be >= 0, got -1"):
            await producer.send("letters", b"v", partition=-1)
        assert [type(error) for error in errors] == [ValueError]
        await (await producer.send("letters", b"v"))
        assert await fixture.values("letters") == [b"v"]

    run_with_producer(scenario)


def test_failing_serializer_does_not_affect_other_records() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer: Any = fixture.producer(value_serializer="json")
        with pytest.raises(SerializationFailed):
            await producer.send("letters", {1, 2})
        assert (await (await producer.send("letters", {"a": 1}))).offset == 0

    run_with_producer(scenario)


def test_linger_collects_records_into_one_batch() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(linger_ms=20)
        started = fixture.clock.monotonic_ms()
        deliveries = [await producer.send("letters", b"v") for _ in range(10)]
        await deliveries[-1]
        assert fixture.clock.monotonic_ms() - started >= 20
        assert producer.metrics()["records-per-request-avg"] == 10

    run_with_producer(scenario)


def test_flush_skips_linger() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
        delivery = await producer.send("letters", b"v")
        started = fixture.clock.monotonic_ms()
        await producer.flush()
        assert delivery.done()
        assert fixture.clock.monotonic_ms() - started < 1000

    run_with_producer(scenario)


def test_flush_timeout_does_not_fail_records() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await producer.partitions_for("letters")
        await fixture.stop_broker()
        delivery = await producer.send("letters", b"v")
        with pytest.raises(TimedOut):
            await producer.flush(timeout_s=1)
        assert not delivery.done()
        await producer.close(0)
        with pytest.raises(ClientClosed):
            await delivery

    run_with_producer(scenario)


def test_send_waits_for_memory_up_to_max_block_ms() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(batch_size=1000, buffer_memory=3000, max_block_ms=2000)
        await producer.partitions_for("letters")
        await fixture.stop_broker()
        deliveries = [await producer.send("letters", bytes(900)) for _ in range(3)]
        started = fixture.clock.monotonic_ms()
        waiting = [asyncio.create_task(producer.send("letters", bytes(900))) for _ in range(2)]
        for task in waiting:
            with pytest.raises(BufferFull, match="2000 ms"):
                await task
        assert fixture.clock.monotonic_ms() - started >= 2000
        await producer.close(0)
        assert all(delivery.done() for delivery in deliveries)

    run_with_producer(scenario)


def test_freed_memory_lets_waiting_sends_continue() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(batch_size=1000, buffer_memory=3000)
        sent = [b"%04d" % number * 200 for number in range(100)]
        for value in sent:
            await producer.send("letters", value)
        await producer.flush()
        assert await fixture.values("letters") == sent
        assert producer.metrics()["buffer-available-bytes"] == 3000

    run_with_producer(scenario, delay_max_ms=5)


def test_records_fail_after_delivery_timeout() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(delivery_timeout_ms=5000, request_timeout_ms=2000, linger_ms=0)
        await (await producer.send("letters", b"first"))
        await fixture.stop_broker()
        completed: list[BaseException | None] = []
        delivery = await producer.send("letters", b"v", on_delivery=lambda m, e: completed.append(e))
        started = fixture.clock.monotonic_ms()
        with pytest.raises(TimedOut, match="letters-0"):
            await delivery
        assert 5000 <= fixture.clock.monotonic_ms() - started < 8000
        assert len(completed) == 1

    run_with_producer(scenario)


def test_queued_records_are_delivered_after_a_broker_restart() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await (await producer.send("letters", b"0"))
        await fixture.stop_broker()
        deliveries = [await producer.send("letters", b"%d" % number) for number in range(1, 20)]
        await asyncio.sleep(3)
        await fixture.start_broker()
        for delivery in deliveries:
            await delivery
        assert await fixture.values("letters") == [b"%d" % number for number in range(20)]

    run_with_producer(scenario)


def test_close_delivers_sent_records() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
        deliveries = [await producer.send("letters", b"%d" % number) for number in range(10)]
        await producer.close()
        assert [(await delivery).offset for delivery in deliveries] == list(range(10))
        with pytest.raises(ClientClosed):
            await producer.send("letters", b"late")
        await producer.close()

    run_with_producer(scenario)


def test_forced_close_fails_every_record_and_every_waiter() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(batch_size=1000, buffer_memory=2000)
        await producer.partitions_for("letters")
        await fixture.stop_broker()
        completed: list[BaseException | None] = []
        for _ in range(2):
            await producer.send("letters", bytes(900), on_delivery=lambda m, e: completed.append(e))
        waiting = asyncio.create_task(producer.send("letters", bytes(900)))
        await asyncio.sleep(0.1)
        await producer.close(1)
        assert [type(error) for error in completed] == [ClientClosed, ClientClosed]
        with pytest.raises(ClientClosed):
            await waiting

    run_with_producer(scenario)


def test_close_from_a_callback_does_not_hang() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        tasks: list[asyncio.Task[None]] = []
        delivery = await producer.send(
            "letters", b"v", on_delivery=lambda m, e: tasks.append(asyncio.create_task(producer.close()))
        )
        await delivery
        await tasks[0]

    run_with_producer(scenario)


def test_failing_callback_does_not_affect_other_records() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(linger_ms=5)
        completed: list[int | None] = []

        def bad(metadata: Any, error: Any) -> None:
            raise ZeroDivisionError

        await producer.send("letters", b"a", on_delivery=bad)
        await producer.send("letters", b"b", on_delivery=lambda m, e: completed.append(m and m.offset))
        await producer.flush()
        assert completed == [1]

    run_with_producer(scenario)


def test_unused_producer_can_be_closed() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.producer().close()

    run_with_producer(scenario)


def test_record_errors_fail_the_named_records() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", cleanup_policy="compact")
        producer = fixture.producer(linger_ms=5)
        good = await producer.send("letters", b"v", b"key")
        bad = await producer.send("letters", b"v")
        with pytest.raises(RequestRefused, match="INVALID_RECORD"):
            await bad
        with pytest.raises(RequestRefused, match="other records of its batch"):
            await good

    run_with_producer(scenario)


def test_send_many_returns_one_deliveries_object() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 3)
        producer = fixture.producer(batch_size=500)
        values = [b"%d" % number for number in range(1000)]
        deliveries = await producer.send_many(
            "letters", iter(values), keys=(b"k%d" % (n % 7) for n in range(1000))
        )
        assert await deliveries == len(deliveries) == 1000
        assert deliveries.done()
        written = [
            value or b"" for partition in range(3) for value in await fixture.values("letters", partition)
        ]
        assert sorted(written) == sorted(values)

    run_with_producer(scenario)


def test_send_many_counts_partial_failures() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", max_message_bytes="1000")
        producer = fixture.producer(batch_size=300)
        deliveries = await producer.send_many("letters", [b"small", bytes(2000), b"small"])
        with pytest.raises(RecordTooLarge):
            await deliveries
        assert (deliveries.acknowledged, deliveries.failed) == (2, 1)

    run_with_producer(scenario)


def test_order_is_kept_without_idempotence_and_one_request_in_flight() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(
            enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=200
        )
        sent = [b"%03d" % number * 20 for number in range(60)]
        for number, value in enumerate(sent):
            await producer.send("letters", value)
            if number % 20 == 10:
                await asyncio.sleep(0.003)
                fixture.cut_connections()
        await producer.flush()
        written = await fixture.values("letters")
        assert list(dict.fromkeys(written)) == sent, "a batch may be written twice, but not out of order"

    run_with_producer(scenario, delay_max_ms=4)
