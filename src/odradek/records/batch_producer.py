"""Who wrote a batch, read from its header alone: for questions that come before the batch is checked.

Invariant: nothing here trusts the bytes. What is no magic 2 batch was written by nobody known, and is refused
by whoever checks it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from odradek.ports.files import Buffer
from odradek.records.layout import BATCH_OVERHEAD, MAGIC_POSITION, TRANSACTIONAL_BIT

ATTRIBUTES_LOW_POSITION: Final = 22
"""The lower byte of the attributes, which holds all bits that have a meaning."""
PRODUCER_POSITION: Final = 43
_PRODUCER: Final = Struct(">qh")
_MAGIC: Final = 2


class BatchProducer(NamedTuple):
    """A producer, as a batch names it."""

    producer_id: int
    producer_epoch: int


def is_transactional(records: Buffer | None) -> bool:
    """Whether the first batch says that it is part of a transaction."""
    return (
        records is not None
        and len(records) >= BATCH_OVERHEAD
        and records[ATTRIBUTES_LOW_POSITION] & TRANSACTIONAL_BIT != 0
        and records[MAGIC_POSITION] == _MAGIC
    )


def transactional_producer(records: Buffer | None) -> BatchProducer | None:
    """The producer on whose behalf the first batch is part of a transaction, if one is."""
    if records is None or not is_transactional(records):
        return None
    author = BatchProducer(*_PRODUCER.unpack_from(records, PRODUCER_POSITION))
    return author if author.producer_id >= 0 else None
