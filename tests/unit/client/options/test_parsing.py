"""What users give to clients, and the settings that come of it."""

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.client.options.parsing import read_options
from odradek.config.client import ADMIN, CONSUMER, PRODUCER, connection, consumer, producer
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import Secret, Setting, Settings
from odradek.model.errors import ConfigError

SERVERS = {"bootstrap.servers": "localhost:9092"}


def settings(table: ClientConfigDef, options: Mapping[str, object], **keywords: object) -> Settings:
    return read_options(table, {**SERVERS, **options}, keywords)


def problems(table: ClientConfigDef, options: Mapping[str, object], **keywords: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        settings(table, options, **keywords)
    return refused.value.problems


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
def test_values_may_be_texts_or_pythons_own(
    table: ClientConfigDef, setting: Setting[Any], value: object, read: object
) -> None:
    assert settings(table, {setting.name: value})[setting] == read
    assert settings(table, {}, **{setting.name.replace(".", "_"): value})[setting] == read


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER, ADMIN], ids=lambda table: table.kind)
def test_every_option_can_be_given_its_default_under_both_names(table: ClientConfigDef) -> None:
    for name, setting in table.by_name.items():
        text = setting.format_value(table.default_of(setting))
        group = {"group.id": "g"} if table is CONSUMER else {}
        for spelled in (name, name.replace(".", "_")) if text else ():
            read = read_options(table, {**SERVERS, **group, spelled: text}, {})
            assert setting.format_value(read[setting]) == text


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("linger.ms", 5.5, "Invalid value 5.5 for configuration linger.ms: Not a number of type LONG"),
        ("linger.ms", True, "Invalid value true for configuration linger.ms: Not a number of type LONG"),
        ("linger.ms", -1, "Invalid value -1 for configuration linger.ms: Value must be at least 0"),
        ("enable.idempotence", 1, "Expected value to be either true or false"),
        ("linger.ms", [5], "list is no type for this option"),
        ("acks", "most", "String must be one of: all, -1, 0, 1"),
        ("batch.size", datetime.timedelta(1), "timedelta is no type for this option"),
        ("bootstrap.servers", ["localhost:9092", 9093], "must be a list of texts"),
        ("bootstrap.servers", "localhost", "'localhost' is not of the form host:port"),
        ("bootstrap.servers", " , ", "bootstrap.servers is missing"),
        ("security.protocol", "SASL_SSL", "only PLAINTEXT connections can be made"),
        ("security.protocol", "TLS", "String must be one of (case insensitive): PLAINTEXT, SSL"),
        ("transactional.id", "", "String must be non-empty"),
        ("key.serializer", "org.example.Thing", "pass a function or"),
        ("partitioner.class", "org.example.Thing", "in the keyword argument partitioner"),
        ("interceptor.classes", "org.example.Thing", "in the keyword argument interceptors"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_reason(name: str, value: object, reason: str) -> None:
    (problem,) = problems(PRODUCER, {name: value})
    assert reason in problem


def test_all_problems_are_told_at_once() -> None:
    found = problems(PRODUCER, {"linger.ms": "soon", "batch.sise": 1, "acks": 1}, enable_idempotence=True)
    assert len(found) == 3


def test_what_are_no_options_at_all_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="options are a mapping of names to values, not str"):
        read_options(PRODUCER, "bootstrap.servers=localhost:9092", {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="5 is no name of an option"):
        read_options(PRODUCER, {**SERVERS, 5: 1}, {})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["client.id", "transactional.id"])
def test_a_name_that_no_request_can_carry_is_refused(name: str) -> None:
    (problem,) = problems(PRODUCER, {name: "a\ud800"})
    assert problem.startswith(
        f"Invalid value 'a\\ud800' for configuration {name}: no UTF-8 can be made of it"
    )


def test_servers_are_needed() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        read_options(ADMIN, None, {})


