"""Consumer groups: shared partitions, takeover, committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import methodcaller

import pytest
from tests.compat.clients.group_admins import ADMINS, ConfluentAdmin, GroupAdmin, KafkaPythonAdmin
from tests.compat.clients.group_members import MEMBERS
from tests.compat.clients.interface import ErrorResponse, Message
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.running_member import RunningMember
from tests.compat.conftest import Clients
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led

SECONDS_MAX = 40
UNKNOWN_MEMBER_ID, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC = 25, 68, 69, 86
SHARING = [(name, strategy) for name in sorted(MEMBERS) for strategy in ("range", "roundrobin")] + [
    ("confluent-kafka", "cooperative-sticky"),
    ("kafka-python", "cooperative-sticky"),
]
"""aiokafka has no cooperative assignor."""
ENDS = {"SIGTERM": methodcaller("stop"), "kill -9": methodcaller("kill")}


class Members:
    """Creates members of one group, and closes those a test left open."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._of = (bootstrap, group, topic)
        self._open: list[RunningMember] = []

    def join(self, name: str, **how: str) -> RunningMember:
        """Create a member with the client of this name."""
        member = RunningMember(partial(MEMBERS[name], *self._of, **how))
        self._open.append(member)
        return member

    def leave(self, member: RunningMember) -> None:
        """Close one member."""
        self._open.remove(member)
        member.close()

    def close(self) -> None:
        """Close all members."""
        while self._open:
            self._open.pop().close()


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


@pytest.fixture
def members(bootstrap: str, group: str, topic: str) -> Iterator[Members]:
    made = Members(bootstrap, group, topic)
    yield made
    made.close()


@pytest.fixture(params=sorted(MEMBERS))
def name(request: pytest.FixtureRequest) -> str:
    """Each client in turn."""
    return str(request.param)


