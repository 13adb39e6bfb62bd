"""A plain serve is read the same way by the short cut and by the full command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from odradek import commands
from odradek.__main__ import LOG_LEVEL, read_plain_serve


def test_plain_serve_is_read_by_hand() -> None:
    assert read_plain_serve(["serve"]) == (None, [], LOG_LEVEL)
    assert read_plain_serve(
        ["serve", "--set", "a=1", "--config", "f", "--set", "b=-1", "--log-level", "info"]
    ) == (
        Path("f"),
        ["a=1", "b=-1"],
        "info",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["dump-log", "x"],
        ["serve", "--help"],
        ["serve", "-s", "a=1"],
        ["serve", "--set"],
        ["serve", "--set", "--config"],
        ["serve", "--what", "x"],
    ],
)
def test_anything_else_goes_to_the_commands(arguments: list[str]) -> None:
    assert read_plain_serve(arguments) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "--set", "a=1", "--set", "b=2"],
        ["serve", "--config", "server.properties", "--log-level", "debug", "--set", "c=3"],
    ],
)
def test_both_readings_of_serve_are_equal(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import odradek.broker.main as broker_main

    seen: list[Any] = []

    def run(config: Path | None, settings: list[str], variables: object, level: str) -> int:
        seen.append((config, settings, level))
        return 0

    monkeypatch.setattr(broker_main, "run", run)
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == 0, result.output
    assert seen == [read_plain_serve(arguments)]


def test_a_setting_that_cannot_be_read_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    from odradek.broker.main import run

    assert run(None, ["log.retention.hours=soon"], {}, "warning") == 1
    assert capsys.readouterr().err.splitlines() == [
        "odradek: Invalid value soon for configuration log.retention.hours: Not a number of type INT"
    ]


def test_an_unknown_log_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from odradek.broker.main import run

    assert run(None, [], {}, "loud") == 1
    assert "--log-level" in capsys.readouterr().err


def test_a_missing_config_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from odradek.broker.main import run

    assert run(tmp_path / "none.properties", [], {}, "warning") == 1
    assert "none.properties cannot be read" in capsys.readouterr().err


def test_help_and_version_import_no_client() -> None:
    """Whoever asks for help does not wait for what only a command needs."""
    import subprocess
    import sys

    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; import odradek.commands; "
            "print([m for m in sys.modules if 'client' in m or m == 'rich'])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.strip() == "[]"
