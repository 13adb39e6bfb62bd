"""Rounds of questions: every open key is asked where it is served, until all are done or time is over.

Before a new round the client waits (``retry.backoff.ms``, growing) and learns the cluster anew, so that a key
whose controller, coordinator or leader has moved is asked at the new place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from odradek.client.admin.api_handler import AdminApiHandler, CallProgress, K, V
from odradek.client.environment import ClientEnvironment
from odradek.client.errors import backoff
from odradek.client.network.network_client import NetworkClient
from odradek.config.client import admin, connection
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError, PartialFailure, UnsupportedVersion


class AdminApiDriver:
    """Carries out the calls of one admin client."""

    def __init__(self, cluster: NetworkClient, settings: Settings, environment: ClientEnvironment) -> None:
        self.cluster = cluster
        self._settings = settings
        self._clock = environment.clock
        self._entropy = environment.entropy

    def timeout_ms(self, timeout_s: float | None) -> int:
        """What a call may take: as given, or ``default.api.timeout.ms``."""
        if timeout_s is None:
            default: int = self._settings[connection.DEFAULT_API_TIMEOUT_MS]
            return default
        return max(0, int(timeout_s * 1000))

    async def run(
        self, work: AdminApiHandler[K, V], keys: Iterable[K], timeout_s: float | None = None
    ) -> dict[K, V]:
        """The value of every key; raises ``PartialFailure`` with what the others gave if some have none."""
        await self.cluster.start()
        progress = CallProgress(work, keys)
        begun_ms = self._clock.monotonic_ms()
        deadline_ms = begun_ms + self.timeout_ms(timeout_s)
        attempt = 0
        while progress.open:
            await self._round(work, progress, deadline_ms)
            wait_ms = backoff(attempt, self._settings, self._entropy)
            if progress.open and (
                wait_ms >= self._left_ms(deadline_ms) or attempt >= self._settings[admin.RETRIES]
            ):
                progress.give_up(self._clock.monotonic_ms() - begun_ms)
            elif progress.open:
                await self._clock.sleep_ms(wait_ms)
                await self._learn_anew(deadline_ms)
            attempt += 1
        return progress.result()

    async def run_single(self, work: AdminApiHandler[None, V], timeout_s: float | None = None) -> V:
        """The value of a call about one thing; what went wrong is raised as it is."""
        try:
            return (await self.run(work, [None], timeout_s))[None]
        except PartialFailure as failed:
            raise next(iter(failed.errors.values())) from None

    async def brokers(self, timeout_s: float | None = None) -> list[int]:
        """The ids of all brokers, as the cluster describes itself now."""
        await self.cluster.start()
        beyond = self.cluster.request_update()
        metadata = await self.cluster.await_update(beyond, self.timeout_ms(timeout_s))
        return sorted(metadata.nodes)

    def _left_ms(self, deadline_ms: int) -> int:
        return deadline_ms - self._clock.monotonic_ms()

    async def _round(
        self, work: AdminApiHandler[K, V], progress: CallProgress[K, V], deadline_ms: int
    ) -> None:
        try:
            routed = await work.route(self.cluster, progress.open, self._request_ms(deadline_ms))
        except ClientError as error:
            progress.failed(progress.open, error)
            return
        progress.refused(routed.refused)
        async with asyncio.TaskGroup() as asked:
            for node_id, keys in routed.nodes.items():
                asked.create_task(self._ask(work, progress, node_id, keys, deadline_ms))

    async def _ask(
        self,
        work: AdminApiHandler[K, V],
        progress: CallProgress[K, V],
        node_id: int,
        keys: Sequence[K],
        deadline_ms: int,
    ) -> None:
        try:
            request = work.request(keys, self._request_ms(deadline_ms))
            answer = await self._send(node_id, request, deadline_ms)
        except UnsupportedVersion as wrong:
            if len(keys) == 1:
                words = f"{work.name(keys[0])}: the broker is too old for this: {wrong}"
                progress.failed(keys, UnsupportedVersion(words))
                return
            # Perhaps it can be asked about one at a time, or is too old for some of them only.
            for key in keys:
                await self._ask(work, progress, node_id, [key], deadline_ms)
        except ClientError as error:
            progress.failed(keys, error)
        else:
            progress.answered(keys, work.read(keys, answer))

    async def _send(self, node_id: int, request: Any, deadline_ms: int) -> Any:
        return await self.cluster.send(node_id, request, timeout_ms=self._request_ms(deadline_ms))

    def _request_ms(self, deadline_ms: int) -> int:
        request_ms: int = self._settings[connection.REQUEST_TIMEOUT_MS]
        return max(1, min(request_ms, self._left_ms(deadline_ms)))

    async def _learn_anew(self, deadline_ms: int) -> None:
        try:
            beyond = self.cluster.request_update()
            await self.cluster.await_update(beyond, self._request_ms(deadline_ms))
        except ClientError as error:
            if not error.retriable:
                raise
