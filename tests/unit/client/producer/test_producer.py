"""The whole producer against a whole broker in memory, on virtual time."""

from __future__ import annotations

import asyncio
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
from odradek.records.codec import partition_for_key

NO_AUTO_CREATION = {"auto.create.topics.enable": "false"}


def test_a_record_is_delivered_with_its_place_and_time() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        delivery = await producer.send("letters", b"hello", b"key", [("h", b"1"), ("none", None)])
        found = await delivery
        assert (found.topic, found.partition, found.offset) == ("letters", 0, 0)
        assert (found.serialized_key_size, found.serialized_value_size) == (3, 5)
        (record,) = await studio.records("letters")
        assert (record.key, record.value, record.timestamp) == (b"key", b"hello", found.timestamp)
        assert tuple(record.headers) == (("h", b"1"), ("none", None))

    run_with_producer(scenario)


def test_the_time_of_a_log_that_stamps_is_told() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", message_timestamp_type="LogAppendTime")
        producer = studio.producer()
        found = await (await producer.send("letters", b"v", timestamp_ms=5))
        (record,) = await studio.records("letters")
        assert found.timestamp == record.timestamp != 5

    run_with_producer(scenario)


def test_with_acks_0_no_offset_is_known() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(acks=0)
        for number in range(3):
            assert (await (await producer.send("letters", b"%d" % number))).offset == -1
        await producer.close()
        assert await studio.values("letters") == [b"0", b"1", b"2"]

    run_with_producer(scenario)


def test_keys_choose_partitions_as_other_clients_do() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 5)
        producer = studio.producer()
        for number in range(20):
            key = b"%d" % number
            assert (await (await producer.send("letters", b"v", key))).partition == partition_for_key(key, 5)

    run_with_producer(scenario)


def test_records_without_a_key_spread_when_batches_are_full() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 4)
        producer = studio.producer(batch_size=1000, linger_ms=5)
        deliveries = [await producer.send("letters", bytes(100)) for _ in range(400)]
        used = [(await delivery).partition for delivery in deliveries]
        assert set(used) == {0, 1, 2, 3}
        changes = sum(1 for one, other in pairwise(used) if one != other)
        assert changes <= 400 / 5, "records stick together until a batch is full"

    run_with_producer(scenario)


def test_keys_may_be_ignored() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 4)
        producer = studio.producer(batch_size=300, partitioner_ignore_keys=True)
        deliveries = [await producer.send("letters", bytes(100), b"same") for _ in range(60)]
        assert len({(await delivery).partition for delivery in deliveries}) > 1

    run_with_producer(scenario)


def test_a_partitioner_of_ones_own_is_asked_once_for_each_record() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 3)
        producer = studio.producer(partitioner=RoundRobin(), linger_ms=5)
        deliveries = [await producer.send("letters", b"v", b"same") for _ in range(6)]
        assert [(await delivery).partition for delivery in deliveries] == [0, 1, 2, 0, 1, 2]

    run_with_producer(scenario)


def test_a_partitioner_that_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="a partitioner is a function, not 'murmur2'"):
        Producer(bootstrap_servers="broker:9092", partitioner=cast(Any, "murmur2"))


def test_a_partitioner_that_names_no_partition_is_told_so() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 3)
        producer = studio.producer(partitioner=lambda topic, key, value, partitions: 3)
        with pytest.raises(ValueError, match="chose 3"):
            await producer.send("letters", b"v")

    run_with_producer(scenario)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_as_they_were_sent(codec: str) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(compression_type=codec, batch_size=2000, linger_ms=5)
        sent = [b"%d " % number * 50 for number in range(100)]
        await (await producer.send_many("letters", sent))
        assert await studio.values("letters") == sent

    run_with_producer(scenario)


def test_an_oversized_record_has_a_batch_of_its_own() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(batch_size=500, linger_ms=5)
        sent = [b"a", bytes(5000), b"b"]
        deliveries = [await producer.send("letters", value) for value in sent]
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]
        assert await studio.values("letters") == sent

    run_with_producer(scenario)


