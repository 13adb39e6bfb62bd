"""Channels of the controller to the brokers: one queue and one task per live broker.

Sending returns at once. Requests to one broker keep their order, and each is retried until the broker has
accepted it or its broker epoch is gone: a broker that comes back under a new epoch gets a new queue and the
full state. Responses come back as events. A request that fails for good, and a queue that is full, fail the
controller: it reads all state again, so that nothing is half applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from odradek.controller.events import ControllerEvent, ReplicasDeleted, ReplicasOffline
from odradek.model.client_errors import ClientError
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

RETRY_MS: Final = 100
"""Wait before a request is sent again."""
QUEUED_REQUESTS_MAX: Final = 10_000
"""Requests that wait for one broker. One that does not respond for so long needs the full state anyway."""

BrokerRequest = SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica

log = events.logger("controller_channel")


class BrokerChannel(Protocol):
    """Requests from the controller to a broker, including its own.

    They raise ``ClientError`` if the broker cannot be reached; the request is then sent again.
    """

    async def leader_and_isr(self, request: SendLeaderAndIsr) -> Collection[TopicPartition]:
        """Send a LeaderAndIsr request; return the partitions that are offline on the broker."""
        ...

    async def update_metadata(self, request: SendUpdateMetadata) -> None: ...

    async def stop_replica(self, request: SendStopReplica) -> Iterable[TopicPartition]: ...


OpenChannel = Callable[[int], BrokerChannel]
"""Returns the channel to a broker."""


class ControllerChannels:
    """Queues to the live brokers. ``on_event`` gets responses, ``on_failed`` an error that no retry cures."""

    def __init__(
        self,
        open_channel: OpenChannel,
        sleep_ms: Callable[[int], Awaitable[None]],
        on_event: Callable[[ControllerEvent], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._open_channel = open_channel
        self._sleep_ms = sleep_ms
        self._on_event = on_event
        self._on_failed = on_failed
        self._queues: dict[int, _BrokerQueue] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def set_brokers(self, broker_epochs: Mapping[int, int]) -> None:
        """Open queues to new brokers and new broker epochs; drop those of others with their requests."""
        for broker_id, queue in list(self._queues.items()):
            if broker_epochs.get(broker_id) != queue.broker_epoch:
                self._drop(self._queues.pop(broker_id))
        for broker_id, broker_epoch in broker_epochs.items():
            if broker_id not in self._queues:
                self._queues[broker_id] = self._open_queue(broker_id, broker_epoch)

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
        self.set_brokers({})

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _open_queue(self, broker_id: int, broker_epoch: int) -> _BrokerQueue:
        queue = _BrokerQueue(broker_id, broker_epoch, self._open_channel(broker_id))
        queue.task = asyncio.get_running_loop().create_task(self._send_all(queue))
        return queue

    def _drop(self, queue: _BrokerQueue) -> None:
        assert queue.task is not None
        queue.task.cancel()
        self._closing.add(queue.task)
        queue.task.add_done_callback(self._closing.discard)
        queue.discard_requests()

    async def _send_all(self, queue: _BrokerQueue) -> None:
        while True:
            request = await queue.requests.get()
            try:
                event = await self._send_until_accepted(queue, request)
                if event is not None:
                    self._on_event(event)
            except Exception as error:  # noqa: BLE001 - the edge of a task
                log.failure("controller_request_failed", error, broker=queue.broker_id)
                self._on_failed(error)
                return
            finally:
                queue.requests.task_done()

    async def _send_until_accepted(
        self, queue: _BrokerQueue, request: BrokerRequest
    ) -> ControllerEvent | None:
        is_logged = False
        while True:
            try:
                return await _send(queue, request)
            except ClientError as error:
                # One warning per outage.
                log_event = log.debug if is_logged else log.warning
                log_event("controller_request_retry", broker=queue.broker_id, reason=str(error))
                is_logged = True
            await self._sleep_ms(RETRY_MS)


class _BrokerQueue:
    """Requests that wait for one broker epoch."""

    def __init__(self, broker_id: int, broker_epoch: int, channel: BrokerChannel) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.channel = channel
        self.requests: asyncio.Queue[BrokerRequest] = asyncio.Queue(QUEUED_REQUESTS_MAX)
        self.task: asyncio.Task[None] | None = None

    def discard_requests(self) -> None:
        while not self.requests.empty():
            self.requests.get_nowait()
            self.requests.task_done()


async def _send(queue: _BrokerQueue, request: BrokerRequest) -> ControllerEvent | None:
    """Send a request; return its response as an event, or None if there is nothing to handle."""
    match request:
        case SendLeaderAndIsr():
            offline = await queue.channel.leader_and_isr(request)
            return ReplicasOffline(queue.broker_id, offline) if offline else None
        case SendUpdateMetadata():
            await queue.channel.update_metadata(request)
            return None
        case SendStopReplica():
            return ReplicasDeleted(queue.broker_id, await queue.channel.stop_replica(request))
