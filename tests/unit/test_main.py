"""A plain serve is read the same way by the short cut and by the full command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from odradek import commands
from odradek.__main__ import parse_plain_serve
from odradek.broker.main import run
from odradek.broker.serve_options import ServeOptions
from odradek.broker.serve_options import arguments as arguments_of
from odradek.config.broker import ODRADEK_LOG_FORMAT, ODRADEK_LOG_LEVEL
from odradek.records.codec import COMPILED
from odradek.telemetry import events


def test_plain_serve_is_read_by_hand() -> None:
    assert parse_plain_serve(["serve"]) == ServeOptions()
    assert parse_plain_serve(
        ["serve", "--set", "a=1", "--config", "f", "--set", "b=-1", "--log-level", "info"]
    ) == ServeOptions(Path("f"), ("a=1", "b=-1"), log_level="info")
    assert parse_plain_serve(["serve", "--ephemeral", "--port", "0", "--check-config"]) == ServeOptions(
        port=0, ephemeral=True, check_config=True
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
        ["serve", "--port", "many"],
        ["serve", "--port=1"],
    ],
)
def test_anything_else_goes_to_the_commands(arguments: list[str]) -> None:
    assert parse_plain_serve(arguments) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "--set", "a=1", "--set", "b=2"],
        ["serve", "--config", "server.properties", "--log-level", "debug", "--set", "c=3"],
        ["serve", "--host", "::1", "--port", "1", "--data-dir", "d"],
        ["serve", "--ephemeral", "--check-config"],
        ["serve", "--log-format", "json"],
    ],
)
def test_both_readings_of_serve_are_equal(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import odradek.broker.main as broker_main

    seen: list[Any] = []

    def run(options: ServeOptions, variables: object) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr(broker_main, "run", run)
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == 0, result.output
    assert seen == [parse_plain_serve(arguments)]


def test_options_stand_for_settings() -> None:
    assert arguments_of(ServeOptions(), None) == []
    assert arguments_of(ServeOptions(port=1), None) == ["listeners=PLAINTEXT://127.0.0.1:1"]
    assert arguments_of(ServeOptions(host="::1"), "d") == ["listeners=PLAINTEXT://[::1]:9092", "log.dirs=d"]
    assert arguments_of(ServeOptions(ephemeral=True), "t") == [
        "listeners=PLAINTEXT://127.0.0.1:0",
        "log.dirs=t",
    ]
    kept = ("listeners=PLAINTEXT://127.0.0.1:7",)
    assert arguments_of(ServeOptions(settings=kept, ephemeral=True), None) == list(kept)
    assert arguments_of(ServeOptions(settings=("a=1",), log_level="info"), None) == [
        "odradek.log.level=info",
        "a=1",
    ]


@pytest.mark.parametrize(
    "options",
    [
        ServeOptions(settings=("listeners=PLAINTEXT://127.0.0.1:1",), port=1),
        ServeOptions(ephemeral=True, data_dir="d"),
        ServeOptions(settings=("log.dir=d",), ephemeral=True),
        ServeOptions(data_dir="a,b"),
        ServeOptions(port=65536),
    ],
)
def test_options_that_contradict_each_other_are_wrong_use(
    options: ServeOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(options, {}) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_setting_that_cannot_be_read_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ServeOptions(settings=("log.retention.hours=soon",)), {}) == 1
    assert capsys.readouterr().err.splitlines() == [
        "odradek: log.retention.hours must be an integer of 32 bits, got soon"
    ]


@pytest.mark.parametrize(
    ("options", "variables"),
    [(ServeOptions(log_level="loud"), {}), (ServeOptions(), {"ODRADEK_LOG_LEVEL": "loud"})],
)
def test_an_unknown_log_level_is_refused(
    options: ServeOptions, variables: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(options, variables) == 1
    assert "odradek.log.level must be one of " in capsys.readouterr().err


def test_the_levels_of_the_setting_are_those_of_the_events() -> None:
    check = ODRADEK_LOG_LEVEL.check
    assert check is not None
    assert [level for level in (*events.LEVELS, "loud") if check(level) is None] == list(events.LEVELS)


def test_the_formats_of_the_setting_are_those_of_the_events() -> None:
    assert ODRADEK_LOG_FORMAT.check is not None
    assert [form for form in (*events.FORMATS, "xml") if ODRADEK_LOG_FORMAT.check(form) is None] == list(
        events.FORMATS
    )


def test_a_missing_config_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ServeOptions(tmp_path / "none.properties"), {}) == 1
    assert "none.properties cannot be read" in capsys.readouterr().err


def test_a_plain_serve_imports_no_typer() -> None:
    # The checksum of the pure codec comes with a package that imports tempfile.
    unwanted = ["typer", "rich", "odradek.client", *(["tempfile"] if COMPILED else [])]
    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; import odradek.__main__, odradek.broker.main; "
            f"print([m for m in {unwanted} if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.strip() == "[]"


def test_help_and_version_import_no_client() -> None:
    """Help is printed without importing the modules that only a command needs."""
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
