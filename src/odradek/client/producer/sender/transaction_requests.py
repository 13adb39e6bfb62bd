"""The requests that idempotence and transactions want made, one at a time, beside the batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.client.network.network_client import ANY_NODE, CoordinatorType, NetworkClient
from odradek.client.producer.accumulator.record_accumulator import NEVER_MS
from odradek.client.producer.transactions.transaction_manager_port import (
    CoordinatorRequest,
    TransactionManagerPort,
)
from odradek.config.client import connection as connection_options
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError
from odradek.ports.clock import Clock


class TransactionRequests:
    """Runs what ``TransactionManagerPort.next_request`` asks for, and tells it the answers."""

    def __init__(
        self,
        network: NetworkClient,
        order: TransactionManagerPort | None,
        clock: Clock,
        settings: Settings,
        wake: Callable[[], None],
    ) -> None:
        self._network = network
        self._order = order
        self._clock = clock
        self._timeout_ms = settings[connection_options.REQUEST_TIMEOUT_MS]
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._held: CoordinatorRequest | None = None
        self.next_wake_ms = NEVER_MS

    def tasks(self) -> list[asyncio.Task[None]]:
        return [] if self._task is None else [self._task]

    def look(self, now_ms: int, *, has_incomplete: bool) -> None:
        """Begin the next request if there is one and none is under way."""
        order = self._order
        if order is None or self._task is not None:
            return
        asked = order.next_request(now_ms, has_incomplete=has_incomplete)
        wakes_ms = order.next_wake_ms
        self.next_wake_ms = NEVER_MS if wakes_ms is None else wakes_ms
        if asked is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(order, asked), name="errand")

    async def _run(self, order: TransactionManagerPort, asked: CoordinatorRequest) -> None:
        try:
            rest_ms = asked.not_before_ms - self._clock.monotonic_ms()
            if rest_ms > 0:
                await self._clock.sleep_ms(rest_ms)
            answer = await self._answer(order, asked)
            order.handle_response(asked, answer, self._clock.monotonic_ms())
            moved = order.take_lost_coordinator()
            if moved is not None and moved.kind is not None and moved.key is not None:
                self._network.mark_coordinator_unknown(CoordinatorType(moved.kind), moved.key)
        finally:
            self._task = None
            self._wake()

    async def _answer(self, order: TransactionManagerPort, asked: CoordinatorRequest) -> Any | ClientError:
        try:
            if asked.kind is None or asked.key is None:
                return await self._network.send(ANY_NODE, asked.request, version_max=asked.version_max)
            kind = CoordinatorType(asked.kind)
            node_id = await self._network.coordinator(kind, asked.key, self._timeout_ms)
            if kind is CoordinatorType.TRANSACTION:
                await self._network.wait_until_ready(node_id, self._timeout_ms)
                order.coordinator_ready(self._network.versions(node_id))
            return await self._network.send(node_id, asked.request, version_max=asked.version_max)
        except ClientError as failed:
            return failed
