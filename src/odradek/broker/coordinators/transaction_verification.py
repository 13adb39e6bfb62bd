"""Asks the coordinator of a transaction whether a partition is in it, before its first write there (KIP-890).

Without this, a write that was held up on its way and arrives after its transaction ended would open one that
nobody ever ends, and readers of committed records would wait for it for ever. Once a partition has the
transaction open, its writes ask no more: the marker is what ends it.

Invariant: what is not refused was in the transaction when the coordinator was asked, and no marker was
written since. A log replaces what it knows of a producer with every marker, so being the same is the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch_producer import BatchProducer
from odradek.replication.partition import Partition

Refusals = Mapping[TopicPartition, ErrorCode]


class Coordinators(Protocol):
    """Whoever finds the coordinator of a transactional id and lets it judge."""

    def submit(
        self, transactional_id: str, command: AddPartitions, reply: Callable[[AddPartitionsResult], None]
    ) -> None: ...


class _Seen(NamedTuple):
    """A partition as it was when its coordinator was asked."""

    partition: Partition
    leader_epoch: int
    producer: ProducerStateEntry | None

    def is_as_before(self, producer_id: int) -> bool:
        partition = self.partition
        return (
            partition.leader_epoch == self.leader_epoch
            and partition.log.producers.get(producer_id) is self.producer
        ) or has_transaction_open(partition, producer_id)


class Verification:
    def __init__(self, coordinators: Coordinators, is_enabled: Callable[[], bool]) -> None:
        self._coordinators = coordinators
        self._is_enabled = is_enabled

    def verify(
        self,
        transactional_id: str,
        author: BatchProducer,
        partitions: Sequence[Partition],
        then: Callable[[Refusals], None],
        *,
        knows_abortable: bool,
    ) -> None:
        """Call ``then``, now or later, with those partitions that may not be written to, and why."""
        asked = [one for one in partitions if not has_transaction_open(one, author.producer_id)]
        if not asked or not self._is_enabled():
            then({})
            return
        names = tuple(one.topic_partition for one in asked)
        seen = [_Seen(one, one.leader_epoch, one.log.producers.get(author.producer_id)) for one in asked]

        def answered(answer: AddPartitionsResult) -> None:
            codes = {name: as_writers_know(code, knows_abortable) for name, code in answer.errors.items()}
            stale = [
                one.partition.topic_partition for one in seen if not one.is_as_before(author.producer_id)
            ]
            codes.update({name: ErrorCode.INVALID_TXN_STATE for name in stale if not codes.get(name)})
            then({name: code for name, code in codes.items() if code})

        command = AddPartitions(transactional_id, *author, names, verify_only=True)
        try:
            self._coordinators.submit(transactional_id, command, answered)
        except BrokerError as refused:
            then(dict.fromkeys(names, refused.code))


def transaction_check(partition: Partition, producer_id: int) -> Callable[[], None]:
    """A check that no marker was written since now; it raises INVALID_TXN_STATE.

    For writes that were let through and wait for something else: a marker ends their transaction.
    """
    seen = _Seen(partition, partition.leader_epoch, partition.log.producers.get(producer_id))

    def check() -> None:
        if not seen.is_as_before(producer_id):
            raise BrokerError(ErrorCode.INVALID_TXN_STATE, "the transaction ended before the write")

    return check


def has_transaction_open(partition: Partition, producer_id: int) -> bool:
    producer = partition.log.producers.get(producer_id)
    return producer is not None and producer.transaction_first_offset >= 0


def as_writers_know(code: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """The codes of coordinators, as those understand them who write."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
