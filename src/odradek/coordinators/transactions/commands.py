"""What can be asked of a transactional id, and the answers, free of versions and of the wire.

``producer_id`` and ``producer_epoch`` -1 stand for none, as in the protocol. A question is answered at once
and changes nothing; a command may have to wait until what it asks for is committed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition


class InitProducerId(NamedTuple):
    """Answered with ``InitProducerIdResult``, or with ``NEEDS_PRODUCER_ID`` if it is to be submitted again
    with a
    producer id that nobody ever had. A producer that goes on after a fault says who it is (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    new_producer_id: int = NO_PRODUCER_ID


class InitProducerIdResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class NeedsProducerId(enum.Enum):
    """The answer to who has to come back with a fresh producer id. Nothing was changed."""

    NEEDS_PRODUCER_ID = enum.auto()


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID


class AddPartitions(NamedTuple):
    """Answered with ``AddPartitionsResult``. Whoever only verifies asks whether all that is so already, and
    changes nothing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool = False


class AddPartitionsResult(NamedTuple):
    """One entry for each partition that was named. Either all are added, or none."""

    errors: Mapping[TopicPartition, ErrorCode]


class EndTransaction(NamedTuple):
    """Answered with an ``ErrorCode``, NONE as soon as it is settled how the transaction ends."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool


class WriteMarkers(NamedTuple):
    """The task of ending a transaction in its partitions; the epoch of the coordinator is the leader epoch of
    the partition that gave it. It may be given again, and is told of with ``MarkersWritten``."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    partitions: tuple[TopicPartition, ...]


class MarkersWritten(NamedTuple):
    """The markers of this very ``task`` are committed in these of its partitions, or those are no more. Told
    at once or in parts; answered with an ``ErrorCode``, which is NONE if the task still counts."""

    task: WriteMarkers
    partitions: tuple[TopicPartition, ...]


Command = InitProducerId | AddPartitions | EndTransaction | MarkersWritten


class TransactionDescription(NamedTuple):
    """``start_ms`` is -1 while there was no transaction since the producer came."""

    error: ErrorCode
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    partitions: tuple[TopicPartition, ...] = ()


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
