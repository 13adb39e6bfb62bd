"""Fetches on their way: sent to every broker that has something to give, one at a time to each.

A fetch is sent from ``poll``, when an answer came, and when the application has read what was there: the
brokers work while the application does. Answers with records go into the ``FetchBuffer``. Errors that need
nobody's decision are dealt with when they come; the others wait for ``settle``, which ``poll`` calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from odradek.client.consumer.fetch.buffer import COMPLETED_FETCHES_MAX, CompletedFetch, FetchBuffer
from odradek.client.consumer.fetch.errors import (
    FetchError,
    FetchErrorAction,
    fetch_error_action,
    fetch_exception,
)
from odradek.client.consumer.fetch.metrics import FetchMetrics
from odradek.client.consumer.fetch.plan import (
    IDS_SINCE,
    FetchConfig,
    NodePlan,
    fetch_request,
    names_of,
    plan_fetches,
)
from odradek.client.consumer.fetch.session_handler import FetchSessionHandler, PartitionFetch
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.network.network_client import NetworkClient
from odradek.client.values import Node
from odradek.model.client_errors import (
    AuthenticationFailed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    TimedOut,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.ports.clock import Clock
from odradek.records.codec import RecordReader
from odradek.wire.messages.fetch import PartitionData

_FETCH_KEY: Final = 1
_CLOSE_TIMEOUT_MS: Final = 1000


class Fetcher:
    """``news`` is called whenever a waiting ``poll`` should look again."""

    def __init__(
        self,
        network: NetworkClient,
        clock: Clock,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        limits: FetchConfig,
        news: Callable[[], None],
        *,
        check_crcs: bool,
        rest_ms: int,
        preference_ms: int,
        request_timeout_ms: int,
    ) -> None:
        self._network = network
        self._clock = clock
        self._subscription = subscription
        self._buffer = buffer
        self._limits = limits
        self._news = news
        self._check_crcs = check_crcs
        self._rest_ms = rest_ms
        self._preference_ms = preference_ms
        self._request_timeout_ms = request_timeout_ms
        self._metrics = FetchMetrics(network.metrics)
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._busy: dict[int, asyncio.Future[Any]] = {}
        """Brokers with a fetch, or an attempt to connect, under way."""
        self._awaited_bytes: dict[int, int] = {}
        """How much the fetches under way may bring."""
        self._resting: dict[TopicPartition, int] = {}
        """Partitions that met an error, and until when they are left alone."""
        self._troubles: dict[TopicPartition, FetchError] = {}
        self._failure: ClientError | None = None
        self._is_closed = False

    # Sending.

    def send(self) -> None:
        """Send a fetch to each broker that is free and leads something to fetch."""
        nodes = self._network.metadata.nodes
        if self._is_closed or (nodes and nodes.keys() <= self._busy.keys()):
            return  # everybody has something to do: the next answer comes back here
        now_ms = self._clock.monotonic_ms()
        plan = plan_fetches(
            self._subscription.assigned,
            self._network.metadata,
            self._limits.partition_max_bytes,
            now_ms,
            busy=self._busy,
            resting=self._at_rest(now_ms),
            ahead_of=self._ahead(),
        )
        if plan.needs_metadata:
            self._network.request_update()
        for node_id, node_plan in plan.by_node.items():
            self._send_to(node_id, node_plan, now_ms)

    def _at_rest(self, now_ms: int) -> set[TopicPartition]:
        if self._resting:
            self._resting = {each: until for each, until in self._resting.items() if until > now_ms}
        return self._resting.keys() | self._troubles.keys()

    def _ahead(self) -> Callable[[TopicPartition], int | None]:
        """Where fetched records of a partition end, and whether there is room for more of it."""
        waiting, assigned = self._buffer.waiting(), self._subscription.assigned
        bytes_max = self._limits.max_bytes * max(len(self._network.metadata.nodes), 1)
        room_bytes = bytes_max - self._buffer.size_bytes - sum(self._awaited_bytes.values())
        # What the application can read now: with so much of it, even partitions of which nothing waits can.
        readable_bytes = sum(
            here.size_bytes
            for partition, here in waiting.items()
            if (each := assigned.get(partition)) is not None and each.is_fetchable
        )

        def ahead_of(partition: TopicPartition) -> int | None:
            nonlocal room_bytes
            here = waiting.get(partition)
            if here is None:
                return -1 if readable_bytes < bytes_max else None
            if here.fetch_count >= COMPLETED_FETCHES_MAX or room_bytes < self._limits.partition_max_bytes:
                return None
            room_bytes -= self._limits.partition_max_bytes
            return here.end_offset

        return ahead_of

    def _send_to(self, node_id: int, plan: NodePlan, now_ms: int) -> None:
        if not self._network.is_ready(node_id):
            self._connect(node_id)
            return
        session = self._sessions.setdefault(node_id, FetchSessionHandler())
        asked = session.request(plan.wanted)
        speaks_ids = _FETCH_KEY in (versions := self._network.versions(node_id)) and (
            versions[_FETCH_KEY].stop > IDS_SINCE
        )
        by_id = speaks_ids and asked.uses_topic_ids
        request = fetch_request(asked, self._limits, by_id=by_id, is_short=plan.is_short)
        try:
            answer = self._network.send_if_ready(
                node_id,
                request,
                timeout_ms=self._request_timeout_ms,
                version_max=None if asked.uses_topic_ids else IDS_SINCE - 1,
            )
        except ClientError as failed:
            session.failed()
            self._fail(failed)
            return
        if answer is None:
            session.failed()
            self._connect(node_id)
            return
        self._busy[node_id] = answer
        self._awaited_bytes[node_id] = min(
            self._limits.max_bytes, len(plan.wanted) * self._limits.partition_max_bytes
        )
        answer.add_done_callback(partial(self._answered, node_id, dict(session.partitions), now_ms))

    def _connect(self, node_id: int) -> None:
        async def connect() -> None:
            try:
                await self._network.wait_until_ready(node_id, self._request_timeout_ms)
            except (ConnectionFailed, TimedOut):
                self._network.request_update()
            except ClientError as failed:
                self._fail(failed)

        task = asyncio.get_running_loop().create_task(connect(), name=f"connect to {node_id}")
        self._busy[node_id] = task
        task.add_done_callback(lambda _: self._free(node_id))

    def _free(self, node_id: int) -> None:
        self._busy.pop(node_id, None)
        if self._failure is None:
            self.send()

    def _fail(self, failed: ClientError) -> None:
        """Keep what no retry will mend, for whoever polls."""
        if not isinstance(failed, ClientClosed):
            self._failure = failed
            self._news()

    # Answers.

    def _answered(
        self,
        node_id: int,
        wanted: dict[TopicPartition, PartitionFetch],
        sent_ms: int,
        answer: asyncio.Future[Any],
    ) -> None:
        del self._busy[node_id], self._awaited_bytes[node_id]
        if answer.cancelled() or self._is_closed:
            return
        failed = answer.exception()
        if failed is not None:
            self._unanswered(node_id, failed)
            return
        now_ms = self._clock.monotonic_ms()
        response = answer.result()
        names = names_of(wanted.items())
        told = {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }
        error = ErrorCode(response.error_code)
        is_usable = self._sessions[node_id].answered(
            error, response.session_id, told.keys(), response.throttle_time_ms > 0
        )
        if is_usable:
            self._take_in(node_id, wanted, told, [Node(*each) for each in _endpoints(response)])
            self._metrics.answered(now_ms - sent_ms, response.throttle_time_ms, _size_of(told))
            self._news()
        elif error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
            self._network.request_update()
        self.send()

    def _unanswered(self, node_id: int, failed: BaseException) -> None:
        self._sessions[node_id].failed()
        for partition, each in self._subscription.assigned.items():
            if each.preferred_replica == node_id:
                each.preferred_replica = NO_LEADER
                self._resting.pop(partition, None)
        if isinstance(failed, AuthenticationFailed | UnsupportedVersion):
            self._fail(failed)
            return
        self._network.request_update()
        self.send()

    def _take_in(
        self,
        node_id: int,
        wanted: dict[TopicPartition, PartitionFetch],
        told: dict[TopicPartition, PartitionData],
        endpoints: list[Node],
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        for partition, each in told.items():
            asked = wanted[partition]
            error = ErrorCode(each.error_code)
            if error is not ErrorCode.NONE:
                self._meet(node_id, partition, asked, error, each, endpoints)
                continue
            state = self._subscription.assigned.get(partition)
            if state is None:
                continue
            state.high_watermark = each.high_watermark
            state.last_stable_offset = each.last_stable_offset
            state.log_start_offset = each.log_start_offset
            if each.preferred_read_replica >= 0:
                state.prefer(each.preferred_read_replica, now_ms + self._preference_ms)
            if each.records:
                chunk = self._chunk(partition, asked.offset, each)
                if chunk.end_offset is not None and chunk.end_offset > asked.offset:
                    state.offset_bytes = chunk.size_bytes / (chunk.end_offset - asked.offset)
                self._buffer.add(chunk)

    def _chunk(self, partition: TopicPartition, offset: int, told: PartitionData) -> CompletedFetch:
        aborted = None
        if self._limits.read_committed:
            aborted = [(each.producer_id, each.first_offset) for each in told.aborted_transactions or ()]
        records: Any = told.records
        reader = RecordReader(
            records,
            partition.topic,
            partition.partition,
            offset,
            aborted=aborted,
            check_crcs=self._check_crcs,
        )
        return CompletedFetch(partition, reader, len(records), reader.end_offset())

    # Errors.

    def _meet(
        self,
        node_id: int,
        partition: TopicPartition,
        asked: PartitionFetch,
        error: ErrorCode,
        told: PartitionData,
        endpoints: list[Node],
    ) -> None:
        """Deal with a partition's error, or keep it for ``settle``."""
        reaction = fetch_error_action(error)
        state = self._subscription.assigned.get(partition)
        was_preferred = state is not None and state.preferred_replica == node_id
        if reaction is FetchErrorAction.SETTLE and not (
            was_preferred and error is ErrorCode.OFFSET_OUT_OF_RANGE
        ):
            self._troubles[partition] = FetchError(error, asked.offset, self._network.broker_name(node_id))
            return
        # A replica that is not the leader may lag behind: the leader is asked next.
        if state is not None:
            state.preferred_replica = NO_LEADER
        self._resting[partition] = self._clock.monotonic_ms() + self._rest_ms
        if reaction is FetchErrorAction.REFRESH:
            leader = told.current_leader
            if leader is not None and leader.leader_id >= 0 and leader.leader_epoch >= 0:
                self._network.update_leader(partition, leader.leader_id, leader.leader_epoch, endpoints)
            self._network.request_update()

    def settle(self) -> None:
        """Deal with what answers brought that is the application's to know; raises it."""
        if self._failure is not None:
            failed, self._failure = self._failure, None
            raise failed
        waiting = self._buffer.waiting() if self._troubles else {}
        for partition, trouble in list(self._troubles.items()):
            state = self._subscription.assigned.get(partition)
            position = None if state is None else state.position
            if partition in waiting and position is not None and position.offset < trouble.offset:
                continue  # what was fetched before it is read first
            del self._troubles[partition]
            if position is not None and position.offset == trouble.offset:
                self._deal_with(partition, trouble)

    def _deal_with(self, partition: TopicPartition, trouble: FetchError) -> None:
        self._subscription.serve_last(partition)
        if trouble.error is ErrorCode.OFFSET_OUT_OF_RANGE and self._subscription.has_reset_policy:
            self._subscription.request_reset(partition)
            return
        self._resting[partition] = self._clock.monotonic_ms() + self._rest_ms
        raise fetch_exception(partition, trouble)

    def leaders_changed(self) -> None:
        """Let partitions that wait for a leader try again at once."""
        self._resting.clear()

    @property
    def is_resting(self) -> bool:
        """Whether a partition is left alone for a while after an error."""
        return bool(self._resting)

    # Ending.

    async def close(self) -> None:
        """Tell brokers that their sessions have ended, without waiting long; end what is under way."""
        self._is_closed = True
        farewells = [
            asked
            for node_id, session in self._sessions.items()
            if node_id not in self._busy and (asked := self._farewell(node_id, session)) is not None
        ]
        for under_way in self._busy.values():
            under_way.cancel()
        waiting = [*farewells, *(one for one in self._busy.values() if isinstance(one, asyncio.Task))]
        if waiting:
            await asyncio.wait(waiting, timeout=_CLOSE_TIMEOUT_MS / 1000)
        self._buffer.clear()

    def _farewell(self, node_id: int, session: FetchSessionHandler) -> asyncio.Future[Any] | None:
        closing = session.closing()
        if closing is None:
            return None
        request = fetch_request(closing, self._limits._replace(max_wait_ms=0, min_bytes=0), by_id=True)
        try:
            answer = self._network.send_if_ready(node_id, request, timeout_ms=_CLOSE_TIMEOUT_MS)
        except ClientError:
            return None
        if answer is not None:
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return answer


def _endpoints(response: Any) -> list[tuple[int, str, int, str | None]]:
    return [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]


def _size_of(told: dict[TopicPartition, PartitionData]) -> int:
    return sum(len(each.records) for each in told.values() if each.records)
