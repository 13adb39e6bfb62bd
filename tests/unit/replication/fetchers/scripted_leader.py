"""Leaders for fetcher tests: real logs in memory behind the port for requests between brokers.

Requests and responses pass through the wire format in the version of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.cluster.metadata_version import LATEST
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery.log_loader import LogLoadContext, RecoveryResult, create_log, open_log
from odradek.log.segments.log_segment import OpenSegments
from odradek.model.client_errors import ConnectionFailed
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.files import FileSlice
from odradek.records.batch import BatchBuilder
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.testing.entropy import SeededEntropy
from odradek.testing.files import MemoryFileSystem
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.offset_for_leader_epoch import EpochEndOffset as EpochEnd
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

FOLLOWER_ID = 7
BROKER_EPOCH = 55
ORDERS = TopicPartition("orders", 0)
REFUNDS = TopicPartition("refunds", 1)
TOPIC_IDS = {ORDERS: b"o" * 16, REFUNDS: b"r" * 16}

_RESPONSES: dict[type, type] = {
    FetchRequest: FetchResponse,
    ListOffsetsRequest: ListOffsetsResponse,
    OffsetForLeaderEpochRequest: OffsetForLeaderEpochResponse,
}


def settings(**changes: Any) -> FetcherSettings:
    return FetcherSettings(
        broker_id=FOLLOWER_ID,
        broker_epoch=lambda: BROKER_EPOCH,
        metadata_version=LATEST,
        fetcher_count=1,
        wait_max_ms=500,
        min_bytes=1,
        partition_bytes_max=1 << 20,
        response_bytes_max=10 << 20,
        backoff_ms=1000,
        request_timeout_ms=30_000,
    )._replace(**changes)


class OldMetadataVersion:
    """An inter-broker protocol before leaders report divergence in Fetch responses."""

    fetch_version = 12
    list_offsets_version = 6
    offset_for_leader_epoch_version = 4
    is_truncation_on_fetch_supported = False


class LogHost:
    """Files of one broker, with logs in them."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem(lambda: 1_000_000)
        self.files.make_directories("/data")
        self.files.sync_dir("/")
        self.recovered = RecoveryResult()

    def _context(self, **options: Any) -> LogLoadContext:
        return LogLoadContext(self.files, SeededEntropy(0), OpenSegments(), **options)

    def create(self, partition: TopicPartition = ORDERS, **config: Any) -> Log:
        directory = f"/data/{partition.topic}-{partition.partition}"
        log = create_log(partition, directory, LogConfig(**config), self._context(had_clean_shutdown=True))
        self.files.sync_dir(directory)
        self.files.sync_dir("/data")
        return log

    def reopen(self, log: Log, *, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
        """Open a log again, as after a crash."""
        self.recovered = RecoveryResult()
        context = self._context(
            had_clean_shutdown=False, recovery_point=recovery_point, log_start_offset=log_start_offset
        )
        return open_log(log.topic_partition, log.directory, log.config, context, self.recovered)


def new_log(partition: TopicPartition = ORDERS, **config: Any) -> Log:
    return LogHost().create(partition, **config)


def append(log: Log, leader_epoch: int, count: int = 1, value: bytes = b"value") -> int:
    """Append a batch as leader and return its first offset."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(1000, b"key", value)
    return log.append_as_leader(bytearray(builder.build()), leader_epoch, 0).first_offset


def files_of(log: Log) -> MemoryFileSystem:
    files = log.segments[0].context.files
    assert isinstance(files, MemoryFileSystem)
    return files


def stored_bytes(log: Log) -> bytes:
    files = files_of(log)
    return b"".join(bytes(files.read_whole(segment.path(".log"))) for segment in log.segments)


class ScriptedLeader:
    """A broker that leads partitions, without an ISR: tests set the high watermarks."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.logs: dict[TopicPartition, Log] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.session_errors: list[ErrorCode] = []
        self.is_reachable = True
        self.requests: list[Any] = []
        self.versions: list[int] = []
        self.on_response: Callable[[Any], None] = lambda _: None
        """Called before each response arrives."""
        self._sessions: dict[int, dict[TopicPartition, FetchPartition]] = {}
        self._sent: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        """High watermarks and log start offsets last sent, by session."""

    def lead(self, log: Log, leader_epoch: int = 0) -> None:
        log.assign_leader_epoch(leader_epoch)
        self.logs[log.topic_partition] = log
        self.leader_epochs[log.topic_partition] = leader_epoch

    @property
    def fetches(self) -> list[FetchRequest]:
        return [request for request in self.requests if isinstance(request, FetchRequest)]

    async def handle(self, request: Any, version: int) -> Any:
        if not self.is_reachable:
            raise ConnectionFailed("connection refused")
        request_type: type = type(request)
        response_type = _RESPONSES[request_type]
        request, _ = decoder(request_type, version)(memoryview(encoder(request_type, version)(request)), 0)
        self.requests.append(request)
        self.versions.append(version)
        response: Any
        if isinstance(request, FetchRequest):
            response = await self._fetch(request, version)
        elif isinstance(request, ListOffsetsRequest):
            response = self._list_offsets(request)
        else:
            response = self._epochs(request)
        self.on_response(request)
        if not self.is_reachable:
            raise ConnectionFailed("connection lost")
        data = encoder(response_type, version)(response)
        return decoder(response_type, version)(memoryview(data), 0)[0]

    def _epoch_error(self, partition: TopicPartition, leader_epoch: int) -> ErrorCode:
        if partition in self.errors:
            return self.errors[partition]
        if partition not in self.logs:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        current = self.leader_epochs[partition]
        if leader_epoch < current:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if leader_epoch > current else ErrorCode.NONE

    # Fetch.

    async def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        if self.session_errors:
            return FetchResponse(error_code=self.session_errors.pop(0), session_id=0, responses=[])
        names = {topic_id: partition.topic for partition, topic_id in TOPIC_IDS.items()}
        named = {
            TopicPartition(topic.topic or names[topic.topic_id], partition.partition): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        is_full = request.session_epoch <= 0
        if is_full:
            self._sessions.pop(request.session_id, None)
            session_id = max([request.session_id, *self._sessions], default=0) + 1
            session = self._sessions[session_id] = {}
            self._sent[session_id] = {}
        elif request.session_id not in self._sessions:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=[])
        else:
            session_id, session = request.session_id, self._sessions[request.session_id]
        sent = self._sent[session_id]
        session |= named
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                forgotten = TopicPartition(topic.topic or names[topic.topic_id], number)
                session.pop(forgotten, None)
                sent.pop(forgotten, None)
        results = self._read_all(session, {} if is_full else sent)
        if not results:
            await self.clock.sleep_ms(request.max_wait_ms)
            results = self._read_all(session, sent)
        for partition, data in results.items():
            is_usable = not data.error_code and data.diverging_epoch is None
            sent[partition] = (data.high_watermark if is_usable else -1, data.log_start_offset)
        topics = [
            FetchableTopicResponse(
                topic=partition.topic if version < 13 else "",
                topic_id=TOPIC_IDS[partition] if version >= 13 else bytes(16),
                partitions=[data],
            )
            for partition, data in results.items()
        ]
        return FetchResponse(session_id=session_id, responses=topics)

    def _read_all(
        self, session: dict[TopicPartition, FetchPartition], sent: dict[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, PartitionData]:
        """Read the partitions of a session that have something new."""
        results = {partition: self._read(partition, fetch) for partition, fetch in session.items()}
        return {
            partition: data
            for partition, data in results.items()
            if data.error_code
            or data.records
            or data.diverging_epoch
            or sent.get(partition) != (data.high_watermark, data.log_start_offset)
        }

    def _read(self, partition: TopicPartition, fetch: FetchPartition) -> PartitionData:
        error = self._epoch_error(partition, fetch.current_leader_epoch)
        data = PartitionData(partition_index=partition.partition, error_code=error, high_watermark=-1)
        if error is not ErrorCode.NONE:
            return data
        log = self.logs[partition]
        data.high_watermark, data.log_start_offset = log.high_watermark, log.log_start_offset
        if fetch.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(fetch.last_fetched_epoch)
            if end_offset < 0:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return data
            if epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return data
        if not log.log_start_offset <= fetch.fetch_offset <= log.log_end_offset:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return data
        read = log.read(fetch.fetch_offset, fetch.partition_max_bytes).data
        data.records = read.read() if isinstance(read, FileSlice) else read
        return data

    # Offsets.

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        [topic] = request.topics
        [lookup] = topic.partitions
        partition = TopicPartition(topic.name, lookup.partition_index)
        result = ListOffsetsPartitionResponse(
            partition_index=lookup.partition_index,
            error_code=self._epoch_error(partition, lookup.current_leader_epoch),
        )
        if not result.error_code:
            log = self.logs[partition]
            result.offset = log.log_end_offset if lookup.timestamp == -1 else log.log_start_offset
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[result])])

    def _epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            results = []
            for lookup in topic.partitions:
                partition = TopicPartition(topic.topic, lookup.partition)
                result = EpochEnd(
                    error_code=self._epoch_error(partition, lookup.current_leader_epoch),
                    partition=lookup.partition,
                )
                if not result.error_code:
                    result.leader_epoch, result.end_offset = self.logs[partition].end_offset_for_epoch(
                        lookup.leader_epoch
                    )
                results.append(result)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
        return OffsetForLeaderEpochResponse(topics=topics)


class ScriptedChannel:
    """A channel to a scripted leader; one request in flight."""

    def __init__(self, leader: ScriptedLeader) -> None:
        self.leader = leader
        self.is_closed = False
        self.in_flight = 0
        self.in_flight_max = 0

    async def send(self, request: Any, timeout_ms: int, *, version_max: int | None = None) -> Any:
        assert version_max is not None
        assert timeout_ms > 0
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            return await self.leader.handle(request, version_max)
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        self.is_closed = True


class ScriptedRequests:
    """Requests to scripted leaders by broker id."""

    def __init__(self, leaders: dict[int, ScriptedLeader]) -> None:
        self.leaders = leaders
        self.channels: list[tuple[int, str, ScriptedChannel]] = []

    def open_channel(self, broker_id: int, name: str) -> ScriptedChannel:
        channel = ScriptedChannel(self.leaders[broker_id])
        self.channels.append((broker_id, name, channel))
        return channel

    async def send(
        self, broker_id: int, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        raise AssertionError("a fetcher has its own channel")

    async def send_to_controller(
        self, request: Any, timeout_ms: int, *, version_max: int | None = None
    ) -> Any:
        raise AssertionError("a fetcher does not talk to the controller")
