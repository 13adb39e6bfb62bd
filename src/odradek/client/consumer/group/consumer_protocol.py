"""The consumer embedded protocol: subscriptions in JoinGroup, assignments in SyncGroup."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, TypeVar

from odradek.client.consumer.assignors import Assignment, Member
from odradek.model.errors import RemoteProtocolViolation
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
)
from odradek.wire.message_codecs import decoder, encoder

T = TypeVar("T")

_VERSION: Final = 3
_VERSION_BYTES: Final = 2


def encode_subscription(member: Member) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=sorted(member.topics),
        user_data=member.user_data,
        owned_partitions=_by_topic(member.owned),
        generation_id=member.generation,
        rack_id=member.rack,
    )
    return _encode(subscription)


def decode_subscription(member_id: str, instance_id: str | None, raw: bytes) -> Member:
    """Decode a member's subscription, as the group leader."""
    subscription = _decode(ConsumerProtocolSubscription, raw)
    return Member(
        member_id,
        tuple(subscription.topics),
        subscription.user_data if subscription.user_data is None else bytes(subscription.user_data),
        _partitions(subscription.owned_partitions),
        subscription.generation_id,
        instance_id,
        subscription.rack_id,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    return _encode(
        ConsumerProtocolAssignment(
            assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data
        )
    )


def decode_assignment(raw: bytes) -> Assignment:
    """Decode an assignment; no bytes means that the leader assigned nothing to this member."""
    if not raw:
        return Assignment(())
    assignment = _decode(ConsumerProtocolAssignment, raw)
    return Assignment(
        _partitions(assignment.assigned_partitions),
        assignment.user_data if assignment.user_data is None else bytes(assignment.user_data),
    )


def _encode(message: object) -> bytes:
    schema: type = type(message)
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + bytes(encoder(schema, _VERSION)(message))


def _decode(cls: type[T], raw: bytes) -> T:
    version = int.from_bytes(raw[:_VERSION_BYTES], "big", signed=True)
    if len(raw) < _VERSION_BYTES or version < 0:
        raise RemoteProtocolViolation("consumer protocol message of a group member has no version")
    schema: type = cls
    message: T = decoder(schema, min(version, _VERSION))(memoryview(raw), _VERSION_BYTES)[0]
    return message


def _by_topic(partitions: Iterable[TopicPartition]) -> list[ConsumerProtocolPartitions]:
    return [
        ConsumerProtocolPartitions(topic=topic, partitions=[tp.partition for tp in topic_partitions])
        for topic, topic_partitions in groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]


def _partitions(topics: Iterable[ConsumerProtocolPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)
