"""Listeners, advertised listeners and anonymous access."""

import pytest

from odradek.config import broker
from odradek.config.definition import Settings, parse_settings
from odradek.config.endpoints import SecurityProtocol
from odradek.config.listeners import (
    ListenerEndpoint,
    anonymous_access_problems,
    anonymous_endpoints,
    listeners,
    new_anonymous_access_problems,
    problems,
    unencrypted_listeners,
)

PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL


def settings(**raw_values: str) -> Settings:
    return parse_settings(broker.BY_NAME, {name.replace("_", "."): text for name, text in raw_values.items()})


def test_listeners_are_parsed_into_endpoints() -> None:
    result = listeners(settings(listeners="plaintext://[::1]:9092,SSL://:9093"))
    assert result.bound == (
        ListenerEndpoint("PLAINTEXT", PLAINTEXT, "::1", 9092),
        ListenerEndpoint("SSL", SSL, "", 9093),
    )
    assert result.advertised == result.bound
    assert result.inter_broker == "PLAINTEXT"
    assert [str(endpoint) for endpoint in result.bound] == ["PLAINTEXT://[::1]:9092", "SSL://:9093"]


def test_listener_names_are_mapped_to_protocols() -> None:
    result = listeners(
        settings(
            listeners="IN://h:1,OUT://h:2",
            advertised_listeners="OUT://kafka.example:443,IN://h:1",
            listener_security_protocol_map="in:PLAINTEXT,OUT:SASL_SSL",
            inter_broker_listener_name="in",
        )
    )
    assert result.inter_broker == "IN"
    assert [str(endpoint) for endpoint in result.advertised] == ["OUT://kafka.example:443", "IN://h:1"]
    assert [endpoint.protocol for endpoint in result.advertised] == [SecurityProtocol.SASL_SSL, PLAINTEXT]


@pytest.mark.parametrize(
    "raw_values",
    [
        {"listeners": "PLAINTEXT://:9092"},
        {"listeners": "PLAINTEXT://:9092,"},
        {"listeners": "PLAINTEXT://a_b:9092"},
        {"listeners": "PLAINTEXT://h:0,SSL://h:0"},
        {"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092"},
        {"listeners": "PLAINTEXT://0.0.0.0:1", "advertised_listeners": "PLAINTEXT://h:1"},
        {"listeners": "SASL_PLAINTEXT://:1", "security_inter_broker_protocol": "SASL_PLAINTEXT"},
    ],
)
def test_listeners_that_kafka_accepts_are_accepted(raw_values: dict[str, str]) -> None:
    assert problems(settings(**raw_values)) == []


@pytest.mark.parametrize(
    ("raw_values", "message"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot use the nonroutable meta-address 0.0.0.0"),
        ({"listeners": "X://:1,PLAINTEXT://:2"}, "listener X has no protocol"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "a different name for each listener"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "a different port for each listener"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"},
            "a different port for each listener",
        ),
        ({"listeners": ""}, "at least one listener"),
        ({"advertised_listeners": ""}, "at least one listener"),
        ({"listeners": "SSL://:1"}, "inter.broker.listener.name must be a listener name"),
        ({"advertised_listeners": "PLAINTEXT://h:1,SSL://h:2"}, "SSL is not one of the listeners PLAINTEXT"),
        ({"control_plane_listener_name": "SSL"}, "control.plane.listener.name must be a listener name"),
        ({"control_plane_listener_name": "plaintext"}, "must not be the same listener"),
    ],
)
def test_invalid_listeners_are_reported(raw_values: dict[str, str], message: str) -> None:
    assert any(message in line for line in problems(settings(**raw_values)))


@pytest.mark.parametrize(
    "text",
    [
        "nope",
        "PLAINTEXT://h",
        "PLAINTEXT:/h:1",
        "://h:1",
        "PLAINTEXT://h:x",
        "PLAINTEXT://h:70000",
        "A://::1:1",
    ],
)
def test_malformed_endpoints_are_rejected(text: str) -> None:
    assert broker.LISTENERS.check is not None
    assert broker.LISTENERS.check(text) is not None


@pytest.mark.parametrize("text", ["A", "A:NOPE", "A:PLAINTEXT,B"])
def test_malformed_protocol_maps_are_rejected(text: str) -> None:
    assert broker.LISTENER_SECURITY_PROTOCOL_MAP.check is not None
    assert broker.LISTENER_SECURITY_PROTOCOL_MAP.check(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "PLAINTEXT://127.0.0.1:1",
        "PLAINTEXT://127.9.9.9:1",
        "PLAINTEXT://[::1]:1",
        "PLAINTEXT://localhost:1",
        "SASL_PLAINTEXT://:1",
        "SASL_SSL://0.0.0.0:1",
    ],
)
def test_loopback_and_authenticated_listeners_are_not_anonymous(text: str) -> None:
    assert anonymous_access_problems(settings(listeners=text)) == []


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://:1", "PLAINTEXT://10.0.0.1:1", "PLAINTEXT://127.evil.example:1", "SSL://h:1"]
)
def test_anonymous_listeners_must_be_allowed(text: str) -> None:
    anonymous = settings(listeners=text)
    assert [text in line for line in anonymous_access_problems(anonymous)] == [True]
    assert anonymous_access_problems(settings(listeners=text, odradek_allow_anonymous="true")) == []


def test_required_client_certificates_are_authentication() -> None:
    raw_values = {"listeners": "SSL://:1", "listener.name.ssl.ssl.client.auth": "required"}
    assert anonymous_endpoints(parse_settings(broker.BY_NAME, raw_values)) == []


def test_only_new_anonymous_listeners_of_a_change_are_reported() -> None:
    before = settings(listeners="PLAINTEXT://:1")
    assert new_anonymous_access_problems(before, before) == []
    assert len(new_anonymous_access_problems(before, settings(listeners="PLAINTEXT://:1,SSL://:2"))) == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SASL_PLAINTEXT://:1", 1),
        ("SASL_PLAINTEXT://10.0.0.1:1,SASL_SSL://:2", 1),
        ("SASL_PLAINTEXT://127.0.0.1:1", 0),
        ("SASL_SSL://:1", 0),
    ],
)
def test_credentials_without_encryption_are_warned_of(text: str, count: int) -> None:
    lines = unencrypted_listeners(settings(listeners=text))
    assert [line.startswith("listeners: SASL_PLAINTEXT://") for line in lines] == [True] * count