def test_the_old_name_of_servers_is_taken() -> None:
    read = read_options(CONSUMER, {"metadata.broker.list": "a:1, b:2,a:1"}, {})
    assert connection.bootstrap_addresses(read) == (("a", 1), ("b", 2))


def test_two_names_of_one_option_must_agree() -> None:
    assert settings(PRODUCER, {"linger.ms": "5"}, linger_ms=5)[producer.LINGER_MS] == 5
    (problem,) = problems(PRODUCER, {"linger.ms": "5"}, linger_ms=6)
    assert problem == "linger.ms and linger_ms are the same option, given with different values"


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
        (CONSUMER, "consumer_timeout_ms", "give poll the time to wait"),
        (ADMIN, "api_version", "versions are agreed on with each broker"),
    ],
)
def test_an_unknown_option_names_the_right_one(table: ClientConfigDef, name: str, hint: str) -> None:
    (problem,) = problems(table, {name: "1"})
    assert problem.startswith(f"{name} is not an option of a")
    assert hint in problem


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    assert problems(ADMIN, {"zzz": 1}) == ("zzz is not an option of an admin client",)


def test_options_of_other_kinds_of_clients_are_unknown() -> None:
    (problem,) = problems(CONSUMER, {"linger.ms": 1})
    assert "not an option of a consumer" in problem


def test_a_password_is_never_shown() -> None:
    read = settings(PRODUCER, {"ssl.key.password": "pw"})
    assert "pw" not in repr(read[PRODUCER.by_name["ssl.key.password"]])
    assert settings(PRODUCER, {"ssl.key.password": Secret("pw")})


# Idempotence

HINDRANCES: list[dict[str, object]] = [
    {"retries": 0},
    {"acks": 1},
    {"acks": 0},
    {"max.in.flight.requests.per.connection": 6},
]


@pytest.mark.parametrize("hindrance", HINDRANCES)
def test_idempotence_that_was_not_asked_for_gives_way(hindrance: dict[str, object]) -> None:
    assert settings(PRODUCER, hindrance)[producer.ENABLE_IDEMPOTENCE] is False


@pytest.mark.parametrize("hindrance", HINDRANCES)
def test_idempotence_that_was_asked_for_does_not(hindrance: dict[str, object]) -> None:
    (problem,) = problems(PRODUCER, {**hindrance, "enable.idempotence": True})
    assert problem.startswith("enable.idempotence needs ")


@pytest.mark.parametrize("hindrance", [*HINDRANCES, {"enable.idempotence": False}])
def test_transactions_need_idempotence(hindrance: dict[str, object]) -> None:
    (problem,) = problems(PRODUCER, {**hindrance, "transactional.id": "t"})
    assert problem.startswith("transactional.id needs enable.idempotence")


def test_idempotence_is_on_with_five_requests_in_flight() -> None:
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
def test_a_delivery_takes_at_least_lingering_and_a_request(
    options: dict[str, object], delivery_ms: int
) -> None:
    assert settings(PRODUCER, options)[producer.DELIVERY_TIMEOUT_MS] == delivery_ms


def test_a_delivery_timeout_that_is_too_short_is_refused() -> None:
    (problem,) = problems(PRODUCER, {"delivery.timeout.ms": 30_000, "linger.ms": 1})
    assert "delivery.timeout.ms must be at least" in problem
    assert settings(PRODUCER, {"delivery.timeout.ms": 30_001, "linger.ms": 1})


def test_heartbeats_come_more_often_than_a_session_ends() -> None:
    (problem,) = problems(CONSUMER, {"group.id": "g", "heartbeat.interval.ms": 45_000})
    assert problem == "heartbeat.interval.ms must be lower than session.timeout.ms"
    assert settings(CONSUMER, {"heartbeat.interval.ms": 45_000})


