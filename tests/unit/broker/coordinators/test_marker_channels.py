"""Markers: what becomes of each partition, and how long a transaction is being ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from odradek.broker.coordinators.marker_channels import (
    APPENDS_A_TURN,
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    MarkerTasks,
    Verdict,
    judge,
)
from odradek.broker.coordinators.transaction_marker_writer import Ending
from odradek.cluster.metadata_cache import MetadataCache, MetadataUpdate, PartitionMetadata, TopicMetadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from odradek.records.control_records import ControlRecordType
from odradek.testing.clock import VirtualClock, run_virtually

NUMBER = 3
ENDING = Ending(producer_id=7, producer_epoch=2, coordinator_epoch=5, commits=True)
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)

Answer = Mapping[TopicPartition, ErrorCode] | None


class Partitions:
    """Stands for the partitions of the cluster: answers each attempt from a list, later or never."""

    def __init__(self, *answers: Answer, delay_ms: int = 0) -> None:
        self.answers = list(answers)
        self.delay_ms = delay_ms
        self.attempts: list[tuple[int, tuple[TopicPartition, ...]]] = []

    def write(
        self, ending: Ending, partitions: Iterable[TopicPartition], told: Callable[[Any], None]
    ) -> None:
        asked = tuple(partitions)
        loop = asyncio.get_running_loop()
        self.attempts.append((round(loop.time() * 1000), asked))
        answer: Answer = self.answers.pop(0) if self.answers else {}
        if answer is None:
            return
        codes = {partition: answer.get(partition, ErrorCode.NONE) for partition in asked}
        if self.delay_ms:
            loop.call_later(self.delay_ms / 1000, told, codes)
        else:
            told(codes)


def image_of(*topics: str, partitions: int = 40) -> MetadataCache:
    image = MetadataCache()
    known = {
        name: TopicMetadata(
            name,
            name.encode().ljust(16, b"\0")[:16],
            {number: PartitionMetadata(number, 1, 0, (1,), (1,)) for number in range(partitions)},
        )
        for name in topics
    }
    image.apply(MetadataUpdate(topics=known))
    return image


class Stage:
    def __init__(self, partitions: Partitions, image: MetadataCache) -> None:
        self.partitions, self.image = partitions, image
        clock = VirtualClock(asyncio.get_running_loop())
        self.tasks = MarkerTasks(partitions, image, clock)  # type: ignore[arg-type]
        self.told: list[tuple[TopicPartition, ...]] = []

    def begin(self, *partitions: TopicPartition) -> None:
        self.tasks.begin(NUMBER, ENDING, partitions, self.told.append)


def play(
    scenario: Callable[[Stage], Any], *answers: Answer, topics: Iterable[str] = ("orders",), **how: Any
) -> None:
    async def main() -> None:
        stage = Stage(Partitions(*answers, **how), image_of(TRANSACTIONS_TOPIC, *topics))
        await scenario(stage)
        await stage.tasks.stop()

    run_virtually(main)


def test_the_marker_says_how_the_transaction_ends_and_who_decided() -> None:
    assert ENDING.marker == (ControlRecordType.COMMIT, 5)
    assert ENDING._replace(commits=False).marker == (ControlRecordType.ABORT, 5)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, Verdict.DONE),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, Verdict.DONE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, Verdict.FENCED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.AGAIN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.AGAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.AGAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.AGAIN),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.AGAIN),
        (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.AGAIN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.AGAIN),
    ],
)
def test_each_code_has_a_verdict(code: ErrorCode, verdict: Verdict) -> None:
    assert judge(code) is verdict


def test_partitions_that_fail_are_tried_again_less_and_less_often_until_they_are_done() -> None:
    tries = 9
    failing = [{B: ErrorCode.NOT_ENOUGH_REPLICAS}] * tries

    async def scenario(stage: Stage) -> None:
        stage.begin(A, B)
        await asyncio.sleep(60)
        assert stage.told == [(A,), (B,)]
        times = [time for time, _ in stage.partitions.attempts]
        waits = [later - earlier for earlier, later in pairwise(times)]
        assert waits == [min(RETRY_MS_MIN * 2**n, RETRY_MS_MAX) for n in range(tries)]
        assert [asked for _, asked in stage.partitions.attempts] == [(A, B)] + [(B,)] * tries

    play(scenario, *failing)


def test_nobody_is_told_before_the_markers_are_committed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.begin(A, B)
        await asyncio.sleep(0.9)
        assert stage.told == []
        await asyncio.sleep(0.2)
        assert stage.told == [(A, B)]

    play(scenario, delay_ms=1_000)


def test_a_partition_that_the_cluster_no_longer_has_is_done_with() -> None:
    gone = TopicPartition("gone", 0)

    async def scenario(stage: Stage) -> None:
        stage.begin(A, gone)
        await asyncio.sleep(1)
        assert sorted(stage.told[0]) == [gone, A]
        assert [asked for _, asked in stage.partitions.attempts] == [(A,)]

    play(scenario)


def test_a_topic_that_is_deleted_while_it_fails_holds_nothing_up() -> None:
    async def scenario(stage: Stage) -> None:
        stage.begin(A)
        await asyncio.sleep(5)
        assert stage.told == []
        stage.image.apply(MetadataUpdate(topics={"orders": None}))
        await asyncio.sleep(2)
        assert stage.told == [(A,)]

    play(scenario, *[{A: ErrorCode.KAFKA_STORAGE_ERROR}] * 100)


def test_shortly_after_a_start_nothing_is_taken_for_deleted() -> None:
    """The image comes after the orders to lead: before it, no partition is known."""

    async def main() -> None:
        image = MetadataCache()
        stage = Stage(Partitions({A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}), image)
        stage.begin(A)
        await asyncio.sleep(0.01)
        assert stage.told == []
        known = image_of(TRANSACTIONS_TOPIC, "orders")
        image.apply(MetadataUpdate(topics=dict(known.topics)))
        await asyncio.sleep(1)
        assert stage.told == [(A,)]
        assert len(stage.partitions.attempts) == 2
        await stage.tasks.stop()

    run_virtually(main)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_who_is_fenced_stops(code: ErrorCode) -> None:
    async def scenario(stage: Stage) -> None:
        stage.begin(A, B)
        await asyncio.sleep(60)
        assert stage.told == [(B,)]
        assert len(stage.partitions.attempts) == 1

    play(scenario, {A: code})


def test_a_transaction_without_partitions_is_ended_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.begin()
        await asyncio.sleep(0.001)
        assert stage.told == [()]

    play(scenario)


def test_who_no_longer_leads_stops_and_so_does_who_is_stopped() -> None:
    async def scenario(stage: Stage) -> None:
        stage.begin(A)
        await asyncio.sleep(1)
        stage.tasks.cancel(NUMBER + 1)
        tried = len(stage.partitions.attempts)
        await asyncio.sleep(5)
        assert len(stage.partitions.attempts) > tried, "another partition's coordinator went"
        stage.tasks.cancel(NUMBER)
        tried = len(stage.partitions.attempts)
        await asyncio.sleep(5)
        assert len(stage.partitions.attempts) == tried
        await stage.tasks.stop()
        stage.begin(A)
        await asyncio.sleep(5)
        assert (len(stage.partitions.attempts), stage.told) == (tried, [])

    play(scenario, *[{A: ErrorCode.NOT_ENOUGH_REPLICAS}] * 100)


def test_many_partitions_are_written_to_in_turns() -> None:
    many = [TopicPartition("orders", number) for number in range(2 * APPENDS_A_TURN + 1)]

    async def scenario(stage: Stage) -> None:
        stage.begin(*many)
        turns = await attempts_by_turn(stage, 1)
        assert [len(asked) for _, asked in stage.partitions.attempts] == [APPENDS_A_TURN, APPENDS_A_TURN, 1]
        assert sorted(stage.told[0]) == many
        assert {1, 2} <= set(turns), "others had their turn in between"

    play(scenario)


def test_so_are_those_of_many_transactions() -> None:
    """As after a start that finds very many of them."""
    count = 3 * APPENDS_A_TURN

    async def scenario(stage: Stage) -> None:
        for _ in range(count):
            stage.begin(A)
        turns = await attempts_by_turn(stage, count)
        assert len(stage.partitions.attempts) == count
        steps = [later - earlier for earlier, later in pairwise(turns)]
        assert max(steps) == APPENDS_A_TURN

    play(scenario)


async def attempts_by_turn(stage: Stage, count: int) -> list[int]:
    """How many attempts there were after each turn of the loop, until so many transactions are done."""
    turns = [0]
    while len(stage.told) < count:
        await asyncio.sleep(0)
        turns.append(len(stage.partitions.attempts))
    return turns


def test_a_defect_ends_its_own_task_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Partitions):
        def write(self, ending: Ending, partitions: Iterable[TopicPartition], told: Any) -> None:
            asked = tuple(partitions)
            if B in asked:
                raise RuntimeError("a defect")
            super().write(ending, asked, told)

    async def main() -> None:
        stage = Stage(Broken(), image_of(TRANSACTIONS_TOPIC, "orders"))
        stage.begin(B)
        stage.begin(A)
        await asyncio.sleep(1)
        assert stage.told == [(A,)]
        await stage.tasks.stop()

    run_virtually(main)
    assert "marker_task_crashed" in caplog.text
