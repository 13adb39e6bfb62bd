"""The blocking producer: records are appended by the thread that sends them.

``send`` of a producer without serializers and interceptors *is* the compiled appender's: one call, no lock,
no other thread involved, until a batch is full. Then the sending thread opens the next one under a lock, and
wakes the loop thread at most once. Deliveries complete, and callbacks run, on the loop thread.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, cast, overload

from odradek.client.blocking.loop_thread import LoopThread, blocking
from odradek.client.environment import ClientEnvironment
from odradek.client.interceptors import ProducerInterceptor, ProducerRecord
from odradek.client.producer.accumulator.backpressure import STALL_TIMEOUT_S
from odradek.client.producer.deliveries import Deliveries, ThreadNotifier
from odradek.client.producer.engine import ConcurrencyModel
from odradek.client.producer.partitioner import Partitioner
from odradek.client.producer.producer import Producer as AsyncProducer
from odradek.client.producer.producer import buffer_full
from odradek.client.producer.record_transforms import OnDelivery
from odradek.client.producer.send_many import BulkSend, send_values
from odradek.client.producer.slow_path_appender import PendingAppend, WaitReason
from odradek.client.serdes import AnySerializer
from odradek.client.values import Headers
from odradek.config.client import producer as producer_options
from odradek.model.client_errors import ClientClosed, ClientError, InvalidState
from odradek.model.type_variables import BytesLike, Key_contra, Value_contra
from odradek.records.client.producer import Delivery
from odradek.telemetry import events

if TYPE_CHECKING:
    import pyarrow

    from odradek.client.options.typed_options import Config
    from odradek.client.producer.arguments import (
        K,
        V,
        WritesBytesBytes,
        WritesBytesJson,
        WritesBytesOwn,
        WritesBytesText,
        WritesJsonBytes,
        WritesJsonJson,
        WritesJsonOwn,
        WritesJsonText,
        WritesOwnBytes,
        WritesOwnJson,
        WritesOwnOwn,
        WritesOwnText,
        WritesTextBytes,
        WritesTextJson,
        WritesTextOwn,
        WritesTextText,
    )

log = events.logger("producer")

_new_client: Callable[..., AsyncProducer[Any, Any]] = AsyncProducer
_producers: weakref.WeakSet[Producer[Any, Any]] = weakref.WeakSet()
_EXIT_WAIT_S: Final = 10.0
"""Timeout at exit for the records of producers that were not closed."""


def _reject_sends_in_child() -> None:
    """Reject sends after a fork: the child has the parent's batches, but no thread that would send them."""
    for producer in list(_producers):
        slow_path = producer._engine.slow_path
        slow_path.close_reason = (
            f"{producer.client_id} was created before this process was forked; create a new producer"
        )
        slow_path.is_closed = producer._engine.appender.paused = True


os.register_at_fork(after_in_child=_reject_sends_in_child)


@atexit.register  # registered after, so it runs before, the exit handler that ends the loop threads
def _close_producers_at_exit() -> None:
    """Deliver the records of producers that were not closed, with a warning."""
    for producer in list(_producers):
        engine = producer._engine
        if engine.slow_path.is_closed:
            continue
        if engine.accumulator.has_incomplete:
            log.warning("producer_not_closed", client=producer.client_id, waits_s=_EXIT_WAIT_S)
        producer.close(_EXIT_WAIT_S)


