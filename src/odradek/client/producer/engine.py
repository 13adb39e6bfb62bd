"""The parts of a producer put together, the same for both worlds.

What differs between asyncio and threads is passed in as a ``ConcurrencyModel``: the lock around what threads
share, how those who wait are woken, and how the loop is told that a batch is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

from odradek.client.environment import ClientEnvironment
from odradek.client.network.metadata import ClusterMetadata, TopicMetadata
from odradek.client.network.network_client import NetworkClient
from odradek.client.producer.accumulator.backpressure import Backpressure
from odradek.client.producer.accumulator.batch_compression import batch_compression
from odradek.client.producer.accumulator.batch_growth import BatchGrowth, steps
from odradek.client.producer.accumulator.buffer_pool import BufferPool
from odradek.client.producer.accumulator.record_accumulator import RecordAccumulator
from odradek.client.producer.accumulator.shared_state import SharedState
from odradek.client.producer.deliveries import LoopNotifier, ThreadNotifier
from odradek.client.producer.partitioner import Partitioner
from odradek.client.producer.sender.sender import Sender
from odradek.client.producer.slow_path_appender import AppendLimits, Signal, SlowPathAppender
from odradek.client.producer.sticky_partitioner import StickyPartitioner
from odradek.client.producer.transactions.states import TxnManagerState
from odradek.client.producer.transactions.transaction_manager import TransactionManager
from odradek.config.client import connection as connection_options
from odradek.config.client import producer as options
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientClosed, ClientError, TimedOut
from odradek.records.codec import RecordAppender
from odradek.records.layout import BATCH_OVERHEAD
from odradek.telemetry import events

log = events.logger("producer")


class ConcurrencyModel(NamedTuple):
    """How one environment waits and wakes."""

    waiting: LoopNotifier | ThreadNotifier
    lock: AbstractContextManager[Any]
    new_signal: Callable[[], Signal]
    post: Callable[[Callable[[], None]], None]
    """Have a function called on the loop's thread."""
    sends_on_loop: bool
    """Whether that is the thread that sends: then a look gathers what it sends in the same turn."""


