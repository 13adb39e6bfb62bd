"""User data of the sticky assignors: a member's previous assignment and its generation."""

from __future__ import annotations

from itertools import groupby
from typing import Final, NamedTuple

from odradek.client.consumer.assignors.assignor import NO_GENERATION
from odradek.model.errors import ProtocolViolation
from odradek.model.ids import TopicPartition
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.schema import array, int32, message, string, structure

_GENERATION_BYTES: Final = 4


class PreviousAssignment(NamedTuple):
    partitions: tuple[TopicPartition, ...]
    generation: int


@structure
class PreviousAssignmentTopic:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions=range(0, 2))
class PreviousAssignmentMessage:
    """Encoded without a version: v1 appends the generation."""

    previous_assignment: list[PreviousAssignmentTopic] = array(PreviousAssignmentTopic)
    generation: int = int32(since=1, default=NO_GENERATION, ignorable=True)


@message(versions=range(0, 1))
class GenerationMessage:
    """User data of ``cooperative-sticky``: the subscription holds the owned partitions."""

    generation: int = int32(default=NO_GENERATION)


def encode_previous_assignment(previous: PreviousAssignment) -> bytes:
    topics = [
        PreviousAssignmentTopic(topic=topic, partitions=[tp.partition for tp in partitions])
        for topic, partitions in groupby(sorted(previous.partitions), key=lambda tp: tp.topic)
    ]
    return bytes(
        encoder(PreviousAssignmentMessage, 1)(
            PreviousAssignmentMessage(previous_assignment=topics, generation=previous.generation)
        )
    )


def decode_previous_assignment(user_data: bytes | None) -> PreviousAssignment | None:
    """Decode user data; None if it is empty or invalid, which only makes more partitions move."""
    if not user_data:
        return None
    for version in (1, 0):
        try:
            decoded, end = decoder(PreviousAssignmentMessage, version)(memoryview(user_data), 0)
        except ProtocolViolation:
            continue
        if end == len(user_data):
            return PreviousAssignment(
                tuple(TopicPartition(t.topic, p) for t in decoded.previous_assignment for p in t.partitions),
                decoded.generation,
            )
    return None


def encode_generation(generation: int) -> bytes:
    return bytes(encoder(GenerationMessage, 0)(GenerationMessage(generation=generation)))


def decode_generation(user_data: bytes | None) -> int:
    """Decode a generation; -1 if the bytes are anything else."""
    if user_data is None or len(user_data) != _GENERATION_BYTES:
        return NO_GENERATION
    decoded, _ = decoder(GenerationMessage, 0)(memoryview(user_data), 0)
    return int(decoded.generation)
