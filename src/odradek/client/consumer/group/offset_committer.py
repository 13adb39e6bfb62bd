"""Offset commits, synchronous and asynchronous, and fetches of committed offsets.

A commit carries a generation, and is accepted only while the group has not moved on without this member.
Asynchronous commits are sent in order; their callbacks are called in the same order, inside ``poll``,
``commit`` and ``close``, never in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.client.consumer.group.callbacks import Callbacks
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.error_actions import GroupErrorAction
from odradek.client.consumer.group.membership import Generation
from odradek.client.consumer.group.requests import parse_commit, parse_offset_fetch
from odradek.client.errors import backoff, broker_error
from odradek.client.interceptors import ConsumerInterceptors
from odradek.client.values import OffsetAndMetadata
from odradek.config.client.connection import REQUEST_TIMEOUT_MS
from odradek.model.client_errors import (
    ClientClosed,
    ClientError,
    CommitFailed,
    ConnectionFailed,
    InvalidState,
    RequestRefused,
    TimedOut,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OffsetCommitCallback = Callable[[Offsets, ClientError | None], Any]

_log: Final = events.logger("consumer")

_PENDING_MAX: Final = 10_000
"""Asynchronous commits whose callback was not called: an application with more does not poll."""

_NOT_A_MEMBER: Final = (
    "offset commit failed: the consumer is not a member of the group any more, probably because the time"
    " between polls exceeded max.poll.interval.ms; its partitions belong to others"
)
_REBALANCING: Final = (
    "offset commit failed: the group is rebalancing. Poll until the rebalance is complete, then commit the"
    " partitions still assigned"
)


class PendingCommit(NamedTuple):
    """An asynchronous commit whose callback was not called."""

    offsets: Offsets
    on_commit: OffsetCommitCallback | None
    task: asyncio.Task[None]


class OffsetCommitter:
    """Commits and fetches the offsets of one group."""

    def __init__(
        self, context: GroupContext, callbacks: Callbacks, interceptors: ConsumerInterceptors
    ) -> None:
        self._context = context
        self._network = context.network
        self._settings = context.settings
        self._membership = context.membership
        self._callbacks = callbacks
        self._interceptors = interceptors
        self._pending: deque[PendingCommit] = deque()
        self._send_lock = asyncio.Lock()
        metrics = context.network.metrics
        self._count = metrics.counter("commit-total", "Offset commits.")
        self._latency = metrics.average("commit-latency-avg", "Average commit latency in milliseconds.")
        self._latency_max = metrics.maximum("commit-latency-max", "Maximum commit latency in milliseconds.")

    # Committing.

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit, retrying until it succeeds or times out, and run callbacks of earlier commits."""
        await self.send(offsets, timeout_ms)
        await self.run_callbacks()

    async def send(self, offsets: Offsets, timeout_ms: int, *, is_last: bool = False) -> None:
        """Commit without running callbacks: for use outside of application calls.

        The last commit before a revocation (``is_last``) does not wait for a deleted topic to come back:
        offsets of other topics are committed all the same.
        """
        started_ms = self._context.now_ms()
        # Asynchronous commits come first, and so do their callbacks.
        await self.wait_pending(timeout_ms)
        if offsets:
            remaining_ms = max(0, started_ms + timeout_ms - self._context.now_ms())
            attempt = self._send_last if is_last else self._send
            await self._retry(lambda: attempt(offsets), remaining_ms, "offsets not committed")
            self._interceptors.on_commit(offsets)

    def commit_async(self, offsets: Offsets, on_commit: OffsetCommitCallback | None = None) -> None:
        if len(self._pending) >= _PENDING_MAX:
            raise InvalidState(
                f"pending asynchronous commits must be at most {_PENDING_MAX}, got {len(self._pending) + 1}: "
                "poll to complete them"
            )
        copied = dict(offsets)
        task = asyncio.get_running_loop().create_task(self._send(copied), name="commit")
        self._pending.append(PendingCommit(copied, on_commit, task))
        task.add_done_callback(lambda _task: self._context.notify())

    async def run_callbacks(self) -> None:
        """Run the callbacks of completed commits, in the order of the commits."""
        while self._pending and self._pending[0].task.done():
            pending = self._pending.popleft()
            error = _cancelled() if pending.task.cancelled() else pending.task.exception()
            if error is None:
                self._interceptors.on_commit(pending.offsets)
            if error is not None and not isinstance(error, ClientError):
                raise error
            if pending.on_commit is not None:
                await self._callbacks.call(pending.on_commit, pending.offsets, error)
            elif error is not None:
                _log.warning("commit_failed", group=self._membership.group_id, reason=error)

    async def wait_pending(self, timeout_ms: int) -> None:
        """Wait for the asynchronous commits in flight."""
        in_flight = [pending.task for pending in self._pending if not pending.task.done()]
        if in_flight:
            await asyncio.wait(in_flight, timeout=timeout_ms / 1000)

    async def close(self) -> None:
        """Cancel commits in flight, and run all callbacks."""
        in_flight = [pending.task for pending in self._pending if not pending.task.done()]
        for task in in_flight:
            task.cancel()
        if in_flight:
            await asyncio.wait(in_flight)
        await self.run_callbacks()

    async def _send(self, offsets: Offsets) -> None:
        """Send one OffsetCommit; raise its error, if any."""
        generation = self._commit_generation()
        sent_ms = self._context.now_ms()
        response, broker = await self._send_request(self._context.requests.commit(offsets, generation))
        errors = parse_commit(response)
        self._count.add()
        self._latency.record(self._context.now_ms() - sent_ms)
        self._latency_max.record(self._context.now_ms() - sent_ms)
        for code in errors.values():
            self._handle_member_error(code, generation)
        for partition, code in errors.items():
            raise broker_error(code, f"offset of {partition} not committed", broker=broker)

    async def _send_last(self, offsets: Offsets) -> None:
        try:
            await self._send(offsets)
        except ClientError as error:
            raise _without_topic_retry(error) from None

    def _commit_generation(self) -> Generation:
        if not self._context.subscription.is_auto_assigned:
            return Generation()
        generation = self._membership.committing_generation()
        if generation is None:
            raise _member_error(self._membership.is_rebalancing)
        return generation

    def _handle_member_error(self, code: ErrorCode, sent_with: Generation) -> None:
        """Handle a partition error that concerns the member; raise if it is out of the group or rejoining."""
        has_moved_on = self._membership.generation != sent_with and sent_with.id >= 0
        rebalancing = self._membership.is_rebalancing or self._membership.needs_join
        action = self._membership.handle_commit(code, sent_with)
        if action is GroupErrorAction.REDISCOVER:
            self._context.mark_coordinator_unknown()
        elif action is GroupErrorAction.REJOIN:
            raise _member_error(rebalancing=True)
        elif action in (GroupErrorAction.RESET_MEMBER_ID, GroupErrorAction.RESET_GENERATION):
            raise _member_error(rebalancing=has_moved_on and rebalancing, code=code)

    # Committed offsets.

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        unique = list(dict.fromkeys(partitions))
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(unique)
        if unique:
            offsets.update(
                await self._retry(lambda: self._fetch(unique), timeout_ms, "committed offsets not received")
            )
        return offsets

    async def _fetch(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        response, broker = await self._send_request(self._context.requests.fetch_offsets(partitions))
        result = parse_offset_fetch(response)
        operation = f"committed offsets of group {self._membership.group_id}"
        if result.code is not ErrorCode.NONE:
            if result.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._context.mark_coordinator_unknown()
            raise broker_error(result.code, operation, broker=broker)
        for partition, code in result.errors.items():
            # Retrying does not create a missing topic; an open transaction will end.
            raise _without_topic_retry(broker_error(code, f"{operation}: {partition}", broker=broker))
        return result.offsets

    # Requests.

    async def _send_request(self, request: Any) -> tuple[Any, str]:
        """Return the response of the coordinator, and its name."""
        try:
            async with self._send_lock:
                # Sent in order: the last commit must win.
                # A shorter timeout than the whole call has, which can then report this error.
                timeout_ms = self._settings[REQUEST_TIMEOUT_MS]
                node = await self._context.coordinator(timeout_ms)
                while (response := self._network.send_if_ready(node, request)) is None:
                    await self._network.wait_until_ready(node, timeout_ms)
            return await response, self._network.broker_name(node)
        except (ConnectionFailed, TimedOut):
            self._context.mark_coordinator_unknown()
            raise

    async def _retry(self, attempt: Callable[[], Any], timeout_ms: int, failure: str) -> Any:
        """Retry until success, a non-retriable error, or the timeout."""
        last_error: ClientError | None = None
        attempts = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except ClientError as error:
                        if not error.retriable or error.code is ErrorCode.REBALANCE_IN_PROGRESS:
                            raise
                        last_error = error
                    await self._context.clock.sleep_ms(
                        backoff(attempts, self._settings, self._context.entropy)
                    )
                    attempts += 1
        except TimeoutError:
            cause = "" if last_error is None else f": {last_error}"
            raise TimedOut(f"{failure} within {timeout_ms} ms{cause}") from last_error


def _cancelled() -> ClientClosed:
    return ClientClosed("the consumer was closed before the commit completed")


def _member_error(rebalancing: bool, code: ErrorCode | None = None) -> RequestRefused:
    """Return the error of a commit while rebalancing, or by a consumer that is not a member any more."""
    if rebalancing:
        return RequestRefused(_REBALANCING, code=ErrorCode.REBALANCE_IN_PROGRESS, retriable=True)
    return CommitFailed(_NOT_A_MEMBER, code=code, retriable=False)


def _without_topic_retry(error: ClientError) -> ClientError:
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        error.retriable = False
    return error
