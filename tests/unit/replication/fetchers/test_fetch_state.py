"""Fetch state of one partition."""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from odradek.replication.fetchers.fetch_state import (
    ErrorAction,
    PartitionFetchState,
    ReplicaState,
    action_for,
    initial_fetch_state,
)
from odradek.replication.fetchers.truncation import OffsetTruncation

TOPIC_ID = b"t" * 16


def fetching(offset: int = 10, epoch: int = 3) -> PartitionFetchState:
    return PartitionFetchState(TOPIC_ID, 4, offset, ReplicaState.FETCHING, epoch)


@pytest.mark.parametrize(
    ("on_fetch", "latest_epoch", "state", "offset"),
    [
        (True, 3, ReplicaState.FETCHING, 10),
        (True, -1, ReplicaState.TRUNCATING, 6),
        (False, 3, ReplicaState.TRUNCATING, 6),
        (False, -1, ReplicaState.TRUNCATING, 6),
    ],
)
def test_initial_state(on_fetch: bool, latest_epoch: int, state: ReplicaState, offset: int) -> None:
    initial = initial_fetch_state(TOPIC_ID, 4, 10, 6, latest_epoch, is_truncation_on_fetch_supported=on_fetch)
    assert (initial.state, initial.fetch_offset, initial.leader_epoch) == (state, offset, 4)
    assert initial.last_fetched_epoch == (latest_epoch if state is ReplicaState.FETCHING else -1)
    assert initial.lag is None
    assert not initial.is_replica_in_sync


def test_delayed_partition_is_not_ready_until_its_delay_ends() -> None:
    delayed = fetching().delay(500, now_ms=100)
    assert not delayed.is_ready_for_fetch(499)
    assert delayed.is_ready_for_fetch(500)
    truncating = delayed._replace(state=ReplicaState.TRUNCATING)
    assert not truncating.is_truncating(499)
    assert truncating.is_truncating(500)
    assert not truncating.is_ready_for_fetch(500)


def test_delay_is_not_extended() -> None:
    delayed = fetching().delay(500, now_ms=100)
    assert delayed.delay(900, now_ms=400) is delayed
    assert delayed.delay(1900, now_ms=900).delayed_until_ms == 1900


def test_failed_partition_is_never_ready() -> None:
    failed = fetching().fail()
    assert not failed.is_ready_for_fetch(10**9)
    assert not failed.is_truncating(10**9)


def test_append_moves_the_offset_and_ends_the_delay() -> None:
    state = fetching().delay(500, now_ms=100).after_append(14, 5, 2)
    assert (state.fetch_offset, state.last_fetched_epoch, state.lag) == (14, 5, 2)
    assert state.is_ready_for_fetch(100)
    assert not state.is_replica_in_sync
    assert state.after_append(16, 5, 0).is_replica_in_sync


@pytest.mark.parametrize(
    ("is_complete", "on_fetch", "state"),
    [
        (True, True, ReplicaState.FETCHING),
        (True, False, ReplicaState.FETCHING),
        (False, True, ReplicaState.FETCHING),
        (False, False, ReplicaState.TRUNCATING),
    ],
)
def test_state_after_a_truncation(is_complete: bool, on_fetch: bool, state: ReplicaState) -> None:
    after = fetching().after_truncation(
        OffsetTruncation(7, is_complete), 2, is_truncation_on_fetch_supported=on_fetch
    )
    assert (after.state, after.fetch_offset, after.last_fetched_epoch) == (state, 7, 2)


@pytest.mark.parametrize("error", [error for error in ErrorCode if error is not ErrorCode.NONE])
def test_only_a_fenced_replica_waits_for_the_controller(error: ErrorCode) -> None:
    expected = {
        ErrorCode.FENCED_LEADER_EPOCH: ErrorAction.AWAIT_CONTROLLER,
        ErrorCode.OFFSET_OUT_OF_RANGE: ErrorAction.RESET_OFFSET,
    }.get(error, ErrorAction.DELAY)
    assert action_for(error) is expected
