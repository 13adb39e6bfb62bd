"""Sends records with one Python client, as documented, for some seconds.

Each client runs the loop its users would write: one call per record, or one per thousands where the client
has such a call. The clock runs from the first call until the last acknowledgement; start, metadata and a
first thousand records precede it. Afterwards the end offsets are compared with the records sent: a lost
record fails the measurement.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Cost, Meter

VALUES = 10_000
CHUNK = 1_000  # records between two checks of the clock
FLUSH_SECONDS_MAX = 120.0
QUEUE_FULL_SECONDS = 0.1

Chunks = Sequence[list[bytes]]


class Timed:
    """Timed part: until the limit of seconds, records or bytes."""

    def __init__(self, spec: Spec) -> None:
        self._meter = Meter(spec["broker_pid"])
        self._seconds = spec["seconds"]
        self._records_max = min(spec["records_max"], spec["bytes_max"] // spec["size"])
        self._end = 0.0
        self.sent = 0
        self.cost: Cost | None = None

    def start(self) -> None:
        self._meter.start()
        self._end = time.perf_counter() + self._seconds

    def is_running(self) -> bool:
        return self.sent < self._records_max and time.perf_counter() < self._end

    def stop(self) -> None:
        self.cost = self._meter.stop()


def run(spec: Spec) -> Result:
    all_values = values(VALUES, spec["size"], spec["seed"])
    chunks = [all_values[start : start + CHUNK] for start in range(0, VALUES, CHUNK)]
    timed = Timed(spec)
    DRIVERS[spec["client"]](spec, chunks, timed)
    stored = _end_offsets(spec)
    if stored != timed.sent + CHUNK:
        raise ConnectionError(f"{timed.sent + CHUNK} sent, {stored} stored")
    assert timed.cost is not None
    return {"records": timed.sent, "bytes": timed.sent * spec["size"], **timed.cost.as_result()}


def _end_offsets(spec: Spec) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": spec["bootstrap"], "group.id": "bench"})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(spec["topic"], partition), timeout=10)[1]
            for partition in range(spec["partitions"])
        ]
    finally:
        consumer.close()
    return sum(ends)


def _drive(
    chunks: Chunks, timed: Timed, send: Callable[[list[bytes]], object], flush: Callable[[], object]
) -> None:
    send(chunks[0])
    flush()
    timed.start()
    for chunk in itertools.cycle(chunks):
        if not timed.is_running():
            break
        send(chunk)
        timed.sent += len(chunk)
    flush()
    timed.stop()


async def _drive_async(
    chunks: Chunks,
    timed: Timed,
    send: Callable[[list[bytes]], Awaitable[object]],
    flush: Callable[[], Awaitable[object]],
) -> None:
    await send(chunks[0])
    await flush()
    timed.start()
    for chunk in itertools.cycle(chunks):
        if not timed.is_running():
            break
        await send(chunk)
        timed.sent += len(chunk)
    await flush()
    timed.stop()


# Other clients, with idempotence and acks=all, our defaults.


def _confluent(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    from confluent_kafka import Producer

    equal = {"batch.size": 1_000_000, "batch.num.messages": 1_000_000, "linger.ms": 5}
    producer = Producer(
        {"bootstrap.servers": spec["bootstrap"], "enable.idempotence": True, **_if_equal(spec, equal)}
    )
    topic = spec["topic"]

    def send(chunk: list[bytes]) -> None:
        produce = producer.produce
        for value in chunk:
            try:
                produce(topic, value)
            except BufferError:
                # The queue is full: serving delivery reports frees it.
                while not _fits(produce, topic, value):
                    producer.poll(QUEUE_FULL_SECONDS)
        producer.poll(0)

    def flush() -> None:
        if left := producer.flush(FLUSH_SECONDS_MAX):
            raise ConnectionError(f"{left} records never acknowledged")

    _drive(chunks, timed, send, flush)


def _fits(produce: Callable[[str, bytes], object], topic: str, value: bytes) -> bool:
    try:
        produce(topic, value)
    except BufferError:
        return False
    return True


def _kafka_python(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    from kafka import KafkaProducer

    equal = {"batch_size": 1_000_000, "linger_ms": 5}
    producer = KafkaProducer(
        bootstrap_servers=spec["bootstrap"], acks="all", enable_idempotence=True, **_if_equal(spec, equal)
    )
    topic = spec["topic"]

    def send(chunk: list[bytes]) -> None:
        send_one = producer.send
        for value in chunk:
            send_one(topic, value)

    _drive(chunks, timed, send, lambda: producer.flush(FLUSH_SECONDS_MAX))
    producer.close()


def _aiokafka(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    from aiokafka import AIOKafkaProducer

    async def drive() -> None:
        equal = {"max_batch_size": 1_000_000, "linger_ms": 5}
        producer = AIOKafkaProducer(
            bootstrap_servers=spec["bootstrap"], acks="all", enable_idempotence=True, **_if_equal(spec, equal)
        )
        await producer.start()
        topic = spec["topic"]

        async def send(chunk: list[bytes]) -> None:
            send_one = producer.send
            for value in chunk:
                await send_one(topic, value)

        try:
            await _drive_async(chunks, timed, send, producer.flush)
        finally:
            await producer.stop()

    _run_loop(drive())


# Ours.


def _blocking(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    from odradek import Producer

    topic = spec["topic"]
    with Producer(_our_options(spec)) as producer:

        def send(chunk: list[bytes]) -> None:
            send_one = producer.send
            for value in chunk:
                send_one(topic, value)

        _drive(chunks, timed, send, producer.flush)


def _send_many(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    from odradek import Producer

    with Producer(_our_options(spec)) as producer:
        _drive(chunks, timed, lambda chunk: producer.send_many(spec["topic"], chunk), producer.flush)


def _send_arrow(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    import pyarrow

    from odradek import Producer

    tables = {id(chunk): pyarrow.table({"value": pyarrow.array(chunk, pyarrow.binary())}) for chunk in chunks}
    with Producer(_our_options(spec)) as producer:
        _drive(
            chunks, timed, lambda chunk: producer.send_arrow(tables[id(chunk)], spec["topic"]), producer.flush
        )


def _aio(spec: Spec, chunks: Chunks, timed: Timed) -> None:
    from odradek.aio import Producer

    async def drive() -> None:
        topic = spec["topic"]
        async with Producer(_our_options(spec)) as producer:

            async def send(chunk: list[bytes]) -> None:
                send_one = producer.send
                for value in chunk:
                    await send_one(topic, value)

            await _drive_async(chunks, timed, send, producer.flush)

    _run_loop(drive())


def _our_options(spec: Spec) -> dict[str, object]:
    equal = {"batch.size": 1_000_000, "linger.ms": 5}
    return {"bootstrap.servers": spec["bootstrap"], **_if_equal(spec, equal)}


def _if_equal(spec: Spec, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that make clients comparable, if requested; else each has its defaults."""
    return dict(options) if spec["equal"] else {}


def _run_loop(driving: Any) -> None:
    """Run on uvloop, for all clients: aiokafka gains too."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(driving)
    else:
        uvloop.run(driving)


DRIVERS: Mapping[str, Callable[[Spec, Chunks, Timed], None]] = {
    "send": _blocking,
    "send_many": _send_many,
    "send_arrow": _send_arrow,
    "aio send": _aio,
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}


if __name__ == "__main__":
    serve(run)
