"""A fetcher: replication, truncation, errors of single partitions, role changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.replication.fetchers.scripted_leader import (
    ORDERS,
    REFUNDS,
    TOPIC_IDS,
    OldMetadataVersion,
    append,
    files_of,
    new_log,
    stored_bytes,
)

from odradek.log.log import Log
from odradek.model.errors import ErrorCode
from odradek.replication.fetchers import fetcher as fetcher_module
from odradek.replication.fetchers.fetch_state import ReplicaState
from odradek.wire.messages.list_offsets import ListOffsetsRequest
from odradek.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

Run = Callable[..., None]


def log_with(epochs: list[int], partition: Any = ORDERS, **config: Any) -> Log:
    """Return a log with one record per epoch in the list."""
    log = new_log(partition, **config)
    for epoch in epochs:
        append(log, epoch, value=b"epoch %d" % epoch)
    return log


def test_follower_gets_the_log_and_the_high_watermark_of_its_leader(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0, 1]), new_log()
        leader.high_watermark = 2
        fixture.leader.lead(leader, 1)
        fixture.follow(log, 1)
        await fixture.wait_for(lambda: log.log_end_offset == 3 and log.high_watermark == 2)
        assert fixture.appended == [ORDERS]
        append(leader, 1)
        leader.high_watermark = 4
        await fixture.wait_for(lambda: log.high_watermark == 4)
        assert stored_bytes(log) == stored_bytes(leader)
        assert log.epochs.entries == leader.epochs.entries
        assert fixture.appended.count(ORDERS) >= 2

    run(body)


def test_log_start_offset_follows_the_leaders(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0] * 5), new_log()
        leader.high_watermark = 5
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.high_watermark == 5)
        leader.advance_log_start_offset(3)
        await fixture.wait_for(lambda: log.log_start_offset == 3)

    run(body)


def test_requests_are_incremental_and_one_at_a_time(run: Run) -> None:
    async def body(fixture: Any) -> None:
        for partition in (ORDERS, REFUNDS):
            fixture.leader.lead(log_with([0], partition))
            fixture.follow(new_log(partition))
        await fixture.wait_ms(3000)
        [(broker_id, _, channel)] = fixture.requests.channels
        assert (broker_id, channel.in_flight_max) == (1, 1)
        fetches = fixture.leader.fetches
        assert fetches[0].session_epoch == 0
        assert [fetch.session_epoch for fetch in fetches[1:5]] == [1, 2, 3, 4]
        assert not fetches[3].topics
        assert set(fixture.leader.versions) == {17}
        assert fetches[0].replica_state.replica_epoch == 55

    run(body)


# Truncation.


@pytest.mark.parametrize(
    ("leader_epochs", "own_epochs", "kept"),
    [
        ([0, 0, 2, 2], [0, 0, 1, 1, 1], 2),
        ([0, 0, 0], [0, 0, 0, 0, 0], 3),
        ([0, 2, 2, 4, 4, 5], [0, 1, 1, 3, 3, 3, 3], 1),
        ([0, 0, 1], [0, 0, 1], 3),
        ([3, 3, 3], [1, 1], 0),
    ],
)
def test_diverging_log_is_truncated_where_it_diverges(
    run: Run, leader_epochs: list[int], own_epochs: list[int], kept: int
) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with(leader_epochs), log_with(own_epochs)
        truncations: list[int] = []
        fixture.leader.lead(leader, 9)
        follower = fixture.follow(log, 9)
        original = log.log_end_offset
        fixture.leader.on_response = lambda _: truncations.append(log.log_end_offset)
        await fixture.wait_for(lambda: stored_bytes(log) == stored_bytes(leader))
        assert follower.latest_epoch == leader_epochs[-1]
        assert log.epochs.entries == leader.epochs.entries[:-1]
        assert min([*truncations, original, log.log_end_offset]) == kept

    run(body)


def test_diverging_epoch_does_not_change_the_high_watermark(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0, 0, 2]), log_with([0, 1, 1, 1])
        leader.high_watermark = 4
        fixture.leader.lead(leader, 2)
        highest: list[int] = []
        fixture.leader.on_response = lambda _: highest.append(log.high_watermark)
        fixture.follow(log, 2)
        await fixture.wait_for(lambda: log.high_watermark == 4)
        assert highest[:2] == [0, 0]
        assert stored_bytes(log) == stored_bytes(leader)

    run(body)


def test_truncation_is_checked_in_every_leader_epoch(run: Run) -> None:
    """The leader has restarted with an unclean log, and was elected again (KAFKA-7164)."""

    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0, 0]), new_log()
        fixture.leader.lead(leader)
        follower = fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 3)
        leader.truncate_to(1, 0)
        append(leader, 1, value=b"other")
        append(leader, 1, value=b"other")
        fixture.leader.lead(leader, 1)
        follower.is_active = False
        fixture.follow(log, 1)
        await fixture.wait_for(lambda: stored_bytes(log) == stored_bytes(leader))

    run(body)


def test_log_without_epochs_is_truncated_to_the_high_watermark(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0, 0, 0]), log_with([0, 0, 0])
        log.epochs.clear()
        log.high_watermark = 1
        ends: list[int] = []
        fixture.leader.lead(leader)
        fixture.leader.on_response = lambda _: ends.append(log.log_end_offset)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 4)
        assert ends[0] == 1
        assert not [
            request for request in fixture.leader.requests if isinstance(request, OffsetForLeaderEpochRequest)
        ]

    run(body)


@pytest.mark.parametrize(
    ("leader_epochs", "own_epochs", "questions"),
    [
        ([0, 0, 2, 2], [0, 0, 1, 1, 1], 1),
        ([0, 2, 2, 4, 4, 5], [0, 1, 1, 3, 3, 3, 3], 2),
    ],
)
def test_old_leader_is_asked_for_the_ends_of_epochs(
    run: Run, leader_epochs: list[int], own_epochs: list[int], questions: int
) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with(leader_epochs), log_with(own_epochs)
        fixture.leader.lead(leader, 9)
        fixture.follow(log, 9)
        await fixture.wait_for(lambda: stored_bytes(log) == stored_bytes(leader))
        asked = [
            request for request in fixture.leader.requests if isinstance(request, OffsetForLeaderEpochRequest)
        ]
        assert len(asked) == questions
        assert all(request.replica_id == 7 for request in asked)
        assert all(
            fetch.topics[0].partitions[0].last_fetched_epoch == -1 for fetch in fixture.leader.fetches[:1]
        )

    run(body, metadata_version=OldMetadataVersion())


def test_epoch_errors_of_an_old_leader_are_retried_or_await_the_controller(run: Run) -> None:
    async def body(fixture: Any) -> None:
        orders, refunds = log_with([0, 1]), log_with([0, 1], REFUNDS)
        fixture.leader.lead(log_with([0, 0]), 4)
        fixture.leader.lead(log_with([0, 0], REFUNDS), 5)
        fixture.follow(orders, 5)
        fixture.follow(refunds, 4)
        await fixture.wait_ms(2500)
        assert fixture.state_of(ORDERS).state is ReplicaState.TRUNCATING
        assert fixture.state_of(REFUNDS).state is ReplicaState.FAILED
        fixture.leader.lead(fixture.leader.logs[ORDERS], 5)
        await fixture.wait_for(lambda: stored_bytes(orders) == stored_bytes(fixture.leader.logs[ORDERS]))

    run(body, metadata_version=OldMetadataVersion())


# Errors.


def test_fenced_replica_waits_for_the_controller(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log()
        fixture.leader.lead(leader, 2)
        follower = fixture.follow(log, 1)
        await fixture.wait_ms(10_000)
        assert len([fetch for fetch in fixture.leader.fetches if fetch.topics]) == 1
        assert fixture.manager.failed_partitions == [ORDERS]
        assert not fixture.failures
        follower.is_active = False
        fixture.follow(log, 2)
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        assert fixture.manager.failed_partitions == []

    run(body)


def count_fetches_of_orders(fixture: Any) -> int:
    return sum(
        any(topic.topic_id == TOPIC_IDS[ORDERS] for topic in fetch.topics) for fetch in fixture.leader.fetches
    )


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_partition_with_an_error_is_delayed_alone_and_retried(run: Run, error: ErrorCode) -> None:
    async def body(fixture: Any) -> None:
        orders, refunds = new_log(), new_log(REFUNDS)
        fixture.leader.lead(log_with([0, 0]))
        fixture.leader.lead(log_with([0, 0], REFUNDS))
        fixture.leader.errors[ORDERS] = error
        fixture.follow(orders)
        fixture.follow(refunds)
        await fixture.wait_ms(100)
        assert refunds.log_end_offset == 2
        append(fixture.leader.logs[REFUNDS], 0)
        await fixture.wait_ms(600)
        assert refunds.log_end_offset == 3
        assert orders.log_end_offset == 0
        assert count_fetches_of_orders(fixture) == 1
        del fixture.leader.errors[ORDERS]
        await fixture.wait_for(lambda: orders.log_end_offset == 2)

    run(body)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_leader_that_does_not_know_of_its_role_is_asked_again_soon(run: Run, error: ErrorCode) -> None:
    """The follower may hear of an election first. Waits double, up to the backoff of other errors."""

    async def body(fixture: Any) -> None:
        log = new_log()
        fixture.leader.lead(log_with([0, 0]))
        fixture.leader.errors[ORDERS] = error
        fixture.follow(log)
        await fixture.wait_ms(200)
        assert 3 <= count_fetches_of_orders(fixture) <= 4
        del fixture.leader.errors[ORDERS]
        await fixture.wait_ms(200)
        assert log.log_end_offset == 2
        fixture.leader.errors[ORDERS] = error
        await fixture.wait_ms(10_000)
        assert count_fetches_of_orders(fixture) <= 24

    run(body)


def test_unreachable_leader_is_retried_with_a_new_session(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0]), new_log()
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 1)
        fixture.leader.is_reachable = False
        await fixture.wait_ms(5000)
        append(leader, 0)
        fixture.leader.is_reachable = True
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        assert any(fetch.session_epoch == 0 for fetch in fixture.leader.fetches[1:])

    run(body)


def test_lost_session_is_replaced_at_once(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0]), new_log()
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 1)
        fixture.leader.session_errors.append(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        append(leader, 0)
        await fixture.wait_for(lambda: log.log_end_offset == 2, timeout_ms=700)

    run(body)


def test_refused_full_request_is_retried_after_a_backoff(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0]), new_log()
        fixture.leader.lead(leader)
        fixture.leader.session_errors += [ErrorCode.INVALID_FETCH_SESSION_EPOCH] * 3
        fixture.follow(log)
        await fixture.wait_ms(2900)
        assert len(fixture.leader.fetches) == 3
        await fixture.wait_for(lambda: log.log_end_offset == 1)

    run(body)


def test_corrupt_batch_is_fetched_again_and_counted(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log()
        path = leader.segments[0].path(".log")
        files = files_of(leader)
        sound = bytes(files.read_whole(path))
        file = files.open(path)
        file.write_at(len(sound) - 3, b"\xff")
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_ms(2500)
        assert log.log_end_offset == 0
        [fetcher] = fixture.manager._fetchers.values()
        assert fetcher.partitions[ORDERS].corrupt_count == 3
        file.write_at(0, sound)
        await fixture.wait_for(lambda: stored_bytes(log) == sound)
        assert not fixture.failures

    run(body)


def test_batches_of_a_later_epoch_are_skipped_without_haste(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log()
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        append(leader, 5)
        await fixture.wait_ms(5000)
        assert log.log_end_offset == 2
        assert len(fixture.leader.fetches) < 20

    run(body)


def test_failed_log_ends_the_replication_of_its_partition_only(run: Run) -> None:
    async def body(fixture: Any) -> None:
        orders, refunds = new_log(), new_log(REFUNDS)
        for partition in (ORDERS, REFUNDS):
            fixture.leader.lead(log_with([0, 0], partition))
        files_of(orders).fail_next_write(5, name_end=".log")
        fixture.follow(orders)
        fixture.follow(refunds)
        await fixture.wait_for(lambda: refunds.log_end_offset == 2)
        await fixture.wait_ms(5000)
        assert [partition for partition, _ in fixture.failures] == [ORDERS]
        assert fixture.manager.failed_partitions == [ORDERS]

    run(body)


def test_full_disk_delays_the_partition(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0] * 4), new_log(segment_bytes=100)
        files_of(log).fail_next_write(28, written=10, name_end=".log")
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: stored_bytes(log) == stored_bytes(leader))
        assert not fixture.failures

    run(body)


# Offsets out of range.


def test_log_behind_the_leaders_start_is_replaced(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0] * 6), log_with([0, 0])
        leader.high_watermark = 6
        leader.advance_log_start_offset(4)
        log.high_watermark = 2
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 6)
        assert (log.log_start_offset, log.high_watermark) == (4, 6)
        asked = [request for request in fixture.leader.requests if isinstance(request, ListOffsetsRequest)]
        assert [request.topics[0].partitions[0].timestamp for request in asked] == [-1, -2]
        assert all(request.replica_id == 7 for request in asked)

    run(body)


def test_new_follower_starts_with_the_batch_that_contains_the_leaders_start(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = new_log(), new_log()
        append(leader, 0, 3)
        append(leader, 0, 6)
        append(leader, 0, 2)
        leader.high_watermark = 11
        leader.advance_log_start_offset(5)
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 11)
        assert (log.log_start_offset, log.high_watermark) == (5, 11)
        assert log.segments[0].base_offset == 3

    run(body)


def test_log_beyond_the_leaders_end_is_truncated_to_it(run: Run) -> None:
    """Without epochs, after an unclean election."""

    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), log_with([0] * 5)
        log.epochs.clear()
        log.high_watermark = 4
        fixture.leader.lead(leader)
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        assert log.high_watermark == 2
        append(leader, 0)
        await fixture.wait_for(lambda: log.log_end_offset == 3)

    run(body)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ReplicaState.FAILED),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, ReplicaState.FETCHING),
    ],
)
def test_error_of_the_offset_lookup(run: Run, error: ErrorCode, state: ReplicaState) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0] * 6), log_with([0, 0])
        leader.high_watermark = 6
        leader.advance_log_start_offset(4)
        fixture.leader.lead(leader)
        fixture.leader.on_response = lambda request: fixture.leader.errors.update({ORDERS: error})
        fixture.follow(log)
        await fixture.wait_ms(500)
        assert log.log_end_offset == 2
        assert fixture.state_of(ORDERS).state is state

    run(body)


# Role changes.


def test_response_for_a_replaced_follower_is_dropped(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log()
        fixture.leader.lead(leader)

        def replace(_: Any) -> None:
            fixture.leader.on_response = lambda _: None
            follower.is_active = False

        fixture.leader.on_response = replace
        follower = fixture.follow(log)
        await fixture.wait_ms(5000)
        assert log.log_end_offset == 0
        fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 2)

    run(body)


def test_offsets_of_a_dropped_response_are_fetched_again(run: Run) -> None:
    """The leader sends offsets once in a session, and this response was for the epoch before."""

    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log()
        fixture.leader.lead(leader)
        follower = fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 2)

        def replace(_: Any) -> None:
            if leader.high_watermark == 2:
                fixture.leader.on_response = lambda _: None
                follower.is_active = False
                fixture.follow(log)

        fixture.leader.on_response = replace
        leader.high_watermark = 2
        await fixture.wait_for(lambda: log.high_watermark == 2, timeout_ms=2000)

    run(body)


def test_response_for_a_removed_partition_is_dropped(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log()
        fixture.leader.lead(leader)
        fixture.leader.on_response = lambda _: fixture.manager.remove_partitions([ORDERS])
        fixture.follow(log)
        await fixture.wait_ms(5000)
        assert log.log_end_offset == 0

    run(body)


def test_offset_of_a_removed_partition_is_dropped(run: Run) -> None:
    """Its follower may be active still: a fetcher of another number goes on with it."""

    async def body(fixture: Any) -> None:
        leader, log = log_with([0] * 6), log_with([0, 0])
        leader.high_watermark = 6
        leader.advance_log_start_offset(4)
        fixture.leader.lead(leader)
        remove_with_response(fixture, ListOffsetsRequest)
        fixture.follow(log)
        await fixture.wait_ms(5000)
        assert ListOffsetsRequest in map(type, fixture.leader.requests)
        assert (log.log_start_offset, log.log_end_offset) == (0, 2)

    run(body)


def test_end_of_an_epoch_of_a_removed_partition_is_dropped(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0, 2, 2]), log_with([0, 0, 1, 1, 1])
        fixture.leader.lead(leader, 9)
        remove_with_response(fixture, OffsetForLeaderEpochRequest)
        fixture.follow(log, 9)
        await fixture.wait_ms(5000)
        assert OffsetForLeaderEpochRequest in map(type, fixture.leader.requests)
        assert log.log_end_offset == 5

    run(body, metadata_version=OldMetadataVersion())


def remove_with_response(fixture: Any, request_type: type) -> None:
    """Remove the partition before the response to its next request of this type arrives."""

    def remove(request: Any) -> None:
        if isinstance(request, request_type):
            fixture.manager.remove_partitions([ORDERS])

    fixture.leader.on_response = remove


def test_response_of_the_old_leader_is_dropped(run: Run) -> None:
    async def body(fixture: Any) -> None:
        old, new, log = log_with([0, 0, 0]), log_with([0, 1]), new_log()
        fixture.leader.lead(old)
        fixture.leaders[2].lead(new, 1)

        def move(_: Any) -> None:
            fixture.leader.on_response = lambda _: None
            follower.is_active = False
            fixture.follow(log, 1, leader_id=2)

        fixture.leader.on_response = move
        follower = fixture.follow(log)
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        assert stored_bytes(log) == stored_bytes(new)

    run(body)


@pytest.mark.sources
def test_large_response_is_appended_in_turns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_module, "APPEND_BYTES_PER_TURN", 1)

    async def body(fixture: Any) -> None:
        logs = {partition: new_log(partition) for partition in (ORDERS, REFUNDS)}
        removed: list[Any] = []

        def remove_other(partition: Any) -> None:
            if not removed:
                [other] = set(logs) - {partition}
                removed.append(other)
                fixture.manager.remove_partitions([other])

        fixture.appended = removed
        fixture.manager._ports = fixture.manager._ports._replace(on_appended=remove_other)
        for partition, log in logs.items():
            fixture.leader.lead(log_with([0], partition))
            fixture.follow(log)
        await fixture.wait_ms(5000)
        assert sorted(log.log_end_offset for log in logs.values()) == [0, 1]

    run(body)


# Durability and settings.


def test_append_is_flushed_before_the_next_fetch_acknowledges_it(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0, 0]), new_log(flush_messages=1)
        fixture.leader.lead(leader)
        points: list[tuple[int, int]] = []
        fixture.leader.on_response = lambda _: points.append((log.log_end_offset, log.recovery_point))
        fixture.follow(log)
        await fixture.wait_ms(2000)
        assert points[1:]
        assert all(end == point for end, point in points)
        assert log.recovery_point == 2

    run(body)


def test_topic_id_may_be_added_within_an_epoch(run: Run) -> None:
    async def body(fixture: Any) -> None:
        leader, log = log_with([0]), new_log()
        fixture.leader.lead(leader)
        follower = fixture.follow(log, topic_id=bytes(16))
        await fixture.wait_for(lambda: log.log_end_offset == 1)
        assert set(fixture.leader.versions) == {12}
        fixture.manager.add_partitions({ORDERS: follower}, {ORDERS: TOPIC_IDS[ORDERS]})
        append(leader, 0)
        await fixture.wait_for(lambda: log.log_end_offset == 2)
        await fixture.wait_for(lambda: fixture.leader.versions[-1] == 17)

    run(body)
