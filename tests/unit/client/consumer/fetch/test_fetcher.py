"""Fetches from brokers that move, refuse and disagree: what is asked next, of whom, and what is raised."""

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
LIMITS = FetchConfig(1, 10_000, 500, 1000, False, "")
REST_MS, PREFERENCE_MS = 100, 5000


class Scene:
    def __init__(self, *partitions: TopicPartition, reset: OffsetReset = OffsetReset.EARLIEST) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.cluster = ScriptedCluster(image_of(dict.fromkeys(partitions, (1, 5))))
        self.subscription = SubscriptionState(reset)
        self.subscription.assign(partitions)
        for each in partitions:
            self.subscription.of(each).seek_validated(FetchPosition(10, 4, 1, 5))
        self.buffer = FetchBuffer(self.subscription, lambda: self.fetcher.send())
        self.news = 0
        cluster: Any = self.cluster
        self.fetcher = Fetcher(
            cluster,
            self.clock,
            self.subscription,
            self.buffer,
            LIMITS,
            self._told,
            check_crcs=True,
            rest_ms=REST_MS,
            preference_ms=PREFERENCE_MS,
            request_timeout_ms=30_000,
        )

    def _told(self) -> None:
        self.news += 1

    async def fetch(self) -> tuple[int, Any, asyncio.Future[Any]]:
        self.fetcher.send()
        return await self.cluster.take()

    async def answer(
        self, to: asyncio.Future[Any], *partitions: PartitionData, session_id: int = 7, **fields: Any
    ) -> None:
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))
        to.set_result(FetchResponse(session_id=session_id, responses=[topic] if partitions else [], **fields))
        await asyncio.sleep(0)


def told(partition: int = 0, error: ErrorCode = ErrorCode.NONE, **fields: Any) -> PartitionData:
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


def test_a_fetch_is_followed_by_the_next_one_before_anybody_reads() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        node_id, request, to = await scene.fetch()
        assert (node_id, request.topics[0].partitions[0].fetch_offset) == (1, 10)
        await scene.answer(to, told(records=records(10)))
        assert scene.news == 1
        _, request, to = await scene.cluster.take()
        assert request.topics[0].partitions[0].fetch_offset == 12
        await scene.answer(to, told(records=records(12)))
        assert scene.cluster.sent == []  # enough waits to be read
        assert [each.offset for each in scene.buffer.take(3)] == [10, 11, 12]
        _, request, to = await scene.cluster.take()
        assert request.topics[0].partitions[0].fetch_offset == 14
        assert scene.subscription.of(T0).position == FetchPosition(13, 5, 1, 5)

    play(scenario)


def test_however_many_partitions_there_are_what_waits_is_bounded() -> None:
    async def scenario() -> None:
        scene = Scene(*(TopicPartition("t", number) for number in range(100)))
        full = records(10, count=40)
        per_answer = LIMITS.max_bytes // len(full)
        left = list(range(100))
        scene.fetcher.send()
        while left and scene.cluster.sent:
            _, request, to = await scene.cluster.take()
            given, left = left[:per_answer], left[per_answer:]
            nothing = [] if request.session_epoch else [told(number) for number in left]
            await scene.answer(to, *(told(number, records=full) for number in given), *nothing)
        assert scene.buffer.size_bytes < (len(scene.cluster.metadata.nodes) + 1) * LIMITS.max_bytes
        assert len(scene.buffer.take(800)) == 800
        await scene.cluster.take()  # there is room again, and nobody had to ask

    play(scenario)


def test_what_is_paused_takes_no_room_from_others() -> None:
    async def scenario() -> None:
        scene = Scene(T0, T1)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(0, records=records(10, count=1500)), told(1))
        _, _, to = await scene.cluster.take()
        scene.subscription.of(T0).paused = True
        await scene.answer(to, told(0, records=records(1510, count=1500)))
        _, request, _ = await scene.cluster.take()
        forgotten = [each.partitions for each in request.forgotten_topics_data]
        assert forgotten == [[0]]

    play(scenario)


