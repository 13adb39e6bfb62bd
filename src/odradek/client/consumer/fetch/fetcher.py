"""The fetcher: sends Fetch requests, one in flight per broker, and handles their responses.

Fetches are sent by ``poll``, after a response, and when the application has drained the buffer, so that
brokers work while the application does. Records go into the ``FetchBuffer``. Errors that need no decision of
the application are handled at once; the others are deferred to ``handle_errors``, which ``poll`` calls.
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
    plan_fetches,
    topic_names,
)
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.network.network_client import NetworkClient
from odradek.client.values import Node
from odradek.cluster.fetch_session_handler import FetchSessionHandler, PartitionFetch
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
from odradek.records.client.consumer import RecordReader
from odradek.wire.messages.fetch import FetchResponse, PartitionData

_FETCH_KEY: Final = 1
_CLOSE_TIMEOUT_MS: Final = 1000


class Fetcher:
    """Sends fetches and fills the buffer; ``notify`` is called when a waiting ``poll`` should check again."""

    def __init__(
        self,
        network: NetworkClient,
        clock: Clock,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        config: FetchConfig,
        notify: Callable[[], None],
        *,
        check_crcs: bool,
        retry_backoff_ms: int,
        preferred_replica_ms: int,
        request_timeout_ms: int,
    ) -> None:
        self._network = network
        self._clock = clock
        self._subscription = subscription
        self._buffer = buffer
        self._config = config
        self._notify = notify
        self._check_crcs = check_crcs
        self._retry_backoff_ms = retry_backoff_ms
        self._preferred_replica_ms = preferred_replica_ms
        self._request_timeout_ms = request_timeout_ms
        self._metrics = FetchMetrics(network.metrics)
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: dict[int, asyncio.Future[Any]] = {}
        """Fetches, or connection attempts, in flight by broker."""
        self._in_flight_bytes: dict[int, int] = {}
        """Maximum size of the responses to fetches in flight, by broker."""
        self._backoff_until_ms: dict[TopicPartition, int] = {}
        """Partitions not to be fetched until then, after an error."""
        self._deferred_errors: dict[TopicPartition, FetchError] = {}
        self._failure: ClientError | None = None
        self._is_closed = False

    # Sending.

    def send(self) -> None:
        """Send a fetch to each broker without one in flight that has partitions to fetch."""
        nodes = self._network.metadata.nodes
        if self._is_closed or (nodes and nodes.keys() <= self._in_flight.keys()):
            return  # all brokers have a fetch in flight: the next response calls this again
        now_ms = self._clock.monotonic_ms()
        plan = plan_fetches(
            self._subscription.assigned,
            self._network.metadata,
            self._config.partition_max_bytes,
            now_ms,
            nodes_in_flight=self._in_flight,
            backing_off=self._backing_off(now_ms),
            buffered_end=self._buffered_end(),
        )
        if plan.needs_metadata:
            self._network.request_update()
        for node_id, node_plan in plan.by_node.items():
            self._send_to(node_id, node_plan, now_ms)

    def _backing_off(self, now_ms: int) -> set[TopicPartition]:
        if self._backoff_until_ms:
            self._backoff_until_ms = {
                partition: until_ms
                for partition, until_ms in self._backoff_until_ms.items()
                if until_ms > now_ms
            }
        return self._backoff_until_ms.keys() | self._deferred_errors.keys()

    def _buffered_end(self) -> Callable[[TopicPartition], int | None]:
        """Return the ``buffered_end`` of ``plan_fetches``, which also bounds the buffer."""
        buffered, assigned = self._buffer.buffered(), self._subscription.assigned
        bytes_max = self._config.max_bytes * max(len(self._network.metadata.nodes), 1)
        available_bytes = bytes_max - self._buffer.size_bytes - sum(self._in_flight_bytes.values())
        # Bytes the application can read now: if there are enough, even partitions without any can wait.
        readable_bytes = sum(
            partition_buffer.size_bytes
            for partition, partition_buffer in buffered.items()
            if (state := assigned.get(partition)) is not None and state.is_fetchable
        )

        def buffered_end(partition: TopicPartition) -> int | None:
            nonlocal available_bytes
            partition_buffer = buffered.get(partition)
            if partition_buffer is None:
                return -1 if readable_bytes < bytes_max else None
            is_full = partition_buffer.fetch_count >= COMPLETED_FETCHES_MAX
            if is_full or available_bytes < self._config.partition_max_bytes:
                return None
            available_bytes -= self._config.partition_max_bytes
            return partition_buffer.end_offset

        return buffered_end

    def _send_to(self, node_id: int, plan: NodePlan, now_ms: int) -> None:
        if not self._network.is_ready(node_id):
            self._connect(node_id)
            return
        session = self._sessions.setdefault(node_id, FetchSessionHandler())
        session_request = session.build(plan.partitions)
        supports_ids = _FETCH_KEY in (versions := self._network.versions(node_id)) and (
            versions[_FETCH_KEY].stop > IDS_SINCE
        )
        by_id = supports_ids and session_request.uses_topic_ids
        request = fetch_request(session_request, self._config, by_id=by_id, is_short=plan.is_short)
        try:
            response = self._network.send_if_ready(
                node_id,
                request,
                timeout_ms=self._request_timeout_ms,
                version_max=None if session_request.uses_topic_ids else IDS_SINCE - 1,
            )
        except ClientError as error:
            session.handle_error()
            self._fail(error)
            return
        if response is None:
            session.handle_error()
            self._connect(node_id)
            return
        self._in_flight[node_id] = response
        self._in_flight_bytes[node_id] = min(
            self._config.max_bytes, len(plan.partitions) * self._config.partition_max_bytes
        )
        response.add_done_callback(partial(self._on_completion, node_id, dict(session.partitions), now_ms))

    def _connect(self, node_id: int) -> None:
        async def connect() -> None:
            try:
                await self._network.wait_until_ready(node_id, self._request_timeout_ms)
            except (ConnectionFailed, TimedOut):
                self._leave_read_replica(node_id)
                self._network.request_update()
            except ClientError as error:
                self._fail(error)

        task = asyncio.get_running_loop().create_task(connect(), name=f"connect to {node_id}")
        self._in_flight[node_id] = task
        task.add_done_callback(lambda _: self._on_connect(node_id))

    def _on_connect(self, node_id: int) -> None:
        self._in_flight.pop(node_id, None)
        if self._failure is None:
            self.send()

    def _fail(self, error: ClientError) -> None:
        """Keep a non-retriable error for the next poll to raise."""
        if not isinstance(error, ClientClosed):
            self._failure = error
            self._notify()

    # Responses.

    def _on_completion(
        self,
        node_id: int,
        fetches: dict[TopicPartition, PartitionFetch],
        sent_ms: int,
        future: asyncio.Future[Any],
    ) -> None:
        del self._in_flight[node_id], self._in_flight_bytes[node_id]
        if future.cancelled() or self._is_closed:
            return
        failure = future.exception()
        if failure is not None:
            self._on_failure(node_id, failure)
            return
        now_ms = self._clock.monotonic_ms()
        response = future.result()
        names = topic_names(fetches.items())
        partitions = {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
        }
        error = ErrorCode(response.error_code)
        is_usable = self._sessions[node_id].handle_response(
            error, response.session_id, partitions.keys(), response.throttle_time_ms > 0
        )
        if is_usable:
            endpoints = [Node(*endpoint) for endpoint in _endpoints(response)]
            self._handle_partitions(node_id, fetches, partitions, endpoints)
            size_bytes = _records_size(partitions)
            self._metrics.record_response(now_ms - sent_ms, response.throttle_time_ms, size_bytes)
            self._notify()
        elif error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
            self._network.request_update()
        self.send()

    def _on_failure(self, node_id: int, failure: BaseException) -> None:
        self._sessions[node_id].handle_error()
        self._leave_read_replica(node_id)
        if isinstance(failure, AuthenticationFailed | UnsupportedVersion):
            self._fail(failure)
            return
        self._network.request_update()
        self.send()

    def _leave_read_replica(self, node_id: int) -> None:
        """Fetch from the leaders next: this preferred read replica cannot be reached."""
        for partition, state in self._subscription.assigned.items():
            if state.preferred_replica == node_id:
                state.preferred_replica = NO_LEADER
                self._backoff_until_ms.pop(partition, None)

    def _handle_partitions(
        self,
        node_id: int,
        fetches: dict[TopicPartition, PartitionFetch],
        partitions: dict[TopicPartition, PartitionData],
        endpoints: list[Node],
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        for partition, data in partitions.items():
            fetch = fetches[partition]
            error = ErrorCode(data.error_code)
            if error is not ErrorCode.NONE:
                self._handle_error(node_id, partition, fetch, error, data, endpoints)
                continue
            state = self._subscription.assigned.get(partition)
            if state is None:
                continue
            state.high_watermark = data.high_watermark
            state.last_stable_offset = data.last_stable_offset
            state.log_start_offset = data.log_start_offset
            if data.preferred_read_replica >= 0:
                state.prefer(data.preferred_read_replica, now_ms + self._preferred_replica_ms)
            if data.records:
                completed = self._completed_fetch(partition, fetch, data)
                if completed.end_offset is not None and completed.end_offset > fetch.offset:
                    state.offset_bytes = completed.size_bytes / (completed.end_offset - fetch.offset)
                self._buffer.add(completed)

    def _completed_fetch(
        self, partition: TopicPartition, fetch: PartitionFetch, data: PartitionData
    ) -> CompletedFetch:
        aborted = None
        if self._config.read_committed:
            aborted = [(txn.producer_id, txn.first_offset) for txn in data.aborted_transactions or ()]
        records: Any = data.records
        reader = RecordReader(
            records,
            partition.topic,
            partition.partition,
            fetch.offset,
            aborted=aborted,
            check_crcs=self._check_crcs,
        )
        return CompletedFetch(partition, reader, len(records), reader.end_offset(), fetch.leader_epoch)

    # Errors.

    def _handle_error(
        self,
        node_id: int,
        partition: TopicPartition,
        fetch: PartitionFetch,
        error: ErrorCode,
        data: PartitionData,
        endpoints: list[Node],
    ) -> None:
        """Handle a partition error, or defer it to ``handle_errors``."""
        action = fetch_error_action(error)
        state = self._subscription.assigned.get(partition)
        if action is FetchErrorAction.DEFER and not self._is_lagging_follower(node_id, partition, error):
            broker = self._network.broker_name(node_id)
            self._deferred_errors[partition] = FetchError(error, fetch.offset, broker)
            return
        # A follower may lag behind: fetch from the leader next.
        if state is not None:
            state.preferred_replica = NO_LEADER
        self._backoff_until_ms[partition] = self._clock.monotonic_ms() + self._retry_backoff_ms
        if action is FetchErrorAction.UPDATE_METADATA:
            leader = data.current_leader
            if leader is not None and leader.leader_id >= 0 and leader.leader_epoch >= 0:
                self._network.update_leader(partition, leader.leader_id, leader.leader_epoch, endpoints)
            self._network.request_update()

    def _is_lagging_follower(self, node_id: int, partition: TopicPartition, error: ErrorCode) -> bool:
        """Return True if the offset is out of range at another broker than the leader.

        Only the leader decides on the range, also if the follower is not the preferred read replica any more.
        """
        leader, _ = self._network.metadata.leader(partition)
        return error is ErrorCode.OFFSET_OUT_OF_RANGE and node_id != leader

    def handle_errors(self) -> None:
        """Handle deferred errors: reset positions by policy, or raise."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        buffered = self._buffer.buffered() if self._deferred_errors else {}
        for partition, error in list(self._deferred_errors.items()):
            state = self._subscription.assigned.get(partition)
            position = None if state is None else state.position
            if partition in buffered and position is not None and position.offset < error.offset:
                continue  # records fetched before the error are read first
            del self._deferred_errors[partition]
            if position is not None and position.offset == error.offset:
                self._reset_or_raise(partition, error)

    def _reset_or_raise(self, partition: TopicPartition, error: FetchError) -> None:
        self._subscription.move_to_end(partition)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and self._subscription.has_reset_policy:
            self._subscription.request_reset(partition)
            return
        self._backoff_until_ms[partition] = self._clock.monotonic_ms() + self._retry_backoff_ms
        raise fetch_exception(partition, error)

    def on_leaders_changed(self) -> None:
        """End all backoffs: partitions may have a new leader."""
        self._backoff_until_ms.clear()

    @property
    def has_backoff(self) -> bool:
        """True if a partition is in backoff after an error."""
        return bool(self._backoff_until_ms)

    # Closing.

    async def close(self) -> None:
        """Close fetch sessions, waiting briefly, and cancel requests in flight."""
        self._is_closed = True
        close_requests = [
            request
            for node_id, session in self._sessions.items()
            if node_id not in self._in_flight
            and (request := self._close_session(node_id, session)) is not None
        ]
        for future in self._in_flight.values():
            future.cancel()
        connecting = [future for future in self._in_flight.values() if isinstance(future, asyncio.Task)]
        if pending := [*close_requests, *connecting]:
            await asyncio.wait(pending, timeout=_CLOSE_TIMEOUT_MS / 1000)
        self._buffer.clear()

    def _close_session(self, node_id: int, session: FetchSessionHandler) -> asyncio.Future[Any] | None:
        session_request = session.build_close()
        if session_request is None:
            return None
        config = self._config._replace(max_wait_ms=0, min_bytes=0)
        request = fetch_request(session_request, config, by_id=True)
        try:
            response: asyncio.Future[Any] | None = self._network.send_if_ready(
                node_id, request, timeout_ms=_CLOSE_TIMEOUT_MS
            )
        except ClientError:
            return None
        if response is not None:
            response.add_done_callback(lambda future: future.cancelled() or future.exception())
        return response


def _endpoints(response: FetchResponse) -> list[tuple[int, str, int, str | None]]:
    return [
        (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        for endpoint in response.node_endpoints
    ]


def _records_size(partitions: dict[TopicPartition, PartitionData]) -> int:
    return sum(len(data.records) for data in partitions.values() if data.records)
