"""Parsing and validation of client options."""

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.client.options.parsing import read_options
from odradek.config.client import ADMIN, CONSUMER, PRODUCER, connection, consumer, producer
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import Setting, Settings
from odradek.model.errors import ConfigError
from odradek.model.secret import Secret

SERVERS = {"bootstrap.servers": "localhost:9092"}


def settings(table: ClientConfigDef, options: Mapping[str, object], **keywords: object) -> Settings:
    return read_options(table, {**SERVERS, **options}, keywords)


def problems(table: ClientConfigDef, options: Mapping[str, object], **keywords: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        settings(table, options, **keywords)
    return raised.value.problems


@pytest.mark.parametrize(
    ("table", "setting", "value", "read"),
    [
        (PRODUCER, producer.LINGER_MS, 5, 5),
        (PRODUCER, producer.LINGER_MS, "5", 5),
        (PRODUCER, producer.LINGER_MS, datetime.timedelta(seconds=1.5), 1500),
        (PRODUCER, producer.ACKS, 1, "1"),
        (PRODUCER, producer.ACKS, -1, "all"),
        (PRODUCER, producer.ACKS, "all", "all"),
        (PRODUCER, producer.ENABLE_IDEMPOTENCE, False, False),
        (PRODUCER, producer.ENABLE_IDEMPOTENCE, "FALSE", False),
        (PRODUCER, producer.TRANSACTIONAL_ID, None, None),
        (CONSUMER, connection.BOOTSTRAP_SERVERS, ["localhost:9092"], ("localhost:9092",)),
        (CONSUMER, connection.SECURITY_PROTOCOL, "plaintext", "PLAINTEXT"),
        (CONSUMER, consumer.PARTITION_ASSIGNMENT_STRATEGY, ["sticky", "range"], ("sticky", "range")),
        (
            CONSUMER,
            consumer.PARTITION_ASSIGNMENT_STRATEGY,
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            ("cooperative-sticky",),
        ),
        (ADMIN, connection.DEFAULT_API_TIMEOUT_MS, datetime.timedelta(minutes=2), 120_000),
    ],
)
def test_values_may_be_strings_or_python_values(
    table: ClientConfigDef, setting: Setting[Any], value: object, read: object
) -> None:
    assert settings(table, {setting.name: value})[setting] == read
    assert settings(table, {}, **{setting.name.replace(".", "_"): value})[setting] == read


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER, ADMIN], ids=lambda table: table.kind)
def test_every_default_is_accepted_under_both_spellings(table: ClientConfigDef) -> None:
    for name, setting in table.by_name.items():
        text = setting.format_value(table.default_of(setting))
        group = {"group.id": "g"} if table is CONSUMER else {}
        for spelling in (name, name.replace(".", "_")) if text else ():
            read = read_options(table, {**SERVERS, **group, spelling: text}, {})
            assert setting.format_value(read[setting]) == text


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("linger.ms", 5.5, "linger.ms must be an integer of 64 bits, got 5.5"),
        ("linger.ms", True, "linger.ms must be an integer of 64 bits, got true"),
        ("linger.ms", -1, "linger.ms must be at least 0, got -1"),
        ("enable.idempotence", 1, "enable.idempotence must be true or false, got 1"),
        ("linger.ms", [5], "linger.ms must be a str, number, bool or timedelta, got [5]"),
        ("acks", "most", "acks must be one of all, -1, 0, 1, got most"),
        ("batch.size", datetime.timedelta(1), "batch.size must be a str, number or bool, got "),
        ("bootstrap.servers", ["localhost:9092", 9093], "must be a list of str"),
        ("bootstrap.servers", "localhost", "bootstrap.servers must be a list of host:port, got localhost"),
        ("bootstrap.servers", " , ", "bootstrap.servers is required"),
        (
            "security.protocol",
            "TLS",
            "security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ("transactional.id", "", "transactional.id must be non-empty, got ''"),
        ("key.serializer", "org.example.Thing", "pass a function or"),
        ("partitioner.class", "org.example.Thing", "in the keyword argument partitioner"),
        ("interceptor.classes", "org.example.Thing", "in the keyword argument interceptors"),
    ],
)
def test_invalid_value_is_rejected_with_the_reason(name: str, value: object, reason: str) -> None:
    (problem,) = problems(PRODUCER, {name: value})
    assert reason in problem


def test_all_problems_are_reported_together() -> None:
    reported = problems(PRODUCER, {"linger.ms": "soon", "batch.sise": 1, "acks": 1}, enable_idempotence=True)
    assert len(reported) == 3


def test_options_must_be_a_mapping_with_string_keys() -> None:
    with pytest.raises(TypeError, match="options must be a mapping of names to values, got str"):
        read_options(PRODUCER, "bootstrap.servers=localhost:9092", {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="option name must be a str, got 5"):
        read_options(PRODUCER, {**SERVERS, 5: 1}, {})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["client.id", "transactional.id"])
