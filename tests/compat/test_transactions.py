"""Transactions with real clients: atomicity, exactly-once, fencing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from operator import methodcaller

import pytest
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.group_members import MEMBERS, GroupMember
from tests.compat.clients.interface import ErrorResponse, Message
from tests.compat.clients.odradek_members import BlockingMember
from tests.compat.clients.settled import settle
from tests.compat.clients.transactional_clients import (
    COMMITTED,
    TRANSACTIONAL_CLIENTS,
    UNCOMMITTED,
    Fenced,
    TransactionalClient,
)
from tests.compat.conftest import Clients
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import wait_until_led

ENDS = {"SIGTERM": methodcaller("stop"), "kill -9": methodcaller("kill")}
STEPS = ("begin", "send", "send offset", "commit")
SECONDS_MAX = 100


class TransactionalClients:
    """Creates producers, and closes those a test left open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[TransactionalClient] = []

    def __call__(self, bootstrap: str, transactional_id: str, **how: int) -> TransactionalClient:
        self._open.append(TRANSACTIONAL_CLIENTS[self.name](bootstrap, transactional_id, **how))
        return self._open[-1]

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture(params=sorted(TRANSACTIONAL_CLIENTS))
def make(request: pytest.FixtureRequest) -> Iterator[TransactionalClients]:
    """Each client in turn."""
    made = TransactionalClients(request.param)
    yield made
    made.close()


@pytest.fixture
def transactional_id(topic: str) -> str:
    return f"id-of-{topic}"


def values_of(values: list[bytes]) -> list[int]:
    return [int(value) for value in values]


def test_read_committed_sees_committed_records_and_read_uncommitted_sees_all(
    clients: Clients, bootstrap: str, make: TransactionalClients, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic, partitions=2)
    producer = make(bootstrap, transactional_id)
    for number in range(6):
        producer.begin()
        producer.send(topic, b"%d" % number, partition=0)
        producer.send(topic, b"%d" % number, partition=1)
        if number % 3 == 1:
            producer.abort()
        else:
            producer.commit()
    for partition in (0, 1):
        assert values_of(producer.read(topic, UNCOMMITTED, [partition])) == list(range(6))
        assert values_of(producer.read(topic, COMMITTED, [partition])) == [0, 2, 3, 5]