def test_one_fetch_at_a_time_goes_to_a_broker_and_others_are_asked_meanwhile() -> None:
    async def scenario() -> None:
        scene = Scene(T0, T1)
        scene.subscription.of(T1).seek_validated(FetchPosition(3, 4, 2, 5))
        scene.fetcher.send()
        scene.fetcher.send()
        assert sorted(node_id for node_id, *_ in scene.cluster.sent) == [1, 2]

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
    ids=lambda one: one.name,
)
def test_a_leader_that_is_none_is_left_alone_until_metadata_is_newer(error: ErrorCode) -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(error=error))
        assert scene.cluster.refreshes == 1
        scene.fetcher.settle()
        scene.fetcher.send()
        assert scene.cluster.sent == []
        assert scene.fetcher.is_resting
        scene.fetcher.leaders_changed()
        scene.fetcher.send()
        assert len(scene.cluster.sent) == 1

    play(scenario)


def test_without_newer_metadata_a_partition_is_tried_again_after_a_while() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(error=ErrorCode.UNKNOWN_LEADER_EPOCH))
        assert scene.cluster.refreshes == 0
        scene.fetcher.send()
        assert scene.cluster.sent == []
        await asyncio.sleep(REST_MS / 1000 + 0.001)
        scene.fetcher.send()
        assert len(scene.cluster.sent) == 1

    play(scenario)


def test_a_leader_named_in_passing_is_taken_over() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        moved = told(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=LeaderIdAndEpoch(leader_id=9, leader_epoch=6),
        )
        endpoint = NodeEndpoint(node_id=9, host="new", port=1)
        await scene.answer(to, moved, node_endpoints=[endpoint])
        assert scene.cluster.metadata.leader(T0) == (9, 6)
        assert scene.cluster.metadata.nodes[9].host == "new"

    play(scenario)


