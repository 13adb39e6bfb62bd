"""Which offsets of a group have outlived their use. Pure, and Kafka 3.9's rules.

| group | offsets that may go | their time counts from |
|---|---|---|
| without members, has had some | all | when the last member left; their commit, if nobody wrote that down |
| stable, of consumers | in topics that no member subscribes to | their commit |
| never had members | all | their commit |
| any other | none | |

An offset whose client said when it goes, goes then, where it may go at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.coordinators.groups.commands import OffsetAndMetadata
from odradek.coordinators.groups.group import Group, GroupState
from odradek.model.ids import TopicPartition

_NO_TOPICS: Final[frozenset[str]] = frozenset()


class Rule(NamedTuple):
    """``spared`` topics keep their offsets; the time of others counts ``from_ms``, or from their commit."""

    spared: frozenset[str]
    from_ms: int | None


def rule_of(group: Group) -> Rule | None:
    """None if the group keeps all."""
    if not group.protocol_type:
        return Rule(_NO_TOPICS, None)
    if group.state is GroupState.EMPTY:
        return Rule(_NO_TOPICS, group.state_since_ms)
    # Only groups of consumers tell what they subscribe to.
    subscribed = group.subscribed_topics() if group.state is GroupState.STABLE else None
    return None if subscribed is None else Rule(subscribed, None)


def expired(
    offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]], rule: Rule, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    return [
        partition
        for partition, offset in offsets
        if partition.topic not in rule.spared and now_ms >= _goes_ms(offset, rule.from_ms, retention_ms)
    ]


def _goes_ms(offset: OffsetAndMetadata, from_ms: int | None, retention_ms: int) -> int:
    if offset.expire_ms is not None:
        return offset.expire_ms
    return (offset.commit_ms if from_ms is None else from_ms) + retention_ms
