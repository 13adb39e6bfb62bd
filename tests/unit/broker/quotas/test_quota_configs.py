"""Quotas in requests and in the store: entities, keys, values and filters, as in ``ZkAdminManager``."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.quotas.entity_paths import (
    entity_path,
    normalize_ip,
    parse_ip_entity,
    parse_quota_entity,
)
from odradek.broker.quotas.quota_configs import (
    CLIENT_QUOTAS,
    IP_QUOTAS,
    ValueType,
    alter_quotas,
    parse_quotas,
)
from odradek.broker.quotas.quota_entities import DEFAULT, QuotaEntity
from odradek.broker.quotas.quota_filters import ANY, DEFAULT_ENTITY, EXACT, parse_filter
from odradek.model.errors import BrokerError, ErrorCode
from odradek.store.layout.entity_names import desanitize, sanitize


class Part(NamedTuple):
    entity_type: str
    entity_name: str | None


class Op(NamedTuple):
    key: str
    value: float = 0.0
    remove: bool = False


class Component(NamedTuple):
    entity_type: str
    match_type: int = ANY
    match: str | None = None


NODES = [
    ("app", "app"),
    ("a.b-c_d", "a.b-c_d"),
    ("CN=some user, O=x", "CN%3Dsome%20user%2C%20O%3Dx"),
    ("a/b", "a%2Fb"),
    ("*+~", "%2A%2B%7E"),
    ("<default>", "%3Cdefault%3E"),
    ("böse", "b%C3%B6se"),
    ("100%", "100%25"),
]


@pytest.mark.parametrize(("name", "node"), NODES)
def test_names_are_encoded_as_by_kafka(name: str, node: str) -> None:
    assert sanitize(name) == node
    assert desanitize(node) == name


@given(st.text(st.characters(codec="utf-8")))
def test_any_name_is_one_node_and_comes_back(name: str) -> None:
    node = sanitize(name)
    assert desanitize(node) == name
    assert "/" not in node
    assert node != "<default>"


PATHS = [
    ([Part("user", "alice")], "users", "alice", CLIENT_QUOTAS),
    ([Part("user", None)], "users", "<default>", CLIENT_QUOTAS),
    ([Part("client-id", "a/b")], "clients", "a%2Fb", CLIENT_QUOTAS),
    ([Part("client-id", "b"), Part("user", "a")], "users", "a/clients/b", CLIENT_QUOTAS),
    ([Part("user", None), Part("client-id", None)], "users", "<default>/clients/<default>", CLIENT_QUOTAS),
    ([Part("ip", "10.0.0.1")], "ips", "10.0.0.1", IP_QUOTAS),
    ([Part("ip", "::1")], "ips", "%3A%3A1", IP_QUOTAS),
    ([Part("ip", None)], "ips", "<default>", IP_QUOTAS),
]


@pytest.mark.parametrize(("parts", "config_type", "name", "types"), PATHS)
def test_entity_of_a_request_has_a_node(
    parts: list[Part], config_type: str, name: str, types: dict[str, ValueType]
) -> None:
    assert entity_path(parts) == (config_type, name, types)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Part("user", "")],
        [Part("user", "..")],
        [Part("client-id", ".")],
        [Part("user", "a"), Part("user", "b")],
        [Part("ip", "10.0.0.1"), Part("user", "a")],
        [Part("ip", "10.0.0.256")],
        [Part("ip", "not an address")],
        [Part("planet", "mars")],
    ],
)
def test_invalid_entity_is_rejected(parts: list[Part]) -> None:
    with pytest.raises(BrokerError) as error:
        entity_path(parts)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert error.value.message


@pytest.mark.parametrize(
    ("config_type", "name", "entity"),
    [
        ("users", "a%20b", QuotaEntity("a b", None)),
        ("users", "<default>", QuotaEntity(DEFAULT, None)),
        ("users", "a/clients/<default>", QuotaEntity("a", DEFAULT)),
        ("users", "<default>/clients/b%2Fc", QuotaEntity(DEFAULT, "b/c")),
        ("clients", "b", QuotaEntity(None, "b")),
        ("clients", "<default>", QuotaEntity(None, DEFAULT)),
        ("clients", "a/b", None),
        ("users", "a/b", None),
        ("users", "a/groups/b", None),
        ("users", "a/clients/b/c", None),
    ],
)
def test_node_has_an_entity(config_type: str, name: str, entity: QuotaEntity | None) -> None:
    assert parse_quota_entity(config_type, name) == entity


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::FFFF:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("localhost", None),
        ("", None),
    ],
)
def test_addresses_have_one_form(text: str, address: str | None) -> None:
    assert normalize_ip(text) == address
    assert parse_ip_entity(sanitize(text)) == address
    assert parse_ip_entity("<default>") is DEFAULT


ALTERED = [
    ({}, [Op("producer_byte_rate", 1024.0)], {"producer_byte_rate": "1024"}),
    ({}, [Op("producer_byte_rate", 1023.9999999)], {"producer_byte_rate": "1024"}),
    ({}, [Op("producer_byte_rate", 2.0**63)], {"producer_byte_rate": str(2**63 - 1)}),
    ({}, [Op("request_percentage", 12.5)], {"request_percentage": "12.5"}),
    ({}, [Op("controller_mutation_rate", 3.0)], {"controller_mutation_rate": "3.0"}),
    (
        {"producer_byte_rate": "1", "SCRAM-SHA-256": "x"},
        [Op("producer_byte_rate", remove=True), Op("consumer_byte_rate", 5.0)],
        {"SCRAM-SHA-256": "x", "consumer_byte_rate": "5"},
    ),
    ({"SCRAM-SHA-256": "x"}, [Op("SCRAM-SHA-256", remove=True)], {"SCRAM-SHA-256": "x"}),
    ({}, [Op("unknown", remove=True)], {}),
]


@pytest.mark.parametrize(("before", "ops", "after"), ALTERED)
def test_operations_change_quotas_and_nothing_else(
    before: dict[str, str], ops: list[Op], after: dict[str, str]
) -> None:
    original = dict(before)
    assert alter_quotas(before, ops, CLIENT_QUOTAS) == after
    assert before == original


@pytest.mark.parametrize(
    "op",
    [
        Op("producer_byte_rate", 10.5),
        Op("consumer_byte_rate", 1e30),
        Op("consumer_byte_rate", math.nan),
        Op("request_percentage", math.inf),
        Op("connection_creation_rate", 1.0),
        Op("SCRAM-SHA-256", 1.0),
        Op("", 1.0),
    ],
)
def test_invalid_quota_of_a_client_is_rejected(op: Op) -> None:
    with pytest.raises(BrokerError) as error:
        alter_quotas({}, [op], CLIENT_QUOTAS)
    assert error.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("value", [-1.0, 0.5, 2.0**31, math.nan])
def test_invalid_quota_of_an_address_is_rejected(value: float) -> None:
    with pytest.raises(BrokerError):
        alter_quotas({}, [Op("connection_creation_rate", value)], IP_QUOTAS)
    assert alter_quotas({}, [Op("connection_creation_rate", 0.0)], IP_QUOTAS)


def test_invalid_values_in_the_store_are_reported_and_skipped() -> None:
    config = {"producer_byte_rate": "many", "consumer_byte_rate": "10", "request_percentage": ""}
    quotas = parse_quotas({**config, "SCRAM-SHA-256": "secret"}, CLIENT_QUOTAS)
    assert quotas.values == {"consumer_byte_rate": 10}
    [problem] = quotas.problems
    assert problem == "producer_byte_rate must be a number, got 'many'"


USER, CLIENT, PAIR, IPS = "user", "client", "pair", "ip"
FILTERS = [
    ([], False, {USER, CLIENT, PAIR, IPS}),
    ([], True, set()),
    ([Component("user")], False, {USER, PAIR}),
    ([Component("user")], True, {USER}),
    ([Component("user", EXACT, "a")], False, {USER, PAIR}),
    ([Component("user", EXACT, "a")], True, {USER}),
    ([Component("user", DEFAULT_ENTITY)], True, {USER}),
    ([Component("client-id", EXACT, "a")], False, {CLIENT, PAIR}),
    ([Component("client-id", EXACT, "a")], True, {CLIENT}),
    ([Component("user", EXACT, "a"), Component("client-id", EXACT, "b")], False, {PAIR}),
    ([Component("user", EXACT, "a"), Component("client-id")], True, {PAIR}),
    ([Component("user"), Component("client-id")], True, {PAIR}),
    ([Component("ip")], True, {IPS}),
    ([Component("ip", EXACT, "10.0.0.1")], False, {IPS}),
]


@pytest.mark.parametrize(("components", "strict", "read"), FILTERS)
def test_filter_selects_kinds_of_entities(components: list[Component], strict: bool, read: set[str]) -> None:
    selected = parse_filter(components, strict)
    flags = (selected.includes_users, selected.includes_clients, selected.includes_pairs)
    kinds = dict(zip((USER, CLIENT, PAIR, IPS), (*flags, selected.includes_ips), strict=True))
    assert {kind for kind, is_read in kinds.items() if is_read} == read


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("user"), Component("user")], ErrorCode.INVALID_REQUEST),
        ([Component("user"), Component("ip")], ErrorCode.INVALID_REQUEST),
        ([Component("")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 3)], ErrorCode.INVALID_REQUEST),
        ([Component("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([Component("user", EXACT, "")], ErrorCode.INVALID_REQUEST),
        ([Component("planet")], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_invalid_filter_is_rejected(components: list[Component], code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as error:
        parse_filter(components, strict=False)
    assert error.value.code is code
