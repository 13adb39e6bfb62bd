"""The transactional calls of a producer: begun on the machine, awaited up to ``max.block.ms``."""

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
    """Runs on the loop; the machine is the engine's ``order``."""

    def __init__(self, engine: ProducerEngine, max_block_ms: int) -> None:
        self._engine = engine
        self._max_block_ms = max_block_ms

    async def init(self) -> None:
        await self._outcome(self._machine().init_transactions())

    def begin(self) -> None:
        self._machine().begin_transaction()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata | str
    ) -> None:
        known = GroupMetadata(group) if isinstance(group, str) else group
        await self._outcome(self._machine().send_offsets_to_transaction(offsets, known))

    async def commit(self) -> None:
        await self._outcome(self._end(commits=True))

    async def abort(self) -> None:
        await self._outcome(self._end(commits=False))

    def send_failed(self, error: ClientError) -> None:
        """A record of a transaction was not taken: what is left of it must not be committed."""
        order = self._engine.order
        if order is not None and order.is_transactional and not isinstance(error, InvalidState):
            order.send_failed(error)

    def _machine(self) -> TransactionManager:
        if self._engine.intake.is_closed:
            raise ClientClosed("the producer has been closed")
        order = self._engine.order
        if order is None or not order.is_transactional:
            raise InvalidState("this producer has no transactions: it was made without transactional.id")
        return order

    def _end(self, *, commits: bool) -> TransactionalRequestResult:
        machine = self._machine()
        operation = machine.commit_transaction() if commits else machine.abort_transaction()
        # From here on a record must ask, and is refused, instead of finding an open batch.
        with self._engine.side.lock:
            self._engine.accumulator.seal_open()
        return operation

    async def _outcome(self, operation: TransactionalRequestResult) -> None:
        done = asyncio.Event()
        operation.when_done(done.set)
        self._engine.sender.wake()
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                await done.wait()
        except TimeoutError:
            raise _too_late(operation, self._max_block_ms) from None
        operation.is_acked = True
        if operation.error is not None:
            raise operation.error


def _too_late(operation: TransactionalRequestResult, waited_ms: int) -> TimedOut:
    what = f"{operation.call} has not ended within {waited_ms} ms; it goes on: call it again"
    trouble = operation.trouble
    if trouble is None:
        return TimedOut(what)
    return TimedOut(f"{what}; the last attempt failed: {trouble}", code=trouble.code)
