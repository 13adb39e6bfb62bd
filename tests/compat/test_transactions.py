"""Transactions with real clients: all or nothing, once, and only by whoever has the transactional id."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.group_members import MEMBERS, GroupMember
from tests.compat.clients.interface import Message, Refused
from tests.compat.clients.odradek_members import BlockingMember
from tests.compat.clients.transactional_clients import COMMITTED, TRANSACTORS, UNCOMMITTED, Fenced, Transactor
from tests.compat.conftest import Clients
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led

ENDS = {"SIGTERM": Broker.stop, "kill -9": Broker.kill}
STEPS = ("begin", "send", "send offset", "commit")
SECONDS_MAX = 60


class Transactors:
    """Makes producers, and closes those that a test left."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[Transactor] = []

    def __call__(self, bootstrap: str, transactional_id: str, **how: int) -> Transactor:
        self._open.append(TRANSACTORS[self.name](bootstrap, transactional_id, **how))
        return self._open[-1]

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture(params=sorted(TRANSACTORS))
def make(request: pytest.FixtureRequest) -> Iterator[Transactors]:
    """Each client in turn."""
    made = Transactors(request.param)
    yield made
    made.close()


@pytest.fixture
def transactional_id(topic: str) -> str:
    return f"id-of-{topic}"


def numbers(values: list[bytes]) -> list[int]:
    return [int(value) for value in values]


def test_readers_of_committed_records_see_what_was_committed_and_others_see_all(
    clients: Clients, bootstrap: str, make: Transactors, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic, partitions=2)
    one = make(bootstrap, transactional_id)
    for number in range(6):
        one.begin()
        one.send(topic, b"%d" % number, partition=0)
        one.send(topic, b"%d" % number, partition=1)
        if number % 3 == 1:
            one.abort()
        else:
            one.commit()
    for partition in (0, 1):
        assert numbers(one.read(topic, UNCOMMITTED, [partition])) == list(range(6))
        assert numbers(one.read(topic, COMMITTED, [partition])) == [0, 2, 3, 5]


