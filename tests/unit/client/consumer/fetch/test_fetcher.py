"""The fetcher against scripted brokers: next requests, error handling, and raised exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.record_batches import HandMadeBatch, record
from tests.support.simulation.scripted_cluster import TOPIC_ID, ScriptedCluster, image_of

from odradek.client.consumer.fetch.buffer import FetchBuffer
from odradek.client.consumer.fetch.fetcher import Fetcher
from odradek.client.consumer.fetch.plan import FetchConfig
from odradek.client.consumer.positions.partition_state import FetchPosition, FetchState, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.model.client_errors import (
    AuthorizationFailed,
    ClientClosed,
    ConnectionFailed,
    OffsetOutOfRange,
    RecordCorrupt,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = FetchConfig(1, 10_000, 500, 1000, False, "")
RETRY_BACKOFF_MS, PREFERRED_REPLICA_MS = 100, 5000


class FetcherFixture:
    def __init__(self, *partitions: TopicPartition, reset: OffsetReset = OffsetReset.EARLIEST) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.cluster = ScriptedCluster(image_of(dict.fromkeys(partitions, (1, 5))))
        self.subscription = SubscriptionState(reset)
        self.subscription.assign(partitions)
        for partition in partitions:
            self.subscription.of(partition).seek_validated(FetchPosition(10, 4, 1, 5))
        self.buffer = FetchBuffer(self.subscription, lambda: self.fetcher.send())
        self.notifications = 0
        cluster: Any = self.cluster
        self.fetcher = Fetcher(
            cluster,
            self.clock,
            self.subscription,
            self.buffer,
            CONFIG,
            self._notify,
            check_crcs=True,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            preferred_replica_ms=PREFERRED_REPLICA_MS,
            request_timeout_ms=30_000,
        )

    def _notify(self) -> None:
        self.notifications += 1

    async def fetch(self) -> tuple[int, Any, asyncio.Future[Any]]:
        self.fetcher.send()
        return await self.cluster.take()

    async def respond(
        self, to: asyncio.Future[Any], *partitions: PartitionData, session_id: int = 7, **fields: Any
    ) -> None:
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))
        to.set_result(FetchResponse(session_id=session_id, responses=[topic] if partitions else [], **fields))
        await asyncio.sleep(0)


def partition_data(partition: int = 0, error: ErrorCode = ErrorCode.NONE, **fields: Any) -> PartitionData:
    return PartitionData(
        **{
            "partition_index": partition,
            "error_code": int(error),
            "high_watermark": 100,
            "aborted_transactions": None,
            "records": None,
            **fields,
        }
    )


def records(base_offset: int, count: int = 2, leader_epoch: int = 5) -> bytes:
    return HandMadeBatch(
        [record(index) for index in range(count)], base_offset=base_offset, leader_epoch=leader_epoch
    ).build()


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    run_virtually(scenario)


def test_next_fetch_is_sent_before_records_are_read() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        node_id, request, to = await fixture.fetch()
        assert (node_id, request.topics[0].partitions[0].fetch_offset) == (1, 10)
        await fixture.respond(to, partition_data(records=records(10)))
        assert fixture.notifications == 1
        _, request, to = await fixture.cluster.take()
        assert request.topics[0].partitions[0].fetch_offset == 12
        await fixture.respond(to, partition_data(records=records(12)))
        assert fixture.cluster.sent == []  # enough is buffered
        assert [record.offset for record in fixture.buffer.take(3)] == [10, 11, 12]
        _, request, to = await fixture.cluster.take()
        assert request.topics[0].partitions[0].fetch_offset == 14
        assert fixture.subscription.of(T0).position == FetchPosition(13, 5, 1, 5)

    play(scenario)


def test_buffer_is_bounded_with_many_partitions() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(*(TopicPartition("t", number) for number in range(100)))
        batch = records(10, count=40)
        per_response = CONFIG.max_bytes // len(batch)
        remaining = list(range(100))
        fixture.fetcher.send()
        while remaining and fixture.cluster.sent:
            _, request, to = await fixture.cluster.take()
            filled, remaining = remaining[:per_response], remaining[per_response:]
            empty = [] if request.session_epoch else [partition_data(number) for number in remaining]
            await fixture.respond(to, *(partition_data(number, records=batch) for number in filled), *empty)
        assert fixture.buffer.size_bytes < (len(fixture.cluster.metadata.nodes) + 1) * CONFIG.max_bytes
        assert len(fixture.buffer.take(800)) == 800
        await fixture.cluster.take()  # draining the buffer sends the next fetch

    play(scenario)


def test_paused_partition_does_not_block_others() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, T1)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(0, records=records(10, count=1500)), partition_data(1))
        _, _, to = await fixture.cluster.take()
        fixture.subscription.of(T0).paused = True
        await fixture.respond(to, partition_data(0, records=records(1510, count=1500)))
        _, request, _ = await fixture.cluster.take()
        forgotten = [topic.partitions for topic in request.forgotten_topics_data]
        assert forgotten == [[0]]

    play(scenario)


def test_one_fetch_in_flight_per_broker() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, T1)
        fixture.subscription.of(T1).seek_validated(FetchPosition(3, 4, 2, 5))
        fixture.fetcher.send()
        fixture.fetcher.send()
        assert sorted(node_id for node_id, *_ in fixture.cluster.sent) == [1, 2]

    play(scenario)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
    ids=lambda error: error.name,
)
def test_leader_error_backs_off_until_metadata_update(error: ErrorCode) -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(error=error))
        assert fixture.cluster.refreshes == 1
        fixture.fetcher.handle_errors()
        fixture.fetcher.send()
        assert fixture.cluster.sent == []
        assert fixture.fetcher.has_backoff
        fixture.fetcher.on_leaders_changed()
        fixture.fetcher.send()
        assert len(fixture.cluster.sent) == 1

    play(scenario)


def test_unknown_leader_epoch_is_retried_after_backoff() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(error=ErrorCode.UNKNOWN_LEADER_EPOCH))
        assert fixture.cluster.refreshes == 0
        fixture.fetcher.send()
        assert fixture.cluster.sent == []
        await asyncio.sleep(RETRY_BACKOFF_MS / 1000 + 0.001)
        fixture.fetcher.send()
        assert len(fixture.cluster.sent) == 1

    play(scenario)


def test_leader_in_fetch_response_updates_metadata() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        moved = partition_data(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=LeaderIdAndEpoch(leader_id=9, leader_epoch=6),
        )
        endpoint = NodeEndpoint(node_id=9, host="new", port=1)
        await fixture.respond(to, moved, node_endpoints=[endpoint])
        assert fixture.cluster.metadata.leader(T0) == (9, 6)
        assert fixture.cluster.metadata.nodes[9].host == "new"

    play(scenario)


def test_preferred_replica_is_dropped_after_error() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(preferred_read_replica=2))
        node_id, _, to = await fixture.cluster.take()
        assert node_id == 2
        await fixture.respond(to, partition_data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        fixture.fetcher.handle_errors()
        assert fixture.subscription.of(T0).state is FetchState.FETCHING
        await asyncio.sleep(1)
        node_id, _, to = await fixture.fetch()
        assert node_id == 1  # a follower may lag behind: the leader must confirm it
        await fixture.respond(to, partition_data(preferred_read_replica=2))
        node_id, _, to = await fixture.cluster.take()
        to.set_exception(ConnectionFailed("gone"))
        await asyncio.sleep(0)
        node_id, _, _ = await fixture.cluster.take()
        assert node_id == 1

    play(scenario)


def test_out_of_range_offset_is_reset_in_poll() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        assert fixture.subscription.of(T0).state is FetchState.FETCHING
        assert fixture.cluster.sent == []
        fixture.fetcher.handle_errors()
        assert fixture.subscription.needing_reset(0) == [T0]

    play(scenario)


def test_error_of_prefetch_waits_for_buffered_records() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(records=records(10)))
        _, _, to = await fixture.cluster.take()
        await fixture.respond(to, partition_data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        fixture.fetcher.handle_errors()
        assert [record.offset for record in fixture.buffer.take(1)] == [10]
        fixture.fetcher.handle_errors()
        assert [record.offset for record in fixture.buffer.take(5)] == [11]
        assert fixture.cluster.sent == []
        fixture.fetcher.handle_errors()
        assert fixture.subscription.needing_reset(0) == [T0]

    play(scenario)


def test_error_of_changed_position_is_ignored() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, reset=OffsetReset.NONE)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        fixture.subscription.of(T0).seek_validated(FetchPosition(11, 4, 1, 5))
        fixture.fetcher.handle_errors()
        _, request, _ = await fixture.fetch()
        assert request.topics[0].partitions[0].fetch_offset == 11

    play(scenario)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, OffsetOutOfRange),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
        (ErrorCode.CORRUPT_MESSAGE, RecordCorrupt),
    ],
)
def test_non_retriable_fetch_errors_are_raised(error: ErrorCode, kind: type[Exception]) -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, reset=OffsetReset.NONE)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(error=error))
        with pytest.raises(kind, match=r"t-0.*\(broker 1 \(host:9001\)\)"):
            fixture.fetcher.handle_errors()
        fixture.fetcher.handle_errors()

    play(scenario)


def test_records_of_unassigned_partition_are_dropped() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, T1)
        _, _, to = await fixture.fetch()
        fixture.subscription.assign([T1])
        await fixture.respond(
            to, partition_data(0, records=records(10)), partition_data(1, records=records(10))
        )
        assert {record.partition for record in fixture.buffer.take(10)} == {1}

    play(scenario)


def test_unknown_session_is_restarted_at_once() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, request, to = await fixture.fetch()
        await fixture.respond(to, partition_data(), session_id=7)
        _, request, to = await fixture.cluster.take()
        assert (request.session_id, request.session_epoch, request.topics) == (7, 1, [])
        await fixture.respond(to, session_id=0, error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        _, request, _ = await fixture.cluster.take()
        assert (request.session_id, request.session_epoch, len(request.topics)) == (0, 0, 1)

    play(scenario)


def test_topic_without_id_is_fetched_by_name() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        unnamed = fixture.cluster.metadata.topics["t"]._replace(topic_id=bytes(16))
        fixture.cluster.metadata = fixture.cluster.metadata._replace(topics={"t": unnamed})
        fixture.fetcher.send()
        ((_, request, version_max, to),) = fixture.cluster.sent
        assert (version_max, request.topics[0].topic) == (12, "t")
        topic = FetchableTopicResponse(topic="t", partitions=[partition_data(records=records(10))])
        to.set_result(FetchResponse(session_id=7, responses=[topic]))
        await asyncio.sleep(0)
        assert len(fixture.buffer.take(10)) == 2

    play(scenario)


def test_connecting_broker_does_not_delay_fetches_from_others() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, T1)
        fixture.subscription.of(T1).seek_validated(FetchPosition(3, 4, 2, 5))
        fixture.cluster.not_ready.add(1)
        fixture.fetcher.send()
        assert [node_id for node_id, *_ in fixture.cluster.sent] == [2]
        fixture.cluster.not_ready.clear()
        await asyncio.sleep(0.1)
        assert [node_id for node_id, *_ in fixture.cluster.sent] == [2, 1]

    play(scenario)


def test_fatal_error_is_raised_once() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        to.set_exception(UnsupportedVersion("too old"))
        await asyncio.sleep(0)
        with pytest.raises(UnsupportedVersion):
            fixture.fetcher.handle_errors()
        fixture.fetcher.handle_errors()
        await fixture.fetch()

    play(scenario)


def test_close_closes_sessions_and_cancels_fetches() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0, T1)
        fixture.subscription.of(T1).seek_validated(FetchPosition(3, 4, 2, 5))
        fixture.fetcher.send()
        (_, _, _, to_first), (_, _, _, to_second) = fixture.cluster.sent
        fixture.cluster.sent.clear()
        await fixture.respond(to_first, partition_data(), session_id=7)
        fixture.subscription.of(T0).paused = True
        (_, _, _, again) = fixture.cluster.sent.pop()
        await fixture.respond(again, session_id=7)
        closing = asyncio.create_task(fixture.fetcher.close())
        _, request, to = await fixture.cluster.take()
        assert (request.session_id, request.session_epoch) == (7, -1)
        to.set_exception(ClientClosed("closed"))
        await closing
        assert to_second.cancelled()
        fixture.fetcher.send()
        assert fixture.cluster.sent == []

    play(scenario)


def test_incomplete_batch_raises_with_partition_and_offset() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        await fixture.respond(to, partition_data(records=records(10)[:-1]))
        with pytest.raises(RecordCorrupt, match="t-0 at offset 10"):
            fixture.buffer.take(10)

    play(scenario)


def test_corrupt_batch_is_raised_after_records_before_it() -> None:
    async def scenario() -> None:
        fixture = FetcherFixture(T0)
        _, _, to = await fixture.fetch()
        broken = bytearray(records(12))
        broken[-1] ^= 1
        await fixture.respond(to, partition_data(records=records(10) + bytes(broken)))
        assert [record.offset for record in fixture.buffer.take(10)] == [10, 11]
        for _ in range(2):
            with pytest.raises(RecordCorrupt, match="t-0"):
                fixture.buffer.take(10)
        assert fixture.subscription.of(T0).position == FetchPosition(12, 5, 1, 5)

    play(scenario)
