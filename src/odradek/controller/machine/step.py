"""The controller as a pure state machine: ``step(context, event)`` updates the context and returns actions.

A partition comes online in two steps: its state is written to the store, and only after that has succeeded
(``PartitionStatesWritten``) are requests sent to brokers. A topic is deleted in three: brokers delete their
replicas, then its znodes are removed, then brokers drop it from their metadata caches.

A replica in a failed log directory counts as dead until its broker restarts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.controller import leader_election
from odradek.controller.actions import (
    NO_VERSION,
    Action,
    PartitionStateUpdate,
    PartitionStateUpdates,
    PartitionStateWrite,
    RemoveTopic,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaState,
    WritePartitionStates,
)
from odradek.controller.controller_context import ControllerContext
from odradek.controller.events import (
    BrokersChanged,
    ContextLoaded,
    ControllerEvent,
    PartitionStatesWritten,
    ReplicasDeleted,
    ReplicasOffline,
    ReplicasOnline,
    TopicDeleted,
    TopicDeletionsRequested,
    TopicsChanged,
)
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition

_DELETE = StopReplicaState(-2, True)


def step(context: ControllerContext, event: ControllerEvent) -> list[Action]:
    match event:
        case ContextLoaded():
            return _on_context_loaded(context)
        case BrokersChanged():
            return _on_brokers_changed(context, event)
        case TopicsChanged():
            return _on_topics_changed(context, event)
        case TopicDeletionsRequested():
            return _start_deletion(context, event.topics)
        case PartitionStatesWritten():
            return _on_partition_states_written(context, event)
        case ReplicasDeleted():
            return _on_replicas_deleted(context, event)
        case ReplicasOffline():
            return _on_replicas_offline(context, event)
        case ReplicasOnline():
            return _on_replicas_online(context, event)
        case TopicDeleted():
            return _on_topic_deleted(context, event.topic)
        case _:
            raise NotImplementedError(event)


def _on_context_loaded(context: ControllerContext) -> list[Action]:
    """Send the full state to all brokers, then bring offline partitions online and resume deletions."""
    with_state = list(context.partitions)
    deletions, context.deletions = frozenset(context.deletions), {}
    kept = [partition for partition in _all_partitions(context) if partition.topic not in deletions]
    return [
        *_send_states(context, with_state, to_all=True),
        *_bring_online(context, kept),
        *_start_deletion(context, deletions),
    ]


def _on_brokers_changed(context: ControllerContext, event: BrokersChanged) -> list[Action]:
    """Send new brokers the full state and others the changes; elect leaders and resume deletions."""
    new_brokers = {
        broker_id
        for broker_id, broker in event.brokers.items()
        if broker_id not in context.brokers or context.brokers[broker_id].broker_epoch != broker.broker_epoch
    }
    context.brokers = dict(event.brokers)
    context.offline_replicas = {
        broker_id: partitions
        for broker_id, partitions in context.offline_replicas.items()
        if broker_id in context.brokers and broker_id not in new_brokers
    }
    affected = [
        partition
        for partition in context.partitions
        if new_brokers.intersection(context.topics[partition.topic].partitions[partition.partition].replicas)
    ]
    return [
        *_send_leader_and_isr(context, _partition_states(context, affected)),
        *_send_update_metadata(context, new_brokers, _partition_states(context, context.partitions)),
        *_send_update_metadata(
            context, context.brokers.keys() - new_brokers, _partition_states(context, affected)
        ),
        *_bring_online(context, _all_partitions(context)),
        *_resend_stop_replica(context, new_brokers),
    ]


def _on_topics_changed(context: ControllerContext, event: TopicsChanged) -> list[Action]:
    new = []
    for topic, assignment in event.topics.items():
        known = context.topics.get(topic)
        if known is not None and topic in context.deletions:
            # New partitions of a topic being deleted are never created; its deletion must not wait for them.
            continue
        if known is not None and known.topic_id != assignment.topic_id:
            # Deleted and recreated meanwhile: the deletion of the old topic is still to be processed.
            continue
        before = known.partitions if known is not None else {}
        context.topics[topic] = assignment
        new += [TopicPartition(topic, n) for n in sorted(assignment.partitions) if n not in before]
    return _bring_online(context, new)


def _start_deletion(context: ControllerContext, topics: Iterable[str]) -> list[Action]:
    actions: list[Action] = []
    for topic in sorted(topics):
        if topic in context.deletions:
            continue
        by_broker = _replicas_by_broker(context, topic)
        context.deletions[topic] = set(by_broker)
        actions += [
            SendStopReplica(broker_id, context.controller_epoch, dict.fromkeys(partitions, _DELETE))
            for broker_id, partitions in sorted(by_broker.items())
        ]
        if not by_broker:
            actions.append(RemoveTopic(topic))
    return actions


def _resend_stop_replica(context: ControllerContext, new_brokers: Collection[int]) -> list[Action]:
    """Send StopReplica again to returned brokers that a topic deletion waits for."""
    return [
        SendStopReplica(broker_id, context.controller_epoch, dict.fromkeys(partitions, _DELETE))
        for topic, waiting_for in sorted(context.deletions.items())
        for broker_id, partitions in sorted(_replicas_by_broker(context, topic).items())
        if broker_id in new_brokers and broker_id in waiting_for
    ]


def _replicas_by_broker(context: ControllerContext, topic: str) -> dict[int, list[TopicPartition]]:
    """Return the partitions of a topic by the live broker that has a replica."""
    by_broker: dict[int, list[TopicPartition]] = {}
    if topic in context.topics:
        for partition in context.partitions_of(topic):
            for replica in context.topics[topic].partitions[partition.partition].replicas:
                if replica in context.brokers:
                    by_broker.setdefault(replica, []).append(partition)
    return by_broker


def _on_replicas_deleted(context: ControllerContext, event: ReplicasDeleted) -> list[Action]:
    """Complete the deletion of topics once all brokers have deleted all replicas; wait for offline ones."""
    removed = set(event.partitions)
    actions: list[Action] = []
    for topic in sorted({partition.topic for partition in removed}):
        waiting_for = context.deletions.get(topic)
        replicas = _replicas_by_broker(context, topic).get(event.broker_id, ())
        if waiting_for is not None and removed.issuperset(replicas):
            waiting_for.discard(event.broker_id)
            if not waiting_for:
                actions.append(RemoveTopic(topic))
    return actions


def _on_replicas_offline(context: ControllerContext, event: ReplicasOffline) -> list[Action]:
    """Publish offline replicas, and elect other leaders for them."""
    known = context.offline_replicas.setdefault(event.broker_id, set())
    new = [p for p in event.partitions if p not in known and p in context.partitions]
    known.update(new)
    metadata_update = (
        _send_update_metadata(context, context.brokers, _partition_states(context, new)) if new else []
    )
    return [*metadata_update, *_bring_online(context, new)]


def _on_replicas_online(context: ControllerContext, event: ReplicasOnline) -> list[Action]:
    """Elect leaders for partitions whose replicas are online again."""
    known = context.offline_replicas.get(event.broker_id, set())
    online = [partition for partition in event.partitions if partition in known]
    known.difference_update(online)
    return _bring_online(context, [partition for partition in online if partition in context.partitions])


def _on_topic_deleted(context: ControllerContext, topic: str) -> list[Action]:
    context.deletions.pop(topic, None)
    deleted = context.topics.pop(topic, None)
    if deleted is None:
        return []
    for number in deleted.partitions:
        partition = TopicPartition(topic, number)
        context.partitions.pop(partition, None)
        for offline in context.offline_replicas.values():
            offline.discard(partition)
    return [
        SendUpdateMetadata(
            sorted(context.brokers), context.controller_epoch, context.brokers, {}, {topic: deleted}
        )
    ]


def _bring_online(context: ControllerContext, partitions: Iterable[TopicPartition]) -> list[Action]:
    """Elect leaders for partitions without a live one; record where no live replica can lead any more."""
    writes: dict[TopicPartition, PartitionStateWrite] = {}
    for partition in partitions:
        if partition.topic in context.deletions:
            continue
        replicas = context.topics[partition.topic].partitions[partition.partition].replicas
        stored = context.partitions.get(partition)
        eligible = context.can_lead(partition) if context.offline_replicas else context.brokers.keys()
        if stored is None:
            elected = leader_election.elect_first_leader(replicas, eligible, context.controller_epoch)
            version = NO_VERSION
        elif stored.leader_and_isr.leader in eligible:
            continue
        else:
            elected = leader_election.elect_offline_leader(
                stored.leader_and_isr, replicas, eligible, context.controller_epoch
            )
            if elected is None and stored.leader_and_isr.leader in context.brokers:
                elected = leader_election.without_leader(stored.leader_and_isr, context.controller_epoch)
            version = stored.version
        if elected is not None:
            writes[partition] = PartitionStateWrite(elected, version)
    return [WritePartitionStates(writes)] if writes else []


def _on_partition_states_written(context: ControllerContext, event: PartitionStatesWritten) -> list[Action]:
    new = {partition for partition in event.partitions if partition not in context.partitions}
    context.partitions.update(event.partitions)
    # The elected leader's log directory may have failed meanwhile.
    without_leader = [
        p for p, stored in event.partitions.items() if context.is_offline(p, stored.leader_and_isr.leader)
    ]
    return [*_send_states(context, list(event.partitions), new=new), *_bring_online(context, without_leader)]


def _send_states(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    *,
    to_all: bool = False,
    new: Collection[TopicPartition] = (),
) -> list[Action]:
    """Return LeaderAndIsr for brokers with replicas of these partitions, and UpdateMetadata for all."""
    partition_states = _partition_states(context, partitions, new)
    metadata_update = (
        _send_update_metadata(context, context.brokers, partition_states)
        if partition_states or to_all
        else []
    )
    return [*_send_leader_and_isr(context, partition_states), *metadata_update]


def _send_leader_and_isr(context: ControllerContext, partition_states: PartitionStateUpdates) -> list[Action]:
    """Return LeaderAndIsr requests for the brokers whose replicas are online.

    A broker that has already deleted its replica of a topic being deleted must not create it again.
    """
    actions: list[Action] = []
    for broker_id in sorted(context.brokers):
        of_broker = {
            partition: partition_state
            for partition, partition_state in partition_states.items()
            if broker_id in partition_state.replicas
            and broker_id not in partition_state.offline_replicas
            and broker_id in context.deletions.get(partition.topic, (broker_id,))
        }
        if of_broker:
            actions.append(SendLeaderAndIsr(broker_id, context.controller_epoch, of_broker))
    return actions


def _send_update_metadata(
    context: ControllerContext, broker_ids: Collection[int], partition_states: PartitionStateUpdates
) -> list[Action]:
    if not broker_ids:
        return []
    return [
        SendUpdateMetadata(
            sorted(broker_ids), context.controller_epoch, dict(context.brokers), partition_states
        )
    ]


def _partition_states(
    context: ControllerContext, partitions: Iterable[TopicPartition], new: Collection[TopicPartition] = ()
) -> PartitionStateUpdates:
    return {
        partition: _partition_state(context, partition, is_new=partition in new) for partition in partitions
    }


def _partition_state(
    context: ControllerContext, partition: TopicPartition, *, is_new: bool
) -> PartitionStateUpdate:
    topic = context.topics[partition.topic]
    stored = context.partitions[partition]
    replicas = topic.partitions[partition.partition].replicas
    return PartitionStateUpdate(
        topic.topic_id or ZERO_TOPIC_ID,
        stored.leader_and_isr.leader,
        stored.leader_and_isr.leader_epoch,
        stored.leader_and_isr.isr,
        replicas,
        stored.version,
        is_new,
        tuple(replica for replica in replicas if context.is_offline(partition, replica))
        if context.offline_replicas
        else (),
    )


def _all_partitions(context: ControllerContext) -> list[TopicPartition]:
    return [partition for topic in sorted(context.topics) for partition in context.partitions_of(topic)]
