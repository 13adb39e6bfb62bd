"""Offsets that brokers know: resets, validations and look-ups, with brokers that refuse and move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.simulation.scripted_cluster import ALL_VERSIONS, ScriptedCluster, image_of

from odradek.client.consumer.positions.offset_fetcher import Offsets
from odradek.client.consumer.positions.offset_requests import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.client.consumer.positions.partition_state import FetchPosition, FetchState, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.options.parsing import read_options
from odradek.client.values import OffsetAndTimestamp
from odradek.config.client import CONSUMER
from odradek.model.client_errors import AuthorizationFailed, ConnectionFailed, OffsetOutOfRange, TimedOut
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


class Scene:
    def __init__(self, *partitions: TopicPartition, reset: str = "earliest", **options: Any) -> None:
        settings = read_options(CONSUMER, {"bootstrap.servers": "h:1"}, options)
        self.cluster = ScriptedCluster(image_of({T0: (1, 5), T1: (2, 5)}))
        self.subscription = SubscriptionState(OffsetReset(reset))
        self.subscription.assign(partitions)
        self.news = 0
        cluster: Any = self.cluster
        self.offsets = Offsets(
            cluster,
            VirtualClock(asyncio.get_running_loop()),
            SeededEntropy(),
            settings,
            self.subscription,
            self._told,
        )

    def _told(self) -> None:
        self.news += 1

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    run_virtually(scenario)


def listed(partition: int, offset: int = -1, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsResponse:
    told = ListOffsetsPartitionResponse(
        partition_index=partition, error_code=int(error), timestamp=1, offset=offset, leader_epoch=4
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])


def ended(epoch: int, offset: int, error: ErrorCode = ErrorCode.NONE) -> OffsetForLeaderEpochResponse:
    told = EpochEndOffset(error_code=int(error), partition=0, leader_epoch=epoch, end_offset=offset)
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[told])])


def test_resets_ask_each_leader_once_for_its_partitions() -> None:
    async def scenario() -> None:
        scene = Scene(T0, T1)
        scene.subscription.request_reset(T0, OffsetReset.EARLIEST)
        scene.subscription.request_reset(T1, OffsetReset.LATEST)
        scene.offsets.reset_positions()
        scene.offsets.reset_positions()
        await scene.settle()
        asked = {
            node_id: request.topics[0].partitions[0].timestamp for node_id, request, *_ in scene.cluster.sent
        }
        assert asked == {1: EARLIEST_TIMESTAMP, 2: LATEST_TIMESTAMP}
        for node_id, _, _, to in scene.cluster.sent:
            to.set_result(listed(node_id - 1, 40 + node_id))
        await scene.settle()
        assert scene.subscription.of(T0).position == FetchPosition(41, -1, 1, 5)
        assert scene.subscription.of(T1).position == FetchPosition(42, -1, 2, 5)
        assert scene.news == 2

    play(scenario)


@pytest.mark.parametrize(
    "trouble", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ConnectionFailed("gone")]
)
def test_a_reset_that_fails_is_tried_again_after_a_rest(trouble: ErrorCode | ConnectionFailed) -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        scene.subscription.request_reset(T0)
        scene.offsets.reset_positions()
        _, _, to = await scene.cluster.take()
        if isinstance(trouble, ErrorCode):
            to.set_result(listed(0, error=trouble))
        else:
            to.set_exception(trouble)
        await scene.settle()
        scene.offsets.raise_failure()
        assert scene.cluster.refreshes == 1
        scene.offsets.reset_positions()
        assert scene.cluster.sent == []
        await asyncio.sleep(1)
        scene.offsets.reset_positions()
        _, _, to = await scene.cluster.take()
        to.set_result(listed(0, 7))
        await scene.settle()
        assert scene.subscription.has_all_positions

    play(scenario)


def test_a_refusal_is_raised_in_the_next_poll() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        scene.subscription.request_reset(T0)
        scene.offsets.reset_positions()
        _, _, to = await scene.cluster.take()
        to.set_result(listed(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        await scene.settle()
        with pytest.raises(AuthorizationFailed, match="t-0"):
            scene.offsets.raise_failure()
        scene.offsets.raise_failure()

    play(scenario)


def test_a_partition_without_a_leader_asks_for_metadata() -> None:
    async def scenario() -> None:
        scene = Scene(TopicPartition("t", 9))
        scene.subscription.reset_missing()
        scene.offsets.reset_positions()
        assert scene.cluster.refreshes == 1
        assert scene.cluster.sent == []

    play(scenario)


def validating(**how: Any) -> Scene:
    scene = Scene(T0, **how)
    scene.subscription.of(T0).seek_validated(FetchPosition(10, 3, 1, 4))
    scene.offsets.meet_leaders()
    assert scene.subscription.of(T0).state is S.AWAITING_VALIDATION
    return scene


def test_a_new_leader_epoch_has_the_position_validated() -> None:
    async def scenario() -> None:
        scene = validating()
        scene.offsets.validate_positions()
        node_id, request, to = await scene.cluster.take()
        asked = request.topics[0].partitions[0]
        assert (node_id, asked.current_leader_epoch, asked.leader_epoch, request.replica_id) == (1, 5, 3, -1)
        to.set_result(ended(3, 12))
        await scene.settle()
        assert scene.subscription.of(T0).position == FetchPosition(10, 3, 1, 5)
        assert scene.subscription.of(T0).state is S.FETCHING

    play(scenario)


def test_a_truncated_log_moves_its_reader_back_by_policy_or_names_the_offsets() -> None:
    async def scenario() -> None:
        scene = validating()
        scene.offsets.validate_positions()
        _, _, to = await scene.cluster.take()
        to.set_result(ended(3, 6))
        await scene.settle()
        assert scene.subscription.of(T0).position == FetchPosition(6, 3, 1, 5)
        scene = validating(reset="none")
        scene.offsets.validate_positions()
        _, _, to = await scene.cluster.take()
        to.set_result(ended(3, 6))
        await scene.settle()
        told = r"t-0 was read to offset 10 \(epoch 3\).* at offset 6 \(epoch 3\)"
        with pytest.raises(OffsetOutOfRange, match=told):
            scene.offsets.raise_failure()
        assert scene.subscription.of(T0).state is S.AWAITING_VALIDATION

    play(scenario)


def test_a_fenced_validation_is_tried_again() -> None:
    async def scenario() -> None:
        scene = validating()
        scene.offsets.validate_positions()
        _, _, to = await scene.cluster.take()
        to.set_result(ended(-1, -1, ErrorCode.FENCED_LEADER_EPOCH))
        await scene.settle()
        await asyncio.sleep(1)
        scene.offsets.validate_positions()
        _, _, to = await scene.cluster.take()
        to.set_result(ended(3, 12))
        await scene.settle()
        assert scene.subscription.of(T0).state is S.FETCHING

    play(scenario)


def test_brokers_that_cannot_validate_are_not_asked() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        scene.cluster.spoken = {**ALL_VERSIONS, 23: range(3)}
        scene.subscription.of(T0).seek_validated(FetchPosition(10, 3, 1, 4))
        scene.offsets.meet_leaders()
        assert scene.subscription.of(T0).state is S.FETCHING
        scene.cluster.spoken = {}  # not known before there is a connection
        scene.subscription.of(T0).seek_validated(FetchPosition(10, 3, 1, 4))
        scene.offsets.meet_leaders()
        scene.offsets.validate_positions()
        scene.cluster.spoken = {23: range(3)}
        await scene.settle()
        assert scene.cluster.sent == []
        assert scene.subscription.of(T0).state is S.FETCHING

    play(scenario)


def test_look_ups_wait_for_every_leader_and_ask_again_where_one_moved() -> None:
    async def scenario() -> None:
        scene = Scene()
        found = asyncio.create_task(scene.offsets.look_up({T0: 5, T1: 6}, 60_000))
        for _ in range(2):
            node_id, _, to = await scene.cluster.take()
            to.set_result(listed(0, 7) if node_id == 1 else listed(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        await asyncio.sleep(1)
        node_id, _, to = await scene.cluster.take()
        assert node_id == 2
        to.set_result(listed(1))
        assert await found == {T0: OffsetAndTimestamp(7, 1, 4), T1: None}

    play(scenario)


def test_a_look_up_that_takes_too_long_names_what_is_missing() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.cluster.metadata = image_of({T0: (-1, 5)})
        with pytest.raises(TimedOut, match="t-0"):
            await scene.offsets.look_up({T0: 5}, 3000)

    play(scenario)


def test_an_end_asked_for_in_passing_is_asked_for_once_and_kept() -> None:
    async def scenario() -> None:
        scene = Scene(T0)
        scene.subscription.of(T0).seek_validated(FetchPosition(10))
        scene.offsets.ask_end_soon(T0)
        scene.offsets.ask_end_soon(T0)
        _, request, to = await scene.cluster.take()
        assert scene.cluster.sent == []
        assert request.topics[0].partitions[0].timestamp == LATEST_TIMESTAMP
        to.set_result(listed(0, 17))
        await scene.settle()
        assert scene.subscription.of(T0).lag(read_committed=False) == 7
        scene.offsets.ask_end_soon(T0)
        await scene.settle()
        assert len(scene.cluster.sent) == 1
        await scene.offsets.close()

    play(scenario)
