"""Fetch, versions 0 to 17: read batches from the partitions this broker leads.

v3 bounds the whole answer, v4 takes the isolation level, v7 brings sessions (KIP-227), v9 leader epochs,
v10 zstd, v12 is flexible, v13 names topics by id. Versions 0 to 3 get magic 0 or 1, converted from what is
stored, unless ``message.downconversion.enable`` is false.

The answer waits in the fetch purgatory until ``min_bytes`` can be read, a partition has something else to
say, or ``max_wait_ms`` is over. The first batch found is returned whole, however large, so that every reader
makes progress; up to version 2, where there is no bound on the whole answer, that holds for each partition.

The loop waits for no disk here: a partition whose index or batches are not in memory is rehearsed on a thread
and then read; records are converted on a thread. What is sent is brought by the network port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Literal

from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.config import broker as settings
from odradek.log.segments.log_segment import WouldBlock
from odradek.log.segments.page_in import PAGE_IN_ATTEMPTS_MAX
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId
from odradek.model.protocol_enums import IsolationLevel
from odradek.ports.files import FileSlice, Part
from odradek.ports.workers import Workers
from odradek.records.append_rules import WORKER_LIMITS, WorkLimitExceeded
from odradek.records.conversion import down_convert
from odradek.replication.delayed_fetch import DelayedFetch
from odradek.replication.fetch_session import (
    FetchContext,
    FetchPartition,
    FetchPartitionData,
    FetchSessionResponse,
    SessionKey,
)
from odradek.replication.partition import CONSUMER_REPLICA_ID, Partition
from odradek.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOTAL_BOUND_SINCE = 3
MAGIC_2_SINCE = 4
MAGIC_1_SINCE = 2
ZSTD = "zstd"
ZSTD_SINCE = 10
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15

Answer = FetchResponse | Coroutine[None, None, FetchResponse]
Result = Answer | Pending[Answer] | Coroutine[None, None, Answer | Pending[Answer]]


def fetch(request: FetchRequest, call: Call) -> Result:
    broker = call.broker
    replica_id = _replica_id(request, call.version)
    context = broker.fetch_sessions.new_context(
        request.session_id,
        request.session_epoch,
        _asked(request, call),
        _forgotten(request, call.version),
        uses_topic_ids=call.version >= TOPIC_IDS_SINCE,
        from_follower=replica_id >= 0,
        now_ms=broker.clock.monotonic_ms(),
    )
    reading = Reading(request, call, context, replica_id, may_block=False)
    if reading.not_at_hand:
        return _page_in_and_read(reading, request, call, context, replica_id)
    return _answer(reading, request, call)


async def _page_in_and_read(
    first: Reading, request: FetchRequest, call: Call, context: FetchContext, replica_id: int
) -> Answer | Pending[Answer]:
    """Read again, once what was not in memory is; as often as need be."""
    reading = first
    for left in reversed(range(PAGE_IN_ATTEMPTS_MAX)):
        waits = [partition.page_in(asked, why) for partition, asked, why in reading.not_at_hand]
        await asyncio.gather(*waits)
        reading = Reading(request, call, context, replica_id, may_block=left == 0)
        if not reading.not_at_hand:
            break
    return _answer(reading, request, call)


def _answer(reading: Reading, request: FetchRequest, call: Call) -> Answer | Pending[Answer]:
    if reading.is_done() or request.max_wait_ms <= 0:
        return reading.response()
    pending: Pending[Answer] = Pending()
    delayed = DelayedFetch(reading.look_again, lambda: pending.complete(reading.response()))
    call.broker.replicas.delay_fetch(delayed, reading.watched(), request.max_wait_ms)
    return pending


class Reading:
    """One fetch under way: what was read of each partition so far, and whether that is enough.

    One that may not wait for the disk lists in ``not_at_hand`` what it could not read; it is no answer.
    """

    __slots__ = (
        "_bytes_max",
        "_call",
        "_context",
        "_isolation",
        "_may_block",
        "_min_bytes",
        "_partitions",
        "_replica_id",
        "_results",
        "_size_bytes",
        "_urgent",
        "not_at_hand",
    )

    def __init__(
        self, request: FetchRequest, call: Call, context: FetchContext, replica_id: int, may_block: bool
    ) -> None:
        self._call = call
        self._context = context
        self._replica_id = replica_id
        self._isolation = request.isolation_level
        self._bytes_max = min(request.max_bytes, call.broker.config.broker[settings.FETCH_MAX_BYTES])
        self._min_bytes = min(request.min_bytes, self._bytes_max)
        self._size_bytes = 0
        self._urgent = bool(context.error)
        self._may_block = may_block
        self.not_at_hand: list[tuple[Partition, FetchPartition, WouldBlock]] = []
        self._partitions: list[Partition | None] = []
        self._results: list[FetchPartitionData] = []
        for asked in context.partitions:
            self._partitions.append(call.broker.replicas.find(asked.topic, asked.partition))
            self._results.append(self._read(asked, self._partitions[-1]))
        self._may_block = True

    def is_done(self) -> bool:
        return self._urgent or self._size_bytes >= self._min_bytes or not self._results

    def look_again(self) -> bool:
        """Read the partitions that have moved since; say whether there is enough now."""
        for index, partition in enumerate(self._partitions):
            result = self._results[index]
            if partition is not None and partition.has_changed_since(result):
                self._size_bytes -= result.records_bytes
                self._results[index] = self._read(result.request, partition)
        return self.is_done()

    def watched(self) -> list[Partition]:
        return [partition for partition in self._partitions if partition is not None]

    def response(self) -> Answer:
        if self._call.version < MAGIC_2_SINCE:
            return self._converted_response()
        return self._plain_response()

    async def _converted_response(self) -> FetchResponse:
        """Old readers get the old format."""
        magic: Literal[0, 1] = 1 if self._call.version >= MAGIC_1_SINCE else 0
        workers = self._call.broker.workers
        for index, partition in enumerate(self._partitions):
            result = self._results[index]
            if partition is not None and result.records_bytes:
                data = await partition.offload_read(partial(_read_records, result))
                self._results[index] = await _converted(result, data, magic, workers)
        return self._plain_response()

    def _plain_response(self) -> FetchResponse:
        answer = self._context.update_and_generate_response(
            self._results, self._call.broker.clock.monotonic_ms()
        )
        return _response(answer, self._call.version, self._isolation)

    def _read(self, asked: FetchPartition, partition: Partition | None) -> FetchPartitionData:
        try:
            result = self._read_or_refuse(asked, partition)
        except BrokerError as refused:
            result = FetchPartitionData(asked, refused.code)
        except WouldBlock as why:
            assert partition is not None
            self.not_at_hand.append((partition, asked, why))
            return FetchPartitionData(asked, ErrorCode.NONE)
        if result.error or result.diverging_epoch >= 0:
            self._urgent = True
        self._size_bytes += result.records_bytes
        return result

    def _read_or_refuse(self, asked: FetchPartition, partition: Partition | None) -> FetchPartitionData:
        if partition is None or asked.topic is None:
            raise self._call.broker.replicas.partition_error(asked.topic, asked.partition)
        version = self._call.version
        if version >= TOPIC_IDS_SINCE and partition.topic_id != asked.topic_id:
            raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if version < MAGIC_2_SINCE and not partition.log.config.message_downconversion_enable:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
        if version < ZSTD_SINCE and partition.log.config.compression_type == ZSTD:
            raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        at_least_one = version < TOTAL_BOUND_SINCE or self._size_bytes == 0
        bytes_max = min(asked.max_bytes, max(self._bytes_max - self._size_bytes, 0))
        return partition.read(
            asked, bytes_max, at_least_one, self._isolation, self._replica_id, self._may_block
        )


def _replica_id(request: FetchRequest, version: int) -> int:
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return CONSUMER_REPLICA_ID if request.replica_state is None else request.replica_state.replica_id


def _asked(request: FetchRequest, call: Call) -> list[FetchPartition]:
    by_id = call.version >= TOPIC_IDS_SINCE
    asked = []
    for topic in request.topics:
        name: str | None = call.broker.image.name_of(topic.topic_id) if by_id else topic.topic
        topic_id: TopicId = topic.topic_id if by_id else ZERO_TOPIC_ID
        for part in topic.partitions:
            asked.append(
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
    return asked


def _forgotten(request: FetchRequest, version: int) -> list[SessionKey]:
    by_id = version >= TOPIC_IDS_SINCE
    return [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _read_records(result: FetchPartitionData) -> bytes:
    """Read what was found. Waits."""
    records = result.records
    return records.read() if isinstance(records, FileSlice) else bytes(records or b"")


async def _converted(
    result: FetchPartitionData, data: bytes, magic: Literal[0, 1], workers: Workers
) -> FetchPartitionData:
    """Convert what was found, away from the loop; a batch that unpacks to much, one at a time."""
    convert = partial(down_convert, data, magic, result.request.fetch_offset)
    converted: bytes | None = None
    try:
        with suppress(WorkLimitExceeded):
            converted = await workers.run(partial(convert, WORKER_LIMITS.decompressed_bytes_max))
        if converted is None:
            converted = await workers.run_alone(convert)
    except BrokerError as refused:
        return FetchPartitionData(result.request, refused.code)
    result.records = converted
    result.records_bytes = len(converted)
    return result


def _response(answer: FetchSessionResponse, version: int, isolation: int) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    last: tuple[str | None, TopicId] | None = None
    committed = isolation == IsolationLevel.READ_COMMITTED
    for result in answer.results:
        asked = result.request
        if (asked.topic, asked.topic_id) != last:
            last = (asked.topic, asked.topic_id)
            topics.append(FetchableTopicResponse(asked.topic or "", asked.topic_id, []))
        topics[-1].partitions.append(_entry(result, committed))
    return FetchResponse(0, answer.error, answer.session_id, topics)


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
        entry.aborted_transactions = [AbortedTransaction(*one) for one in result.aborted or ()]
    if result.diverging_epoch >= 0:
        entry.diverging_epoch = EpochEndOffset(result.diverging_epoch, result.diverging_end_offset)
    return entry


def refuse(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    return FetchResponse(error_code=code, session_id=request.session_id)
