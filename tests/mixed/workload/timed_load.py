"""A load that can be paused, with the times of its acknowledgements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message
from tests.mixed.harness.load import FLUSH_SECONDS_MAX, PAUSE_SECONDS, Load
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.workload.completion_times import CompletionTimes, Gap
from tests.mixed.workload.gate import Gate


class TimedLoad(Load):
    def __init__(self, cluster: MixedCluster, topic: str, partitions: Sequence[int], prefix: bytes) -> None:
        super().__init__(cluster, topic, partitions, prefix=prefix)
        self.times = {partition: CompletionTimes() for partition in partitions}
        self._gate = Gate()

    def longest_gap(self, since: float, until: float) -> Gap:
        """Return the longest time in which a partition had no acknowledgement."""
        return max(times.longest_gap(since, until) for times in self.times.values())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Send nothing for a while, after all records were acknowledged."""
        with self._gate.closed():
            if self._producer.flush(FLUSH_SECONDS_MAX):
                raise TimeoutError(f"records must be acknowledged within {FLUSH_SECONDS_MAX} s")
            yield

    def _produce(self) -> None:
        for number in itertools.count():
            if self._ends.is_set():
                return
            with self._gate.step():
                for partition in self.acknowledged:
                    value = b"%b %d" % (self.prefix, number)
                    self._producer.produce(
                        self.topic, value, partition=partition, on_delivery=self._on_delivery
                    )
                self._producer.poll(PAUSE_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        super()._on_delivery(error, message)
        partition = message.partition()
        if error is None and partition is not None:
            self.times[partition].note()
