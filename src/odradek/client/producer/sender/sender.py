"""Drains ready batches, sends them to partition leaders, and reads the responses.

Driven by the event loop: each ``_run_once`` sends all that is ready, and sets a timer for the rest. New
batches and responses wake it; nothing is polled.

Invariant: each drained batch is handed to ``BatchCompletion`` once, when its request could not be sent or has
ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.client.network.network_client import ClusterMetadata, NetworkClient
from odradek.client.producer.accumulator.record_accumulator import NEVER_MS
from odradek.client.producer.accumulator.shared_state import SharedState
from odradek.client.producer.sender.batch_completion import BatchCompletion
from odradek.client.producer.sender.sender_metrics import SenderMetrics
from odradek.client.producer.sender.transaction_requests import TransactionRequests
from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.config.client import connection as connection_options
from odradek.config.client import producer as options
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.telemetry import events
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch

PRODUCE_KEY: Final = 0

log = events.logger("producer")


class NodeConnector:
    """Connects to brokers that have batches to send, and wakes the sender when they are ready."""

    def __init__(
        self, network: NetworkClient, clock: Clock, settings: Settings, wakeup: Callable[[], None]
    ) -> None:
        self._network = network
        self._clock = clock
        self._request_timeout_ms = settings[connection_options.REQUEST_TIMEOUT_MS]
        self._reconnect_backoff_ms = settings[connection_options.RECONNECT_BACKOFF_MS]
        self._wakeup = wakeup
        self._connecting: dict[int, asyncio.Task[None]] = {}

    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._connecting.values())

    def connect(self, node_id: int) -> None:
        """Start to connect, unless that has been started."""
        if node_id not in self._connecting:
            self._connecting[node_id] = asyncio.get_running_loop().create_task(
                self._until_ready(node_id), name=f"connect {node_id}"
            )

    async def _until_ready(self, node_id: int) -> None:
        try:
            if not await self._is_ready(node_id):
                await self._clock.sleep_ms(self._reconnect_backoff_ms)
        finally:
            del self._connecting[node_id]
            self._wakeup()

    async def _is_ready(self, node_id: int) -> bool:
        """Wait until the broker is connected; if that fails, request metadata and return False."""
        try:
            await self._network.wait_until_ready(node_id, self._request_timeout_ms)
        except ClientError as error:
            log.debug("broker_not_available", broker=node_id, reason=str(error))
            self._network.request_update()
            return False
        return True


class Sender:
    """Sends the batches of the accumulator. ``next_run_ms`` is the time of its next run; 0 if scheduled."""

    def __init__(
        self, network: NetworkClient, shared: SharedState, settings: Settings, entropy: Entropy
    ) -> None:
        self._network = network
        self._accumulator = shared.accumulator
        self._pool = shared.pool
        self._backpressure = shared.backpressure
        self._compression = shared.compression
        self._lock = shared.lock
        self._transaction_manager = shared.transaction_manager
        self._clock = clock = shared.clock
        self._acks = options.required_acks(settings)
        self._request_timeout_ms = settings[connection_options.REQUEST_TIMEOUT_MS]
        self._request_bytes_max = settings[options.MAX_REQUEST_SIZE]
        # With one request in flight, order is kept by muting a partition until its response.
        self._guarantee_order = settings[connection_options.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] == 1
        # Topics in use are tracked again well before they expire from the metadata.
        self._tracking_interval_ms = settings[connection_options.METADATA_MAX_IDLE_MS] // 3
        self._track_topics_at_ms = 0
        self._topics_in_use: set[str] = set()
        self._metrics = SenderMetrics(network.metrics)
        self._completion = BatchCompletion(network, shared, settings, entropy, self._metrics)
        self._transaction_requests = TransactionRequests(
            network, self._transaction_manager, clock, settings, self.wakeup
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = self._next_check_ms = NEVER_MS
        self._is_scheduled = False
        self._is_stopped = False
        self._requests_by_node: dict[int, int] = {}
        self._connector = NodeConnector(network, clock, settings, self.wakeup)
        self.blocked_since_ms: dict[int, int] = {}
        """Nodes that are not ready for their batches, and since when."""
        self.next_run_ms = NEVER_MS

    # Lifecycle.

    def start(self) -> None:
        """Start on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._network.add_listener(self._on_metadata_update)
        self.wakeup()

    async def stop(self) -> None:
        """Stop sending. Incomplete batches must have been failed with ``fail_all``."""
        self._is_stopped = True
        self._network.remove_listener(self._on_metadata_update)
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._connector.tasks(), *self._transaction_requests.tasks()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def wakeup(self) -> None:
        """Schedule a run. Must be called on the loop thread."""
        if not self._is_scheduled and not self._is_stopped and self._loop is not None:
            self._is_scheduled = True
            self.next_run_ms = 0
            self._loop.call_soon(self._run_once)

    def run_now(self) -> None:
        """Run immediately, unless a run is scheduled. Must be called on the loop thread."""
        if not self._is_scheduled and not self._is_stopped and self._loop is not None:
            self._run_once()

    def _on_metadata_update(self, metadata: object) -> None:
        del metadata
        self.wakeup()

    # Runs.

    def _run_once(self) -> None:
        if self._is_stopped:
            return
        self._is_scheduled = False
        now_ms = self._clock.monotonic_ms()
        self._completion.expire(now_ms)
        if self._transaction_manager is not None:
            self._run_transaction_manager(self._transaction_manager, now_ms)
        while self._send_ready(now_ms):
            pass
        if now_ms >= self._track_topics_at_ms:
            self._track_topics(now_ms)
        self._set_timer(now_ms)

    def _track_topics(self, now_ms: int) -> None:
        """Keep the metadata of topics that were sent to since the last time or have incomplete batches."""
        self._track_topics_at_ms = now_ms + self._tracking_interval_ms
        with self._lock:
            self._topics_in_use.update([batch.topic for batch in self._accumulator.incomplete])
        self._network.track_topics(self._topics_in_use, expires=True)
        self._topics_in_use = set()

    def _run_transaction_manager(self, manager: TransactionManagerPort, now_ms: int) -> None:
        """Resolve sequences, fail batches of failed transactions, and send the next request."""
        if self._completion.has_failures:
            manager.resolve_sequences(now_ms)
            self._completion.has_failures = self._accumulator.has_incomplete
        if manager.fatal_error is not None:
            self.fail_all(manager.fatal_error)
        elif manager.abort_reason is not None:
            with self._lock:
                batches = self._accumulator.take_never_sent()
            for batch in batches:
                self._completion.fail(batch, manager.abort_reason, adjust_sequences=False)
        self._transaction_requests.send_next(now_ms, has_incomplete=self._accumulator.has_incomplete)

    def _send_ready(self, now_ms: int) -> bool:
        """Send one request to each broker that is ready for one; return whether there was any."""
        network, accumulator = self._network, self._accumulator
        metadata = network.metadata
        work: list[tuple[int, list[ProducerBatch]]] = []
        blocked = 0
        with self._lock:
            if not accumulator.has_queued:
                self.next_run_ms = self._next_check_ms = NEVER_MS
                return False
            ready = accumulator.ready(metadata, now_ms, skip_linger=self._skips_linger())
            for node_id, partitions in ready.nodes.items():
                if not network.is_ready(node_id):
                    blocked += 1
                    self.blocked_since_ms.setdefault(node_id, now_ms)
                    # Responses to requests in flight will wake the sender.
                    if not self._requests_by_node.get(node_id):
                        self._connector.connect(node_id)
                    continue
                batches = accumulator.drain(partitions, self._request_bytes_max, now_ms)
                if batches:
                    work.append((node_id, batches))
            # While every broker is busy, nothing can be sent before a response comes.
            self.next_run_ms = 0 if blocked and blocked == len(metadata.nodes) else ready.next_check_ms
            if work:
                self._backpressure.on_drained(accumulator.queued_bytes)
        if ready.leaderless_topics:
            network.request_update()
        for node_id, batches in work:
            self.blocked_since_ms.pop(node_id, None)
            self._send(node_id, batches, metadata, now_ms)
        self._next_check_ms = ready.next_check_ms
        return bool(work)

    def _skips_linger(self) -> bool:
        manager = self._transaction_manager
        return self._pool.waiting_count > 0 or (manager is not None and manager.is_completing)

    def _set_timer(self, now_ms: int) -> None:
        """Set the timer to the next time at which something is due."""
        due_ms = min(
            self._next_check_ms,
            self._accumulator.expiry_check_ms,
            self._completion.expiry_check_ms,
            self._track_topics_at_ms if self._topics_in_use else NEVER_MS,
            self._transaction_requests.next_check_ms,
        )
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms < NEVER_MS:
            assert self._loop is not None
            # The clock counts whole milliseconds: one more, so that the time has passed when the timer fires.
            self._timer = self._loop.call_later((max(due_ms - now_ms, 0) + 1) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ms = NEVER_MS
        self.wakeup()

    # Sending.

    def _send(
        self, node_id: int, batches: list[ProducerBatch], metadata: ClusterMetadata, now_ms: int
    ) -> None:
        try:
            response = self._send_request(node_id, batches, now_ms)
        except Exception as error:  # noqa: BLE001 - these batches are in no queue any more, and must complete
            for batch in batches:
                self._completion.on_request_failed(batch, _client_error(error), metadata, now_ms)
            self.wakeup()
            return
        self._requests_by_node[node_id] = self._requests_by_node.get(node_id, 0) + 1
        self._completion.on_sent(batches)
        self._topics_in_use.update([batch.topic for batch in batches])
        if self._guarantee_order:
            for batch in batches:
                self._accumulator.mute(TopicPartition(batch.topic, batch.partition))
        response.add_done_callback(lambda done: self._on_request_ended(node_id, batches, metadata, done))

    def _send_request(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> Any:
        versions = self._network.versions(node_id).get(PRODUCE_KEY)
        version_min = self._compression.produce_version_min()
        if versions is not None and versions.stop <= version_min:
            what = f"broker must support Produce version {version_min}, got up to {versions.stop - 1}"
            raise UnsupportedVersion(what, broker=self._network.broker_name(node_id))
        manager = self._transaction_manager
        transactional = manager is not None and manager.is_transactional
        request = produce_request(
            batches,
            self._compression.finisher(transactional=transactional),
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            transactional_id=None if manager is None else manager.transactional_id,
        )
        attempt_ms = max(now_ms, 1)
        for batch in batches:
            batch.last_attempt_ms = attempt_ms
        self._metrics.sent(batches, now_ms)
        response = self._network.send_if_ready(
            node_id, request, expects_response=self._acks != 0, prompt=True
        )
        if response is None:
            raise ConnectionFailed("connection lost before send", broker=self._network.broker_name(node_id))
        return response

    def _on_request_ended(
        self, node_id: int, batches: Sequence[ProducerBatch], sent: ClusterMetadata, done: Any
    ) -> None:
        """Complete the batches of a request; their buffers are no longer in use by the connection."""
        now_ms = self._clock.monotonic_ms()
        self._requests_by_node[node_id] -= 1
        completion = self._completion
        completion.on_request_ended(batches)
        if self._guarantee_order:
            for batch in batches:
                self._accumulator.unmute(TopicPartition(batch.topic, batch.partition))
        error = done.exception()
        if error is not None:
            for batch in batches:
                completion.on_request_failed(batch, _client_error(error), sent, now_ms)
        elif self._acks == 0:
            completion.complete_unacknowledged(batches)
        else:
            self._read_response(node_id, batches, sent, done.result(), now_ms)
        if self._has_work():
            self.wakeup()

    def _has_work(self) -> bool:
        """Return whether the end of a request allows more: queued batches, or requests of transactions."""
        manager = self._transaction_manager
        if manager is not None and (manager.is_transactional or self._completion.has_failures):
            return True
        return self._accumulator.has_queued

    def _read_response(
        self,
        node_id: int,
        batches: Sequence[ProducerBatch],
        sent: ClusterMetadata,
        response: ProduceResponse,
        now_ms: int,
    ) -> None:
        completion = self._completion
        written: list[ProducerBatch] = []
        for batch, partition in match_responses(batches, response):
            if partition.error_code == 0:
                completion.acknowledge(batch, partition.base_offset, partition.log_append_time_ms)
                written.append(batch)
            else:
                completion.on_error_response(
                    batch, partition, response, self._network.broker_name(node_id), sent, now_ms
                )
        completion.release(written)

    def fail_all(self, error: BaseException) -> None:
        """Fail all incomplete batches, in send order."""
        self._completion.fail_all(error)

    @property
    def in_flight_count(self) -> int:
        """Batches whose request has not ended."""
        return len(self._completion.in_flight)


def _client_error(error: BaseException) -> ClientError:
    return error if isinstance(error, ClientError) else ClientError(f"request could not be sent: {error!r}")


# Requests, and the partition responses of each batch.


def produce_request(
    batches: Sequence[ProducerBatch],
    finish: Callable[[ProducerBatch], memoryview],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    """Return one request with all batches, at most one per partition, without copying them."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        partition = PartitionProduceData(batch.partition, finish(batch))
        topics.setdefault(batch.topic, []).append(partition)
    return ProduceRequest(
        transactional_id,
        acks,
        timeout_ms,
        [TopicProduceData(name, partitions) for name, partitions in topics.items()],
    )


def match_responses(
    batches: Sequence[ProducerBatch], response: ProduceResponse
) -> Iterable[tuple[ProducerBatch, PartitionProduceResponse]]:
    """Return each batch with its partition response; an error for partitions missing in the response."""
    if len(response.responses) == 1:
        # Brokers respond in the order of the request, which is the order of batches for a single topic.
        name, partitions = response.responses[0].name, response.responses[0].partition_responses
        indexes = [batch.partition for batch in batches]
        if [partition.index for partition in partitions] == indexes and {
            batch.topic for batch in batches
        } == {name}:
            return zip(batches, partitions, strict=True)
    return _match_by_partition(batches, response)


def _match_by_partition(
    batches: Sequence[ProducerBatch], response: ProduceResponse
) -> Iterator[tuple[ProducerBatch, PartitionProduceResponse]]:
    responses: dict[tuple[str, int], Any] = {
        (topic.name, partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    for batch in batches:
        partition = responses.get((batch.topic, batch.partition))
        yield batch, _missing_response(batch) if partition is None else partition


def _missing_response(batch: ProducerBatch) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        batch.partition,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        -1,
        error_message="the Produce response has no entry for this partition",
    )
