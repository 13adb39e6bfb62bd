"""Heartbeats: a task that keeps a member in its group while the application works on what it polled.

It also watches the application: one that does not poll for ``max.poll.interval.ms`` is out, and its
partitions go to others, until it polls again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.error_actions import GroupApi, GroupErrorAction
from odradek.client.consumer.group.heartbeat import Heartbeats
from odradek.client.consumer.group.membership import MemberState
from odradek.client.errors import broker_error
from odradek.config.client.connection import RETRY_BACKOFF_MS
from odradek.config.client.consumer import HEARTBEAT_INTERVAL_MS, MAX_POLL_INTERVAL_MS, SESSION_TIMEOUT_MS
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.telemetry import events

_log: Final = events.logger("consumer")


class HeartbeatTask:
    """The task runs while the member has a generation; ``failure`` is what the application must hear."""

    def __init__(self, context: GroupContext, leave: Callable[[str], Awaitable[None]]) -> None:
        settings = context.settings
        self._context = context
        self._network = context.network
        self._membership = context.membership
        self._clock = context.clock
        self._on_news = context.on_news
        self._leave = leave
        self._poll_interval_max_ms = settings[MAX_POLL_INTERVAL_MS]
        self._interval_ms = settings[HEARTBEAT_INTERVAL_MS]
        self._rest_ms = settings[RETRY_BACKOFF_MS]
        self._heartbeats = Heartbeats(
            self._interval_ms, settings[SESSION_TIMEOUT_MS], self._poll_interval_max_ms
        )
        self._log = _log.bind(group=context.group_id)
        self._task: asyncio.Task[None] | None = None
        self.failure: ClientError | None = None
        self._broker: str | None = None
        self._beats = context.network.metrics.counter("heartbeat-total", "Heartbeats sent.")
        self._slowest = context.network.metrics.maximum(
            "heartbeat-response-time-max", "Longest time in milliseconds until one was answered."
        )

    def polled(self, now_ms: int) -> None:
        self._heartbeats.polled(now_ms)

    def begin(self) -> None:
        """The member has a generation."""
        self._heartbeats.restart(self._clock.monotonic_ms())
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="heartbeats")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while self._membership.generation.id >= 0:
            now_ms = self._clock.monotonic_ms()
            if self._membership.state is MemberState.JOINING:
                await self._clock.sleep_ms(max(1, self._heartbeats.wait_ms(now_ms) or self._interval_ms))
            elif self._heartbeats.is_poll_overdue(now_ms):
                await self._give_up_on_application()
            elif wait_ms := self._heartbeats.wait_ms(now_ms):
                await self._clock.sleep_ms(min(wait_ms, self._heartbeats.poll_wait_ms(now_ms)))
            else:
                await self._beat(now_ms)

    async def _give_up_on_application(self) -> None:
        self._log.warning(
            "poll_timeout_expired",
            reason=f"nothing was polled for {self._poll_interval_max_ms} ms: that is longer than"
            " max.poll.interval.ms, so the application takes too long with what it polls. It leaves the group"
            " and joins again with the next poll; raise max.poll.interval.ms, or poll fewer records with"
            " max.poll.records",
        )
        await self._leave("the application has not polled for too long")
        self._on_news()

    async def _beat(self, now_ms: int) -> None:
        asked = self._membership.generation
        self._heartbeats.sent(now_ms)
        self._beats.add()
        try:
            # The session may end before the request's own time does: then the coordinator is looked for.
            async with asyncio.timeout(max(self._rest_ms, self._heartbeats.patience_ms(now_ms)) / 1000):
                code = await self._ask()
        except (ConnectionFailed, TimedOut, TimeoutError) as failed:
            self._unanswered(failed)
            return
        except ClientError as failed:
            self._tell(failed)
            self._membership.leave(str(failed))
            return
        self._slowest.record(self._clock.monotonic_ms() - now_ms)
        self._judge(self._membership.heartbeat_answered(code, asked), code)

    async def _ask(self) -> ErrorCode:
        node = await self._context.coordinator(self._poll_interval_max_ms)
        self._broker = self._network.broker_name(node)
        request = self._context.requests.heartbeat(self._membership.generation)
        answer = await self._network.send(node, request)
        return ErrorCode(answer.error_code)

    def _unanswered(self, failed: BaseException) -> None:
        now_ms = self._clock.monotonic_ms()
        self._log.warning(
            "heartbeat_failed",
            reason=str(failed) or "no answer within the session",
            session_over=self._heartbeats.is_session_over(now_ms),
        )
        self._context.mark_coordinator_unknown()
        self._heartbeats.failed(now_ms, self._rest_ms)

    def _judge(self, judged: GroupErrorAction, code: ErrorCode) -> None:
        now_ms = self._clock.monotonic_ms()
        if judged in (GroupErrorAction.RETRY, GroupErrorAction.REDISCOVER):
            self._heartbeats.failed(now_ms, self._rest_ms)
            if judged is GroupErrorAction.REDISCOVER:
                self._context.mark_coordinator_unknown()
            return
        self._heartbeats.answered(now_ms)
        if judged is GroupErrorAction.FAIL:
            what = f"could not {GroupApi.HEARTBEAT.value} {self._membership.group_id}"
            self._tell(broker_error(code, what, broker=self._broker))
        elif judged is not GroupErrorAction.FINE:
            self._log.info("heartbeat_error", code=code.name, so=judged.value)
            self._on_news()

    def _tell(self, failed: ClientError) -> None:
        self._log.error("heartbeat_fatal_error", reason=failed)
        self.failure = failed
        self._on_news()
