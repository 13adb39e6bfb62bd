"""Client options compared with those of Kafka 3.9.1, printed from its classes to the TSV file."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from odradek.config.client import ADMIN, CONSUMER, PRODUCER, connection, consumer, producer
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import InvalidValue, Setting

TABLES: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}

# Options that are Java classes in Kafka are names or keyword arguments.
OTHER_DEFAULTS: Final = {
    # A buffer of fixed size would not grow with traffic.
    "send.buffer.bytes": "-1",
    "key.serializer": "(none)",
    "value.serializer": "(none)",
    "key.deserializer": "(none)",
    "value.deserializer": "(none)",
    "partition.assignment.strategy": "range,cooperative-sticky",
}

# Kafka has no counterpart.
SHORT_SECURITY: Final = {
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
}
"""Short options of librdkafka, which all clients have."""
ADDITIONAL: Final = {"producer": {"batch.backlog.size"}}

# Less important for consumers in Kafka; Odradek has one setting for all clients.
OTHER_IMPORTANCE: Final = {("consumer", "client.id")}

# Values that are not supported.
REJECTED: Final = {
    "group.protocol": ("CONSUMER",),
}


class KafkaOption(NamedTuple):
    table: str
    name: str
    type: str
    default: str
    bounds: str
    importance: str
    listed: str


KAFKA_OPTIONS: Final = [
    KafkaOption(*line.split("\t"))
    for line in (Path(__file__).parent / "kafka_3_9_client_options.tsv").read_text().splitlines()
    if not line.startswith("#")
]
ALL: Final = [(option, TABLES[option.table].by_name[option.name]) for option in KAFKA_OPTIONS]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_all_of_kafkas_options_are_declared_and_few_others(table: ClientConfigDef) -> None:
    expected = {option.name for option in KAFKA_OPTIONS if option.table == table.kind}
    assert set(table.by_name) == expected | SHORT_SECURITY | ADDITIONAL.get(table.kind, set())


def test_types_equal_kafkas() -> None:
    assert [setting.name for option, setting in ALL if setting.type.name != option.type] == []


def test_defaults_equal_kafkas() -> None:
    def default_text(option: KafkaOption, setting: Setting[Any]) -> str:
        text = setting.format_value(TABLES[option.table].default_of(setting))
        return "(none)" if text is None else text or "(empty)"

    different = [
        (option.table, setting.name, default_text(option, setting))
        for option, setting in ALL
        if default_text(option, setting) != OTHER_DEFAULTS.get(setting.name, option.default)
    ]
    assert different == []


def test_importance_equals_kafkas() -> None:
    others = {
        (option.table, setting.name)
        for option, setting in ALL
        if setting.importance.name != option.importance
    }
    assert others == OTHER_IMPORTANCE


def test_unlisted_options_are_kafkas_internal_options() -> None:
    assert [
        setting.name for option, setting in ALL if setting.unlisted != (option.listed == "unlisted")
    ] == []


def _edges(bounds: str) -> tuple[list[str], list[str]]:
    """Return values just inside and just outside of ``[low,...,high]``, ``[a, b]`` or ``[1,...,9] or -1``."""
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
    ("option", "setting"), [pair for pair in ALL if pair[0].bounds != "-"], ids=lambda value: value.name
)
def test_bounds_equal_kafkas(option: KafkaOption, setting: Setting[Any]) -> None:
    inside, outside = _edges(option.bounds)
    for text in inside:
        if text not in REJECTED.get(setting.name, ()):
            setting.parse_value(text)
    for text in (*outside, *REJECTED.get(setting.name, ())):
        with pytest.raises(InvalidValue, match=f"{setting.name} must .*, got "):
            setting.parse_value(text)


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
def test_constants_have_the_names_of_their_options(module: Any, name: str) -> None:
    settings = {setting for table in TABLES.values() for setting in table.by_name.values()}
    assert getattr(module, name.upper().replace(".", "_")) in settings


def test_every_option_has_a_description() -> None:
    for table in TABLES.values():
        for setting in table.by_name.values():
            assert setting.doc.endswith("."), setting.name
            assert len(setting.doc) > 15, setting.name


def test_every_client_has_all_connection_settings() -> None:
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
def test_addresses_are_parsed(text: str, address: tuple[str, int] | None) -> None:
    assert connection.parse_address(text) == address
