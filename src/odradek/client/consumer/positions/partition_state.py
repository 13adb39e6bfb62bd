"""Fetch state and position of one assigned partition.

=====================  ==============================================  ==============  =========
state                  meaning                                         has a position  fetchable
=====================  ==============================================  ==============  =========
INITIALIZING           just assigned: awaiting the committed offset    no              no
AWAITING_RESET         awaiting the log start or end offset            maybe a stale   no
AWAITING_VALIDATION    awaiting the leader's end offset for the epoch  yes             no
FETCHING               records may be fetched and returned             yes             yes
=====================  ==============================================  ==============  =========

``VALID_PREVIOUS_STATES`` lists the transitions; any other transition has no effect. A partition that is
paused, pending revocation, or at its stop offset keeps its state and is not fetched.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from odradek.model.client_errors import InvalidState
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, UNKNOWN_OFFSET
from odradek.records.layout import INT64_MAX


class OffsetReset(enum.Enum):
    """Reset strategy of a partition without a valid position: the values of ``auto.offset.reset``."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


OFFSET_BYTES_GUESS: Final = 256.0
"""Assumed bytes per offset before the first fetch."""


class FetchState(enum.Enum):
    INITIALIZING = "initializing"
    AWAITING_RESET = "awaiting reset"
    AWAITING_VALIDATION = "awaiting validation"
    FETCHING = "fetching"


_S = FetchState
VALID_PREVIOUS_STATES: Final[dict[FetchState, frozenset[FetchState]]] = {
    _S.INITIALIZING: frozenset(),
    _S.FETCHING: frozenset(_S),
    _S.AWAITING_RESET: frozenset(_S),
    _S.AWAITING_VALIDATION: frozenset({_S.INITIALIZING, _S.FETCHING, _S.AWAITING_VALIDATION}),
}


class FetchPosition(NamedTuple):
    """Next offset to fetch, leader epoch of the record before it, and the current leader."""

    offset: int
    offset_epoch: int = NO_LEADER_EPOCH
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_LEADER_EPOCH

    def with_leader(self, leader_id: int, leader_epoch: int) -> FetchPosition:
        return FetchPosition(self.offset, self.offset_epoch, leader_id, leader_epoch)


class Truncation(NamedTuple):
    """A log that was truncated below a position: records consumed before are gone."""

    position: FetchPosition
    end_offset: int
    """Offset at which the log diverges; -1 if the leader does not know the epoch."""
    end_epoch: int


class TopicPartitionState:
    """State of one assigned partition, modified only by ``SubscriptionState`` and classes it is passed to."""

    __slots__ = (
        "end_offset_requested",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "next_retry_ms",
        "offset_bytes",
        "paused",
        "pending_revocation",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "state",
        "stop_offset",
    )

    def __init__(self) -> None:
        self.state = FetchState.INITIALIZING
        self.position: FetchPosition | None = None
        self.reset: OffsetReset | None = None
        self.next_retry_ms = 0
        self.paused = False
        self.pending_revocation = False
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.preferred_replica = NO_LEADER
        self.preferred_until_ms = 0
        self.end_offset_requested = False
        self.stop_offset = INT64_MAX
        """End of the range to read: columns end before it, and nothing is fetched beyond."""
        self.offset_bytes: float = OFFSET_BYTES_GUESS
        """Bytes per offset in the last response."""

    @property
    def is_fetchable(self) -> bool:
        return (
            self.state is _S.FETCHING
            and not self.paused
            and not self.pending_revocation
            and not self.has_stopped
        )

    @property
    def has_stopped(self) -> bool:
        return self.position is not None and self.position.offset >= self.stop_offset

    @property
    def has_valid_position(self) -> bool:
        return self.state is _S.FETCHING

    @property
    def has_stale_leader(self) -> bool:
        """True if a record was consumed from a newer leader than the known one."""
        return self.position is not None and self.position.offset_epoch > self.position.leader_epoch

    def _transition(self, state: FetchState, position: FetchPosition | None = None) -> bool:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            return False
        # The position before the state: a reader that sees FETCHING must see the position.
        self.position = position or self.position
        self.next_retry_ms = 0
        self.state = state
        return True

    # Transitions.

    def await_reset(self, reset: OffsetReset) -> None:
        """Await a reset to the log start or end; the old position is not used any more."""
        if self._transition(_S.AWAITING_RESET):
            self.reset = reset

    def seek_validated(self, position: FetchPosition) -> None:
        """Set a position that the leader has just confirmed."""
        if self._transition(_S.FETCHING, position):
            self.reset = None

    def seek_unvalidated(self, position: FetchPosition) -> None:
        """Set a position from the user or from a commit, which must be validated."""
        self.seek_validated(position)
        self._validate(position)

    def _validate(self, position: FetchPosition) -> None:
        """Await validation; only possible if the epochs of the offset and of the leader are known."""
        can_validate = NO_LEADER_EPOCH not in (position.offset_epoch, position.leader_epoch)
        self._transition(_S.AWAITING_VALIDATION if can_validate else _S.FETCHING, position)

    def update_leader(self, leader_id: int, leader_epoch: int, *, can_validate: bool = True) -> bool:
        """Set the current leader; return True if the position must be validated by it."""
        if self.state is _S.AWAITING_RESET or leader_id == NO_LEADER:
            return False
        position = self.position
        if position is not None and (position.leader_id, position.leader_epoch) != (leader_id, leader_epoch):
            changed = position.with_leader(leader_id, leader_epoch)
            self.preferred_replica = NO_LEADER
            if can_validate:
                self._validate(changed)
            else:
                self._transition(_S.FETCHING, changed)
        return self.state is _S.AWAITING_VALIDATION

    def complete_validation(self) -> None:
        if self.position is not None:
            self._transition(_S.FETCHING)

    def advance(self, position: FetchPosition) -> None:
        """Advance the position past records that were returned."""
        if self.state is not _S.FETCHING:
            raise InvalidState(f"position must be in state fetching to advance, got {self.state.value}")
        self.position = position

    # Preferred read replica (KIP-392).

    def prefer(self, replica: int, until_ms: int) -> None:
        self.preferred_replica = replica
        self.preferred_until_ms = until_ms

    def preferred(self, now_ms: int) -> int:
        """Return the preferred read replica until it expires; -1 for the leader."""
        if self.preferred_replica != NO_LEADER and now_ms > self.preferred_until_ms:
            self.preferred_replica = NO_LEADER
        return self.preferred_replica

    def lag(self, read_committed: bool) -> int | None:
        """Return the lag behind the high watermark or last stable offset; None while that is unknown."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        if end == UNKNOWN_OFFSET or self.position is None:
            return None
        return max(end - self.position.offset, 0)
