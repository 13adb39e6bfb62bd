"""The offset fetcher against scripted brokers: resets, validations and lookups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.simulation.scripted_cluster import ALL_VERSIONS, ScriptedCluster, image_of

from odradek.client.consumer.positions.offset_fetcher import OffsetFetcher
from odradek.client.consumer.positions.offset_requests import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.client.consumer.positions.partition_state import FetchPosition, FetchState, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.options.parsing import read_options
from odradek.client.values import OffsetAndTimestamp
from odradek.config.client import CONSUMER
from odradek.model.client_errors import (
    AuthorizationFailed,
    ConnectionFailed,
    LogTruncation,
    OffsetOutOfRange,
    TimedOut,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
S = FetchState


class OffsetFetcherFixture:
    def __init__(self, *partitions: TopicPartition, reset: str = "earliest", **options: Any) -> None:
        settings = read_options(CONSUMER, {"bootstrap.servers": "h:1"}, options)
        self.cluster = ScriptedCluster(image_of({T0: (1, 5), T1: (2, 5)}))
        self.subscription = SubscriptionState(OffsetReset(reset))
        self.subscription.assign(partitions)
        self.notifications = 0
        cluster: Any = self.cluster
        self.offsets = OffsetFetcher(
            cluster,
            VirtualClock(asyncio.get_running_loop()),
            SeededEntropy(),
            settings,
            self.subscription,
            self._notify,
        )

    def _notify(self) -> None:
        self.notifications += 1

    async def run_pending(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    run_virtually(scenario)


def offset_response(
    partition: int, offset: int = -1, error: ErrorCode = ErrorCode.NONE
) -> ListOffsetsResponse:
    data = ListOffsetsPartitionResponse(
        partition_index=partition, error_code=int(error), timestamp=1, offset=offset, leader_epoch=4
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[data])])


def epoch_end(epoch: int, offset: int, error: ErrorCode = ErrorCode.NONE) -> OffsetForLeaderEpochResponse:
    data = EpochEndOffset(error_code=int(error), partition=0, leader_epoch=epoch, end_offset=offset)
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[data])])


def test_reset_sends_one_request_per_leader() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(T0, T1)
        fixture.subscription.request_reset(T0, OffsetReset.EARLIEST)
        fixture.subscription.request_reset(T1, OffsetReset.LATEST)
        fixture.offsets.reset_positions()
        fixture.offsets.reset_positions()
        await fixture.run_pending()
        timestamps = {
            node_id: request.topics[0].partitions[0].timestamp
            for node_id, request, *_ in fixture.cluster.sent
        }
        assert timestamps == {1: EARLIEST_TIMESTAMP, 2: LATEST_TIMESTAMP}
        for node_id, _, _, to in fixture.cluster.sent:
            to.set_result(offset_response(node_id - 1, 40 + node_id))
        await fixture.run_pending()
        assert fixture.subscription.of(T0).position == FetchPosition(41, -1, 1, 5)
        assert fixture.subscription.of(T1).position == FetchPosition(42, -1, 2, 5)
        assert fixture.notifications == 2

    play(scenario)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ConnectionFailed("gone")]
)
def test_failed_reset_is_retried_after_backoff(error: ErrorCode | ConnectionFailed) -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(T0)
        fixture.subscription.request_reset(T0)
        fixture.offsets.reset_positions()
        _, _, to = await fixture.cluster.take()
        if isinstance(error, ErrorCode):
            to.set_result(offset_response(0, error=error))
        else:
            to.set_exception(error)
        await fixture.run_pending()
        fixture.offsets.raise_failure()
        assert fixture.cluster.refreshes == 1
        fixture.offsets.reset_positions()
        assert fixture.cluster.sent == []
        await asyncio.sleep(1)
        fixture.offsets.reset_positions()
        _, _, to = await fixture.cluster.take()
        to.set_result(offset_response(0, 7))
        await fixture.run_pending()
        assert fixture.subscription.has_all_positions

    play(scenario)


def test_authorization_error_of_reset_is_raised_once() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(T0)
        fixture.subscription.request_reset(T0)
        fixture.offsets.reset_positions()
        _, _, to = await fixture.cluster.take()
        to.set_result(offset_response(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        await fixture.run_pending()
        with pytest.raises(AuthorizationFailed, match="t-0"):
            fixture.offsets.raise_failure()
        fixture.offsets.raise_failure()

    play(scenario)


def test_reset_without_leader_requests_metadata() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(TopicPartition("t", 9))
        fixture.subscription.reset_initializing()
        fixture.offsets.reset_positions()
        assert fixture.cluster.refreshes == 1
        assert fixture.cluster.sent == []

    play(scenario)


def validating(**options: Any) -> OffsetFetcherFixture:
    fixture = OffsetFetcherFixture(T0, **options)
    fixture.subscription.of(T0).seek_validated(FetchPosition(10, 3, 1, 4))
    fixture.offsets.on_leaders_changed()
    assert fixture.subscription.of(T0).state is S.AWAITING_VALIDATION
    return fixture


def test_new_leader_epoch_validates_position() -> None:
    async def scenario() -> None:
        fixture = validating()
        fixture.offsets.validate_positions()
        node_id, request, to = await fixture.cluster.take()
        data = request.topics[0].partitions[0]
        assert (node_id, data.current_leader_epoch, data.leader_epoch, request.replica_id) == (1, 5, 3, -1)
        to.set_result(epoch_end(3, 12))
        await fixture.run_pending()
        assert fixture.subscription.of(T0).position == FetchPosition(10, 3, 1, 5)
        assert fixture.subscription.of(T0).state is S.FETCHING

    play(scenario)


def test_truncation_resets_position_or_raises() -> None:
    async def scenario() -> None:
        fixture = validating()
        fixture.offsets.validate_positions()
        _, _, to = await fixture.cluster.take()
        to.set_result(epoch_end(3, 6))
        await fixture.run_pending()
        assert fixture.subscription.of(T0).position == FetchPosition(6, 3, 1, 5)
        fixture = validating(reset="none")
        fixture.offsets.validate_positions()
        _, _, to = await fixture.cluster.take()
        to.set_result(epoch_end(3, 6))
        await fixture.run_pending()
        message = r"t-0 was read to offset 10 \(epoch 3\).* at offset 6 \(epoch 3\)"
        with pytest.raises(LogTruncation, match=message) as truncation:
            fixture.offsets.raise_failure()
        assert isinstance(truncation.value, OffsetOutOfRange)
        assert truncation.value.divergent_offsets == {T0: 6}
        assert fixture.subscription.of(T0).state is S.AWAITING_VALIDATION

    play(scenario)


def test_leader_in_an_older_epoch_than_the_position_validates_nothing() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(T0)
        fixture.subscription.of(T0).seek_unvalidated(FetchPosition(10, 6, 1, 5))
        assert fixture.subscription.of(T0).state is S.AWAITING_VALIDATION
        fixture.offsets.validate_positions()
        await fixture.run_pending()
        assert (fixture.cluster.sent, fixture.cluster.refreshes) == ([], 1)
        assert fixture.subscription.of(T0).state is S.AWAITING_VALIDATION

    play(scenario)


def test_validation_is_retried_after_fenced_leader_epoch() -> None:
    async def scenario() -> None:
        fixture = validating()
        fixture.offsets.validate_positions()
        _, _, to = await fixture.cluster.take()
        to.set_result(epoch_end(-1, -1, ErrorCode.FENCED_LEADER_EPOCH))
        await fixture.run_pending()
        await asyncio.sleep(1)
        fixture.offsets.validate_positions()
        _, _, to = await fixture.cluster.take()
        to.set_result(epoch_end(3, 12))
        await fixture.run_pending()
        assert fixture.subscription.of(T0).state is S.FETCHING

    play(scenario)


def test_validation_is_skipped_for_old_brokers() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(T0)
        fixture.cluster.spoken = {**ALL_VERSIONS, 23: range(3)}
        fixture.subscription.of(T0).seek_validated(FetchPosition(10, 3, 1, 4))
        fixture.offsets.on_leaders_changed()
        assert fixture.subscription.of(T0).state is S.FETCHING
        fixture.cluster.spoken = {}  # versions are unknown before the connection is open
        fixture.subscription.of(T0).seek_validated(FetchPosition(10, 3, 1, 4))
        fixture.offsets.on_leaders_changed()
        fixture.offsets.validate_positions()
        fixture.cluster.spoken = {23: range(3)}
        await fixture.run_pending()
        assert fixture.cluster.sent == []
        assert fixture.subscription.of(T0).state is S.FETCHING

    play(scenario)


def test_lookup_retries_where_leader_moved() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture()
        lookup = asyncio.create_task(fixture.offsets.fetch_offsets({T0: 5, T1: 6}, 60_000))
        for _ in range(2):
            node_id, _, to = await fixture.cluster.take()
            to.set_result(
                offset_response(0, 7)
                if node_id == 1
                else offset_response(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            )
        await asyncio.sleep(1)
        node_id, _, to = await fixture.cluster.take()
        assert node_id == 2
        to.set_result(offset_response(1))
        assert await lookup == {T0: OffsetAndTimestamp(7, 1, 4), T1: None}

    play(scenario)


def test_lookup_timeout_names_missing_partitions() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture()
        fixture.cluster.metadata = image_of({T0: (-1, 5)})
        with pytest.raises(TimedOut, match="t-0"):
            await fixture.offsets.fetch_offsets({T0: 5}, 3000)

    play(scenario)


def test_end_offset_is_fetched_once_in_background() -> None:
    async def scenario() -> None:
        fixture = OffsetFetcherFixture(T0)
        fixture.subscription.of(T0).seek_validated(FetchPosition(10))
        fixture.offsets.fetch_end_offset_async(T0)
        fixture.offsets.fetch_end_offset_async(T0)
        _, request, to = await fixture.cluster.take()
        assert fixture.cluster.sent == []
        assert request.topics[0].partitions[0].timestamp == LATEST_TIMESTAMP
        to.set_result(offset_response(0, 17))
        await fixture.run_pending()
        assert fixture.subscription.of(T0).lag(read_committed=False) == 7
        fixture.offsets.fetch_end_offset_async(T0)
        await fixture.run_pending()
        assert len(fixture.cluster.sent) == 1
        await fixture.offsets.close()

    play(scenario)
