"""Ends transactions in partitions that are led here: appends markers, and says when all replicas in sync have
them. Coordinators of this broker and whoever asks over the wire are served the same way.

Invariant: a partition is answered for once its marker is committed or refused, or when the time is up. A
marker may be appended twice, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.replication.delayed_produce import DelayedProduce, ProducePartitionStatus
from odradek.replication.replica_manager import ReplicaManager

Codes = Mapping[TopicPartition, ErrorCode]


class Ending(NamedTuple):
    """How a producer's transaction ends, as the coordinator of this epoch decided."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool

    @property
    def marker(self) -> EndTransactionMarker:
        return EndTransactionMarker(
            ControlRecordType.COMMIT if self.commits else ControlRecordType.ABORT, self.coordinator_epoch
        )


class OffsetsEnded(Protocol):
    """Hears of a marker that was appended to a partition of the offsets topic."""

    def __call__(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None: ...


class _Outcome:
    """What became of a partition; a delayed produce writes its verdict here."""

    __slots__ = ("base_offset", "error_code")

    def __init__(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.error_code = error_code
        self.base_offset = -1


class Markers:
    """The partitions led here. ``wait_ms`` is how long replicas may take to get a marker."""

    def __init__(
        self, replicas: ReplicaManager, clock: Clock, wait_ms: Callable[[], int], offsets_ended: OffsetsEnded
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._wait_ms = wait_ms
        self._offsets_ended = offsets_ended

    def write(
        self, ending: Ending, partitions: Iterable[TopicPartition], told: Callable[[Codes], None]
    ) -> None:
        """End a transaction in some partitions; ``told`` hears of each, once they are all committed, refused
        or out of time."""
        outcomes: dict[TopicPartition, _Outcome] = {}
        waiting: list[ProducePartitionStatus] = []
        for partition in partitions:
            outcomes[partition] = self._append(ending, partition, waiting)

        def tell() -> None:
            told({partition: ErrorCode(one.error_code) for partition, one in outcomes.items()})

        if waiting:
            delayed = DelayedProduce(waiting, tell)
            self._replicas.delay_produce(delayed, [one.partition for one in waiting], self._wait_ms())
        else:
            tell()

    def _append(
        self, ending: Ending, name: TopicPartition, waiting: list[ProducePartitionStatus]
    ) -> _Outcome:
        try:
            partition = self._replicas.get_leader_partition(*name)
            appended = partition.append_end_marker(
                ending.marker, ending.producer_id, ending.producer_epoch, self._clock.wall_ms()
            )
        except BrokerError as refused:
            return _Outcome(refused.code)
        outcome, end_offset = _Outcome(), appended.last_offset + 1
        if partition.is_flush_pending:
            self._replicas.flush(partition, _flush_noted)
        if partition.log.high_watermark < end_offset:
            waiting.append(ProducePartitionStatus(partition, end_offset, outcome))
        self._replicas.appended(partition)
        if name.topic == OFFSETS_TOPIC:
            self._offsets_ended(
                name.partition, ending.producer_id, commits=ending.commits, offset=appended.last_offset
            )
        return outcome


def _flush_noted(failure: StorageError | None) -> None:
    """The high watermark tells; a flush that failed is tried again by whoever looks after the logs."""
