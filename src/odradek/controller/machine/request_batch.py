"""Requests to brokers, collected over one state change (Kafka's ControllerBrokerRequestBatch).

Partition states are taken from the context when the batch is sent; the leader epoch of StopReplica when the
replica is added, before the change that follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.cluster.metadata_update import LEADER_DURING_DELETE
from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    Steps,
    StopReplicaState,
)
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.turns import give_turn
from odradek.model.ids import EPOCH_DURING_DELETE, NO_LEADER_EPOCH, ZERO_TOPIC_ID, TopicPartition


class RequestBatch:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaState]] = {}
        self._metadata_brokers: set[int] = set()
        self._is_metadata_for_all = False
        self._metadata_partitions: dict[TopicPartition, None] = {}

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Add a partition's state for these brokers, and to UpdateMetadata for all."""
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            partitions[partition] = is_new or partitions.get(partition, False)
        self._is_metadata_for_all = True
        self._metadata_partitions[partition] = None

    def add_stop_replica(
        self, broker_ids: Iterable[int], partition: TopicPartition, *, is_delete: bool
    ) -> None:
        leader_epoch = self._leader_epoch(partition)
        for broker_id in broker_ids:
            partitions = self._stop_replica.setdefault(broker_id, {})
            before = partitions.get(partition)
            was_delete = before is not None and before.is_delete
            partitions[partition] = StopReplicaState(leader_epoch, is_delete or was_delete)

    def add_update_metadata(
        self, broker_ids: Iterable[int], partitions: Collection[TopicPartition] = ()
    ) -> None:
        """Add partitions to UpdateMetadata; without any, it carries only the live brokers."""
        self._metadata_brokers.update(broker_ids)
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def send(self) -> Steps[None]:
        """Send LeaderAndIsr, then UpdateMetadata, then StopReplica, to brokers that are registered."""
        updates: dict[TopicPartition, PartitionStateUpdate] = {}
        yield from self._send_leader_and_isr(updates)
        yield from self._send_update_metadata(updates)
        epoch = self._context.controller_epoch
        for broker_id in sorted(self._stop_replica.keys() & self._context.brokers.keys()):
            yield SendStopReplica(broker_id, epoch, self._stop_replica[broker_id])

    def _send_leader_and_isr(self, updates: dict[TopicPartition, PartitionStateUpdate]) -> Steps[None]:
        context = self._context
        for broker_id in sorted(self._leader_and_isr.keys() & context.brokers.keys()):
            states = {}
            for partition, is_new in self._leader_and_isr[broker_id].items():
                update = updates.get(partition)
                if update is None:
                    update = updates[partition] = partition_update(context, partition)
                states[partition] = update._replace(is_new=True) if is_new else update
            leaders = {state.leader for state in states.values()}
            live_leaders = {
                leader: context.brokers[leader] for leader in sorted(leaders & context.brokers.keys())
            }
            yield SendLeaderAndIsr(broker_id, context.controller_epoch, states, live_leaders)
            yield from give_turn(len(states))

    def _send_update_metadata(self, updates: dict[TopicPartition, PartitionStateUpdate]) -> Steps[None]:
        context = self._context
        requested = context.brokers if self._is_metadata_for_all else self._metadata_brokers
        broker_ids = sorted(context.brokers.keys() & requested)
        if not broker_ids:
            return
        states = {}
        for partition in self._metadata_partitions:
            if partition not in context.partitions:
                continue  # no leader yet
            update = updates.get(partition) or partition_update(context, partition)
            if context.is_being_deleted(partition.topic):
                update = update._replace(leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0)
            states[partition] = update
        brokers = dict(sorted(context.brokers.items()))
        yield SendUpdateMetadata(broker_ids, context.controller_epoch, brokers, states)
        yield from give_turn(len(states))

    def _leader_epoch(self, partition: TopicPartition) -> int:
        if self._context.is_being_deleted(partition.topic):
            return EPOCH_DURING_DELETE
        stored = self._context.partitions.get(partition)
        return NO_LEADER_EPOCH if stored is None else stored.leader_and_isr.leader_epoch


def partition_update(context: ControllerContext, partition: TopicPartition) -> PartitionStateUpdate:
    """Return the state of a partition for requests to brokers."""
    topic = context.topics[partition.topic]
    assignment = topic.partitions[partition.partition]
    stored = context.partitions[partition]
    leader_and_isr = stored.leader_and_isr
    return PartitionStateUpdate(
        topic.topic_id or ZERO_TOPIC_ID,
        leader_and_isr.leader,
        leader_and_isr.leader_epoch,
        leader_and_isr.isr,
        assignment.replicas,
        stored.version,
        False,
        tuple([r for r in assignment.replicas if not context.is_replica_online(r, partition)]),
        leader_and_isr.controller_epoch,
        assignment.adding,
        assignment.removing,
        leader_and_isr.is_recovering,
    )


def send_update_metadata(
    context: ControllerContext, broker_ids: Iterable[int], partitions: Collection[TopicPartition] = ()
) -> Steps[None]:
    """Send only UpdateMetadata."""
    batch = RequestBatch(context)
    batch.add_update_metadata(broker_ids, partitions)
    yield from batch.send()
