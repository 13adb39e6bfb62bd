"""Events of a recorded scenario, handled by our controller instead of Kafka's.

The store starts as it was at the beginning of the scenario. What others did in the recording (brokers that
come and go, topics, deletion marks, notifications, requests to the controller, failed replicas) becomes
events of our controller; ISR changes of leaders and preferred elections are taken from the states that were
written. Brokers answer StopReplica at once, without an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache

from tests.golden.cluster.recordings import SCENARIOS, decode, events, writes
from tests.support.controller_machine import ControllerMachine, Request, requests
from tests.support.interbroker.timeline import Message, ZnodeWrite

from odradek.cluster.metadata_version import MetadataVersion
from odradek.controller.actions import Action, SendStopReplica, Steps, WritePartitionStates
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
from odradek.controller.machine.context import ControllerSettings
from odradek.controller.machine.leader_election import Election
from odradek.controller.machine.partition_state_machine import handle_partition_state_changes
from odradek.controller.machine.request_batch import send_update_metadata
from odradek.controller.machine.states import PartitionState
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    decode_broker,
    decode_partition_state,
    decode_topic,
)
from odradek.store.partition_states import VersionedLeaderAndIsr

CONTROL = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_BROKER = re.compile(r"/brokers/ids/(\d+)")
_MARK = re.compile(r"/admin/delete_topics/(.+)")


class Replay:
    """Our controller in a recorded scenario."""

    def __init__(self, ibp: str, scenario: str) -> None:
        self.machine = ControllerMachine(1, ControllerSettings(MetadataVersion.parse(ibp)))
        self.brokers: dict[int, LiveBroker] = {}
        self.controller = "0"
        self.sent: dict[str, list[Request]] = {}
        """Requests of our controller, by the id of the broker."""
        self.written: dict[TopicPartition, list[tuple[LeaderIsrAndControllerEpoch, int]]] = {}
        """States that our controller wrote, with their versions."""
        self._recorded = events(ibp, scenario)
        self._alter_requests: list[tuple[str, list[str]]] = []
        self._is_elected = scenario != "startup"
        for write in _tree_before(ibp, scenario):
            self._apply(write)
        self._run(self.machine.load(self.brokers) if self._is_elected else [])
        self.sent.clear()
        self.written.clear()

    def run(self) -> None:
        elected: list[TopicPartition] = []
        isr_changes: list[ZnodeWrite] = []
        for event in [e for e in self._recorded if isinstance(e, Message) or e.operation != "check"]:
            if isinstance(event, ZnodeWrite) and self._is_isr_change(event):
                isr_changes.append(event)
                continue
            for group in self._by_request(isr_changes):
                self._change_isrs(group)
            isr_changes = []
            if isinstance(event, Message):
                self._on_message(event)
                continue
            self._apply(event)
            partition = self._preferred(event)
            if partition is not None:
                elected.append(partition)
            self._on_write(event)
        if elected:
            self._steps(
                handle_partition_state_changes(
                    self.machine.context, elected, PartitionState.ONLINE, Election.PREFERRED
                )
            )

    def _apply(self, write: ZnodeWrite) -> None:
        """Apply what others write: the controller's own writes come from our machine."""
        store, path, data = self.machine.store, write.path, write.data or b""
        if match := _BROKER.fullmatch(path):
            if write.operation == "delete":
                del self.brokers[int(match[1])]
            elif write.operation == "set":
                self.brokers[int(match[1])] = LiveBroker(decode_broker(path, data), write.zxid)
        elif (match := _TOPIC.fullmatch(path)) and write.operation != "delete":
            store.topics[match[1]] = decode_topic(path, data)
        elif (match := _MARK.fullmatch(path)) and write.operation == "create":
            store.deletion_marks.add(match[1])
        elif (match := re.fullmatch(r"/config/topics/(.+)", path)) and write.operation != "delete":
            if json.loads(data)["config"].get("unclean.leader.election.enable") == "true":
                store.unclean_topics.add(match[1])
        elif write.zxid < self._recorded_from and (match := _STATE.fullmatch(path)) and data:
            state = VersionedLeaderAndIsr(decode_partition_state(path, data), write.version)
            store.states[TopicPartition(match[1], int(match[2]))] = state

    @property
    def _recorded_from(self) -> int:
        return min(event.zxid for event in self._recorded if isinstance(event, ZnodeWrite))

    def _on_write(self, write: ZnodeWrite) -> None:
        path, store = write.path, self.machine.store
        if path == "/controller" and write.operation.startswith("create"):
            self.controller = write.broker
            self._is_elected = True
            if write.broker != "0":
                store.controller_epoch = self.machine.context.controller_epoch = 2
            self._run(self.machine.load(self.brokers))
        elif path == f"/brokers/ids/{self.controller}" and write.operation == "delete":
            self._is_elected = False
        elif _BROKER.fullmatch(path) and write.operation in ("set", "delete"):
            self._handle(BrokersChanged(dict(self.brokers)))
        elif (match := _TOPIC.fullmatch(path)) and write.operation != "delete":
            self._handle(TopicsChanged({match[1]: store.topics[match[1]]}))
        elif (match := _MARK.fullmatch(path)) and write.operation == "create":
            self._handle(TopicDeletionsRequested(frozenset({match[1]})))
        elif path.startswith("/log_dir_event_notification/") and write.operation == "create":
            broker_id = json.loads(write.data or b"")["broker"]
            self._handle(LogDirFailuresNotified(frozenset({broker_id}), [path[-10:]]))

    def _is_isr_change(self, write: ZnodeWrite) -> bool:
        """Return whether a leader changed the ISR: only such a write keeps the leader epoch."""
        match = _STATE.fullmatch(write.path)
        if match is None or write.operation != "set":
            return False
        stored = self.machine.store.states.get(TopicPartition(match[1], int(match[2])))
        state = decode_partition_state(write.path, write.data or b"")
        return (
            stored is not None
            and stored.version == write.version - 1
            and stored.leader_and_isr.leader_epoch == state.leader_epoch
        )

    def _by_request(self, isr_changes: Iterable[ZnodeWrite]) -> list[list[ZnodeWrite]]:
        """Group writes by the AlterPartition request that they come from, as far as its bytes were kept."""
        groups: list[list[ZnodeWrite]] = []
        last: object = None
        for write in isr_changes:
            leader = str(json.loads(write.data or b"")["leader"])
            request = next((r for r in self._alter_requests if r[0] == leader and write.path in r[1]), None)
            if groups and request is last:
                groups[-1].append(write)
            else:
                groups.append([write])
            last = request
            if request is not None:
                request[1].remove(write.path)
        return groups

    def _change_isrs(self, isr_changes: Iterable[ZnodeWrite]) -> None:
        """Apply the ISR changes of an AlterPartition request."""
        context, partitions = self.machine.context, []
        for write in isr_changes:
            match = _STATE.fullmatch(write.path)
            assert match is not None
            partition = TopicPartition(match[1], int(match[2]))
            state = decode_partition_state(write.path, write.data or b"")
            stored = VersionedLeaderAndIsr(state, write.version)
            self.machine.store.states[partition] = context.partitions[partition] = stored
            self.written.setdefault(partition, []).append((state, write.version))
            partitions.append(partition)
        self._steps(send_update_metadata(context, context.brokers, partitions))

    def _preferred(self, write: ZnodeWrite) -> TopicPartition | None:
        """Return the partition of a write that moves the leader at a client's request."""
        match = _STATE.fullmatch(write.path)
        if match is None or write.operation != "set":
            return None
        partition = TopicPartition(match[1], int(match[2]))
        stored = self.machine.store.states.get(partition)
        state = decode_partition_state(write.path, write.data or b"")
        is_move = stored is not None and stored.leader_and_isr.leader not in (-1, state.leader)
        is_same_isr = stored is not None and stored.leader_and_isr.isr == state.isr
        return partition if is_move and is_same_isr and write.version > (stored or (0, 0))[1] else None

    def _on_message(self, message: Message) -> None:
        if not message.frame or self.controller not in (message.source, message.target):
            return
        if (message.api, message.kind) == ("AlterPartition", "request"):
            self._alter_requests.append((message.source, self._altered_paths(message)))
        elif (message.api, message.kind) == ("ControlledShutdown", "request"):
            body = decode(message).body
            self._handle(ControlledShutdownRequested(body.broker_id, body.broker_epoch))
        elif (message.api, message.kind) == ("LeaderAndIsr", "response"):
            names = {topic.topic_id: name for name, topic in self.machine.context.topics.items()}
            errors = {
                TopicPartition(names.get(topic.topic_id, ""), partition.partition_index): ErrorCode(
                    partition.error_code
                )
                for topic in decode(message).body.topics
                for partition in topic.partition_errors
            }
            if ErrorCode.KAFKA_STORAGE_ERROR in errors.values():
                self._handle(LeaderAndIsrAnswered(int(message.source), errors))

    def _altered_paths(self, message: Message) -> list[str]:
        names = {topic.topic_id: name for name, topic in self.machine.context.topics.items()}
        return [
            f"/brokers/topics/{names.get(topic.topic_id, topic.topic_name)}"
            f"/partitions/{partition.partition_index}/state"
            for topic in decode(message).body.topics
            for partition in topic.partitions
        ]

    def _handle(self, event: ControllerEvent) -> None:
        if self._is_elected:
            self._run(self.machine.run(event))

    def _run(self, executed: Iterable[Action]) -> None:
        answers = []
        for action in executed:
            if isinstance(action, WritePartitionStates):
                for partition, (state, version) in action.writes.items():
                    self.written.setdefault(partition, []).append((state, version + 1))
            for request in requests([action]):
                targets = [request.broker_id] if hasattr(request, "broker_id") else request.broker_ids
                for target in targets:
                    self.sent.setdefault(str(target), []).append(request)
            if isinstance(action, SendStopReplica):
                deleted = {p: ErrorCode.NONE for p, s in action.partitions.items() if s.is_delete}
                if deleted:
                    answers.append(StopReplicaAnswered(action.broker_id, deleted))
        for answer in answers:
            self._handle(answer)

    def _steps(self, steps: Steps[object]) -> None:
        executed, result = [], None
        try:
            while True:
                action = steps.send(result)
                executed.append(action)
                result = self.machine.store.answer(action, self.machine.context.controller_epoch)
        except StopIteration:
            self._run(executed)


@cache
def _mentioned_topics(ibp: str, scenario: str) -> frozenset[str]:
    """Return the topics of a scenario. Those of others were deleted between the recordings."""
    topics = set()
    for event in events(ibp, scenario):
        if isinstance(event, ZnodeWrite):
            if match := re.match(r"/brokers/topics/([^/]+)", event.path):
                topics.add(match[1])
        elif event.frame and event.kind == "request" and event.api in CONTROL:
            topics.update(topic.topic_name for topic in decode(event).body.topic_states)
    return frozenset(topics)


def _tree_before(ibp: str, scenario: str) -> Iterator[ZnodeWrite]:
    """Return the writes of all scenarios before this one, of its topics and of brokers."""
    own = writes(ibp, scenario)
    start = min(write.zxid for write in own)
    earlier = [
        write
        for version, name in SCENARIOS
        if version == ibp and name != scenario
        for write in writes(ibp, name)
        if write.zxid < start
    ]
    topics = _mentioned_topics(ibp, scenario)
    for write in sorted(earlier, key=lambda write: write.zxid):
        match = re.match(r"/(?:brokers|config)/topics/([^/]+)", write.path)
        if write.operation != "check" and (match is None or match[1] in topics):
            yield write
