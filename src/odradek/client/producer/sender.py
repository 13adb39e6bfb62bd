"""Carries batches off: what may go is drained, sent, and its answers end it.

Lives on the event loop and is driven by it: each ``_look`` sends all that may go now, and sets a timer for
what may go later. Batches and answers wake it; nothing is polled.

Invariants: a batch that was drained ends in ``_complete``, ``_fail``, ``_requeue`` or ``_split``, once. The
memory of a batch in flight is given back when its request has ended, not before, even if the program was
told earlier that time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from odradek.client.cluster import Cluster
from odradek.client.producer.accumulator import NEVER_MS, Accumulator, Retry
from odradek.client.producer.buffer_pool import BufferPool, Waiter
from odradek.client.producer.errands import Errands
from odradek.client.producer.idempotence import Idempotence
from odradek.client.producer.pace import Pace
from odradek.client.producer.packing import Packing
from odradek.client.producer.produce_requests import PRODUCE_KEY, matched, produce_request
from odradek.client.producer.sender_meters import SenderMeters
from odradek.client.producer.verdicts import Verdict, batch_error, judge, record_errors
from odradek.client.retries import backoff
from odradek.client.values import Node
from odradek.config.client import connection as connection_options
from odradek.config.client import producer as options
from odradek.config.table import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

if TYPE_CHECKING:
    from odradek.records.codec import ProducerBatch
    from odradek.wire.messages.produce import PartitionProduceResponse, ProduceResponse

log = events.logger("producer")


class Sender:
    """Sends what the accumulator holds. ``looks_at_ms`` says when it will look next; 0 is very soon."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        pool: BufferPool,
        pace: Pace,
        packing: Packing,
        lock: AbstractContextManager[Any],
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        order: Idempotence | None,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._pool = pool
        self._pace = pace
        self._packing = packing
        self._lock = lock
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._order = order
        self._acks = options.required_acks(settings)
        self._retries = settings[options.RETRIES]
        self._request_timeout_ms = settings[connection_options.REQUEST_TIMEOUT_MS]
        self._delivery_timeout_ms = settings[options.DELIVERY_TIMEOUT_MS]
        self._request_bytes_max = settings[options.MAX_REQUEST_SIZE]
        # With one request at a time order is kept by sending nothing of a partition before the answer.
        self._mutes = settings[connection_options.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] == 1
        # Topics in use are named again well before metadata would forget them.
        self._naming_ms = settings[connection_options.METADATA_MAX_IDLE_MS] // 3
        self._names_at_ms = 0
        self._topics_in_use: set[str] = set()
        self._meters = SenderMeters(cluster.meters)
        self._errands = Errands(cluster, order, clock, settings, self.wake)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self._is_scheduled = False
        self._is_troubled = False
        self._has_ended = False
        self._in_flight: dict[ProducerBatch, int] = {}
        self._in_flight_expiry_ms = NEVER_MS
        self._requests_by_node: dict[int, int] = {}
        self._owed: dict[ProducerBatch, int] = {}
        self._reaching: dict[int, asyncio.Task[None]] = {}
        self.blocked_since_ms: dict[int, int] = {}
        """Nodes that could not take what was ready for them, and since when."""
        self.looks_at_ms = NEVER_MS

    # Life.

    def start(self) -> None:
        """Begin on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._cluster.on_update(self._image_changed)
        self.wake()

    async def end(self) -> None:
        """Look no more. What is left is failed by ``fail_all`` before."""
        self._has_ended = True
        self._cluster.unlisten(self._image_changed)
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

    def _image_changed(self, image: object) -> None:
        del image
        self.wake()

    # Rounds.

    def _look(self) -> None:
        if self._has_ended:
            return
        self._is_scheduled = False
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
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
        self._cluster.follow(self._topics_in_use, expires=True)
        self._topics_in_use = set()

    def _tend(self, order: Idempotence, now_ms: int) -> None:
        """What idempotence and transactions need beside batches."""
        if self._is_troubled:
            order.resolve(now_ms)
            self._is_troubled = self._accumulator.has_incomplete
        if order.fatal_error is not None:
            self.fail_all(order.fatal_error)
        elif order.abort_reason is not None:
            with self._lock:
                batches = self._accumulator.take_never_sent()
            for batch in batches:
                self._fail(batch, order.abort_reason, never_tried_again=False)
        self._errands.look(now_ms, has_incomplete=self._accumulator.has_incomplete)

    def _send_round(self, now_ms: int) -> bool:
        """One request to each broker that can take one; says whether there was any."""
        cluster, accumulator = self._cluster, self._accumulator
        image = cluster.image
        work: list[tuple[int, list[ProducerBatch]]] = []
        blocked = 0
        with self._lock:
            ready = accumulator.ready(image, now_ms, pressing=self._is_pressing())
            for node_id, partitions in ready.nodes.items():
                if not cluster.is_ready(node_id):
                    blocked += 1
                    self.blocked_since_ms.setdefault(node_id, now_ms)
                    self._reach(node_id)
                    continue
                batches = accumulator.drain(partitions, self._request_bytes_max, now_ms)
                if batches:
                    work.append((node_id, batches))
            # Where every broker is busy an answer comes before anything new could be sent.
            self.looks_at_ms = 0 if blocked and blocked == len(image.nodes) else ready.next_check_ms
            if work:
                self._pace.left(accumulator.queued_bytes)
        if ready.leaderless_topics:
            cluster.refresh()
        for node_id, batches in work:
            self.blocked_since_ms.pop(node_id, None)
            self._send(node_id, batches, now_ms)
        self._next_check_ms = ready.next_check_ms
        return bool(work)

    def _is_pressing(self) -> bool:
        return self._pool.waiting_count > 0 or (self._order is not None and self._order.is_completing)

    def _arm(self, now_ms: int) -> None:
        """Set the timer to what may be due next without anything else happening."""
        due_ms = min(
            self._next_check_ms,
            self._accumulator.expiry_check_ms,
            self._in_flight_expiry_ms,
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
            await self._cluster.ready(node_id, self._request_timeout_ms)
        except ClientError as failed:
            log.debug("broker_not_reached", broker=node_id, reason=str(failed))
            self._cluster.refresh()
            await self._clock.sleep_ms(self._settings[connection_options.RECONNECT_BACKOFF_MS])
        finally:
            del self._reaching[node_id]
            self.wake()

    # Sending.

    def _send(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> None:
        try:
            answer = self._begin(node_id, batches, now_ms)
        except ClientError as failed:
            for batch in batches:
                self._settle_without_answer(batch, failed, node_id, now_ms)
            self.wake()
            return
        self._requests_by_node[node_id] = self._requests_by_node.get(node_id, 0) + 1
        for batch in batches:
            self._in_flight[batch] = batch.created_ms
            self._topics_in_use.add(batch.topic)
        oldest_ms = min([batch.created_ms for batch in batches])
        self._in_flight_expiry_ms = min(self._in_flight_expiry_ms, oldest_ms + self._delivery_timeout_ms)
        if self._mutes:
            for batch in batches:
                self._accumulator.mute(TopicPartition(batch.topic, batch.partition))
        answer.add_done_callback(lambda done: self._answered(node_id, batches, done))

    def _begin(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> asyncio.Future[Any]:
        versions = self._cluster.versions(node_id).get(PRODUCE_KEY)
        version_min = self._packing.produce_version_min()
        if versions is not None and versions.stop <= version_min:
            what = f"the broker knows Produce up to version {versions.stop - 1}, and {version_min} is needed"
            raise UnsupportedVersion(what, broker=self._cluster.broker_name(node_id))
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
        self._meters.sent(batches, now_ms)
        answer = self._cluster.begin(node_id, request, expects_answer=self._acks != 0)
        if answer is None:
            raise ConnectionFailed("the connection has gone", broker=self._cluster.broker_name(node_id))
        return answer

    def _answered(self, node_id: int, batches: Sequence[ProducerBatch], done: asyncio.Future[Any]) -> None:
        """A request has ended: its buffers are ours again."""
        now_ms = self._clock.monotonic_ms()
        self._requests_by_node[node_id] -= 1
        for batch in batches:
            del self._in_flight[batch]
        if self._mutes:
            for batch in batches:
                self._accumulator.unmute(TopicPartition(batch.topic, batch.partition))
        failed = done.exception()
        if isinstance(failed, ClientError):
            for batch in batches:
                self._settle_without_answer(batch, failed, node_id, now_ms)
        elif failed is not None:
            raise failed
        elif self._acks == 0:
            for batch in batches:
                self._acknowledge(batch, -1, -1)
            self._release(batches)
        else:
            answer: ProduceResponse = done.result()
            written: list[ProducerBatch] = []
            for batch, part in matched(batches, answer):
                if part.error_code == 0:
                    self._acknowledge(batch, part.base_offset, part.log_append_time_ms)
                    written.append(batch)
                else:
                    self._settle(batch, part, answer, node_id, now_ms)
            self._release(written)
        if not self._in_flight:
            self._in_flight_expiry_ms = NEVER_MS
        self.wake()

    # What becomes of a batch.

    def _settle(
        self,
        batch: ProducerBatch,
        part: PartitionProduceResponse,
        answer: ProduceResponse,
        node_id: int,
        now_ms: int,
    ) -> None:
        """A broker answered with an error."""
        code = ErrorCode(part.error_code)
        if code.stale_metadata:
            self._learn_leader(batch, part, answer)
        broker = self._cluster.broker_name(node_id)
        error = batch_error(batch, code, part.error_message, broker)
        named = record_errors(batch, code, part.record_errors, broker)
        self._pass_judgement(batch, code, error, now_ms, part.base_offset, part.log_start_offset, named)

    def _settle_without_answer(
        self, batch: ProducerBatch, failed: ClientError, node_id: int, now_ms: int
    ) -> None:
        """No answer came, or nothing could be sent."""
        del node_id
        code = ErrorCode.NETWORK_EXCEPTION
        if isinstance(failed, TimedOut):
            code = ErrorCode.REQUEST_TIMED_OUT
        elif not isinstance(failed, ConnectionFailed):
            code = failed.code or ErrorCode.UNSUPPORTED_VERSION
        if code.stale_metadata or isinstance(failed, TimedOut):
            self._cluster.refresh()
        self._pass_judgement(batch, code, failed, now_ms)

    def _pass_judgement(
        self,
        batch: ProducerBatch,
        code: ErrorCode,
        error: ClientError,
        now_ms: int,
        base_offset: int = -1,
        log_start_offset: int = -1,
        named: Any = None,
    ) -> None:
        has_attempts = batch.attempts < self._retries
        has_time = batch.created_ms + self._delivery_timeout_ms > now_ms
        verdict = judge(
            batch,
            code,
            log_start_offset,
            may_be_tried=has_attempts and has_time and not batch.done,
            order=self._order,
        )
        self._is_troubled = True
        if verdict is Verdict.WRITTEN:
            self._acknowledge(batch, base_offset, -1)
            self._release([batch])
        elif verdict is Verdict.SPLIT:
            self._split(batch)
        elif verdict is Verdict.RETRY:
            self._requeue(batch, error, now_ms)
        else:
            self._fail(batch, error, never_tried_again=has_attempts, named=named)

    def _acknowledge(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        if not batch.done:
            if self._order is not None:
                self._order.acknowledged(batch, base_offset)
            batch.complete(base_offset, log_append_time)

    def _fail(
        self, batch: ProducerBatch, error: BaseException, *, never_tried_again: bool, named: Any = None
    ) -> None:
        self._is_troubled = True
        if not batch.done:
            self._meters.failed(batch)
            if self._order is not None:
                self._order.failed(batch, error, never_tried_again=never_tried_again)
            if named is None:
                batch.fail(error)
            else:
                batch.fail_some(*named)
        self._release([batch])

    def _requeue(self, batch: ProducerBatch, error: ClientError, now_ms: int) -> None:
        rest_ms = backoff(batch.attempts, self._settings, self._entropy)
        batch.attempts += 1
        self._meters.retried(batch)
        epoch = self._cluster.image.leader(TopicPartition(batch.topic, batch.partition))[1]
        log.debug("batch_retried", partition=f"{batch.topic}-{batch.partition}", reason=str(error))
        with self._lock:
            self._accumulator.requeue(batch, Retry(now_ms + rest_ms, epoch, error))
        if self._order is not None:
            self._order.requeued(batch)

    def _split(self, batch: ProducerBatch) -> None:
        self._packing.was_too_large(batch.topic)
        self._meters.split()
        with self._lock:
            parts = self._accumulator.split(batch)
        if self._order is not None:
            self._order.split(batch, parts)
        self._release([batch])

    def _release(self, batches: Sequence[ProducerBatch]) -> None:
        """Count batches out. Their memory follows now, or when their request has ended."""
        granted: list[Waiter] = []
        with self._lock:
            for batch in batches:
                memory_bytes = self._accumulator.completed(batch)
                if self._owed:
                    memory_bytes += self._owed.pop(batch, 0)
                if batch in self._in_flight:
                    self._owed[batch] = memory_bytes
                elif memory_bytes:
                    # Without an answer nobody knows when the last byte has left.
                    buffer = batch.take_buffer() if self._acks else None
                    granted += self._pool.give_back(memory_bytes, buffer)
        for waiter in granted:
            waiter.wake()

    def _learn_leader(
        self, batch: ProducerBatch, part: PartitionProduceResponse, answer: ProduceResponse
    ) -> None:
        """A broker that is not the leader may name it; otherwise metadata will."""
        named = part.current_leader
        if named is not None and named.leader_id >= 0:
            places = [Node(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints]
            partition = TopicPartition(batch.topic, batch.partition)
            if self._cluster.learn_leader(partition, named.leader_id, named.leader_epoch, places):
                return
        self._cluster.refresh()

    # Ends.

    def _expire(self, now_ms: int) -> None:
        """Give up batches whose ``delivery.timeout.ms`` is over, also those whose answer is due."""
        with self._lock:
            late: list[ProducerBatch] = self._accumulator.expired(now_ms)
        if now_ms >= self._in_flight_expiry_ms:
            bound_ms = now_ms - self._delivery_timeout_ms
            late += [one for one, created in self._in_flight.items() if created <= bound_ms and not one.done]
            young = [created for created in self._in_flight.values() if created > bound_ms]
            self._in_flight_expiry_ms = min(young, default=NEVER_MS - self._delivery_timeout_ms)
            self._in_flight_expiry_ms += self._delivery_timeout_ms
        for batch in late:
            self._fail(batch, _expiry(batch, now_ms), never_tried_again=False)

    def fail_all(self, error: BaseException) -> None:
        """Fail everything that is not answered yet, in the order of opening."""
        with self._lock:
            self._accumulator.take_all()
            batches = list(self._accumulator.incomplete)
        for batch in batches:
            self._fail(batch, error, never_tried_again=False)

    @property
    def in_flight(self) -> Iterable[ProducerBatch]:
        return self._in_flight.keys()


def _expiry(batch: ProducerBatch, now_ms: int) -> TimedOut:
    what = (
        f"{batch.count} record(s) for {batch.topic}-{batch.partition} were not delivered within"
        f" {now_ms - batch.created_ms} ms"
    )
    retry = batch.tag
    if isinstance(retry, Retry) and retry.because is not None:
        return TimedOut(f"{what}; the last attempt failed: {retry.because}", code=retry.because.code)
    return TimedOut(what)
