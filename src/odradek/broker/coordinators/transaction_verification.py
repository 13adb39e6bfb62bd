"""Verification of the first write of a transaction to a partition with its coordinator (KIP-890).

Without it, a delayed write that arrives after its transaction ended would open a hanging transaction, and
read_committed consumers would wait for it forever. Once a partition has the transaction open, its writes are
not verified: the marker ends it.

The coordinator may be on another broker. While it is asked, later writes of the same producer on the same
connection are held back, so that its batches stay in order. A write on another connection is a retry, and is
verified on its own.

Invariant: a partition that is not rejected was in the transaction when the coordinator was asked, and no
marker was written since. A log replaces its producer state entry with every marker, so identity is the proof.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch_producer import BatchProducer
from odradek.replication.partition import Partition
from odradek.telemetry import events

log = events.logger("transaction_verification")

PartitionErrors = Mapping[TopicPartition, ErrorCode]


class CommandSubmitter(Protocol):
    """Submits commands to the coordinator of a transactional id."""

    def submit(
        self, transactional_id: str, command: AddPartitions, reply: Callable[[AddPartitionsResult], None]
    ) -> None: ...


class _PartitionSnapshot(NamedTuple):
    """State of a partition when the verification was sent."""

    partition: Partition
    leader_epoch: int
    producer_state: ProducerStateEntry | None

    def check_unchanged(self, producer_id: int) -> ErrorCode:
        """Return the error of a write if something happened since that may have ended its transaction.

        In a new leader epoch the producer has to retry: another leader may have written a marker.
        """
        partition = self.partition
        if has_transaction_open(partition, producer_id):
            return ErrorCode.NONE
        if partition.leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_same = partition.producers.get(producer_id) is self.producer_state
        return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE


class AddPartitionsToTxnManager:
    def __init__(self, coordinator: CommandSubmitter, is_enabled: Callable[[], bool]) -> None:
        self._coordinator = coordinator
        self._is_enabled = is_enabled
        self._held: dict[tuple[Hashable, int], deque[Callable[[], None]]] = {}
        """Writes held back while one is verified, by source and producer id. Sources bound their number."""

    def verify(
        self,
        transactional_id: str,
        producer: BatchProducer,
        partitions: Sequence[Partition],
        on_verified: Callable[[PartitionErrors], None],
        *,
        source: Hashable,
        supports_abortable: bool,
    ) -> None:
        """Call ``on_verified``, now or later, with the rejected partitions and their error codes.

        ``source`` is the connection: its writes of a producer are verified in order.
        """
        key = (source, producer.producer_id)
        held = self._held.get(key)
        arguments = (key, transactional_id, producer, partitions, on_verified, supports_abortable)
        if held is None:
            self._verify(*arguments)
        else:
            held.append(partial(self._verify, *arguments))

    def _verify(
        self,
        key: tuple[Hashable, int],
        transactional_id: str,
        producer: BatchProducer,
        partitions: Sequence[Partition],
        on_verified: Callable[[PartitionErrors], None],
        supports_abortable: bool,
    ) -> None:
        unverified = [
            partition for partition in partitions if not has_transaction_open(partition, producer.producer_id)
        ]
        if not unverified or not self._is_enabled():
            on_verified({})
            return
        names = tuple(partition.topic_partition for partition in unverified)
        snapshots = [
            _PartitionSnapshot(
                partition, partition.leader_epoch, partition.producers.get(producer.producer_id)
            )
            for partition in unverified
        ]

        def on_result(result: AddPartitionsResult) -> None:
            codes = {
                name: error_for_producer(code, supports_abortable) for name, code in result.errors.items()
            }
            for snapshot in snapshots:
                name = snapshot.partition.topic_partition
                if not codes.get(name):
                    codes[name] = snapshot.check_unchanged(producer.producer_id)
            try:
                on_verified({name: code for name, code in codes.items() if code})
            finally:
                self._release(key)

        command = AddPartitions(transactional_id, *producer, names, verify_only=True)
        self._held[key] = deque()
        try:
            self._coordinator.submit(transactional_id, command, on_result)
        except BrokerError as error:
            on_result(AddPartitionsResult(dict.fromkeys(names, error.code)))

    def _release(self, key: tuple[Hashable, int]) -> None:
        """Continue with the writes held back, up to the first one that waits for the coordinator again."""
        held = self._held.pop(key)
        while held and key not in self._held:
            verify = held.popleft()
            try:
                verify()
            except Exception as error:  # noqa: BLE001 - the writes behind it go on
                log.failure("held_write_crashed", error, producer_id=key[1])
        if held:
            self._held[key].extend(held)


def transaction_check(partition: Partition, producer_id: int) -> Callable[[], None]:
    """Return a check that raises an error if a marker was, or may have been, written since this call.

    For verified writes that are delayed for another reason: a marker may end their transaction meanwhile.
    """
    snapshot = _PartitionSnapshot(partition, partition.leader_epoch, partition.producers.get(producer_id))

    def check() -> None:
        code = snapshot.check_unchanged(producer_id)
        if code:
            raise BrokerError(code, "the transaction may have ended before the write")

    return check


def has_transaction_open(partition: Partition, producer_id: int) -> bool:
    producer = partition.producers.get(producer_id)
    return producer is not None and producer.transaction_first_offset >= 0


def error_for_producer(code: ErrorCode, supports_abortable: bool) -> ErrorCode:
    """Map an error code of the coordinator to one that producers of this version know."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not supports_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
