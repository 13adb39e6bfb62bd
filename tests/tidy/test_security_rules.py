"""Rules of secure code: no imports by names from configuration, no comparison of secrets that leaks time."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.broker.start_checks import check_settings
from odradek.config import broker, sources
from odradek.config.client import ADMIN, CONSUMER, PRODUCER
from odradek.config.definition import AnySetting, parse_settings
from odradek.model.errors import ConfigError
from odradek.model.protocol_enums import ConfigType

from .sources import ROOT, SOURCE, name_of, python_files, tree_of

IMPORTING = frozenset({"import_module", "__import__", "exec", "eval", "find_spec", "spec_from_file_location"})
IMPORTS = {
    "src/odradek/__init__.py": "lazy imports of the public names, from a table",
    "src/odradek/broker/handlers/__init__.py": "lazy imports of handlers, from a table",
    "src/odradek/broker/preloading.py": "the same, in the background",
    "src/odradek/compiled_modules.py": "the compiled form of a module of the package",
    "src/odradek/records/implementation.py": "the compiled codec, or the one in Python",
    "src/odradek/system/java.py": "an installed Java",
    "src/odradek/system/local_zookeeper.py": "an installed PySpark",
    "src/odradek/wire/apis.py": "lazy imports of messages, from a table",
    "src/odradek/wire/code_buffer.py": "generated codecs, from the tables of messages",
    "src/odradek/wire/message_codecs.py": "the compiled codecs",
    "src/odradek/wire/schema.py": "generated initializers, from the tables of messages",
}
"""Modules that import or execute by name, and what. None takes the name from a setting or a request."""
OF_PIPELINES = "src/odradek/pipelines/"
"""A pipeline names a function of its user, on the user's machine: brokers and clients import none of it."""

SECRET_NAME = re.compile(
    r"(password|secret|proof|signature|digest|hmac|mac|stored_key|server_key|client_key|credential)s?$"
)
COMPARED = {
    "src/odradek/cli/users.py": "a password and its repetition, both typed by the same person",
}


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield all names that are used, called or passed on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr


def compared_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of what is compared by == or !=."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            for operand in (node.left, *node.comparators):
                is_length = isinstance(operand, ast.Call) and getattr(operand.func, "id", "") == "len"
                for part in () if is_length else ast.walk(operand):
                    yield str(getattr(part, "id", None) or getattr(part, "attr", ""))


def test_only_known_modules_import_by_name() -> None:
    importing = {
        name_of(path)
        for path in python_files("src")
        if IMPORTING & set(identifiers(tree_of(path))) and not name_of(path).startswith(OF_PIPELINES)
    }
    assert importing == set(IMPORTS)


def test_settings_layers_cannot_import_by_name() -> None:
    """Modules that read settings or requests of others do not even have the means."""
    for layer in (
        "config",
        "security",
        "broker/security",
        "broker/requests",
        "broker/network",
        "client",
        "net",
    ):
        for path in (SOURCE / layer).rglob("*.py"):
            tree = tree_of(path)
            assert not IMPORTING & set(identifiers(tree)), name_of(path)
            assert "importlib" not in path.read_text(encoding="utf-8"), name_of(path)


def test_secrets_are_not_compared_by_equality() -> None:
    compared = {
        name_of(path)
        for path in python_files("src")
        if any(SECRET_NAME.search(name) for name in compared_names(tree_of(path)))
    }
    assert compared == set(COMPARED)


def test_rules_detect_what_they_look_for() -> None:
    assert IMPORTING & set(identifiers(ast.parse("importlib.import_module(name)")))
    assert IMPORTING & set(identifiers(ast.parse("eval(text)")))
    (name,) = [name for name in compared_names(ast.parse("self.proof == x")) if SECRET_NAME.search(name)]
    assert name == "proof"
    assert not any(map(SECRET_NAME.search, compared_names(ast.parse("hmac.compare_digest(proof, x)"))))


OF_CLIENTS = {**PRODUCER.by_name, **CONSUMER.by_name, **ADMIN.by_name}
CLASSES = [
    pytest.param(setting, table, id=f"{kind}-{name}")
    for kind, table in (("broker", broker.BY_NAME), ("client", OF_CLIENTS))
    for name, setting in table.items()
    if setting.type is ConfigType.CLASS or name.endswith((".class", ".classes", ".reporters"))
]


@pytest.mark.parametrize(("setting", "table"), CLASSES)
def test_class_names_are_not_imported(
    setting: AnySetting, table: dict[str, AnySetting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "imported_by_configuration"
    (tmp_path / f"{name}.py").write_text("class Evil:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with suppress(ConfigError):
        parse_settings(table, {setting.name: f"{name}.Evil"})
    if table is broker.BY_NAME:
        with suppress(ConfigError):
            loaded = sources.load(None, {}, [f"{setting.name}={name}.Evil"])
            check_settings(loaded.settings, loaded.raw_values)
    assert name not in sys.modules


def test_there_are_settings_with_class_names() -> None:
    assert len(CLASSES) > 10
    assert ROOT in SOURCE.parents
