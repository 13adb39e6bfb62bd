"""Producers under faults, and a checker that finds lost, doubled and reordered records."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.harness.tally import TALLY

READ_SECONDS_MAX = 120.0
FLUSH_SECONDS_MAX = 180.0
PAUSE_SECONDS = 0.01
TIMEOUT_MS = 10_000
"""A paused broker keeps its connections open."""
BATCH_BYTES_MAX = 8_192
"""A batch must fit into the smallest segments, also after an outage."""


class Difference(NamedTuple):
    """Counts of records that differ from the acknowledged ones."""

    lost: int
    doubled: int
    unknown: int
    reordered: int


class Load:
    """Records sent in a thread, to each of the partitions in turn, and the values that were acknowledged.

    With acks=all the producer is idempotent. With acks=1 records may be lost: such a load makes tails of logs
    diverge, and only its values are not checked. ``prefix`` tells the values of loads on one topic apart.
    """

    def __init__(
        self,
        cluster: MixedCluster,
        topic: str,
        partitions: Sequence[int] = (0,),
        acks: str = "all",
        prefix: bytes = b"value",
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self.topic = topic
        self.prefix = prefix
        self.acknowledged: dict[int, list[bytes]] = {partition: [] for partition in partitions}
        self.failures: list[str] = []
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "debug": "eos,msg",
            "acks": acks,
            "enable.idempotence": acks == "all",
            "linger.ms": 5,
            "batch.size": BATCH_BYTES_MAX,
            "socket.timeout.ms": timeout_ms,
        }
        self._producer_log = open_log(cluster.home / f"producer-{topic}-{prefix.decode().strip()}.log")
        self._producer = Producer(settings, logger=self._producer_log)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()
        is_flushed = error is not None or not self._producer.flush(FLUSH_SECONDS_MAX)
        for handler in self._producer_log.handlers:
            handler.close()
        if not is_flushed:
            raise TimeoutError(f"records must be acknowledged within {FLUSH_SECONDS_MAX} s")

    def wait_for_acknowledged(self, count: int) -> None:
        """Wait for so many more acknowledgements in every partition."""
        goals = {partition: len(values) + count for partition, values in self.acknowledged.items()}
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while any(len(self.acknowledged[partition]) < goal for partition, goal in goals.items()):
            if time.monotonic() > deadline:
                counts = {partition: len(values) for partition, values in self.acknowledged.items()}
                raise TimeoutError(f"{goals} records of {self.topic} must be acknowledged, got {counts}")
            time.sleep(PAUSE_SECONDS)

    def _produce(self) -> None:
        for number in itertools.count():
            for partition in self.acknowledged:
                if self._ends.is_set():
                    return
                value = b"%b %d" % (self.prefix, number)
                self._producer.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)
            self._producer.poll(PAUSE_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value, partition = message.value(), message.partition()
        if error is None and value is not None and partition is not None:
            self.acknowledged[partition].append(value)
        else:
            self.failures.append(str(error))


def open_log(path: Path) -> logging.Logger:
    """Return a logger of its own with a file, for what a client of librdkafka did with each batch."""
    logger = logging.Logger(path.stem)
    handler = logging.FileHandler(path, mode="w")  # not opened again after its close
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    return logger


def check_load(cluster: MixedCluster, load: Load) -> None:
    """Check that the acknowledged records are there once and in order, and nothing else with their prefix."""
    assert load.failures == []
    for partition, acknowledged in load.acknowledged.items():
        values = read_values(cluster.bootstrap, load.topic, partition)
        own = [value for value in values if value.startswith(load.prefix)]
        assert acknowledged, f"no record of {load.topic}-{partition} was acknowledged"
        difference = compare(acknowledged, own)
        assert difference == (0, 0, 0, 0), f"{load.topic}-{partition}: {difference}"
        TALLY.acknowledged += len(acknowledged)


def compare(acknowledged: Sequence[bytes], values: Sequence[bytes]) -> Difference:
    """Count the differences between acknowledged and consumed records, which are distinct numbered values."""
    expected, actual = set(acknowledged), Counter(values)
    first_positions = list(dict.fromkeys(value for value in values if value in expected))
    present = [value for value in acknowledged if value in actual]
    return Difference(
        lost=len(expected - actual.keys()),
        doubled=sum(count - 1 for count in actual.values()),
        unknown=len(actual.keys() - expected),
        reordered=sum(a != b for a, b in zip(present, first_positions, strict=True)),
    )


def read_values(bootstrap: str, topic: str, partition: int = 0, end: int | None = None) -> list[bytes]:
    """Return all committed values of a partition.

    While records are written, a consumer may never see its end: ``end`` is the offset to read up to.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 2,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + READ_SECONDS_MAX
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return values
            if message is not None and error is None:
                values.append(message.value() or b"")
                if end is not None and (message.offset() or 0) >= end - 1:
                    return values
        raise TimeoutError(f"{topic} must be readable within {READ_SECONDS_MAX} s, got {len(values)} records")
    finally:
        consumer.close()
