"""``odradek perf``: how fast records are written, read, and passed on.

LatencyHistogram count from when a record should have been sent, not from when the program got to it: a pause
of the broker makes the records behind it late too, as users would see it.
"""

from __future__ import annotations

import os
import sys
import threading
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odradek.cli.errors import CommandFailed, command
from odradek.cli.output import show, show_json
from odradek.cli.records.latency_histogram import LatencyHistogram
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.producer import Producer

app = typer.Typer(help="Measure throughput and latency.", no_args_is_help=True)

MB: Final = 1_000_000
TELL_S: Final = 1.0
PAYLOADS: Final = 64
SAMPLE: Final = 100
"""At full speed the latency of one record in so many is taken: asking about each would slow all of them."""
STAMP_BYTES: Final = 8
POLLED_MAX: Final = 50_000

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.")]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="Number of records.")]
Size = Annotated[int, typer.Option("--size", "-s", min=STAMP_BYTES, help="Bytes per value.")]
Idle = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Exit after this many seconds without a record.")
]


class Pace:
    """Counts, tells once a second how it goes on stderr, and sums up."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun_s = self._told_s = perf_counter()
        self._told_count = 0
        self.count = 0
        self.size_bytes = 0
        self.latencies = LatencyHistogram()

    def add(self, count: int, size_bytes: int) -> None:
        self.count += count
        self.size_bytes += size_bytes
        now_s = perf_counter()
        if now_s - self._told_s >= TELL_S:
            rate = (self.count - self._told_count) / (now_s - self._told_s)
            print(
                f"{self.count} records {self._what}, {rate:,.0f} records/s{self._lateness()}", file=sys.stderr
            )
            self._told_s, self._told_count = now_s, self.count

    def _lateness(self) -> str:
        if not self.latencies.count:
            return ""
        return ", ms: " + " ".join(f"{name} {ms:g}" for name, ms in self.latencies.summary_ms().items())

    def summary(self) -> dict[str, Any]:
        took_s = max(perf_counter() - self._begun_s, 1e-9)
        found: dict[str, Any] = {
            "records": self.count,
            "seconds": round(took_s, 3),
            "records_per_s": round(self.count / took_s, 1),
            "mb_per_s": round(self.size_bytes / MB / took_s, 3),
        }
        if self.latencies.count:
            found["latency_ms"] = self.latencies.summary_ms()
        return found


def _show(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(summary)
        return
    flat = {**summary, **{f"{name}_ms": ms for name, ms in summary.pop("latency_ms", {}).items()}}
    flat.pop("latency_ms", None)
    show([flat], list(flat), as_json=False)


def _check_written(producer: Producer, topic: str) -> None:
    failed = int(producer.metrics().get("record-error-total", 0))
    if failed:
        raise CommandFailed(f"{failed} records were not written to {topic}")


@app.command()
@command
def produce(
    topic: Topic,
    records: Records = 1_000_000,
    size: Size = 100,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="Records per second; 0 is as fast as possible.")
    ] = 0,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Measure writing: send records to an existing topic.

    Example: odradek perf produce numbers --records 100000 --size 100
    """
    target = Target(bootstrap, extra)
    with target.admin() as admin:
        admin.describe_topics([topic])
    with target.producer() as producer:
        pace = Pace("sent")
        _send(producer, topic, records, size, rate, pace)
        producer.flush()
        summary = pace.summary()
        _check_written(producer, topic)
    _show(summary, json)


def _send(producer: Producer, topic: str, records: int, size: int, rate: float, pace: Pace) -> None:
    payloads = [os.urandom(size) for _ in range(PAYLOADS)]
    every = 1 if rate else SAMPLE
    begun_s = perf_counter()
    for number in range(records):
        on_delivery = None
        if number % every == 0:
            intended_s = _wait_until(begun_s + number / rate) if rate else perf_counter()
            on_delivery = _timing(pace.latencies, intended_s)
            pace.add(min(every, records - number), min(every, records - number) * size)
        producer.send(topic, payloads[number % PAYLOADS], on_delivery=on_delivery)


def _wait_until(moment_s: float) -> float:
    """Gives the moment itself, also when it is over already."""
    if (early_s := moment_s - perf_counter()) > 0:
        sleep(early_s)
    return moment_s


