"""Value types of the client API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from odradek.model.ids import NO_LEADER_EPOCH
from odradek.model.type_variables import BytesLike
from odradek.records.layout import RecordMetadata

__all__ = [
    "GroupMetadata",
    "Headers",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "RecordMetadata",
]

Headers: TypeAlias = Mapping[str, BytesLike | None] | Sequence[tuple[str, BytesLike | None]] | None
"""Headers of a record to send: pairs of a str and bytes or None, or a mapping of these."""


class Node(NamedTuple):
    """A broker in the cluster metadata."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.id} ({self.host}:{self.port})"


class PartitionInfo(NamedTuple):
    """Leader and replicas of a partition; ``leader`` is -1 while there is none."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    leader_epoch: int = NO_LEADER_EPOCH


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next one to read, and metadata stored with it.

    >>> from odradek import OffsetAndMetadata
    >>> OffsetAndMetadata(42, "up to the letter of Tuesday").offset
    42
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


class OffsetAndTimestamp(NamedTuple):
    """An offset and the timestamp of its record."""

    offset: int
    timestamp: int
    leader_epoch: int = NO_LEADER_EPOCH


class GroupMetadata(NamedTuple):
    """A consumer's group, generation and member id, for transactions that commit its offsets.

    >>> from odradek import GroupMetadata
    >>> GroupMetadata("readers").generation_id
    -1
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
