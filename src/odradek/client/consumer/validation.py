"""What an application gives to a consumer, read strictly: offsets, patterns, times to wait. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Final

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState
from odradek.model.ids import TopicPartition

OffsetsToCommit = Mapping[TopicPartition, int | OffsetAndMetadata]

LONGEST_WAIT_S: Final = 365 * 86_400
_OFFSET_MAX: Final = 2**63 - 1


def read_offset(partition: TopicPartition, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """An offset in a partition, with or without what is kept with it."""
    found = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    try:
        offset = operator.index(found.offset)
    except TypeError:
        offset = -1
    if isinstance(found.offset, bool) or not 0 <= offset <= _OFFSET_MAX:
        raise InvalidState(f"{found.offset!r} is no offset of {partition}: those are whole and begin at 0")
    return found._replace(offset=offset)


def read_offsets(given: OffsetsToCommit) -> dict[TopicPartition, OffsetAndMetadata]:
    partitions = {TopicPartition(*each): offset for each, offset in given.items()}
    return {each: read_offset(each, offset) for each, offset in partitions.items()}


def read_pattern(given: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(given)
    except (re.error, TypeError) as wrong:
        raise InvalidState(f"{given!r} is no regular expression: {wrong}") from wrong


def read_timeout_ms(given_s: float | None) -> int:
    """How long to wait; None is as long as it takes."""
    if given_s is None:
        return LONGEST_WAIT_S * 1000
    if not isinstance(given_s, int | float):
        raise InvalidState(f"{given_s!r} is no time to wait: seconds are a number")
    return int(max(0.0, min(given_s, LONGEST_WAIT_S)) * 1000)
