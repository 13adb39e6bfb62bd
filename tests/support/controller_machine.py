"""The controller's machine with a model of the store: each action of an event is answered at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from odradek.controller import actions
from odradek.controller.actions import (
    NO_VERSION,
    Action,
    AssignTopicIds,
    ReadAssignment,
    ReadPartitionStates,
    ReadReassignmentNode,
    ReadUncleanElection,
    RemoveDeletionMarks,
    RemoveReassignmentNode,
    RemoveTopic,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WriteAssignment,
    WriteOutcome,
    WritePartitionStates,
    WriteReassignmentNode,
)
from odradek.controller.events import ContextLoaded, ControllerEvent
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.context import ControllerContext, ControllerSettings
from odradek.controller.machine.dispatch import handle
from odradek.model.ids import TopicPartition
from odradek.store.controller_election import ControllerMoved
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import BrokerRegistration, TopicAssignment
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.port import MATCH_ANY_VERSION, BadVersion, TooLarge
from odradek.store.topics import VersionedTopic

Request = SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica
NEW_TOPIC_ID = b"n" * 16


def live_broker(broker_epoch: int = 10, registration: BrokerRegistration | None = None) -> LiveBroker:
    return LiveBroker(registration or BrokerRegistration((), 0), broker_epoch)


class StoreModel:
    """Znodes that the controller writes."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, VersionedLeaderAndIsr] = {}
        self.zxids: dict[TopicPartition, int] = {}
        """Zxids of states that were not written in this scenario."""
        self.versions: dict[str, int] = {}
        """Versions of topics' znodes, unless 0."""
        self.concurrent_growth: dict[str, TopicAssignment] = {}
        """Assignments that others write just before the next write of a topic."""
        self.too_large: set[str] = set()
        self.deletion_marks: set[str] = set()
        self.unclean_topics: set[str] = set()
        self.reassignment_node: dict[TopicPartition, tuple[int, ...]] = {}
        self.controller_epoch = 0

    def answer(self, action: Action, controller_epoch: int) -> Any:
        match action:
            case ReadPartitionStates():
                return {p: self.states[p] for p in action.partitions if p in self.states}
            case WritePartitionStates():
                self.check_epoch(controller_epoch)
                return self.write(action)
            case ReadUncleanElection():
                return {topic: topic in self.unclean_topics for topic in action.topics}
            case AssignTopicIds():
                self.check_epoch(controller_epoch)
                assigned = {t: TopicAssignment(NEW_TOPIC_ID, a.partitions) for t, a in action.topics.items()}
                self.topics.update(assigned)
                return assigned
            case ReadAssignment():
                assignment = self.topics.get(action.topic)
                return None if assignment is None else VersionedTopic(assignment, self.version(action.topic))
            case WriteAssignment():
                self.check_epoch(controller_epoch)
                self.write_assignment(action)
            case ReadReassignmentNode():
                return dict(self.reassignment_node)
            case WriteReassignmentNode():
                self.check_epoch(controller_epoch)
                self.reassignment_node = dict(action.targets)
            case RemoveReassignmentNode():
                self.check_epoch(controller_epoch)
                self.reassignment_node = {}
            case RemoveTopic():
                self.check_epoch(controller_epoch)
                self.remove(action.topic)
            case RemoveDeletionMarks():
                self.deletion_marks.difference_update(action.topics)
        return None

    def check_epoch(self, controller_epoch: int) -> None:
        if controller_epoch < self.controller_epoch:
            raise ControllerMoved("/controller_epoch")

    def version(self, topic: str) -> int:
        return self.versions.get(topic, 0)

    def write_assignment(self, action: WriteAssignment) -> None:
        topic = action.topic
        if topic in self.concurrent_growth:
            self.topics[topic] = self.concurrent_growth.pop(topic)
            self.versions[topic] = self.version(topic) + 1
        if topic in self.too_large:
            raise TooLarge(znode_paths.topic(topic))
        if action.expected_version not in (MATCH_ANY_VERSION, self.version(topic)):
            raise BadVersion(znode_paths.topic(topic))
        self.topics[topic] = action.assignment
        self.versions[topic] = self.version(topic) + 1

    def write(self, action: WritePartitionStates) -> WriteOutcome:
        written: dict[TopicPartition, VersionedLeaderAndIsr] = {}
        conflicts = []
        for partition, (leader_and_isr, expected) in action.writes.items():
            stored = self.states.get(partition)
            if (NO_VERSION if stored is None else stored.version) != expected:
                conflicts.append(partition)
            else:
                written[partition] = VersionedLeaderAndIsr(leader_and_isr, expected + 1)
        self.states.update(written)
        for partition in written:
            self.zxids.pop(partition, None)
        return WriteOutcome(written, conflicts)

    def remove(self, topic: str) -> None:
        self.topics.pop(topic, None)
        self.deletion_marks.discard(topic)
        self.states = {p: state for p, state in self.states.items() if p.topic != topic}


class ControllerMachine:
    """A controller context, the store, and the actions of each event."""

    def __init__(self, controller_epoch: int = 1, settings: ControllerSettings | None = None) -> None:
        self.store = StoreModel()
        self.store.controller_epoch = controller_epoch
        self.context = ControllerContext(controller_epoch, settings or ControllerSettings())
        self.reply: Any = None

    def run(self, event: ControllerEvent) -> list[Action]:
        """Handle an event to its end; return its actions. ``reply`` has its reply."""
        steps, executed = handle(self.context, event), []
        try:
            action = next(steps)
            while True:
                executed.append(action)
                try:
                    result = self.store.answer(action, self.context.controller_epoch)
                except (BadVersion, TooLarge) as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as end:
            self.reply = end.value
        return executed

    def load(self, brokers: dict[int, LiveBroker]) -> list[Action]:
        """Elect this controller: load the context from the store, and handle ``ContextLoaded``."""
        self.context = ControllerContext(self.context.controller_epoch, self.context.settings)
        self.context.brokers = dict(brokers)
        for topic, assignment in self.store.topics.items():
            self.context.set_topic(topic, assignment)
        self.context.partitions = dict(self.store.states)
        self.context.deletions.queued = set(self.store.deletion_marks)
        return self.run(ContextLoaded(dict(self.store.zxids)))


def requests(executed: Iterable[Action]) -> list[Request]:
    return [action for action in executed if isinstance(action, Request)]


def writes(executed: Iterable[Action]) -> dict[TopicPartition, list[actions.PartitionStateWrite]]:
    """Return the writes of partition states, by partition."""
    by_partition: dict[TopicPartition, list[actions.PartitionStateWrite]] = {}
    for action in executed:
        if isinstance(action, WritePartitionStates):
            for partition, write in action.writes.items():
                by_partition.setdefault(partition, []).append(write)
    return by_partition


def brokers(broker_ids: Collection[int], broker_epoch: int = 10) -> dict[int, LiveBroker]:
    return {broker_id: live_broker(broker_epoch) for broker_id in broker_ids}
