"""``odradek perf``: throughput and latency of writing, reading, and both end to end.

Latency is measured from the time a record was due, not from when the program sent it: a pause of the broker
also delays the records behind it, as users would see it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odradek.cli.errors import CommandFailed, command
from odradek.cli.output import show, show_json
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.producer import Producer


app = typer.Typer(help="Measure throughput and latency.", no_args_is_help=True)

MB: Final = 1_000_000
REPORT_INTERVAL_S: Final = 1.0
PAYLOADS: Final = 64
SAMPLE: Final = 100
"""At full speed, the latency of one record in this many is measured: a callback for each would be slow."""
STAMP_BYTES: Final = 8
POLLED_MAX: Final = 50_000
_FINE_BITS: Final = 8
_FRACTIONS: Final = (0.5, 0.95, 0.99, 0.999)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.")]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="Number of records.")]
Size = Annotated[int, typer.Option("--size", "-s", min=STAMP_BYTES, help="Bytes per value.")]
Idle = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Exit after this many seconds without a record.")
]


class ProgressMeter:
    """Counts records, prints progress to stderr every second, and computes a summary."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._started_s = self._reported_s = perf_counter()
        self._reported_count = 0
        self.count = 0
        self.size_bytes = 0
        self.latencies = LatencyHistogram()

    def add(self, count: int, size_bytes: int) -> None:
        self.count += count
        self.size_bytes += size_bytes
        now_s = perf_counter()
        if now_s - self._reported_s >= REPORT_INTERVAL_S:
            rate = (self.count - self._reported_count) / (now_s - self._reported_s)
            line = f"{self.count} records {self._verb}, {rate:,.0f} records/s{self._latency_text()}"
            print(line, file=sys.stderr)
            self._reported_s, self._reported_count = now_s, self.count

    def _latency_text(self) -> str:
        if not self.latencies.count:
            return ""
        return ", ms: " + " ".join(f"{name} {ms:g}" for name, ms in self.latencies.summary_ms().items())

    def summary(self) -> dict[str, Any]:
        elapsed_s = max(perf_counter() - self._started_s, 1e-9)
        summary: dict[str, Any] = {
            "records": self.count,
            "seconds": round(elapsed_s, 3),
            "records_per_s": round(self.count / elapsed_s, 1),
            "mb_per_s": round(self.size_bytes / MB / elapsed_s, 3),
        }
        if self.latencies.count:
            summary["latency_ms"] = self.latencies.summary_ms()
        return summary