class ProducerEngine:
    """Owns network, accumulator and sender of one producer. ``appender.send`` is the way in."""

    def __init__(
        self,
        settings: Settings,
        environment: ClientEnvironment,
        side: ConcurrencyModel,
        slow: Callable[..., Any],
        partitioner: Partitioner | None,
        *,
        has_system_time: bool = False,
    ) -> None:
        self.settings = settings
        self.side = side
        self.clock = environment.clock
        self.network = NetworkClient(environment, settings, client_id=settings[connection_options.CLIENT_ID])
        self.network.abandoned = self._was_abandoned
        self.order = _order(settings)
        self.ignores_keys = settings[options.PARTITIONER_IGNORE_KEYS]
        self.has_partitioner = partitioner is not None
        self.appender = RecordAppender(
            slow,
            # Without a clock of ours the appender reads the system's, which costs it no call.
            None if has_system_time else environment.clock.wall_ms,
            ignore_keys=self.ignores_keys,
            explicit_partitions_only=self.has_partitioner,
        )
        self._stock = self._make_stock()
        self.accumulator, self.pool, self.pace = self._stock[:3]
        self.sender = Sender(self.network, self._stock, settings, environment.entropy)
        self.intake = self._make_intake(environment, partitioner)
        self._topics_seen: set[str] = set()
        self.network.add_listener(self._forget_unused_topics)
        self._closing: asyncio.Task[None] | None = None
        self._close_by_s: float | None = None
        self._close_limit: asyncio.Timeout | None = None
        self.is_started = False
        self._declare_metrics()

    def _make_stock(self) -> SharedState:
        settings = self.settings
        batch_bytes = _batch_bytes(settings)
        memory_bytes = settings[options.BUFFER_MEMORY]
        timeout_ms = settings[options.DELIVERY_TIMEOUT_MS]
        grown_bytes = _grown_bytes(settings)
        accumulator = RecordAccumulator(
            batch_bytes=batch_bytes,
            linger_ms=settings[options.LINGER_MS],
            delivery_timeout_ms=timeout_ms,
            order=self.order,
            sealed=self.appender.clear_open_batch,
        )
        return SharedState(
            accumulator,
            BufferPool(memory_bytes, batch_bytes, grown_bytes),
            Backpressure(memory_bytes, batch_bytes),
            batch_compression(settings),
            BatchGrowth(grown_bytes, timeout_ms),
            self.order,
            self.side.lock,
            self.clock,
        )

    def _make_intake(
        self, environment: ClientEnvironment, partitioner: Partitioner | None
    ) -> SlowPathAppender:
        settings = self.settings
        sticking = StickyPartitioner(
            self.accumulator,
            environment.clock,
            environment.entropy.below(1 << 32),
            self.sender.blocked_since_ms,
            batch_bytes=_batch_bytes(settings),
            adapts=settings[options.PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE],
            availability_timeout_ms=settings[options.PARTITIONER_AVAILABILITY_TIMEOUT_MS],
        )
        limits = AppendLimits(
            settings[options.LINGER_MS],
            settings[options.MAX_REQUEST_SIZE],
            settings[options.BUFFER_MEMORY],
            self.ignores_keys,
        )
        intake = SlowPathAppender(
            limits,
            lambda: self.network.metadata,
            self._stock,
            sticking,
            self.side.waiting,
            partitioner,
            self.side.new_signal,
            self._notify,
        )
        intake.appender = self.appender
        return intake

    def _notify(self, due_ms: int) -> None:
        """A batch will be due: wake the sender, unless it looks by then anyway."""
        sender = self.sender
        if due_ms < sender.looks_at_ms:
            sender.looks_at_ms = due_ms
            self.side.post(sender.wake if self.side.sends_on_loop else sender.look)

    def _forget_unused_topics(self, metadata: ClusterMetadata) -> None:
        """Metadata is no longer kept of what nothing was sent to for long: keep nothing else of it."""
        unused = self._topics_seen - metadata.topics.keys()
        if unused:
            with self.side.lock:
                unused -= {batch.topic for batch in self.accumulator.incomplete}
                for topic in unused:
                    self.appender.forget_topic(topic)
        self._topics_seen = (self._topics_seen | metadata.topics.keys()) - unused

    def _declare_metrics(self) -> None:
        metrics, pool = self.network.metrics, self.pool
        metrics.gauge("buffer-total-bytes", "What buffer.memory is.", lambda: pool.memory_bytes)
        metrics.gauge("buffer-available-bytes", "What of it is free.", lambda: pool.available_bytes)
        metrics.gauge("waiting-threads", "Sends that wait for memory.", lambda: pool.waiting_count)
        metrics.gauge(
            "requests-in-flight", "Batches that wait for an answer.", lambda: self.sender.in_flight_count
        )

    # Life; all on the loop.

    async def start(self) -> None:
        if not self.is_started:
            self.is_started = True
            await self.network.start()
            self.sender.start()

    async def topic(self, name: str, timeout_ms: int, partition: int | None = None) -> TopicMetadata:
        """A topic once it is known; it is forgotten when nothing is sent to it for long."""
        return await self.network.wait_for_topic(name, timeout_ms, partition=partition, expires=True)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all that was sent before is done, callbacks included."""
        await self.start()
        done = asyncio.Event()
        with self.side.lock:
            flush = self.accumulator.begin_flush(done.set)
        self.sender.wake()
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            raise TimedOut(f"not all records were delivered within {timeout_s} s") from None
        finally:
            with self.side.lock:
                self.accumulator.leave_flush(flush)

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver what was sent, for as long as allowed; fail the rest; end everything. Once.

        Of several that close, the one with the least time to spare decides.
        """
        loop = asyncio.get_running_loop()
        if timeout_s is not None:
            self._hasten(loop.time() + timeout_s)
        if self._closing is None:
            self._closing = loop.create_task(self._close(), name="close")
        await asyncio.shield(self._closing)

    def _hasten(self, by_s: float) -> None:
        if self._close_by_s is None or by_s < self._close_by_s:
            self._close_by_s = by_s
            if self._close_limit is not None and not self._close_limit.expired():
                self._close_limit.reschedule(by_s)

    def refuse_sends(self) -> None:
        """From now on every send is refused; those that wait hear of it."""
        with self.side.lock:
            self.intake.is_closed = True
            self.appender.paused = True
            self.accumulator.closing = True
            self.accumulator.seal_open()
            self.pace.release()
            for waiter in self.pool.waiters():
                waiter.wake()

    def _was_abandoned(self) -> None:
        """The event loop ends, and nobody has closed the producer: its records must hear of it now."""
        if self._closing is not None:
            return
        self.intake.closed_because = "the event loop of this producer has ended, and it was never closed"
        if self.accumulator.has_incomplete:
            log.warning("producer_not_closed", client=self.settings[connection_options.CLIENT_ID])
        self.refuse_sends()
        self.sender.fail_all(ClientClosed(self.intake.closed_because))

    async def _close(self) -> None:
        self.refuse_sends()
        by_s = self._close_by_s
        try:
            if self.is_started and (by_s is None or by_s > asyncio.get_running_loop().time()):
                await self._finish(by_s)
        finally:
            closed = ClientClosed("the producer was closed before this record was delivered")
            if self.order is not None:
                self.order.close()
            self.sender.fail_all(closed)
            if self.is_started:
                await self.sender.end()
            await self.network.close()

    async def _finish(self, by_s: float | None) -> None:
        """End what is open in order, as far as time allows."""
        try:
            async with asyncio.timeout_at(by_s) as self._close_limit:
                order = self.order
                # What was written in a transaction that has failed is worth no wait.
                if order is None or order.state is not TxnManagerState.ABORTABLE_ERROR:
                    await self.flush()
                if order is not None and order.has_ongoing_transaction:
                    await self._abort(order)
        except TimeoutError:
            return
        finally:
            self._close_limit = None

    async def _abort(self, order: TransactionManager) -> None:
        """A producer that is closed leaves no transaction open behind it, if it can help it."""
        with suppress(ClientError):
            operation = order.end_transaction()
            ended = asyncio.Event()
            operation.when_done(ended.set)
            self.sender.wake()
            await ended.wait()


def _batch_bytes(settings: Settings) -> int:
    """What a batch may hold; one that may hold nothing has one record."""
    return max(settings[options.BATCH_SIZE], BATCH_OVERHEAD)


def _grown_bytes(settings: Settings) -> tuple[int, ...]:
    """What batches grow to while they wait. Where each record is sent alone, they do not."""
    if settings[options.BATCH_SIZE] == 0:
        return ()
    backlog_bytes = min(settings[options.BATCH_BACKLOG_SIZE], settings[options.MAX_REQUEST_SIZE])
    return steps(_batch_bytes(settings), backlog_bytes)


def _order(settings: Settings) -> TransactionManager | None:
    if not settings[options.ENABLE_IDEMPOTENCE]:
        return None
    return TransactionManager(
        settings[options.TRANSACTIONAL_ID],
        settings[options.TRANSACTION_TIMEOUT_MS],
        settings[connection_options.RETRY_BACKOFF_MS],
    )
