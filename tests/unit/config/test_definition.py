"""Parsing of values, and the definition of settings."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config import broker, topic
from odradek.config.definition import (
    InvalidValue,
    Setting,
    by_name,
    java_double,
    parse_settings,
    split_listener_name,
)
from odradek.config.types import (
    HIGH,
    LONG_MAX,
    boolean,
    double,
    int16,
    int32,
    int64,
    password,
    string,
    string_list,
)
from odradek.model.errors import ConfigError
from odradek.model.secret import Secret

PASSWORD = password("a.password", HIGH, "A password.")


@pytest.mark.parametrize(
    ("setting", "raw_value", "value"),
    [
        (int32("n", 0, HIGH, "."), " 100 ", 100),
        (int32("n", 0, HIGH, "."), "+3", 3),
        (int32("n", 0, HIGH, "."), "-3", -3),
        (int32("n", 0, HIGH, "."), "2147483647", 2**31 - 1),
        (int64("n", 0, HIGH, "."), "-9223372036854775808", -(2**63)),
        (int16("n", 0, HIGH, "."), "0032767", 32767),
        (double("n", 0.0, HIGH, "."), "0.5f", 0.5),
        (double("n", 0.0, HIGH, "."), "1e3", 1000.0),
        (boolean("n", False, HIGH, "."), "TRUE", True),
        (boolean("n", True, HIGH, "."), "false", False),
        (string("n", "", HIGH, "."), "  a b  ", "a b"),
        (string_list("n", (), HIGH, "."), "", ()),
        (string_list("n", (), HIGH, "."), " compact , delete", ("compact", "delete")),
        (PASSWORD, " pw ", Secret("pw")),
    ],
)
def test_values_are_parsed_as_in_kafka(setting: Setting[Any], raw_value: str, value: object) -> None:
    assert setting.parse_value(raw_value) == value


@pytest.mark.parametrize(
    ("setting", "raw_value", "reason"),
    [
        (int32("n", 0, HIGH, "."), "1.5", "must be an integer of 32 bits"),
        (int32("n", 0, HIGH, "."), "2147483648", "must be an integer of 32 bits"),
        (int32("n", 0, HIGH, "."), "0x10", "must be an integer of 32 bits"),
        (int32("n", 0, HIGH, "."), "1_000", "must be an integer of 32 bits"),
        (int32("n", 0, HIGH, "."), "", "must be an integer of 32 bits"),
        (int32("n", 0, HIGH, "."), "٣", "must be an integer of 32 bits"),
        (int64("n", 0, HIGH, "."), "9" * 5000, "must be an integer of 64 bits"),
        (int16("n", 0, HIGH, "."), "32768", "must be an integer of 16 bits"),
        (double("n", 0.0, HIGH, "."), "nan", "must be a finite number"),
        (double("n", 0.0, HIGH, "."), "inf", "must be a finite number"),
        (double("n", 0.0, HIGH, "."), "1_0", "must be a finite number"),
        (boolean("n", False, HIGH, "."), "yes", "must be true or false"),
        (int32("n", 5, HIGH, ".", at_least=5), "4", "must be at least 5"),
        (int32("n", 5, HIGH, ".", at_least=5, at_most=6), "7", "must be at most 6"),
        (broker.COMPRESSION_GZIP_LEVEL, "0", "must be -1 or from 1 to 9"),
        (broker.LOG_CLEANUP_POLICY, "delete,drop", "must be any of compact, delete"),
        (broker.INTER_BROKER_PROTOCOL_VERSION, "9.9", "must be a version of Kafka"),
        (broker.MAX_CONNECTIONS_PER_IP_OVERRIDES, "127.0.0.1", "must be a list of address:limit"),
        (broker.LISTENERS, "nope", "must be a list of NAME://host:port"),
    ],
)
def test_invalid_values_are_rejected_with_a_reason(
    setting: Setting[Any], raw_value: str, reason: str
) -> None:
    with pytest.raises(InvalidValue) as error:
        setting.parse_value(raw_value)
    assert str(error.value) == f"{setting.name} {reason}, got {raw_value or repr(raw_value)}"


@pytest.mark.parametrize("version", ["3.9", "3.9-IV0", "3.9.1", "0.10.2", "0.10.2.1", "2.8-IV1", "4.0-IV1"])
def test_versions_may_be_short_or_full(version: str) -> None:
    assert broker.INTER_BROKER_PROTOCOL_VERSION.parse_value(version) == version


@pytest.mark.parametrize("raw_value", ["*", "", "1:2,3:4", "0:0"])
def test_throttled_replicas_are_all_or_a_list(raw_value: str) -> None:
    topic.LEADER_REPLICATION_THROTTLED_REPLICAS.parse_value(raw_value)


@pytest.mark.parametrize("raw_value", ["x", "none", "1:2:3", "1", "*,1:2", "-1:2"])
def test_other_throttled_replicas_are_rejected(raw_value: str) -> None:
    with pytest.raises(InvalidValue):
        topic.LEADER_REPLICATION_THROTTLED_REPLICAS.parse_value(raw_value)


def test_all_problems_are_reported_with_setting_and_value() -> None:
    with pytest.raises(ConfigError) as error:
        parse_settings(
            broker.BY_NAME,
            {"log.segment.bytes": "3", "num.partitions": "x", "listener.name.lan.max.connections": "-1"},
        )
    assert error.value.problems == (
        "log.segment.bytes must be at least 14, got 3",
        "num.partitions must be an integer of 32 bits, got x",
        "listener.name.lan.max.connections must be at least 0, got -1",
    )


def test_missing_values_have_their_default() -> None:
    settings = parse_settings(broker.BY_NAME, {"num.partitions": "7", "no.such.name": "1"})
    assert settings[broker.NUM_PARTITIONS] == 7
    assert settings[broker.LOG_SEGMENT_BYTES] == 1 << 30
    assert settings[broker.LOG_RETENTION_MS] is None


def test_listener_may_have_its_own_value() -> None:
    settings = parse_settings(broker.BY_NAME, {"listener.name.lan.ssl.client.auth": "required"})
    assert settings.for_listener("LAN", broker.SSL_CLIENT_AUTH) == "required"
    assert settings.for_listener("WAN", broker.SSL_CLIENT_AUTH) == "none"
    assert settings[broker.SSL_CLIENT_AUTH] == "none"


def test_settings_of_another_table_are_unknown() -> None:
    with pytest.raises(KeyError):
        parse_settings(broker.BY_NAME, {})[topic.COMPRESSION_TYPE]


def test_setting_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        broker.NUM_PARTITIONS.default = 5


def test_secret_is_not_revealed_by_repr() -> None:
    value = PASSWORD.parse_value("hunter2")
    assert value is not None
    assert value.reveal() == "hunter2"
    assert "hunter2" not in f"{value} {value!r} {[value]}"


def test_error_message_does_not_reveal_a_secret() -> None:
    checked = password("p", HIGH, ".", check=lambda _: "must be longer")
    with pytest.raises(InvalidValue) as error:
        checked.parse_value("hunter2")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (0.00023, "2.3E-4"),
        (1e-10, "1.0E-10"),
        (-2.5e20, "-2.5E20"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_formatted_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_round_trip(value: float) -> None:
    assert float(java_double(value)) == value


@given(st.integers(-LONG_MAX - 1, LONG_MAX))
def test_longs_round_trip(value: int) -> None:
    setting = broker.LOG_RETENTION_BYTES
    text = setting.format_value(value)
    assert text is not None
    assert setting.parse_value(text) == value


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_rejected_by_every_type(raw_value: str) -> None:
    for setting in (*broker.BROKER, *topic.TOPIC):
        with contextlib.suppress(InvalidValue):
            setting.parse_value(raw_value)


def test_documentation_marks_inert_settings() -> None:
    assert broker.NUM_IO_THREADS.documentation.startswith("Accepted, but has no effect.")
    assert not broker.NUM_PARTITIONS.documentation.startswith("Accepted")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("listener.name.lan.ssl.client.auth", ("lan", "ssl.client.auth")),
        ("listener.name.lan", None),
        ("listener.name..x", None),
        ("listeners", None),
    ],
)
def test_listener_prefixes_are_split(name: str, split: tuple[str, str] | None) -> None:
    assert split_listener_name(name) == split


def test_by_name_has_every_setting() -> None:
    assert by_name([PASSWORD]) == {"a.password": PASSWORD}
