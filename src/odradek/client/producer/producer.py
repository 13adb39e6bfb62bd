"""The producer for asyncio.

``send`` is one call of the compiled appender as long as the record's batch has room; otherwise
``_append_slow`` waits for what the record needs. There is no thread: the sender runs on the same event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, overload

from odradek.client.environment import ClientEnvironment, system_environment
from odradek.client.interceptors import ProducerInterceptor, ProducerRecord
from odradek.client.options.parsing import read_options
from odradek.client.producer.accumulator.backpressure import STALL_TIMEOUT_S
from odradek.client.producer.deliveries import Deliveries, LoopNotifier
from odradek.client.producer.engine import ConcurrencyModel, ProducerEngine
from odradek.client.producer.partitioner import Partitioner
from odradek.client.producer.record_transforms import OnDelivery, RecordTransforms
from odradek.client.producer.send_many import BulkSend, send_values
from odradek.client.producer.slow_path_appender import PendingAppend, WaitReason
from odradek.client.producer.transaction_calls import TransactionCalls
from odradek.client.serdes import AnySerializer
from odradek.client.values import GroupMetadata, Headers, OffsetAndMetadata, PartitionInfo
from odradek.config.client import PRODUCER
from odradek.config.client import connection as connection_options
from odradek.config.client import producer as producer_options
from odradek.model.client_errors import BufferFull, ClientError, TimedOut
from odradek.model.ids import TopicPartition
from odradek.model.type_variables import BytesLike, Key_contra, Value_contra
from odradek.records.client.producer import Delivery

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


class Producer(Generic[Key_contra, Value_contra]):
    """Sends records to topics, for asyncio.

    Options have Kafka's names, in a mapping or, with underscores, as keyword arguments. The producer starts
    with its first use; ``async with`` starts and closes it.

    >>> import asyncio
    >>> from odradek.aio import Producer
    >>> async def main():
    ...     async with Producer(bootstrap_servers="localhost:9092") as producer:
    ...         delivery = await producer.send("greetings", b"hello", key=b"me")
    ...         return (await delivery).topic
    >>> asyncio.run(main())
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
        _concurrency: ConcurrencyModel | None = None,
        _append_slow: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        settings = read_options(PRODUCER, config, options)
        if partitioner is not None and not callable(partitioner):
            raise TypeError(f"partitioner must be callable, got {partitioner!r}")
        self._transforms = RecordTransforms(key_serializer, value_serializer, interceptors)
        self._max_block_ms = settings[producer_options.MAX_BLOCK_MS]
        self._engine = ProducerEngine(
            settings,
            environment or system_environment(),
            _concurrency or _asyncio_concurrency(),
            _append_slow or self._append_slow,
            partitioner,
            has_system_time=environment is None,
        )
        self._append = self._engine.appender.send
        if not self._transforms:
            # The shortest path, as it runs for each record; the method below documents it.
            self.send = _direct_send(self._append)  # type: ignore[method-assign]
        self._transaction_calls = TransactionCalls(self._engine, self._max_block_ms)
        self.client_id: str = settings[connection_options.CLIENT_ID]
        """The client id in requests and broker logs."""

    # Sending.

    async def send(
        self,
        topic: str,
        value: Value_contra | None = None,
        key: Key_contra | None = None,
        headers: Headers = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Send a record; ``await`` the returned delivery for its offset.

        Waits for up to ``max.block.ms`` while the topic is unknown or memory is full. Raises if the record
        was not accepted; otherwise it completes exactly once: the delivery is done, and ``on_delivery`` is
        called with the record's metadata and None, or with None and the error.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092") as producer:
        ...         delivery = await producer.send("greetings", b"hello")
        ...         return (await delivery).partition >= 0
        >>> asyncio.run(main())
        True
        """
        transforms = self._transforms
        record = transforms.intercept(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
        callback = transforms.delivery_callback(record, on_delivery)
        try:
            serialized = transforms.serialize(record)
            return await self._appended(self._append(*serialized, callback))
        except (ClientError, ValueError, TypeError) as error:
            transforms.interceptors.on_send_failed(record, error)
            raise

    async def _appended(self, result: Any) -> Delivery:
        """Return the appender's delivery, or the result of the coroutine ``_append_slow``."""
        return result if type(result) is Delivery else cast("Delivery", await result)

    async def _append_slow(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """Append a record that does not fit in an open batch, waiting as long as it must."""
        engine = self._engine
        pending = engine.slow_path.begin_append(
            topic, value, key, headers, partition, timestamp_ms, on_delivery
        )
        if not engine.is_started:
            await engine.start()
        try:
            if (reason := pending.try_append()) is not None:
                deadline_ms = engine.clock.monotonic_ms() + self._max_block_ms
                while reason is not None:
                    await self._wait(reason, pending, deadline_ms)
                    reason = pending.try_append()
        except ClientError as error:
            self._transaction_calls.send_failed(error)
            raise
        finally:
            pending.abandon()
        assert pending.delivery is not None
        return pending.delivery

    async def _wait(self, reason: WaitReason, pending: PendingAppend, deadline_ms: int) -> None:
        engine = self._engine
        left_ms = max(deadline_ms - engine.clock.monotonic_ms(), 0)
        record = pending.record
        if reason is WaitReason.METADATA:
            await engine.wait_for_topic(record.topic, left_ms, record.partition)
            return
        signal = cast("asyncio.Event", pending.signal)
        if reason is WaitReason.BACKPRESSURE:
            try:
                await asyncio.wait_for(signal.wait(), STALL_TIMEOUT_S)
            except TimeoutError:
                pending.on_stall()
            return
        try:
            await asyncio.wait_for(signal.wait(), left_ms / 1000)
        except TimeoutError:
            raise buffer_full(engine, pending, self._max_block_ms) from None

    async def send_many(
        self,
        topic: str,
        values: Iterable[Value_contra | None],
        *,
        keys: Iterable[Key_contra | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Send many records in one call; ``await`` the result for the number of acknowledged records.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092") as producer:
        ...         return await (await producer.send_many("greetings", [b"a", b"b", b"c"]))
        >>> asyncio.run(main())
        3
        """
        deliveries = Deliveries(self._engine.concurrency.notifier)
        bulk_send = send_values(
            self._engine.appender, self._transforms, deliveries, topic, values, keys, partition, timestamp_ms
        )
        await self._run_bulk_send(bulk_send, intercepted=bool(self._transforms.interceptors))
        return deliveries

    async def send_arrow(self, table: pyarrow.Table, topic: str | None = None) -> Deliveries:
        """Send the rows of a table or record batch, without a Python object per row.

        Columns: ``value``, ``key``, ``topic`` (unless passed as argument), ``partition``, ``timestamp``,
        ``headers``. Serializers and interceptors are not called.

        >>> import asyncio, pyarrow
        >>> from odradek.aio import Producer
        >>> table = pyarrow.table({"value": [b"a", b"b"], "key": [b"1", None]})
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092") as producer:
        ...         return await (await producer.send_arrow(table, "greetings"))
        >>> asyncio.run(main())
        2
        """
        from odradek.client.producer.send_arrow import send_table

        await self._engine.start()
        deliveries = Deliveries(self._engine.concurrency.notifier)
        await self._run_bulk_send(send_table(self._engine, deliveries, table, topic), intercepted=False)
        return deliveries

    async def _run_bulk_send(self, bulk_send: BulkSend, *, intercepted: bool) -> None:
        try:
            arguments = next(bulk_send)
            while True:
                if intercepted:
                    delivery = await self.send(*arguments)
                else:
                    delivery = await self._appended(self._append(*arguments))
                arguments = bulk_send.send(delivery)
        except StopIteration:
            return

    # Lifecycle.

    async def start(self) -> None:
        """Start to connect, without waiting for brokers. The first send does so as well.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     producer = Producer(bootstrap_servers="localhost:9092")
        ...     await producer.start()
        ...     await producer.close()
        >>> asyncio.run(main())
        """
        await self._engine.start()

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all records sent before are delivered or failed, including callbacks.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092", linger_ms=1000) as producer:
        ...         delivery = await producer.send("greetings", b"hello")
        ...         await producer.flush()
        ...         return delivery.done()
        >>> asyncio.run(main())
        True
        """
        await self._engine.flush(timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver sent records and close. After ``timeout_s`` the rest fails with ``ClientClosed``.

        Every record is completed when this returns. Closing again does nothing.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     producer = Producer(bootstrap_servers="localhost:9092")
        ...     delivery = await producer.send("greetings", b"hello")
        ...     await producer.close(timeout_s=10)
        ...     return delivery.done()
        >>> asyncio.run(main())
        True
        """
        await self._engine.close(timeout_s)
        self._transforms.interceptors.close()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic, with leaders and replicas.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092") as producer:
        ...         return (await producer.partitions_for("greetings"))[0].partition
        >>> asyncio.run(main())
        0
        """
        await self._engine.start()
        metadata = await self._engine.wait_for_topic(topic, self._max_block_ms)
        return list(metadata.partitions)

    def metrics(self) -> dict[str, float]:
        """Return the producer's metrics, under Kafka's names.

        >>> from odradek.aio import Producer
        >>> Producer(bootstrap_servers="localhost:9092").metrics()["record-send-total"]
        0.0
        """
        return self._engine.network.metrics.read()

    # Transactions.

    async def init_transactions(self) -> None:
        """Get a producer id for the ``transactional.id``, fence earlier producers, abort their transaction.

        Call it once, before the first transaction.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092", transactional_id="t1") as producer:
        ...         await producer.init_transactions()
        >>> asyncio.run(main())
        """
        await self._engine.start()
        await self._transaction_calls.init()

    async def begin_transaction(self) -> None:
        """Begin a transaction: the records sent from now on are committed or aborted together.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092", transactional_id="t2") as producer:
        ...         await producer.init_transactions()
        ...         await producer.begin_transaction()
        ...         await producer.send("greetings", b"hello")
        ...         await producer.commit_transaction()
        >>> asyncio.run(main())
        """
        self._transaction_calls.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets as part of the transaction.

        >>> import asyncio
        >>> from odradek import TopicPartition
        >>> from odradek.aio import Producer
        >>> from odradek.client.values import OffsetAndMetadata
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092", transactional_id="t3") as producer:
        ...         await producer.init_transactions()
        ...         await producer.begin_transaction()
        ...         read = {TopicPartition("greetings", 0): OffsetAndMetadata(1)}
        ...         await producer.send_offsets_to_transaction(read, "readers")
        ...         await producer.commit_transaction()
        >>> asyncio.run(main())
        """
        await self._transaction_calls.send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Deliver the records of the transaction and commit it; raise if any of them failed.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092", transactional_id="t4") as producer:
        ...         await producer.init_transactions()
        ...         await producer.begin_transaction()
        ...         await producer.commit_transaction()
        >>> asyncio.run(main())
        """
        await self._transaction_calls.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that were not sent yet fail with ``TransactionAborted``.

        >>> import asyncio
        >>> from odradek.aio import Producer
        >>> async def main():
        ...     async with Producer(bootstrap_servers="localhost:9092", transactional_id="t5") as producer:
        ...         await producer.init_transactions()
        ...         await producer.begin_transaction()
        ...         await producer.send("greetings", b"never seen")
        ...         await producer.abort_transaction()
        >>> asyncio.run(main())
        """
        await self._transaction_calls.abort()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An interrupted program does not wait for its brokers.
        await self.close(0 if kind is not None and not issubclass(kind, Exception) else None)


def _direct_send(append: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Delivery]]:
    """Return ``send`` of a producer without serializers and interceptors."""

    async def send(
        topic: str,
        value: object = None,
        key: object = None,
        headers: Headers = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        result = append(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        return result if type(result) is Delivery else cast("Delivery", await result)

    return send


def _asyncio_concurrency() -> ConcurrencyModel:
    return ConcurrencyModel(
        LoopNotifier(), nullcontext(), asyncio.Event, lambda function: function(), sends_on_loop=True
    )


def buffer_full(engine: ProducerEngine, pending: PendingAppend, max_block_ms: int) -> TimedOut:
    pool = engine.pool
    return BufferFull(
        f"no buffer.memory for a record of topic {pending.record.topic} within {max_block_ms} ms:"
        f" {pending.memory_bytes} bytes needed, {pool.available_bytes} of {pool.memory_bytes} free"
    )