@pytest.mark.parametrize("option", ["max_request_size", "buffer_memory"])
def test_a_record_beyond_all_bounds_is_refused_at_once(option: str) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = studio.producer(**{option: 20_000, "batch_size": 1000})
        with pytest.raises(RecordTooLarge, match=option.replace("_", ".")):
            await producer.send("letters", bytes(20_000))

    run_with_producer(scenario)


def test_a_batch_too_large_for_the_topic_is_cut_until_it_fits() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", max_message_bytes="700")
        producer = studio.producer(batch_size=10_000, linger_ms=5)
        told: list[int] = []
        sent = [bytes([number]) * 100 for number in range(50)]
        for number, value in enumerate(sent):
            await producer.send("letters", value, on_delivery=lambda m, e, n=number: told.append(n))
        await producer.flush()
        assert await studio.values("letters") == sent
        assert told == list(range(50))
        assert producer.metrics()["batch-split-total"] > 0

    run_with_producer(scenario)


def test_a_single_record_too_large_for_the_topic_fails() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", max_message_bytes="700")
        producer = studio.producer()
        delivery = await producer.send("letters", bytes(1000))
        with pytest.raises(RecordTooLarge, match="letters-0"):
            await delivery
        assert (await (await producer.send("letters", b"small"))).offset == 0

    run_with_producer(scenario)


def test_an_unknown_topic_is_waited_for_and_then_told() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = studio.producer(max_block_ms=3000)
        began = studio.clock.monotonic_ms()
        with pytest.raises(UnknownTopic, match="letters"):
            await producer.send("letters", b"v")
        assert studio.clock.monotonic_ms() - began >= 3000
        await studio.create("letters")
        assert (await (await producer.send("letters", b"v"))).offset == 0

    run_with_producer(scenario, NO_AUTO_CREATION)


def test_a_partition_that_is_not_there_is_refused_after_one_refresh() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 2)
        producer = studio.producer()
        begun_ms = studio.clock.monotonic_ms()
        with pytest.raises(UnknownTopic, match="topic letters has 2 partitions, got partition 2"):
            await producer.send("letters", b"v", partition=2)
        assert studio.clock.monotonic_ms() - begun_ms < 1500

    run_with_producer(scenario)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"value": "text"}, 'value_serializer="str"'),
        ({"value": 5}, "must be bytes"),
        ({"key": 5}, "key"),
        ({"headers": [("h", 5.5)]}, "header 'h' must be bytes, not float"),
        ({"headers": [("h", 5)]}, "header 'h' must be bytes, not int"),
        ({"headers": [("h", [1, 2])]}, "header 'h' must be bytes, not list"),
        ({"headers": [("h", "v")]}, "header 'h' must be bytes, not str"),
        ({"headers": [("\ud800", b"v")]}, "surrogates"),
        ({"headers": "ab"}, "pairs"),
        ({"headers": 7}, "pairs"),
        ({"headers": [(b"h", b"v")]}, "header"),
    ],
)
def test_what_are_no_bytes_is_refused(given: dict[str, Any], match: str) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        with pytest.raises(SerializationFailed, match=match):
            await studio.producer().send("letters", **given)

    run_with_producer(scenario)


@pytest.mark.parametrize(
    "given", [{"partition": -1}, {"timestamp_ms": -5}, {"timestamp_ms": 1 << 63}, {"topic": ""}]
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        with pytest.raises(ValueError):  # noqa: PT011  the words differ, the class is what matters
            await studio.producer().send(**{"topic": "letters", "value": b"v", **given})

    run_with_producer(scenario)


def test_headers_are_frozen_when_they_are_sent() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(linger_ms=50)
        headers = [("a", b"1")]
        delivery = await producer.send("letters", b"v", headers=headers)
        headers.append(("b", b"2"))
        await delivery
        assert tuple((await studio.records("letters"))[0].headers) == (("a", b"1"),)

    run_with_producer(scenario)


def test_serializers_and_interceptors_see_records_in_order() -> None:
    seen: list[Any] = []

    class Interceptor:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value=record.value + "!")

        def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
            seen.append(("interceptor", metadata.offset, error))

        def close(self) -> None:
            seen.append("closed")

    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", max_message_bytes="1000")
        producer = studio.producer(value_serializer="str", interceptors=[Interceptor()])
        await (
            await producer.send(
                "letters",
                "hello",
                on_delivery=lambda metadata, error: seen.append(("callback", metadata.offset)),
            )
        )
        assert await studio.values("letters") == [b"hello!"]
        with pytest.raises(RecordTooLarge):
            await (await producer.send("letters", "x" * 2000))
        with pytest.raises(RecordTooLarge):
            await producer.send("letters", "x" * 2_000_000)
        await producer.close()
        assert seen[:2] == [("interceptor", 0, None), ("callback", 0)]
        assert [type(one[2]) for one in seen[2:4]] == [RecordTooLarge, RecordTooLarge]
        assert seen[4:] == ["closed"]

    run_with_producer(scenario)


