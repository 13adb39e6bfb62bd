"""Runs text scenarios of the controller's machine over a model of the store.

A file holds steps: a command, a line of dashes, and the resulting actions, one a line. Commands are events or
change the store; ``ODRADEK_REWRITE=1`` writes the actual actions instead of comparing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

import pytest
from tests.support.controller_machine import ControllerMachine, live_broker

from odradek.cluster.metadata_version import MetadataVersion
from odradek.controller import actions
from odradek.controller.actions import Action, PartitionStateUpdate, PartitionStateWrite
from odradek.controller.events import (
    AlterPartitionRequested,
    BrokersChanged,
    ControlledShutdownRequested,
    ControllerEvent,
    ElectLeadersRequested,
    IsrChange,
    IsrChangesNotified,
    LeaderAndIsrAnswered,
    LeaderBalanceDue,
    LogDirFailuresNotified,
    PreferredElectionNodeChanged,
    ReassignmentNodeChanged,
    ReassignmentsListed,
    ReassignmentsRequested,
    ReplicasOffline,
    ReplicasOnline,
    StopReplicaAnswered,
    TopicDeletionsRequested,
    TopicsChanged,
    UncleanElectionEnabled,
)
from odradek.controller.live_broker import LiveBroker
from odradek.controller.replies import AlterPartitionReply, ApiError, ControlledShutdownReply
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.controller_election import ControllerMoved
from odradek.store.layout.znodes import (
    BrokerRegistration,
    LeaderIsrAndControllerEpoch,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicAssignment,
)
from odradek.store.partition_states import VersionedLeaderAndIsr

SEPARATOR = "----"


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


class Scenario:
    """The machine, and the commands of the scenarios."""

    def __init__(self) -> None:
        self.machine = ControllerMachine(controller_epoch=5)
        self.executed: list[Action] = []

    def run(self, command: str) -> list[str]:
        command_name, *arguments = command.split()
        self.executed, self.machine.reply = [], None
        try:
            event: ControllerEvent | None = getattr(self, f"_{command_name}")(*arguments)
            if event is not None:
                self.executed = self.machine.run(event)
        except ControllerMoved:
            return ["controller moved"]
        lines = _format_actions(self.executed, self.machine.context.controller_epoch)
        if self.machine.reply is not None:
            lines.append(f"reply {_format_reply(self.machine.reply)}".rstrip())
        return lines or ["nothing"]

    # The store.

    def _topics(self, *arguments: str) -> None:
        """topics orders=a/1,2/2,1 - topics in the store: id (- for none), replicas per partition."""
        self.machine.store.topics.update(_topic(item) for item in arguments)

    def _states(self, *arguments: str) -> None:
        """states orders-0=1/3/1,2/5 - leader, leader epoch, ISR, version, controller epoch if not 5."""
        for item in arguments:
            name, _, fields = item.partition("=")
            self.machine.store.states[partition(name)] = _stored(fields)

    def _zxids(self, *arguments: str) -> None:
        """zxids orders-0=50 - the last write of a state, on the scale of broker epochs."""
        for item in arguments:
            name, _, zxid = item.partition("=")
            self.machine.store.zxids[partition(name)] = int(zxid)

    def _growth_before_write(self, *arguments: str) -> None:
        """growth_before_write orders=a/1,2/2,1 - a topic grows just before its next write."""
        self.machine.store.concurrent_growth.update(_topic(item) for item in arguments)

    def _too_large(self, *topics: str) -> None:
        """too_large orders - writes of this topic exceed the limit of the store."""
        self.machine.store.too_large.update(topics)

    def _deletion_marks(self, *topics: str) -> None:
        self.machine.store.deletion_marks.update(topics)

    def _unclean_topics(self, *topics: str) -> None:
        """unclean_topics orders - topics with unclean.leader.election.enable."""
        self.machine.store.unclean_topics.update(topics)

    def _setting(self, name: str, text: str) -> None:
        settings = self.machine.context.settings
        if name == "metadata_version":
            settings = settings._replace(metadata_version=MetadataVersion.parse(text))
        else:
            settings = settings._replace(is_delete_enabled=text == "true")
        self.machine.context.settings = settings

    def _other_controller(self) -> None:
        """other_controller - another broker is elected; this one does not know it yet."""
        self.machine.store.controller_epoch += 1

    # Events.

    def _elected(self, *brokers: str) -> None:
        """elected 1 2:77 - load the context; live brokers, with a broker epoch if it is not 10."""
        self.executed = self.machine.load(_brokers(brokers))

    def _brokers_changed(self, *brokers: str) -> ControllerEvent:
        return BrokersChanged(_brokers(brokers))

    def _topics_changed(self, *arguments: str) -> ControllerEvent:
        self._topics(*arguments)
        return TopicsChanged(dict(_topic(item) for item in arguments))

    def _all_topics_changed(self, *arguments: str) -> ControllerEvent:
        topics = dict(_topic(item) for item in arguments)
        for topic in self.machine.store.topics.keys() - topics.keys():
            self.machine.store.remove(topic)
        return TopicsChanged(topics, is_complete=True)

    def _deletions_requested(self, *topics: str) -> ControllerEvent:
        self.machine.store.deletion_marks.update(topics)
        return TopicDeletionsRequested(frozenset(topics))

    def _stop_replica_answered(self, broker_id: str, *results: str) -> ControllerEvent:
        """stop_replica_answered 1 orders-0 orders-1=56 - errors of replicas that were to be deleted."""
        return StopReplicaAnswered(int(broker_id), dict(map(_result, results)))

    def _leader_and_isr_answered(self, broker_id: str, *results: str) -> ControllerEvent:
        return LeaderAndIsrAnswered(int(broker_id), dict(map(_result, results)))

    def _replicas_offline(self, broker_id: str, *partitions: str) -> ControllerEvent:
        return ReplicasOffline(int(broker_id), [partition(item) for item in partitions])

    def _replicas_online(self, broker_id: str, *partitions: str) -> ControllerEvent:
        return ReplicasOnline(int(broker_id), [partition(item) for item in partitions])

    def _log_dir_failed(self, *broker_ids: str) -> ControllerEvent:
        return LogDirFailuresNotified(frozenset(map(int, broker_ids)), ["0"])

    def _controlled_shutdown(self, broker_id: str, broker_epoch: str = "10") -> ControllerEvent:
        return ControlledShutdownRequested(int(broker_id), int(broker_epoch))

    def _unclean_election_enabled(self, *topics: str) -> ControllerEvent:
        self._unclean_topics(*topics)
        return UncleanElectionEnabled(frozenset(topics))

    def _alter_partition(self, broker: str, *changes: str) -> ControllerEvent:
        """alter_partition 1 orders-0=4/6/1,2,3 - leader (with an epoch if it is not 10): epochs and ISR."""
        broker_id, _, broker_epoch = broker.partition(":")
        return AlterPartitionRequested(
            int(broker_id), int(broker_epoch or 10), dict(map(_isr_change, changes))
        )

    def _isr_changed(self, *arguments: str) -> ControllerEvent:
        """isr_changed orders-0=1/3/1,2/5 - a broker has written a state itself, and notifies of it."""
        self._states(*arguments)
        changed = (item.partition("=")[0] for item in arguments)
        return IsrChangesNotified(frozenset(map(partition, changed)), ["0"])

    def _reassign(self, *targets: str) -> ControllerEvent:
        """reassign orders-0=3,4 orders-1=cancel - AlterPartitionReassignments."""
        return ReassignmentsRequested(dict(map(_target, targets)))

    def _reassign_node(self, *targets: str) -> ControllerEvent:
        """reassign_node orders-0=3,4 - /admin/reassign_partitions is written."""
        node = {name: target for name, target in map(_target, targets) if target is not None}
        self.machine.store.reassignment_node = node
        return ReassignmentNodeChanged(node)

    def _reassignments(self, *partitions: str) -> ControllerEvent:
        return ReassignmentsListed(frozenset(map(partition, partitions)) or None)

    def _elect_leaders(self, kind: str, *partitions: str) -> ControllerEvent:
        return ElectLeadersRequested(frozenset(map(partition, partitions)) or None, kind == "unclean")

    def _preferred_election_node(self, *partitions: str) -> ControllerEvent:
        return PreferredElectionNodeChanged(frozenset(map(partition, partitions)))

    def _leader_balance_due(self) -> ControllerEvent:
        return LeaderBalanceDue()


def _isr_change(text: str) -> tuple[TopicPartition, IsrChange]:
    name, _, fields = text.partition("=")
    leader_epoch, partition_epoch, isr, *recovering = fields.split("/")
    return partition(name), IsrChange(int(leader_epoch), int(partition_epoch), numbers(isr), bool(recovering))


def _target(text: str) -> tuple[TopicPartition, tuple[int, ...] | None]:
    name, _, replicas = text.partition("=")
    return partition(name), None if replicas == "cancel" else numbers(replicas)


def _format_reply(reply: object) -> str:
    match reply:
        case ControlledShutdownReply():
            return f"{reply.error.name} {' '.join(map(str, sorted(reply.remaining)))}"
        case AlterPartitionReply():
            return " ".join(
                [reply.error.name, *(f"{p}:{_format_isr(r)}" for p, r in reply.partitions.items())]
            )
        case dict():
            return " ".join(f"{p}:{_format_result(result)}" for p, result in reply.items()) or "none"
    return ""


def _format_isr(result: VersionedLeaderAndIsr | ErrorCode) -> str:
    if isinstance(result, ErrorCode):
        return result.name
    return f"{_format_leader(result.leader_and_isr)},version={result.version}"


def _format_leader(state: LeaderIsrAndControllerEpoch) -> str:
    return f"leader={state.leader},epoch={state.leader_epoch},isr={_format_list(state.isr, '+')}"


def _format_result(result: ApiError | ReplicaAssignment) -> str:
    return result.code.name if isinstance(result, ApiError) else _format_assignment(result)


def _format_assignment(assignment: ReplicaAssignment) -> str:
    text = _format_list(assignment.replicas)
    for sign, replicas in (("+", assignment.adding), ("-", assignment.removing)):
        text += f"{sign}{_format_list(replicas)}" if replicas else ""
    return text


def _brokers(items: Iterable[str]) -> dict[int, LiveBroker]:
    """Parse 1, 2:77 and 3@host: brokers, with a broker epoch if it is not 10, or another endpoint."""
    brokers = {}
    for item in items:
        text, _, host = item.partition("@")
        number, _, broker_epoch = text.partition(":")
        endpoints = (RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", host, 9092),) if host else ()
        brokers[int(number)] = live_broker(int(broker_epoch or 10), BrokerRegistration(endpoints, 0))
    return brokers


def _topic(text: str) -> tuple[str, TopicAssignment]:
    """Parse orders=a/1,2/2,3+3-2: an id, and replicas per partition, with adding and removing ones."""
    name, _, fields = text.partition("=")
    topic_id, *assignments = fields.split("/")
    partitions = {number: _assignment(item) for number, item in enumerate(assignments)}
    return name, TopicAssignment(None if topic_id == "-" else topic_id.encode() * 16, partitions)


def _assignment(text: str) -> ReplicaAssignment:
    rest, _, removing = text.partition("-")
    replicas, _, adding = rest.partition("+")
    return ReplicaAssignment(numbers(replicas), numbers(adding), numbers(removing))


def _stored(fields: str) -> VersionedLeaderAndIsr:
    leader, leader_epoch, isr, version, *controller_epoch = fields.split("/")
    epoch = int(controller_epoch[0]) if controller_epoch else 5
    state = LeaderIsrAndControllerEpoch(int(leader), int(leader_epoch), numbers(isr), epoch)
    return VersionedLeaderAndIsr(state, int(version))


def _result(text: str) -> tuple[TopicPartition, ErrorCode]:
    name, _, error = text.partition("=")
    return partition(name), ErrorCode(int(error or 0))


def _format_actions(executed: Iterable[Action], controller_epoch: int) -> list[str]:
    """Return a line per action; equal LeaderAndIsr requests to several brokers are one."""
    hidden = (actions.ReadReassignmentNode, actions.ReadAssignment)
    shown = (action for action in executed if not isinstance(action, hidden))
    lines = [_format_action(action, controller_epoch) for action in shown]
    grouped = []
    for (_, text), items in groupby(lines, key=lambda line: (line[0], line[2])):
        group = list(items)
        if group[0][0] in ("leader_and_isr", "stop_replica"):
            grouped.append(f"{group[0][0]} {','.join(str(item[1]) for item in group)} {text}")
        else:
            grouped += [f"{name} {text}".rstrip() for name, _, text in group]
    return grouped


def _format_action(action: Action, controller_epoch: int) -> tuple[str, int, str]:  # noqa: C901 - a table
    """Return the action's name, its broker and the rest."""
    match action:
        case actions.WritePartitionStates():
            return "write", 0, " ".join(f"{p}:{_format_write(w)}" for p, w in action.writes.items())
        case actions.ReadPartitionStates():
            return "read", 0, " ".join(map(str, action.partitions))
        case actions.ReadUncleanElection():
            return "read_unclean_election", 0, " ".join(action.topics)
        case actions.SendLeaderAndIsr():
            states = [f"{p}:{_format_led(s, controller_epoch)}" for p, s in action.partition_states.items()]
            return "leader_and_isr", action.broker_id, " ".join(states)
        case actions.SendUpdateMetadata():
            states = [f"{p}:{_format_state(s)}" for p, s in action.partition_states.items()]
            to, live = _format_list(action.broker_ids), _format_list(action.brokers)
            return "update_metadata", 0, f"to={to} brokers={live} {' '.join(states) or 'none'}"
        case actions.SendStopReplica():
            stops = [
                f"{p}:epoch={s.leader_epoch}{',delete' if s.is_delete else ''}"
                for p, s in action.partitions.items()
            ]
            return "stop_replica", action.broker_id, " ".join(stops)
        case actions.RemoveTopic():
            return "remove_topic", 0, action.topic
        case actions.RemoveDeletionMarks():
            return "remove_deletion_marks", 0, " ".join(action.topics)
        case actions.AssignTopicIds():
            return "assign_topic_ids", 0, " ".join(action.topics)
        case actions.WriteAssignment():
            assignments = [_format_assignment(p) for _, p in sorted(action.assignment.partitions.items())]
            return "write_assignment", 0, f"{action.topic}={'/'.join(assignments)}"
        case actions.RemoveIsrNotifications():
            return "remove_isr_notifications", 0, " ".join(action.sequence_numbers)
        case actions.WriteReassignmentNode():
            return (
                "write_reassignment_node",
                0,
                " ".join(f"{p}={_format_list(t)}" for p, t in action.targets.items()),
            )
        case actions.RemoveReassignmentNode():
            return "remove_reassignment_node", 0, ""
        case actions.RemovePreferredElectionNode():
            return "remove_preferred_election_node", 0, ""
        case actions.RemoveLogDirNotifications():
            return "remove_log_dir_notifications", 0, " ".join(action.sequence_numbers)
        case _:
            raise NotImplementedError(action)


