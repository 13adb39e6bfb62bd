"""Where one partition is read, and what may be done with that position now.

=====================  ==============================================  ==============  =========
state                  means                                           has a position  may fetch
=====================  ==============================================  ==============  =========
INITIALIZING           just assigned: a committed offset is looked for no              no
AWAITING_RESET         the log is asked for its start or its end       perhaps an old  no
AWAITING_VALIDATION    the leader is asked whether it has this offset  yes             no
FETCHING               records may be fetched and returned             yes             yes
=====================  ==============================================  ==============  =========

``MAY_COME_FROM`` says which state may follow which; a move that the table does not know changes nothing.
A paused partition, one that is about to be given up, and one whose position is where its reader wants to
stop, keeps its state and is not fetched.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from odradek.model.client_errors import InvalidState
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, UNKNOWN_OFFSET
from odradek.records.layout import INT64_MAX


class OffsetReset(enum.Enum):
    """Where reading begins without a position: the values of ``auto.offset.reset``."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


OFFSET_BYTES_GUESS: Final = 256
"""How much an offset takes, while nothing was fetched that would tell."""


class FetchState(enum.Enum):
    INITIALIZING = "initializing"
    AWAITING_RESET = "awaiting reset"
    AWAITING_VALIDATION = "awaiting validation"
    FETCHING = "fetching"


_S = FetchState
MAY_COME_FROM: Final[dict[FetchState, frozenset[FetchState]]] = {
    _S.INITIALIZING: frozenset(),
    _S.FETCHING: frozenset(_S),
    _S.AWAITING_RESET: frozenset(_S),
    _S.AWAITING_VALIDATION: frozenset({_S.INITIALIZING, _S.FETCHING, _S.AWAITING_VALIDATION}),
}


class FetchPosition(NamedTuple):
    """The next offset to read, the epoch of the record before it, and the leader it was last seen with."""

    offset: int
    offset_epoch: int = NO_LEADER_EPOCH
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_LEADER_EPOCH

    def with_leader(self, leader_id: int, leader_epoch: int) -> FetchPosition:
        return FetchPosition(self.offset, self.offset_epoch, leader_id, leader_epoch)


class Truncation(NamedTuple):
    """A log that ends before the position its reader had: records that were read are gone from it."""

    position: FetchPosition
    end_offset: int
    """Where the log parts from what was read; -1 if the leader does not know the epoch at all."""
    end_epoch: int


class TopicPartitionState:
    """One assigned partition. Only ``SubscriptionState`` and what it hands this to change it."""

    __slots__ = (
        "end_offset_asked",
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
        self.end_offset_asked = False
        self.stop_offset = INT64_MAX
        """From here on nothing is wanted: columns end before it, and nothing is fetched beyond."""
        self.offset_bytes: float = OFFSET_BYTES_GUESS
        """How much an offset took in the last answer."""

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

    def _move(self, state: FetchState, position: FetchPosition | None = None) -> bool:
        if self.state not in MAY_COME_FROM[state]:
            return False
        # The position before the state: whoever sees FETCHING sees where to fetch.
        self.position = position or self.position
        self.next_retry_ms = 0
        self.state = state
        return True

    # Moves.

    def await_reset(self, reset: OffsetReset) -> None:
        """Look for the log's start or end; the position that was there counts no more."""
        if self._move(_S.AWAITING_RESET):
            self.reset = reset

    def seek_validated(self, position: FetchPosition) -> None:
        """Read on at a position that the leader has just given."""
        if self._move(_S.FETCHING, position):
            self.reset = None

    def seek_unvalidated(self, position: FetchPosition) -> None:
        """Read on at a position from elsewhere: a user, or a commit."""
        self.seek_validated(position)
        self._ask_for_validation(position)

    def _ask_for_validation(self, position: FetchPosition) -> None:
        """Only an offset whose epoch is known, at a leader whose epoch is known, can be validated."""
        known = NO_LEADER_EPOCH not in (position.offset_epoch, position.leader_epoch)
        self._move(_S.AWAITING_VALIDATION if known else _S.FETCHING, position)

    def meet_leader(self, leader_id: int, leader_epoch: int, *, can_validate: bool = True) -> bool:
        """Hear who leads the partition now; True if the position waits for its leader's word."""
        if self.state is _S.AWAITING_RESET or leader_id == NO_LEADER:
            return False
        position = self.position
        if position is not None and (position.leader_id, position.leader_epoch) != (leader_id, leader_epoch):
            changed = position.with_leader(leader_id, leader_epoch)
            self.preferred_replica = NO_LEADER
            if can_validate:
                self._ask_for_validation(changed)
            else:
                self._move(_S.FETCHING, changed)
        return self.state is _S.AWAITING_VALIDATION

    def complete_validation(self) -> None:
        if self.position is not None:
            self._move(_S.FETCHING)

    def advance(self, position: FetchPosition) -> None:
        """Go on after records were returned."""
        if self.state is not _S.FETCHING:
            raise InvalidState(f"a position cannot advance while it is {self.state.value}")
        self.position = position

    # Reading from another replica than the leader.

    def prefer(self, replica: int, until_ms: int) -> None:
        self.preferred_replica = replica
        self.preferred_until_ms = until_ms

    def preferred(self, now_ms: int) -> int:
        """The replica to read from, until its time is over; -1 for the leader."""
        if self.preferred_replica != NO_LEADER and now_ms > self.preferred_until_ms:
            self.preferred_replica = NO_LEADER
        return self.preferred_replica

    def lag(self, read_committed: bool) -> int | None:
        """Records between the position and what this reader may see; None while that is unknown."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        if end == UNKNOWN_OFFSET or self.position is None:
            return None
        return max(end - self.position.offset, 0)
