"""Changes of the ISR that leaders on this broker propose to the controller, and their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from odradek.replication.isr.alter_partition_manager import AlterPartitionManager
from odradek.replication.leader import IsrChange, IsrChangeOutcome, IsrChangeResult
from odradek.replication.partition import Partition
from odradek.telemetry import events

log = events.logger("replica_manager")


class IsrChanges:
    __slots__ = ("_complete_delayed_requests", "alter_partition_manager")

    def __init__(self, complete_delayed_requests: Callable[[Partition], None]) -> None:
        self._complete_delayed_requests = complete_delayed_requests
        self.alter_partition_manager: AlterPartitionManager | None = None
        """None if this broker is the only one."""

    def expand(self, partition: Partition, broker_id: int) -> None:
        """Propose that a follower joins the ISR, if it may. Call after each of its fetches."""
        if self.alter_partition_manager is not None:
            self._submit(partition, partition.propose_isr_expansion(broker_id))

    def shrink(self, partition: Partition) -> None:
        """Propose that lagging followers leave the ISR, if there are any."""
        if partition.leader_state is not None and partition.leader_state.has_followers:
            self._submit(partition, partition.propose_isr_shrink())

    def _submit(self, partition: Partition, change: IsrChange | None) -> None:
        if change is not None and self.alter_partition_manager is not None:
            self.alter_partition_manager.submit(
                partition.topic_partition,
                partition.topic_id,
                change,
                partial(self.on_result, partition, change),
            )

    def on_result(self, partition: Partition, change: IsrChange, result: IsrChangeResult) -> None:
        """Apply the controller's response to a proposal."""
        outcome = partition.complete_isr_change(change, result)
        if outcome is IsrChangeOutcome.COMMITTED:
            log.info("isr_changed", partition=partition.topic_partition, isr=result.isr)
            partition.advance_high_watermark()
            self._complete_delayed_requests(partition)
        elif outcome is IsrChangeOutcome.RETRY:
            self._submit(partition, change)
        elif result.error:
            log.warning(
                "isr_not_changed",
                partition=partition.topic_partition,
                isr=change.isr,
                error=result.error.name,
                outcome=outcome.value,
            )
