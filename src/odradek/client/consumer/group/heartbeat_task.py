"""The heartbeat task: keeps a member in its group while the application processes records.

It also leaves the group when the application has not polled for ``max.poll.interval.ms``, so that others get
its partitions; the next poll rejoins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.error_actions import GroupApi, GroupErrorAction
from odradek.client.consumer.group.heartbeat import Heartbeat
from odradek.client.consumer.group.membership import MemberState
from odradek.client.errors import broker_error
from odradek.config.client.connection import RETRY_BACKOFF_MS
from odradek.config.client.consumer import HEARTBEAT_INTERVAL_MS, MAX_POLL_INTERVAL_MS, SESSION_TIMEOUT_MS
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.telemetry import events

_log: Final = events.logger("consumer")


class HeartbeatTask:
    """Runs while the member has a generation; ``failure`` is an error for the next poll to raise."""

    def __init__(self, context: GroupContext, leave: Callable[[str], Awaitable[None]]) -> None:
        settings = context.settings
        self._context = context
        self._network = context.network
        self._membership = context.membership
        self._clock = context.clock
        self._notify = context.notify
        self._leave = leave
        self._poll_interval_max_ms = settings[MAX_POLL_INTERVAL_MS]
        self._interval_ms = settings[HEARTBEAT_INTERVAL_MS]
        self._retry_backoff_ms = settings[RETRY_BACKOFF_MS]
        self._heartbeat = Heartbeat(
            self._interval_ms, settings[SESSION_TIMEOUT_MS], self._poll_interval_max_ms
        )
        self._log = _log.bind(group=context.group_id)
        self._task: asyncio.Task[None] | None = None
        self.failure: ClientError | None = None
        self._broker: str | None = None
        self._sent_count = context.network.metrics.counter("heartbeat-total", "Heartbeats sent.")
        self._response_time_max = context.network.metrics.maximum(
            "heartbeat-response-time-max", "Maximum heartbeat response time in milliseconds."
        )

    def record_poll(self, now_ms: int) -> None:
        self._heartbeat.record_poll(now_ms)

    def start(self) -> None:
        """Start sending heartbeats: the member has a generation."""
        self._heartbeat.restart(self._clock.monotonic_ms())
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
                wait_ms = self._heartbeat.time_to_next_heartbeat_ms(now_ms) or self._interval_ms
                await self._clock.sleep_ms(max(1, wait_ms))
            elif self._heartbeat.is_poll_timeout_expired(now_ms):
                await self._on_poll_timeout()
            elif wait_ms := self._heartbeat.time_to_next_heartbeat_ms(now_ms):
                await self._clock.sleep_ms(min(wait_ms, self._heartbeat.time_to_poll_timeout_ms(now_ms)))
            else:
                await self._send_heartbeat(now_ms)

    async def _on_poll_timeout(self) -> None:
        self._log.warning(
            "poll_timeout_expired",
            reason=f"no poll for {self._poll_interval_max_ms} ms (max.poll.interval.ms): the application"
            " takes too long to process records. The member leaves the group and rejoins with the next poll;"
            " raise max.poll.interval.ms, or lower max.poll.records",
        )
        await self._leave("consumer poll timeout has expired")
        self._notify()

    async def _send_heartbeat(self, now_ms: int) -> None:
        generation = self._membership.generation
        self._heartbeat.record_sent(now_ms)
        self._sent_count.add()
        try:
            # The session may end before the request timeout: then look the coordinator up again.
            timeout_ms = max(self._retry_backoff_ms, self._heartbeat.time_to_session_timeout_ms(now_ms))
            async with asyncio.timeout(timeout_ms / 1000):
                code = await self._send_request()
        except (ConnectionFailed, TimedOut, TimeoutError) as error:
            self._on_failure(error)
            return
        except ClientError as error:
            self._fail(error)
            self._membership.leave(str(error))
            return
        self._response_time_max.record(self._clock.monotonic_ms() - now_ms)
        self._apply(self._membership.handle_heartbeat(code, generation), code)

    async def _send_request(self) -> ErrorCode:
        node = await self._context.coordinator(self._poll_interval_max_ms)
        self._broker = self._network.broker_name(node)
        request = self._context.requests.heartbeat(self._membership.generation)
        response = await self._network.send(node, request)
        return ErrorCode(response.error_code)

    def _on_failure(self, error: BaseException) -> None:
        now_ms = self._clock.monotonic_ms()
        self._log.warning(
            "heartbeat_failed",
            reason=str(error) or "no response within the session timeout",
            session_expired=self._heartbeat.is_session_expired(now_ms),
        )
        self._context.mark_coordinator_unknown()
        self._heartbeat.record_failure(now_ms, self._retry_backoff_ms)

    def _apply(self, action: GroupErrorAction, code: ErrorCode) -> None:
        now_ms = self._clock.monotonic_ms()
        if action in (GroupErrorAction.RETRY, GroupErrorAction.REDISCOVER):
            self._heartbeat.record_failure(now_ms, self._retry_backoff_ms)
            if action is GroupErrorAction.REDISCOVER:
                self._context.mark_coordinator_unknown()
            return
        self._heartbeat.record_response(now_ms)
        if action is GroupErrorAction.FAIL:
            operation = f"{GroupApi.HEARTBEAT.value} to group {self._membership.group_id}"
            self._fail(broker_error(code, operation, broker=self._broker))
        elif action is not GroupErrorAction.NONE:
            self._log.info("heartbeat_error", code=code.name, action=action.value)
            self._notify()

    def _fail(self, error: ClientError) -> None:
        self._log.error("heartbeat_fatal_error", reason=error)
        self.failure = error
        self._notify()