def test_an_interceptor_hears_of_every_record_that_is_refused_and_must_give_one() -> None:
    heard: list[BaseException | None] = []

    class Interceptor(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return cast(ProducerRecord, None)

        def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
            heard.append(error)

    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(interceptors=[Interceptor()])
        with pytest.raises(ValueError, match="counted from 0"):
            await producer.send("letters", b"v", partition=-1)
        assert [type(one) for one in heard] == [ValueError]
        await (await producer.send("letters", b"v"))
        assert await studio.values("letters") == [b"v"]

    run_with_producer(scenario)


def test_a_serializer_that_fails_loses_no_other_record() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(value_serializer="json")
        with pytest.raises(SerializationFailed):
            await producer.send("letters", {1, 2})
        assert (await (await producer.send("letters", {"a": 1}))).offset == 0

    run_with_producer(scenario)


def test_linger_gathers_records_into_one_batch() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(linger_ms=20)
        began = studio.clock.monotonic_ms()
        deliveries = [await producer.send("letters", b"v") for _ in range(10)]
        await deliveries[-1]
        assert studio.clock.monotonic_ms() - began >= 20
        assert producer.metrics()["records-per-request-avg"] == 10

    run_with_producer(scenario)


def test_a_flush_does_not_linger() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
        delivery = await producer.send("letters", b"v")
        began = studio.clock.monotonic_ms()
        await producer.flush()
        assert delivery.done()
        assert studio.clock.monotonic_ms() - began < 1000

    run_with_producer(scenario)


def test_a_flush_that_is_not_over_in_time_says_so_and_leaves_records_alone() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await producer.partitions_for("letters")
        await studio.stop_broker()
        delivery = await producer.send("letters", b"v")
        with pytest.raises(TimedOut):
            await producer.flush(timeout_s=1)
        assert not delivery.done()
        await producer.close(0)
        with pytest.raises(ClientClosed):
            await delivery

    run_with_producer(scenario)


def test_memory_that_is_full_is_waited_for_in_turns_and_then_told() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(batch_size=1000, buffer_memory=3000, max_block_ms=2000)
        await producer.partitions_for("letters")
        await studio.stop_broker()
        deliveries = [await producer.send("letters", bytes(900)) for _ in range(3)]
        began = studio.clock.monotonic_ms()
        waiting = [asyncio.create_task(producer.send("letters", bytes(900))) for _ in range(2)]
        for task in waiting:
            with pytest.raises(BufferFull, match="2000 ms"):
                await task
        assert studio.clock.monotonic_ms() - began >= 2000
        await producer.close(0)
        assert all(delivery.done() for delivery in deliveries)

    run_with_producer(scenario)


def test_memory_is_given_back_and_lets_others_go_on() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(batch_size=1000, buffer_memory=3000)
        sent = [b"%04d" % number * 200 for number in range(100)]
        for value in sent:
            await producer.send("letters", value)
        await producer.flush()
        assert await studio.values("letters") == sent
        assert producer.metrics()["buffer-available-bytes"] == 3000

    run_with_producer(scenario, delay_max_ms=5)


def test_records_that_are_not_delivered_in_time_fail() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(delivery_timeout_ms=5000, request_timeout_ms=2000, linger_ms=0)
        await (await producer.send("letters", b"first"))
        await studio.stop_broker()
        told: list[BaseException | None] = []
        delivery = await producer.send("letters", b"v", on_delivery=lambda m, e: told.append(e))
        began = studio.clock.monotonic_ms()
        with pytest.raises(TimedOut, match="letters-0"):
            await delivery
        assert 5000 <= studio.clock.monotonic_ms() - began < 8000
        assert len(told) == 1

    run_with_producer(scenario)


def test_a_broker_that_comes_back_gets_what_waited() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await (await producer.send("letters", b"0"))
        await studio.stop_broker()
        deliveries = [await producer.send("letters", b"%d" % number) for number in range(1, 20)]
        await asyncio.sleep(3)
        await studio.start_broker()
        for delivery in deliveries:
            await delivery
        assert await studio.values("letters") == [b"%d" % number for number in range(20)]

    run_with_producer(scenario)


def test_closing_delivers_what_was_sent() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
        deliveries = [await producer.send("letters", b"%d" % number) for number in range(10)]
        await producer.close()
        assert [(await delivery).offset for delivery in deliveries] == list(range(10))
        with pytest.raises(ClientClosed):
            await producer.send("letters", b"late")
        await producer.close()

    run_with_producer(scenario)


def test_a_forced_close_tells_every_record_and_every_waiter() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(batch_size=1000, buffer_memory=2000)
        await producer.partitions_for("letters")
        await studio.stop_broker()
        told: list[BaseException | None] = []
        for _ in range(2):
            await producer.send("letters", bytes(900), on_delivery=lambda m, e: told.append(e))
        waiting = asyncio.create_task(producer.send("letters", bytes(900)))
        await asyncio.sleep(0.1)
        await producer.close(1)
        assert [type(one) for one in told] == [ClientClosed, ClientClosed]
        with pytest.raises(ClientClosed):
            await waiting

    run_with_producer(scenario)


def test_closing_from_a_callback_does_not_hang() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        tasks: list[asyncio.Task[None]] = []
        delivery = await producer.send(
            "letters", b"v", on_delivery=lambda m, e: tasks.append(asyncio.create_task(producer.close()))
        )
        await delivery
        await tasks[0]

    run_with_producer(scenario)


def test_a_callback_that_raises_disturbs_nobody() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(linger_ms=5)
        told: list[int] = []

        def bad(metadata: Any, error: Any) -> None:
            raise ZeroDivisionError

        await producer.send("letters", b"a", on_delivery=bad)
        await producer.send("letters", b"b", on_delivery=lambda m, e: told.append(m.offset))
        await producer.flush()
        assert told == [1]

    run_with_producer(scenario)


def test_a_producer_that_was_never_used_closes() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.producer().close()

    run_with_producer(scenario)


def test_records_are_refused_one_by_one_when_a_broker_names_them() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", cleanup_policy="compact")
        producer = studio.producer(linger_ms=5)
        good = await producer.send("letters", b"v", b"key")
        bad = await producer.send("letters", b"v")
        with pytest.raises(RequestRefused, match="INVALID_RECORD"):
            await bad
        with pytest.raises(RequestRefused, match="others of its batch"):
            await good

    run_with_producer(scenario)


def test_many_values_have_one_face() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 3)
        producer = studio.producer(batch_size=500)
        values = [b"%d" % number for number in range(1000)]
        deliveries = await producer.send_many(
            "letters", iter(values), keys=(b"k%d" % (n % 7) for n in range(1000))
        )
        assert await deliveries == len(deliveries) == 1000
        assert deliveries.done()
        found = [one for partition in range(3) for one in await studio.values("letters", partition)]
        assert sorted(found) == sorted(values)

    run_with_producer(scenario)


def test_many_values_that_fail_in_part_say_how_many() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", max_message_bytes="1000")
        producer = studio.producer(batch_size=300)
        deliveries = await producer.send_many("letters", [b"small", bytes(2000), b"small"])
        with pytest.raises(RecordTooLarge):
            await deliveries
        assert (deliveries.acknowledged, deliveries.failed) == (2, 1)

    run_with_producer(scenario)


def test_order_is_kept_with_one_request_at_a_time_without_idempotence() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(
            enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=200
        )
        sent = [b"%03d" % number * 20 for number in range(60)]
        for number, value in enumerate(sent):
            await producer.send("letters", value)
            if number % 20 == 10:
                await asyncio.sleep(0.003)
                studio.cut_connections()
        await producer.flush()
        found = await studio.values("letters")
        assert list(dict.fromkeys(found)) == sent, "a batch may be there twice, but none out of order"

    run_with_producer(scenario, delay_max_ms=4)
