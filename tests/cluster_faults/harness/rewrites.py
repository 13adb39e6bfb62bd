"""Records that a client wrote twice itself: no broker can tell that the second copy is one.

When a later batch of a partition comes before an earlier one, which a broker refuses, librdkafka (2.16.0)
raises the epoch of its producer, and sends all batches of all partitions again that are not acknowledged.
One that was written already is then there twice, with two epochs (an open issue of librdkafka). A copy with
the same epoch and sequence is what the broker has to find, and is a violation.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.mixed.harness.log_files import Batch

from odradek.records import codec

EXPLAINED = re.compile(r"duplicate: (\S+) is at|nonmonotonic-send: (\S+) of \S+ is after (\S+) ")
PRODUCER = struct.Struct(">qh")
PRODUCER_AT = 43


class Copy(NamedTuple):
    """Producer id and epoch of the batch that has a record."""

    producer: int
    epoch: int


def rewritten_values(batches: Iterable[Batch]) -> set[str]:
    """Return values that a producer wrote once under each of several epochs, and under none twice."""
    copies: dict[str, list[Copy]] = {}
    for value, copy in _values(batches):
        copies.setdefault(value, []).append(copy)
    return {
        value
        for value, written in copies.items()
        if len(written) > 1
        and len(set(written)) == len(written)
        and len({copy.producer for copy in written}) == 1
    }


def _values(batches: Iterable[Batch]) -> Iterator[tuple[str, Copy]]:
    for batch in batches:
        copy = Copy(*PRODUCER.unpack_from(batch.data, PRODUCER_AT))
        for record in codec.decode(batch.data):
            if record.value is not None:
                yield bytes(record.value).decode(errors="replace"), copy


def without_rewritten(violations: Iterable[str], rewritten: set[str]) -> Iterator[str]:
    """Leave out duplicates, and the disorder that they make, that the producer itself has caused."""
    for violation in violations:
        match = EXPLAINED.match(violation)
        if match is None or not rewritten.intersection(match.groups()):
            yield violation
