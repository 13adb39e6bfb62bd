"""Our clients' options against Kafka 3.9.1's own, printed from its classes into the file beside this one."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from odradek.config.client import ADMIN, CONSUMER, PRODUCER, connection, consumer, producer
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import InvalidValue, Setting

TABLES: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}

# What is a class of Java's there is a name or a keyword argument here.
OTHER_DEFAULTS: Final = {
    # A buffer of fixed size does not grow with the traffic.
    "send.buffer.bytes": "-1",
    "key.serializer": "(none)",
    "value.serializer": "(none)",
    "key.deserializer": "(none)",
    "value.deserializer": "(none)",
    "partition.assignment.strategy": "range,cooperative-sticky",
}

# How long lines of batches are kept short has no name in Kafka.
OURS: Final = {"producer": {"batch.backlog.size"}}

# Kafka declares this one less important for consumers; it is one setting here.
OTHER_IMPORTANCE: Final = {("consumer", "client.id")}

# What the clients here cannot do is refused.
REFUSED: Final = {
    "security.protocol": ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "group.protocol": ("CONSUMER",),
}


class Fact(NamedTuple):
    table: str
    name: str
    type: str
    default: str
    bounds: str
    importance: str
    listed: str


FACTS: Final = [
    Fact(*line.split("\t"))
    for line in (Path(__file__).parent / "kafka_3_9_client_options.tsv").read_text().splitlines()
    if not line.startswith("#")
]
ALL: Final = [(fact, TABLES[fact.table].by_name[fact.name]) for fact in FACTS]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_name_of_kafka_is_declared_and_few_others(table: ClientConfigDef) -> None:
    kafkas = {fact.name for fact in FACTS if fact.table == table.kind}
    assert set(table.by_name) == kafkas | OURS.get(table.kind, set())


def test_types_are_kafkas() -> None:
    assert [s.name for fact, s in ALL if s.type.name != fact.type] == []


def test_defaults_are_kafkas() -> None:
    def shown(fact: Fact, setting: Setting[Any]) -> str:
        text = setting.text(TABLES[fact.table].default_of(setting))
        return "(none)" if text is None else text or "(empty)"

    wrong = [
        (fact.table, s.name, shown(fact, s))
        for fact, s in ALL
        if shown(fact, s) != OTHER_DEFAULTS.get(s.name, fact.default)
    ]
    assert wrong == []


def test_importance_is_kafkas() -> None:
    others = {(fact.table, s.name) for fact, s in ALL if s.importance.name != fact.importance}
    assert others == OTHER_IMPORTANCE


def test_unlisted_options_are_kafkas_internal_ones() -> None:
    assert [s.name for fact, s in ALL if s.unlisted != (fact.listed == "unlisted")] == []


def _edges(bounds: str) -> tuple[list[str], list[str]]:
    """Values just inside and just outside of ``[low,...,high]``, ``[a, b]`` or ``[1,...,9] or -1``."""
    if bounds.startswith("(case insensitive)"):
        return bounds.partition("[")[2].strip("]").split(", "), ["no-such-word"]
    inner = bounds.removesuffix(" or -1").strip("[]")
    if ",..." not in inner:
        return inner.split(", "), ["no-such-word"]
    low, _, high = inner.partition(",...")
    high = high.strip(",")
    step = 0.25 if "." in low else 1
    inside, outside = [low], [str(type(step)(low) - step)]
    if high:
        inside.append(high)
        outside.append(str(type(step)(high) + step))
    return inside, outside


@pytest.mark.parametrize(
    ("fact", "setting"), [pair for pair in ALL if pair[0].bounds != "-"], ids=lambda value: value.name
)
def test_bounds_are_kafkas(fact: Fact, setting: Setting[Any]) -> None:
    inside, outside = _edges(fact.bounds)
    for text in inside:
        if text not in REFUSED.get(setting.name, ()):
            setting.read(text)
    for text in (*outside, *REFUSED.get(setting.name, ())):
        with pytest.raises(InvalidValue, match=f"for configuration {setting.name}: "):
            setting.read(text)


def test_every_default_passes_its_own_check() -> None:
    for table in TABLES.values():
        for setting in table.by_name.values():
            value = table.default_of(setting)
            if value is not None and setting.check is not None:
                assert setting.check(value) is None, setting.name


@pytest.mark.parametrize(
    ("module", "name"),
    [(producer, "linger.ms"), (consumer, "max.poll.records"), (connection, "bootstrap.servers")],
)
def test_constants_are_named_like_their_options(module: Any, name: str) -> None:
    found = {setting for table in TABLES.values() for setting in table.by_name.values()}
    assert getattr(module, name.upper().replace(".", "_")) in found


def test_every_option_has_a_sentence() -> None:
    for table in TABLES.values():
        for setting in table.by_name.values():
            assert setting.doc.endswith("."), setting.name
            assert len(setting.doc) > 15, setting.name


def test_shared_parts_find_every_setting_of_connections_whatever_the_client() -> None:
    for table in TABLES.values():
        assert set(connection.CONNECTION_SETTINGS) <= set(table.defaults())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("PLAINTEXT://b-1.example.com:9094", ("b-1.example.com", 9094)),
        ("SASL_SSL://[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("localhost", None),
        (":9092", None),
        ("localhost:0", None),
        ("localhost:65536", None),
        ("localhost:http", None),
        ("a b:9092", None),
        ("::1:9092", ("::1", 9092)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int] | None) -> None:
    assert connection.parse_address(text) == address
