"""The asyncio consumer: a facade over ``ConsumerEngine`` that allows one call at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, overload

from odradek.client.arrow import record_batch
from odradek.client.consumer.assignors import Assignor
from odradek.client.consumer.call_guard import TaskCallGuard
from odradek.client.consumer.engine import BEGINNING, END, CommitCallback, ConsumerEngine
from odradek.client.consumer.fetch.buffer import Deserialize
from odradek.client.consumer.group.callbacks import OnCaller
from odradek.client.consumer.positions.partition_state import OffsetReset
from odradek.client.consumer.rebalance_listener import AnyRebalanceListener
from odradek.client.consumer.validation import OffsetsToCommit
from odradek.client.environment import ClientEnvironment, system_environment
from odradek.client.interceptors import ConsumerInterceptor, ConsumerInterceptors
from odradek.client.names import Names
from odradek.client.options.parsing import read_options
from odradek.client.serdes import AnyDeserializer, deserialize_with
from odradek.client.values import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo
from odradek.config.client import CONSUMER, connection
from odradek.config.definition import Settings
from odradek.model.ids import TopicPartition
from odradek.model.type_variables import Key_co, Value_co
from odradek.records.client.consumer import ColumnBuilder, ConsumerRecord

if TYPE_CHECKING:
    import pyarrow

    from odradek.client.consumer.arguments import (
        K,
        ReadsBytesBytes,
        ReadsBytesJson,
        ReadsBytesOwn,
        ReadsBytesText,
        ReadsJsonBytes,
        ReadsJsonJson,
        ReadsJsonOwn,
        ReadsJsonText,
        ReadsOwnBytes,
        ReadsOwnJson,
        ReadsOwnOwn,
        ReadsOwnText,
        ReadsTextBytes,
        ReadsTextJson,
        ReadsTextOwn,
        ReadsTextText,
        V,
    )
    from odradek.client.options.typed_options import Config

ARROW_ROWS_MAX: Final = 65_536
"""Default limit of rows for ``poll_arrow``."""
ITERATION_POLL_MS: Final = 1000


class Consumer(Generic[Key_co, Value_co]):
    """Consumer for asyncio; ``odradek.Consumer`` is its blocking counterpart.

    Options have Kafka's names, in a mapping or, with underscores, as keywords. ``key_deserializer`` and
    ``value_deserializer`` are functions of bytes, objects with ``deserialize(topic, data)``, or one of
    ``"str"``, ``"json"`` and ``"bytes"`` (the default). Use a consumer from one task at a time; only
    ``wakeup`` may be called from anywhere. Examples of methods show the blocking consumer; await those that
    are coroutines here.

    >>> import asyncio
    >>> from odradek import TopicPartition, aio
    >>> async def first() -> bytes:
    ...     async with aio.Consumer(bootstrap_servers="localhost:9092") as consumer:
    ...         consumer.assign([TopicPartition("castle", 0)])
    ...         consumer.seek_to_beginning()
    ...         async for record in consumer:
    ...             return record.value
    >>> asyncio.run(first())
    b'Someone must have slandered Josef K.'
    """

    @overload
    def __init__(
        self: Consumer[bytes, bytes], config: Config = None, /, **options: Unpack[ReadsBytesBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes, str], config: Config = None, /, **options: Unpack[ReadsBytesText]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes, Any], config: Config = None, /, **options: Unpack[ReadsBytesJson]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes, V], config: Config = None, /, **options: Unpack[ReadsBytesOwn[V]]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[str, bytes], config: Config = None, /, **options: Unpack[ReadsTextBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[str, str], config: Config = None, /, **options: Unpack[ReadsTextText]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[str, Any], config: Config = None, /, **options: Unpack[ReadsTextJson]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[str, V], config: Config = None, /, **options: Unpack[ReadsTextOwn[V]]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Any, bytes], config: Config = None, /, **options: Unpack[ReadsJsonBytes]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Any, str], config: Config = None, /, **options: Unpack[ReadsJsonText]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Any, Any], config: Config = None, /, **options: Unpack[ReadsJsonJson]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Any, V], config: Config = None, /, **options: Unpack[ReadsJsonOwn[V]]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, bytes], config: Config = None, /, **options: Unpack[ReadsOwnBytes[K]]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, str], config: Config = None, /, **options: Unpack[ReadsOwnText[K]]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, Any], config: Config = None, /, **options: Unpack[ReadsOwnJson[K]]
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, V], config: Config = None, /, **options: Unpack[ReadsOwnOwn[K, V]]
    ) -> None: ...
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_deserializer: AnyDeserializer = None,
        value_deserializer: AnyDeserializer = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        assignors: Sequence[Assignor] | None = None,
        environment: ClientEnvironment | None = None,
        **options: Any,
    ) -> None:
        settings = read_options(CONSUMER, config, options)
        self.client_id: str = settings[connection.CLIENT_ID]
        deserialize = record_deserializer(key_deserializer, value_deserializer)
        guard = TaskCallGuard(f"consumer {self.client_id}")
        self._guard: AbstractContextManager[None] = guard
        self._engine = make_engine(
            settings, deserialize, interceptors, assignors, environment, guard.run_inside_call
        )
        guard.before_call = self._engine.return_unread
        self._iterated: Iterator[ConsumerRecord[Key_co, Value_co]] = iter(())

    # Lifecycle.

    async def start(self) -> None:
        """Start connecting. Optional: the first call that needs a broker does it.

        >>> import asyncio
        >>> from odradek import aio
        >>> async def main():
        ...     consumer = aio.Consumer(bootstrap_servers="localhost:9092")
        ...     await consumer.start()
        ...     await consumer.close()
        >>> asyncio.run(main())
        """
        await self._engine.start()

    async def close(self, timeout_s: float | None = None) -> None:
        """Commit if auto commit is enabled, leave the group, and close all connections. Idempotent.

        Waits for brokers at most ``timeout_s`` (default: 30 seconds).

        >>> consumer.close()
        """
        with self._guard:
            await (self._engine.close() if timeout_s is None else self._engine.close(int(timeout_s * 1000)))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def wakeup(self) -> None:
        """Raise ``WakeupError`` in the waiting call, or else in the next one that would wait. Thread-safe.

        >>> consumer.wakeup()
        """
        self._engine.notifier.wakeup()

    def metrics(self) -> dict[str, float]:
        """Return the client's current metrics by Kafka's names.

        >>> consumer.metrics()["records-consumed-total"] >= 0
        True
        """
        return self._engine.metrics()

    # Subscription and assignment.

    def subscribe(
        self,
        topics: Names | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: AnyRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the consumer group.

        Pass either names, or a regular expression that must match the whole name; topics created later are
        included. ``listener`` is called inside ``poll`` when partitions are assigned or revoked. Replaces the
        previous subscription. ``subscribe`` and ``assign`` exclude each other until ``unsubscribe``.

        >>> consumer.unsubscribe()
        >>> consumer.subscribe(["castle"])
        >>> consumer.subscription()
        frozenset({'castle'})
        """
        with self._guard:
            self._engine.check_open()
            self._engine.subscribe(topics, pattern, listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions, without group management. Those that stay keep their positions.

        >>> consumer.assign([TopicPartition("castle", 0)])
        """
        with self._guard:
            self._engine.check_open()
            self._engine.assign(partitions)

    async def unsubscribe(self) -> None:
        """Clear the subscription or assignment, and leave the group.

        >>> consumer.unsubscribe()
        """
        with self._guard:
            self._engine.check_open()
            await self._engine.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics, or those that match the pattern now.

        >>> consumer.subscription()
        frozenset()
        """
        return self._engine.subscription.subscribed_topics

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions assigned to this consumer.

        >>> consumer.assignment()
        frozenset({TopicPartition(topic='castle', partition=0)})
        """
        return frozenset(self._engine.subscription.assigned)

    # Records.

    async def poll(
        self, timeout_s: float | None = 1.0, max_records: int | None = None
    ) -> list[ConsumerRecord[Key_co, Value_co]]:
        """Return the next records: at once if some are buffered, none after ``timeout_s`` without any.

        Returns at most ``max_records`` (default: ``max.poll.records``), in order within each partition. Also
        takes part in rebalances, calls the rebalance listener, and auto-commits. None waits without limit.

        >>> len(consumer.poll(timeout_s=10, max_records=1))
        1
        """
        with self._guard:
            engine = self._engine
            if engine.begin_poll() and (records := engine.take(max_records)):
                return records
            engine.check_max_records(max_records)
            deadline_ms = engine.deadline_ms(timeout_s)
            while True:
                await engine.wait_for_records(max(deadline_ms - engine.now_ms(), 0))
                records = engine.take(max_records)
                if records or engine.now_ms() >= deadline_ms:
                    return records

    async def poll_arrow(
        self, timeout_s: float | None = 1.0, max_records: int | None = None
    ) -> pyarrow.RecordBatch:
        """Return the next records as a ``pyarrow.RecordBatch``, without a Python object per record.

        Columns: ``key``, ``value`` (binary, not deserialized), ``topic``, ``partition``, ``offset``,
        ``timestamp`` and ``headers``. At most ``max_records`` rows (default: what is buffered).

        >>> consumer.poll_arrow(timeout_s=1.0).column_names
        ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'headers']
        """
        with self._guard:
            engine = self._engine
            engine.check_max_records(max_records)
            rows_max = ARROW_ROWS_MAX if max_records is None else max_records
            columns = ColumnBuilder()
            deadline_ms = engine.deadline_ms(timeout_s)
            count = engine.take_columns(rows_max, columns) if engine.begin_poll() else 0
            while not count:
                await engine.wait_for_records(max(deadline_ms - engine.now_ms(), 0))
                count = engine.take_columns(rows_max, columns)
                if engine.now_ms() >= deadline_ms:
                    break
            return record_batch(columns.finish())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[Key_co, Value_co]:
        """Return the next record, waiting without limit.

        Only records handed to the loop count as consumed: no commit covers the others, and the next poll
        returns them.
        """
        while True:
            for record in self._iterated:
                return record
            self._iterated = await self._take_for_iteration()

    async def _take_for_iteration(self) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        with self._guard:
            engine = self._engine
            records = engine.take_for_iteration() if engine.begin_poll() else None
            while records is None:
                await engine.wait_for_records(ITERATION_POLL_MS)
                records = engine.take_for_iteration()
            return records

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``; they stay assigned.

        >>> consumer.pause(TopicPartition("castle", 0))
        """
        with self._guard:
            self._engine.pause(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again.

        >>> consumer.resume(TopicPartition("castle", 0))
        """
        with self._guard:
            self._engine.pause(partitions, False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions.

        >>> consumer.paused()
        frozenset()
        """
        return self._engine.subscription.paused()

    # Positions.

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Set the position of a partition.

        >>> consumer.seek(TopicPartition("castle", 0), 0)
        """
        with self._guard:
            self._engine.check_open()
            self._engine.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek to the first offset of these partitions, or of all assigned ones.

        >>> consumer.seek_to_beginning()
        """
        with self._guard:
            self._engine.seek_to(OffsetReset.EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Seek to the end offset of these partitions, or of all assigned ones.

        >>> consumer.seek_to_end()
        """
        with self._guard:
            self._engine.seek_to(OffsetReset.LATEST, partitions)

    async def position(self, partition: TopicPartition) -> int:
        """Return the position of a partition: the next record has this offset or a higher one.

        >>> consumer.position(TopicPartition("castle", 0)) >= 0
        True
        """
        with self._guard:
            return await self._engine.position(partition)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the lag of a partition in offsets; None while the end offset is not known locally.

        >>> consumer.current_lag(TopicPartition("castle", 0)) in (None, 0, 1, 2, 3)
        True
        """
        with self._guard:
            return self._engine.current_lag(partition)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, by partition, the first offset at or after a timestamp; None where there is none.

        >>> consumer.offsets_for_times({TopicPartition("castle", 0): 0})[TopicPartition("castle", 0)].offset
        0
        """
        with self._guard:
            return await self._engine.offsets_for_times(times_ms)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        >>> consumer.beginning_offsets([TopicPartition("castle", 0)])
        {TopicPartition(topic='castle', partition=0): 0}
        """
        with self._guard:
            return await self._engine.list_offsets(partitions, BEGINNING)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the offset of its next record.

        >>> consumer.end_offsets([TopicPartition("castle", 0)])[TopicPartition("castle", 0)] > 0
        True
        """
        with self._guard:
            return await self._engine.list_offsets(partitions, END)

    # Group.

    async def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commit these offsets (of next records), or the positions of all assigned partitions.

        >>> consumer.commit({TopicPartition("castle", 0): 1})
        """
        with self._guard:
            await self._engine.commit(offsets)

    def commit_async(
        self, offsets: OffsetsToCommit | None = None, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit without waiting; ``on_commit(offsets, error)`` is called inside a later ``poll``.

        >>> consumer.commit_async()
        """
        with self._guard:
            self._engine.check_open()
            self._engine.commit_async(offsets, on_commit)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of the group, by partition; None where there is none.

        >>> consumer.committed(TopicPartition("castle", 1))
        {TopicPartition(topic='castle', partition=1): None}
        """
        with self._guard:
            return await self._engine.committed(partitions)

    def group_metadata(self) -> GroupMetadata:
        """Return the group metadata for a producer's ``send_offsets_to_transaction``.

        >>> consumer.group_metadata().group_id
        'readers'
        """
        return self._engine.group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Trigger a rebalance of the group with the next poll.

        >>> consumer.enforce_rebalance("a new rack")
        """
        with self._guard:
            self._engine.check_open()
            self._engine.enforce_rebalance(reason)

    # Topics.

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic; an empty list if it does not exist.

        >>> consumer.partitions_for("castle")[0].partition
        0
        """
        with self._guard:
            return await self._engine.partitions_for(topic)

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """Return all topics that this client may see, with their partitions.

        >>> "castle" in consumer.list_topics()
        True
        """
        with self._guard:
            return await self._engine.list_topics()


def make_engine(
    settings: Settings,
    deserialize: Deserialize | None,
    interceptors: Sequence[ConsumerInterceptor],
    assignors: Sequence[Assignor] | None,
    environment: ClientEnvironment | None,
    on_caller: OnCaller,
    on_drained: Any = None,
) -> ConsumerEngine:
    """Build the engine of an asyncio or blocking consumer."""
    return ConsumerEngine(
        environment or system_environment(),
        settings,
        deserialize=deserialize,
        interceptors=ConsumerInterceptors(interceptors),
        assignors=assignors or (),
        on_caller=on_caller,
        on_drained=on_drained,
    )


def record_deserializer(key: AnyDeserializer, value: AnyDeserializer) -> Deserialize | None:
    """Return a function that deserializes a record; None if keys and values stay bytes."""
    deserialize_key, deserialize_value = deserialize_with(key, "key"), deserialize_with(value, "value")
    if deserialize_key is None and deserialize_value is None:
        return None

    def deserialize(record: ConsumerRecord[Any, Any]) -> ConsumerRecord[Any, Any]:
        return record.deserialized(
            record.key if deserialize_key is None else deserialize_key(record.topic, record.key),
            record.value if deserialize_value is None else deserialize_value(record.topic, record.value),
        )

    return deserialize
