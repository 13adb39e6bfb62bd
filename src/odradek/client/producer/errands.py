"""The requests that idempotence and transactions want made, one at a time, beside the batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.client.cluster import ANY_NODE, Cluster, CoordinatorKind
from odradek.client.producer.accumulator import NEVER_MS
from odradek.client.producer.idempotence import CoordinatorRequest, Idempotence
from odradek.config.client import connection as connection_options
from odradek.config.table import Settings
from odradek.model.client_errors import ClientError
from odradek.ports.clock import Clock


class Errands:
    """Runs what ``Idempotence.next_request`` asks for, and tells it the answers."""

    def __init__(
        self,
        cluster: Cluster,
        order: Idempotence | None,
        clock: Clock,
        settings: Settings,
        wake: Callable[[], None],
    ) -> None:
        self._cluster = cluster
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

    async def _run(self, order: Idempotence, asked: CoordinatorRequest) -> None:
        try:
            rest_ms = asked.not_before_ms - self._clock.monotonic_ms()
            if rest_ms > 0:
                await self._clock.sleep_ms(rest_ms)
            answer = await self._answer(order, asked)
            order.answered(asked, answer, self._clock.monotonic_ms())
            moved = order.coordinator_to_forget()
            if moved is not None and moved.kind is not None and moved.key is not None:
                self._cluster.forget_coordinator(CoordinatorKind(moved.kind), moved.key)
        finally:
            self._task = None
            self._wake()

    async def _answer(self, order: Idempotence, asked: CoordinatorRequest) -> Any | ClientError:
        try:
            if asked.kind is None or asked.key is None:
                return await self._cluster.ask(ANY_NODE, asked.request, version_max=asked.version_max)
            kind = CoordinatorKind(asked.kind)
            node_id = await self._cluster.coordinator(kind, asked.key, self._timeout_ms)
            if kind is CoordinatorKind.TRANSACTION:
                await self._cluster.ready(node_id, self._timeout_ms)
                order.coordinator_ready(self._cluster.versions(node_id))
            return await self._cluster.ask(node_id, asked.request, version_max=asked.version_max)
        except ClientError as failed:
            return failed
