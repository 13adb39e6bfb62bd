"""The controller's decisions: ``step(state, event)`` changes what is believed and gives what is to be done.

A partition comes online in two steps: its state is written to the store, and only once that has succeeded
(``PartitionStatesWritten``) are brokers told. A topic goes in three: brokers remove their replicas, then the
store forgets the topic, then brokers forget it.

A replica whose disk failed is as good as one whose broker is gone, until that broker is restarted.
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


def step(state: ControllerContext, event: ControllerEvent) -> list[Action]:
    match event:
        case ContextLoaded():
            return _begin(state)
        case BrokersChanged():
            return _meet_brokers(state, event)
        case TopicsChanged():
            return _meet_topics(state, event)
        case TopicDeletionsRequested():
            return _delete(state, event.topics)
        case PartitionStatesWritten():
            return _announce(state, event)
        case ReplicasDeleted():
            return _replicas_removed(state, event)
        case ReplicasOffline():
            return _replicas_failed(state, event)
        case ReplicasOnline():
            return _replicas_back(state, event)
        case TopicDeleted():
            return _forget(state, event.topic)


def _begin(state: ControllerContext) -> list[Action]:
    """Tell every broker all there is, then bring online what is not and is to stay."""
    everything = list(state.partitions)
    deletions, state.deletions = frozenset(state.deletions), {}
    staying = [partition for partition in _all_partitions(state) if partition.topic not in deletions]
    return [
        *_tell(state, everything, everyone=True),
        *_bring_online(state, staying),
        *_delete(state, deletions),
    ]


def _meet_brokers(state: ControllerContext, event: BrokersChanged) -> list[Action]:
    """Tell those that came all there is and the others what changed; see to what the change leaves undone."""
    came = {
        broker_id
        for broker_id, broker in event.brokers.items()
        if broker_id not in state.brokers or state.brokers[broker_id].broker_epoch != broker.broker_epoch
    }
    state.brokers = dict(event.brokers)
    state.offline = {
        broker_id: partitions
        for broker_id, partitions in state.offline.items()
        if broker_id in state.brokers and broker_id not in came
    }
    concerned = [
        partition
        for partition in state.partitions
        if came.intersection(state.topics[partition.topic].partitions[partition.partition].replicas)
    ]
    return [
        *_give_orders(state, _orders(state, concerned)),
        *_spread_news(state, came, _orders(state, state.partitions)),
        *_spread_news(state, state.brokers.keys() - came, _orders(state, concerned)),
        *_bring_online(state, _all_partitions(state)),
        *_stop_again(state, came),
    ]


def _meet_topics(state: ControllerContext, event: TopicsChanged) -> list[Action]:
    fresh = []
    for topic, assignment in event.topics.items():
        known = state.topics.get(topic)
        if known is not None and known.topic_id != assignment.topic_id:
            # Deleted and made again behind our back: the old one's end is still to come.
            continue
        before = known.partitions if known is not None else {}
        state.topics[topic] = assignment
        fresh += [TopicPartition(topic, n) for n in sorted(assignment.partitions) if n not in before]
    return _bring_online(state, fresh)


def _delete(state: ControllerContext, topics: Iterable[str]) -> list[Action]:
    actions: list[Action] = []
    for topic in sorted(topics):
        if topic in state.deletions:
            continue
        holders = _holders(state, topic)
        state.deletions[topic] = set(holders)
        actions += [
            SendStopReplica(broker_id, state.controller_epoch, tuple(partitions))
            for broker_id, partitions in sorted(holders.items())
        ]
        if not holders:
            actions.append(RemoveTopic(topic))
    return actions


def _stop_again(state: ControllerContext, came: Collection[int]) -> list[Action]:
    """A broker that came back may hold replicas of topics whose deletion waits for it."""
    return [
        SendStopReplica(broker_id, state.controller_epoch, tuple(partitions))
        for topic, waiting_for in sorted(state.deletions.items())
        for broker_id, partitions in sorted(_holders(state, topic).items())
        if broker_id in came and broker_id in waiting_for
    ]


def _holders(state: ControllerContext, topic: str) -> dict[int, list[TopicPartition]]:
    """Live brokers that hold replicas of a topic, and which."""
    holders: dict[int, list[TopicPartition]] = {}
    if topic in state.topics:
        for partition in state.partitions_of(topic):
            for replica in state.topics[topic].partitions[partition.partition].replicas:
                if replica in state.brokers:
                    holders.setdefault(replica, []).append(partition)
    return holders


def _replicas_removed(state: ControllerContext, event: ReplicasDeleted) -> list[Action]:
    """A broker has removed its part of a topic once all of it is gone; one that is offline is waited for."""
    removed = set(event.partitions)
    actions: list[Action] = []
    for topic in sorted({partition.topic for partition in removed}):
        waiting_for = state.deletions.get(topic)
        held = _holders(state, topic).get(event.broker_id, ())
        if waiting_for is not None and removed.issuperset(held):
            waiting_for.discard(event.broker_id)
            if not waiting_for:
                actions.append(RemoveTopic(topic))
    return actions


def _replicas_failed(state: ControllerContext, event: ReplicasOffline) -> list[Action]:
    """Let others lead what this broker cannot, and tell everyone what is offline."""
    known = state.offline.setdefault(event.broker_id, set())
    fresh = [p for p in event.partitions if p not in known and p in state.partitions]
    known.update(fresh)
    news = _spread_news(state, state.brokers, _orders(state, fresh)) if fresh else []
    return [*news, *_bring_online(state, fresh)]


def _replicas_back(state: ControllerContext, event: ReplicasOnline) -> list[Action]:
    """Let this broker lead again what nobody could."""
    known = state.offline.get(event.broker_id, set())
    back = [partition for partition in event.partitions if partition in known]
    known.difference_update(back)
    return _bring_online(state, [partition for partition in back if partition in state.partitions])


def _forget(state: ControllerContext, topic: str) -> list[Action]:
    state.deletions.pop(topic, None)
    gone = state.topics.pop(topic, None)
    if gone is None:
        return []
    for number in gone.partitions:
        partition = TopicPartition(topic, number)
        state.partitions.pop(partition, None)
        for offline in state.offline.values():
            offline.discard(partition)
    return [
        SendUpdateMetadata(
            sorted(state.brokers), state.controller_epoch, state.brokers, {}, frozenset((topic,))
        )
    ]


def _bring_online(state: ControllerContext, partitions: Iterable[TopicPartition]) -> list[Action]:
    """Elect leaders for partitions that have none alive; write down where a live one can lead no longer."""
    writes: dict[TopicPartition, PartitionStateWrite] = {}
    for partition in partitions:
        if partition.topic in state.deletions:
            continue
        replicas = state.topics[partition.topic].partitions[partition.partition].replicas
        stored = state.partitions.get(partition)
        able = state.can_lead(partition) if state.offline else state.brokers.keys()
        if stored is None:
            elected = leader_election.elect_first_leader(replicas, able, state.controller_epoch)
            version = NO_VERSION
        elif stored.state.leader in able:
            continue
        else:
            elected = leader_election.elect_offline_leader(
                stored.state, replicas, able, state.controller_epoch
            )
            if elected is None and stored.state.leader in state.brokers:
                elected = leader_election.without_leader(stored.state, state.controller_epoch)
            version = stored.version
        if elected is not None:
            writes[partition] = PartitionStateWrite(elected, version)
    return [WritePartitionStates(writes)] if writes else []


def _announce(state: ControllerContext, event: PartitionStatesWritten) -> list[Action]:
    fresh = {partition for partition in event.partitions if partition not in state.partitions}
    state.partitions.update(event.partitions)
    # Its disk may have failed while it was being elected.
    lost = [p for p, stored in event.partitions.items() if state.is_offline(p, stored.state.leader)]
    return [*_tell(state, list(event.partitions), fresh=fresh), *_bring_online(state, lost)]


def _tell(
    state: ControllerContext,
    partitions: Iterable[TopicPartition],
    *,
    everyone: bool = False,
    fresh: Collection[TopicPartition] = (),
) -> list[Action]:
    """PartitionStateUpdates for those that hold replicas of these partitions, and the news for all
    brokers.
    """
    orders = _orders(state, partitions, fresh)
    news = _spread_news(state, state.brokers, orders) if orders or everyone else []
    return [*_give_orders(state, orders), *news]


def _give_orders(state: ControllerContext, orders: PartitionStateUpdates) -> list[Action]:
    """For those that can use their replica.

    One that has already removed its replica of a topic on its way out is not told to make it again.
    """
    actions: list[Action] = []
    for broker_id in sorted(state.brokers):
        own = {
            partition: order
            for partition, order in orders.items()
            if broker_id in order.replicas
            and broker_id not in order.offline_replicas
            and broker_id in state.deletions.get(partition.topic, (broker_id,))
        }
        if own:
            actions.append(SendLeaderAndIsr(broker_id, state.controller_epoch, own))
    return actions


def _spread_news(
    state: ControllerContext, broker_ids: Collection[int], orders: PartitionStateUpdates
) -> list[Action]:
    if not broker_ids:
        return []
    return [SendUpdateMetadata(sorted(broker_ids), state.controller_epoch, dict(state.brokers), orders)]


def _orders(
    state: ControllerContext, partitions: Iterable[TopicPartition], fresh: Collection[TopicPartition] = ()
) -> PartitionStateUpdates:
    return {partition: _order(state, partition, is_new=partition in fresh) for partition in partitions}


def _order(state: ControllerContext, partition: TopicPartition, *, is_new: bool) -> PartitionStateUpdate:
    topic = state.topics[partition.topic]
    stored = state.partitions[partition]
    replicas = topic.partitions[partition.partition].replicas
    return PartitionStateUpdate(
        topic.topic_id or ZERO_TOPIC_ID,
        stored.state.leader,
        stored.state.leader_epoch,
        stored.state.isr,
        replicas,
        stored.version,
        is_new,
        tuple(one for one in replicas if state.is_offline(partition, one)) if state.offline else (),
    )


def _all_partitions(state: ControllerContext) -> list[TopicPartition]:
    return [partition for topic in sorted(state.topics) for partition in state.partitions_of(topic)]