def _show(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(summary)
        return
    flat = {**summary, **{f"{name}_ms": ms for name, ms in summary.pop("latency_ms", {}).items()}}
    flat.pop("latency_ms", None)
    show([flat], list(flat), as_json=False)


def _check_delivered(producer: Producer, topic: str) -> None:
    failed = int(producer.metrics().get("record-error-total", 0))
    if failed:
        raise CommandFailed(f"{failed} records not delivered to {topic}")


@app.command()
@command
def produce(
    topic: Topic,
    records: Records = 1_000_000,
    size: Size = 100,
    rate: Annotated[float, typer.Option("--rate", min=0, help="Records per second (0: no limit).")] = 0,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Measure producer throughput and latency: send records to an existing topic.

    Example: odradek perf produce numbers --records 100000 --size 100
    """
    target = Target(bootstrap, extra)
    with target.admin() as admin:
        admin.describe_topics([topic])
    with target.producer() as producer:
        progress = ProgressMeter("sent")
        _send(producer, topic, records, size, rate, progress)
        producer.flush()
        summary = progress.summary()
        _check_delivered(producer, topic)
    _show(summary, json)


def _send(
    producer: Producer, topic: str, records: int, size: int, rate: float, progress: ProgressMeter
) -> None:
    payloads = [os.urandom(size) for _ in range(PAYLOADS)]
    every = 1 if rate else SAMPLE
    started_s = perf_counter()
    for number in range(records):
        on_delivery = None
        if number % every == 0:
            due_s = _wait_until(started_s + number / rate) if rate else perf_counter()
            on_delivery = _record_latency(progress.latencies, due_s)
            progress.add(min(every, records - number), min(every, records - number) * size)
        producer.send(topic, payloads[number % PAYLOADS], on_delivery=on_delivery)


def _wait_until(due_s: float) -> float:
    """Sleep until a time, unless it has passed; return it."""
    from odradek.client.environment import block_thread

    if (early_s := due_s - perf_counter()) > 0:
        block_thread(early_s)
    return due_s


def _record_latency(
    latencies: LatencyHistogram, due_s: float
) -> Callable[[object, BaseException | None], None]:
    def on_delivery(metadata: object, error: BaseException | None) -> None:
        if error is None:
            latencies.add(int((perf_counter() - due_s) * 1e6))

    return on_delivery


@app.command()
@command
def consume(
    topic: Topic,
    records: Records = 1_000_000,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group.")
    ] = None,
    timeout: Idle = 10.0,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Measure consumer throughput: read a topic from its beginning.

    Example: odradek perf consume numbers --records 100000
    """
    target = Target(bootstrap, extra)
    with target.admin() as admin:
        admin.describe_topics([topic])
    with target.consumer(group_id=group, auto_offset_reset="earliest") as consumer:
        _start_reading(consumer, topic, group)
        progress = ProgressMeter("read")
        _receive(consumer, records, timeout, progress)
        summary = progress.summary()
    _show(summary, json)
    if progress.count < records:
        raise CommandFailed(f"received {progress.count} of {records} records, then none for {timeout:g} s")


def _start_reading(consumer: Consumer, topic: str, group: str | None) -> None:
    from odradek import TopicPartition

    if group is not None:
        consumer.subscribe([topic])
        return
    partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)


def _receive(consumer: Consumer, records: int, timeout_s: float, progress: ProgressMeter) -> None:
    last_s = perf_counter()
    while progress.count < records and perf_counter() - last_s < timeout_s:
        polled = consumer.poll(min(REPORT_INTERVAL_S, timeout_s), min(records - progress.count, POLLED_MAX))
        if polled:
            last_s = perf_counter()
        progress.add(len(polled), sum(len(record.value or b"") + len(record.key or b"") for record in polled))


@app.command()
@command
def e2e(
    topic: Topic,
    records: Records = 10_000,
    size: Size = 100,
    rate: Annotated[float, typer.Option("--rate", min=1, help="Records per second.")] = 1000,
    timeout: Idle = 10.0,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Measure end-to-end latency: from the time a record was due until it is read back.

    Other records of the topic are ignored. -X applies to both clients, where they have the option.

    Example: odradek perf e2e numbers --records 1000 --rate 200
    """
    target = Target(bootstrap, extra)
    with target.admin() as admin:
        admin.describe_topics([topic])
    with target.consumer(shared=True) as consumer, target.producer(shared=True) as producer:
        _start_at_end(consumer, topic)
        summary = EndToEnd(producer, consumer, topic, size, rate).measure(records, timeout)
    _show(summary, json)
    if summary["records"] < records:
        raise CommandFailed(f"received {summary['records']} of {records} records")


def _start_at_end(consumer: Consumer, topic: str) -> None:
    from odradek import TopicPartition

    partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_end(*partitions)
    for partition in partitions:
        consumer.position(partition)  # resolve the end offset now, not after the first record


class EndToEnd:
    """Sends records on schedule in a thread, and reads them in the calling one."""

    def __init__(self, producer: Producer, consumer: Consumer, topic: str, size: int, rate: float) -> None:
        self._producer = producer
        self._consumer = consumer
        self._topic = topic
        self._size = size
        self._rate = rate
        self._key = os.urandom(8)
        self._stop = threading.Event()
        self._send_error: BaseException | None = None

    def measure(self, records: int, timeout_s: float) -> dict[str, Any]:
        progress = ProgressMeter("received")
        sender = threading.Thread(target=self._send, args=(records,), name="perf-sender", daemon=True)
        sender.start()
        last_s = perf_counter()
        try:
            while progress.count < records and self._send_error is None:
                if perf_counter() - last_s >= timeout_s:
                    break
                for record in self._consumer.poll(0.1):
                    if record.key == self._key and record.value is not None:
                        due_us = int.from_bytes(record.value[:STAMP_BYTES], "big")
                        progress.latencies.add(int(perf_counter() * 1e6) - due_us)
                        progress.add(1, self._size)
                        last_s = perf_counter()
        finally:
            self._stop.set()
            sender.join()
        if self._send_error is not None:
            raise self._send_error
        return progress.summary()

    def _send(self, records: int) -> None:
        from odradek import ClientError

        padding = os.urandom(self._size - STAMP_BYTES)
        started_s = perf_counter()
        try:
            for number in range(records):
                due_s = started_s + number / self._rate
                if self._stop.wait(max(0.0, due_s - perf_counter())):
                    return
                stamp = int(due_s * 1e6).to_bytes(STAMP_BYTES, "big")
                self._producer.send(self._topic, stamp + padding, self._key)
        except ClientError as error:
            self._send_error = error


class LatencyHistogram:
    """Counts of latencies in microseconds: any number in bounded memory, with an error below one percent.

    Below 256 µs a bucket is one microsecond wide; above, each doubling has 128 buckets.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.max_us = 0

    def add(self, duration_us: int) -> None:
        value = max(0, duration_us)
        bucket = _bucket(value)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.count += 1
        self.max_us = max(self.max_us, value)

    def at(self, fraction: float) -> int:
        """Return the latency in microseconds that this fraction of values does not exceed."""
        rank = fraction * self.count
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return min(_highest(bucket), self.max_us)
        return self.max_us

    def summary_ms(self) -> dict[str, float]:
        """Return percentiles in milliseconds, by name."""
        percentiles = {f"p{100 * fraction:g}": self.at(fraction) / 1000 for fraction in _FRACTIONS}
        return {**percentiles, "max": self.max_us / 1000}


def _bucket(value: int) -> int:
    shift = max(0, value.bit_length() - _FINE_BITS)
    return (shift << _FINE_BITS) + (value >> shift)


def _highest(bucket: int) -> int:
    """Return the largest value in a bucket."""
    shift, rest = bucket >> _FINE_BITS, bucket & ((1 << _FINE_BITS) - 1)
    return ((rest + 1) << shift) - 1
