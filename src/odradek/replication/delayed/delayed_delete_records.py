"""A DeleteRecords request in the purgatory: it waits until all live replicas have deleted the records.

It completes when each partition has lost its leader here or reached its required low watermark; or at the
timeout, with REQUEST_TIMED_OUT for the partitions still pending. The records are deleted here all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.partition import Partition
from odradek.timers.purgatory import DelayedOperation

INVALID_LOW_WATERMARK = -1


class PartitionResult(Protocol):
    """Entry of a response that reports a deletion, for instance ``DeleteRecordsPartitionResult``."""

    error_code: int
    low_watermark: int


class DeleteRecordsPartitionStatus:
    """One partition's deletion: the low watermark it waits for, and the response entry it completes."""

    __slots__ = ("entry", "partition", "required_offset")

    def __init__(self, partition: Partition, required_offset: int, entry: PartitionResult) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.entry = entry

    def try_complete(self) -> bool:
        """Fill in the entry if the low watermark is reached or this broker does not lead any more."""
        try:
            low_watermark = self.partition.low_watermark()
        except BrokerError as error:
            self.entry.error_code = error.code
            self.entry.low_watermark = INVALID_LOW_WATERMARK
            return True
        if low_watermark < self.required_offset:
            return False
        self.entry.low_watermark = low_watermark
        return True


class DelayedDeleteRecords(DelayedOperation):
    __slots__ = ("_pending", "_send_response")

    def __init__(
        self, pending: list[DeleteRecordsPartitionStatus], send_response: Callable[[], None]
    ) -> None:
        super().__init__()
        self._pending = pending
        self._send_response = send_response

    def try_complete(self) -> bool:
        self._pending = [status for status in self._pending if not status.try_complete()]
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        for status in self._pending:
            status.entry.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._send_response()