def _format_write(write: PartitionStateWrite) -> str:
    state = write.leader_and_isr
    recovering = ",recovering" if state.is_recovering else ""
    isr = _format_list(state.isr, "+")
    over = f",over={write.expected_version}" if write.expected_version >= 0 else ""
    return f"leader={state.leader},epoch={state.leader_epoch},isr={isr}{recovering}{over}"


def _format_led(state: PartitionStateUpdate, controller_epoch: int) -> str:
    text = f"leader={state.leader},epoch={state.leader_epoch},isr={_format_list(state.isr, '+')}"
    for name, replicas in (("adding", state.adding), ("removing", state.removing)):
        text += f",{name}={_format_list(replicas, '+')}" if replicas else ""
    text += ",recovering" if state.is_recovering else ""
    text += f",controller={state.controller_epoch}" if state.controller_epoch != controller_epoch else ""
    return text + (",new" if state.is_new else "")


def _format_state(state: PartitionStateUpdate) -> str:
    text = f"leader={state.leader},epoch={state.leader_epoch},isr={_format_list(state.isr, '+')}"
    return text + (f",offline={_format_list(state.offline_replicas, '+')}" if state.offline_replicas else "")


def _format_list(items: Iterable[int], separator: str = ",") -> str:
    return separator.join(map(str, items)) or "none"


def run_script(path: Path) -> None:
    scenario, written = Scenario(), []
    for block in path.read_text().strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        *setup, command = [line for line in head.splitlines() if not line.startswith("#")]
        for line in setup:
            assert scenario.run(line) == ["nothing"], f"actions after: {line}"
        actual = "\n".join(scenario.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{actual}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert actual == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return run_script
