"""The local replica of a partition while another broker leads it.

A value of one leader epoch: a role change replaces it as a whole and clears ``is_active``, so that a response
to a fetch of an earlier epoch can no longer be appended. All methods but ``flush`` are synchronous: no role
change can happen in the middle of one.
"""

from __future__ import annotations

from odradek.log.leader_epoch_cache import EpochEnd
from odradek.log.log import Log
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.files import Buffer


class Follower:
    """Created by ``Partition.make_follower``. ``log`` is replaced when the log moves to another directory."""

    __slots__ = ("is_active", "leader_epoch", "leader_id", "log", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, log: Log, leader_id: int, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.is_active = True

    def __repr__(self) -> str:
        return f"Follower({self.topic_partition}, leader {self.leader_id}, epoch {self.leader_epoch})"

    # Offsets.

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def latest_epoch(self) -> int:
        """Epoch of the last batch, or a later one that has none; -1 if no epoch is known."""
        return self.log.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the end offset of ``epoch``, or of the largest known epoch below it."""
        return self.log.end_offset_for_epoch(epoch)

    # Changes.

    def append(
        self, records: Buffer, leader_high_watermark: int, leader_log_start_offset: int, now_ms: int
    ) -> int:
        """Append the leader's batches, follow its high watermark and log start offset; return the log end.

        The high watermark never goes back: what was committed stays committed, even if a new leader does not
        know it yet. Only a truncation lowers it.
        """
        self._require_active()
        log = self.log
        if records:
            log.append_as_follower(records, self.leader_epoch, now_ms)
        high_watermark = min(leader_high_watermark, log.log_end_offset)
        log.high_watermark = max(log.high_watermark, high_watermark)
        log_start_offset = min(leader_log_start_offset, log.high_watermark)
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(log_start_offset)
        return log.log_end_offset

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate the log. Blocks for the sync if batches are removed."""
        self._require_active()
        self.log.truncate_to(offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove all batches; the log starts and ends at ``offset``. Blocks for the sync."""
        self._require_active()
        self.log.truncate_fully_and_start_at(offset, now_ms)

    def _require_active(self) -> None:
        if not self.is_active:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} was replaced")

    # Durability.

    @property
    def is_flush_due(self) -> bool:
        """True if ``flush.messages`` requires a flush before the next fetch acknowledges the append."""
        return self.log.is_flush_due

    async def flush(self) -> None:
        """Sync what was appended."""
        await self.log.flush()