def _timing(latencies: LatencyHistogram, intended_s: float) -> Any:
    def told(metadata: object, error: BaseException | None) -> None:
        if error is None:
            latencies.add(int((perf_counter() - intended_s) * 1e6))

    return told


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
    """Measure reading: read a topic from its beginning.

    Example: odradek perf consume numbers --records 100000
    """
    target = Target(bootstrap, extra)
    with target.admin() as admin:
        admin.describe_topics([topic])
    with target.consumer(group_id=group, auto_offset_reset="earliest") as consumer:
        _begin_reading(consumer, topic, group)
        pace = Pace("read")
        _receive(consumer, records, timeout, pace)
        summary = pace.summary()
    _show(summary, json)
    if pace.count < records:
        raise CommandFailed(f"only {pace.count} of {records} records came within {timeout:g} s of each other")


def _begin_reading(consumer: Consumer, topic: str, group: str | None) -> None:
    from odradek import TopicPartition

    if group is not None:
        consumer.subscribe([topic])
        return
    partitions = [TopicPartition(topic, one.partition) for one in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)


def _receive(consumer: Consumer, records: int, timeout_s: float, pace: Pace) -> None:
    last_s = perf_counter()
    while pace.count < records and perf_counter() - last_s < timeout_s:
        got = consumer.poll(min(TELL_S, timeout_s), min(records - pace.count, POLLED_MAX))
        if got:
            last_s = perf_counter()
        pace.add(len(got), sum(len(one.value or b"") + len(one.key or b"") for one in got))


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
    """Measure end-to-end latency: from when each record was due to when it was read back.

    Other records of the topic are ignored. -X goes to both clients, as far as each knows the option.

    Example: odradek perf e2e numbers --records 1000 --rate 200
    """
    target = Target(bootstrap, extra)
    with target.admin() as admin:
        admin.describe_topics([topic])
    with target.consumer(shared=True) as consumer, target.producer(shared=True) as producer:
        _begin_at_end(consumer, topic)
        summary = Passing(producer, consumer, topic, size, rate).measure(records, timeout)
    _show(summary, json)
    if summary["records"] < records:
        raise CommandFailed(f"only {summary['records']} of {records} records came back")


def _begin_at_end(consumer: Consumer, topic: str) -> None:
    from odradek import TopicPartition

    partitions = [TopicPartition(topic, one.partition) for one in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_end(*partitions)
    for one in partitions:
        consumer.position(one)  # the end is looked for now, not after the first record


class Passing:
    """Records that a thread sends on time, and this one reads."""

    def __init__(self, producer: Producer, consumer: Consumer, topic: str, size: int, rate: float) -> None:
        self._producer = producer
        self._consumer = consumer
        self._topic = topic
        self._size = size
        self._rate = rate
        self._mark = os.urandom(8)
        self._stop = threading.Event()
        self._trouble: BaseException | None = None

    def measure(self, records: int, timeout_s: float) -> dict[str, Any]:
        pace = Pace("passed on")
        sender = threading.Thread(target=self._send, args=(records,), name="perf-sender", daemon=True)
        sender.start()
        last_s = perf_counter()
        try:
            while pace.count < records and perf_counter() - last_s < timeout_s and self._trouble is None:
                for one in self._consumer.poll(0.1):
                    if one.key == self._mark and one.value is not None:
                        due_us = int.from_bytes(one.value[:STAMP_BYTES], "big")
                        pace.latencies.add(int(perf_counter() * 1e6) - due_us)
                        pace.add(1, self._size)
                        last_s = perf_counter()
        finally:
            self._stop.set()
            sender.join()
        if self._trouble is not None:
            raise self._trouble
        return pace.summary()

    def _send(self, records: int) -> None:
        from odradek import ClientError

        padding = os.urandom(self._size - STAMP_BYTES)
        begun_s = perf_counter()
        try:
            for number in range(records):
                due_s = begun_s + number / self._rate
                if self._stop.wait(max(0.0, due_s - perf_counter())):
                    return
                stamp = int(due_s * 1e6).to_bytes(STAMP_BYTES, "big")
                self._producer.send(self._topic, stamp + padding, self._mark)
        except ClientError as failed:
            self._trouble = failed
