"""State shared by application threads and the sender, and the lock that guards it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from odradek.client.producer.accumulator.backpressure import Backpressure
from odradek.client.producer.accumulator.batch_compression import BatchCompression
from odradek.client.producer.accumulator.batch_growth import BatchGrowth
from odradek.client.producer.accumulator.buffer_pool import BufferPool
from odradek.client.producer.accumulator.record_accumulator import RecordAccumulator
from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.ports.clock import Clock


class SharedState(NamedTuple):
    """Accumulator, pool and backpressure are used under the lock; with asyncio the lock does nothing."""

    accumulator: RecordAccumulator
    pool: BufferPool
    backpressure: Backpressure
    compression: BatchCompression
    growth: BatchGrowth
    transaction_manager: TransactionManagerPort | None
    lock: AbstractContextManager[Any]
    clock: Clock
