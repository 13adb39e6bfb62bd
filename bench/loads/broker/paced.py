"""Sends records at a fixed rate with librdkafka and reads them: times until acknowledged and until received.

Times count from when a record was due, not from when it was sent: a stalled broker is charged for all delayed
records. Producer and consumer share a process, so that all times come from one clock.
"""

from __future__ import annotations

import struct
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

FLUSH_SECONDS_MAX = 30.0
READY_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1
RECEIVE_MAX = 500
RECEIVE_SECONDS = 0.1
SWITCH_SECONDS = 0.000_2
"""Threads must not wait for each other: a reader would otherwise hold the sender up for 5 ms."""
_DUE = struct.Struct(">d")


class Reader(threading.Thread):
    """Receives the records at the end of the partitions, and notes their ages."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": spec["bootstrap"],
                "group.id": "paced",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        partitions = [TopicPartition(spec["topic"], number, 0) for number in range(spec["partitions"])]
        self._consumer.assign(partitions)
        self.ages: list[float] = []
        self.is_done = False

    def run(self) -> None:
        while not self.is_done:
            # ``consume`` alone would wait for its timeout to get as many messages as it may.
            first = self._consumer.poll(RECEIVE_SECONDS)
            messages = [] if first is None else [first, *self._consumer.consume(RECEIVE_MAX, 0)]
            now = time.perf_counter()
            for message in messages:
                value = message.value()
                if message.error() is None and value is not None:
                    self.ages.append(now - _DUE.unpack_from(value)[0])

    def wait_for(self, count: int, seconds_max: float) -> None:
        deadline = time.perf_counter() + seconds_max
        while len(self.ages) < count:
            if time.perf_counter() > deadline:
                raise ConnectionError(f"{count} records sent, {len(self.ages)} received")
            time.sleep(RECEIVE_SECONDS)


class Sender:
    """Sends a record when it is due, round robin over the partitions."""

    def __init__(self, spec: Spec) -> None:
        self._topic, self._partitions = spec["topic"], spec["partitions"]
        self._producer = Producer({"bootstrap.servers": spec["bootstrap"], **spec["settings"]})
        self._rest = values(1, spec["size"], spec["seed"])[0][_DUE.size :]
        self.ages: list[float] = []
        self._errors: list[str] = []
        threading.Thread(target=self._poll, daemon=True).start()

    def send(self, rate: float, seconds: float) -> int:
        """Send for some seconds; return the number of records, all acknowledged."""
        count = int(rate * seconds)
        begin = time.perf_counter() + 1 / rate
        for number in range(count):
            due = begin + number / rate
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            self._send(number, due)
        if self._producer.flush(FLUSH_SECONDS_MAX) or self._errors:
            raise ConnectionError(f"records were not acknowledged: {self._errors[:3]}")
        return count

    def _send(self, number: int, due: float) -> None:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.ages.append(time.perf_counter() - due)
            else:
                self._errors.append(str(error))

        value = _DUE.pack(due) + self._rest
        self._producer.produce(
            self._topic, value, partition=number % self._partitions, on_delivery=on_delivery
        )

    def _poll(self) -> None:
        """Note acknowledgements as they come, also while the sender waits."""
        while True:
            self._producer.poll(POLL_SECONDS)


def run(spec: Spec) -> Result:
    sys.setswitchinterval(SWITCH_SECONDS)
    reader, sender = Reader(spec), Sender(spec)
    reader.start()
    warm_up = sender.send(spec["rate"], spec["warm_up_seconds"])
    reader.wait_for(warm_up, READY_SECONDS_MAX)
    sender.ages.clear()
    meter = Meter(spec["broker_pid"])
    meter.start()
    count = sender.send(spec["rate"], spec["seconds"])
    cost = meter.stop()
    reader.wait_for(warm_up + count, READY_SECONDS_MAX)
    reader.is_done = True
    return {
        "records": count,
        "publish_ms": _percentiles(sender.ages),
        "end_to_end_ms": _percentiles(reader.ages[warm_up:]),
        **cost.as_result(),
    }


def _percentiles(ages: list[float]) -> dict[str, float]:
    ordered = sorted(ages)
    return {
        name: 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    }


if __name__ == "__main__":
    serve(run)
