"""Producer ids, taken from the store a block of 1 000 at a time, so that no two brokers give out one twice.

A block is claimed by writing it to ``/latest_producer_id_block`` under the version that was read. Ids of a
block that a broker did not use before it stopped are never used.

A store that was put back from a copy knows less than the logs do. Were it believed, an id would be given out
twice, and records of the second producer would be taken for repetitions of the first one's. So the block is
raised above every id that is found elsewhere, before an id is given out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.store import znode_paths
from odradek.store.port import BadVersion, NoNode, Store, StoreError
from odradek.store.znodes import ProducerIdBlock, decode_producer_id_block, encode_producer_id_block
from odradek.telemetry import events

BLOCK_SIZE: Final = 1000
_PRODUCER_ID_MAX: Final = (1 << 63) - 1
_ATTEMPTS_MAX: Final = 100
_GIVEN_OUT_MAX: Final = 1 << 53
"""Far more than a store gives out in its life. A larger id is a client's invention: above it, few or none
would be left."""

FindLargest = Callable[[], Awaitable[int]]
"""Gives the largest producer id that is known to be in use; -1 if there is none."""

log = events.logger("producer_ids")


class ProducerIdManager:
    """The producer ids of one broker. ``find_largest`` is asked once, before the first block is claimed."""

    def __init__(self, store: Store, broker_id: int, find_largest: FindLargest | None = None) -> None:
        self._store = store
        self._find_largest = find_largest
        self._broker_id = broker_id
        self._next = 0
        self._last = -1
        self._claiming = asyncio.Lock()

    def try_generate_producer_id(self) -> int | None:
        """An id at once, or None if the block is used up."""
        if self._next > self._last:
            return None
        self._next += 1
        return self._next - 1

    async def generate_producer_id(self) -> int:
        """An id no producer had before."""
        producer_id = self.try_generate_producer_id()
        while producer_id is None:
            async with self._claiming:
                if self._find_largest is not None:
                    await advance_block_above(self._store, self._broker_id, await self._find_largest())
                    self._find_largest = None
                if self._next > self._last:  # whoever waited finds the block that another one claimed
                    block = await claim_block(self._store, self._broker_id)
                    self._next, self._last = block.first, block.last
            producer_id = self.try_generate_producer_id()
        return producer_id


async def claim_block(store: Store, broker_id: int) -> ProducerIdBlock:
    """Take the next block for a broker."""
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
            continue  # another broker was quicker
        return block
    raise StoreError(path, f"no block could be claimed in {_ATTEMPTS_MAX} attempts")


async def advance_block_above(store: Store, broker_id: int, producer_id: int) -> None:
    """Let the next block begin above an id that is in use, and say so if it would not have."""
    if not 0 <= producer_id <= _GIVEN_OUT_MAX:
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
            continue  # another broker was quicker
        log.warning(
            "producer_ids_raised",
            from_id=last + 1,
            to_id=block.last + 1,
            reason=f"producer {producer_id} is in use, and this store never gave it out: the store is older "
            "than the data, or a client chose the id",
        )
        return
    raise StoreError(path, f"the block could not be raised in {_ATTEMPTS_MAX} attempts")


def next_block(path: str, data: bytes, broker_id: int) -> ProducerIdBlock:
    """The block after the one the node holds; the first of all if it holds none."""
    first = decode_producer_id_block(path, data).last + 1 if data else 0
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise StoreError(path, f"all producer ids up to {first - 1} are used; there are no more")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
