"""Fetch, versions 0 to 17: read batches from the partitions this broker leads.

v3 adds max_bytes, v4 the isolation level, v7 fetch sessions (KIP-227), v9 leader epochs, v10 zstd, v11 the
client's rack (KIP-392), v12 is flexible, v13 uses topic ids, v16 names current leaders
(KIP-951). Versions 0 to 3 get magic 0 or 1, down-converted, unless ``message.downconversion.enable`` is
false.

The request waits in the fetch purgatory until ``min_bytes`` can be read, a partition has an error or a
diverging epoch, or ``max_wait_ms`` has passed. The first batch is returned whole, however large, so that
consumers make progress; up to version 2, without max_bytes, that applies to each partition.

A follower's fetch tells the leader what the follower has, for all partitions of its session: see
``ReplicaManager.record_follower_fetch``. It waits for records up to the log end offset, and learns the high
watermark from the response.

The loop waits for no disk here: a partition whose index or batches are not in memory is rehearsed on a thread
and then read; records are converted on a thread. What is sent is brought by the network port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from odradek.broker.requests.current_leader import find_current_leader
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.broker.requests.request_meter import RequestMeter
from odradek.config import broker as settings
from odradek.log.segments.log_segment import WouldBlock
from odradek.log.segments.page_in import PAGE_IN_ATTEMPTS_MAX
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.protocol_enums import IsolationLevel
from odradek.ports.files import FileSlice, Part
from odradek.ports.workers import Workers
from odradek.records.append_rules import WORKER_LIMITS, WorkLimitExceeded
from odradek.records.conversion import down_convert
from odradek.replication.delayed.delayed_fetch import DelayedFetch
from odradek.replication.fetch_sessions.fetch_context import FetchContext, FetchSessionResponse, new_context
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, FetchPartitionData, SessionKey
from odradek.replication.fetch_sessions.follower_watches import FollowerWatches
from odradek.replication.partition import CONSUMER_REPLICA_ID, Partition
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager
from odradek.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

MAX_BYTES_SINCE = 3
MAGIC_2_SINCE = 4
MAGIC_1_SINCE = 2
ZSTD = "zstd"
ZSTD_SINCE = 10
RACK_SINCE = 11
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
CURRENT_LEADER_SINCE = 16

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors after which a client looks for another leader."""

Response = FetchResponse | Coroutine[None, None, FetchResponse]
Result = Response | PendingResponse[Response] | Coroutine[None, None, Response | PendingResponse[Response]]


def fetch(request: FetchRequest, context: RequestContext) -> Result:
    broker = context.broker
    replica_id = _replica_id(request, context.version)
    fetch_context = new_context(
        broker.fetch_session_cache,
        request.session_id,
        request.session_epoch,
        _requested_partitions(request, context),
        _forgotten_partitions(request, context.version),
        uses_topic_ids=context.version >= TOPIC_IDS_SINCE,
        from_follower=replica_id >= 0,
        now_ms=broker.clock.monotonic_ms(),
    )
    attempt = FetchAttempt(request, context, fetch_context, replica_id, may_block=False)
    if attempt.would_block:
        return _page_in_and_read(attempt, request, context, fetch_context, replica_id)
    return _respond(attempt, request, context)


async def _page_in_and_read(
    attempt: FetchAttempt,
    request: FetchRequest,
    context: RequestContext,
    fetch_context: FetchContext,
    replica_id: int,
) -> Response | PendingResponse[Response]:
    """Page in the data that was not in memory and read again, a bounded number of times."""
    for remaining in reversed(range(PAGE_IN_ATTEMPTS_MAX)):
        loads = [partition.page_in(error) for partition, error in attempt.would_block]
        await asyncio.gather(*loads)
        attempt = FetchAttempt(request, context, fetch_context, replica_id, may_block=remaining == 0)
        if not attempt.would_block:
            break
    return _respond(attempt, request, context)


def _respond(
    attempt: FetchAttempt, request: FetchRequest, context: RequestContext
) -> Response | PendingResponse[Response]:
    if attempt.can_complete() or request.max_wait_ms <= 0:
        return attempt.response()
    pending: PendingResponse[Response] = PendingResponse()
    delayed = DelayedFetch(
        attempt.retry, lambda: pending.complete(attempt.response()), attempt.retry_partition
    )
    context.broker.replica_manager.delay_fetch(delayed, attempt.watched(), request.max_wait_ms)
    return pending


