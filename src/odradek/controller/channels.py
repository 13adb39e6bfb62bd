"""Channels of the controller to the brokers: one queue and one task per live broker.

Sending returns at once. Requests to one broker keep their order, and each is retried until the broker has
answered it or its broker epoch is gone: a broker that comes back under a new epoch gets a new queue and the
full state. Responses come back through a callback. A request that fails for good, and a queue that is full,
fail the controller: it reads all state again, so that nothing is half applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from odradek.controller.live_broker import LiveBroker
from odradek.model.client_errors import ClientError
from odradek.replication.control_requests import ControlResult
from odradek.telemetry import events

RETRY_MS: Final = 100
"""Wait before a request is sent again."""
QUEUED_REQUESTS_MAX: Final = 10_000
"""Requests that wait for one broker. One that does not respond for so long needs the full state anyway."""

BrokerRequest = SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica

log = events.logger("controller_channel")


class BrokerChannel(Protocol):
    """Requests from the controller to a broker, including its own."""

    async def send(self, request: BrokerRequest) -> ControlResult:
        """Send a request; raises ``ClientError`` without a response: the request is then sent again."""
        ...

    async def close(self) -> None: ...


OpenChannel = Callable[[int, Callable[[], LiveBroker]], BrokerChannel]
"""Returns the channel to a broker, whose registration may change while its epoch stays."""

OnAnswered = Callable[[int, BrokerRequest, ControlResult], None]
"""Gets the id of a broker, a request to it, and its response."""


class ControllerChannels:
    """Queues to the live brokers. ``on_failed`` gets an error that no retry cures."""

    def __init__(
        self,
        open_channel: OpenChannel,
        sleep_ms: Callable[[int], Awaitable[None]],
        on_answered: OnAnswered,
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._open_channel = open_channel
        self._sleep_ms = sleep_ms
        self._on_answered = on_answered
        self._on_failed = on_failed
        self._queues: dict[int, _BrokerQueue] = {}
        self._is_closed = False
        self._closing: set[asyncio.Task[None]] = set()

    def set_brokers(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Open queues to new brokers and new broker epochs; drop those of others with their requests."""
        if self._is_closed:
            brokers = {}
        for broker_id, queue in list(self._queues.items()):
            broker = brokers.get(broker_id)
            if broker is None or broker.broker_epoch != queue.broker.broker_epoch:
                self._drop(self._queues.pop(broker_id))
            else:
                queue.broker = broker
        for broker_id, broker in brokers.items():
            if broker_id not in self._queues:
                self._queues[broker_id] = self._open_queue(broker_id, broker)

    def send(self, broker_id: int, request: BrokerRequest) -> None:
        """Queue a request. One to a broker that is gone is dropped."""
        queue = self._queues.get(broker_id)
        if queue is None:
            return
        try:
            queue.requests.put_nowait(request)
        except asyncio.QueueFull:
            self._on_failed(
                RuntimeError(f"broker {broker_id} has not responded to {QUEUED_REQUESTS_MAX} requests")
            )

    async def drain(self) -> None:
        """Wait until each queued request has been answered, or its broker is gone."""
        await asyncio.gather(*(queue.requests.join() for queue in self._queues.values()))

    def close(self) -> None:
        """Drop all requests; none is sent after this call."""
        self._is_closed = True
        self.set_brokers({})

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _open_queue(self, broker_id: int, broker: LiveBroker) -> _BrokerQueue:
        queue = _BrokerQueue(broker_id, broker)
        channel = self._open_channel(broker_id, lambda: queue.broker)
        queue.task = asyncio.get_running_loop().create_task(self._run(queue, channel))
        return queue

    def _drop(self, queue: _BrokerQueue) -> None:
        assert queue.task is not None
        queue.task.cancel()
        self._closing.add(queue.task)
        queue.task.add_done_callback(self._closing.discard)
        queue.discard_requests()

    async def _run(self, queue: _BrokerQueue, channel: BrokerChannel) -> None:
        try:
            await self._send_all(queue, channel)
        finally:
            await channel.close()

    async def _send_all(self, queue: _BrokerQueue, channel: BrokerChannel) -> None:
        while True:
            request = await queue.requests.get()
            try:
                result = await self._send_until_answered(queue, channel, request)
                if result.error:
                    # The broker has another controller, or another broker epoch: this one will hear of it.
                    log.warning(
                        "controller_request_refused",
                        broker=queue.broker_id,
                        request=type(request).__name__,
                        error=result.error.name,
                    )
                self._on_answered(queue.broker_id, request, result)
            except Exception as error:  # noqa: BLE001 - the edge of a task
                log.failure("controller_request_failed", error, broker=queue.broker_id)
                self._on_failed(error)
                return
            finally:
                queue.requests.task_done()

    async def _send_until_answered(
        self, queue: _BrokerQueue, channel: BrokerChannel, request: BrokerRequest
    ) -> ControlResult:
        is_logged = False
        while True:
            try:
                return await channel.send(request)
            except ClientError as error:
                # One warning per outage.
                log_event = log.debug if is_logged else log.warning
                log_event("controller_request_retry", broker=queue.broker_id, reason=str(error))
                is_logged = True
            await self._sleep_ms(RETRY_MS)


class _BrokerQueue:
    """Requests that wait for one broker epoch."""

    def __init__(self, broker_id: int, broker: LiveBroker) -> None:
        self.broker_id = broker_id
        self.broker = broker
        self.requests: asyncio.Queue[BrokerRequest] = asyncio.Queue(QUEUED_REQUESTS_MAX)
        self.task: asyncio.Task[None] | None = None

    def discard_requests(self) -> None:
        while not self.requests.empty():
            self.requests.get_nowait()
            self.requests.task_done()
