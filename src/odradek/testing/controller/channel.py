"""Requests of a scripted controller to one broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from odradek.model.errors import ErrorCode
from odradek.store.broker_registration import RegisteredBroker
from odradek.testing.broker import Client, ConnectionEnded
from odradek.testing.network import MemoryHost

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
VERSIONS: Final = {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8}
REQUEST_TIMEOUT_S: Final = 30
RETRY_S: Final = 0.1
SENT_REQUESTS_MAX: Final = 200
"""Sent requests kept for ``replay``."""

OnResponse = Callable[[int, Any], None]


class ControllerChannel:
    """Requests to one broker incarnation, in order, each until there is a response."""

    def __init__(
        self,
        host: MemoryHost,
        broker_id: int,
        broker: RegisteredBroker,
        earlier: Iterable[tuple[int, Any]] = (),
    ) -> None:
        """``earlier`` requests were sent to this broker by channels before; they may be replayed."""
        self._host = host
        self._broker_id = broker_id
        self._endpoint = broker.registration.endpoints[0]
        self._queue: deque[tuple[int, Any, OnResponse | None]] = deque()
        self._wakeup = asyncio.Event()
        self.sent: deque[tuple[int, Any]] = deque(earlier, SENT_REQUESTS_MAX)
        self._is_held = False
        self._replays: set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(self._send_all())

    def send(self, api_key: int, request: Any, on_response: OnResponse | None = None) -> None:
        self._queue.append((api_key, request, on_response))
        self._wakeup.set()

    def hold(self) -> None:
        """Send nothing until ``release``, as a slow sender thread of a controller."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        self._wakeup.set()

    def drop_queued(self) -> None:
        self._queue.clear()

    def close(self) -> None:
        self._task.cancel()
        for task in self._replays:
            task.cancel()

    def replay(self, index: int) -> None:
        task = asyncio.get_running_loop().create_task(self._replay(*self.sent[index]))
        self._replays.add(task)
        task.add_done_callback(self._replays.discard)

    async def _replay(self, api_key: int, request: Any) -> None:
        with suppress(OSError, TimeoutError, ConnectionEnded):
            client = await self._connect()
            await client.request(api_key, VERSIONS[api_key], request)
            client.close()

    async def _connect(self) -> Client:
        return await Client.connect(
            self._host, self._endpoint.port, self._endpoint.host, client_id="controller"
        )

    async def _send_all(self) -> None:
        client: Client | None = None
        while True:
            if not self._queue or self._is_held:
                self._wakeup.clear()
                await self._wakeup.wait()
                continue
            api_key, request, on_response = self._queue[0]
            try:
                if client is None or not client.is_open:
                    client = await self._connect()
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    response = await client.request(api_key, VERSIONS[api_key], request)
            except (OSError, TimeoutError, ConnectionEnded):
                if client is not None:
                    client.close()
                    client = None
                await asyncio.sleep(RETRY_S)
                continue
            if self._queue and self._queue[0][1] is request:
                self._queue.popleft()
            self.sent.append((api_key, request))
            if on_response is not None and response.error_code == ErrorCode.NONE:
                on_response(self._broker_id, response)
