"""Producer of a batch, read from the header before the batch is validated.

Invariant: nothing here trusts the bytes. Anything but a magic 2 batch has no producer; validation rejects it
later.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from odradek.ports.files import Buffer
from odradek.records.layout import BATCH_OVERHEAD, MAGIC_POSITION, TRANSACTIONAL_BIT

ATTRIBUTES_LOW_POSITION: Final = 22
"""Position of the low byte of the attributes, which holds all defined bits."""
PRODUCER_POSITION: Final = 43
_PRODUCER: Final = Struct(">qh")
_MAGIC: Final = 2


class BatchProducer(NamedTuple):
    """Producer id and epoch of a batch."""

    producer_id: int
    producer_epoch: int


def is_transactional(records: Buffer | None) -> bool:
    """Return whether the first batch is transactional."""
    return (
        records is not None
        and len(records) >= BATCH_OVERHEAD
        and records[ATTRIBUTES_LOW_POSITION] & TRANSACTIONAL_BIT != 0
        and records[MAGIC_POSITION] == _MAGIC
    )


def transactional_producer(records: Buffer | None) -> BatchProducer | None:
    """Return the producer of the first batch if it is transactional."""
    if records is None or not is_transactional(records):
        return None
    producer = BatchProducer(*_PRODUCER.unpack_from(records, PRODUCER_POSITION))
    return producer if producer.producer_id >= 0 else None
