"""The user data of the sticky assignors: what a member had, and from which generation."""

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
    """What the member had. There is no version in the bytes: v1 adds the generation at the end."""

    previous_assignment: list[PreviousAssignmentTopic] = array(PreviousAssignmentTopic)
    generation: int = int32(since=1, default=NO_GENERATION, ignorable=True)


@message(versions=range(0, 1))
class GenerationMessage:
    """Only the generation: what the member has, its subscription says."""

    generation: int = int32(default=NO_GENERATION)


def encode_previous_assignment(memory: PreviousAssignment) -> bytes:
    topics = [
        PreviousAssignmentTopic(topic=topic, partitions=[tp.partition for tp in partitions])
        for topic, partitions in groupby(sorted(memory.partitions), key=lambda tp: tp.topic)
    ]
    return bytes(
        encoder(PreviousAssignmentMessage, 1)(
            PreviousAssignmentMessage(previous_assignment=topics, generation=memory.generation)
        )
    )


def decode_previous_assignment(user_data: bytes | None) -> PreviousAssignment | None:
    """None for no bytes, and for bytes that say nothing: a member without memory only moves more."""
    if not user_data:
        return None
    for version in (1, 0):
        try:
            read, end = decoder(PreviousAssignmentMessage, version)(memoryview(user_data), 0)
        except ProtocolViolation:
            continue
        if end == len(user_data):
            return PreviousAssignment(
                tuple(TopicPartition(t.topic, p) for t in read.previous_assignment for p in t.partitions),
                read.generation,
            )
    return None


def write_generation(generation: int) -> bytes:
    return bytes(encoder(GenerationMessage, 0)(GenerationMessage(generation=generation)))


def read_generation(user_data: bytes | None) -> int:
    """-1 unless the bytes are a generation and nothing else."""
    if user_data is None or len(user_data) != _GENERATION_BYTES:
        return NO_GENERATION
    read, _ = decoder(GenerationMessage, 0)(memoryview(user_data), 0)
    return int(read.generation)
