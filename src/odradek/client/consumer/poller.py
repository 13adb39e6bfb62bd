"""The work of a poll until records are buffered: group membership, positions, fetches.

Steps that may take long (joining the group, fetching committed offsets) run in their own tasks. A poll that
times out or is woken leaves them running, and the next poll waits for them.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from odradek.client.consumer.fetch.buffer import FetchBuffer
from odradek.client.consumer.fetch.fetcher import Fetcher
from odradek.client.consumer.group.callbacks import OnCaller
from odradek.client.consumer.group.consumer_coordinator import ConsumerCoordinator
from odradek.client.consumer.notifier import Notifier
from odradek.client.consumer.positions.offset_fetcher import OffsetFetcher
from odradek.client.consumer.positions.partition_state import FetchPosition
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.errors import broker_error
from odradek.client.network.metadata import EMPTY_METADATA
from odradek.client.network.network_client import NetworkClient
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.telemetry import events

_log: Final = events.logger("consumer")

COMMITTED_TIMEOUT_MS: Final = 30_000
"""Timeout of one fetch of committed offsets, after which it is restarted."""

_CALL_ENDED: Final = object()
"""Result of a callback that was not called because the enclosing call had ended."""


class Poller:
    """Runs one poll at a time; ``on_caller`` runs callbacks of the application in its own thread."""

    def __init__(
        self,
        network: NetworkClient,
        clock: Clock,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        offsets: OffsetFetcher,
        notifier: Notifier,
        *,
        on_caller: OnCaller,
        retry_backoff_ms: int,
    ) -> None:
        self.coordinator: ConsumerCoordinator | None = None
        self._network = network
        self._clock = clock
        self._subscription = subscription
        self._buffer = buffer
        self._fetcher = fetcher
        self._offsets = offsets
        self._notifier = notifier
        self._on_caller = on_caller
        self._retry_backoff_ms = retry_backoff_ms
        self._last_metadata = EMPTY_METADATA
        self._last_assignment_version = -1
        self._steps: dict[str, asyncio.Task[Any]] = {}
        self._calls: list[contextvars.Context] = []
        self._committed_for = -1
        """Version of the assignment for which committed offsets are being fetched."""
        self._call_started: asyncio.Future[None] | None = None
        self._is_polling = False
        self._warned_partitions: set[TopicPartition] = set()

    # Calls of the application.

    @contextmanager
    def inside_call(self) -> Iterator[None]:
        """Mark a call of the application: while it lasts, callbacks can run."""
        call = contextvars.copy_context()
        self._calls.append(call)
        if self._call_started is not None and not self._call_started.done():
            self._call_started.set_result(None)
        try:
            yield
        finally:
            # Not always the last: a cancelled call ends before the calls nested in it.
            self._calls = [other for other in self._calls if other is not call]

    async def call_back(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a callback of the application inside its current call, or its next one."""
        loop = asyncio.get_running_loop()
        result = _CALL_ENDED
        while result is _CALL_ENDED:
            while not self._calls:
                self._call_started = loop.create_future()
                await self._call_started
            call = self._calls[-1]
            result = await loop.create_task(self._called(call, function, args), context=call)
        return result

    async def _called(
        self, call: contextvars.Context, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        # This runs one loop iteration after the call was chosen: it may have ended since.
        if not any(other is call for other in self._calls):
            return _CALL_ENDED
        result = await self._on_caller(function, *args)
        return await result if inspect.isawaitable(result) else result

    # Polls.

    async def wait_for_records(self, timeout_ms: int) -> bool:
        """Wait until records are buffered; return False on timeout."""
        if self._is_polling:
            raise InvalidState("poll must not be called inside poll: a rebalance listener cannot poll")
        self._is_polling = True
        try:
            with self.inside_call():
                return await self._wait_for_records(timeout_ms)
        finally:
            self._is_polling = False

    async def _wait_for_records(self, timeout_ms: int) -> bool:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._discard_old_step()
        has_waited = False
        while True:
            since = self._notifier.count
            self._notifier.raise_if_woken()
            if await self._ensure_active_group(deadline_ms):
                self._fetcher.handle_errors()
                await self.update_positions()
                self._buffer.drop_stale()
                self._fetcher.send()
                if self._buffer.has_readable():
                    return True
            remaining_ms = deadline_ms - self._clock.monotonic_ms()
            if remaining_ms <= 0 and has_waited:
                return False
            # Even a poll with a timeout of 0 lets the event loop do I/O once.
            await self._notifier.wait(since, max(self._wait_ms(remaining_ms), 0))
            has_waited = True

    def _wait_ms(self, remaining_ms: int) -> int:
        """Return how long to wait before checking again: backoffs expire without a notification."""
        if self.coordinator is not None:
            remaining_ms = min(
                remaining_ms, self.coordinator.time_to_next_poll_ms(self._clock.monotonic_ms())
            )
        has_backoff = not self._subscription.has_all_positions or self._fetcher.has_backoff
        return min(remaining_ms, self._retry_backoff_ms) if has_backoff else remaining_ms

    def _discard_old_step(self) -> None:
        """Discard a group step that an earlier poll started and that has finished since: it may be stale."""
        if self.coordinator is not None:
            self.coordinator.record_poll(self._clock.monotonic_ms())
        step = self._steps.get("group")
        if step is not None and step.done():
            del self._steps["group"]
            step.result()

    async def _ensure_active_group(self, deadline_ms: int) -> bool:
        coordinator = self.coordinator
        if coordinator is None:
            return True
        step = await self._step("group", lambda: coordinator.ensure_active(deadline_ms))
        return step is not None and bool(step.result())

    # Positions.

    async def update_positions(self) -> bool:
        """Validate and reset positions, and fetch committed offsets; return True if all are valid."""
        subscription = self._subscription
        metadata = self._network.metadata
        version = subscription.assignment_version
        if metadata is not self._last_metadata or version != self._last_assignment_version:
            self._last_metadata, self._last_assignment_version = metadata, version
            self._offsets.on_leaders_changed()
            self._fetcher.on_leaders_changed()
            self._raise_topic_error()
            self._warn_of_unknown_partitions()
        self._network.raise_fatal_error()
        self._offsets.raise_failure()
        self._offsets.validate_positions()
        if subscription.has_all_positions:
            return True
        if subscription.has_initializing and not await self._start_at_committed():
            return False
        subscription.reset_initializing()
        self._offsets.reset_positions()
        return subscription.has_all_positions

    def _raise_topic_error(self) -> None:
        """Raise a non-retriable topic error, once per metadata response."""
        assigned = self._subscription.assigned
        topics = self._subscription.subscribed_topics or {partition.topic for partition in assigned}
        for name in topics:
            topic = self._last_metadata.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE and not topic.error.retriable:
                raise broker_error(topic.error, f"topic {name}")

    def is_unknown(self, partition: TopicPartition) -> bool:
        """Return True if the topic is known, and has no such partition."""
        count = len(self._network.metadata.partitions_for(partition.topic))
        return 0 < count <= partition.partition

    def _warn_of_unknown_partitions(self) -> None:
        """Log each assigned partition that does not exist once; it may be added later."""
        assigned = self._subscription.assigned
        self._warned_partitions &= assigned.keys()
        unknown = {
            partition for partition in assigned if self.is_unknown(partition)
        } - self._warned_partitions
        self._warned_partitions |= unknown
        for topic, partition in sorted(unknown):
            count = len(self._network.metadata.partitions_for(topic))
            _log.warning("unknown_partition", topic=topic, partition=partition, partitions=count)

    async def _start_at_committed(self) -> bool:
        """Set positions to the committed offsets; return False while those are being fetched."""
        coordinator = self.coordinator
        if coordinator is None:
            return True
        missing = self._subscription.initializing()
        if "committed" not in self._steps:
            self._committed_for = self._subscription.assignment_version
        step = await self._step("committed", lambda: coordinator.committed(missing, COMMITTED_TIMEOUT_MS))
        if step is None:
            return False
        if self._committed_for != self._subscription.assignment_version:
            # A partition revoked and assigned again may have been read and committed by others meanwhile.
            step.exception()
            self._notifier.notify()
            return False
        try:
            committed: dict[TopicPartition, OffsetAndMetadata | None] = step.result()
        except TimedOut:
            return False
        for partition, offset in committed.items():
            if offset is not None:
                self._network.observe_leader_epoch(partition, offset.leader_epoch)
                leader = self._network.metadata.leader(partition)
                self._subscription.start_at_committed(
                    partition, FetchPosition(offset.offset, offset.leader_epoch, *leader)
                )
        return committed.keys() >= set(self._subscription.initializing())

    async def _step(
        self, name: str, start: Callable[[], Coroutine[Any, Any, Any]]
    ) -> asyncio.Task[Any] | None:
        """Start a step of a poll unless it is running; return its task once done, else None."""
        task = self._steps.get(name)
        if task is None:
            task = self._steps[name] = asyncio.get_running_loop().create_task(start(), name=name)
            try:
                await asyncio.sleep(0)  # most steps complete at once
            finally:
                if not task.done():
                    task.add_done_callback(lambda _: self._notifier.notify())
        if not task.done():
            return None
        del self._steps[name]
        return task

    async def close(self) -> None:
        """Cancel running steps."""
        tasks = list(self._steps.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # mark as retrieved
