"""docs/cli.md says what the commands say."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from odradek import commands
from odradek.cli.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
ROOT = typer.main.get_command(commands.app)


def test_the_page_of_commands_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(ROOT), "run: odradek command-reference > docs/cli.md"


def test_the_page_is_printed_by_a_command() -> None:
    assert CliRunner().invoke(commands.app, ["command-reference"]).output == page(ROOT)


@pytest.mark.parametrize("path", [line[3:] for line in page(ROOT).splitlines() if line.startswith("## ")])
def test_every_command_of_the_page_explains_itself(path: str) -> None:
    result = CliRunner().invoke(commands.app, [*path.split()[1:], "--help"])
    assert result.exit_code == 0
    assert "Usage: odradek" in result.output
