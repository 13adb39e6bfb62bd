"""What those who send and the one who carries off have in common, and the lock around it."""

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
    """Whoever looks into accumulator, pool or pace holds the lock; in asyncio there is none to hold."""

    accumulator: RecordAccumulator
    pool: BufferPool
    pace: Backpressure
    packing: BatchCompression
    growth: BatchGrowth
    order: TransactionManagerPort | None
    lock: AbstractContextManager[Any]
    clock: Clock
