"""Properties common to all commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from odradek import commands
from odradek.cli.configs import _show_changes
from odradek.compiled_modules import FORM
from odradek.version import VERSION

WITHOUT_JSON = {
    "serve": "--log-format json",
    "dump-log": "prints the lines of Kafka's own tool",
    "command-reference": "prints a page",
}


def all_commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(all_commands(typer.main.get_command(commands.app)))


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in WITHOUT_JSON])
def test_every_command_has_json_option(path: str) -> None:
    assert "--json" in {name for option in COMMANDS[path].params for name in option.opts}


@pytest.mark.parametrize("arguments", [["-h"], ["topics", "-h"], ["topics", "list", "-h"], ["serve", "-h"]])
def test_short_help_option(arguments: list[str]) -> None:
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


@pytest.mark.parametrize("arguments", [["-V"], ["--version"], ["version"]])
def test_version(arguments: list[str]) -> None:
    assert CliRunner().invoke(commands.app, arguments).output == f"odradek {VERSION} ({FORM})\n"


def test_version_as_json() -> None:
    versions = json.loads(CliRunner().invoke(commands.app, ["version", "--json"]).output)
    assert versions["version"] == VERSION
    assert set(versions) == {"version", "python", "codec", "modules"}
    assert versions["modules"] == ("compiled" if FORM == "compiled" else "python")


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("listener.name.x.ssl.key.password", True),
        ("listener.name.x.plain.sasl.jaas.config", True),
        ("some.plugin.setting", True),
        ("retention.ms", False),
        ("log.retention.ms", False),
        ("listener.name.x.ssl.keystore.location", False),
    ],
)
def test_values_of_passwords_are_not_shown(
    name: str, is_hidden: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _show_changes({name: "the value"}, dry_run=False, as_json=False)
    assert ("the value" in capsys.readouterr().out) is not is_hidden
