"""The producer for code without an event loop: records are appended by the thread that sends them.

``send`` of a producer without serializers and interceptors *is* the compiled appender's: one call, no lock,
no other thread involved, until a batch is full. Then the sending thread opens the next one under a lock, and
tells the loop's thread at most once. Deliveries are made, and callbacks run, on the loop's thread.
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
from odradek.client.producer.accumulator.backpressure import STALL_S
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
from odradek.records.codec import Delivery
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

_make_client: Callable[..., AsyncProducer[Any, Any]] = AsyncProducer
_made: weakref.WeakSet[Producer[Any, Any]] = weakref.WeakSet()
_EXIT_WAIT_S: Final = 10.0
"""How long a process that ends waits for records of producers that it did not close."""


def _refuse_in_child() -> None:
    """A process that was forked has the batches of its parent, but nobody who would send them."""
    for producer in list(_made):
        intake = producer._engine.intake
        intake.closed_because = (
            f"{producer.client_id} was made before this process was forked: make a new one"
        )
        intake.is_closed = producer._engine.appender.paused = True


os.register_at_fork(after_in_child=_refuse_in_child)


@atexit.register  # runs before the loops of the threads are ended, as it was registered after that
def _deliver_what_is_left() -> None:
    """A program that ends without closing its producers has its records delivered, and is told so."""
    for producer in list(_made):
        engine = producer._engine
        if engine.intake.is_closed:
            continue
        if engine.accumulator.has_incomplete:
            log.warning("producer_not_closed", client=producer.client_id, waits_s=_EXIT_WAIT_S)
        producer.close(_EXIT_WAIT_S)


class Producer(Generic[Key_contra, Value_contra]):
    """Sends records to topics. Any number of threads may share one.

    Options have Kafka's names, in a mapping or, with underscores, as keywords.

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
        waiting = ThreadNotifier(self._is_on_loop_thread)
        side = ConcurrencyModel(waiting, threading.Lock(), threading.Event, self._post, sends_on_loop=False)
        self._client = _make_client(
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
            environment=environment,
            _side=side,
            _slow=self._slow,
            **options,
        )
        self._engine = self._client._engine
        self._transforms = self._client._transforms
        self._max_block_ms = self._engine.settings[producer_options.MAX_BLOCK_MS]
        self._thread = LoopThread(self._client.client_id)
        self._thread.post(self._note_loop_thread)
        self._thread.call(self._client.start)
        self._append = self._engine.appender.send
        _made.add(self)
        if not self._transforms:
            # One call less for each record: the method below says what it does.
            self.send = self._append  # type: ignore[method-assign]

    @property
    def client_id(self) -> str:
        """What brokers call this client in their logs."""
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
        """Put a record on its way; ``result()`` of the delivery that this gives waits for its offset.

        Waits for up to ``max.block.ms`` while the topic is not known or memory is full. It raises if the
        record was not taken; else its fate is told exactly once: by the delivery, and to ``on_delivery``,
        which is called with the record's metadata and None, or with None and the error.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send("greetings", b"hello").result(timeout_s=30).partition >= 0
        True
        """
        preparing = self._transforms
        record = preparing.intercepted(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
        told = preparing.on_delivery(record, on_delivery)
        try:
            made: Delivery = self._append(*preparing.serialized(record), told)
            return made
        except (ClientError, ValueError, TypeError) as refused:
            preparing.interceptors.on_send_failed(record, refused)
            raise

    def _slow(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """The way of a record whose batch is not at hand."""
        engine = self._engine
        placing = engine.intake.placing(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        placing.may_wait = not self._is_on_loop_thread()
        try:
            if (need := placing.step()) is not None:
                deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms
                while need is not None:
                    self._wait(need, placing, deadline_ms)
                    need = placing.step()
        except ClientError as refused:
            self._client._transaction_calls.send_failed(refused)
            raise
        finally:
            placing.abandon()
        assert placing.delivery is not None
        return placing.delivery

    def _wait(self, need: WaitReason, placing: PendingAppend, deadline_ms: int) -> None:
        engine = self._engine
        left_ms = max(deadline_ms - engine.clock.monotonic_ms(), 0)
        if need is WaitReason.TOPIC:
            record = placing.record
            self._thread.call(engine.topic, record.topic, left_ms, record.partition)
            return
        signal = cast("threading.Event", placing.signal)
        if need is WaitReason.PACE:
            if not signal.wait(STALL_S):
                placing.gave_up_waiting()
        elif not placing.may_wait or not signal.wait(left_ms / 1000):
            # A callback runs where memory is freed: there is nothing to wait for.
            raise buffer_full(engine, placing, self._max_block_ms)

    def send_many(
        self,
        topic: str,
        values: Iterable[Value_contra | None],
        *,
        keys: Iterable[Key_contra | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Send many records in one call; ``result()`` waits, and gives how many were acknowledged.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send_many("greetings", [b"a", b"b", b"c"]).result()
        3
        """
        deliveries = Deliveries(self._engine.side.waiting)
        pouring = send_values(
            self._engine.appender, self._transforms, deliveries, topic, values, keys, partition, timestamp_ms
        )
        self._run_bulk_send(pouring, prepared=bool(self._transforms.interceptors))
        return deliveries

    def send_arrow(self, table: pyarrow.Table, topic: str | None = None) -> Deliveries:
        """Send the rows of a table or record batch, without making a Python object of any of them.

        Columns: ``value``, ``key``, ``topic`` (unless it is given here), ``partition``, ``timestamp``,
        ``headers``. Serializers and interceptors are not asked.

        >>> import pyarrow
        >>> from odradek import Producer
        >>> table = pyarrow.table({"value": [b"a", b"b"], "key": [b"1", None]})
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send_arrow(table, "greetings").result()
        2
        """
        from odradek.client.producer.send_arrow import send_table

        deliveries = Deliveries(self._engine.side.waiting)
        self._run_bulk_send(send_table(self._engine, deliveries, table, topic), prepared=False)
        return deliveries

    def _run_bulk_send(self, pouring: BulkSend, *, prepared: bool) -> None:
        send = self.send if prepared else self._append
        try:
            single = next(pouring)
            while True:
                single = pouring.send(send(*single))
        except StopIteration:
            return

    # Looking after it.

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent before has been delivered or has failed, callbacks included.

        >>> from odradek import Producer
        >>> with Producer(bootstrap_servers="localhost:9092", linger_ms=1000) as producer:
        ...     delivery = producer.send("greetings", b"hello")
        ...     producer.flush()
        ...     delivery.done()
        True
        """
        self._thread.call(self._client.flush, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver what was sent, then end. After ``timeout_s`` the rest fails with ``ClientClosed``.

        Every record's fate has been told when this returns. Closing again does nothing. A callback that calls
        this cannot wait: what is not delivered by then fails.

        >>> from odradek import Producer
        >>> producer = Producer(bootstrap_servers="localhost:9092")
        >>> delivery = producer.send("greetings", b"hello")
        >>> producer.close(timeout_s=10)
        >>> delivery.done()
        True
        """
        if self._is_on_loop_thread():
            self._engine.refuse_sends()
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
        """What this producer counts about itself, under Kafka's names.

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
        # A program that is being interrupted does not wait for its brokers.
        self.close(0 if kind is not None and not issubclass(kind, Exception) else None)
