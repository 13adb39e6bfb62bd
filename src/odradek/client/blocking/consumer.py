"""The blocking consumer.

The engine runs on a loop thread; methods run there while the application waits. Fetched records are decoded
in the application's thread, where rebalance listeners and callbacks run as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, cast, overload

from odradek.client.arrow import record_batch
from odradek.client.blocking.loop_thread import LoopThread, on_caller
from odradek.client.consumer.assignors import Assignor
from odradek.client.consumer.call_guard import ThreadCallGuard
from odradek.client.consumer.consumer import (
    ARROW_ROWS_MAX,
    ITERATION_POLL_MS,
    make_engine,
    record_deserializer,
)
from odradek.client.consumer.consumer import Consumer as AsyncConsumer
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.environment import ClientEnvironment
from odradek.client.interceptors import ConsumerInterceptor
from odradek.client.options.parsing import read_options
from odradek.client.serdes import AnyDeserializer
from odradek.config.client import CONSUMER, connection
from odradek.model.client_errors import ClientClosed
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

P = ParamSpec("P")
T = TypeVar("T")


class _UnguardedConsumer(AsyncConsumer[Any, Any]):
    """The asyncio consumer without a call guard: the blocking consumer guards its calls."""

    def __init__(self, engine: ConsumerEngine) -> None:
        self._engine = engine
        self._guard = nullcontext()


def _run_async(
    method: Callable[Concatenate[AsyncConsumer[Any, Any], P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Consumer[Any, Any], P], T]:
    """Return a method that runs an asyncio method on the loop thread, one call at a time."""

    @functools.wraps(method)
    def call(self: Consumer[Any, Any], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._guard:
            return self._thread.call(method, self._client, *args, **kwargs)

    return cast("Callable[Concatenate[Consumer[Any, Any], P], T]", call)


def _run_sync(
    method: Callable[Concatenate[AsyncConsumer[Any, Any], P], T],
) -> Callable[Concatenate[Consumer[Any, Any], P], T]:
    """Return a method that calls a synchronous method on the loop thread, which owns its state."""

    @functools.wraps(method)
    def call(self: Consumer[Any, Any], *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._client, *args, **kwargs)

        with self._guard:
            return self._thread.call(run)

    return cast("Callable[Concatenate[Consumer[Any, Any], P], T]", call)


class Consumer(Generic[Key_co, Value_co]):
    """Blocking consumer; ``odradek.aio.Consumer`` is its asyncio counterpart.

    Options have Kafka's names, in a mapping or, with underscores, as keywords. ``key_deserializer`` and
    ``value_deserializer`` are functions of bytes, objects with ``deserialize(topic, data)``, or one of
    ``"str"``, ``"json"`` and ``"bytes"`` (the default). Use a consumer from one thread at a time; only
    ``wakeup`` may be called from anywhere. Examples of methods use a ``consumer`` like this one, in group
    ``readers``.

    >>> from odradek import Consumer, TopicPartition
    >>> with Consumer(bootstrap_servers="localhost:9092") as consumer:
    ...     consumer.assign([TopicPartition("castle", 0)])
    ...     consumer.seek_to_beginning()
    ...     next(iter(consumer)).value
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
        engine = make_engine(
            settings, deserialize, interceptors, assignors, environment, on_caller, self._send_fetches
        )
        self._engine = engine
        self._client = _UnguardedConsumer(engine)
        self._guard = ThreadCallGuard(f"consumer {self.client_id}")
        self._guard.before_call = engine.return_unread
        self._thread = LoopThread(self.client_id)
        self._thread.call(engine.start)

    def _send_fetches(self) -> None:
        with suppress(ClientClosed):
            self._thread.post(self._engine.send_fetches)

    # Lifecycle.

    def close(self, timeout_s: float | None = None) -> None:
        """Commit if auto commit is enabled, leave the group, and close all connections. Idempotent.

        Waits for brokers at most ``timeout_s`` (default: 30 seconds).

        >>> consumer.close()
        """
        with self._guard:
            try:
                self._thread.call(self._client.close, timeout_s)
            except ClientClosed:
                return
            finally:
                self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wakeup(self) -> None:
        """Raise ``WakeupError`` in the waiting call, or else in the next one that would wait. Thread-safe.

        >>> consumer.wakeup()
        """
        self._engine.notifier.wakeup()

    # Records.

    def poll(
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
                self._thread.call(engine.wait_for_records, max(deadline_ms - engine.now_ms(), 0))
                records = engine.take(max_records)
                if records or engine.now_ms() >= deadline_ms:
                    return records

    def poll_arrow(
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
                self._thread.call(engine.wait_for_records, max(deadline_ms - engine.now_ms(), 0))
                count = engine.take_columns(rows_max, columns)
                if engine.now_ms() >= deadline_ms:
                    break
            return record_batch(columns.finish())

    def __iter__(self) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        """Iterate over records, waiting without limit.

        Only records handed to the loop count as consumed: no commit covers the others, and the next poll
        returns them.
        """
        return chain.from_iterable(iter(self._take_for_iteration, None))

    def _take_for_iteration(self) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        with self._guard:
            engine = self._engine
            records = engine.take_for_iteration() if engine.begin_poll() else None
            while records is None:
                self._thread.call(engine.wait_for_records, ITERATION_POLL_MS)
                records = engine.take_for_iteration()
            return records

    # Methods of the asyncio consumer.

    subscribe = _run_sync(AsyncConsumer.subscribe)
    assign = _run_sync(AsyncConsumer.assign)
    unsubscribe = _run_async(AsyncConsumer.unsubscribe)
    subscription = _run_sync(AsyncConsumer.subscription)
    assignment = _run_sync(AsyncConsumer.assignment)
    pause = _run_sync(AsyncConsumer.pause)
    resume = _run_sync(AsyncConsumer.resume)
    paused = _run_sync(AsyncConsumer.paused)

    seek = _run_sync(AsyncConsumer.seek)
    seek_to_beginning = _run_sync(AsyncConsumer.seek_to_beginning)
    seek_to_end = _run_sync(AsyncConsumer.seek_to_end)
    position = _run_async(AsyncConsumer.position)
    current_lag = _run_sync(AsyncConsumer.current_lag)
    offsets_for_times = _run_async(AsyncConsumer.offsets_for_times)
    beginning_offsets = _run_async(AsyncConsumer.beginning_offsets)
    end_offsets = _run_async(AsyncConsumer.end_offsets)

    commit = _run_async(AsyncConsumer.commit)
    commit_async = _run_sync(AsyncConsumer.commit_async)
    committed = _run_async(AsyncConsumer.committed)
    group_metadata = _run_sync(AsyncConsumer.group_metadata)
    enforce_rebalance = _run_sync(AsyncConsumer.enforce_rebalance)

    partitions_for = _run_async(AsyncConsumer.partitions_for)
    list_topics = _run_async(AsyncConsumer.list_topics)
    metrics = _run_sync(AsyncConsumer.metrics)