def test_every_client_reads_the_transactions_of_one_client(
    clients: Clients, bootstrap: str, make: TransactionalClients, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    producer = make(bootstrap, transactional_id)
    for number in range(4):
        producer.begin()
        producer.send(topic, b"%d" % number)
        (producer.abort if number % 2 else producer.commit)()
    results = {}
    for name, reader in sorted(TRANSACTIONAL_CLIENTS.items()):
        other = reader(bootstrap, f"{transactional_id}-{name}")
        results[name] = [values_of(other.read(topic, isolation)) for isolation in (COMMITTED, UNCOMMITTED)]
        other.close()
    assert results == {name: [[0, 2], [0, 1, 2, 3]] for name in TRANSACTIONAL_CLIENTS}


def test_open_transaction_is_not_read_before_its_commit(
    clients: Clients, bootstrap: str, make: TransactionalClients, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    producer = make(bootstrap, transactional_id)
    producer.begin()
    producer.send(topic, b"0")
    clients["confluent-kafka"].produce(topic, [Message(b"1")])
    assert producer.read(topic, COMMITTED) == []
    assert values_of(producer.read(topic, UNCOMMITTED)) == [0, 1]
    producer.commit()
    assert values_of(producer.read(topic, COMMITTED)) == [0, 1]


def test_older_instance_is_fenced_and_its_transaction_aborted(
    clients: Clients, bootstrap: str, make: TransactionalClients, topic: str, transactional_id: str
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
    assert values_of(newer.read(topic, COMMITTED)) == [1]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    clients: Clients, bootstrap: str, make: TransactionalClients, topic: str, transactional_id: str
) -> None:
    clients["confluent-kafka"].create_topic(topic)
    producer, group = make(bootstrap, transactional_id), f"group-of-{topic}"
    for offset, end, expected in ((5, producer.commit, 5), (9, producer.abort, 5), (7, producer.commit, 7)):
        producer.begin()
        producer.send_offset(group, topic, offset)
        end()
        assert producer.committed(group, topic) == expected


def test_consume_transform_produce_is_exactly_once(
    clients: Clients, bootstrap: str, make: TransactionalClients, topic: str, transactional_id: str
) -> None:
    """Every third transaction is aborted, and the application restarts from the committed offsets."""
    source, group = f"{topic}-source", f"group-of-{topic}"
    clients["confluent-kafka"].create_topic(source)
    clients["confluent-kafka"].create_topic(topic)
    clients["confluent-kafka"].produce(source, [Message(b"%d" % number) for number in range(30)])
    producer, attempts = make(bootstrap, transactional_id), 0
    while producer.committed(group, source) < 30:
        member = {**MEMBERS, "odradek": BlockingMember}[make.name](bootstrap, group, source)
        try:
            attempts += 1
            _transform(member, producer, group, source, topic, aborts=attempts % 3 == 0)
        finally:
            member.close()
    assert values_of(producer.read(topic, COMMITTED)) == [10 * number for number in range(30)]
    assert attempts >= 3


def _transform(
    member: GroupMember, producer: TransactionalClient, group: str, source: str, target: str, *, aborts: bool
) -> None:
    """Run one transaction: consume some records, produce the same number."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (polled := member.poll(1)):
        assert time.monotonic() < deadline, "nothing was assigned"
    taken = polled[:7]
    producer.begin()
    for record in taken:
        producer.send(target, b"%d" % (10 * int(record.value or b"")))
    producer.send_offset(group, source, taken[-1].offset + 1)
    if aborts:
        producer.abort()
    else:
        producer.commit()


@pytest.mark.parametrize("end", sorted(ENDS))
def test_broker_restarts_between_steps_neither_lose_nor_duplicate_records(
    start_broker: StartBroker, make: TransactionalClients, topic: str, transactional_id: str, end: str
) -> None:
    """On any error, the application restarts from the committed offsets."""
    broker = start_broker()
    group = f"group-of-{topic}"
    admin = settle(Confluent(broker.bootstrap), broker.bootstrap)
    for name in (topic, f"{topic}-source"):
        admin.create_topic(name)
    admin.close()
    producer: TransactionalClient | None = None
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
            producer = producer or make(broker.bootstrap, transactional_id)
            count = producer.committed(group, f"{topic}-source")
            _run_steps(producer, group, topic, count, passed)
        except (ErrorResponse, Fenced):
            producer = None
        if interrupted and make.name == "confluent-kafka":
            producer = None  # librdkafka waits forever for a known group coordinator that was down
    producer = producer or make(broker.bootstrap, transactional_id)
    count = producer.committed(group, f"{topic}-source")
    assert values_of(producer.read(topic, COMMITTED)) == list(range(count))


def _run_steps(
    producer: TransactionalClient, group: str, topic: str, number: int, passed: Callable[[str], None]
) -> None:
    producer.begin()
    passed("begin")
    producer.send(topic, b"%d" % number)
    passed("send")
    producer.send_offset(group, f"{topic}-source", number + 1)
    passed("send offset")
    producer.commit()
    passed("commit")


def test_hanging_transaction_is_aborted_after_its_timeout_by_the_coordinator(
    start_broker: StartBroker, make: TransactionalClients, topic: str, transactional_id: str
) -> None:
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    broker = start_broker({interval: "500"})
    admin = settle(Confluent(broker.bootstrap), broker.bootstrap)
    admin.create_topic(topic)
    producer = make(broker.bootstrap, transactional_id, timeout_ms=1_500)
    producer.begin()
    producer.send(topic, b"0")
    began = time.monotonic()
    admin.produce(topic, [Message(b"1")])
    admin.close()
    while values_of(producer.read(topic, COMMITTED)) != [1]:
        assert time.monotonic() < began + 5
    assert time.monotonic() > began + 1
    with pytest.raises((Fenced, ErrorResponse)):
        producer.commit()
