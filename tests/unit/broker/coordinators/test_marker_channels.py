"""Marker delivery: error codes per partition, retries, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, pairwise
from typing import Any

import pytest

from odradek.broker.coordinators.marker_channels import (
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    MarkerAction,
    TransactionMarkerChannelManager,
    action_for,
)
from odradek.broker.coordinators.marker_queues import APPENDS_PER_BATCH, RemoteMarkerSettings
from odradek.broker.coordinators.transaction_marker_writer import TxnMarkerEntry
from odradek.cluster.metadata_cache import MetadataCache, MetadataUpdate, PartitionMetadata, TopicMetadata
from odradek.model.client_errors import ConnectionFailed
from odradek.model.errors import ErrorCode
from odradek.model.ids import TRANSACTIONS_TOPIC, TopicPartition
from odradek.records.control_records import ControlRecordType
from odradek.testing.clock import VirtualClock, run_virtually

NUMBER = 3
MARKER_ENTRY = TxnMarkerEntry(producer_id=7, producer_epoch=2, coordinator_epoch=5, commits=True)
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)

Codes = Mapping[TopicPartition, ErrorCode] | None


class StubMarkerWriter:
    """Stub marker writer: completes each attempt from a list, later or never."""

    def __init__(self, *responses: Codes, delay_ms: int = 0) -> None:
        self.results = list(responses)
        self.delay_ms = delay_ms
        self.attempts: list[tuple[int, tuple[TopicPartition, ...]]] = []

    def write(
        self,
        marker_entry: TxnMarkerEntry,
        partitions: Iterable[TopicPartition],
        on_done: Callable[[Any], None],
    ) -> None:
        requested = tuple(partitions)
        loop = asyncio.get_running_loop()
        self.attempts.append((round(loop.time() * 1000), requested))
        response: Codes = self.results.pop(0) if self.results else {}
        if response is None:
            return
        codes = {partition: response.get(partition, ErrorCode.NONE) for partition in requested}
        if self.delay_ms:
            loop.call_later(self.delay_ms / 1000, on_done, codes)
        else:
            on_done(codes)


def metadata_cache_of(*topics: str, partitions: int = 40) -> MetadataCache:
    metadata_cache = MetadataCache()
    known = {
        name: TopicMetadata(
            name,
            name.encode().ljust(16, b"\0")[:16],
            {number: PartitionMetadata(number, 1, 0, (1,), (1,)) for number in range(partitions)},
        )
        for name in topics
    }
    metadata_cache.apply(MetadataUpdate(topics=known))
    return metadata_cache


class NoRequests:
    """``BrokerRequests`` of a broker without peers."""

    async def send(self, broker_id: int, request: Any, timeout_ms: int, **options: Any) -> Any:
        raise ConnectionFailed(f"Broker {broker_id} is not alive")

    async def send_to_controller(self, request: Any, timeout_ms: int, **options: Any) -> Any:
        raise ConnectionFailed("The controller is not known yet")

    def open_channel(self, broker_id: int, name: str) -> Any:
        raise ConnectionFailed(f"Broker {broker_id} is not alive")


class MarkerHarness:
    def __init__(self, partitions: StubMarkerWriter, metadata_cache: MetadataCache) -> None:
        self.partitions, self.metadata_cache = partitions, metadata_cache
        clock = VirtualClock(asyncio.get_running_loop())
        remote = RemoteMarkerSettings(NoRequests(), lambda: 30_000, 1)
        self.tasks = TransactionMarkerChannelManager(1, partitions, metadata_cache, clock, remote)  # type: ignore[arg-type]
        self.completed: list[tuple[TopicPartition, ...]] = []

    def start(self, *partitions: TopicPartition) -> None:
        self.tasks.add_markers(NUMBER, MARKER_ENTRY, partitions, self.completed.append)


def run_scenario(
    scenario: Callable[[MarkerHarness], Any],
    *responses: Codes,
    topics: Iterable[str] = ("orders",),
    **options: Any,
) -> None:
    async def main() -> None:
        harness = MarkerHarness(
            StubMarkerWriter(*responses, **options), metadata_cache_of(TRANSACTIONS_TOPIC, *topics)
        )
        await scenario(harness)
        await harness.tasks.stop()

    run_virtually(main)


def test_marker_holds_control_type_and_coordinator_epoch() -> None:
    assert MARKER_ENTRY.marker == (ControlRecordType.COMMIT, 5)
    assert MARKER_ENTRY._replace(commits=False).marker == (ControlRecordType.ABORT, 5)


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.NONE, MarkerAction.DONE),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, MarkerAction.DONE),
        (ErrorCode.UNSUPPORTED_VERSION, MarkerAction.DONE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, MarkerAction.FENCED),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, MarkerAction.FENCED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, MarkerAction.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, MarkerAction.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS, MarkerAction.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, MarkerAction.RETRY),
        (ErrorCode.REQUEST_TIMED_OUT, MarkerAction.RETRY),
        (ErrorCode.KAFKA_STORAGE_ERROR, MarkerAction.RETRY),
        (ErrorCode.UNKNOWN_SERVER_ERROR, MarkerAction.RETRY),
        (ErrorCode.NETWORK_EXCEPTION, MarkerAction.RETRY),
        (ErrorCode.LEADER_NOT_AVAILABLE, MarkerAction.RETRY),
    ],
)
def test_each_error_code_maps_to_a_marker_action(code: ErrorCode, action: MarkerAction) -> None:
    assert action_for(code) is action


def test_failed_partitions_are_retried_with_backoff_until_done() -> None:
    tries = 9
    failing = [{B: ErrorCode.NOT_ENOUGH_REPLICAS}] * tries

    async def scenario(harness: MarkerHarness) -> None:
        harness.start(A, B)
        await asyncio.sleep(60)
        assert harness.completed == [(A,), (B,)]
        times = [time for time, _ in harness.partitions.attempts]
        waits = [later - earlier for earlier, later in pairwise(times)]
        assert waits == [min(RETRY_MS_MIN * 2**n, RETRY_MS_MAX) for n in range(tries)]
        assert [requested for _, requested in harness.partitions.attempts] == [(A, B)] + [(B,)] * tries

    run_scenario(scenario, *failing)


def test_completion_waits_until_the_markers_are_committed() -> None:
    async def scenario(harness: MarkerHarness) -> None:
        harness.start(A, B)
        await asyncio.sleep(0.9)
        assert harness.completed == []
        await asyncio.sleep(0.2)
        assert harness.completed == [(A, B)]

    run_scenario(scenario, delay_ms=1_000)


def test_partition_of_a_deleted_topic_counts_as_done() -> None:
    deleted = TopicPartition("gone", 0)

    async def scenario(harness: MarkerHarness) -> None:
        harness.start(A, deleted)
        await asyncio.sleep(1)
        assert sorted(chain.from_iterable(harness.completed)) == [deleted, A]
        assert [requested for _, requested in harness.partitions.attempts] == [(A,)]

    run_scenario(scenario)


def test_topic_deleted_during_retries_completes_its_markers() -> None:
    async def scenario(harness: MarkerHarness) -> None:
        harness.start(A)
        await asyncio.sleep(5)
        assert harness.completed == []
        harness.metadata_cache.apply(MetadataUpdate(topics={"orders": None}))
        await asyncio.sleep(2)
        assert harness.completed == [(A,)]

    run_scenario(scenario, *[{A: ErrorCode.KAFKA_STORAGE_ERROR}] * 100)


def test_partition_is_not_taken_for_deleted_before_metadata_is_loaded() -> None:
    """UpdateMetadata comes after LeaderAndIsr: before it, no partition is known."""

    async def main() -> None:
        metadata_cache = MetadataCache()
        harness = MarkerHarness(StubMarkerWriter(), metadata_cache)
        harness.start(A)
        await asyncio.sleep(0.01)
        assert harness.completed == []
        known = metadata_cache_of(TRANSACTIONS_TOPIC, "orders")
        metadata_cache.apply(MetadataUpdate(topics=dict(known.topics)))
        await asyncio.sleep(1)
        assert harness.completed == [(A,)]
        await harness.tasks.stop()

    run_virtually(main)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_fenced_coordinator_stops_writing_markers(code: ErrorCode) -> None:
    async def scenario(harness: MarkerHarness) -> None:
        harness.start(A, B)
        await asyncio.sleep(60)
        assert harness.completed == [(B,)]
        assert len(harness.partitions.attempts) == 1

    run_scenario(scenario, {A: code})


def test_transaction_without_partitions_completes_at_once() -> None:
    async def scenario(harness: MarkerHarness) -> None:
        harness.start()
        await asyncio.sleep(0.001)
        assert harness.completed == [()]

    run_scenario(scenario)


def test_lost_leadership_and_stop_cancel_marker_tasks() -> None:
    async def scenario(harness: MarkerHarness) -> None:
        harness.start(A)
        await asyncio.sleep(1)
        harness.tasks.cancel(NUMBER + 1)
        tried = len(harness.partitions.attempts)
        await asyncio.sleep(5)
        assert len(harness.partitions.attempts) > tried, "only the other coordinator partition was cancelled"
        harness.tasks.cancel(NUMBER)
        tried = len(harness.partitions.attempts)
        await asyncio.sleep(5)
        assert len(harness.partitions.attempts) == tried
        await harness.tasks.stop()
        harness.start(A)
        await asyncio.sleep(5)
        assert (len(harness.partitions.attempts), harness.completed) == (tried, [])

    run_scenario(scenario, *[{A: ErrorCode.NOT_ENOUGH_REPLICAS}] * 100)


def test_markers_of_many_partitions_are_written_in_batches() -> None:
    many = [TopicPartition("orders", number) for number in range(2 * APPENDS_PER_BATCH + 1)]

    async def scenario(harness: MarkerHarness) -> None:
        harness.start(*many)
        turns = await attempts_by_turn(harness, 3)
        assert [len(requested) for _, requested in harness.partitions.attempts] == [
            APPENDS_PER_BATCH,
            APPENDS_PER_BATCH,
            1,
        ]
        assert sorted(chain.from_iterable(harness.completed)) == many
        assert {1, 2} <= set(turns), "others ran in between"

    run_scenario(scenario)


def test_markers_of_many_transactions_are_written_in_batches() -> None:
    """As after a start that finds very many of them."""
    count = 3 * APPENDS_PER_BATCH

    async def scenario(harness: MarkerHarness) -> None:
        for _ in range(count):
            harness.start(A)
        turns = await attempts_by_turn(harness, count)
        assert len(harness.partitions.attempts) == count
        steps = [later - earlier for earlier, later in pairwise(turns)]
        assert max(steps) == APPENDS_PER_BATCH

    run_scenario(scenario)


async def attempts_by_turn(harness: MarkerHarness, count: int) -> list[int]:
    """Return the number of attempts after each loop iteration, until ``count`` transactions are done."""
    turns = [0]
    while len(harness.completed) < count:
        await asyncio.sleep(0)
        turns.append(len(harness.partitions.attempts))
    return turns


def test_exception_ends_only_its_own_marker_task(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(StubMarkerWriter):
        def write(
            self, marker_entry: TxnMarkerEntry, partitions: Iterable[TopicPartition], on_done: Any
        ) -> None:
            requested = tuple(partitions)
            if B in requested:
                raise RuntimeError("a defect")
            super().write(marker_entry, requested, on_done)

    async def main() -> None:
        harness = MarkerHarness(Broken(), metadata_cache_of(TRANSACTIONS_TOPIC, "orders"))
        harness.start(B)
        harness.start(A)
        await asyncio.sleep(1)
        assert harness.completed == [(A,)]
        await harness.tasks.stop()

    run_virtually(main)
    assert "marker_task_crashed" in caplog.text
