"""What those who send and the one who carries off have in common, and the lock around it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.buffer_pool import BufferPool
from odradek.client.producer.growth import Growth
from odradek.client.producer.idempotence import Idempotence
from odradek.client.producer.pace import Pace
from odradek.client.producer.packing import Packing
from odradek.ports.clock import Clock


class Stock(NamedTuple):
    """Whoever looks into accumulator, pool or pace holds the lock; in asyncio there is none to hold."""

    accumulator: Accumulator
    pool: BufferPool
    pace: Pace
    packing: Packing
    growth: Growth
    order: Idempotence | None
    lock: AbstractContextManager[Any]
    clock: Clock
