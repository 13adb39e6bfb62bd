"""Composition and lifecycle of a producer, shared by the asyncio and the blocking client.

The differences are passed in as a ``ConcurrencyModel``: the lock around shared state, the notifier of
deliveries, and the way to run a function on the loop.
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
from odradek.client.producer.accumulator.batch_growth import BatchGrowth, growth_steps
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
from odradek.records.client.producer import RecordAppender
from odradek.records.implementation import COMPILED
from odradek.records.layout import BATCH_OVERHEAD
from odradek.telemetry import events

log = events.logger("producer")


class ConcurrencyModel(NamedTuple):
    """Synchronization of application code and the event loop."""

    notifier: LoopNotifier | ThreadNotifier
    lock: AbstractContextManager[Any]
    new_signal: Callable[[], Signal]
    post: Callable[[Callable[[], None]], None]
    """Runs a function on the loop thread."""
    sends_on_loop: bool
    """True if ``send`` runs on the loop: then one run of the sender covers all sends of a loop iteration."""


class ProducerEngine:
    """Owns the network client, accumulator and sender of one producer. Records enter by ``appender.send``."""

    def __init__(
        self,
        settings: Settings,
        environment: ClientEnvironment,
        concurrency: ConcurrencyModel,
        append_slow: Callable[..., Any],
        partitioner: Partitioner | None,
        *,
        has_system_time: bool = False,
    ) -> None:
        self.settings = settings
        self.concurrency = concurrency
        self.clock = environment.clock
        self.network = NetworkClient(environment, settings, client_id=settings[connection_options.CLIENT_ID])
        self.network.on_loop_ended = self._on_loop_ended
        self.transaction_manager = _new_transaction_manager(settings)
        self.ignores_keys = settings[options.PARTITIONER_IGNORE_KEYS]
        self.has_partitioner = partitioner is not None
        self.appender = RecordAppender(
            append_slow,
            # Without a clock the appender reads the system time itself, which saves a call.
            None if has_system_time and COMPILED else environment.clock.wall_ms,
            ignore_keys=self.ignores_keys,
            explicit_partitions_only=self.has_partitioner,
        )
        self._shared = self._make_shared_state()
        self.accumulator, self.pool, self.backpressure = self._shared[:3]
        self.sender = Sender(self.network, self._shared, settings, environment.entropy)
        self.slow_path = self._make_slow_path(environment, partitioner)
        self._topics_seen: set[str] = set()
        self.network.add_listener(self._forget_unused_topics)
        self._closing: asyncio.Task[None] | None = None
        self._close_deadline_s: float | None = None
        self._close_timeout: asyncio.Timeout | None = None
        self.is_started = False
        self._declare_metrics()

    def _make_shared_state(self) -> SharedState:
        settings = self.settings
        batch_bytes = _batch_bytes(settings)
        memory_bytes = settings[options.BUFFER_MEMORY]
        timeout_ms = settings[options.DELIVERY_TIMEOUT_MS]
        grown_bytes = _grown_bytes(settings)
        accumulator = RecordAccumulator(
            batch_bytes=batch_bytes,
            linger_ms=settings[options.LINGER_MS],
            delivery_timeout_ms=timeout_ms,
            transaction_manager=self.transaction_manager,
            on_sealed=self.appender.clear_open_batch,
        )
        return SharedState(
            accumulator,
            BufferPool(memory_bytes, batch_bytes, grown_bytes),
            Backpressure(memory_bytes, batch_bytes),
            batch_compression(settings),
            BatchGrowth(grown_bytes, timeout_ms),
            self.transaction_manager,
            self.concurrency.lock,
            self.clock,
        )

    def _make_slow_path(
        self, environment: ClientEnvironment, partitioner: Partitioner | None
    ) -> SlowPathAppender:
        settings = self.settings
        sticky_partitioner = StickyPartitioner(
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
        slow_path = SlowPathAppender(
            limits,
            lambda: self.network.metadata,
            self._shared,
            sticky_partitioner,
            self.concurrency.notifier,
            partitioner,
            self.concurrency.new_signal,
            self._notify,
        )
        slow_path.appender = self.appender
        return slow_path

    def _notify(self, due_ms: int) -> None:
        """Wake the sender for a new batch, unless it runs before the batch is due."""
        sender = self.sender
        if due_ms < sender.next_run_ms:
            sender.next_run_ms = due_ms
            self.concurrency.post(sender.wakeup if self.concurrency.sends_on_loop else sender.run_now)

    def _forget_unused_topics(self, metadata: ClusterMetadata) -> None:
        """Drop the appender's state of topics that have expired from the metadata."""
        unused = self._topics_seen - metadata.topics.keys()
        if unused:
            with self.concurrency.lock:
                unused -= {batch.topic for batch in self.accumulator.incomplete}
                for topic in unused:
                    self.appender.forget_topic(topic)
        self._topics_seen = (self._topics_seen | metadata.topics.keys()) - unused

    def _declare_metrics(self) -> None:
        metrics, pool = self.network.metrics, self.pool
        metrics.gauge("buffer-total-bytes", "Total buffer memory in bytes.", lambda: pool.memory_bytes)
        metrics.gauge("buffer-available-bytes", "Free buffer memory in bytes.", lambda: pool.available_bytes)
        metrics.gauge("waiting-threads", "Sends waiting for buffer memory.", lambda: pool.waiting_count)
        metrics.gauge(
            "requests-in-flight", "Batches waiting for a response.", lambda: self.sender.in_flight_count
        )

    # Lifecycle; all on the loop.

    async def start(self) -> None:
        if not self.is_started:
            self.is_started = True
            await self.network.start()
            self.sender.start()

    async def wait_for_topic(self, name: str, timeout_ms: int, partition: int | None = None) -> TopicMetadata:
        """Return a topic once it is known; its metadata expires when it is idle for long."""
        return await self.network.wait_for_topic(name, timeout_ms, partition=partition, expires=True)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all records sent before are completed, including callbacks."""
        await self.start()
        done = asyncio.Event()
        with self.concurrency.lock:
            flush = self.accumulator.begin_flush(done.set)
        self.sender.wakeup()
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            raise TimedOut(f"flush did not complete within {timeout_s} s") from None
        finally:
            with self.concurrency.lock:
                self.accumulator.cancel_flush(flush)

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver sent records within the timeout, fail the rest, and close all connections.

        Of several concurrent calls, the shortest timeout counts.
        """
        loop = asyncio.get_running_loop()
        if timeout_s is not None:
            self._shorten_close(loop.time() + timeout_s)
        if self._closing is None:
            self._closing = loop.create_task(self._close(), name="close")
        await asyncio.shield(self._closing)

    def _shorten_close(self, deadline_s: float) -> None:
        if self._close_deadline_s is None or deadline_s < self._close_deadline_s:
            self._close_deadline_s = deadline_s
            if self._close_timeout is not None and not self._close_timeout.expired():
                self._close_timeout.reschedule(deadline_s)

    def reject_sends(self) -> None:
        """Reject all later sends, and wake those that wait."""
        with self.concurrency.lock:
            self.slow_path.is_closed = True
            self.appender.paused = True
            self.accumulator.closing = True
            self.accumulator.seal_open()
            self.backpressure.wake_all()
            for waiter in self.pool.waiters():
                waiter.wake()

    def _on_loop_ended(self) -> None:
        """Fail all records: the event loop has ended before the producer was closed."""
        if self._closing is not None:
            return
        self.slow_path.close_reason = "the event loop of this producer ended before the producer was closed"
        if self.accumulator.has_incomplete:
            log.warning("producer_not_closed", client=self.settings[connection_options.CLIENT_ID])
        self.reject_sends()
        self.sender.fail_all(ClientClosed(self.slow_path.close_reason))

    async def _close(self) -> None:
        self.reject_sends()
        deadline_s = self._close_deadline_s
        try:
            if self.is_started and (deadline_s is None or deadline_s > asyncio.get_running_loop().time()):
                await self._finish(deadline_s)
        finally:
            closed = ClientClosed("the producer was closed before this record was delivered")
            if self.transaction_manager is not None:
                self.transaction_manager.close()
            self.sender.fail_all(closed)
            if self.is_started:
                await self.sender.stop()
            await self.network.close()

    async def _finish(self, deadline_s: float | None) -> None:
        """Deliver records and abort an open transaction, until the deadline."""
        try:
            async with asyncio.timeout_at(deadline_s) as self._close_timeout:
                manager = self.transaction_manager
                # The records of a failed transaction are not worth waiting for.
                if manager is None or manager.state is not TxnManagerState.ABORTABLE_ERROR:
                    await self.flush()
                if manager is not None and manager.has_ongoing_transaction:
                    await self._abort(manager)
        except TimeoutError:
            return
        finally:
            self._close_timeout = None

    async def _abort(self, manager: TransactionManager) -> None:
        """End the open transaction, so that it does not block readers until it times out."""
        with suppress(ClientError):
            result = manager.end_transaction()
            done = asyncio.Event()
            result.when_done(done.set)
            self.sender.wakeup()
            await done.wait()


def _batch_bytes(settings: Settings) -> int:
    """Return the capacity of a batch; with ``batch.size=0`` a batch holds one record."""
    return max(settings[options.BATCH_SIZE], BATCH_OVERHEAD)


def _grown_bytes(settings: Settings) -> tuple[int, ...]:
    """Return the sizes that batches grow to; none with ``batch.size=0``."""
    if settings[options.BATCH_SIZE] == 0:
        return ()
    backlog_bytes = min(settings[options.BATCH_BACKLOG_SIZE], settings[options.MAX_REQUEST_SIZE])
    return growth_steps(_batch_bytes(settings), backlog_bytes)


def _new_transaction_manager(settings: Settings) -> TransactionManager | None:
    if not settings[options.ENABLE_IDEMPOTENCE]:
        return None
    return TransactionManager(
        settings[options.TRANSACTIONAL_ID],
        settings[options.TRANSACTION_TIMEOUT_MS],
        settings[connection_options.RETRY_BACKOFF_MS],
    )
