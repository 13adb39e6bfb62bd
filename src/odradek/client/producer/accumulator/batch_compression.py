"""Compression of batches, and the number of uncompressed bytes that a batch may hold.

``batch.size`` limits the compressed size. So a batch of a topic that has compressed well so far takes more
uncompressed bytes. The estimated ratio per topic goes down slowly and up immediately, because a ratio that is
too low makes batches too large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.config.client import producer as options
from odradek.config.definition import Settings
from odradek.model.protocol_enums import Compression
from odradek.records.compression import compress
from odradek.records.layout import BATCH_OVERHEAD, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch

ZSTD_PRODUCE_VERSION: Final = 7
"""The first version of Produce that supports zstd."""

_STEP_DOWN: Final = 0.005
_STEP_UP: Final = 0.05
_GROWTH_MAX: Final = 8
"""A batch never holds more than this multiple of ``batch.size``."""


class BatchCompression:
    """The compression codec of one producer, and the estimated compression ratio of each topic."""

    def __init__(self, codec: Compression, level: int | None, batch_bytes: int) -> None:
        self.codec = codec
        self._level = level
        self._batch_bytes = batch_bytes
        self._ratios: dict[str, float] = {}

    def capacity_bytes(self, topic: str) -> int:
        """Return the uncompressed bytes that a batch of a topic may hold."""
        if self.codec is Compression.NONE:
            return self._batch_bytes
        ratio = max(self._ratios.get(topic, 1.0), 1 / _GROWTH_MAX)
        return max(int(self._batch_bytes / ratio), self._batch_bytes)

    def finisher(self, *, transactional: bool) -> Callable[[ProducerBatch], memoryview]:
        """Return a function that encodes a batch with its current producer id, epoch and sequence."""
        attributes = int(self.codec) | (TRANSACTIONAL_BIT if transactional else 0)
        if self.codec is not Compression.NONE:
            return lambda batch: self._finish(batch, attributes)
        return lambda batch: batch.finish(
            attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence
        )

    def _finish(self, batch: ProducerBatch, attributes: int) -> memoryview:
        compressed = None
        # A batch that was sent before is compressed already; only its header may change.
        if batch.last_attempt_ms == 0:
            plain = batch.plain_records()
            compressed = compress(self.codec, plain, self._level)
            self._update_ratio(batch.topic, len(compressed) / max(len(plain), 1))
        return batch.finish(
            attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence, compressed
        )

    def _update_ratio(self, topic: str, ratio: float) -> None:
        estimate = self._ratios.get(topic, 1.0)
        self._ratios[topic] = (
            max(estimate + _STEP_UP, ratio) if ratio > estimate else max(estimate - _STEP_DOWN, ratio)
        )

    def on_batch_too_large(self, topic: str) -> None:
        """Reset the estimated ratio after a broker rejected a batch."""
        self._ratios[topic] = 1.0

    def produce_version_min(self) -> int:
        """Return the lowest version of Produce that supports these batches."""
        return ZSTD_PRODUCE_VERSION if self.codec is Compression.ZSTD else 3


def batch_compression(settings: Settings) -> BatchCompression:
    codec = Compression[settings[options.COMPRESSION_TYPE].upper()]
    levels = {
        Compression.GZIP: settings[options.COMPRESSION_GZIP_LEVEL],
        Compression.LZ4: settings[options.COMPRESSION_LZ4_LEVEL],
        Compression.ZSTD: settings[options.COMPRESSION_ZSTD_LEVEL],
    }
    return BatchCompression(codec, levels.get(codec), max(settings[options.BATCH_SIZE], BATCH_OVERHEAD))
