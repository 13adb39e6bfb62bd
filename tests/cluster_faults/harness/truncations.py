"""Truncations that brokers reported, compared with the acknowledged records that are gone.

An unclean election loses acknowledged records. It must lose exactly those that a broker truncated:

- ``unreported-loss``: an acknowledged record is gone, and no broker reported that it truncated its offset;
- ``unreal-truncation``: a broker reported that it truncated an acknowledged record, which is still there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

LOG_TRUNCATED = re.compile(
    r"replica_fetcher\.log_truncated partition=(\S+) offset=(\d+) log_end_offset=(\d+)"
)


def truncated_offsets(texts: Iterable[str], partition: str) -> set[int]:
    """Return all offsets that brokers have removed from the ends of their logs of a partition."""
    return {
        offset
        for text in texts
        for name, begin, end in LOG_TRUNCATED.findall(text)
        if name == partition
        for offset in range(int(begin), int(end))
    }


def unexplained_losses(
    acknowledged: Mapping[str, int], log: Sequence[tuple[int, str]], truncated: set[int]
) -> Iterator[str]:
    """Compare acknowledged values and their offsets with the final log and the truncated offsets."""
    present = dict(log)
    for value, offset in acknowledged.items():
        is_lost = present.get(offset) != value
        if is_lost and offset not in truncated:
            yield f"unreported-loss: {value} was acknowledged at {offset}, where {present.get(offset)} is"
        elif not is_lost and offset in truncated:
            yield f"unreal-truncation: {value} is at {offset}, which was truncated"
