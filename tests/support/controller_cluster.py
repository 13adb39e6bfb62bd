"""A cluster of model brokers under the controller's machine, for random scenarios.

Requests wait in a queue per broker epoch. A broker applies LeaderAndIsr, UpdateMetadata and StopReplica to a
small state of its own, so that a test can compare what brokers know with what is stored. Invariants are
checked at each write and each state change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tests.support.controller_machine import ControllerMachine, Request, live_broker, requests

from odradek.controller.actions import (
    Action,
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WritePartitionStates,
)
from odradek.controller.events import (
    BrokersChanged,
    ControlledShutdownRequested,
    ControllerEvent,
    LeaderAndIsrAnswered,
    LogDirFailuresNotified,
    StopReplicaAnswered,
    TopicDeletionsRequested,
    TopicsChanged,
)
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.context import ControllerContext
from odradek.controller.machine.states import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionState,
    ReplicaState,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.partition_states import VersionedLeaderAndIsr

K = TypeVar("K")
S = TypeVar("S")


class CheckedStates(dict[K, S]):
    """States that change only as a table allows."""

    def __init__(self, states: Mapping[K, S], transitions: Mapping[Any, frozenset[Any]], missing: S) -> None:
        super().__init__(states)
        self._transitions = transitions
        self._missing = missing

    def __setitem__(self, key: K, state: S) -> None:
        before = self.get(key, self._missing)
        assert before in self._transitions[state], f"{key}: {before} to {state}"
        super().__setitem__(key, state)

    def update(self, states: Any) -> None:
        for key, state in states.items():
            self[key] = state


@dataclass
class ModelBroker:
    """Requests that a broker received in one broker epoch."""

    broker_epoch: int
    queue: deque[Request] = field(default_factory=deque)
    led: dict[TopicPartition, PartitionStateUpdate] = field(default_factory=dict)
    metadata: dict[TopicPartition, PartitionStateUpdate] = field(default_factory=dict)
    live: frozenset[int] = frozenset()


class ControllerCluster:
    def __init__(self, broker_ids: Iterable[int]) -> None:
        self.machine = ControllerMachine(controller_epoch=1)
        self.brokers = {broker_id: ModelBroker(broker_id) for broker_id in broker_ids}
        self.failed_logs: dict[int, set[TopicPartition]] = {}
        self.hidden: list[TopicPartition] = []
        self._epochs = 1000
        self._topic_ids = 0
        self._elect()

    # Operations of a scenario.

    def elect_controller(self) -> None:
        """Another controller takes over."""
        self.machine.store.controller_epoch += 1
        self.machine.context = ControllerContext(
            self.machine.store.controller_epoch, self.machine.context.settings
        )
        for broker in self.brokers.values():
            broker.queue.clear()
        self._elect()

    def start_broker(self, broker_id: int) -> None:
        if broker_id not in self.brokers:
            self.brokers[broker_id] = self._new_broker(broker_id)
            self._change_brokers()

    def fail_broker(self, broker_id: int) -> None:
        if self.brokers.pop(broker_id, None) is not None:
            self._change_brokers()

    def bounce_broker(self, broker_id: int) -> None:
        if broker_id in self.brokers:
            self.brokers[broker_id] = self._new_broker(broker_id)
            self._change_brokers()

    def shut_down_broker(self, broker_id: int) -> None:
        if broker_id in self.brokers:
            self._run(ControlledShutdownRequested(broker_id, self.brokers[broker_id].broker_epoch))

    def fail_log(self, broker_id: int, partition: TopicPartition) -> None:
        """Fail the log directory of a replica; the broker notifies the controller."""
        if broker_id in self.brokers and broker_id in self._replicas(partition):
            self.failed_logs.setdefault(broker_id, set()).add(partition)
            self._run(LogDirFailuresNotified(frozenset({broker_id}), ["0"]))

    def create_topic(self, topic: str, assignments: list[tuple[int, ...]]) -> None:
        if topic not in self.machine.store.topics:
            self._topic_ids += 1
            partitions = {number: ReplicaAssignment(item) for number, item in enumerate(assignments)}
            self._set_topic(topic, TopicAssignment(self._topic_ids.to_bytes(16, "big"), partitions))

    def add_partition(self, topic: str, replicas: tuple[int, ...]) -> None:
        known = self.machine.store.topics.get(topic)
        if known is not None and len(known.partitions) < 4:
            number = max(known.partitions) + 1
            partitions = {**known.partitions, number: ReplicaAssignment(replicas)}
            self._set_topic(topic, replace(known, partitions=partitions))

    def delete_topic(self, topic: str) -> None:
        if topic in self.machine.store.topics:
            self.machine.store.deletion_marks.add(topic)
            self._run(TopicDeletionsRequested(frozenset({topic})))

    def change_isr(self, partition: TopicPartition, members: int, *, is_known: bool) -> None:
        """Change the ISR as a leader does; if not ``is_known``, the controller meets a conflict later."""
        stored = self.machine.store.states.get(partition)
        if stored is None or stored.leader_and_isr.leader not in self.brokers:
            return
        state = stored.leader_and_isr
        followers = [
            replica
            for position, replica in enumerate(self._replicas(partition))
            if replica != state.leader and members >> position & 1 and replica in self.brokers
        ]
        isr = (state.leader, *followers)
        changed = VersionedLeaderAndIsr(replace(state, isr=isr), stored.version + 1)
        self.machine.store.states[partition] = changed
        if is_known and partition in self.machine.context.partitions:
            self.machine.context.partitions[partition] = changed
        else:
            self.hidden.append(partition)

    def answer(self, broker_id: int) -> bool:
        """Let a broker handle its next request; return whether it had one."""
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.queue:
            return False
        event = self._apply(broker_id, broker, broker.queue.popleft())
        if event is not None:
            self._run(event)
        return True

    def heal(self) -> None:
        """Bring all back: brokers, logs; then answer everything."""
        for partition in self.hidden:
            if partition in self.machine.context.partitions and partition in self.machine.store.states:
                self.machine.context.partitions[partition] = self.machine.store.states[partition]
        self.hidden.clear()
        for broker_id in (1, 2, 3, 4):
            self.failed_logs.pop(broker_id, None)
            if broker_id in self.brokers:
                self.bounce_broker(broker_id)
            else:
                self.start_broker(broker_id)
            self.settle()

    def settle(self) -> None:
        for _ in range(10_000):
            answered = [self.answer(broker_id) for broker_id in list(self.brokers)]
            if not any(answered):
                return
        raise AssertionError("brokers and controller do not come to rest")

    # What brokers do.

    def _apply(self, broker_id: int, broker: ModelBroker, request: Request) -> ControllerEvent | None:
        match request:
            case SendLeaderAndIsr():
                failed = self.failed_logs.get(broker_id, set())
                errors = {}
                for partition, state in request.partition_states.items():
                    errors[partition] = (
                        ErrorCode.KAFKA_STORAGE_ERROR if partition in failed else ErrorCode.NONE
                    )
                    before = broker.led.get(partition)
                    if before is None or before.topic_id != state.topic_id:
                        broker.led[partition] = state
                    else:
                        assert state.leader_epoch >= before.leader_epoch, f"{partition} on {broker_id}"
                        broker.led[partition] = state
                return LeaderAndIsrAnswered(broker_id, errors)
            case SendUpdateMetadata():
                broker.live = frozenset(request.brokers)
                for partition, state in request.partition_states.items():
                    if state.leader == -2:
                        broker.metadata.pop(partition, None)
                    else:
                        broker.metadata[partition] = state
                return None
            case SendStopReplica():
                failed = self.failed_logs.get(broker_id, set())
                deleted = {}
                for partition, stop in request.partitions.items():
                    is_failed = partition in failed
                    if not is_failed:
                        broker.led.pop(partition, None)
                    if stop.is_delete:
                        deleted[partition] = ErrorCode.KAFKA_STORAGE_ERROR if is_failed else ErrorCode.NONE
                return StopReplicaAnswered(broker_id, deleted) if deleted else None

    # The controller.

    def _elect(self) -> None:
        self.machine.context.brokers = self._live()
        executed = self.machine.load(self._live())
        context = self.machine.context
        context.partition_states = CheckedStates(
            context.partition_states, PARTITION_TRANSITIONS, PartitionState.NON_EXISTENT
        )
        context.replica_states = CheckedStates(
            context.replica_states, REPLICA_TRANSITIONS, ReplicaState.NON_EXISTENT
        )
        self._finish(executed, {})

    def _run(self, event: ControllerEvent) -> None:
        before = dict(self.machine.store.states)
        executed = self.machine.run(event)
        self._finish(executed, before)

    def _finish(self, executed: list[Action], before: dict[TopicPartition, VersionedLeaderAndIsr]) -> None:
        for action in executed:
            if isinstance(action, WritePartitionStates):
                self._check_writes(action)
        for request in requests(executed):
            targets = request.broker_ids if isinstance(request, SendUpdateMetadata) else [request.broker_id]
            for target in targets:
                if target in self.brokers:
                    self.brokers[target].queue.append(request)
        self._check_states(before)

    def _check_writes(self, action: WritePartitionStates) -> None:
        for partition, (state, expected) in action.writes.items():
            replicas = self._replicas(partition)
            assert state.isr, partition
            assert set(state.isr) <= set(replicas), f"{partition}: ISR {state.isr}"
            assert state.leader == -1 or state.leader in state.isr, f"{partition}: {state}"
            assert state.leader == -1 or state.leader in self.machine.context.brokers or expected >= 0
            assert state.controller_epoch == self.machine.context.controller_epoch

    def _check_states(self, before: dict[TopicPartition, VersionedLeaderAndIsr]) -> None:
        for partition, (state, version) in self.machine.store.states.items():
            if partition in before and before[partition].version != version:
                former = before[partition].leader_and_isr
                assert state.leader_epoch > former.leader_epoch, f"{partition}: {former} to {state}"
                assert version > before[partition].version
                assert state.leader in (-1, *former.isr), f"{partition}: unclean, {former} to {state}"
                assert set(state.isr) <= set(former.isr), f"{partition}: {former} to {state}"
        for partition, stored in self.machine.context.partitions.items():
            if partition not in self.hidden:
                assert self.machine.store.states[partition] == stored

    def _change_brokers(self) -> None:
        before = dict(self.machine.store.states)
        failed = {
            broker_id
            for broker_id, broker in self.machine.context.brokers.items()
            if broker_id not in self.brokers or self.brokers[broker_id].broker_epoch != broker.broker_epoch
        }
        self._run(BrokersChanged(self._live()))
        for partition, (state, _) in self.machine.store.states.items():
            is_deleted = self.machine.context.is_queued_for_deletion(partition.topic)
            is_failed = partition in before and bool(failed.intersection(self._replicas(partition)))
            if is_failed and state.leader != -1 and not is_deleted:
                former = before[partition].leader_and_isr
                assert state.leader_epoch > former.leader_epoch, f"{partition}: no new epoch after a failure"

    def _live(self) -> dict[int, LiveBroker]:
        return {b: live_broker(broker.broker_epoch) for b, broker in sorted(self.brokers.items())}

    def _new_broker(self, broker_id: int) -> ModelBroker:
        self._epochs += 1
        self.failed_logs.pop(broker_id, None)
        return ModelBroker(self._epochs)

    def _set_topic(self, topic: str, assignment: TopicAssignment) -> None:
        self.machine.store.topics[topic] = assignment
        self._run(TopicsChanged({topic: assignment}))

    def _replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        topic = self.machine.store.topics.get(partition.topic) or self.machine.context.topics.get(
            partition.topic
        )
        assignment = None if topic is None else topic.partitions.get(partition.partition)
        return () if assignment is None else assignment.replicas
