"""Metrics of the sender, under Kafka's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.client.metrics import ClientMetrics

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch


class SenderMetrics:
    """Metrics recorded per batch and request, never per record."""

    def __init__(self, metrics: ClientMetrics) -> None:
        self._batch_size_avg = metrics.average("batch-size-avg", "Average uncompressed batch size in bytes.")
        self._batch_size_max = metrics.maximum("batch-size-max", "Maximum uncompressed batch size in bytes.")
        self._records_per_request = metrics.average(
            "records-per-request-avg", "Average number of records per request."
        )
        self._queue_time_avg = metrics.average(
            "record-queue-time-avg", "Average time batches spent in the accumulator, in milliseconds."
        )
        self._queue_time_max = metrics.maximum(
            "record-queue-time-max", "Maximum time a batch spent in the accumulator, in milliseconds."
        )
        self._sent = metrics.counter("record-send-total", "Records sent, including retries.")
        self._bytes = metrics.counter("byte-total", "Uncompressed bytes of batches sent.")
        self._retried = metrics.counter("record-retry-total", "Records that were retried.")
        self._failed = metrics.counter("record-error-total", "Records that failed.")
        self._split = metrics.counter(
            "batch-split-total", "Batches that were split because they were too large."
        )

    def sent(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """Record a request in one call: this runs for every batch."""
        sizes = [batch.size_bytes for batch in batches]
        waits_ms = [now_ms - batch.created_ms for batch in batches]
        records = sum([batch.count for batch in batches])
        size_bytes = sum(sizes)
        self._bytes.value += size_bytes
        self._batch_size_avg.total += size_bytes
        self._batch_size_avg.count += len(sizes)
        self._batch_size_max.record(max(sizes))
        self._queue_time_avg.total += sum(waits_ms)
        self._queue_time_avg.count += len(sizes)
        self._queue_time_max.record(max(waits_ms))
        self._sent.value += records
        self._records_per_request.record(records)

    def retried(self, batch: ProducerBatch) -> None:
        self._retried.add(batch.count)

    def failed(self, batch: ProducerBatch) -> None:
        self._failed.add(batch.count)

    def split(self) -> None:
        self._split.add()
