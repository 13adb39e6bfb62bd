"""Reads a filled topic with one Python client, from the beginning, for some seconds.

Partitions are assigned, without a group. Key, value and offset of every record are read in a Python loop, the
same for all clients; ``poll_arrow`` has no records, so that its offset column is summed instead. The clock
starts with the assignment, when the client has the topic's metadata.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.loads.worker import Result, Spec, serve
from bench.meter import Cost, Meter

POLL_SECONDS = 0.5
STALL_SECONDS_MAX = 20.0
ARROW_ROWS = 100_000
FETCH_BACKOFF_MS = 1


class Timed:
    """Timed part: until its seconds are over, or all records are read."""

    def __init__(self, spec: Spec) -> None:
        self._meter = Meter(spec["broker_pid"])
        self._seconds = spec["seconds"]
        self._total = spec["records"]
        self._end = self._last_received = 0.0
        self.records = self.bytes = 0
        self.cost: Cost | None = None

    def start(self) -> None:
        self._meter.start()
        self._last_received = time.perf_counter()
        self._end = self._last_received + self._seconds

    def add(self, records: int, value_bytes: int) -> bool:
        """Count records; return whether to continue."""
        now = time.perf_counter()
        if records:
            self._last_received = now
            self.records += records
            self.bytes += value_bytes
        elif now - self._last_received > STALL_SECONDS_MAX:
            raise ConnectionError(f"{self.records} of {self._total} received, then no more")
        return self.records < self._total and now < self._end

    def stop(self) -> None:
        self.cost = self._meter.stop()


def run(spec: Spec) -> Result:
    timed = Timed(spec)
    DRIVERS[spec["client"]](spec, timed)
    if timed.bytes != timed.records * spec["size"]:
        raise ConnectionError(f"{timed.records} records of {spec['size']} B have {timed.bytes} bytes")
    assert timed.cost is not None
    return {"records": timed.records, "bytes": timed.bytes, **timed.cost.as_result()}


def _confluent(spec: Spec, timed: Timed) -> None:
    consumer, partitions = _confluent_consumer(spec)
    timed.start()
    consumer.assign(partitions)
    going = True
    while going:
        messages = consumer.consume(spec["at_once"], POLL_SECONDS)
        size = 0
        for message in messages:
            if message.error() is not None:
                raise ConnectionError(str(message.error()))
            message.key()
            message.offset()
            size += len(message.value())
        going = timed.add(len(messages), size)
    timed.stop()


def _confluent_poll(spec: Spec, timed: Timed) -> None:
    consumer, partitions = _confluent_consumer(spec)
    timed.start()
    consumer.assign(partitions)
    going = True
    while going:
        size = count = 0
        for _ in range(spec["at_once"]):
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                break
            if message.error() is not None:
                raise ConnectionError(str(message.error()))
            message.key()
            message.offset()
            size += len(message.value())
            count += 1
        going = timed.add(count, size)
    timed.stop()


def _confluent_consumer(spec: Spec) -> tuple[Any, list[Any]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "group.id": "bench",
            "enable.auto.commit": False,
            # With the default it pauses for a second whenever 100,000 messages are queued, which would
            # dominate.
            "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
        }
    )
    consumer.list_topics(spec["topic"], timeout=10)
    return consumer, [TopicPartition(spec["topic"], partition, 0) for partition in range(spec["partitions"])]


def _kafka_python(spec: Spec, timed: Timed) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=spec["bootstrap"], enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.partitions_for_topic(spec["topic"])
    timed.start()
    consumer.assign([TopicPartition(spec["topic"], partition) for partition in range(spec["partitions"])])
    going = True
    while going:
        batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=spec["at_once"])
        going = timed.add(*_look(records for records in batches.values()))
    timed.stop()
    consumer.close()


def _aiokafka(spec: Spec, timed: Timed) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def drive() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=spec["bootstrap"], enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            timed.start()
            consumer.assign(
                [TopicPartition(spec["topic"], partition) for partition in range(spec["partitions"])]
            )
            going = True
            while going:
                batches = await consumer.getmany(
                    timeout_ms=int(POLL_SECONDS * 1000), max_records=spec["at_once"]
                )
                going = timed.add(*_look(batches.values()))
            timed.stop()
        finally:
            await consumer.stop()

    _run_loop(drive())


def _blocking(spec: Spec, timed: Timed) -> None:
    from odradek import Consumer

    with Consumer(_our_options(spec)) as consumer:
        consumer.partitions_for(spec["topic"])
        timed.start()
        consumer.assign(_our_partitions(spec))
        going = True
        while going:
            going = timed.add(*_look([consumer.poll(POLL_SECONDS, spec["at_once"])]))
        timed.stop()


def _aio(spec: Spec, timed: Timed) -> None:
    from odradek.aio import Consumer

    async def drive() -> None:
        async with Consumer(_our_options(spec)) as consumer:
            await consumer.partitions_for(spec["topic"])
            timed.start()
            consumer.assign(_our_partitions(spec))
            going = True
            while going:
                going = timed.add(*_look([await consumer.poll(POLL_SECONDS, spec["at_once"])]))
            timed.stop()

    _run_loop(drive())


def _arrow(spec: Spec, timed: Timed) -> None:
    import pyarrow.compute

    from odradek import Consumer

    with Consumer(_our_options(spec)) as consumer:
        consumer.partitions_for(spec["topic"])
        timed.start()
        consumer.assign(_our_partitions(spec))
        going = True
        while going:
            batch = consumer.poll_arrow(POLL_SECONDS, ARROW_ROWS)
            pyarrow.compute.sum(batch.column("offset"))
            size = pyarrow.compute.sum(pyarrow.compute.binary_length(batch.column("value"))).as_py() or 0
            going = timed.add(batch.num_rows, size)
        timed.stop()


def _look(batches: Any) -> tuple[int, int]:
    """Read the fields an application would; return the record count and the size of values."""
    count = size = 0
    for records in batches:
        count += len(records)
        for record in records:
            record.key  # noqa: B018
            record.offset  # noqa: B018
            size += len(record.value)
    return count, size


def _our_options(spec: Spec) -> dict[str, object]:
    return {"bootstrap.servers": spec["bootstrap"], "auto.offset.reset": "earliest"}


def _our_partitions(spec: Spec) -> list[Any]:
    from odradek import TopicPartition

    return [TopicPartition(spec["topic"], partition) for partition in range(spec["partitions"])]


def _run_loop(driving: Any) -> None:
    """Run on uvloop, for all clients: aiokafka gains too."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(driving)
    else:
        uvloop.run(driving)


DRIVERS: Mapping[str, Callable[[Spec, Timed], None]] = {
    "poll": _blocking,
    "aio poll": _aio,
    "poll_arrow": _arrow,
    "confluent-kafka": _confluent,
    "confluent-kafka poll": _confluent_poll,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}


if __name__ == "__main__":
    serve(run)
