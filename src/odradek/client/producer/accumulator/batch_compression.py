"""How a batch becomes the bytes of a request, compressed or not, and how many plain bytes it may hold.

``batch.size`` is about what is sent. So a batch whose topic has compressed well so far takes more plain
bytes, and the guess follows what was seen: down slowly and up at once, as a guess too low makes batches too
large.
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
    from odradek.records.codec import ProducerBatch

ZSTD_PRODUCE_VERSION: Final = 7
"""The first version of Produce that may carry zstd."""

_STEP_DOWN: Final = 0.005
_STEP_UP: Final = 0.05
_GROWTH_MAX: Final = 8
"""A batch never holds more than so many times ``batch.size``, whatever the guess."""


class BatchCompression:
    """The codec of one producer, and what it made of each topic."""

    def __init__(self, codec: Compression, level: int | None, batch_bytes: int) -> None:
        self.codec = codec
        self._level = level
        self._batch_bytes = batch_bytes
        self._ratios: dict[str, float] = {}

    def capacity_bytes(self, topic: str) -> int:
        """Plain bytes that a batch of a topic takes."""
        if self.codec is Compression.NONE:
            return self._batch_bytes
        ratio = max(self._ratios.get(topic, 1.0), 1 / _GROWTH_MAX)
        return max(int(self._batch_bytes / ratio), self._batch_bytes)

    def finisher(self, *, transactional: bool) -> Callable[[ProducerBatch], memoryview]:
        """What gives the bytes to send of a batch, with the numbers that it has then."""
        attributes = int(self.codec) | (TRANSACTIONAL_BIT if transactional else 0)
        if self.codec is not Compression.NONE:
            return lambda batch: self._finish(batch, attributes)
        return lambda batch: batch.finish(
            attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence
        )

    def _finish(self, batch: ProducerBatch, attributes: int) -> memoryview:
        packed = None
        # A batch that was sent before is compressed already; only its header may change.
        if batch.last_attempt_ms == 0:
            plain = batch.plain_records()
            packed = compress(self.codec, plain, self._level)
            self._saw(batch.topic, len(packed) / max(len(plain), 1))
        return batch.finish(attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence, packed)

    def _saw(self, topic: str, ratio: float) -> None:
        guess = self._ratios.get(topic, 1.0)
        self._ratios[topic] = (
            max(guess + _STEP_UP, ratio) if ratio > guess else max(guess - _STEP_DOWN, ratio)
        )

    def was_too_large(self, topic: str) -> None:
        """A broker refused a batch: begin again with the guess that nothing is gained."""
        self._ratios[topic] = 1.0

    def produce_version_min(self) -> int:
        """The lowest version of Produce that can carry these batches."""
        return ZSTD_PRODUCE_VERSION if self.codec is Compression.ZSTD else 3


def batch_compression(settings: Settings) -> BatchCompression:
    codec = Compression[settings[options.COMPRESSION_TYPE].upper()]
    levels = {
        Compression.GZIP: settings[options.COMPRESSION_GZIP_LEVEL],
        Compression.LZ4: settings[options.COMPRESSION_LZ4_LEVEL],
        Compression.ZSTD: settings[options.COMPRESSION_ZSTD_LEVEL],
    }
    return BatchCompression(codec, levels.get(codec), max(settings[options.BATCH_SIZE], BATCH_OVERHEAD))
