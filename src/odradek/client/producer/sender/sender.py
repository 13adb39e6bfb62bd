"""Carries batches off: what may go is drained, sent, and its answers end it.

Lives on the event loop and is driven by it: each ``_look`` sends all that may go now, and sets a timer for
what may go later. Batches and answers wake it; nothing is polled.

Invariant: each batch that was drained is handed to ``BatchCompletion`` once, when its request could not be
sent or has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odradek.client.network.network_client import ClusterMetadata, NetworkClient
from odradek.client.producer.accumulator.record_accumulator import NEVER_MS
from odradek.client.producer.accumulator.shared_state import SharedState
from odradek.client.producer.sender.batch_completion import BatchCompletion
from odradek.client.producer.sender.produce_requests import PRODUCE_KEY, matched, produce_request
from odradek.client.producer.sender.sender_metrics import SenderMetrics
from odradek.client.producer.sender.transaction_requests import TransactionRequests
from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.config.client import connection as connection_options
from odradek.config.client import producer as options
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed, UnsupportedVersion
from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

if TYPE_CHECKING:
    from odradek.records.codec import ProducerBatch
    from odradek.wire.messages.produce import ProduceResponse

log = events.logger("producer")


class Sender:
    """Sends what the accumulator holds. ``looks_at_ms`` says when it will look next; 0 is very soon."""

    def __init__(
        self, network: NetworkClient, stock: SharedState, settings: Settings, entropy: Entropy
    ) -> None:
        self._network = network
        self._accumulator = stock.accumulator
        self._pool = stock.pool
        self._pace = stock.pace
        self._packing = stock.packing
        self._lock = stock.lock
        self._order = order = stock.order
        self._clock = clock = stock.clock
        self._settings = settings
        self._acks = options.required_acks(settings)
        self._request_timeout_ms = settings[connection_options.REQUEST_TIMEOUT_MS]
        self._request_bytes_max = settings[options.MAX_REQUEST_SIZE]
        # With one request at a time order is kept by sending nothing of a partition before the answer.
        self._mutes = settings[connection_options.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] == 1
        # Topics in use are named again well before metadata would forget them.
        self._naming_ms = settings[connection_options.METADATA_MAX_IDLE_MS] // 3
        self._names_at_ms = 0
        self._topics_in_use: set[str] = set()
        self._metrics = SenderMetrics(network.metrics)
        self._fates = BatchCompletion(network, stock, settings, entropy, self._metrics)
        self._errands = TransactionRequests(network, order, clock, settings, self.wake)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = self._next_check_ms = NEVER_MS
        self._is_scheduled = False
        self._has_ended = False
        self._requests_by_node: dict[int, int] = {}
        self._reaching: dict[int, asyncio.Task[None]] = {}
        self.blocked_since_ms: dict[int, int] = {}
        """Nodes that could not take what was ready for them, and since when."""
        self.looks_at_ms = NEVER_MS

    # Life.

    def start(self) -> None:
        """Begin on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._network.add_listener(self._image_changed)
        self.wake()

    async def end(self) -> None:
        """Look no more. What is left is failed by ``fail_all`` before."""
        self._has_ended = True
        self._network.remove_listener(self._image_changed)
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._reaching.values(), *self._errands.tasks()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def wake(self) -> None:
        """Look soon. Must be called on the loop's thread."""
        if not self._is_scheduled and not self._has_ended and self._loop is not None:
            self._is_scheduled = True
            self.looks_at_ms = 0
            self._loop.call_soon(self._look)

    def look(self) -> None:
        """Look now, unless that is about to happen anyway. Must be called on the loop's thread."""
        if not self._is_scheduled and not self._has_ended and self._loop is not None:
            self._look()

    def _image_changed(self, metadata: object) -> None:
        del metadata
        self.wake()

    # Rounds.

    def _look(self) -> None:
        if self._has_ended:
            return
        self._is_scheduled = False
        now_ms = self._clock.monotonic_ms()
        self._fates.expire(now_ms)
        if self._order is not None:
            self._tend(self._order, now_ms)
        while self._send_round(now_ms):
            pass
        if now_ms >= self._names_at_ms:
            self._name_topics(now_ms)
        self._arm(now_ms)

    def _name_topics(self, now_ms: int) -> None:
        """Have metadata kept of topics that were sent to since the last time, or have something waiting."""
        self._names_at_ms = now_ms + self._naming_ms
        with self._lock:
            self._topics_in_use.update([batch.topic for batch in self._accumulator.incomplete])
        self._network.track_topics(self._topics_in_use, expires=True)
        self._topics_in_use = set()

    def _tend(self, order: TransactionManagerPort, now_ms: int) -> None:
        """What idempotence and transactions need beside batches."""
        if self._fates.has_trouble:
            order.resolve(now_ms)
            self._fates.has_trouble = self._accumulator.has_incomplete
        if order.fatal_error is not None:
            self.fail_all(order.fatal_error)
        elif order.abort_reason is not None:
            with self._lock:
                batches = self._accumulator.take_never_sent()
            for batch in batches:
                self._fates.fail(batch, order.abort_reason, adjust_sequences=False)
        self._errands.look(now_ms, has_incomplete=self._accumulator.has_incomplete)

    def _send_round(self, now_ms: int) -> bool:
        """One request to each broker that can take one; says whether there was any."""
        network, accumulator = self._network, self._accumulator
        metadata = network.metadata
        work: list[tuple[int, list[ProducerBatch]]] = []
        blocked = 0
        with self._lock:
            if not accumulator.has_queued:
                self.looks_at_ms = self._next_check_ms = NEVER_MS
                return False
            ready = accumulator.ready(metadata, now_ms, pressing=self._is_pressing())
            for node_id, partitions in ready.nodes.items():
                if not network.is_ready(node_id):
                    blocked += 1
                    self.blocked_since_ms.setdefault(node_id, now_ms)
                    self._reach(node_id)
                    continue
                batches = accumulator.drain(partitions, self._request_bytes_max, now_ms)
                if batches:
                    work.append((node_id, batches))
            # Where every broker is busy an answer comes before anything new could be sent.
            self.looks_at_ms = 0 if blocked and blocked == len(metadata.nodes) else ready.next_check_ms
            if work:
                self._pace.left(accumulator.queued_bytes)
        if ready.leaderless_topics:
            network.request_update()
        for node_id, batches in work:
            self.blocked_since_ms.pop(node_id, None)
            self._send(node_id, batches, metadata, now_ms)
        self._next_check_ms = ready.next_check_ms
        return bool(work)

    def _is_pressing(self) -> bool:
        return self._pool.waiting_count > 0 or (self._order is not None and self._order.is_completing)

    def _arm(self, now_ms: int) -> None:
        """Set the timer to what may be due next without anything else happening."""
        due_ms = min(
            self._next_check_ms,
            self._accumulator.expiry_check_ms,
            self._fates.expiry_check_ms,
            self._names_at_ms if self._topics_in_use else NEVER_MS,
            self._errands.next_wake_ms,
        )
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms < NEVER_MS:
            assert self._loop is not None
            # The clock counts whole milliseconds: one more, so that the time is over when the timer rings.
            self._timer = self._loop.call_later((max(due_ms - now_ms, 0) + 1) / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_ms = NEVER_MS
        self.wake()

    def _reach(self, node_id: int) -> None:
        """Have a connection made, unless answers are due: then one of them will wake us."""
        if self._requests_by_node.get(node_id) or node_id in self._reaching:
            return
        assert self._loop is not None
        self._reaching[node_id] = self._loop.create_task(self._until_ready(node_id), name=f"reach {node_id}")

    async def _until_ready(self, node_id: int) -> None:
        try:
            await self._network.wait_until_ready(node_id, self._request_timeout_ms)
        except ClientError as failed:
            log.debug("broker_not_available", broker=node_id, reason=str(failed))
            self._network.request_update()
            await self._clock.sleep_ms(self._settings[connection_options.RECONNECT_BACKOFF_MS])
        finally:
            del self._reaching[node_id]
            self.wake()

    # Sending.

    def _send(
        self, node_id: int, batches: list[ProducerBatch], metadata: ClusterMetadata, now_ms: int
    ) -> None:
        try:
            answer = self._begin(node_id, batches, now_ms)
        except Exception as failed:  # noqa: BLE001 - whatever it is, these batches are in no line any more
            for batch in batches:
                self._fates.unanswered(batch, _as_ours(failed), metadata, now_ms)
            self.wake()
            return
        self._requests_by_node[node_id] = self._requests_by_node.get(node_id, 0) + 1
        self._fates.left(batches)
        self._topics_in_use.update([batch.topic for batch in batches])
        if self._mutes:
            for batch in batches:
                self._accumulator.mute(TopicPartition(batch.topic, batch.partition))
        answer.add_done_callback(lambda done: self._answered(node_id, batches, metadata, done))

    def _begin(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> asyncio.Future[Any]:
        versions = self._network.versions(node_id).get(PRODUCE_KEY)
        version_min = self._packing.produce_version_min()
        if versions is not None and versions.stop <= version_min:
            what = f"the broker knows Produce up to version {versions.stop - 1}, and {version_min} is needed"
            raise UnsupportedVersion(what, broker=self._network.broker_name(node_id))
        order = self._order
        transactional = order is not None and order.is_transactional
        request = produce_request(
            batches,
            self._packing.finisher(transactional=transactional),
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            transactional_id=None if order is None else order.transactional_id,
        )
        attempt_ms = max(now_ms, 1)
        for batch in batches:
            batch.last_attempt_ms = attempt_ms
        self._metrics.sent(batches, now_ms)
        answer = self._network.send_if_ready(node_id, request, expects_response=self._acks != 0)
        if answer is None:
            raise ConnectionFailed("the connection has gone", broker=self._network.broker_name(node_id))
        return answer

    def _answered(
        self, node_id: int, batches: Sequence[ProducerBatch], sent: ClusterMetadata, done: asyncio.Future[Any]
    ) -> None:
        """A request has ended: its buffers are ours again."""
        now_ms = self._clock.monotonic_ms()
        self._requests_by_node[node_id] -= 1
        fates = self._fates
        fates.returned(batches)
        if self._mutes:
            for batch in batches:
                self._accumulator.unmute(TopicPartition(batch.topic, batch.partition))
        failed = done.exception()
        if failed is not None:
            for batch in batches:
                fates.unanswered(batch, _as_ours(failed), sent, now_ms)
        elif self._acks == 0:
            fates.written(batches)
        else:
            self._read_answer(node_id, batches, sent, done.result(), now_ms)
        self.wake()

    def _read_answer(
        self,
        node_id: int,
        batches: Sequence[ProducerBatch],
        sent: ClusterMetadata,
        answer: ProduceResponse,
        now_ms: int,
    ) -> None:
        fates = self._fates
        written: list[ProducerBatch] = []
        for batch, part in matched(batches, answer):
            if part.error_code == 0:
                fates.acknowledge(batch, part.base_offset, part.log_append_time_ms)
                written.append(batch)
            else:
                fates.refused(batch, part, answer, self._network.broker_name(node_id), sent, now_ms)
        fates.release(written)

    def fail_all(self, error: BaseException) -> None:
        """Fail everything that is not answered yet, in the order of sending."""
        self._fates.fail_all(error)

    @property
    def in_flight_count(self) -> int:
        """Batches whose request has not ended."""
        return len(self._fates.in_flight)


def _as_ours(failed: BaseException) -> ClientError:
    """Whatever became of a request, its batches must hear of it, and in words of ours."""
    return failed if isinstance(failed, ClientError) else ClientError(f"nothing could be sent: {failed!r}")