def test_every_client_reads_the_transactions_of_one(
    clients: Clients, bootstrap: str, make: Transactors, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    one = make(bootstrap, transactional_id)
    for number in range(4):
        one.begin()
        one.send(topic, b"%d" % number)
        (one.abort if number % 2 else one.commit)()
    seen = {}
    for name, reader in sorted(TRANSACTORS.items()):
        other = reader(bootstrap, f"{transactional_id}-{name}")
        seen[name] = [numbers(other.read(topic, isolation)) for isolation in (COMMITTED, UNCOMMITTED)]
        other.close()
    assert seen == {name: [[0, 2], [0, 1, 2, 3]] for name in TRANSACTORS}


def test_what_is_open_is_not_read_before_it_is_committed(
    clients: Clients, bootstrap: str, make: Transactors, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    one = make(bootstrap, transactional_id)
    one.begin()
    one.send(topic, b"0")
    clients["confluent-kafka"].produce(topic, [Message(b"1")])
    assert one.read(topic, COMMITTED) == []
    assert numbers(one.read(topic, UNCOMMITTED)) == [0, 1]
    one.commit()
    assert numbers(one.read(topic, COMMITTED)) == [0, 1]


def test_an_older_instance_is_fenced_and_what_it_left_is_aborted(
    clients: Clients, bootstrap: str, make: Transactors, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    older = make(bootstrap, transactional_id)
    older.begin()
    older.send(topic, b"0")
    newer = make(bootstrap, transactional_id)
    newer.begin()
    newer.send(topic, b"1")
    newer.commit()
    with pytest.raises(Fenced):
        older.commit()
    assert numbers(newer.read(topic, COMMITTED)) == [1]


def test_offsets_count_with_the_transaction_or_not_at_all(
    clients: Clients, bootstrap: str, make: Transactors, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    one, group = make(bootstrap, transactional_id), f"group-of-{topic}"
    for offset, end, expected in ((5, one.commit, 5), (9, one.abort, 5), (7, one.commit, 7)):
        one.begin()
        one.send_offset(group, topic, offset)
        end()
        assert one.committed(group, topic) == expected


def test_each_record_is_consumed_transformed_and_produced_once(
    clients: Clients, bootstrap: str, make: Transactors, topic: str, transactional_id: str
) -> None:
    """Every third transaction is aborted, and its program begins again from what the group committed."""
    source, group = f"{topic}-source", f"group-of-{topic}"
    clients["confluent-kafka"].create_topic(source)
    clients["confluent-kafka"].create_topic(topic)
    clients["confluent-kafka"].produce(source, [Message(b"%d" % number) for number in range(30)])
    one, attempts = make(bootstrap, transactional_id), 0
    while one.committed(group, source) < 30:
        member = {**MEMBERS, "odradek": BlockingMember}[make.name](bootstrap, group, source)
        try:
            attempts += 1
            _transform(member, one, group, source, topic, aborts=attempts % 3 == 0)
        finally:
            member.close()
    assert numbers(one.read(topic, COMMITTED)) == [10 * number for number in range(30)]
    assert attempts >= 3


def _transform(
    member: GroupMember, one: Transactor, group: str, source: str, target: str, *, aborts: bool
) -> None:
    """One transaction: some records in, the same number out."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (polled := member.poll(1)):
        assert time.monotonic() < deadline, "nothing was assigned"
    taken = polled[:7]
    one.begin()
    for record in taken:
        one.send(target, b"%d" % (10 * int(record.value or b"")))
    one.send_offset(group, source, taken[-1].offset + 1)
    if aborts:
        one.abort()
    else:
        one.commit()


@pytest.mark.parametrize("end", sorted(ENDS))
def test_ends_of_the_broker_between_steps_neither_lose_nor_double_anything(
    start_broker: StartBroker, make: Transactors, topic: str, transactional_id: str, end: str
) -> None:
    """The program is the usual one: whatever fails, it begins again from what its group committed."""
    broker = start_broker()
    group = f"group-of-{topic}"
    admin = Confluent(broker.bootstrap)
    for name in (topic, f"{topic}-source"):
        admin.create_topic(name)
    admin.close()
    one: Transactor | None = None
    due, count, deadline = list(STEPS), 0, time.monotonic() + SECONDS_MAX
    while due or count < 2 * len(STEPS):
        assert time.monotonic() < deadline, (due, count)
        interrupted = due.pop(0) if due else None

        def passed(step: str, interrupted: str | None = interrupted) -> None:
            if step == interrupted:
                ENDS[end](broker)
                broker.start()
                wait_until_led(broker.bootstrap, topic)

        try:
            one = one or make(broker.bootstrap, transactional_id)
            count = one.committed(group, f"{topic}-source")
            _one_step_after_another(one, group, topic, count, passed)
        except (Refused, Fenced):
            one = None
        if interrupted and make.name == "confluent-kafka":
            one = None  # librdkafka waits for ever for a group's coordinator that it knew and that was away
    one = one or make(broker.bootstrap, transactional_id)
    count = one.committed(group, f"{topic}-source")
    assert numbers(one.read(topic, COMMITTED)) == list(range(count))


def _one_step_after_another(
    one: Transactor, group: str, topic: str, number: int, passed: Callable[[str], None]
) -> None:
    one.begin()
    passed("begin")
    one.send(topic, b"%d" % number)
    passed("send")
    one.send_offset(group, f"{topic}-source", number + 1)
    passed("send offset")
    one.commit()
    passed("commit")


def test_a_transaction_that_hangs_is_aborted_after_its_timeout(
    start_broker: StartBroker, make: Transactors, topic: str, transactional_id: str
) -> None:
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    broker = start_broker({interval: "500"})
    admin = Confluent(broker.bootstrap)
    admin.create_topic(topic)
    one = make(broker.bootstrap, transactional_id, timeout_ms=1_500)
    one.begin()
    one.send(topic, b"0")
    began = time.monotonic()
    admin.produce(topic, [Message(b"1")])
    admin.close()
    while numbers(one.read(topic, COMMITTED)) != [1]:
        assert time.monotonic() < began + 5
    assert time.monotonic() > began + 1
    with pytest.raises((Fenced, Refused)):
        one.commit()
