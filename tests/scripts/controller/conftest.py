"""Runs text scenarios of the controller's machine.

A file holds steps: a command, a line of dashes, and what the machine then wants done, one action a line. The
commands are the events; ``run`` compares, and ``ODRADEK_REWRITE=1`` writes down what came instead.
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
from odradek.controller.controller_context import ControllerContext, LiveBroker, StoredLeaderAndIsr
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
from odradek.controller.machine import step
from odradek.model.ids import TopicPartition
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
    return tuple(int(one) for one in text.split(",") if one)


class Machine:
    """The state, and the words of the scenarios."""

    def __init__(self) -> None:
        self.state = ControllerContext(controller_epoch=1)

    def run(self, command: str) -> list[str]:
        word, *arguments = command.split()
        event: ControllerEvent | None = getattr(self, f"_{word}")(*arguments)
        if event is None:
            return ["ok"]
        return [_shown(action) for action in step(self.state, event)] or ["nothing"]

    def _brokers(self, *given: str) -> ControllerEvent:
        """brokers 1 2:77 - live brokers, with a broker epoch if it is not 10."""
        found = {}
        for one in given:
            number, _, broker_epoch = one.partition(":")
            found[int(number)] = LiveBroker(BrokerRegistration((), 0), int(broker_epoch or 10))
        return BrokersChanged(found)

    def _topics(self, *given: str) -> ControllerEvent:
        """topics orders=a/1,2/2,1 - topics with an id of one letter and the replicas of each partition."""
        return TopicsChanged(dict(_topic(one) for one in given))

    def _believe(self, *given: str) -> None:
        """believe orders-0=1/3/1,2/5 - leader, leader epoch, ISR and version of a partition's state."""
        for one in given:
            name, _, facts = one.partition("=")
            self.state.partitions[partition(name)] = _stored(facts)

    def _know(self, *given: str) -> None:
        """know orders=a/1,2 - topics found before this controller was elected."""
        self.state.topics.update(_topic(one) for one in given)

    def _see(self, *given: str) -> None:
        """see 1 2 - brokers found before this controller was elected."""
        event = self._brokers(*given)
        assert isinstance(event, BrokersChanged)
        self.state.brokers = dict(event.brokers)

    def _marked(self, *given: str) -> None:
        """marked orders - deletions found before this controller was elected."""
        self.state.deletions = {topic: set() for topic in given}

    def _loaded(self) -> ControllerEvent:
        return ContextLoaded()

    def _delete(self, *topics: str) -> ControllerEvent:
        return TopicDeletionsRequested(frozenset(topics))

    def _written(self, *given: str) -> ControllerEvent:
        """written orders-0=1/0/1,2/0 - states the store has taken."""
        pairs = [one.partition("=") for one in given]
        return PartitionStatesWritten({partition(name): _stored(facts) for name, _, facts in pairs})

    def _removed(self, broker_id: str, *partitions: str) -> ControllerEvent:
        return ReplicasDeleted(int(broker_id), [partition(one) for one in partitions])

    def _failed(self, broker_id: str, *partitions: str) -> ControllerEvent:
        """failed 1 orders-0 - replicas whose disk a broker lost."""
        return ReplicasOffline(int(broker_id), [partition(one) for one in partitions])

    def _forgotten(self, topic: str) -> ControllerEvent:
        return TopicDeleted(topic)


def _topic(text: str) -> tuple[str, TopicAssignment]:
    name, _, facts = text.partition("=")
    topic_id, *replicas = facts.split("/")
    partitions = {number: ReplicaAssignment(numbers(one)) for number, one in enumerate(replicas)}
    return name, TopicAssignment(topic_id.encode() * 16, partitions)


def _stored(facts: str) -> StoredLeaderAndIsr:
    leader, leader_epoch, isr, version = facts.split("/")
    return StoredLeaderAndIsr(
        LeaderIsrAndControllerEpoch(int(leader), int(leader_epoch), numbers(isr), 1), int(version)
    )


def _list(given: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, given)) or "none"


def _orders(orders: PartitionStateUpdates) -> str:
    shown = [
        f"{one}:leader={order.leader},epoch={order.leader_epoch},isr={'+'.join(map(str, order.isr))}"
        + (",new" if order.is_new else "")
        + (f",offline={'+'.join(map(str, order.offline_replicas))}" if order.offline_replicas else "")
        for one, order in orders.items()
    ]
    return " ".join(shown) or "nothing"


def _shown(action: Action) -> str:
    match action:
        case WritePartitionStates():
            writes = [
                f"{one}:leader={w.state.leader},epoch={w.state.leader_epoch},"
                f"isr={'+'.join(map(str, w.state.isr))},over={w.expected_version}"
                for one, w in action.writes.items()
            ]
            return f"write {' '.join(writes)}"
        case SendLeaderAndIsr():
            return f"tell {action.broker_id} {_orders(action.partition_states)}"
        case SendUpdateMetadata():
            gone = f" gone={','.join(sorted(action.deleted_topics))}" if action.deleted_topics else ""
            told = _list(list(action.broker_ids))
            brokers = _list(list(action.brokers))
            return f"news to={told} brokers={brokers} {_orders(action.partition_states)}{gone}"
        case SendStopReplica():
            return f"stop {action.broker_id} {' '.join(map(str, action.partitions))}"
        case RemoveTopic():
            return f"forget {action.topic}"


def play(path: Path) -> None:
    machine, written = Machine(), []
    for block in path.read_text().strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        found = "\n".join(machine.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{found}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert found == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return play
