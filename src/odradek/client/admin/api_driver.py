"""Runs admin calls: sends each open key to the broker that serves it, until all are done or time is up.

Before each retry the driver backs off (``retry.backoff.ms``, growing) and updates the metadata, so that a key
whose controller, coordinator or leader has moved is sent to the new one.
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
    """Runs the calls of one admin client."""

    def __init__(self, network: NetworkClient, settings: Settings, environment: ClientEnvironment) -> None:
        self.network = network
        self._settings = settings
        self._clock = environment.clock
        self._entropy = environment.entropy

    def timeout_ms(self, timeout_s: float | None) -> int:
        """Return the timeout of a call, by default ``default.api.timeout.ms``."""
        if timeout_s is None:
            default: int = self._settings[connection.DEFAULT_API_TIMEOUT_MS]
            return default
        return max(0, int(timeout_s * 1000))

    async def run(
        self, handler: AdminApiHandler[K, V], keys: Iterable[K], timeout_s: float | None = None
    ) -> dict[K, V]:
        """Return the result of every key; raise ``PartialFailure`` with the other results if some fail."""
        await self.network.start()
        progress = CallProgress(handler, keys)
        started_ms = self._clock.monotonic_ms()
        deadline_ms = started_ms + self.timeout_ms(timeout_s)
        attempt = 0
        while progress.open:
            await self._attempt(handler, progress, deadline_ms)
            backoff_ms = backoff(attempt, self._settings, self._entropy)
            if progress.open and (
                backoff_ms >= self._left_ms(deadline_ms) or attempt >= self._settings[admin.RETRIES]
            ):
                progress.time_out(self._clock.monotonic_ms() - started_ms)
            elif progress.open:
                await self._clock.sleep_ms(backoff_ms)
                await self._update_metadata(deadline_ms)
            attempt += 1
        return progress.result()

    async def run_single(self, handler: AdminApiHandler[None, V], timeout_s: float | None = None) -> V:
        """Return the result of a call without keys; raise its error."""
        try:
            return (await self.run(handler, [None], timeout_s))[None]
        except PartialFailure as failure:
            raise next(iter(failure.errors.values())) from None

    async def brokers(self, timeout_s: float | None = None) -> list[int]:
        """Return the ids of all brokers, from current metadata."""
        await self.network.start()
        last_version = self.network.request_update()
        metadata = await self.network.await_update(last_version, self.timeout_ms(timeout_s))
        return sorted(metadata.nodes)

    def _left_ms(self, deadline_ms: int) -> int:
        return deadline_ms - self._clock.monotonic_ms()

    async def _attempt(
        self, handler: AdminApiHandler[K, V], progress: CallProgress[K, V], deadline_ms: int
    ) -> None:
        try:
            lookup = await handler.lookup(self.network, progress.open, self._request_ms(deadline_ms))
        except ClientError as error:
            progress.on_failure(progress.open, error)
            return
        progress.on_lookup_errors(lookup.errors)
        async with asyncio.TaskGroup() as tasks:
            for node_id, keys in lookup.nodes.items():
                tasks.create_task(self._send_keys(handler, progress, node_id, keys, deadline_ms))

    async def _send_keys(
        self,
        handler: AdminApiHandler[K, V],
        progress: CallProgress[K, V],
        node_id: int,
        keys: Sequence[K],
        deadline_ms: int,
    ) -> None:
        try:
            request = handler.build_request(keys, self._request_ms(deadline_ms))
            response = await self._send(node_id, request, deadline_ms)
        except UnsupportedVersion as error:
            if len(keys) == 1:
                text = f"{handler.key_name(keys[0])}: not supported by the broker: {error}"
                progress.on_failure(keys, UnsupportedVersion(text))
                return
            # The broker may support one key per request, or only some of the keys.
            for key in keys:
                await self._send_keys(handler, progress, node_id, [key], deadline_ms)
        except ClientError as error:
            progress.on_failure(keys, error)
        else:
            progress.on_response(keys, handler.read_response(keys, response))

    async def _send(self, node_id: int, request: Any, deadline_ms: int) -> Any:
        return await self.network.send(node_id, request, timeout_ms=self._request_ms(deadline_ms))

    def _request_ms(self, deadline_ms: int) -> int:
        request_ms: int = self._settings[connection.REQUEST_TIMEOUT_MS]
        return max(1, min(request_ms, self._left_ms(deadline_ms)))

    async def _update_metadata(self, deadline_ms: int) -> None:
        try:
            last_version = self.network.request_update()
            await self.network.await_update(last_version, self._request_ms(deadline_ms))
        except ClientError as error:
            if not error.retriable:
                raise


class AdminApi:
    """Base of the mixins of ``Admin``: their methods run calls with the client's driver."""

    _driver: AdminApiDriver
