"""Checks of topics that are compacted, or whose old records are deleted, from what was acknowledged.

Each yields texts that begin with the name of a violation:

- ``lost-key``: a key has an older value than one that was acknowledged before, or none;
- ``inconsistent-offsets``: another record is at an offset than the acknowledged one;
- ``early-deletion``: a record was deleted before its retention time was over;
- ``replicas-differ``: a replica has other bytes than the leader where both have records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.mixed.harness.log_files import Batch, first_difference

from odradek.records import codec


class KeyedRecord(NamedTuple):
    """``value`` is None for a tombstone."""

    key: str
    value: str | None


class LogStart(NamedTuple):
    """All records before an offset are known to be gone at a time."""

    at_ms: int
    offset: int
    where: str


Records = Mapping[int, KeyedRecord]
"""Records by offset."""


def last_offsets(records: Records) -> dict[str, int]:
    """Return the last offset of each key."""
    return {record.key: offset for offset, record in sorted(records.items())}


def lost_keys(name: str, written: Records, before: Mapping[str, int], present: Records) -> Iterator[str]:
    """Compare records that were read with those acknowledged; ``before`` has what was before the read."""
    for offset, record in present.items():
        if offset in written and written[offset] != record:
            yield f"inconsistent-offsets: {name} has {record} at {offset}, not {written[offset]}"
    present_last = last_offsets(present)
    for key, offset in before.items():
        if written[offset].value is not None and present_last.get(key, -1) < offset:
            yield f"lost-key: {name} has {key} at {present_last.get(key)}, acknowledged was {offset}"


def early_deletions(
    timestamps: Mapping[int, int], starts: Sequence[LogStart], retention_ms: int
) -> Iterator[str]:
    """Yield deletions of records, given by offset and timestamp, that were not old enough."""
    for start in starts:
        early = [
            offset
            for offset, timestamp in timestamps.items()
            if offset < start.offset and timestamp + retention_ms > start.at_ms
        ]
        if early:
            age_ms = start.at_ms - timestamps[max(early)]
            yield f"early-deletion: {len(early)} records of {start.where}, the last at the age of {age_ms} ms"


def differing_tails(name: str, logs: Mapping[int, Sequence[Batch]], leader: int, end: int) -> Iterator[str]:
    """Compare replicas from the latest of their first offsets on, byte for byte, up to an offset.

    A replica without records has deleted all of them.
    """
    kept = {broker: batches for broker, batches in logs.items() if batches}
    if not kept:
        return
    first = max(batches[0].base_offset for batches in kept.values())
    tails = {
        broker: [batch for batch in batches if first <= batch.base_offset < end]
        for broker, batches in kept.items()
    }
    reference = tails.get(leader, next(iter(tails.values())))
    for broker, tail in tails.items():
        reached = tail[-1].last_offset + 1 if tail else first
        if reached != end:
            yield f"replicas-differ: {name} of broker {broker} ends at {reached}, must reach {end}"
        elif difference := first_difference(reference, tail):
            yield f"replicas-differ: {name} of broker {broker} and leader {leader}: {difference[:300]}"


def decode_records(batches: Sequence[Batch], end: int) -> dict[int, KeyedRecord]:
    """Return the records of batches before an offset."""
    records = {}
    for batch in batches:
        for record in codec.decode(batch.data):
            if record.offset < end:
                value = None if record.value is None else bytes(record.value).decode()
                records[record.offset] = KeyedRecord(bytes(record.key or b"").decode(), value)
    return records
