"""Commands to a transactional id and their results, independent of protocol versions and of the wire.

As in the protocol, ``producer_id`` and ``producer_epoch`` -1 mean none.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition


class InitProducerId(NamedTuple):
    """The result is an ``InitProducerIdResult``, or ``NEEDS_PRODUCER_ID`` if the command has to be submitted
    again with a newly generated producer id. A producer that recovers from an error passes its id and epoch
    (KIP-360)."""

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
    """Result of an ``InitProducerId`` that needs a new producer id. Nothing was changed."""

    NEEDS_PRODUCER_ID = enum.auto()


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID


class AddPartitions(NamedTuple):
    """The result is an ``AddPartitionsResult``. With ``verify_only``, only check that the partitions have
    been added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool = False


class AddPartitionsResult(NamedTuple):
    """Errors by partition. Either all partitions are added, or none."""

    errors: Mapping[TopicPartition, ErrorCode]


class EndTransaction(NamedTuple):
    """The result is an ``ErrorCode``: NONE as soon as the outcome is decided."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool


class WriteMarkers(NamedTuple):
    """Task to write the markers of a transaction to its partitions. The coordinator epoch is the leader epoch
    of the partition that started the task. A task may be started again; ``MarkersWritten`` reports on it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    partitions: tuple[TopicPartition, ...]


class MarkersWritten(NamedTuple):
    """Report that markers of ``task`` are committed in these partitions, or that the partitions are deleted.
    There may be several reports per task. The result is an ``ErrorCode``: NONE if the task is current."""

    task: WriteMarkers
    partitions: tuple[TopicPartition, ...]


Command = InitProducerId | AddPartitions | EndTransaction | MarkersWritten


class TransactionDescription(NamedTuple):
    """``start_ms`` is -1 before the producer's first transaction."""

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