def test_string_that_is_not_utf8_is_rejected(name: str) -> None:
    (problem,) = problems(PRODUCER, {name: "a\ud800"})
    assert problem.startswith(f"{name} must be valid UTF-8, got 'a\\ud800'; ")


def test_bootstrap_servers_is_required() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is required"):
        read_options(ADMIN, None, {})


def test_metadata_broker_list_is_an_alias_of_bootstrap_servers() -> None:
    read = read_options(CONSUMER, {"metadata.broker.list": "a:1, b:2,a:1"}, {})
    assert connection.bootstrap_addresses(read) == (("a", 1), ("b", 2))


def test_both_spellings_of_an_option_must_agree() -> None:
    assert settings(PRODUCER, {"linger.ms": "5"}, linger_ms=5)[producer.LINGER_MS] == 5
    (problem,) = problems(PRODUCER, {"linger.ms": "5"}, linger_ms=6)
    assert problem == "linger.ms and linger_ms are the same option and must have the same value, got 5 and 6"


@pytest.mark.parametrize(
    ("table", "name", "hint"),
    [
        (PRODUCER, "linger.mss", "did you mean linger.ms?"),
        (PRODUCER, "batch_sise", "did you mean batch_size?"),
        (CONSUMER, "grup.id", "did you mean group.id?"),
        (CONSUMER, "Group.Id", "did you mean group.id?"),
        (PRODUCER, "queue.buffering.max.ms", "use linger.ms"),
        (PRODUCER, "queue.buffering.max.messages", "use buffer.memory"),
        (PRODUCER, "max_batch_size", "use batch.size"),
        (CONSUMER, "fetch.wait.max.ms", "use fetch.max.wait.ms"),
        (CONSUMER, "consumer_timeout_ms", "pass a timeout to poll"),
        (ADMIN, "api_version", "versions are negotiated with each broker"),
    ],
)
def test_unknown_option_suggests_the_right_one(table: ClientConfigDef, name: str, hint: str) -> None:
    (problem,) = problems(table, {name: "1"})
    assert problem.startswith(f"{name} is not an option of a")
    assert hint in problem


def test_unknown_option_without_a_close_match_has_no_suggestion() -> None:
    assert problems(ADMIN, {"zzz": 1}) == ("zzz is not an option of an admin client",)


def test_options_of_other_client_types_are_unknown() -> None:
    (problem,) = problems(CONSUMER, {"linger.ms": 1})
    assert "not an option of a consumer" in problem


def test_password_is_never_shown() -> None:
    read = settings(PRODUCER, {"ssl.key.password": "pw"})
    assert "pw" not in repr(read[PRODUCER.by_name["ssl.key.password"]])
    assert settings(PRODUCER, {"ssl.key.password": Secret("pw")})


# Idempotence

CONFLICTS: list[dict[str, object]] = [
    {"retries": 0},
    {"acks": 1},
    {"acks": 0},
    {"max.in.flight.requests.per.connection": 6},
]


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_default_idempotence_is_disabled_by_conflicting_options(conflict: dict[str, object]) -> None:
    assert settings(PRODUCER, conflict)[producer.ENABLE_IDEMPOTENCE] is False


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_explicit_idempotence_with_conflicting_options_is_rejected(conflict: dict[str, object]) -> None:
    (problem,) = problems(PRODUCER, {**conflict, "enable.idempotence": True})
    assert problem.startswith("enable.idempotence requires ")


@pytest.mark.parametrize("conflict", [*CONFLICTS, {"enable.idempotence": False}])
def test_transactional_id_requires_idempotence(conflict: dict[str, object]) -> None:
    (problem,) = problems(PRODUCER, {**conflict, "transactional.id": "t"})
    assert problem.startswith("transactional.id requires enable.idempotence")


def test_idempotence_allows_five_requests_in_flight() -> None:
    read = settings(PRODUCER, {"max.in.flight.requests.per.connection": 5})
    assert read[producer.ENABLE_IDEMPOTENCE] is True


# Times


@pytest.mark.parametrize(
    ("options", "delivery_ms"),
    [
        ({}, 120_000),
        ({"linger.ms": 100_000}, 130_000),
        ({"linger.ms": 9_000_000_000}, 2**31 - 1),
        ({"linger.ms": 90_000}, 120_000),
    ],
)
def test_default_delivery_timeout_covers_linger_and_request_timeout(
    options: dict[str, object], delivery_ms: int
) -> None:
    assert settings(PRODUCER, options)[producer.DELIVERY_TIMEOUT_MS] == delivery_ms


