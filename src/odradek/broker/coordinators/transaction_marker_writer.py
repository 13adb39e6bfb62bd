"""Appends transaction markers to local partitions, and reports when all in-sync replicas have them.

Serves the coordinator of this broker and WriteTxnMarkers requests alike.

Invariant: each partition gets an error code once its marker is committed or rejected, or at the timeout. A
marker may be appended twice, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.ports.clock import Clock
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.replication.delayed.delayed_produce import (
    DelayedProduce,
    ProducePartitionStatus,
    required_offsets,
)
from odradek.replication.replica_manager import ReplicaManager

Codes = Mapping[TopicPartition, ErrorCode]


class TxnMarkerEntry(NamedTuple):
    """End of a producer's transaction, as decided by the coordinator of this epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool

    @property
    def marker(self) -> EndTransactionMarker:
        return EndTransactionMarker(
            ControlRecordType.COMMIT if self.commits else ControlRecordType.ABORT, self.coordinator_epoch
        )


class OnOffsetsMarker(Protocol):
    """Called after a marker was appended to an offsets partition."""

    def __call__(self, number: int, producer_id: int, *, commits: bool, offset: int) -> None: ...


class _PartitionResult:
    """Result of a partition, filled in by a delayed produce."""

    __slots__ = ("base_offset", "error_code", "error_message")

    def __init__(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = None
        self.base_offset = -1


class TransactionMarkerWriter:
    """Writer for the partitions led here. ``wait_ms`` limits the wait for the replicas."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        clock: Clock,
        wait_ms: Callable[[], int],
        on_offsets_marker: OnOffsetsMarker,
    ) -> None:
        self._replica_manager = replica_manager
        self._clock = clock
        self._wait_ms = wait_ms
        self._on_offsets_marker = on_offsets_marker

    def write(
        self,
        marker_entry: TxnMarkerEntry,
        partitions: Iterable[TopicPartition],
        on_done: Callable[[Codes], None],
    ) -> None:
        """Append markers; ``on_done`` gets the error codes once all are committed, rejected or timed out."""
        results: dict[TopicPartition, _PartitionResult] = {}
        waiting: list[ProducePartitionStatus] = []
        for partition in partitions:
            results[partition] = self._append(marker_entry, partition, waiting)

        def complete() -> None:
            on_done({partition: ErrorCode(result.error_code) for partition, result in results.items()})

        if waiting:
            delayed = DelayedProduce(waiting, complete)
            self._replica_manager.delay_produce(delayed, required_offsets(waiting), self._wait_ms())
        else:
            complete()

    def _append(
        self,
        marker_entry: TxnMarkerEntry,
        topic_partition: TopicPartition,
        waiting: list[ProducePartitionStatus],
    ) -> _PartitionResult:
        try:
            partition = self._replica_manager.get_leader_partition(*topic_partition)
            append_info = partition.append_end_marker(
                marker_entry.marker,
                marker_entry.producer_id,
                marker_entry.producer_epoch,
                self._clock.wall_ms(),
            )
        except BrokerError as error:
            return _PartitionResult(error.code)
        result, end_offset = _PartitionResult(), append_info.last_offset + 1
        if partition.is_flush_pending:
            self._replica_manager.flush(partition, _ignore_flush_result)
        if partition.high_watermark < end_offset:
            waiting.append(ProducePartitionStatus(partition, end_offset, result))
        self._replica_manager.complete_delayed_fetches(partition)
        if topic_partition.topic == OFFSETS_TOPIC:
            self._on_offsets_marker(
                topic_partition.partition,
                marker_entry.producer_id,
                commits=marker_entry.commits,
                offset=append_info.last_offset,
            )
        return result


def _ignore_flush_result(failure: StorageError | None) -> None:
    """Ignore the result: the high watermark shows it, and a failed flush is retried."""