class FetchAttempt:
    """One fetch in progress: the results of each partition so far, and whether they suffice.

    If it may not wait for the disk, ``would_block`` lists what was not in memory, and it has no response.
    """

    __slots__ = (
        "_bytes_max",
        "_client_rack",
        "_context",
        "_fetch_context",
        "_indexes",
        "_isolation",
        "_may_block",
        "_meter",
        "_min_bytes",
        "_must_respond",
        "_only_leader",
        "_partitions",
        "_quota",
        "_replica_id",
        "_results",
        "_size_bytes",
        "would_block",
    )

    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext,
        fetch_context: FetchContext,
        replica_id: int,
        may_block: bool,
    ) -> None:
        self._context = context
        self._fetch_context = fetch_context
        self._replica_id = replica_id
        self._isolation = request.isolation_level
        self._bytes_max = min(request.max_bytes, context.broker.config.broker[settings.FETCH_MAX_BYTES])
        self._meter = context.meter
        if self._meter is not None:
            if replica_id >= 0:
                self._meter.exempt()
            else:
                self._bytes_max = min(self._bytes_max, self._meter.fetch_bytes_max())
        self._min_bytes = min(request.min_bytes, self._bytes_max)
        self._size_bytes = 0
        self._must_respond = bool(fetch_context.error)
        self._may_block = may_block
        self._only_leader = replica_id >= 0 or context.version < RACK_SINCE
        replica_manager = context.broker.replica_manager
        # A selector is rarely configured: without one no rack is looked up.
        self._client_rack: str | None = None
        if replica_manager.replica_selector is not None and not self._only_leader:
            self._client_rack = request.rack_id
        self._quota: ReplicationQuotaManager | None = None
        if replica_id >= 0 and replica_manager.leader_quota is not None:
            self._quota = replica_manager.leader_quota if replica_manager.leader_quota.is_active else None
        self.would_block: list[tuple[Partition, WouldBlock]] = []
        self._partitions: list[Partition | None] = []
        self._indexes: dict[Hashable, int] | None = None
        """Index of each partition, or of its key in a follower's session, once one of several has changed."""
        self._results: list[FetchPartitionData] = []
        for requested in fetch_context.partitions:
            partition = replica_manager.get_partition(requested.topic, requested.partition)
            self._partitions.append(partition)
            self._results.append(self._read(requested, partition))
        self._may_block = True
        if replica_id >= 0 and not self.would_block:
            self._record_follower_fetches()

    def can_complete(self) -> bool:
        return (
            self._must_respond
            or self._size_bytes >= self._min_bytes
            or (not self._results and self._fetch_context.watches is None)
        )

    def retry(self) -> bool:
        """Read the partitions that changed again; return whether the fetch can complete."""
        if self._fetch_context.watches is not None:
            self._read_changed(self._fetch_context.watches)
            return self.can_complete()
        for index in range(len(self._partitions)):
            self._read_again(index)
        return self.can_complete()

    def retry_partition(self, partition: Hashable) -> bool:
        """Read one of the watched partitions again; return whether the fetch can complete."""
        if self._fetch_context.watches is not None:
            return self.retry()
        if len(self._partitions) == 1:
            self._read_again(0)
            return self.can_complete()
        if self._indexes is None:
            self._indexes = {watched: index for index, watched in enumerate(self._partitions)}
        self._read_again(self._indexes[partition])
        return self.can_complete()

    def _read_again(self, index: int) -> None:
        """Read a partition again if its result could be different."""
        partition, result = self._partitions[index], self._results[index]
        if partition is not None and partition.has_changed_since(result, self._replica_id):
            self._size_bytes -= result.records_bytes
            self._results[index] = self._read(result.request, partition)
            if self._replica_id >= 0:
                self._results[index].log_end_offset = partition.log_end_offset

    def _read_changed(self, watches: FollowerWatches) -> None:
        """Read the partitions of a follower's session that changed: those read before, and others of it."""
        if not self._fetch_context.is_current:
            return
        indexes = self._indexes
        if indexes is None:
            indexes = self._indexes = _index_results(self._results)
        for requested in watches.take_changed():
            partition = self._context.broker.replica_manager.get_partition(
                requested.topic, requested.partition
            )
            index = indexes.get(requested.key)
            if index is None:
                indexes[requested.key] = len(self._results)
                result = self._read(requested, partition)
                self._partitions.append(partition)
                self._results.append(result)
            else:
                self._size_bytes -= self._results[index].records_bytes
                result = self._read(requested, partition)
                self._partitions[index] = partition
                self._results[index] = result
            if partition is not None:
                result.log_end_offset = partition.log_end_offset

    def watched(self) -> Sequence[Hashable]:
        if self._fetch_context.watches is not None:
            return [self._fetch_context.watches]
        return [partition for partition in self._partitions if partition is not None]

    def response(self) -> Response:
        if self._meter is not None and self._replica_id < 0 and self._is_throttled(self._meter):
            return _response(self._fetch_context.throttled_response(), self._isolation)
        if self._context.version < MAGIC_2_SINCE:
            return self._down_converted_response()
        return self._plain_response()

    def _is_throttled(self, meter: RequestMeter) -> bool:
        """Count the records of the response. Kafka counts the rest of it, too."""
        selected = self._fetch_context.select(self._results)
        return meter.throttle_fetch(sum(result.records_bytes for result in selected))

    async def _down_converted_response(self) -> FetchResponse:
        """Down-convert the records for old clients."""
        magic: Literal[0, 1] = 1 if self._context.version >= MAGIC_1_SINCE else 0
        workers = self._context.broker.workers
        for index, partition in enumerate(self._partitions):
            result = self._results[index]
            if partition is not None and result.records_bytes:
                data = await partition.offload_read(partial(_read_records, result))
                self._results[index] = await _down_convert_result(result, data, magic, workers)
        return self._plain_response()

    def _plain_response(self) -> FetchResponse:
        session_response = self._fetch_context.update_and_generate_response(
            self._results, self._context.broker.clock.monotonic_ms()
        )
        if self._quota is not None:
            self._record_throttled_bytes(self._quota, session_response)
        response = _response(session_response, self._isolation)
        if self._must_respond and self._context.version >= CURRENT_LEADER_SINCE:
            _name_current_leaders(response, self._context)
        return response

    def _read(self, requested: FetchPartition, partition: Partition | None) -> FetchPartitionData:
        try:
            result = self._read_partition(requested, partition)
        except BrokerError as error:
            result = FetchPartitionData(requested, error.code)
        except WouldBlock as error:
            assert partition is not None
            self.would_block.append((partition, error))
            return FetchPartitionData(requested, ErrorCode.NONE)
        if result.error or result.diverging_epoch >= 0:
            self._must_respond = True
        self._size_bytes += result.records_bytes
        return result

    def _read_partition(self, requested: FetchPartition, partition: Partition | None) -> FetchPartitionData:
        if self._context.authorizer is not None and not self._may_fetch(requested.topic):
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if partition is None or requested.topic is None:
            raise self._context.broker.replica_manager.partition_error(requested.topic, requested.partition)
        version = self._context.version
        if version >= TOPIC_IDS_SINCE and partition.topic_id != requested.topic_id:
            self._check_topic_id(partition)
        if version < MAGIC_2_SINCE and not partition.config.message_downconversion_enable:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
        if version < ZSTD_SINCE and partition.config.compression_type == ZSTD:
            raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        at_least_one = version < MAX_BYTES_SINCE or self._size_bytes == 0
        bytes_max = min(requested.max_bytes, max(self._bytes_max - self._size_bytes, 0))
        if self._quota is not None and self._must_wait(self._quota, partition):
            at_least_one, bytes_max = False, 0
        if self._client_rack is not None and (preferred := self._preferred_replica(requested, partition)):
            return preferred
        return partition.read(
            requested,
            bytes_max,
            at_least_one,
            self._isolation,
            self._replica_id,
            self._may_block,
            self._only_leader,
        )

    def _may_fetch(self, topic: str | None) -> bool:
        """Return whether the sender may fetch: a follower, or else a consumer unless the topic is unknown."""
        if self._replica_id >= 0:
            return self._context.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION)
        return topic is None or self._context.is_allowed(AclOperation.READ, AclResourceType.TOPIC, topic)

    def _must_wait(self, quota: ReplicationQuotaManager, partition: Partition) -> bool:
        """Return whether a follower gets no records for now; never one in the ISR, which it would leave."""
        return (
            not partition.is_in_isr(self._replica_id)
            and quota.is_throttled(partition.topic_partition)
            and quota.is_exceeded
        )

    def _record_throttled_bytes(
        self, quota: ReplicationQuotaManager, session_response: FetchSessionResponse
    ) -> None:
        """Count the records of throttled partitions. Kafka counts the rest of their entries, too."""
        throttled = 0
        for result in session_response.results:
            topic, number = result.request.topic, result.request.partition
            if topic is not None and quota.is_throttled(TopicPartition(topic, number)):
                throttled += result.records_bytes
        quota.record(throttled)

    def _check_topic_id(self, partition: Partition) -> None:
        """Reject another topic id than the partition's, unless that is not known yet."""
        if partition.topic_id != ZERO_TOPIC_ID:
            raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID)

    def _preferred_replica(
        self, requested: FetchPartition, partition: Partition
    ) -> FetchPartitionData | None:
        """Return a result that sends the consumer to a replica in its rack, or None."""
        assert self._client_rack is not None
        replica = self._context.broker.replica_manager.find_preferred_read_replica(
            partition, requested.fetch_offset, self._client_rack, self._context.session.listener_name
        )
        if replica is None:
            return None
        result = partition.read_offsets(requested)
        result.preferred_replica = replica
        self._must_respond = True
        return result

    def _record_follower_fetches(self) -> None:
        """Record what a follower has: once per request, and only where it got what it asked for.

        After all reads: as in Kafka, the response has the high watermark from before this request.
        """
        replica_manager, watches = self._context.broker.replica_manager, self._fetch_context.watches
        for partition, result in zip(self._partitions, self._results, strict=True):
            if partition is not None and not result.error:
                result.log_end_offset = partition.log_end_offset
                if result.diverging_epoch < 0:
                    requested = result.request
                    replica_manager.record_follower_fetch(
                        partition, self._replica_id, requested.fetch_offset, requested.log_start_offset
                    )
            if watches is not None:
                self._settle(watches, partition, result)

    def _settle(
        self, watches: FollowerWatches, partition: Partition | None, result: FetchPartitionData
    ) -> None:
        if partition is None or result.error or result.diverging_epoch >= 0:
            watches.keep(result.request.key)
        else:
            watches.settle(result.request, partition, self._replica_id)


