"""Transactional calls of a producer, awaited up to ``max.block.ms``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.transactions.request_queue import TransactionalRequestResult
from odradek.client.producer.transactions.transaction_manager import TransactionManager
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientClosed, ClientError, InvalidState, TimedOut
from odradek.model.ids import TopicPartition


class TransactionCalls:
    """Runs on the loop, on the engine's transaction manager."""

    def __init__(self, engine: ProducerEngine, max_block_ms: int) -> None:
        self._engine = engine
        self._max_block_ms = max_block_ms

    async def init(self) -> None:
        await self._await(self._manager().init_transactions())

    def begin(self) -> None:
        self._manager().begin_transaction()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata | str
    ) -> None:
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._await(self._manager().send_offsets_to_transaction(offsets, metadata))

    async def commit(self) -> None:
        await self._await(self._end(commits=True))

    async def abort(self) -> None:
        await self._await(self._end(commits=False))

    def send_failed(self, error: ClientError) -> None:
        """Fail the transaction of a record that was not accepted: it must not be committed without it."""
        manager = self._engine.transaction_manager
        if manager is not None and manager.is_transactional and not isinstance(error, InvalidState):
            manager.send_failed(error)

    def _manager(self) -> TransactionManager:
        if self._engine.slow_path.is_closed:
            raise ClientClosed("the producer has been closed")
        manager = self._engine.transaction_manager
        if manager is None or not manager.is_transactional:
            raise InvalidState("transactional.id must be set for transactions, got None")
        return manager

    def _end(self, *, commits: bool) -> TransactionalRequestResult:
        manager = self._manager()
        result = manager.commit_transaction() if commits else manager.abort_transaction()
        # From here on records take the slow path, which rejects them.
        with self._engine.concurrency.lock:
            self._engine.accumulator.seal_open()
        return result

    async def _await(self, result: TransactionalRequestResult) -> None:
        done = asyncio.Event()
        result.when_done(done.set)
        self._engine.sender.wakeup()
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                await done.wait()
        except TimeoutError:
            raise _timed_out(result, self._max_block_ms) from None
        result.is_acked = True
        if result.error is not None:
            raise result.error


def _timed_out(result: TransactionalRequestResult, timeout_ms: int) -> TimedOut:
    what = f"{result.call} not completed within {timeout_ms} ms; it continues: call it again"
    last_error = result.last_error
    if last_error is None:
        return TimedOut(what)
    return TimedOut(f"{what}; last attempt failed: {last_error}", code=last_error.code)
