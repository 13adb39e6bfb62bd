"""Subscription of a consumer, its assigned partitions, and their positions.

There are four types of subscription; ``unsubscribe`` is needed between two of them:

==============  =========================================  ================================
type            set by                                     partitions assigned by
==============  =========================================  ================================
NONE            (initial)                                  (none)
AUTO_TOPICS     ``subscribe(topics)``                      the group
AUTO_PATTERN    ``subscribe_pattern(regex)``               the group
USER_ASSIGNED   ``assign(partitions)``                     the application
==============  =========================================  ================================

Invariants: a partition that stays assigned keeps its position through a change of assignment; partitions are
fetched in the order of ``assigned``, and a drained one moves to its end.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from odradek.client.consumer.positions.partition_state import (
    FetchPosition,
    FetchState,
    OffsetReset,
    TopicPartitionState,
    Truncation,
)
from odradek.client.consumer.rebalance_listener import AnyRebalanceListener
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState, NoOffset
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicPartition


class SubscriptionType(enum.Enum):
    NONE = "nothing"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "a pattern"
    USER_ASSIGNED = "manually assigned partitions"


_T = SubscriptionType
_AUTO_ASSIGNED: Final = frozenset({_T.AUTO_TOPICS, _T.AUTO_PATTERN})


class SubscriptionState:
    """Subscription and partition states; synchronous, owned by the consumer's event loop."""

    def __init__(self, reset: OffsetReset) -> None:
        self.reset_policy = reset
        self.type = _T.NONE
        self.pattern: re.Pattern[str] | None = None
        self.listener: AnyRebalanceListener | None = None
        self.subscribed_topics: frozenset[str] = frozenset()
        self.assignment_version = 0
        """Incremented by every change of assignment, to recognise work started for an older one."""
        self._group_topics: frozenset[str] = frozenset()
        self._assigned: dict[TopicPartition, TopicPartitionState] = {}

    # Subscription.

    def subscribe(self, topics: Iterable[str], listener: AnyRebalanceListener | None = None) -> bool:
        """Subscribe to topics; return True if they changed."""
        self._set_type(_T.AUTO_TOPICS)
        self.listener = listener
        return self._set_subscribed(frozenset(topics))

    def subscribe_pattern(
        self, pattern: re.Pattern[str], listener: AnyRebalanceListener | None = None
    ) -> None:
        """Subscribe to topics whose whole name matches; ``set_matched`` sets which those are."""
        self._set_type(_T.AUTO_PATTERN)
        self.listener = listener
        self.pattern = pattern

    def matches(self, topic: str) -> bool:
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None

    def set_matched(self, topics: Iterable[str]) -> bool:
        """Set the topics that match the pattern now; return True if they changed."""
        if self.type is not _T.AUTO_PATTERN:
            raise InvalidState(f"consumer must be subscribed to a pattern, got {self.type.value}")
        return self._set_subscribed(frozenset(topics))

    def assign(self, partitions: Iterable[TopicPartition]) -> bool:
        """Assign partitions manually; return True if they changed."""
        self._set_type(_T.USER_ASSIGNED)
        unique = list(dict.fromkeys(partitions))
        if set(unique) == self._assigned.keys():
            return False
        self._set_assigned(unique)
        return True

    def unsubscribe(self) -> None:
        self.type = _T.NONE
        self.pattern = None
        self.listener = None
        self.subscribed_topics = self._group_topics = frozenset()
        self._set_assigned([])

    def _set_type(self, subscription_type: SubscriptionType) -> None:
        if self.type not in (_T.NONE, subscription_type):
            raise InvalidState(
                f"subscription must stay with {self.type.value} until unsubscribe, "
                f"got {subscription_type.value}"
            )
        self.type = subscription_type

    def _set_subscribed(self, topics: frozenset[str]) -> bool:
        if topics == self.subscribed_topics:
            return False
        self.subscribed_topics = topics
        return True

    @property
    def is_auto_assigned(self) -> bool:
        """True if the group assigns the partitions."""
        return self.type in _AUTO_ASSIGNED

    # Group.

    @property
    def group_topics(self) -> frozenset[str]:
        """Topics whose metadata is needed: this consumer's, and those of all members while it is leader."""
        if self.type is _T.USER_ASSIGNED:
            return frozenset(partition.topic for partition in self._assigned)
        return self._group_topics | self.subscribed_topics

    def set_group_topics(self, topics: Iterable[str]) -> bool:
        """Set the topics of all members, as the group leader; return True if some are new."""
        before = self.group_topics
        self._group_topics = frozenset(topics)
        return not before >= self.group_topics

    def forget_group_topics(self) -> None:
        self._group_topics = frozenset()

    def is_subscribed_to(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return True if an assignment contains only subscribed topics."""
        if self.pattern is not None:
            return all(self.matches(partition.topic) for partition in partitions)
        return all(partition.topic in self.subscribed_topics for partition in partitions)

    def assign_from_subscription(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the partitions assigned by the group; those that stay keep their positions."""
        if not self.is_auto_assigned:
            raise InvalidState(f"group assignment must follow a subscription, got {self.type.value}")
        self._set_assigned(partitions)

    def _set_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        old = self._assigned
        self._assigned = {partition: old.get(partition) or TopicPartitionState() for partition in partitions}
        self.assignment_version += 1

    # Partition states.

    @property
    def assigned(self) -> Mapping[TopicPartition, TopicPartitionState]:
        return self._assigned

    def of(self, partition: TopicPartition) -> TopicPartitionState:
        """Return the state of an assigned partition; raise InvalidState if it is not assigned."""
        state = self._assigned.get(partition)
        if state is None:
            raise InvalidState(f"partition must be assigned to this consumer, got {partition}")
        return state

    def move_to_end(self, partition: TopicPartition) -> None:
        """Fetch all other partitions first next time.

        ``assigned`` is replaced, not changed: another thread may iterate over it (see ``fetch.buffer``).
        """
        state = self._assigned.get(partition)
        if state is not None and len(self._assigned) > 1:
            others = {other: kept for other, kept in self._assigned.items() if other != partition}
            self._assigned = {**others, partition: state}

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and returning records of these partitions: they are about to be revoked."""
        for partition in partitions:
            state = self._assigned.get(partition)
            if state is not None:
                state.pending_revocation = True

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._filter(lambda state: state.paused))

    def initializing(self) -> list[TopicPartition]:
        """Return the partitions that need their committed offset."""
        return list(self._filter(lambda state: state.state is FetchState.INITIALIZING))

    def needing_reset(self, now_ms: int) -> list[TopicPartition]:
        return self._due_in(FetchState.AWAITING_RESET, now_ms)

    def needing_validation(self, now_ms: int) -> list[TopicPartition]:
        return self._due_in(FetchState.AWAITING_VALIDATION, now_ms)

    @property
    def has_initializing(self) -> bool:
        """True if a partition needs its committed offset."""
        return any(state.state is FetchState.INITIALIZING for state in self._assigned.values())

    @property
    def has_all_positions(self) -> bool:
        return all(state.state is FetchState.FETCHING for state in self._assigned.values())

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit for all records returned so far."""
        return {
            partition: OffsetAndMetadata(state.position.offset, "", state.position.offset_epoch)
            for partition, state in self._assigned.items()
            if state.has_valid_position and state.position is not None
        }

    def _filter(self, predicate: Callable[[TopicPartitionState], bool]) -> Iterator[TopicPartition]:
        return (partition for partition, state in self._assigned.items() if predicate(state))

    def _due_in(self, fetch_state: FetchState, now_ms: int) -> list[TopicPartition]:
        return list(self._filter(lambda state: state.state is fetch_state and now_ms >= state.next_retry_ms))

    def set_next_retry(self, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Do not request these again before then: a request is in flight, or has failed."""
        for partition in partitions:
            state = self._assigned.get(partition)
            if state is not None:
                state.next_retry_ms = at_ms

    # Responses.

    @property
    def has_reset_policy(self) -> bool:
        return self.reset_policy is not OffsetReset.NONE

    def request_reset(self, partition: TopicPartition, reset: OffsetReset | None = None) -> None:
        """Request a reset, by the policy unless one is passed; raise NoOffset if that is none."""
        strategy = reset or self.reset_policy
        if strategy is OffsetReset.NONE:
            raise NoOffset(f"no position for partition {partition} (auto.offset.reset=none)")
        self.of(partition).await_reset(strategy)

    def start_at_committed(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Set the position to the committed offset, unless a seek came in between."""
        state = self._assigned.get(partition)
        if state is not None and state.state is FetchState.INITIALIZING:
            state.seek_unvalidated(position)

    def reset_initializing(self) -> None:
        """Reset partitions without a committed offset by the policy; raise NoOffset if that is none."""
        partitions = self.initializing()
        if partitions and self.reset_policy is OffsetReset.NONE:
            names = ", ".join(sorted(str(partition) for partition in partitions))
            raise NoOffset(f"no committed offset for {names} (auto.offset.reset=none)")
        for partition in partitions:
            self.request_reset(partition)

    def complete_reset(self, partition: TopicPartition, reset: OffsetReset, position: FetchPosition) -> bool:
        """Set the position from a ListOffsets response, unless a seek or another reset came in between."""
        state = self._assigned.get(partition)
        if state is None or state.state is not FetchState.AWAITING_RESET or state.reset is not reset:
            return False
        state.seek_unvalidated(position)
        return True

    def complete_validation(
        self, partition: TopicPartition, validated: FetchPosition, end_epoch: int, end_offset: int
    ) -> Truncation | None:
        """Apply an OffsetForLeaderEpoch response; return a truncation if there is no reset policy for it."""
        state = self._assigned.get(partition)
        if state is None or state.state is not FetchState.AWAITING_VALIDATION or state.position != validated:
            return None
        if end_offset == UNKNOWN_OFFSET or end_epoch == NO_LEADER_EPOCH:
            if not self.has_reset_policy:
                return Truncation(validated, UNKNOWN_OFFSET, NO_LEADER_EPOCH)
            self.request_reset(partition)
        elif end_offset < validated.offset:
            if not self.has_reset_policy:
                return Truncation(validated, end_offset, end_epoch)
            state.seek_validated(
                FetchPosition(end_offset, end_epoch, validated.leader_id, validated.leader_epoch)
            )
        else:
            state.complete_validation()
        return None
