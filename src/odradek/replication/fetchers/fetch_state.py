"""Fetch state of one partition in a fetcher.

=============  =======================================================================================
state          next action
=============  =======================================================================================
``TRUNCATING``   find the offset where the log diverges from the leader's, and truncate to it
``FETCHING``     fetch from ``fetch_offset``, which is the log end offset
``FAILED``       none until the controller sends a new leader epoch, or a log directory is replaced
=============  =======================================================================================

A truncating or fetching partition may be delayed after an error. The others of its fetcher go on.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, TopicId
from odradek.replication.fetchers.truncation import OffsetTruncation


class ReplicaState(Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"
    FAILED = "failed"


class ErrorAction(Enum):
    """Reaction to an error code of one partition."""

    DELAY = "delay"
    """Fetch again after a backoff: the leader or its metadata lags, or the error is transient."""
    AWAIT_CONTROLLER = "await_controller"
    """This replica's leader epoch is old: only a LeaderAndIsr request can help."""
    RESET_OFFSET = "reset_offset"


def action_for(error: ErrorCode) -> ErrorAction:
    match error:
        case ErrorCode.FENCED_LEADER_EPOCH:
            return ErrorAction.AWAIT_CONTROLLER
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            return ErrorAction.RESET_OFFSET
        case _:
            return ErrorAction.DELAY


class PartitionFetchState(NamedTuple):
    """State of a partition. ``last_fetched_epoch`` is -1 if unknown, ``lag`` None before the first fetch."""

    topic_id: TopicId
    leader_epoch: int
    fetch_offset: int
    state: ReplicaState
    last_fetched_epoch: int = NO_LEADER_EPOCH
    lag: int | None = None
    delayed_until_ms: int = 0
    """Monotonic time; 0 if the partition is not delayed."""

    def is_delayed(self, now_ms: int) -> bool:
        return now_ms < self.delayed_until_ms

    def is_ready_for_fetch(self, now_ms: int) -> bool:
        return self.state is ReplicaState.FETCHING and not self.is_delayed(now_ms)

    def is_truncating(self, now_ms: int) -> bool:
        return self.state is ReplicaState.TRUNCATING and not self.is_delayed(now_ms)

    @property
    def is_replica_in_sync(self) -> bool:
        return self.lag is not None and self.lag <= 0

    def delay(self, until_ms: int, now_ms: int) -> PartitionFetchState:
        """Return the state after an error. A delay that has begun is not extended."""
        return self if self.is_delayed(now_ms) else self._replace(delayed_until_ms=until_ms)

    def fail(self) -> PartitionFetchState:
        return self._replace(state=ReplicaState.FAILED, delayed_until_ms=0)

    def after_append(self, log_end_offset: int, latest_epoch: int, lag: int) -> PartitionFetchState:
        return self._replace(
            fetch_offset=log_end_offset, last_fetched_epoch=latest_epoch, lag=lag, delayed_until_ms=0
        )

    def after_truncation(
        self, truncation: OffsetTruncation, latest_epoch: int, *, is_truncation_on_fetch_supported: bool
    ) -> PartitionFetchState:
        """Return the state after a truncation.

        If it is not complete, the next fetch finds the rest where the leader reports divergence in Fetch
        responses; otherwise the leader must be asked again.
        """
        can_fetch = truncation.is_complete or is_truncation_on_fetch_supported
        return self._replace(
            fetch_offset=truncation.offset,
            last_fetched_epoch=latest_epoch,
            state=ReplicaState.FETCHING if can_fetch else ReplicaState.TRUNCATING,
        )


def initial_fetch_state(
    topic_id: TopicId,
    leader_epoch: int,
    log_end_offset: int,
    high_watermark: int,
    latest_epoch: int,
    *,
    is_truncation_on_fetch_supported: bool,
) -> PartitionFetchState:
    """Return the state of a partition in a new leader epoch, also if the leader has stayed the same.

    A leader that reports divergence in Fetch responses is fetched from the log end offset at once. Otherwise,
    and for a log without epochs, the log is truncated first.
    """
    if is_truncation_on_fetch_supported and latest_epoch != NO_LEADER_EPOCH:
        return PartitionFetchState(
            topic_id, leader_epoch, log_end_offset, ReplicaState.FETCHING, latest_epoch
        )
    return PartitionFetchState(topic_id, leader_epoch, high_watermark, ReplicaState.TRUNCATING)
