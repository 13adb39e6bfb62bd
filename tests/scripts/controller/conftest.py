"""Runs text scenarios of the controller's state machine.

A file holds steps: a command, a line of dashes, and the resulting actions, one a line. Commands are events or
preset the controller context; ``ODRADEK_REWRITE=1`` writes the actual actions instead of comparing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.controller.actions import (
    Action,
    PartitionStateUpdates,
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
    TopicDeleted,
    TopicDeletionsRequested,
    TopicsChanged,
)
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.step import step
from odradek.model.ids import TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.znodes import (
    BrokerRegistration,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicAssignment,
)

SEPARATOR = "----"


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


class Machine:
    """A controller context, and the commands of the scenarios."""

    def __init__(self) -> None:
        self.state = ControllerContext(controller_epoch=1)

    def run(self, command: str) -> list[str]:
        command_name, *arguments = command.split()
        event: ControllerEvent | None = getattr(self, f"_{command_name}")(*arguments)
        if event is None:
            return ["ok"]
        return [_format_action(action) for action in step(self.state, event)] or ["no actions"]

    def _brokers_changed(self, *arguments: str) -> ControllerEvent:
        """brokers_changed 1 2:77 - live brokers, with a broker epoch if it is not 10."""
        brokers = {}
        for item in arguments:
            number, _, broker_epoch = item.partition(":")
            brokers[int(number)] = LiveBroker(BrokerRegistration((), 0), int(broker_epoch or 10))
        return BrokersChanged(brokers)

    def _topics_changed(self, *arguments: str) -> ControllerEvent:
        """topics_changed orders=a/1,2/2,1 - topics with a one-letter id and replicas per partition."""
        return TopicsChanged(dict(_topic(item) for item in arguments))

    def _preset_states(self, *arguments: str) -> None:
        """preset_states orders-0=1/3/1,2/5 - leader, leader epoch, ISR and znode version of partitions."""
        for item in arguments:
            name, _, fields = item.partition("=")
            self.state.partitions[partition(name)] = _stored(fields)

    def _preset_topics(self, *arguments: str) -> None:
        """preset_topics orders=a/1,2 - topics in the store at election."""
        self.state.topics.update(_topic(item) for item in arguments)

    def _preset_brokers(self, *arguments: str) -> None:
        """preset_brokers 1 2 - live brokers at election."""
        event = self._brokers_changed(*arguments)
        assert isinstance(event, BrokersChanged)
        self.state.brokers = dict(event.brokers)

    def _preset_deletions(self, *arguments: str) -> None:
        """preset_deletions orders - topics marked for deletion at election."""
        self.state.deletions = {topic: set() for topic in arguments}

    def _context_loaded(self) -> ControllerEvent:
        return ContextLoaded()

    def _topic_deletions_requested(self, *topics: str) -> ControllerEvent:
        return TopicDeletionsRequested(frozenset(topics))

    def _partition_states_written(self, *arguments: str) -> ControllerEvent:
        """partition_states_written orders-0=1/0/1,2/0 - states written to the store."""
        pairs = [item.partition("=") for item in arguments]
        return PartitionStatesWritten({partition(name): _stored(fields) for name, _, fields in pairs})

    def _replicas_deleted(self, broker_id: str, *partitions: str) -> ControllerEvent:
        return ReplicasDeleted(int(broker_id), [partition(item) for item in partitions])

    def _replicas_offline(self, broker_id: str, *partitions: str) -> ControllerEvent:
        """replicas_offline 1 orders-0 - replicas in a failed log directory of a broker."""
        return ReplicasOffline(int(broker_id), [partition(item) for item in partitions])

    def _topic_deleted(self, topic: str) -> ControllerEvent:
        return TopicDeleted(topic)


def _topic(text: str) -> tuple[str, TopicAssignment]:
    name, _, fields = text.partition("=")
    topic_id, *replicas = fields.split("/")
    partitions = {number: ReplicaAssignment(numbers(item)) for number, item in enumerate(replicas)}
    return name, TopicAssignment(topic_id.encode() * 16, partitions)


def _stored(fields: str) -> VersionedLeaderAndIsr:
    leader, leader_epoch, isr, version = fields.split("/")
    return VersionedLeaderAndIsr(
        LeaderIsrAndControllerEpoch(int(leader), int(leader_epoch), numbers(isr), 1), int(version)
    )


def _format_list(arguments: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, arguments)) or "none"


def _format_states(partition_states: PartitionStateUpdates) -> str:
    texts = [
        f"{item}:leader={state.leader},epoch={state.leader_epoch},isr={'+'.join(map(str, state.isr))}"
        + (",new" if state.is_new else "")
        + (f",offline={'+'.join(map(str, state.offline_replicas))}" if state.offline_replicas else "")
        for item, state in partition_states.items()
    ]
    return " ".join(texts) or "none"


def _format_action(action: Action) -> str:
    match action:
        case WritePartitionStates():
            writes = [
                f"{item}:leader={write.leader_and_isr.leader},epoch={write.leader_and_isr.leader_epoch},"
                f"isr={'+'.join(map(str, write.leader_and_isr.isr))},over={write.expected_version}"
                for item, write in action.writes.items()
            ]
            return f"write {' '.join(writes)}"
        case SendLeaderAndIsr():
            return f"leader_and_isr {action.broker_id} {_format_states(action.partition_states)}"
        case SendUpdateMetadata():
            deleted = f" deleted={','.join(sorted(action.deleted_topics))}" if action.deleted_topics else ""
            broker_ids = _format_list(list(action.broker_ids))
            brokers = _format_list(list(action.brokers))
            states = _format_states(action.partition_states)
            return f"update_metadata to={broker_ids} brokers={brokers} {states}{deleted}"
        case SendStopReplica():
            return f"stop_replica {action.broker_id} {' '.join(map(str, action.partitions))}"
        case RemoveTopic():
            return f"remove_topic {action.topic}"
        case _:
            raise NotImplementedError(action)


def run_script(path: Path) -> None:
    machine, written = Machine(), []
    for block in path.read_text().strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        actual = "\n".join(machine.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{actual}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert actual == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return run_script
