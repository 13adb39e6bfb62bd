"""Options as type checkers know them are those of the tables, with the same words."""

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
OPTIONS = {
    "producer": (PRODUCER, typed_options.ProducerOptions),
    "consumer": (CONSUMER, typed_options.ConsumerOptions),
    "admin": (ADMIN, typed_options.AdminOptions),
}
KINDS = {
    ConfigType.BOOLEAN: {bool},
    ConfigType.INT: {int},
    ConfigType.LONG: {int},
    ConfigType.SHORT: {int},
    ConfigType.DOUBLE: {float},
}


def keyword(name: str) -> str:
    return name.replace(".", "_")


def typed_options() -> list[Any]:
    return [
        pytest.param(table.by_name[name], hint, id=f"{kind}-{name}")
        for kind, (table, declared) in OPTIONS.items()
        for option, hint in get_type_hints(declared).items()
        if (name := option.replace("_", ".")) in table.by_name
    ]


def literals(hint: Any) -> set[Any]:
    """All words that a type allows, at any depth."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {word for part in get_args(hint) for word in literals(part)}


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_option_is_typed_and_every_typed_option_exists(kind: str) -> None:
    table, declared = OPTIONS[kind]
    in_table = {keyword(name) for name in (*table.by_name, *ALIASES)}
    assert in_table == set(get_type_hints(declared)) | SERDES[kind]


@pytest.mark.parametrize(("setting", "hint"), typed_options())
def test_words_and_types_are_those_of_the_table(setting: Setting[Any], hint: Any) -> None:
    words = literals(hint)
    for word in words:
        setting.parse_value(_text(setting, word))
    if setting.allowed.startswith("one of "):
        assert {str(word) for word in words} == set(setting.allowed.removeprefix("one of ").split(", "))
    elif setting.allowed == "nothing":
        assert hint is type(None)
    elif setting.type in KINDS:
        assert KINDS[setting.type] <= set(get_args(hint))
        assert str not in get_args(hint)


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER], ids=lambda table: table.kind)
def test_each_way_to_give_serdes_takes_all_options(table: ClientConfigDef) -> None:
    verb, module = ("Writes", producer_arguments) if table is PRODUCER else ("Reads", consumer_arguments)
    pattern = re.compile(rf"{verb}(Bytes|Text|Json|Own)(Bytes|Text|Json|Own)")
    ways = {name: found for name, found in vars(module).items() if pattern.fullmatch(name)}
    assert len(ways) == 16
    for way in ways.values():
        keys = way.__required_keys__ | way.__optional_keys__
        assert {keyword(name) for name in table.by_name} <= keys
