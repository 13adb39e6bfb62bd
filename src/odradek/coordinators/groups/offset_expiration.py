"""Expiration of a group's offsets, by the rules of Kafka 3.9. Pure.

| group | offsets that may expire | retention starts at |
|---|---|---|
| Empty, had members | all | the time the last member left; the commit, if that is unknown |
| Stable, consumers | in topics that no member subscribes to | the commit |
| never had members | all | the commit |
| any other | none | |

An offset with an expiration time set by its client expires at that time, if it may expire at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.coordinators.groups.commands import OffsetAndMetadata
from odradek.coordinators.groups.group import Group, GroupState
from odradek.model.ids import TopicPartition

_NO_TOPICS: Final[frozenset[str]] = frozenset()


class ExpirationCondition(NamedTuple):
    """Offsets in ``subscribed_topics`` do not expire. Retention starts at ``since_ms``, or at the commit."""

    subscribed_topics: frozenset[str]
    since_ms: int | None


def expiration_condition(group: Group) -> ExpirationCondition | None:
    """Return the condition for a group's offsets; None if they do not expire."""
    if not group.protocol_type:
        return ExpirationCondition(_NO_TOPICS, None)
    if group.state is GroupState.EMPTY:
        return ExpirationCondition(_NO_TOPICS, group.state_since_ms)
    # Subscriptions are known for groups of consumers only.
    subscribed = group.subscribed_topics() if group.state is GroupState.STABLE else None
    return None if subscribed is None else ExpirationCondition(subscribed, None)


def expired_partitions(
    offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]],
    condition: ExpirationCondition,
    now_ms: int,
    retention_ms: int,
) -> list[TopicPartition]:
    return [
        partition
        for partition, offset in offsets
        if partition.topic not in condition.subscribed_topics
        and now_ms >= _expiration_ms(offset, condition.since_ms, retention_ms)
    ]


def _expiration_ms(offset: OffsetAndMetadata, since_ms: int | None, retention_ms: int) -> int:
    if offset.expire_ms is not None:
        return offset.expire_ms
    return (offset.commit_ms if since_ms is None else since_ms) + retention_ms