def _index_results(results: Sequence[FetchPartitionData]) -> dict[Hashable, int]:
    return {result.request.key: index for index, result in enumerate(results)}


def _replica_id(request: FetchRequest, version: int) -> int:
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return CONSUMER_REPLICA_ID if request.replica_state is None else request.replica_state.replica_id


def _requested_partitions(request: FetchRequest, context: RequestContext) -> list[FetchPartition]:
    by_id = context.version >= TOPIC_IDS_SINCE
    requested = []
    for topic in request.topics:
        name: str | None = context.broker.metadata_cache.name_of(topic.topic_id) if by_id else topic.topic
        topic_id: TopicId = topic.topic_id if by_id else ZERO_TOPIC_ID
        for part in topic.partitions:
            requested.append(
                FetchPartition(
                    name,
                    topic_id,
                    part.partition,
                    part.fetch_offset,
                    part.log_start_offset,
                    part.partition_max_bytes,
                    part.current_leader_epoch,
                    part.last_fetched_epoch,
                )
            )
    return requested


def _forgotten_partitions(request: FetchRequest, version: int) -> list[SessionKey]:
    by_id = version >= TOPIC_IDS_SINCE
    return [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _read_records(result: FetchPartitionData) -> bytes:
    """Read the records of a result. Blocks."""
    records = result.records
    return records.read() if isinstance(records, FileSlice) else bytes(records or b"")


async def _down_convert_result(
    result: FetchPartitionData, data: bytes, magic: Literal[0, 1], workers: Workers
) -> FetchPartitionData:
    """Down-convert on a thread; batches with a large decompressed size one at a time."""
    convert = partial(down_convert, data, magic, result.request.fetch_offset)
    converted: bytes | None = None
    try:
        with suppress(WorkLimitExceeded):
            converted = await workers.run(partial(convert, WORKER_LIMITS.decompressed_bytes_max))
        if converted is None:
            converted = await workers.run_alone(convert)
    except BrokerError as error:
        return FetchPartitionData(result.request, error.code)
    result.records = converted
    result.records_bytes = len(converted)
    return result


def _response(session_response: FetchSessionResponse, isolation: int) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    last: tuple[str | None, TopicId] | None = None
    committed = isolation == IsolationLevel.READ_COMMITTED
    for result in session_response.results:
        requested = result.request
        if (requested.topic, requested.topic_id) != last:
            last = (requested.topic, requested.topic_id)
            topics.append(FetchableTopicResponse(requested.topic or "", requested.topic_id, []))
        topics[-1].partitions.append(_entry(result, committed))
    return FetchResponse(0, session_response.error, session_response.session_id, topics)


def _entry(result: FetchPartitionData, committed: bool) -> PartitionData:
    records: Part = b"" if result.records is None else result.records
    entry = PartitionData(
        result.request.partition,
        result.error,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        None,
        None,
        None,
        None,
        result.preferred_replica,
        records,
    )
    if committed and not result.error:
        entry.aborted_transactions = [
            AbortedTransaction(*transaction) for transaction in result.aborted or ()
        ]
    if result.diverging_epoch >= 0:
        entry.diverging_epoch = EpochEndOffset(result.diverging_epoch, result.diverging_end_offset)
    return entry


def _name_current_leaders(response: FetchResponse, context: RequestContext) -> None:
    """Say in entries with an error of leadership who leads, and in the response at which endpoints."""
    nodes: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for entry in topic.partitions:
            if entry.error_code not in LEADER_ERRORS:
                continue
            leader = find_current_leader(
                context.broker, topic.topic, entry.partition_index, context.session.listener_name
            )
            entry.current_leader = LeaderIdAndEpoch(leader.leader_id, leader.leader_epoch)
            if leader.node is not None:
                nodes[leader.leader_id] = NodeEndpoint(*leader.node)
    response.node_endpoints = list(nodes.values())


def error_response(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    return FetchResponse(error_code=code, session_id=request.session_id)
