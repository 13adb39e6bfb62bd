"""Committing offsets: at once, soon, or from time to time; and asking what is committed.

A commit is made in the name of a generation, and counts only while the group has not gone on without this
member. Commits that are made soon are sent in order; their callbacks are called in the same order, inside
``poll``, ``commit`` and ``close``, never in between.
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
from odradek.client.consumer.group.requests import read_commit, read_committed
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
OnCommit = Callable[[Offsets, ClientError | None], Any]

_log: Final = events.logger("consumer")

_UNDER_WAY_MAX: Final = 10_000
"""Commits whose callback has not been called: an application that has so many does not poll."""

_LET_GO: Final = (
    "offsets cannot be committed: the group has gone on without this member, probably because it took longer"
    " than max.poll.interval.ms between two polls; its partitions belong to others"
)
_IN_BETWEEN: Final = (
    "offsets cannot be committed while the group rebalances: poll until the rebalance is through, then commit"
    " what is still assigned"
)


class Pending(NamedTuple):
    """A commit that is made soon."""

    offsets: Offsets
    on_commit: OnCommit | None
    work: asyncio.Task[None]


class Commits:
    """Offsets of one group."""

    def __init__(
        self, context: GroupContext, callbacks: Callbacks, interceptors: ConsumerInterceptors
    ) -> None:
        self._context = context
        self._network = context.network
        self._settings = context.settings
        self._membership = context.membership
        self._callbacks = callbacks
        self._interceptors = interceptors
        self._pending: deque[Pending] = deque()
        self._order = asyncio.Lock()
        metrics = context.network.metrics
        self._made = metrics.counter("commit-total", "Commits that were answered.")
        self._average = metrics.average("commit-latency-avg", "Milliseconds until they were, on average.")
        self._slowest = metrics.maximum("commit-latency-max", "Milliseconds until they were, at most.")

    # Committing.

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit, and try again until it is done or the time is over."""
        await self.send(offsets, timeout_ms)
        await self.run_callbacks()

    async def send(self, offsets: Offsets, timeout_ms: int, *, is_last: bool = False) -> None:
        """The same without calling back for others: for where the application is not.

        One that is the last before partitions go does not wait for a topic that is gone to come back: what it
        says of other topics is committed all the same.
        """
        started_ms = self._context.now_ms()
        # What was to be committed soon comes before, and is called back for before.
        await self.settle(timeout_ms)
        if offsets:
            left_ms = max(0, started_ms + timeout_ms - self._context.now_ms())
            once = self._send_last if is_last else self._send
            await self._until_done(lambda: once(offsets), left_ms, "offsets were not committed")
            self._interceptors.on_commit(offsets)

    def commit_async(self, offsets: Offsets, on_commit: OnCommit | None = None) -> None:
        if len(self._pending) >= _UNDER_WAY_MAX:
            raise InvalidState(
                f"{_UNDER_WAY_MAX} commits wait for their callbacks: poll, and they are called"
            )
        taken = dict(offsets)
        work = asyncio.get_running_loop().create_task(self._send(taken), name="commit")
        self._pending.append(Pending(taken, on_commit, work))
        work.add_done_callback(lambda _work: self._context.on_news())

    async def run_callbacks(self) -> None:
        """Call back for commits that are through, in the order in which they were asked for."""
        while self._pending and self._pending[0].work.done():
            pending = self._pending.popleft()
            error = _given_up() if pending.work.cancelled() else pending.work.exception()
            if error is None:
                self._interceptors.on_commit(pending.offsets)
            if error is not None and not isinstance(error, ClientError):
                raise error
            if pending.on_commit is not None:
                await self._callbacks.call(pending.on_commit, pending.offsets, error)
            elif error is not None:
                _log.warning("commit_failed", group=self._membership.group_id, reason=error)

    async def settle(self, timeout_ms: int) -> None:
        """Wait until the commits under way are through."""
        under_way = [pending.work for pending in self._pending if not pending.work.done()]
        if under_way:
            await asyncio.wait(under_way, timeout=timeout_ms / 1000)

    async def end(self) -> None:
        """Give up what is still under way, and call back for all."""
        under_way = [pending.work for pending in self._pending if not pending.work.done()]
        for work in under_way:
            work.cancel()
        if under_way:
            await asyncio.wait(under_way)
        await self.run_callbacks()

    async def _send(self, offsets: Offsets) -> None:
        """Commit once; raises whatever stands against it."""
        generation = self._in_whose_name()
        began_ms = self._context.now_ms()
        told, broker = await self._ask(self._context.requests.commit(offsets, generation))
        errors = read_commit(told)
        self._made.add()
        self._average.record(self._context.now_ms() - began_ms)
        self._slowest.record(self._context.now_ms() - began_ms)
        for code in errors.values():
            self._judge(code, generation)
        for partition, code in errors.items():
            raise broker_error(code, f"the offset of {partition} was not committed", broker=broker)

    async def _send_last(self, offsets: Offsets) -> None:
        try:
            await self._send(offsets)
        except ClientError as failed:
            raise _for_good(failed) from None

    def _in_whose_name(self) -> Generation:
        if not self._context.subscription.is_by_group:
            return Generation()
        generation = self._membership.committing_generation()
        if generation is None:
            raise _outside(self._membership.is_rebalancing)
        return generation

    def _judge(self, code: ErrorCode, asked: Generation) -> None:
        """What an error of one partition says of all of them; raised if it says something of the member."""
        went_on = self._membership.generation != asked and asked.id >= 0
        rebalancing = self._membership.is_rebalancing or self._membership.needs_join
        judged = self._membership.commit_answered(code, asked)
        if judged is GroupErrorAction.REDISCOVER:
            self._context.mark_coordinator_unknown()
        elif judged is GroupErrorAction.REJOIN:
            raise _outside(rebalancing=True)
        elif judged in (GroupErrorAction.FORGET, GroupErrorAction.RESTART):
            raise _outside(rebalancing=went_on and rebalancing, code=code)

    # What is committed.

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
        if wanted:
            found.update(
                await self._until_done(
                    lambda: self._fetch(wanted), timeout_ms, "committed offsets were not told"
                )
            )
        return found

    async def _fetch(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        told, broker = await self._ask(self._context.requests.fetch_offsets(partitions))
        answer = read_committed(told)
        what = f"committed offsets of group {self._membership.group_id}"
        if answer.code is not ErrorCode.NONE:
            if answer.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._context.mark_coordinator_unknown()
            raise broker_error(answer.code, what, broker=broker)
        for partition, code in answer.errors.items():
            # A topic that is not there will not come by asking again; an open transaction will end.
            raise _for_good(broker_error(code, f"{what}: {partition}", broker=broker))
        return answer.offsets

    # Asking.

    async def _ask(self, request: Any) -> tuple[Any, str]:
        """The coordinator's answer, and who that is."""
        try:
            async with self._order:
                # Sent one after the other: the last commit must be the one that stays.
                # Less time than a whole call has, which can then say what it met.
                timeout_ms = self._settings[REQUEST_TIMEOUT_MS]
                node = await self._context.coordinator(timeout_ms)
                while (answer := self._network.send_if_ready(node, request)) is None:
                    await self._network.wait_until_ready(node, timeout_ms)
            return await answer, self._network.broker_name(node)
        except (ConnectionFailed, TimedOut):
            self._context.mark_coordinator_unknown()
            raise

    async def _until_done(self, attempt: Callable[[], Any], timeout_ms: int, what: str) -> Any:
        """Try until it is done, or fails for good, or the time is over."""
        trouble: ClientError | None = None
        attempts = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except ClientError as failed:
                        if not failed.retriable or failed.code is ErrorCode.REBALANCE_IN_PROGRESS:
                            raise
                        trouble = failed
                    await self._context.clock.sleep_ms(
                        backoff(attempts, self._settings, self._context.entropy)
                    )
                    attempts += 1
        except TimeoutError:
            said = "" if trouble is None else f": {trouble}"
            raise TimedOut(f"{what} within {timeout_ms} ms{said}") from trouble


def _given_up() -> ClientClosed:
    return ClientClosed("the consumer was closed before this commit was answered")


def _outside(rebalancing: bool, code: ErrorCode | None = None) -> RequestRefused:
    """A commit by a member that the group does not count on, or not now."""
    if rebalancing:
        return RequestRefused(_IN_BETWEEN, code=ErrorCode.REBALANCE_IN_PROGRESS, retriable=True)
    return CommitFailed(_LET_GO, code=code, retriable=False)


def _for_good(error: ClientError) -> ClientError:
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        error.retriable = False
    return error