@pytest.fixture(params=sorted(ADMINS))
def admin(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[GroupAdmin]:
    made = ADMINS[request.param](bootstrap)
    yield made
    made.close()


@pytest.fixture
def kafka_python_admin(bootstrap: str) -> Iterator[KafkaPythonAdmin]:
    made = KafkaPythonAdmin(bootstrap)
    yield made
    made.close()


def fill(clients: Clients, topic: str, partitions: int, count: int) -> None:
    """Fill a topic with numbers, evenly spread over its partitions."""
    clients["confluent-kafka"].create_topic(topic, partitions=partitions)
    more(clients, topic, partitions, range(count))


def more(clients: Clients, topic: str, partitions: int, numbers: Sequence[int]) -> None:
    messages = [Message(b"%d" % number, partition=number % partitions) for number in numbers]
    clients["confluent-kafka"].produce(topic, messages)


def wait(members: Sequence[RunningMember], holds: Callable[[], bool]) -> None:
    """Wait until a condition holds, while members poll."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        for member in members:
            member.check()
        assert time.monotonic() < deadline, [(member.assigned, len(member.received)) for member in members]
        time.sleep(0.02)


def take(members: Sequence[RunningMember], count: int) -> list[set[int]]:
    """Wait until all numbers were received once; return the partitions each member read."""
    wait(members, lambda: sum(len(member.received) for member in members) >= count)
    taken = [list(member.received) for member in members]
    assert sorted(int(item.value or b"") for result in taken for item in result) == list(range(count))
    return [{item.partition for item in result} for result in taken]


def read(member: RunningMember, numbers: range) -> None:
    """Wait until a member has received these numbers, and nothing else."""
    wait([member], lambda: len(member.received) >= len(numbers))
    assert sorted(int(item.value or b"") for item in member.received) == list(numbers)


def test_group_resumes_at_its_committed_offset(
    clients: Clients, members: Members, topic: str, name: str
) -> None:
    fill(clients, topic, 3, 30)
    first = members.join(name)
    read(first, range(30))
    first.commit()
    members.leave(first)
    more(clients, topic, 3, range(30, 42))
    read(members.join(name), range(30, 42))


@pytest.mark.parametrize(("name", "strategy"), SHARING)
def test_members_share_partitions_and_take_over_after_a_leave(
    clients: Clients, members: Members, topic: str, name: str, strategy: str
) -> None:
    fill(clients, topic, 6, 0)
    first = members.join(name, strategy=strategy)
    wait([first], lambda: first.assigned == set(range(6)))
    second = members.join(name, strategy=strategy)
    pair = [first, second]
    wait(pair, lambda: len(first.assigned) == len(second.assigned) == 3)
    assert first.assigned | second.assigned == set(range(6))
    more(clients, topic, 6, range(60))
    assert take(pair, 60) == [item.assigned for item in pair]
    for member in pair:
        member.commit()
    members.leave(first)
    wait([second], lambda: second.assigned == set(range(6)))
    second.received.clear()
    more(clients, topic, 6, range(60, 72))
    read(second, range(60, 72))


def test_members_of_different_clients_share_a_group(clients: Clients, members: Members, topic: str) -> None:
    fill(clients, topic, 6, 60)
    everyone = [members.join(name, strategy="range") for name in sorted(MEMBERS)]
    wait(everyone, lambda: [len(item.assigned) for item in everyone] == [2, 2, 2])
    assert set().union(*(item.assigned for item in everyone)) == set(range(6))


def test_static_member_rejoins_without_a_rebalance(
    clients: Clients, members: Members, topic: str, name: str
) -> None:
    fill(clients, topic, 4, 0)
    stays, goes = members.join(name, instance="stays"), members.join(name, instance="goes")
    wait([stays, goes], lambda: len(stays.assigned) == len(goes.assigned) == 2)
    held, other = stays.assigned, goes.assigned
    members.leave(goes)
    back = members.join(name, instance="goes")
    wait([back], lambda: back.assigned == other)
    assert stays.assigned == held
    more(clients, topic, 4, range(20))
    assert take([stays, back], 20) == [held, other]


@pytest.mark.parametrize("end", sorted(ENDS))
def test_committed_offsets_survive_a_broker_restart(
    start_broker: StartBroker, topic: str, name: str, end: str
) -> None:
    broker = start_broker()
    clients = Clients(broker.bootstrap)
    members = Members(broker.bootstrap, "g", topic)
    try:
        fill(clients, topic, 2, 20)
        first = members.join(name)
        read(first, range(20))
        first.commit()
        ENDS[end](broker)
        broker.start()
        wait_until_led(broker.bootstrap, topic)
        members.leave(first)
        more(clients, topic, 2, range(20, 26))
        second = members.join(name)
        read(second, range(20, 26))
        second.commit()
        admin = ADMINS[name](broker.bootstrap)
        assert admin.committed("g", topic) == {0: 13, 1: 13}
        admin.close()
    finally:
        members.close()
        clients.close()


def test_admin_clients_describe_groups_and_offsets(
    clients: Clients, members: Members, admin: GroupAdmin, group: str, topic: str
) -> None:
    fill(clients, topic, 2, 10)
    member = members.join("confluent-kafka")
    read(member, range(10))
    member.commit()
    assert group in admin.groups()
    assert admin.state_of(group) == ("stable", 1)
    assert admin.committed(group, topic) == {0: 5, 1: 5}
    members.leave(member)
    assert admin.state_of(group) == ("empty", 0)
    assert admin.committed(group, topic) == {0: 5, 1: 5}


@pytest.mark.parametrize("make_admin", [ConfluentAdmin, KafkaPythonAdmin])
def test_only_an_empty_group_is_deleted(
    clients: Clients,
    members: Members,
    bootstrap: str,
    group: str,
    topic: str,
    make_admin: Callable[[str], ConfluentAdmin | KafkaPythonAdmin],
) -> None:
    admin = make_admin(bootstrap)
    fill(clients, topic, 2, 10)
    member = members.join("confluent-kafka")
    read(member, range(10))
    member.commit()
    with pytest.raises(ErrorResponse) as error:
        admin.delete_group(group)
    assert error.value.code == NON_EMPTY_GROUP
    members.leave(member)
    admin.delete_group(group)
    assert group not in admin.groups()
    assert admin.committed(group, topic) == {}
    with pytest.raises(ErrorResponse) as error:
        admin.delete_group(group)
    assert error.value.code == GROUP_ID_NOT_FOUND
    admin.close()
    read(members.join("confluent-kafka"), range(10))


def test_only_an_unsubscribed_offset_is_deleted(
    clients: Clients, members: Members, kafka_python_admin: KafkaPythonAdmin, group: str, topic: str
) -> None:
    admin = kafka_python_admin
    fill(clients, topic, 2, 10)
    member = members.join("kafka-python")
    read(member, range(10))
    member.commit()
    with pytest.raises(ErrorResponse) as error:
        admin.delete_offset(group, topic, 0)
    assert error.value.code == GROUP_SUBSCRIBED_TO_TOPIC
    members.leave(member)
    admin.delete_offset(group, topic, 0)
    assert admin.committed(group, topic) == {1: 5}


def test_kcat_consumes_as_a_group(bootstrap: str, clients: Clients, group: str, topic: str) -> None:
    kcat = Kcat(bootstrap)
    fill(clients, topic, 2, 10)

    def consume(count: int) -> list[int]:
        output = kcat.run("-G", group, "-X", "auto.offset.reset=earliest", "-c", str(count), "-q", topic)
        return sorted(map(int, output.split()))

    assert consume(10) == list(range(10))
    more(clients, topic, 2, range(10, 14))
    assert consume(4) == list(range(10, 14))
