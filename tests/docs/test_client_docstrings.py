"""Every public class and method of the clients has an example, and the example is true.

Examples run against a broker of their own, with its address in place of ``localhost:9092``. Those of a
consumer's methods have a ``consumer`` of group ``readers`` that was assigned the first partition of
``castle``; they run in both worlds, as the words are the same in both.
"""

from __future__ import annotations

import doctest
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.client_apis import AsyncioClients, BlockingClients, Clients
from tests.support.broker import Broker

import odradek
from odradek import TopicPartition, aio
from odradek.client import interceptors, serdes
from odradek.client.options import parsing
from odradek.records.pure import consumer_record, delivery

ADDRESS = "localhost:9092"
LETTERS = (b"Someone must have slandered Josef K.", b"It was late in the evening.", b"No step lets you in.")

# Nothing is let off.
WITHOUT_EXAMPLE: frozenset[str] = frozenset()

CLIENTS = {
    "aio.Admin": aio.Admin,
    "aio.Consumer": aio.Consumer,
    "aio.Producer": aio.Producer,
    "Admin": odradek.Admin,
    "Consumer": odradek.Consumer,
    "Producer": odradek.Producer,
}
SERDES = {name: getattr(serdes, name) for name in ("BytesSerde", "StringSerde", "JsonSerde")}
MADE = {
    name: getattr(odradek, name)
    for name in (
        *("AccessControlEntry", "AccessControlEntryFilter", "AclBinding", "AclBindingFilter"),
        *("ResourcePattern", "ResourcePatternFilter"),
        *("Assignment", "ConfigChange", "ConfigResource", "Deliveries", "GroupMetadata", "Member"),
        *("MemberToRemove", "NewPartitions", "NewTopic", "OffsetAndMetadata", "RebalanceListener"),
        *("RebalanceProtocol", "Replica", "RoundRobin", "TopicPartition"),
    )
}
"""Values that a program makes. What it only gets is shown by the call that gives it."""
OTHERS = {
    "Serializer": serdes.Serializer,
    "Deserializer": serdes.Deserializer,
    "serialize_with": serdes.serialize_with,
    "deserialize_with": serdes.deserialize_with,
    "read_options": parsing.read_options,
    "ProducerRecord": interceptors.ProducerRecord,
    "ProducerInterceptor": interceptors.ProducerInterceptor,
    "ConsumerInterceptor": interceptors.ConsumerInterceptor,
    "Assignor": odradek.Assignor,
    # The compiled twins carry no words.
    "ConsumerRecord": consumer_record.ConsumerRecord,
    "Delivery": delivery.Delivery,
}


def methods_of(thing: type) -> Iterator[tuple[str, Any]]:
    for name, test in inspect.getmembers(thing):
        if not name.startswith("_") and callable(test):
            yield name, test


def documented() -> Iterator[tuple[str, Any]]:
    """All that must have an example, by a name that tells it from the others."""
    for owner, thing in {**CLIENTS, **SERDES}.items():
        yield owner, thing
        for name, method in methods_of(thing):
            yield f"{owner}.{name}", method
    yield from MADE.items()
    yield from OTHERS.items()


def examples_of(name: str, thing: Any) -> doctest.DocTest:
    words = inspect.getdoc(thing) or ""
    # Examples of clients are whole; the others know the names of their module.
    home = sys.modules[thing.__module__]
    names = {} if name.removeprefix("aio.").partition(".")[0] in CLIENTS else dict(vars(home))
    return doctest.DocTestParser().get_doctest(words, names, name, None, None)


FOUND = {name: examples_of(name, thing) for name, thing in documented()}
# Blocking methods have the words of their twins: once is enough.
ONCE = {test.docstring: name for name, test in reversed(FOUND.items()) if test.examples}
METHODS_OF_CONSUMERS = [name for name in ONCE.values() if "Consumer." in name]
ALONE = [name for name in ONCE.values() if "Consumer." not in name]


WITH_ACLS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker without the topics that examples create."""
    broker = Broker(tmp_path_factory.mktemp("examples"), WITH_ACLS).start()
    with odradek.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([odradek.NewTopic("castle", 2), "greetings"])
    with odradek.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send_many("castle", LETTERS, partition=0)
    # The first question about a group takes longer: the broker makes a topic for groups.
    with odradek.Consumer(bootstrap_servers=broker.bootstrap, group_id="readers") as consumer:
        consumer.committed(TopicPartition("castle", 0))
    # Likewise the first about a transaction.
    with odradek.Producer(bootstrap_servers=broker.bootstrap, transactional_id="first") as producer:
        producer.init_transactions()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture(params=[BlockingClients, AsyncioClients], ids=["blocking", "asyncio"])
def world(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made: Clients = request.param()
    yield made
    made.close()


def run(example: doctest.DocTest, address: str, **names: object) -> None:
    """Run an example; the words of doctest say what was expected and what came."""
    for step in example.examples:
        step.source = step.source.replace(ADDRESS, address)
    example.globs.update(names)
    printed: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(example, out=printed.append).failed
    assert failed == 0, "".join(printed)


def test_everything_public_has_an_example() -> None:
    assert {name for name, test in FOUND.items() if not test.examples} == WITHOUT_EXAMPLE


def test_both_worlds_have_the_same_methods() -> None:
    for kind in ("Admin", "Consumer", "Producer"):
        blocking = {name for name, _ in methods_of(CLIENTS[kind])}
        # Blocking clients have started when they are made.
        assert {name for name, _ in methods_of(CLIENTS[f"aio.{kind}"])} - blocking == {"start"}


@pytest.mark.parametrize("name", ALONE)
def test_an_example_is_true(name: str, address: str) -> None:
    run(examples_of(name, dict(documented())[name]), address)


@pytest.mark.parametrize("name", METHODS_OF_CONSUMERS)
def test_an_example_of_a_consumers_method_is_true(name: str, address: str, world: Clients) -> None:
    consumer = world.consumer(
        bootstrap_servers=address, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition("castle", 0)])
    run(
        examples_of(name, dict(documented())[name]),
        address,
        consumer=consumer,
        TopicPartition=TopicPartition,
    )
