"""The transactional calls of a producer: begun in the machine, awaited here for as long as a caller may wait.

A call that takes longer raises ``TimedOut`` and goes on; the same call made again waits for the same outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from odradek.client.producer.transaction_errors import told_again
from odradek.client.producer.transaction_queue import Operation
from odradek.client.producer.transactions import Transactions
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientError, TimedOut
from odradek.model.ids import TopicPartition


class TransactionCalls:
    """Calls on a machine.

    ``wake`` lets the sender look for what to do; ``lock`` keeps records from being taken while a transaction
    ends, so that each one belongs to it or is refused. ``max_block_ms`` is how long a caller waits.
    """

    def __init__(
        self,
        transactions: Transactions,
        wake: Callable[[], None],
        lock: AbstractContextManager[object],
        max_block_ms: int,
    ) -> None:
        self._transactions = transactions
        self._wake = wake
        self._lock = lock
        self._max_block_ms = max_block_ms

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        await self._done(self._transactions.init_transactions(), timeout_ms)

    def begin_transaction(self) -> None:
        self._transactions.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        of = GroupMetadata(group) if isinstance(group, str) else group
        await self._done(self._transactions.send_offsets_to_transaction(offsets, of), timeout_ms)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        with self._lock:
            operation = self._transactions.commit_transaction()
        await self._done(operation, timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        with self._lock:
            operation = self._transactions.abort_transaction()
        await self._done(operation, timeout_ms)

    async def end_for_close(self, timeout_ms: int) -> None:
        """Before the producer closes in order: abort what is open, or let its end come that is under way."""
        transactions = self._transactions
        if transactions.has_ongoing_transaction and transactions.fatal_error is None:
            with self._lock:
                operation = transactions.end_transaction()
            await self._done(operation, timeout_ms)

    def close(self) -> None:
        self._transactions.close()

    async def _done(self, operation: Operation, timeout_ms: int | None) -> None:
        self._wake()
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        over = asyncio.get_running_loop().create_future()
        operation.when_done(lambda: None if over.done() else over.set_result(None))
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await over
        except TimeoutError:
            raise _too_late(operation, limit_ms) from None
        operation.is_told = True
        if operation.error is not None:
            raise _own(operation.error)


def _too_late(operation: Operation, limit_ms: int) -> TimedOut:
    return TimedOut(
        f"{operation.call} has not ended within {limit_ms} ms; it goes on: call it again to wait for it"
    )


def _own(error: ClientError) -> ClientError:
    """Several may wait for one operation; no two get the same exception."""
    own = told_again(error)
    own.__cause__ = error.__cause__
    return own
