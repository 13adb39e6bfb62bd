"""Validation of arguments: offsets, patterns and timeouts. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Final

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState
from odradek.model.ids import TopicPartition

OffsetsToCommit = Mapping[TopicPartition, int | OffsetAndMetadata]

TIMEOUT_MAX_S: Final = 365 * 86_400
_OFFSET_MAX: Final = 2**63 - 1


def plain_partition(partition: tuple[str, int]) -> TopicPartition:
    """Return a partition whose number is an int, and not an integer of NumPy, for example."""
    topic, number = partition
    return TopicPartition(topic, operator.index(number))


def validate_offset(partition: TopicPartition, value: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return an offset with its metadata; raise InvalidState if it is no valid offset."""
    target = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
    try:
        offset = operator.index(target.offset)
    except TypeError:
        offset = -1
    if isinstance(target.offset, bool) or not 0 <= offset <= _OFFSET_MAX:
        raise InvalidState(f"offset of {partition} must be an int >= 0, got {target.offset!r}")
    return target._replace(offset=offset)


def validate_offsets(offsets: OffsetsToCommit) -> dict[TopicPartition, OffsetAndMetadata]:
    partitions = {plain_partition(partition): offset for partition, offset in offsets.items()}
    return {partition: validate_offset(partition, offset) for partition, offset in partitions.items()}


def compile_pattern(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise InvalidState(f"pattern must be a regular expression, got {pattern!r}: {error}") from error


def timeout_ms_of(timeout_s: float | None) -> int:
    """Return a timeout in milliseconds; None means no limit."""
    if timeout_s is None:
        return TIMEOUT_MAX_S * 1000
    if not isinstance(timeout_s, int | float):
        raise InvalidState(f"timeout_s must be a number of seconds or None, got {timeout_s!r}")
    return int(max(0.0, min(timeout_s, TIMEOUT_MAX_S)) * 1000)
