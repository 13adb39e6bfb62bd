"""Changes of brokers: startup, failure, bounce, endpoints, failed log directories, controlled shutdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from odradek.controller.actions import RemoveLogDirNotifications, Steps
from odradek.controller.events import (
    BrokersChanged,
    ControlledShutdownRequested,
    LeaderAndIsrAnswered,
    LogDirFailuresNotified,
    ReplicasOffline,
    ReplicasOnline,
)
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine import topic_deletion
from odradek.controller.machine.context import ControllerContext, Replica
from odradek.controller.machine.leader_election import Election
from odradek.controller.machine.partition_state_machine import (
    ElectionFailed,
    handle_partition_state_changes,
    trigger_online_state_change,
)
from odradek.controller.machine.reassignment import resume_reassignments
from odradek.controller.machine.replica_state_machine import (
    LeaderEpochs,
    handle_replica_state_changes,
    leader_epochs,
)
from odradek.controller.machine.request_batch import RequestBatch, send_update_metadata
from odradek.controller.machine.states import PartitionState, ReplicaState
from odradek.controller.replies import ControlledShutdownReply
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

UNKNOWN_EPOCH = -1

log = events.logger("controller")


def on_brokers_changed(context: ControllerContext, event: BrokersChanged) -> Steps[None]:
    """Handle new brokers, then those with a new broker epoch, then dead ones.

    A broker with a new epoch has failed and come back: its leaderships move, or get a new leader epoch.
    """
    before, now = context.brokers, event.brokers
    new = now.keys() - before.keys()
    dead = before.keys() - now.keys()
    bounced = {
        broker_id
        for broker_id in now.keys() & before.keys()
        if now[broker_id].broker_epoch != before[broker_id].broker_epoch
    }
    modified = any(
        before[b].registration != now[b].registration for b in now.keys() & before.keys() - bounced
    )
    if new or bounced or dead:
        log.info("brokers_changed", new=sorted(new), bounced=sorted(bounced), dead=sorted(dead))
    context.brokers = {b: broker if b in bounced or b not in now else now[b] for b, broker in before.items()}
    if new:
        yield from _start_brokers(context, new, now)
    if bounced:
        yield from _fail_brokers(context, bounced)
        yield from _start_brokers(context, bounced, now)
    if dead:
        yield from _fail_brokers(context, dead)
    if modified:
        yield from send_update_metadata(context, context.brokers)


def _start_brokers(
    context: ControllerContext, broker_ids: Collection[int], now: Mapping[int, LiveBroker]
) -> Steps[None]:
    """Send new brokers the full state, and bring their replicas online."""
    existing = context.live_or_shutting_down
    context.brokers.update((broker_id, now[broker_id]) for broker_id in sorted(broker_ids))
    yield from send_update_metadata(context, existing)
    led = [p for p in context.partitions if not context.is_being_deleted(p.topic)]
    yield from send_update_metadata(context, broker_ids, led)
    yield from _bring_online(context, context.replicas_on(broker_ids))
    yield from resume_reassignments(context, broker_ids)


def _bring_online(context: ControllerContext, replicas: Collection[Replica]) -> Steps[None]:
    """Send replicas their state, elect leaders that were missing, and resume deletions."""
    deleted = {r for r in replicas if context.replica_state(r) is ReplicaState.DELETION_SUCCESSFUL}
    yield from handle_replica_state_changes(
        context, [replica for replica in replicas if replica not in deleted], ReplicaState.ONLINE
    )
    yield from trigger_online_state_change(context)
    yield from topic_deletion.resume_deletions_for(context, {replica.partition.topic for replica in replicas})


def _fail_brokers(context: ControllerContext, broker_ids: Collection[int]) -> Steps[None]:
    """Take the replicas of dead brokers offline."""
    for broker_id in broker_ids:
        context.brokers.pop(broker_id)
        context.offline_replicas.pop(broker_id, None)
        context.shutting_down.discard(broker_id)
    replicas = context.replicas_on(broker_ids)
    yield from _take_offline(context, replicas, leader_epochs(context, replicas))


def _take_offline(
    context: ControllerContext, replicas: Collection[Replica], failed_in: LeaderEpochs | None = None
) -> Steps[None]:
    """Elect other leaders, remove replicas from ISRs, halt deletions (Kafka's onReplicasBecomeOffline)."""
    yield from handle_partition_state_changes(context, _with_offline_leader(context), PartitionState.OFFLINE)
    elections = yield from trigger_online_state_change(context)
    to_delete = [r for r in replicas if context.is_being_deleted(r.partition.topic)]
    others = [r for r in replicas if not context.is_being_deleted(r.partition.topic)]
    # A replica whose deletion has not begun, because its broker was shutting down, may lead: not in its
    # leader epoch again.
    online = [r for r in to_delete if context.replica_state(r) is ReplicaState.ONLINE]
    yield from handle_replica_state_changes(context, [*others, *online], ReplicaState.OFFLINE, failed_in)
    yield from topic_deletion.fail_replica_deletion(context, to_delete)
    is_sent = bool(others) or any(not isinstance(r, ElectionFailed) for r in elections.values())
    if not is_sent:
        yield from send_update_metadata(context, context.brokers)


def _with_offline_leader(context: ControllerContext) -> list[TopicPartition]:
    return [
        partition
        for partition, stored in context.partitions.items()
        if not context.is_replica_online(stored.leader_and_isr.leader, partition)
        and not context.is_being_deleted(partition.topic)
    ]


# Replicas in failed log directories.


def on_replicas_offline(context: ControllerContext, event: ReplicasOffline) -> Steps[None]:
    """Take replicas in a failed log directory offline."""
    yield from _fail_replicas(context, event.broker_id, event.partitions)


def on_replicas_online(context: ControllerContext, event: ReplicasOnline) -> Steps[None]:
    """Bring replicas online whose log directory works again."""
    offline = context.offline_replicas.get(event.broker_id, set())
    online = [partition for partition in event.partitions if partition in offline]
    offline.difference_update(online)
    replicas = [Replica(p, event.broker_id) for p in online if _has_replica(context, p, event.broker_id)]
    if replicas:
        yield from _bring_online(context, replicas)


def on_leader_and_isr_answered(context: ControllerContext, event: LeaderAndIsrAnswered) -> Steps[None]:
    """Note the replicas that are offline on a broker: it answers KAFKA_STORAGE_ERROR."""
    if event.broker_id not in context.brokers:
        return
    offline = context.offline_replicas.get(event.broker_id, set())
    offline.difference_update(partition for partition, error in event.errors.items() if not error)
    failed = [p for p, error in event.errors.items() if error == ErrorCode.KAFKA_STORAGE_ERROR]
    yield from _fail_replicas(context, event.broker_id, failed)


def _fail_replicas(
    context: ControllerContext, broker_id: int, partitions: Iterable[TopicPartition]
) -> Steps[None]:
    if broker_id not in context.brokers:
        return
    known = context.offline_replicas.get(broker_id, set())
    new = [p for p in partitions if p not in known and _has_replica(context, p, broker_id)]
    if new:
        context.offline_replicas.setdefault(broker_id, set()).update(new)
        log.warning("replicas_offline", broker=broker_id, count=len(new))
        yield from _take_offline(context, [Replica(partition, broker_id) for partition in new])


def _has_replica(context: ControllerContext, partition: TopicPartition, broker_id: int) -> bool:
    topic = context.topics.get(partition.topic)
    assignment = None if topic is None else topic.partitions.get(partition.partition)
    return assignment is not None and broker_id in assignment.replicas


def on_log_dir_failures_notified(context: ControllerContext, event: LogDirFailuresNotified) -> Steps[None]:
    """Send the brokers LeaderAndIsr: their responses say which replicas are offline."""
    replicas = context.replicas_on(event.broker_ids)
    alive = [r for r in replicas if context.replica_state(r) is not ReplicaState.DELETION_SUCCESSFUL]
    yield from handle_replica_state_changes(context, alive, ReplicaState.ONLINE)
    yield RemoveLogDirNotifications(event.sequence_numbers)


# Controlled shutdown.


def on_controlled_shutdown_requested(
    context: ControllerContext, event: ControlledShutdownRequested
) -> Steps[ControlledShutdownReply]:
    """Move the leaderships of a broker that shuts down, and remove it from ISRs."""
    broker_id = event.broker_id
    error = check_controlled_shutdown(context, broker_id, event.broker_epoch)
    if error:
        return ControlledShutdownReply(error)
    context.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition, _ in context.replicas_on((broker_id,)):
        stored = context.partitions.get(partition)
        if stored is None or len(context.replicas_of(partition)) == 1:
            continue
        if not context.is_being_deleted(partition.topic):
            (led if stored.leader_and_isr.leader == broker_id else followed).append(partition)
    yield from handle_partition_state_changes(
        context, led, PartitionState.ONLINE, Election.CONTROLLED_SHUTDOWN
    )
    batch = RequestBatch(context)
    for partition in followed:
        batch.add_stop_replica((broker_id,), partition, is_delete=False)
    yield from batch.send()
    replicas = [Replica(partition, broker_id) for partition in followed]
    yield from handle_replica_state_changes(context, replicas, ReplicaState.OFFLINE)
    remaining = [p for p in context.leaders_of(broker_id) if len(context.replicas_of(p)) > 1]
    return ControlledShutdownReply(ErrorCode.NONE, frozenset(remaining))


def check_controlled_shutdown(context: ControllerContext, broker_id: int, broker_epoch: int) -> ErrorCode:
    """Refuse an earlier registration of the broker; old versions send no epoch."""
    broker = context.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    is_stale = broker_epoch != UNKNOWN_EPOCH and broker_epoch < broker.broker_epoch
    return ErrorCode.STALE_BROKER_EPOCH if is_stale else ErrorCode.NONE
