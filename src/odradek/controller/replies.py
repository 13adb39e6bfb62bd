"""Replies of the controller to events that come from requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr


class ApiError(NamedTuple):
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AlterPartitionReply(NamedTuple):
    error: ErrorCode
    """Error of the whole request; ``partitions`` is empty then."""
    partitions: Mapping[TopicPartition, VersionedLeaderAndIsr | ErrorCode] = {}
    """The stored state after the change, or the error. The handler lowers INELIGIBLE_REPLICA by version."""


class ControlledShutdownReply(NamedTuple):
    error: ErrorCode
    remaining: frozenset[TopicPartition] = frozenset()
    """Replicated partitions that the broker still leads."""
