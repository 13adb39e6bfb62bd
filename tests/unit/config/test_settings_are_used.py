"""Every setting is either used or marked as inert or not available.

A setting is used by a module that acts on its value, not by declaring, describing or checking it.
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

# Without the client, which has options with the same names.
SERVER = ("broker", "controller", "coordinators", "replication", "log", "store", "system")

# Modules of ``config`` that act on values.
USING = {"listeners.py"}


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
def used_names() -> set[str]:
    """Return all names in modules that act on settings, and in the functions of ``derived`` they use."""
    config = SOURCE / "config"
    modules = [path for part in SERVER for path in (SOURCE / part).rglob("*.py")]
    modules += [config / name for name in USING]
    names = {name for path in modules for name in names_in(parsed(path))}
    functions = {
        node.name: set(names_in(node))
        for node in parsed(config / "derived.py").body
        if isinstance(node, ast.FunctionDef)
    }
    for name, used in functions.items():
        if name in names:
            names |= used
    return names


def is_topic_setting_used(setting: Setting[Any], used_names: set[str]) -> bool:
    field = setting.name.replace(".", "_")
    return TOPIC[setting] in used_names or (field in LogConfig.__slots__ and field in used_names)


def is_broker_setting_used(setting: Setting[Any], used_names: set[str]) -> bool:
    """Return whether a setting is used, directly or as the default of a topic setting that is used."""
    if BROKER[setting] in used_names:
        return True
    for inheriting, synonyms in topic.SYNONYMS.items():
        derive = broker_config._DERIVED.get(inheriting)
        used = () if derive is None else derive.__code__.co_names
        if setting in [synonym.setting for synonym in synonyms] or BROKER[setting] in used:
            return is_topic_setting_used(inheriting, used_names)
    return False


def marking_errors(usage: dict[Setting[Any], bool]) -> dict[str, list[str]]:
    return {
        "neither used nor marked": [
            setting.name
            for setting, is_used in usage.items()
            if not is_used and not setting.inert and not setting.unavailable
        ],
        "marked inert, but used": [
            setting.name for setting, is_used in usage.items() if is_used and setting.inert
        ],
        "marked twice": [setting.name for setting in usage if setting.inert and setting.unavailable],
    }


NO_ERRORS: dict[str, list[str]] = {
    "neither used nor marked": [],
    "marked inert, but used": [],
    "marked twice": [],
}


def test_every_broker_setting_is_used_or_marked(used_names: set[str]) -> None:
    assert (
        marking_errors({setting: is_broker_setting_used(setting, used_names) for setting in BROKER})
        == NO_ERRORS
    )


def test_every_topic_setting_is_used_or_marked(used_names: set[str]) -> None:
    assert (
        marking_errors({setting: is_topic_setting_used(setting, used_names) for setting in TOPIC})
        == NO_ERRORS
    )


def test_topic_setting_and_its_synonym_have_the_same_mark() -> None:
    different = [
        (setting.name, synonym.setting.name)
        for setting, synonyms in topic.SYNONYMS.items()
        for synonym in synonyms
        if setting.inert != synonym.setting.inert
    ]
    assert different == []
