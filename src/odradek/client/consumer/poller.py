"""What a poll does before there is something to read: take part in the group, find positions, send fetches.

Parts that may last (joining a group, looking up committed offsets) run in tasks of their own. A poll whose
time is over, or that was woken, leaves them under way, and the next one goes on waiting for them.
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
from odradek.client.consumer.positions.offset_fetcher import Offsets
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
"""How long one look-up of committed offsets may take before it is begun anew."""

_CALL_ENDED: Final = object()
"""Result of a callback that was not made, because the call it was to be made in had ended."""


class Poller:
    """One poll at a time; ``on_caller`` runs the application's functions where it wants them."""

    def __init__(
        self,
        network: NetworkClient,
        clock: Clock,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        offsets: Offsets,
        news: Notifier,
        *,
        on_caller: OnCaller,
        rest_ms: int,
    ) -> None:
        self.coordinator: ConsumerCoordinator | None = None
        self._network = network
        self._clock = clock
        self._subscription = subscription
        self._buffer = buffer
        self._fetcher = fetcher
        self._offsets = offsets
        self._news = news
        self._on_caller = on_caller
        self._rest_ms = rest_ms
        self._met_image = EMPTY_METADATA
        self._met_assignment = -1
        self._steps: dict[str, asyncio.Task[Any]] = {}
        self._calls: list[contextvars.Context] = []
        self._committed_for = -1
        """The assignment for which committed offsets are looked up."""
        self._began: asyncio.Future[None] | None = None
        self._is_polling = False
        self._warned_of: set[TopicPartition] = set()

    # Calls of the application.

    @contextmanager
    def inside_call(self) -> Iterator[None]:
        """While this lasts, the application's functions can be called: it waits for this call."""
        call = contextvars.copy_context()
        self._calls.append(call)
        if self._began is not None and not self._began.done():
            self._began.set_result(None)
        try:
            yield
        finally:
            # Not always the last: a call that was cancelled ends before those inside it.
            self._calls = [each for each in self._calls if each is not call]

    async def call_back(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the application inside the call that is under way, or the next one."""
        loop = asyncio.get_running_loop()
        result = _CALL_ENDED
        while result is _CALL_ENDED:
            while not self._calls:
                self._began = loop.create_future()
                await self._began
            call = self._calls[-1]
            result = await loop.create_task(self._called(call, function, args), context=call)
        return result

    async def _called(
        self, call: contextvars.Context, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        # This step comes a turn of the loop after the call was found under way: it may have ended since.
        if not any(each is call for each in self._calls):
            return _CALL_ENDED
        result = await self._on_caller(function, *args)
        return await result if inspect.isawaitable(result) else result

    # Polls.

    async def wait_for_records(self, timeout_ms: int) -> bool:
        """Wait until there is something to read; False if ``timeout_ms`` is over first."""
        if self._is_polling:
            raise InvalidState("poll was called inside poll: a rebalance listener cannot poll")
        self._is_polling = True
        try:
            with self.inside_call():
                return await self._wait_for_records(timeout_ms)
        finally:
            self._is_polling = False

    async def _wait_for_records(self, timeout_ms: int) -> bool:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._end_old_step()
        has_waited = False
        while True:
            since = self._news.count
            self._news.raise_if_woken()
            if await self._activate(deadline_ms):
                self._fetcher.settle()
                await self.update_positions()
                self._buffer.drop_stale()
                self._fetcher.send()
                if self._buffer.has_readable():
                    return True
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0 and has_waited:
                return False
            # Even a poll without time gives the network a chance.
            await self._news.wait(since, max(self._patience(left_ms), 0))
            has_waited = True

    def _patience(self, left_ms: int) -> int:
        """How long to wait before looking again: what rests after a failure must not be slept through."""
        if self.coordinator is not None:
            left_ms = min(left_ms, self.coordinator.patience_ms(self._clock.monotonic_ms()))
        needs_look = not self._subscription.has_all_positions or self._fetcher.is_resting
        return min(left_ms, self._rest_ms) if needs_look else left_ms

    def _end_old_step(self) -> None:
        """What an earlier poll left behind, done since, says nothing of the group as it is now."""
        if self.coordinator is not None:
            self.coordinator.polled(self._clock.monotonic_ms())
        old = self._steps.get("group")
        if old is not None and old.done():
            del self._steps["group"]
            old.result()

    async def _activate(self, deadline_ms: int) -> bool:
        coordination = self.coordinator
        if coordination is None:
            return True
        done = await self._step("group", lambda: coordination.ensure_active(deadline_ms))
        return done is not None and bool(done.result())

    # Positions.

    async def update_positions(self) -> bool:
        """Do what is needed for all partitions to have positions; True if they have."""
        subscription = self._subscription
        metadata = self._network.metadata
        if metadata is not self._met_image or subscription.assignment_version != self._met_assignment:
            self._met_image, self._met_assignment = metadata, subscription.assignment_version
            self._offsets.meet_leaders()
            self._fetcher.leaders_changed()
            self._raise_refused_topic()
            self._warn_of_unknown_partitions()
        self._network.raise_fatal_error()
        self._offsets.raise_failure()
        self._offsets.validate_positions()
        if subscription.has_all_positions:
            return True
        if subscription.needs_committed and not await self._start_at_committed():
            return False
        subscription.reset_missing()
        self._offsets.reset_positions()
        return subscription.has_all_positions

    def _raise_refused_topic(self) -> None:
        """Raise what brokers say of a topic that waiting cannot mend; once for each answer."""
        topics = self._subscription.subscribed_topics or {each.topic for each in self._subscription.assigned}
        for name in topics:
            topic = self._met_image.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE and not topic.error.retriable:
                raise broker_error(topic.error, f"topic {name}")

    def is_unknown(self, partition: TopicPartition) -> bool:
        """Return whether the topic is known, and does not have this partition as far as is known."""
        count = len(self._network.metadata.partitions_for(partition.topic))
        return 0 < count <= partition.partition

    def _warn_of_unknown_partitions(self) -> None:
        """Tell once of each partition that is read and does not exist; it may be added one day."""
        assigned = self._subscription.assigned
        self._warned_of &= assigned.keys()
        unknown = {each for each in assigned if self.is_unknown(each)} - self._warned_of
        self._warned_of |= unknown
        for each in sorted(unknown):
            count = len(self._network.metadata.partitions_for(each.topic))
            _log.warning("unknown_partition", topic=each.topic, partition=each.partition, partitions=count)

    async def _start_at_committed(self) -> bool:
        """Look up where the group left off; False while that is under way."""
        coordination = self.coordinator
        if coordination is None:
            return True
        missing = self._subscription.missing_positions()
        if "committed" not in self._steps:
            self._committed_for = self._subscription.assignment_version
        done = await self._step("committed", lambda: coordination.committed(missing, COMMITTED_TIMEOUT_MS))
        if done is None:
            return False
        if self._committed_for != self._subscription.assignment_version:
            # A partition that went and came back may have been read and committed by others meanwhile.
            done.exception()
            self._news.tell()
            return False
        try:
            committed: dict[TopicPartition, OffsetAndMetadata | None] = done.result()
        except TimedOut:
            return False
        for partition, found in committed.items():
            if found is not None:
                self._network.observe_leader_epoch(partition, found.leader_epoch)
                leader = self._network.metadata.leader(partition)
                self._subscription.start_at_committed(
                    partition, FetchPosition(found.offset, found.leader_epoch, *leader)
                )
        return committed.keys() >= set(self._subscription.missing_positions())

    async def _step(
        self, name: str, begin: Callable[[], Coroutine[Any, Any, Any]]
    ) -> asyncio.Task[Any] | None:
        """Begin a part of a poll, or find it under way; gives it when it is done."""
        task = self._steps.get(name)
        if task is None:
            task = self._steps[name] = asyncio.get_running_loop().create_task(begin(), name=name)
            try:
                await asyncio.sleep(0)  # most are done at once
            finally:
                if not task.done():
                    task.add_done_callback(lambda _: self._news.tell())
        if not task.done():
            return None
        del self._steps[name]
        return task

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._steps.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # nobody will ask any more