def test_an_admins_call_takes_at_least_a_request() -> None:
    read = settings(ADMIN, {"request.timeout.ms": 90_000})
    assert read[connection.DEFAULT_API_TIMEOUT_MS] == 90_000
    (problem,) = problems(ADMIN, {"default.api.timeout.ms": 1000})
    assert problem == "default.api.timeout.ms must be no smaller than request.timeout.ms"


@pytest.mark.parametrize(
    ("options", "most_ms"),
    [
        ({}, 1000),
        ({"reconnect.backoff.ms": 70}, 70),
        ({"reconnect.backoff.ms": 7000}, 7000),
        ({"reconnect.backoff.ms": 70, "reconnect.backoff.max.ms": 100}, 100),
    ],
)
def test_a_reconnect_backoff_alone_does_not_grow(options: dict[str, object], most_ms: int) -> None:
    assert settings(ADMIN, options)[connection.RECONNECT_BACKOFF_MAX_MS] == most_ms


# Groups


def test_without_a_group_nothing_is_committed_by_itself() -> None:
    assert settings(CONSUMER, {})[consumer.ENABLE_AUTO_COMMIT] is False
    assert settings(CONSUMER, {"group.id": "g"})[consumer.ENABLE_AUTO_COMMIT] is True
    assert problems(CONSUMER, {"enable.auto.commit": True}) == (
        "enable.auto.commit cannot be true without a group.id",
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"group.instance.id": "a b"}, "may have only ASCII letters"),
        ({"group.instance.id": ".."}, "neither . nor .."),
        ({"group.instance.id": "x" * 250}, "at most 249 characters"),
        ({"group.protocol": "consumer"}, "only classic groups can be joined"),
        ({"group.remote.assignor": "uniform"}, "cannot be set with group.protocol=classic"),
        ({"partition.assignment.strategy": "lottery"}, "keyword argument assignors"),
        ({"partition.assignment.strategy": "range,range"}, "named twice"),
        ({"auto.offset.reset": "smallest"}, "smallest is called earliest"),
        ({"auto.offset.reset": "Earliest"}, "String must be one of: latest, earliest, none"),
    ],
)
def test_what_a_group_cannot_have_is_refused(options: dict[str, object], reason: str) -> None:
    (problem,) = problems(CONSUMER, {"group.id": "g", **options})
    assert reason in problem


# Names


def client_id(table: ClientConfigDef, **keywords: object) -> str:
    return settings(table, {}, **keywords)[connection.CLIENT_ID]


def test_a_client_without_a_name_gets_one_of_its_own() -> None:
    first, second = client_id(PRODUCER), client_id(PRODUCER)
    assert first.startswith("producer-")
    assert int(second.removeprefix("producer-")) == int(first.removeprefix("producer-")) + 1
    assert client_id(CONSUMER, group_id="g").startswith("consumer-g-")
    assert client_id(CONSUMER).startswith("consumer-null-")
    assert client_id(ADMIN).startswith("adminclient-")


def test_names_that_last_are_used_for_the_clients_that_have_them() -> None:
    assert client_id(PRODUCER, transactional_id="t") == "producer-t"
    assert client_id(CONSUMER, group_id="g", group_instance_id="i") == "consumer-g-i"
    assert client_id(CONSUMER, group_id="g", group_instance_id="i", client_id="mine") == "mine"
    assert client_id(PRODUCER, transactional_id="t", client_id="") == ""


def test_a_refused_client_takes_no_number() -> None:
    first = client_id(ADMIN)
    problems(ADMIN, {"no.such.option": 1})
    assert int(client_id(ADMIN).removeprefix("adminclient-")) == int(first.removeprefix("adminclient-")) + 1


def test_connections_of_each_kind_are_kafkas() -> None:
    in_flight = connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION
    assert [settings(table, {})[in_flight] for table in (PRODUCER, CONSUMER, ADMIN)] == [5, 100, 1]
    buffer = connection.RECEIVE_BUFFER_BYTES
    assert [settings(table, {})[buffer] for table in (PRODUCER, CONSUMER, ADMIN)] == [32768, 65536, 65536]
