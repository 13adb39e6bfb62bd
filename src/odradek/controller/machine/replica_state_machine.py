"""State changes of replicas (Kafka's ReplicaStateMachine).

``NEW`` and ``ONLINE`` send the partition's state to the replica. ``OFFLINE`` stops it, and removes it from
the ISR. ``DELETION_STARTED`` deletes it. Other states are only noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.controller.actions import Steps
from odradek.controller.machine.context import ControllerContext, Replica
from odradek.controller.machine.leader_election import increment_leader_epoch, remove_from_isr
from odradek.controller.machine.partition_state_updates import update_partition_states
from odradek.controller.machine.request_batch import RequestBatch
from odradek.controller.machine.states import REPLICA_TRANSITIONS, ReplicaState
from odradek.controller.machine.turns import give_turn
from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment
from odradek.telemetry import events

LeaderEpochs = Mapping[TopicPartition, int]

log = events.logger("controller")


def initialize_replica_states(context: ControllerContext) -> tuple[list[Replica], list[Replica]]:
    """Note the states of replicas as the brokers are; return the online and the offline ones.

    A replica that is down may belong to a topic that is being deleted: its deletion waits.
    """
    online: list[Replica] = []
    offline: list[Replica] = []
    for replica in context.replicas_of_partitions(context.all_partitions()):
        if context.is_replica_online(replica.broker_id, replica.partition):
            context.replica_states[replica] = ReplicaState.ONLINE
            online.append(replica)
        else:
            context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
            offline.append(replica)
    return online, offline


def handle_replica_state_changes(
    context: ControllerContext,
    replicas: Iterable[Replica],
    target: ReplicaState,
    failed_in: LeaderEpochs | None = None,
) -> Steps[None]:
    """Move replicas to a state.

    ``failed_in``: their brokers have failed, in these leader epochs. Partitions get a new one even if the
    replica is outside the ISR, so that nothing fetched before the failure counts for joining it.
    """
    by_broker: dict[int, list[Replica]] = {}
    for replica in replicas:
        if _check_transition(context, replica, target):
            by_broker.setdefault(replica.broker_id, []).append(replica)
    if not by_broker:
        return
    batch = RequestBatch(context)
    for broker_id, of_broker in sorted(by_broker.items()):
        yield from give_turn(len(of_broker))
        match target:
            case ReplicaState.NEW:
                _create(context, of_broker, batch)
            case ReplicaState.ONLINE:
                _bring_online(context, of_broker, batch)
            case ReplicaState.OFFLINE:
                yield from _take_offline(context, broker_id, of_broker, failed_in or {}, batch)
            case ReplicaState.DELETION_STARTED:
                for replica in of_broker:
                    context.replica_states[replica] = target
                    batch.add_stop_replica((broker_id,), replica.partition, is_delete=True)
            case ReplicaState.NON_EXISTENT:
                _forget(context, of_broker)
            case ReplicaState.DELETION_SUCCESSFUL | ReplicaState.DELETION_INELIGIBLE:
                context.replica_states.update(dict.fromkeys(of_broker, target))
    yield from give_turn(sum(map(len, by_broker.values())))
    yield from batch.send()


def leader_epochs(context: ControllerContext, replicas: Iterable[Replica]) -> LeaderEpochs:
    """Return the current leader epochs of the replicas' partitions."""
    return {
        replica.partition: context.partitions[replica.partition].leader_and_isr.leader_epoch
        for replica in replicas
        if replica.partition in context.partitions
    }


def _check_transition(context: ControllerContext, replica: Replica, target: ReplicaState) -> bool:
    state = context.replica_state(replica)
    if state in REPLICA_TRANSITIONS[target]:
        return True
    log.error(
        "replica_state_illegal",
        partition=replica.partition,
        broker=replica.broker_id,
        state=state.value,
        target=target.value,
    )
    return False


def _create(context: ControllerContext, replicas: Iterable[Replica], batch: RequestBatch) -> None:
    for replica in replicas:
        partition, broker_id = replica
        stored = context.partitions.get(partition)
        if stored is not None and stored.leader_and_isr.leader == broker_id:
            log.error("new_replica_leads", partition=partition, broker=broker_id)
            continue
        if stored is not None:
            batch.add_leader_and_isr((broker_id,), partition, is_new=True)
        context.replica_states[replica] = ReplicaState.NEW


def _bring_online(context: ControllerContext, replicas: Iterable[Replica], batch: RequestBatch) -> None:
    for replica in replicas:
        is_new = context.replica_states[replica] is ReplicaState.NEW
        if not is_new and replica.partition in context.partitions:
            batch.add_leader_and_isr((replica.broker_id,), replica.partition)
        context.replica_states[replica] = ReplicaState.ONLINE


def _take_offline(
    context: ControllerContext,
    broker_id: int,
    replicas: Iterable[Replica],
    failed_in: LeaderEpochs,
    batch: RequestBatch,
) -> Steps[None]:
    """Stop replicas, and remove them from the ISR; the other replicas learn the new one."""
    partitions = [replica.partition for replica in replicas]
    for partition in partitions:
        batch.add_stop_replica((broker_id,), partition, is_delete=False)

    def decide(
        partition: TopicPartition, stored: LeaderIsrAndControllerEpoch
    ) -> LeaderIsrAndControllerEpoch | None:
        if broker_id in stored.isr:
            return remove_from_isr(stored, broker_id, context.controller_epoch)
        if stored.leader != NO_LEADER and failed_in.get(partition) == stored.leader_epoch:
            return increment_leader_epoch(stored, context.controller_epoch)
        return None

    yield from update_partition_states(context, partitions, decide)
    for partition in partitions:
        context.replica_states[Replica(partition, broker_id)] = ReplicaState.OFFLINE
        if partition not in context.partitions:
            batch.add_update_metadata(context.brokers, (partition,))
        elif not context.is_being_deleted(partition.topic):
            others = [replica for replica in context.replicas_of(partition) if replica != broker_id]
            batch.add_leader_and_isr(others, partition)


def _forget(context: ControllerContext, replicas: Iterable[Replica]) -> None:
    for replica in replicas:
        del context.replica_states[replica]
        if context.is_queued_for_deletion(replica.partition.topic):
            continue  # the whole topic goes
        assignment = context.assignment_of(replica.partition)
        context.set_assignment(
            replica.partition,
            ReplicaAssignment(
                *(
                    tuple(broker_id for broker_id in broker_ids if broker_id != replica.broker_id)
                    for broker_ids in (assignment.replicas, assignment.adding, assignment.removing)
                )
            ),
        )
