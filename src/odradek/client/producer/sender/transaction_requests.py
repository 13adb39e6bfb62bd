"""Sends the requests of the transaction manager to coordinators, one at a time."""

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
    """Sends what ``TransactionManagerPort.next_request`` returns, and hands it the responses."""

    def __init__(
        self,
        network: NetworkClient,
        transaction_manager: TransactionManagerPort | None,
        clock: Clock,
        settings: Settings,
        wakeup: Callable[[], None],
    ) -> None:
        self._network = network
        self._transaction_manager = transaction_manager
        self._clock = clock
        self._timeout_ms = settings[connection_options.REQUEST_TIMEOUT_MS]
        self._wakeup = wakeup
        self._task: asyncio.Task[None] | None = None
        self.next_check_ms = NEVER_MS

    def tasks(self) -> list[asyncio.Task[None]]:
        return [] if self._task is None else [self._task]

    def send_next(self, now_ms: int, *, has_incomplete: bool) -> None:
        """Send the next request if there is one and none is in flight."""
        manager = self._transaction_manager
        if manager is None or self._task is not None:
            return
        request = manager.next_request(now_ms, has_incomplete=has_incomplete)
        next_check_ms = manager.next_check_ms
        self.next_check_ms = NEVER_MS if next_check_ms is None else next_check_ms
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(
                self._run(manager, request), name="transaction request"
            )

    async def _run(self, manager: TransactionManagerPort, request: CoordinatorRequest) -> None:
        try:
            backoff_ms = request.not_before_ms - self._clock.monotonic_ms()
            if backoff_ms > 0:
                await self._clock.sleep_ms(backoff_ms)
            response = await self._send(manager, request)
            manager.handle_response(request, response, self._clock.monotonic_ms())
            lost = manager.take_lost_coordinator()
            if lost is not None and lost.key_type is not None and lost.key is not None:
                self._network.mark_coordinator_unknown(CoordinatorType(lost.key_type), lost.key)
        finally:
            self._task = None
            self._wakeup()

    async def _send(self, manager: TransactionManagerPort, request: CoordinatorRequest) -> Any | ClientError:
        try:
            if request.key_type is None or request.key is None:
                return await self._network.send(ANY_NODE, request.request, version_max=request.version_max)
            key_type = CoordinatorType(request.key_type)
            node_id = await self._network.coordinator(key_type, request.key, self._timeout_ms)
            if key_type is CoordinatorType.TRANSACTION:
                await self._network.wait_until_ready(node_id, self._timeout_ms)
                manager.coordinator_ready(self._network.versions(node_id))
            return await self._network.send(node_id, request.request, version_max=request.version_max)
        except ClientError as error:
            return error
