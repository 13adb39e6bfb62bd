"""What members of a group tell each other, as the bytes that JoinGroup and SyncGroup carry."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from odradek.client.consumer.assignors import Assignment, Member
from odradek.model.errors import RemoteProtocolViolation
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
)
from odradek.wire.message_codecs import decoder, encoder

_VERSION: Final = 3
_VERSION_BYTES: Final = 2


def write_subscription(member: Member) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=sorted(member.topics),
        user_data=member.user_data,
        owned_partitions=_by_topic(member.owned),
        generation_id=member.generation,
        rack_id=member.rack,
    )
    return _write(subscription)


def read_subscription(member_id: str, instance_id: str | None, raw: bytes) -> Member:
    """A member as its leader sees it."""
    read = _read(ConsumerProtocolSubscription, raw)
    return Member(
        member_id,
        tuple(read.topics),
        read.user_data if read.user_data is None else bytes(read.user_data),
        _partitions(read.owned_partitions),
        read.generation_id,
        instance_id,
        read.rack_id,
    )


def write_assignment(assignment: Assignment) -> bytes:
    return _write(
        ConsumerProtocolAssignment(
            assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data
        )
    )


def read_assignment(raw: bytes) -> Assignment:
    """No bytes at all are what a member gets that its leader has passed over."""
    if not raw:
        return Assignment(())
    read = _read(ConsumerProtocolAssignment, raw)
    return Assignment(
        _partitions(read.assigned_partitions),
        read.user_data if read.user_data is None else bytes(read.user_data),
    )


def _write(message: Any) -> bytes:
    cls: Any = type(message)
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + bytes(encoder(cls, _VERSION)(message))


def _read(cls: Any, raw: bytes) -> Any:
    version = int.from_bytes(raw[:_VERSION_BYTES], "big", signed=True)
    if len(raw) < _VERSION_BYTES or version < 0:
        raise RemoteProtocolViolation("a member of the group sent bytes without a version")
    message, _ = decoder(cls, min(version, _VERSION))(memoryview(raw), _VERSION_BYTES)
    return message


def _by_topic(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [
        ConsumerProtocolPartitions(topic=topic, partitions=[tp.partition for tp in those])
        for topic, those in groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, index) for each in topics for index in each.partitions)
