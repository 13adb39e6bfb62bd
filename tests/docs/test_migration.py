"""The tables for those who come from another client name what there is, and leave nothing of it out."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import pytest

import odradek
from odradek import aio
from odradek.config.client import CONSUMER, PRODUCER
from odradek.config.client.definition import ClientConfigDef

with warnings.catch_warnings():
    # The client reads its schemas with a call that Python 3.11 deprecates; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
CLIENTS = ("odradek", "confluent-kafka", "aiokafka", "kafka-python")
NAME = re.compile(r"`([\w.]+)")

METHODS = {
    "producers": (
        aio.Producer,
        confluent_kafka.Producer,
        aiokafka.AIOKafkaProducer,
        kafka.KafkaProducer,
    ),
    "consumers": (
        aio.Consumer,
        confluent_kafka.Consumer,
        aiokafka.AIOKafkaConsumer,
        kafka.KafkaConsumer,
    ),
    "admin clients": (
        aio.Admin,
        confluent_kafka.admin.AdminClient,
        aiokafka.admin.AIOKafkaAdminClient,
        kafka.KafkaAdminClient,
    ),
}


def table(heading: str) -> dict[str, set[str]]:
    """The names in each column below a heading."""
    part = PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    assert tuple(rows[0]) == CLIENTS
    assert all(len(row) == len(CLIENTS) for row in rows)
    return {
        client: {name for row in rows[1:] for name in NAME.findall(row[column])}
        for column, client in enumerate(CLIENTS)
    }


def methods_of(thing: type) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_") and callable(getattr(thing, name))}


def unknown_to_librdkafka(names: Iterable[str], kind: type) -> set[str]:
    """Options that are refused for their name; one that is refused for its value is known."""
    unknown = set()
    for name in names:
        value = (lambda *_: None) if name.endswith("_cb") or name.startswith("on_") else "nonsense"
        try:
            kind(
                {"group.id": "g", name: value} if kind is confluent_kafka.Consumer else {name: value}
            ).close()
        except confluent_kafka.KafkaException as refused:
            if "No such configuration property" in str(refused):
                unknown.add(name)
        except (TypeError, ValueError):
            continue
    return unknown


def parameters(*things: type) -> set[str]:
    return {name for thing in things for name in inspect.signature(thing).parameters}


@pytest.mark.parametrize("kind", METHODS)
def test_methods_of_the_tables_are_those_there_are(kind: str) -> None:
    named = table(f"Methods of {kind}")
    for client, thing in zip(CLIENTS, METHODS[kind], strict=True):
        assert named[client] == methods_of(thing), client


@pytest.mark.parametrize("kind", ["producers", "consumers"])
def test_options_of_aiokafka_and_kafka_python_are_all_in_the_tables(kind: str) -> None:
    shared, own = table("Options of all clients"), table(f"Options of {kind}")
    _, _, theirs, python = METHODS[kind]
    named = {client: shared[client] | own[client] for client in CLIENTS}
    assert parameters(theirs) == named["aiokafka"]
    # One table serves producers and consumers, which do not share all figures' options.
    assert set(python.DEFAULT_CONFIG) - named["kafka-python"] == set()
    assert own["kafka-python"] - set(python.DEFAULT_CONFIG) == set()


@pytest.mark.parametrize(
    ("kind", "client"), [("producers", confluent_kafka.Producer), ("consumers", confluent_kafka.Consumer)]
)
def test_options_of_confluent_kafka_are_known_to_it(kind: str, client: type) -> None:
    named = (
        table("Options of all clients")["confluent-kafka"] | table(f"Options of {kind}")["confluent-kafka"]
    )
    assert len(named) > 40
    assert unknown_to_librdkafka(named, client) == set()


@pytest.mark.parametrize(
    ("kind", "options", "client"),
    [("producers", PRODUCER, odradek.Producer), ("consumers", CONSUMER, odradek.Consumer)],
)
def test_our_own_options_are_known(kind: str, options: ClientConfigDef, client: type) -> None:
    named = table("Options of all clients")["odradek"] | table(f"Options of {kind}")["odradek"]
    assert named - set(options.by_name) - parameters(client) == set()


def test_every_error_is_in_the_table_of_errors() -> None:
    part = PAGE.partition("## Errors\n")[2].partition("\n## ")[0]
    named = {
        name
        for line in part.splitlines()
        if line.startswith("| `")
        for name in NAME.findall(line.split(" | ")[0])
    }
    errors = {
        name
        for name in odradek.__all__
        if inspect.isclass(thing := getattr(odradek, name)) and issubclass(thing, Exception)
    }
    assert named == errors - {"ClientError"}
