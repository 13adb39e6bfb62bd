"""What a sender counts, under the names of Kafka's producer metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.client.metrics import ClientMetrics

if TYPE_CHECKING:
    from odradek.records.codec import ProducerBatch


class SenderMetrics:
    """Counted per batch and request, never per record."""

    def __init__(self, metrics: ClientMetrics) -> None:
        self._batch_size_avg = metrics.average("batch-size-avg", "Bytes of a batch, before compression.")
        self._batch_size_max = metrics.maximum("batch-size-max", "Bytes of the largest batch.")
        self._records_per_request = metrics.average("records-per-request-avg", "Records of one request.")
        self._queue_time_avg = metrics.average(
            "record-queue-time-avg", "Milliseconds between the opening of a batch and its sending."
        )
        self._queue_time_max = metrics.maximum("record-queue-time-max", "The longest of these.")
        self._sent = metrics.counter("record-send-total", "Records sent, each time that they were.")
        self._bytes = metrics.counter("byte-total", "Bytes of batches sent, before compression.")
        self._retried = metrics.counter("record-retry-total", "Records that had to be sent again.")
        self._failed = metrics.counter("record-error-total", "Records that were given up.")
        self._split = metrics.counter("batch-split-total", "Batches that were too large for a broker.")

    def sent(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """A request leaves. Counted in one go, as this is done for every batch there is."""
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
