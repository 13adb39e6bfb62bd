"""A broker's and a topic's setting has a reader, or a mark that says it has none: never neither, never both.

A reader is a module that takes the setting's value to act on it. Declaring a setting, describing it, and
checking it against others is not reading it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import odradek
from odradek.config import broker, topic
from odradek.config.broker import throttles
from odradek.config.definition import Setting
from odradek.config.dynamic import broker_config
from odradek.log.log_config import LogConfig

SOURCE = Path(odradek.__file__).parent

# Clients have options with the same names.
SERVER = ("broker", "controller", "coordinators", "replication", "log", "store", "system")

# Modules of ``config`` that act on values; the others declare, check and describe them.
ACTING = {"listeners.py"}


def constants(module: Any) -> dict[Setting[Any], str]:
    return {value: name for name, value in vars(module).items() if isinstance(value, Setting)}


BROKER = {**constants(broker), **constants(throttles)}
TOPIC = constants(topic)


def names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def read_names() -> set[str]:
    """All names in the modules that act on settings, and in the functions of ``config.derived`` they use."""
    config = SOURCE / "config"
    modules = [path for part in SERVER for path in (SOURCE / part).rglob("*.py")]
    modules += [config / name for name in ACTING]
    found = {name for path in modules for name in names_in(parsed(path))}
    functions = {
        node.name: set(names_in(node))
        for node in parsed(config / "derived.py").body
        if isinstance(node, ast.FunctionDef)
    }
    for name, inside in functions.items():
        if name in found:
            found |= inside
    return found


def is_topic_setting_read(setting: Setting[Any], read_names: set[str]) -> bool:
    field = setting.name.replace(".", "_")
    return TOPIC[setting] in read_names or (field in LogConfig.__slots__ and field in read_names)


def is_broker_setting_read(setting: Setting[Any], read_names: set[str]) -> bool:
    """By its own name, or as the default of a topic's setting that is read."""
    if BROKER[setting] in read_names:
        return True
    for inheriting, synonyms in topic.SYNONYMS.items():
        rule = broker_config._DERIVED.get(inheriting)
        inside = () if rule is None else rule.__code__.co_names
        if setting in [one.setting for one in synonyms] or BROKER[setting] in inside:
            return is_topic_setting_read(inheriting, read_names)
    return False


def faults(read: dict[Setting[Any], bool]) -> dict[str, list[str]]:
    return {
        "neither read nor marked": [
            one.name for one, is_read in read.items() if not is_read and not one.inert and not one.refused
        ],
        "marked inert, but read": [one.name for one, is_read in read.items() if is_read and one.inert],
        "marked twice": [one.name for one in read if one.inert and one.refused],
    }


NO_FAULTS: dict[str, list[str]] = {
    "neither read nor marked": [],
    "marked inert, but read": [],
    "marked twice": [],
}


def test_every_broker_setting_is_read_or_marked(read_names: set[str]) -> None:
    assert faults({one: is_broker_setting_read(one, read_names) for one in BROKER}) == NO_FAULTS


def test_every_topic_setting_is_read_or_marked(read_names: set[str]) -> None:
    assert faults({one: is_topic_setting_read(one, read_names) for one in TOPIC}) == NO_FAULTS


def test_a_setting_that_is_the_default_of_another_is_marked_like_it() -> None:
    unlike = [
        (one.name, synonym.setting.name)
        for one, synonyms in topic.SYNONYMS.items()
        for synonym in synonyms
        if one.inert != synonym.setting.inert
    ]
    assert unlike == []
