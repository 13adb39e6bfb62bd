"""Producer ids: block allocation, conflicts, exhaustion."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.errors import BrokerError, ErrorCode
from odradek.store.embedded.ensemble import EmbeddedEnsemble, EmbeddedStore
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import ProducerIdBlock, encode_producer_id_block
from odradek.store.port import BadPayload, BadVersion, StoreError
from odradek.store.producer_id_manager import (
    FindLargest,
    ProducerIdManager,
    StoreBlocks,
    advance_block_above,
    allocate_block,
    next_block,
)


class Session:
    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store


def new_manager(
    store: EmbeddedStore, broker_id: int, find_largest: FindLargest | None = None
) -> ProducerIdManager:
    return ProducerIdManager(StoreBlocks(Session(store), broker_id, find_largest).allocate)


def test_producer_ids_continue_across_blocks(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        ids = new_manager(store, 1)
        assert ids.try_generate_producer_id() is None
        assert [await ids.generate_producer_id() for _ in range(1500)] == list(range(1500))
        assert ids.try_generate_producer_id() == 1500
        data, _ = await store.get(znode_paths.LATEST_PRODUCER_ID_BLOCK)
        assert data == b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'

    run_on_store(scenario)


def test_next_block_is_prefetched_when_nine_tenths_are_used(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        ids = new_manager(ensemble.connect(), 1)
        assert [await ids.generate_producer_id() for _ in range(900)] == list(range(900))
        await let_tasks_run()
        assert await allocate_block(ensemble.connect(), 2) == ProducerIdBlock(2, 1000, 1999)
        assert ids.try_generate_producer_id() == 900
        await let_tasks_run()
        assert await allocate_block(ensemble.connect(), 2) == ProducerIdBlock(2, 3000, 3999)
        rest = [ids.try_generate_producer_id() for _ in range(200)]
        assert rest == [*range(901, 1000), *range(2000, 2101)]

    run_on_store(scenario)


def test_failed_prefetch_is_repeated_and_ids_of_the_block_stay_usable(run_on_store) -> None:
    async def scenario(_ensemble: EmbeddedEnsemble) -> None:
        outcomes: list[ProducerIdBlock | Exception] = [
            ProducerIdBlock(1, 0, 9),
            BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no controller"),
            ProducerIdBlock(1, 50, 59),
        ]

        async def allocate() -> ProducerIdBlock:
            outcome = outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        ids = ProducerIdManager(allocate)
        assert [await ids.generate_producer_id() for _ in range(10)] == list(range(10))
        await let_tasks_run()
        assert await ids.generate_producer_id() == 50

    run_on_store(scenario)


def test_prefetch_ends_when_the_broker_stops(run_on_store) -> None:
    async def scenario(_ensemble: EmbeddedEnsemble) -> None:
        blocks = [ProducerIdBlock(1, 0, 9)]

        async def allocate() -> ProducerIdBlock:
            if not blocks:
                await asyncio.Event().wait()
            return blocks.pop()

        ids = ProducerIdManager(allocate)
        for _ in range(10):
            await ids.generate_producer_id()
        await let_tasks_run()
        await ids.stop()
        assert len(asyncio.all_tasks()) == 1

    run_on_store(scenario)


async def let_tasks_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_brokers_never_share_a_producer_id(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        brokers = [new_manager(ensemble.connect(), n) for n in range(3)]

        async def draw(ids: ProducerIdManager) -> list[int]:
            return [await ids.generate_producer_id() for _ in range(1200)]

        broker_ids = await asyncio.gather(*(draw(ids) for ids in brokers for _ in range(2)))
        flat = [first for some in broker_ids for first in some]
        assert len(set(flat)) == len(flat)

    run_on_store(scenario)


def test_empty_node_holds_no_block(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create(znode_paths.LATEST_PRODUCER_ID_BLOCK)
        assert await allocate_block(store, 2) == ProducerIdBlock(2, 0, 999)
        assert await allocate_block(store, 3) == ProducerIdBlock(3, 1000, 1999)

    run_on_store(scenario)


def test_block_allocation_gives_up_after_repeated_conflicts(run_on_store, monkeypatch) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create(znode_paths.LATEST_PRODUCER_ID_BLOCK)

        async def lose(path: str, data: bytes, version: int = -1) -> None:
            raise BadVersion(path)

        monkeypatch.setattr(store, "set", lose)
        with pytest.raises(StoreError, match="100 attempts"):
            await allocate_block(store, 1)

    run_on_store(scenario)


def test_exhausted_producer_ids_are_an_error() -> None:
    last = encode_producer_id_block(ProducerIdBlock(1, 2**63 - 1000, 2**63 - 1))
    with pytest.raises(StoreError, match="exhausted"):
        next_block("/n", last, 1)


def test_invalid_node_is_not_overwritten() -> None:
    with pytest.raises(BadPayload):
        next_block("/n", b"{}", 1)


def test_block_advances_above_ids_in_use(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await advance_block_above(store, 1, -1)
        assert await store.exists(znode_paths.LATEST_PRODUCER_ID_BLOCK) is None
        await advance_block_above(store, 1, 4_321)
        assert await allocate_block(store, 1) == ProducerIdBlock(1, 5_000, 5_999)
        await advance_block_above(store, 1, 5_999)
        await advance_block_above(store, 1, 17)
        assert await allocate_block(store, 1) == ProducerIdBlock(1, 6_000, 6_999)

    run_on_store(scenario)


def test_implausible_producer_id_does_not_advance_the_block(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await advance_block_above(store, 1, (1 << 63) - 1)
        assert await allocate_block(store, 1) == ProducerIdBlock(1, 0, 999)

    run_on_store(scenario)


def test_ids_in_use_are_looked_up_once(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        asked = []

        async def find_largest() -> int:
            asked.append(1)
            return 2_999

        ids = new_manager(ensemble.connect(), 1, find_largest)
        assert ids.try_generate_producer_id() is None
        assert await asyncio.gather(*(ids.generate_producer_id() for _ in range(3))) == [3_000, 3_001, 3_002]
        assert len(asked) == 1

    run_on_store(scenario)
