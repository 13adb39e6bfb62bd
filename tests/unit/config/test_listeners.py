import pytest

from odradek.config import broker
from odradek.config.definition import Settings, read
from odradek.config.endpoints import SecurityProtocol
from odradek.config.listeners import (
    ListenerEndpoint,
    anonymous,
    anonymous_access_problems,
    listeners,
    new_anonymous_access_problems,
    problems,
)

PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL


def settings(**given: str) -> Settings:
    return read(broker.BY_NAME, {name.replace("_", "."): text for name, text in given.items()})


def test_listeners_are_parsed_into_endpoints() -> None:
    found = listeners(settings(listeners="plaintext://[::1]:9092,SSL://:9093"))
    assert found.bound == (
        ListenerEndpoint("PLAINTEXT", PLAINTEXT, "::1", 9092),
        ListenerEndpoint("SSL", SSL, "", 9093),
    )
    assert found.advertised == found.bound
    assert found.inter_broker == "PLAINTEXT"
    assert [str(endpoint) for endpoint in found.bound] == ["PLAINTEXT://[::1]:9092", "SSL://:9093"]


def test_names_are_mapped_to_protocols() -> None:
    found = listeners(
        settings(
            listeners="IN://h:1,OUT://h:2",
            advertised_listeners="OUT://kafka.example:443,IN://h:1",
            listener_security_protocol_map="in:PLAINTEXT,OUT:SASL_SSL",
            inter_broker_listener_name="in",
        )
    )
    assert found.inter_broker == "IN"
    assert found.advertised_as("OUT") == ListenerEndpoint(
        "OUT", SecurityProtocol.SASL_SSL, "kafka.example", 443
    )
    assert found.advertised_as("NO") is None


@pytest.mark.parametrize(
    "given",
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
def test_listeners_that_kafka_takes_are_taken(given: dict[str, str]) -> None:
    assert problems(settings(**given)) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot use the nonroutable meta-address 0.0.0.0"),
        ({"listeners": "X://:1,PLAINTEXT://:2"}, "No security protocol defined for listener X"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "Each listener must have a different name"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "Each listener must have a different port"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"},
            "Each listener must have a different port",
        ),
        ({"listeners": ""}, "at least one listener"),
        ({"advertised_listeners": ""}, "at least one listener"),
        ({"listeners": "SSL://:1"}, "inter.broker.listener.name must be a listener name"),
        ({"advertised_listeners": "PLAINTEXT://h:1,SSL://h:2"}, "SSL is not one of the listeners PLAINTEXT"),
        ({"control_plane_listener_name": "SSL"}, "control.plane.listener.name must be a listener name"),
        ({"control_plane_listener_name": "plaintext"}, "must not be the same listener"),
    ],
)
def test_listeners_that_cannot_be_are_told(given: dict[str, str], words: str) -> None:
    assert any(words in line for line in problems(settings(**given)))


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
def test_texts_that_are_no_endpoints_are_refused(text: str) -> None:
    assert broker.LISTENERS.check is not None
    assert broker.LISTENERS.check(text) is not None


@pytest.mark.parametrize("text", ["A", "A:NOPE", "A:PLAINTEXT,B"])
def test_protocol_maps_that_are_none_are_refused(text: str) -> None:
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
def test_loopback_and_authenticated_listeners_expose_nothing(text: str) -> None:
    assert anonymous_access_problems(settings(listeners=text)) == []


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://:1", "PLAINTEXT://10.0.0.1:1", "PLAINTEXT://127.evil.example:1", "SSL://h:1"]
)
def test_other_listeners_need_the_word(text: str) -> None:
    exposed = settings(listeners=text)
    assert [text in line for line in anonymous_access_problems(exposed)] == [True]
    assert anonymous_access_problems(settings(listeners=text, odradek_allow_anonymous="true")) == []


def test_client_certificates_are_authentication() -> None:
    given = {"listeners": "SSL://:1", "listener.name.ssl.ssl.client.auth": "required"}
    assert anonymous(read(broker.BY_NAME, given)) == []


def test_a_change_answers_only_for_what_it_exposes_itself() -> None:
    before = settings(listeners="PLAINTEXT://:1")
    assert new_anonymous_access_problems(before, before) == []
    assert len(new_anonymous_access_problems(before, settings(listeners="PLAINTEXT://:1,SSL://:2"))) == 1
