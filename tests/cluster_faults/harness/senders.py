"""A producer that records its history, and probes that time their acknowledgements."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, Message, Producer
from tests.faults.clients.actors import Actor
from tests.faults.clients.history import ProducerPart, Send

import odradek

FLUSH_SECONDS_MAX = 60.0
PROBE_SECONDS = 0.01
SETTINGS: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "log_level": 2,
    "socket.timeout.ms": 5_000,  # a paused broker keeps its connections open
    "reconnect.backoff.max.ms": 500,
    # Brokers that have just started do not know any topic until the controller has told them.
    "topic.metadata.propagation.max.ms": 300_000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 100,  # metadata of a partition without a leader is asked for as often
}


class ConfluentSender(Actor):
    """Sends to random partitions; the last record of its life is acknowledged, or its part has a problem."""

    def __init__(self, bootstrap: str, part: ProducerPart, partitions: int, rng: random.Random) -> None:
        super().__init__(part, rng)
        self.part = part
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})

    def play(self) -> None:
        while self.is_wanted:
            for _ in range(self.rng.randrange(1, self.burst_max)):
                self._send()
            self._producer.poll(self.rng.random() * self.pause_seconds_max)
        if left := self._producer.flush(FLUSH_SECONDS_MAX):
            raise TimeoutError(f"{left} records were not acknowledged within {FLUSH_SECONDS_MAX} s")

    def _send(self) -> None:
        send = Send(f"{self.part.name}-{len(self.part.sends)}", self.rng.randrange(self._partitions))

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            send.callbacks += 1
            offset = message.offset()
            if error is None and offset is not None:
                send.acknowledge(offset)
            else:
                send.error = str(error)

        self._producer.produce(
            self.topic, send.value.encode(), partition=send.partition, on_delivery=on_delivery
        )
        self.part.sends.append(send)


class Probe:
    """Sends a record every 10 ms to one partition, and notes when each is acknowledged.

    ``acknowledged`` holds pairs of sent and acknowledged, in seconds of the monotonic clock.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self.acknowledged: list[tuple[float, float]] = []
        self.errors: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _send(self, sent: float) -> None:
        """Send a record, and call ``_note`` with its result."""
        raise NotImplementedError

    def _rest(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Wait for all results."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def wait_for_acknowledged(self, after: float, count: int = 1) -> float:
        """Wait for records that were sent after a time; return when the last of them was acknowledged."""
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while time.monotonic() < deadline:
            times = [acknowledged for sent, acknowledged in list(self.acknowledged) if sent > after]
            if len(times) >= count:
                return times[count - 1]
            time.sleep(PROBE_SECONDS)
        raise TimeoutError(f"no record was acknowledged within {FLUSH_SECONDS_MAX} s")

    def first_acknowledgement_after(self, moment: float) -> float | None:
        """Return when the first record was acknowledged after a moment, whenever it was sent."""
        times = (acknowledged for _, acknowledged in list(self.acknowledged) if acknowledged > moment)
        return min(times, default=None)

    def longest_stall(self, began: float, ended: float) -> float:
        """Return the longest time without an acknowledgement."""
        return longest_gap([acknowledged for _, acknowledged in self.acknowledged], began, ended)

    def _run(self) -> None:
        while not self._ends.is_set():
            self._send(time.monotonic())
            self._rest()
        self._close()

    def _note(self, sent: float, error: object) -> None:
        if error is None:
            self.acknowledged.append((sent, time.monotonic()))
        else:
            self.errors.append(str(error))


class ConfluentProbe(Probe):
    """Learns of a new leader within up to two seconds: librdkafka looks for one once a second."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        super().__init__(topic, partition)
        self._producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS, "linger.ms": 0})

    def _send(self, sent: float) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._note(sent, error)

        self._producer.produce(self._topic, b"probe", partition=self._partition, on_delivery=on_delivery)

    def _rest(self) -> None:
        self._producer.poll(PROBE_SECONDS)

    def _close(self) -> None:
        self._producer.flush(FLUSH_SECONDS_MAX)


class OdradekProbe(Probe):
    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        super().__init__(topic, partition)
        self._producer = odradek.Producer(bootstrap_servers=bootstrap, linger_ms=0)

    def _send(self, sent: float) -> None:
        def on_delivery(metadata: Any, error: BaseException | None) -> None:
            self._note(sent, error)

        self._producer.send(self._topic, b"probe", partition=self._partition, on_delivery=on_delivery)

    def _rest(self) -> None:
        time.sleep(PROBE_SECONDS)

    def _close(self) -> None:
        self._producer.close()


def longest_gap(moments: list[float], began: float, ended: float) -> float:
    """Return the longest time between two moments of a period, its ends included."""
    inside = [began, *sorted(moment for moment in moments if began < moment < ended), ended]
    return max(later - earlier for earlier, later in itertools.pairwise(inside))


def send_all(bootstrap: str, topic: str, partitions: Sequence[int], values: Sequence[str]) -> dict[str, int]:
    """Send values to partitions in turn, wait until all are acknowledged, and return their offsets."""
    producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})
    errors: list[str] = []
    offsets: dict[str, int] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is None and value is not None and offset is not None:
            offsets[value.decode()] = offset
        else:
            errors.append(str(error))

    for number, value in enumerate(values):
        partition = partitions[number % len(partitions)]
        producer.produce(topic, value.encode(), partition=partition, on_delivery=on_delivery)
    left = producer.flush(FLUSH_SECONDS_MAX)
    assert not left, f"{left} records of {topic} were not acknowledged within {FLUSH_SECONDS_MAX} s"
    assert not errors, f"records of {topic} failed: {errors[:3]}"
    return offsets
