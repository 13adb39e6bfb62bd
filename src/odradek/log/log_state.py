"""State of a log when it is opened."""

from __future__ import annotations

from odradek.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from odradek.log.producers.producer_state_manager import ProducerStateManager
from odradek.log.segments.log_segment import LogSegment


class LogState:
    __slots__ = (
        "checkpointed_epochs",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        segments: list[LogSegment],
        epochs: LeaderEpochCache,
        checkpointed_epochs: tuple[EpochEntry, ...],
        producers: ProducerStateManager,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.segments = segments
        self.epochs = epochs
        self.checkpointed_epochs = checkpointed_epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
