"""States of the model: one partition on three brokers, its stored state, and the messages in flight.

A state is a tuple of plain values, so that two equal states are one. Brokers are 0, 1 and 2; a set of
brokers is a bit mask. Time is not part of a state: any delay is possible at any step.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

BROKERS: Final = (0, 1, 2)
ALL_BROKERS: Final = 0b111
NONE: Final = -1
"""No leader, no epoch, no known offset."""

MEMBERS: Final = tuple(tuple(broker for broker in BROKERS if mask >> broker & 1) for mask in range(8))
"""Brokers of each mask."""


def mask_of(brokers: tuple[int, ...]) -> int:
    return sum(1 << broker for broker in brokers)


class Status(IntEnum):
    UP = 0
    DOWN = 1
    """Crashed, and the controller has not noticed."""
    DOWN_LOST = 2
    """Like DOWN, and the tail of its log is lost: a power failure."""
    DEAD = 3
    """Crashed, and the controller has noticed."""


class Leadership(NamedTuple):
    """State that a leader keeps in memory: its committed and proposed ISR, its followers' log end offsets."""

    epoch_start: int
    isr: int
    partition_epoch: int
    proposed: int
    """ISR of the pending change; 0 if there is none."""
    ends: tuple[int, ...]


class Replica(NamedTuple):
    status: Status
    epoch: int
    """Leader epoch of the last LeaderAndIsr request. A smaller or equal one is stale."""
    leader: int
    log: tuple[int, ...]
    """Leader epoch of each record. An epoch has one leader, so epoch and offset identify a record."""
    empty_epoch: int
    """Epoch in the leader epoch cache that starts at the log end offset and has no record yet."""
    high_watermark: int
    is_truncating: bool
    """True while OffsetForLeaderEpoch comes before the next fetch."""
    leadership: Leadership | None


class Stored(NamedTuple):
    """Partition state in the store, and in LeaderAndIsr requests."""

    leader: int
    leader_epoch: int
    isr: int
    partition_epoch: int


class MessageKind(IntEnum):
    FETCH_REQUEST = 0
    FETCH_RESPONSE = 1
    DIVERGING_RESPONSE = 2
    EPOCH_REQUEST = 3
    EPOCH_RESPONSE = 4


REQUESTS: Final = (MessageKind.FETCH_REQUEST, MessageKind.EPOCH_REQUEST)


class Message(NamedTuple):
    """Fetch or OffsetForLeaderEpoch, request or response, between a follower and a leader."""

    follower: int
    leader: int
    kind: MessageKind
    leader_epoch: int
    """Current leader epoch of the request, repeated in its response."""
    offset: int
    epoch: int = NONE
    """Last fetched epoch, requested epoch or diverging epoch."""
    end_offset: int = NONE
    """End offset of that epoch, or the leader's high watermark."""
    records: tuple[int, ...] = ()


class Outcome(IntEnum):
    """Result of an AlterPartition request."""

    PENDING = 0
    SUCCESS = 1
    FENCED_LEADER_EPOCH = 2
    INVALID_UPDATE_VERSION = 3
    INELIGIBLE_REPLICA = 4


class Alteration(NamedTuple):
    """AlterPartition of one leader: a request while PENDING, then its response."""

    broker: int
    outcome: Outcome
    leader_epoch: int
    partition_epoch: int
    isr: int
    new_partition_epoch: int = NONE


class History(NamedTuple):
    """Facts that no broker knows and the invariants need, and what is left of the bounds."""

    committed: tuple[int, ...] = ()
    """Records that were acknowledged with acks=all or shown to consumers."""
    committed_in: tuple[int, ...] = ()
    """Leader epoch in which each of them was committed."""
    appended: tuple[int, ...] = ()
    """End offset of the records that were ever appended in each leader epoch."""
    has_two_records: bool = False
    """True if two records were appended at the same offset in the same leader epoch."""
    appends_left: int = 0
    crashes_left: int = 0
    losses_left: int = 0


class State(NamedTuple):
    replicas: tuple[Replica, ...]
    stored: Stored
    sent: tuple[Stored, ...]
    """LeaderAndIsr requests. Each may reach each broker at any time, in any order, any number of times."""
    messages: tuple[Message, ...]
    alterations: tuple[Alteration, ...]
    history: History


class Scope(NamedTuple):
    """Bounds of a search, and faults that go beyond what replication can survive."""

    records: int = 2
    epochs: int = 2
    crashes: int = 0
    """Process crashes: the log survives."""
    losses: int = 0
    """Power failures: any part of the log may be lost."""
    messages: int = 1
    """Fetches in flight, over all brokers."""
    delays_requests: bool = False
    """True if a fetch may be in flight to the leader. If not, only its response is delayed."""
    min_isr: int = 2
    initial_isr: int = ALL_BROKERS
    shrinks: bool = True
    """True if leaders remove followers from the ISR."""
    truncates_by_epoch_request: bool = False
    """Followers ask OffsetForLeaderEpoch after each leader change, as before inter-broker protocol 2.7."""
    last_replica_may_lose: bool = False
    joining_replica_may_lose: bool = False
    unclean_election: bool = False


Step = tuple[tuple[object, ...], State]
"""Label of a step, its name first, and the state after it."""


def initial_state(scope: Scope) -> State:
    """Return the state after topic creation: broker 0 leads epoch 0, and all logs are empty."""
    stored = Stored(0, 0, scope.initial_isr, 0)
    leadership = Leadership(0, scope.initial_isr, 0, 0, (NONE, NONE, NONE))
    follower = Replica(Status.UP, 0, 0, (), NONE, 0, False, None)
    leader = follower._replace(leadership=leadership, empty_epoch=0)
    history = History(
        appended=(0,) * scope.epochs,
        appends_left=scope.records,
        crashes_left=scope.crashes,
        losses_left=scope.losses,
    )
    return State((leader, follower, follower), stored, (stored,), (), (), history)


def with_replica(state: State, broker: int, replica: Replica) -> State:
    replicas = state.replicas
    return State(
        (*replicas[:broker], replica, *replicas[broker + 1 :]),
        state.stored,
        state.sent,
        state.messages,
        state.alterations,
        state.history,
    )


def alteration_of(state: State, broker: int) -> Alteration | None:
    for alteration in state.alterations:
        if alteration.broker == broker:
            return alteration
    return None


def without_alteration(state: State, broker: int) -> tuple[Alteration, ...]:
    return tuple(alteration for alteration in state.alterations if alteration.broker != broker)
