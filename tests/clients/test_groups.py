"""Groups on a real broker: of our consumers in both worlds, and of ours together with those of others."""

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
    """Makes members of one group, and closes those that a test left in it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._of = (bootstrap, f"group-of-{topic}", topic)
        self.there: list[RunningMember] = []

    def join(self, name: str, **how: str) -> RunningMember:
        member = RunningMember(partial(ALL[name], *self._of, **how))
        self.there.append(member)
        return member

    def leave(self, member: RunningMember) -> None:
        self.there.remove(member)
        member.close()

    def wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            for member in self.there:
                member.check()
            assert time.monotonic() < deadline, [(one.assigned, len(one.received)) for one in self.there]
            time.sleep(0.02)

    def wait_until_shared(self, sizes: Sequence[int] | None = None) -> None:
        """Every partition has one reader; shares are as large as given, in any order."""
        self.wait(
            lambda: (
                sorted(index for one in self.there for index in one.assigned) == list(range(PARTITIONS))
                and (sizes is None or sorted(len(one.assigned) for one in self.there) == sorted(sizes))
            )
        )

    def close(self) -> None:
        while self.there:
            self.there.pop().close()


@pytest.fixture
def members(bootstrap: str, topic: str) -> Iterator[Members]:
    make_topic(bootstrap, topic)
    made = Members(bootstrap, topic)
    yield made
    made.close()


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result(30)


def write(bootstrap: str, topic: str, numbers: range) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def numbers_of(members: Sequence[RunningMember]) -> list[int]:
    return sorted(int(one.value or b"") for member in members for one in list(member.received))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_our_consumers_share_partitions_and_take_over_from_each_other(
    members: Members, bootstrap: str, topic: str, strategy: str
) -> None:
    names = ["blocking", "aio", "blocking"]
    there = [members.join(name, strategy=strategy) for name in names]
    members.wait_until_shared([2, 2, 2])
    write(bootstrap, topic, range(60))
    members.wait(lambda: len(numbers_of(there)) >= 60)
    assert numbers_of(there) == list(range(60))
    for member in there:
        member.commit()
    members.leave(there[0])
    members.wait_until_shared([3, 3])
    write(bootstrap, topic, range(60, 120))
    members.wait(lambda: len(numbers_of(there)) >= 120)
    assert numbers_of(there) == list(range(120))


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("leader", [*sorted(OURS), *sorted(MEMBERS)])
def test_our_consumers_share_a_group_with_those_of_others(
    members: Members, leader: str, strategy: str
) -> None:
    members.join(leader, strategy=strategy)
    members.wait_until_shared([6])
    others = [name for name in ALL if name != leader]
    for name in others:
        members.join(name, strategy=strategy)
    members.wait_until_shared([2, 1, 1, 1, 1])
    members.leave(members.there[0])
    members.wait_until_shared([2, 2, 1, 1])


@pytest.mark.parametrize(
    "names",
    [["aio", "confluent-kafka"], ["confluent-kafka", "blocking"], ["kafka-python", "blocking"]],
    ids=" leads ".join,
)
def test_cooperative_groups_with_others_share_and_share_again(members: Members, names: list[str]) -> None:
    for name in names:
        members.join(name, strategy="cooperative-sticky")
    members.wait_until_shared([3, 3])
    members.join("blocking", strategy="cooperative-sticky")
    members.wait_until_shared([2, 2, 2])
    members.leave(members.there[0])
    members.wait_until_shared([3, 3])


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_static_member_comes_back_to_what_it_had(members: Members, name: str) -> None:
    first = members.join(name, instance="one")
    second = members.join(name, instance="two")
    members.wait_until_shared([3, 3])
    had = [set(first.assigned), set(second.assigned)]
    members.leave(first)
    again = members.join(name, instance="one")
    members.wait_until_shared([3, 3])
    assert [again.assigned, second.assigned] == had


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_groups_go_on_after_their_broker_was_killed(
    start_broker: StartBroker, topic: str, strategy: str
) -> None:
    broker = start_broker()
    make_topic(broker.bootstrap, topic)
    members = Members(broker.bootstrap, topic)
    try:
        there = [members.join(name, strategy=strategy) for name in OURS]
        members.wait_until_shared([3, 3])
        write(broker.bootstrap, topic, range(30))
        members.wait(lambda: len(numbers_of(there)) >= 30)
        for member in there:
            member.commit()
        broker.kill()
        broker.start()
        wait_until_led(broker.bootstrap, topic)
        write(broker.bootstrap, topic, range(30, 60))
        members.wait(lambda: set(numbers_of(there)) == set(range(60)))
        members.wait_until_shared([3, 3])
    finally:
        members.close()


class Witness:
    """A listener that notes in which thread it is called, and commits what it is about to lose."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, str]] = []
        self.consumer: Any = None

    def on_partitions_assigned(self, partitions: Sequence[odradek.TopicPartition]) -> None:
        self.heard.append(("assigned", len(partitions), threading.current_thread().name))

    def on_partitions_revoked(self, partitions: Sequence[odradek.TopicPartition]) -> None:
        self.consumer.commit({one: odradek.OffsetAndMetadata(7) for one in partitions})
        self.heard.append(("revoked", len(partitions), threading.current_thread().name))


def test_listeners_run_where_the_application_polls_and_may_use_the_consumer(
    bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic)
    given = options(bootstrap, f"group-of-{topic}", "range", None)
    witness = Witness()
    with odradek.Consumer(**given) as consumer:
        witness.consumer = consumer
        consumer.subscribe([topic], listener=witness)
        while not consumer.assignment():
            consumer.poll(0.5)
        consumer.unsubscribe()
        here = threading.current_thread().name
        assert witness.heard == [("assigned", PARTITIONS, here), ("revoked", PARTITIONS, here)]
        found = consumer.committed(*(odradek.TopicPartition(topic, index) for index in range(PARTITIONS)))
        assert {each.offset for each in found.values() if each is not None} == {7}
