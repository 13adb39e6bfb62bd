"""Groups on a real broker: blocking and asyncio consumers, alone and together with other clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.clients.group_members import MEMBERS
from tests.compat.clients.odradek_members import OURS, options
from tests.compat.clients.running_member import RunningMember
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led

import odradek

SECONDS_MAX = 40
PARTITIONS = 6
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


ALL = {**OURS, **MEMBERS}


class Members:
    """Starts members of one group, and closes those that a test leaves running."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._arguments = (bootstrap, f"group-of-{topic}", topic)
        self.running: list[RunningMember] = []

    def join(self, name: str, **options: str) -> RunningMember:
        member = RunningMember(partial(ALL[name], *self._arguments, **options))
        self.running.append(member)
        return member

    def leave(self, member: RunningMember) -> None:
        self.running.remove(member)
        member.close()

    def wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            for member in self.running:
                member.check()
            assert time.monotonic() < deadline, [
                (member.assigned, len(member.received)) for member in self.running
            ]
            time.sleep(0.02)

    def wait_until_shared(self, sizes: Sequence[int] | None = None) -> None:
        """Wait until every partition has one owner, and members own these numbers of partitions."""
        self.wait(
            lambda: (
                sorted(index for member in self.running for index in member.assigned)
                == list(range(PARTITIONS))
                and (
                    sizes is None or sorted(len(member.assigned) for member in self.running) == sorted(sizes)
                )
            )
        )

    def close(self) -> None:
        while self.running:
            self.running.pop().close()


@pytest.fixture
def members(bootstrap: str, topic: str) -> Iterator[Members]:
    create_topic(bootstrap, topic)
    members = Members(bootstrap, topic)
    yield members
    members.close()


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(30)


def write(bootstrap: str, topic: str, numbers: range) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def numbers_of(members: Sequence[RunningMember]) -> list[int]:
    return sorted(int(record.value or b"") for member in members for record in list(member.received))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_partitions(members: Members, bootstrap: str, topic: str, strategy: str) -> None:
    names = ["blocking", "aio", "blocking"]
    running = [members.join(name, strategy=strategy) for name in names]
    members.wait_until_shared([2, 2, 2])
    write(bootstrap, topic, range(60))
    members.wait(lambda: len(numbers_of(running)) >= 60)
    assert numbers_of(running) == list(range(60))
    for member in running:
        member.commit()
    members.leave(running[0])
    members.wait_until_shared([3, 3])
    write(bootstrap, topic, range(60, 120))
    members.wait(lambda: len(numbers_of(running)) >= 120)
    assert numbers_of(running) == list(range(120))


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("leader", [*sorted(OURS), *sorted(MEMBERS)])
def test_group_with_other_clients(members: Members, leader: str, strategy: str) -> None:
    members.join(leader, strategy=strategy)
    members.wait_until_shared([6])
    others = [name for name in ALL if name != leader]
    for name in others:
        members.join(name, strategy=strategy)
    members.wait_until_shared([2, 1, 1, 1, 1])
    members.leave(members.running[0])
    members.wait_until_shared([2, 2, 1, 1])


@pytest.mark.parametrize(
    "names",
    [["aio", "confluent-kafka"], ["confluent-kafka", "blocking"], ["kafka-python", "blocking"]],
    ids=" leads ".join,
)
def test_cooperative_group_with_other_clients(members: Members, names: list[str]) -> None:
    for name in names:
        members.join(name, strategy="cooperative-sticky")
    members.wait_until_shared([3, 3])
    members.join("blocking", strategy="cooperative-sticky")
    members.wait_until_shared([2, 2, 2])
    members.leave(members.running[0])
    members.wait_until_shared([3, 3])


@pytest.mark.parametrize("name", sorted(OURS))
def test_static_member_regains_partitions(members: Members, name: str) -> None:
    first = members.join(name, instance="one")
    second = members.join(name, instance="two")
    members.wait_until_shared([3, 3])
    assigned = [set(first.assigned), set(second.assigned)]
    members.leave(first)
    restarted = members.join(name, instance="one")
    members.wait_until_shared([3, 3])
    assert [restarted.assigned, second.assigned] == assigned


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_group_survives_broker_kill(start_broker: StartBroker, topic: str, strategy: str) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, topic)
    members = Members(broker.bootstrap, topic)
    try:
        running = [members.join(name, strategy=strategy) for name in OURS]
        members.wait_until_shared([3, 3])
        write(broker.bootstrap, topic, range(30))
        members.wait(lambda: len(numbers_of(running)) >= 30)
        for member in running:
            member.commit()
        broker.kill()
        broker.start()
        wait_until_led(broker.bootstrap, topic)
        write(broker.bootstrap, topic, range(30, 60))
        members.wait(lambda: set(numbers_of(running)) == set(range(60)))
        members.wait_until_shared([3, 3])
    finally:
        members.close()


class RecordingListener:
    """Records its calls with their threads, and commits partitions being revoked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []
        self.consumer: Any = None

    def on_partitions_assigned(self, partitions: Sequence[odradek.TopicPartition]) -> None:
        self.calls.append(("assigned", len(partitions), threading.current_thread().name))

    def on_partitions_revoked(self, partitions: Sequence[odradek.TopicPartition]) -> None:
        self.consumer.commit(dict.fromkeys(partitions, odradek.OffsetAndMetadata(7)))
        self.calls.append(("revoked", len(partitions), threading.current_thread().name))


def test_listener_runs_in_polling_thread(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    config = options(bootstrap, f"group-of-{topic}", "range", None)
    listener = RecordingListener()
    with odradek.Consumer(**config) as consumer:
        listener.consumer = consumer
        consumer.subscribe([topic], listener=listener)
        while not consumer.assignment():
            consumer.poll(0.5)
        consumer.unsubscribe()
        thread = threading.current_thread().name
        assert listener.calls == [("assigned", PARTITIONS, thread), ("revoked", PARTITIONS, thread)]
        committed = consumer.committed(*(odradek.TopicPartition(topic, index) for index in range(PARTITIONS)))
        assert {offset.offset for offset in committed.values() if offset is not None} == {7}
