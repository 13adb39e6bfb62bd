"""Producer ids, allocated from the store in blocks of 1000, so that no two brokers use the same one.

A block is allocated by a compare-and-set of ``/latest_producer_id_block``: by the controller on behalf of
the broker, or, below inter-broker protocol 3.0 and on the embedded store, by the broker itself. Unused ids of
a block are lost when its broker stops.

A store restored from a backup may be older than the logs. Ids would then be allocated twice, and records of
the second producer rejected as duplicates of the first. So before the first allocation the block is
advanced above every producer id in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.model.errors import BrokerError
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import ProducerIdBlock, decode_producer_id_block, encode_producer_id_block
from odradek.store.port import BadVersion, NoNode, Store, StoreError, StoreProvider
from odradek.telemetry import events

BLOCK_SIZE: Final = 1000
_PREFETCH_PERCENT: Final = 90
_PRODUCER_ID_MAX: Final = (1 << 63) - 1
_ATTEMPTS_MAX: Final = 100
_ALLOCATED_MAX: Final = 1 << 53
"""Far more ids than a store ever allocates. A larger id was made up by a client; advancing the block above it
could exhaust the ids."""

AllocateBlock = Callable[[], Awaitable[ProducerIdBlock]]
"""Returns a block of ids that no other broker uses."""

FindLargest = Callable[[], Awaitable[int]]
"""Returns the largest producer id known to be in use; -1 if there is none."""

log = events.logger("producer_ids")


class ProducerIdManager:
    """The producer ids of one broker.

    As in Kafka, the next block is allocated in the background when 90 % of the current one are used, so new
    producers do not have to wait for the store, nor for the controller while there is none.
    """

    def __init__(self, allocate: AllocateBlock) -> None:
        self._allocate = allocate
        self._next = 0
        self._last = -1
        self._prefetch_at = 0
        """The id from which on the next block is wanted."""
        self._next_block: ProducerIdBlock | None = None
        self._prefetch: asyncio.Task[None] | None = None
        self._allocation_lock = asyncio.Lock()

    def try_generate_producer_id(self) -> int | None:
        """Return the next id of the current block or of the prefetched one; None if both are used up."""
        if self._next > self._last:
            if self._next_block is None:
                return None
            self._use(self._next_block)
            self._next_block = None
        self._next += 1
        if self._next > self._prefetch_at and self._next_block is None and self._prefetch is None:
            self._prefetch = asyncio.get_running_loop().create_task(self._fetch_next_block())
        return self._next - 1

    async def generate_producer_id(self) -> int:
        """Return a new producer id."""
        producer_id = self.try_generate_producer_id()
        while producer_id is None:
            async with self._allocation_lock:
                # Another caller, or the prefetch, may have allocated a block meanwhile.
                if self._next > self._last and self._next_block is None:
                    self._use(await self._allocate())
            producer_id = self.try_generate_producer_id()
        return producer_id

    async def stop(self) -> None:
        """Give up a prefetch."""
        prefetch = self._prefetch
        if prefetch is not None:
            prefetch.cancel()
            await asyncio.gather(prefetch, return_exceptions=True)

    def _use(self, block: ProducerIdBlock) -> None:
        self._next, self._last = block.first, block.last
        self._prefetch_at = block.first + (block.last - block.first + 1) * _PREFETCH_PERCENT // 100

    async def _fetch_next_block(self) -> None:
        """Allocate the next block. After a failure, the next id that is generated starts another attempt."""
        try:
            async with self._allocation_lock:
                self._next_block = await self._allocate()
        except (StoreError, BrokerError) as error:
            log.warning("producer_ids_not_prefetched", reason=str(error))
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("producer_ids_prefetch_crashed", error)
        finally:
            self._prefetch = None


class StoreBlocks:
    """Blocks of one broker from the store. ``find_largest`` is called once, before the first allocation."""

    def __init__(
        self, stores: StoreProvider, broker_id: int, find_largest: FindLargest | None = None
    ) -> None:
        self._stores = stores
        self._broker_id = broker_id
        self._find_largest = find_largest

    async def allocate(self) -> ProducerIdBlock:
        if self._find_largest is not None:
            largest = await self._find_largest()
            await advance_block_above(self._stores.store, self._broker_id, largest)
            self._find_largest = None
        return await allocate_block(self._stores.store, self._broker_id)


async def allocate_block(store: Store, broker_id: int) -> ProducerIdBlock:
    """Allocate the next block for a broker."""
    path = znode_paths.LATEST_PRODUCER_ID_BLOCK
    for _ in range(_ATTEMPTS_MAX):
        try:
            data, stat = await store.get(path)
        except NoNode:
            await store.ensure_path(path)
            continue
        block = next_block(path, data, broker_id)
        try:
            await store.set(path, encode_producer_id_block(block), stat.version)
        except BadVersion:
            continue  # another broker was first
        return block
    raise StoreError(path, f"block allocation failed in {_ATTEMPTS_MAX} attempts")


async def advance_block_above(store: Store, broker_id: int, producer_id: int) -> None:
    """Advance the block above an id in use; log a warning if it was below."""
    if not 0 <= producer_id <= _ALLOCATED_MAX:
        return
    path = znode_paths.LATEST_PRODUCER_ID_BLOCK
    first = producer_id // BLOCK_SIZE * BLOCK_SIZE
    block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
    for _ in range(_ATTEMPTS_MAX):
        try:
            data, stat = await store.get(path)
        except NoNode:
            await store.ensure_path(path)
            continue
        last = decode_producer_id_block(path, data).last if data else -1
        if last >= producer_id:
            return
        try:
            await store.set(path, encode_producer_id_block(block), stat.version)
        except BadVersion:
            continue  # another broker was first
        log.warning(
            "producer_ids_raised",
            from_id=last + 1,
            to_id=block.last + 1,
            reason=f"producer id {producer_id} is in use but was never allocated by this store: the store is "
            "older than the data, or a client chose the id",
        )
        return
    raise StoreError(path, f"block update failed in {_ATTEMPTS_MAX} attempts")


def next_block(path: str, data: bytes, broker_id: int) -> ProducerIdBlock:
    """Return the block after the one in the node; the first if the node is empty."""
    first = decode_producer_id_block(path, data).last + 1 if data else 0
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise StoreError(path, f"producer ids are exhausted: all up to {first - 1} are used")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