def test_a_replica_that_the_leader_names_is_read_from_until_it_fails() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(preferred_read_replica=2))
        node_id, _, to = await scene.cluster.take()
        assert node_id == 2
        await scene.answer(to, told(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        scene.fetcher.settle()
        assert scene.subscription.of(T0).state is FetchState.FETCHING
        await asyncio.sleep(1)
        node_id, _, to = await scene.fetch()
        assert node_id == 1  # it may have lagged behind: the leader must say so too
        await scene.answer(to, told(preferred_read_replica=2))
        node_id, _, to = await scene.cluster.take()
        to.set_exception(ConnectionFailed("gone"))
        await asyncio.sleep(0)
        node_id, _, _ = await scene.cluster.take()
        assert node_id == 1

    play(scenario)


def test_an_offset_out_of_range_is_reset_when_the_application_polls_and_not_before() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        assert scene.subscription.of(T0).state is FetchState.FETCHING
        assert scene.cluster.sent == []
        scene.fetcher.settle()
        assert scene.subscription.needing_reset(0) == [T0]

    play(scenario)


def test_an_error_met_ahead_waits_until_what_came_before_is_read() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(records=records(10)))
        _, _, to = await scene.cluster.take()
        await scene.answer(to, told(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        scene.fetcher.settle()
        assert [each.offset for each in scene.buffer.take(1)] == [10]
        scene.fetcher.settle()
        assert [each.offset for each in scene.buffer.take(5)] == [11]
        assert scene.cluster.sent == []
        scene.fetcher.settle()
        assert scene.subscription.needing_reset(0) == [T0]

    play(scenario)


def test_an_error_of_a_position_that_has_moved_counts_no_more() -> None:
    async def scenario() -> None:
        scene = Scene(T0, reset=OffsetReset.NONE)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        scene.subscription.of(T0).seek_validated(FetchPosition(11, 4, 1, 5))
        scene.fetcher.settle()
        _, request, _ = await scene.fetch()
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
def test_what_only_the_application_can_decide_is_raised(error: ErrorCode, kind: type[Exception]) -> None:
    async def scenario() -> None:
        scene = Scene(T0, reset=OffsetReset.NONE)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(error=error))
        with pytest.raises(kind, match=r"t-0.*\(broker 1 \(host:9001\)\)"):
            scene.fetcher.settle()
        scene.fetcher.settle()

    play(scenario)


def test_records_for_a_partition_that_went_are_dropped() -> None:
    async def scenario() -> None:
        scene = Scene(T0, T1)
        _, _, to = await scene.fetch()
        scene.subscription.assign([T1])
        await scene.answer(to, told(0, records=records(10)), told(1, records=records(10)))
        assert {each.partition for each in scene.buffer.take(10)} == {1}

    play(scenario)


def test_an_unknown_session_is_begun_anew_at_once() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, request, to = await scene.fetch()
        await scene.answer(to, told(), session_id=7)
        _, request, to = await scene.cluster.take()
        assert (request.session_id, request.session_epoch, request.topics) == (7, 1, [])
        await scene.answer(to, session_id=0, error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        _, request, _ = await scene.cluster.take()
        assert (request.session_id, request.session_epoch, len(request.topics)) == (0, 0, 1)

    play(scenario)


def test_a_topic_without_an_id_is_asked_for_by_name() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        unnamed = scene.cluster.metadata.topics["t"]._replace(topic_id=bytes(16))
        scene.cluster.metadata = scene.cluster.metadata._replace(topics={"t": unnamed})
        scene.fetcher.send()
        ((_, request, version_max, to),) = scene.cluster.sent
        assert (version_max, request.topics[0].topic) == (12, "t")
        topic = FetchableTopicResponse(topic="t", partitions=[told(records=records(10))])
        to.set_result(FetchResponse(session_id=7, responses=[topic]))
        await asyncio.sleep(0)
        assert len(scene.buffer.take(10)) == 2

    play(scenario)


def test_a_broker_that_is_not_ready_is_waited_for_without_holding_up_others() -> None:
    async def scenario() -> None:
        scene = Scene(T0, T1)
        scene.subscription.of(T1).seek_validated(FetchPosition(3, 4, 2, 5))
        scene.cluster.not_ready.add(1)
        scene.fetcher.send()
        assert [node_id for node_id, *_ in scene.cluster.sent] == [2]
        scene.cluster.not_ready.clear()
        await asyncio.sleep(0.1)
        assert [node_id for node_id, *_ in scene.cluster.sent] == [2, 1]

    play(scenario)


def test_what_no_retry_mends_is_raised_once_and_tried_again_after() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        to.set_exception(UnsupportedVersion("too old"))
        await asyncio.sleep(0)
        with pytest.raises(UnsupportedVersion):
            scene.fetcher.settle()
        scene.fetcher.settle()
        await scene.fetch()

    play(scenario)


def test_closing_ends_sessions_and_what_is_under_way() -> None:
    async def scenario() -> None:
        scene = Scene(T0, T1)
        scene.subscription.of(T1).seek_validated(FetchPosition(3, 4, 2, 5))
        scene.fetcher.send()
        (_, _, _, to_first), (_, _, _, to_second) = scene.cluster.sent
        scene.cluster.sent.clear()
        await scene.answer(to_first, told(), session_id=7)
        scene.subscription.of(T0).paused = True
        (_, _, _, again) = scene.cluster.sent.pop()
        await scene.answer(again, session_id=7)
        closing = asyncio.create_task(scene.fetcher.close())
        _, request, to = await scene.cluster.take()
        assert (request.session_id, request.session_epoch) == (7, -1)
        to.set_exception(ClientClosed("closed"))
        await closing
        assert to_second.cancelled()
        scene.fetcher.send()
        assert scene.cluster.sent == []

    play(scenario)


def test_bytes_without_a_whole_batch_are_told_with_their_place() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        await scene.answer(to, told(records=records(10)[:-1]))
        with pytest.raises(RecordCorrupt, match="t-0 at offset 10"):
            scene.buffer.take(10)

    play(scenario)


def test_broken_bytes_are_told_after_what_came_before_them() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        _, _, to = await scene.fetch()
        broken = bytearray(records(12))
        broken[-1] ^= 1
        await scene.answer(to, told(records=records(10) + bytes(broken)))
        assert [each.offset for each in scene.buffer.take(10)] == [10, 11]
        for _ in range(2):
            with pytest.raises(RecordCorrupt, match="t-0"):
                scene.buffer.take(10)
        assert scene.subscription.of(T0).position == FetchPosition(12, 5, 1, 5)

    play(scenario)
