"""Typed options match the option tables."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from odradek.client.consumer import arguments as consumer_arguments
from odradek.client.options import typed_options
from odradek.client.options.parsing import ALIASES, _text
from odradek.client.producer import arguments as producer_arguments
from odradek.config.client import ADMIN, CONSUMER, PRODUCER
from odradek.config.client.definition import ClientConfigDef
from odradek.config.definition import Setting
from odradek.model.protocol_enums import ConfigType

SERDES = {
    "producer": {"key_serializer", "value_serializer"},
    "consumer": {"key_deserializer", "value_deserializer"},
    "admin": set(),
}
OPTIONS: dict[str, tuple[ClientConfigDef, Any]] = {
    "producer": (PRODUCER, typed_options.ProducerOptions),
    "consumer": (CONSUMER, typed_options.ConsumerOptions),
    "admin": (ADMIN, typed_options.AdminOptions),
}
KINDS: dict[ConfigType, set[type]] = {
    ConfigType.BOOLEAN: {bool},
    ConfigType.INT: {int},
    ConfigType.LONG: {int},
    ConfigType.SHORT: {int},
    ConfigType.DOUBLE: {float},
}


def keyword(name: str) -> str:
    return name.replace(".", "_")


def option_params() -> list[Any]:
    return [
        pytest.param(table.by_name[name], hint, id=f"{kind}-{name}")
        for kind, (table, typed) in OPTIONS.items()
        for option, hint in get_type_hints(typed).items()
        if (name := option.replace("_", ".")) in table.by_name
    ]


def literals(hint: Any) -> set[Any]:
    """Return all literals of a type, at any depth."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {value for part in get_args(hint) for value in literals(part)}


@pytest.mark.parametrize("kind", OPTIONS)
def test_typed_options_match_the_option_tables(kind: str) -> None:
    table, typed = OPTIONS[kind]
    in_table = {keyword(name) for name in (*table.by_name, *ALIASES)}
    assert in_table == set(get_type_hints(typed)) | SERDES[kind]


@pytest.mark.parametrize(("setting", "hint"), option_params())
def test_literals_and_types_match_the_option_tables(setting: Setting[Any], hint: Any) -> None:
    values = literals(hint)
    for value in values:
        setting.parse_value(_text(setting, value))
    if setting.allowed.startswith("one of "):
        assert {str(value) for value in values} == set(setting.allowed.removeprefix("one of ").split(", "))
    elif setting.allowed == "nothing":
        assert hint is type(None)
    elif setting.type in KINDS:
        assert KINDS[setting.type] <= set(get_args(hint))
        assert str not in get_args(hint)


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER], ids=lambda table: table.kind)
def test_each_serde_overload_accepts_all_options(table: ClientConfigDef) -> None:
    verb, module = ("Writes", producer_arguments) if table is PRODUCER else ("Reads", consumer_arguments)
    pattern = re.compile(rf"{verb}(Bytes|Text|Json|Own)(Bytes|Text|Json|Own)")
    overloads = {name: value for name, value in vars(module).items() if pattern.fullmatch(name)}
    assert len(overloads) == 16
    for overload in overloads.values():
        keys = overload.__required_keys__ | overload.__optional_keys__
        assert {keyword(name) for name in table.by_name} <= keys