class Producer(Generic[Key_contra, Value_contra]):
    """Sends records to topics. Thread-safe.

    Options have Kafka's names, in a mapping or, with underscores, as keyword arguments.

    >>> from odradek import Producer
    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     producer.send("greetings", b"hello", key=b"me").result().topic
    'greetings'
    """

    @overload
    def __init__(
        self: Producer[BytesLike, BytesLike], config: Config = None, /, **options: Unpack[WritesBytesBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[BytesLike, str], config: Config = None, /, **options: Unpack[WritesBytesText]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[BytesLike, Any], config: Config = None, /, **options: Unpack[WritesBytesJson]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[BytesLike, V], config: Config = None, /, **options: Unpack[WritesBytesOwn[V]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, BytesLike], config: Config = None, /, **options: Unpack[WritesTextBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, str], config: Config = None, /, **options: Unpack[WritesTextText]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, Any], config: Config = None, /, **options: Unpack[WritesTextJson]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[str, V], config: Config = None, /, **options: Unpack[WritesTextOwn[V]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, BytesLike], config: Config = None, /, **options: Unpack[WritesJsonBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, str], config: Config = None, /, **options: Unpack[WritesJsonText]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, Any], config: Config = None, /, **options: Unpack[WritesJsonJson]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, V], config: Config = None, /, **options: Unpack[WritesJsonOwn[V]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, BytesLike], config: Config = None, /, **options: Unpack[WritesOwnBytes[K]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, str], config: Config = None, /, **options: Unpack[WritesOwnText[K]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, Any], config: Config = None, /, **options: Unpack[WritesOwnJson[K]]
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, V], config: Config = None, /, **options: Unpack[WritesOwnOwn[K, V]]
    ) -> None: ...
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_serializer: AnySerializer = None,
        value_serializer: AnySerializer = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        environment: ClientEnvironment | None = None,
        **options: Any,
    ) -> None:
        self._loop_thread_id: int | None = None
        notifier = ThreadNotifier(self._is_on_loop_thread)
        concurrency = ConcurrencyModel(
            notifier, threading.Lock(), threading.Event, self._post, sends_on_loop=False
        )
        self._client = _new_client(
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
            environment=environment,
            _concurrency=concurrency,
            _append_slow=self._append_slow,
            **options,
        )
        self._engine = self._client._engine
        self._transforms = self._client._transforms
        self._max_block_ms = self._engine.settings[producer_options.MAX_BLOCK_MS]
        self._thread = LoopThread(self._client.client_id)
        self._thread.post(self._note_loop_thread)
        self._thread.call(self._client.start)
        self._append = self._engine.appender.send
        _producers.add(self)
        if not self._transforms:
            # Saves one call per record; the method below documents it.
            self.send = self._append  # type: ignore[method-assign]

    @property
    def client_id(self) -> str:
        """The client id in requests and broker logs."""
        return self._client.client_id

    def _post(self, function: Any) -> None:
        self._thread.post(function)

    def _note_loop_thread(self) -> None:
        self._loop_thread_id = threading.get_ident()

    def _is_on_loop_thread(self) -> bool:
        return threading.get_ident() == self._loop_thread_id

    # Sending.

    def send(
        self,
        topic: str,
        value: Value_contra | None = None,
        key: Key_contra | None = None,
        headers: Headers = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Send a record; ``result()`` of the returned delivery waits for its offset.

        Blocks for up to ``max.block.ms`` while the topic is unknown or memory is full. Raises if the record
        was not accepted; otherwise it completes exactly once: the delivery is done, and ``on_delivery`` is
        called with the record's metadata and None, or with None and the error.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send("greetings", b"hello").result(timeout_s=30).partition >= 0
        True
        """
        transforms = self._transforms
        record = transforms.intercept(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
        callback = transforms.delivery_callback(record, on_delivery)
        try:
            delivery: Delivery = self._append(*transforms.serialize(record), callback)
            return delivery
        except (ClientError, ValueError, TypeError) as error:
            transforms.interceptors.on_send_failed(record, error)
            raise

    def _append_slow(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """Append a record that does not fit in an open batch, blocking as long as it must."""
        engine = self._engine
        pending = engine.slow_path.begin_append(
            topic, value, key, headers, partition, timestamp_ms, on_delivery
        )
        pending.may_wait = not self._is_on_loop_thread()
        try:
            if (reason := pending.try_append()) is not None:
                deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms
                while reason is not None:
                    self._wait(reason, pending, deadline_ms)
                    reason = pending.try_append()
        except ClientError as error:
            self._client._transaction_calls.send_failed(error)
            raise
        finally:
            pending.abandon()
        assert pending.delivery is not None
        return pending.delivery

    def _wait(self, reason: WaitReason, pending: PendingAppend, deadline_ms: int) -> None:
        engine = self._engine
        left_ms = max(deadline_ms - engine.clock.monotonic_ms(), 0)
        if reason is WaitReason.METADATA:
            record = pending.record
            self._thread.call(engine.wait_for_topic, record.topic, left_ms, record.partition)
            return
        signal = cast("threading.Event", pending.signal)
        if reason is WaitReason.BACKPRESSURE:
            if not signal.wait(STALL_TIMEOUT_S):
                pending.on_stall()
        elif not pending.may_wait or not signal.wait(left_ms / 1000):
            # A callback must not wait: memory is freed by the thread it runs on.
            raise buffer_full(engine, pending, self._max_block_ms)

    def send_many(
        self,
        topic: str,
        values: Iterable[Value_contra | None],
        *,
        keys: Iterable[Key_contra | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Send many records in one call; ``result()`` waits and returns the number acknowledged.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send_many("greetings", [b"a", b"b", b"c"]).result()
        3
        """
        deliveries = Deliveries(self._engine.concurrency.notifier)
        bulk_send = send_values(
            self._engine.appender, self._transforms, deliveries, topic, values, keys, partition, timestamp_ms
        )
        self._run_bulk_send(bulk_send, intercepted=bool(self._transforms.interceptors))
        return deliveries

    def send_arrow(self, table: pyarrow.Table, topic: str | None = None) -> Deliveries:
        """Send the rows of a table or record batch, without a Python object per row.

        Columns: ``value``, ``key``, ``topic`` (unless passed as argument), ``partition``, ``timestamp``,
        ``headers``. Serializers and interceptors are not called.

        >>> import pyarrow
        >>> from odradek import Producer
        >>> table = pyarrow.table({"value": [b"a", b"b"], "key": [b"1", None]})
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send_arrow(table, "greetings").result()
        2
        """
        from odradek.client.producer.send_arrow import send_table

        deliveries = Deliveries(self._engine.concurrency.notifier)
        self._run_bulk_send(send_table(self._engine, deliveries, table, topic), intercepted=False)
        return deliveries

    def _run_bulk_send(self, bulk_send: BulkSend, *, intercepted: bool) -> None:
        send = self.send if intercepted else self._append
        try:
            arguments = next(bulk_send)
            while True:
                arguments = bulk_send.send(send(*arguments))
        except StopIteration:
            return

    # Lifecycle.

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all records sent before are delivered or failed, including callbacks.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092", linger_ms=1000) as producer:
        ...     delivery = producer.send("greetings", b"hello")
        ...     producer.flush()
        ...     delivery.done()
        True
        """
        self._thread.call(self._client.flush, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver sent records and close. After ``timeout_s`` the rest fails with ``ClientClosed``.

        Every record is completed when this returns. Closing again does nothing. Called from a callback, it
        does not wait: undelivered records fail.

        >>> from odradek import Producer
        >>> producer = Producer(bootstrap_servers="localhost:9092")
        >>> delivery = producer.send("greetings", b"hello")
        >>> producer.close(timeout_s=10)
        >>> delivery.done()
        True
        """
        if self._is_on_loop_thread():
            self._engine.reject_sends()
            threading.Thread(target=self.close, args=(0,), name=f"{self.client_id}-close").start()
            return
        with suppress(ClientClosed, InvalidState):
            self._thread.call(self._client.close, timeout_s)
        self._thread.close()

    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = blocking(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    abort_transaction = blocking(AsyncProducer.abort_transaction)

    def metrics(self) -> dict[str, float]:
        """Return the producer's metrics, under Kafka's names.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.metrics()["record-send-total"]
        0.0
        """
        return self._client.metrics()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An interrupted program does not wait for its brokers.
        self.close(0 if kind is not None and not issubclass(kind, Exception) else None)