def test_too_short_delivery_timeout_is_rejected() -> None:
    (problem,) = problems(PRODUCER, {"delivery.timeout.ms": 30_000, "linger.ms": 1})
    assert problem == ("delivery.timeout.ms must be >= linger.ms + request.timeout.ms (30001), got 30000")
    assert settings(PRODUCER, {"delivery.timeout.ms": 30_001, "linger.ms": 1})


def test_heartbeat_interval_must_be_lower_than_session_timeout() -> None:
    (problem,) = problems(CONSUMER, {"group.id": "g", "heartbeat.interval.ms": 45_000})
    assert problem == "heartbeat.interval.ms must be < session.timeout.ms (45000), got 45000"
    assert settings(CONSUMER, {"heartbeat.interval.ms": 45_000})


def test_default_api_timeout_is_at_least_request_timeout() -> None:
    read = settings(ADMIN, {"request.timeout.ms": 90_000})
    assert read[connection.DEFAULT_API_TIMEOUT_MS] == 90_000
    (problem,) = problems(ADMIN, {"default.api.timeout.ms": 1000})
    assert problem == "default.api.timeout.ms must be >= request.timeout.ms (30000), got 1000"


@pytest.mark.parametrize(
    ("options", "max_ms"),
    [
        ({}, 1000),
        ({"reconnect.backoff.ms": 70}, 70),
        ({"reconnect.backoff.ms": 7000}, 7000),
        ({"reconnect.backoff.ms": 70, "reconnect.backoff.max.ms": 100}, 100),
    ],
)
def test_reconnect_backoff_alone_sets_its_maximum(options: dict[str, object], max_ms: int) -> None:
    assert settings(ADMIN, options)[connection.RECONNECT_BACKOFF_MAX_MS] == max_ms


# Groups


def test_auto_commit_is_disabled_without_group_id() -> None:
    assert settings(CONSUMER, {})[consumer.ENABLE_AUTO_COMMIT] is False
    assert settings(CONSUMER, {"group.id": "g"})[consumer.ENABLE_AUTO_COMMIT] is True
    assert problems(CONSUMER, {"enable.auto.commit": True}) == ("enable.auto.commit=true requires group.id",)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"group.instance.id": "a b"}, "must have only ASCII letters"),
        ({"group.instance.id": ".."}, "not be . or .."),
        ({"group.instance.id": "x" * 250}, "at most 249 characters"),
        ({"group.protocol": "consumer"}, "group.protocol must be classic, got consumer"),
        ({"group.remote.assignor": "uniform"}, "must not be set with group.protocol=classic"),
        ({"partition.assignment.strategy": "lottery"}, "keyword argument assignors"),
        ({"partition.assignment.strategy": "range,range"}, "must name each assignor once"),
        ({"auto.offset.reset": "smallest"}, "smallest is called earliest"),
        ({"auto.offset.reset": "Earliest"}, "must be one of latest, earliest, none, got Earliest"),
    ],
)
def test_invalid_group_options_are_rejected(options: dict[str, object], reason: str) -> None:
    (problem,) = problems(CONSUMER, {"group.id": "g", **options})
    assert reason in problem


# Names


def client_id(table: ClientConfigDef, **keywords: object) -> str:
    return settings(table, {}, **keywords)[connection.CLIENT_ID]


def test_client_id_is_generated() -> None:
    first, second = client_id(PRODUCER), client_id(PRODUCER)
    assert first.startswith("producer-")
    assert int(second.removeprefix("producer-")) == int(first.removeprefix("producer-")) + 1
    assert client_id(CONSUMER, group_id="g").startswith("consumer-g-")
    assert client_id(CONSUMER).startswith("consumer-null-")
    assert client_id(ADMIN).startswith("adminclient-")


def test_client_id_is_derived_from_transactional_id_or_group_instance_id() -> None:
    assert client_id(PRODUCER, transactional_id="t") == "producer-t"
    assert client_id(CONSUMER, group_id="g", group_instance_id="i") == "consumer-g-i"
    assert client_id(CONSUMER, group_id="g", group_instance_id="i", client_id="mine") == "mine"
    assert client_id(PRODUCER, transactional_id="t", client_id="") == ""


def test_rejected_client_does_not_consume_a_client_id_number() -> None:
    first = client_id(ADMIN)
    problems(ADMIN, {"no.such.option": 1})
    assert int(client_id(ADMIN).removeprefix("adminclient-")) == int(first.removeprefix("adminclient-")) + 1


def test_connection_defaults_match_kafka() -> None:
    in_flight = connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION
    assert [settings(table, {})[in_flight] for table in (PRODUCER, CONSUMER, ADMIN)] == [5, 100, 1]
    buffer = connection.RECEIVE_BUFFER_BYTES
    assert [settings(table, {})[buffer] for table in (PRODUCER, CONSUMER, ADMIN)] == [32768, 65536, 65536]
