"""What a consumer reads: its subscription, its partitions, and its position in each.

A consumer is in one of four ways of choosing partitions, and leaves one only through ``unsubscribe``:

==============  =========================================  ================================
kind            chosen by                                  partitions given by
==============  =========================================  ================================
NOTHING         nobody yet                                 nobody
TOPICS          ``subscribe(topics)``                      the group
PATTERN         ``subscribe_pattern(regex)``               the group
PARTITIONS      ``assign(partitions)``                     the application
==============  =========================================  ================================

Invariants: a partition that stays assigned keeps its position through a change of assignment; the order of
``assigned`` is the order in which partitions are served, and one that was served goes to its end.
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
from odradek.client.consumer.rebalance_listener import RebalanceListener
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState, NoOffset
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicPartition


class SubscriptionKind(enum.Enum):
    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    PARTITIONS = "partitions"


_K = SubscriptionKind
_BY_GROUP: Final = frozenset({_K.TOPICS, _K.PATTERN})


class SubscriptionState:
    """Synchronous, and owned by the consumer's loop."""

    def __init__(self, reset: OffsetReset) -> None:
        self.reset_policy = reset
        self.kind = _K.NOTHING
        self.pattern: re.Pattern[str] | None = None
        self.listener: RebalanceListener | None = None
        self.subscribed_topics: frozenset[str] = frozenset()
        self.assignment_version = 0
        """Grows with every change of assignment, so that work begun for an older one is recognised."""
        self._group_topics: frozenset[str] = frozenset()
        self._assigned: dict[TopicPartition, TopicPartitionState] = {}

    # What is read.

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None = None) -> bool:
        """Read these topics as a member of a group; True if they are others than before."""
        self._become(_K.TOPICS)
        self.listener = listener
        return self._set_subscribed(frozenset(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Read all topics whose whole name matches; ``set_matched`` tells which those are."""
        self._become(_K.PATTERN)
        self.listener = listener
        self.pattern = pattern

    def matches(self, topic: str) -> bool:
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None

    def set_matched(self, topics: Iterable[str]) -> bool:
        """Topics that match the pattern now; True if they are others than before."""
        if self.kind is not _K.PATTERN:
            raise InvalidState(f"topics cannot match: the consumer reads {self.kind.value}")
        return self._set_subscribed(frozenset(topics))

    def assign(self, partitions: Iterable[TopicPartition]) -> bool:
        """Read these partitions, without a group; True if they are others than before."""
        self._become(_K.PARTITIONS)
        wanted = list(dict.fromkeys(partitions))
        if set(wanted) == self._assigned.keys():
            return False
        self._set_assigned(wanted)
        return True

    def unsubscribe(self) -> None:
        self.kind = _K.NOTHING
        self.pattern = None
        self.listener = None
        self.subscribed_topics = self._group_topics = frozenset()
        self._set_assigned([])

    def _become(self, kind: SubscriptionKind) -> None:
        if self.kind not in (_K.NOTHING, kind):
            raise InvalidState(
                f"subscribing to topics, to a pattern and assigning partitions exclude each other: this"
                f" consumer reads {self.kind.value} and was asked for {kind.value}; unsubscribe first"
            )
        self.kind = kind

    def _set_subscribed(self, topics: frozenset[str]) -> bool:
        if topics == self.subscribed_topics:
            return False
        self.subscribed_topics = topics
        return True

    @property
    def is_by_group(self) -> bool:
        """Whether a group gives the partitions."""
        return self.kind in _BY_GROUP

    # What the group knows.

    @property
    def group_topics(self) -> frozenset[str]:
        """Topics whose metadata is needed: this consumer's, and all members' while it leads the group."""
        if self.kind is _K.PARTITIONS:
            return frozenset(partition.topic for partition in self._assigned)
        return self._group_topics | self.subscribed_topics

    def set_group_topics(self, topics: Iterable[str]) -> bool:
        """Topics of all members, heard as the group's leader; True if some are new here."""
        before = self.group_topics
        self._group_topics = frozenset(topics)
        return not before >= self.group_topics

    def forget_group_topics(self) -> None:
        self._group_topics = frozenset()

    def fits(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment holds only what this consumer has asked for."""
        if self.pattern is not None:
            return all(self.matches(partition.topic) for partition in partitions)
        return all(partition.topic in self.subscribed_topics for partition in partitions)

    def assign_from_subscription(self, partitions: Iterable[TopicPartition]) -> None:
        """Take what the group has assigned; positions of partitions that stay are kept."""
        if not self.is_by_group:
            raise InvalidState(f"a group cannot assign partitions: the consumer reads {self.kind.value}")
        self._set_assigned(partitions)

    def _set_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        old = self._assigned
        self._assigned = {each: old.get(each) or TopicPartitionState() for each in partitions}
        self.assignment_version += 1

    # Partitions and positions.

    @property
    def assigned(self) -> Mapping[TopicPartition, TopicPartitionState]:
        return self._assigned

    def of(self, partition: TopicPartition) -> TopicPartitionState:
        """The position of an assigned partition."""
        found = self._assigned.get(partition)
        if found is None:
            raise InvalidState(f"partition {partition} is not assigned to this consumer")
        return found

    def serve_last(self, partition: TopicPartition) -> None:
        """Let the other partitions come first next time.

        ``assigned`` is replaced, not changed: another thread may be walking over it (see ``fetch_buffer``).
        """
        found = self._assigned.get(partition)
        if found is not None and len(self._assigned) > 1:
            others = {each: state for each, state in self._assigned.items() if each != partition}
            self._assigned = {**others, partition: found}

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and return no more of these: they are about to go."""
        for partition in partitions:
            found = self._assigned.get(partition)
            if found is not None:
                found.pending_revocation = True

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._that(lambda each: each.paused))

    def fetchable(self) -> Iterator[TopicPartition]:
        return self._that(lambda each: each.is_fetchable)

    def missing_positions(self) -> list[TopicPartition]:
        """Partitions for which a committed offset is to be looked for."""
        return list(self._that(lambda each: each.state is FetchState.INITIALIZING))

    def needing_reset(self, now_ms: int) -> list[TopicPartition]:
        return self._waiting_in(FetchState.AWAITING_RESET, now_ms)

    def needing_validation(self, now_ms: int) -> list[TopicPartition]:
        return self._waiting_in(FetchState.AWAITING_VALIDATION, now_ms)

    @property
    def needs_committed(self) -> bool:
        """Whether a partition waits for its committed offset to be looked up."""
        return any(each.state is FetchState.INITIALIZING for each in self._assigned.values())

    @property
    def has_all_positions(self) -> bool:
        return all(each.state is FetchState.FETCHING for each in self._assigned.values())

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of everything returned so far says."""
        return {
            partition: OffsetAndMetadata(each.position.offset, "", each.position.offset_epoch)
            for partition, each in self._assigned.items()
            if each.has_valid_position and each.position is not None
        }

    def _that(self, holds: Callable[[TopicPartitionState], bool]) -> Iterator[TopicPartition]:
        return (partition for partition, each in self._assigned.items() if holds(each))

    def _waiting_in(self, state: FetchState, now_ms: int) -> list[TopicPartition]:
        return list(self._that(lambda each: each.state is state and now_ms >= each.next_retry_ms))

    def retry_at(self, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Ask for these again not before then: a request for them is under way, or has failed."""
        for partition in partitions:
            found = self._assigned.get(partition)
            if found is not None:
                found.next_retry_ms = at_ms

    # What answers mean.

    @property
    def has_reset_policy(self) -> bool:
        return self.reset_policy is not OffsetReset.NONE

    def request_reset(self, partition: TopicPartition, reset: OffsetReset | None = None) -> None:
        """Look for a new position, by the policy unless one is named."""
        wanted = reset or self.reset_policy
        if wanted is OffsetReset.NONE:
            raise NoOffset(f"partition {partition} has no position, and auto.offset.reset is none")
        self.of(partition).await_reset(wanted)

    def start_at_committed(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Begin where the group left off, unless a seek came in between."""
        found = self._assigned.get(partition)
        if found is not None and found.state is FetchState.INITIALIZING:
            found.seek_unvalidated(position)

    def reset_missing(self) -> None:
        """Give partitions without a committed offset what the policy says; NoOffset if it says none."""
        missing = self.missing_positions()
        if missing and self.reset_policy is OffsetReset.NONE:
            names = ", ".join(sorted(str(each) for each in missing))
            raise NoOffset(f"no committed offset for {names}, and auto.offset.reset is none")
        for partition in missing:
            self.request_reset(partition)

    def complete_reset(self, partition: TopicPartition, reset: OffsetReset, position: FetchPosition) -> bool:
        """Take what the log said, unless a seek or another reset came in between."""
        found = self._assigned.get(partition)
        if found is None or found.state is not FetchState.AWAITING_RESET or found.reset is not reset:
            return False
        found.seek_unvalidated(position)
        return True

    def complete_validation(
        self, partition: TopicPartition, asked: FetchPosition, end_epoch: int, end_offset: int
    ) -> Truncation | None:
        """Judge the end of an epoch that a leader has told; a truncation is given if no policy mends it."""
        found = self._assigned.get(partition)
        if found is None or found.state is not FetchState.AWAITING_VALIDATION or found.position != asked:
            return None
        if end_offset == UNKNOWN_OFFSET or end_epoch == NO_LEADER_EPOCH:
            if not self.has_reset_policy:
                return Truncation(asked, UNKNOWN_OFFSET, NO_LEADER_EPOCH)
            self.request_reset(partition)
        elif end_offset < asked.offset:
            if not self.has_reset_policy:
                return Truncation(asked, end_offset, end_epoch)
            found.seek_validated(FetchPosition(end_offset, end_epoch, asked.leader_id, asked.leader_epoch))
        else:
            found.complete_validation()
        return None
