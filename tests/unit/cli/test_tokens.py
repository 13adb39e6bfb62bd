"""Options of ``odradek tokens`` that are usage errors."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from odradek import commands

INVALID = [
    (["create", "--owner", "alice"], "--owner must be in the format principalType:principalName"),
    (["create", "--renewer", "User:bob", "--renewer", "x"], "--renewer must be in the format"),
    (["create", "--max-lifetime-ms", "0"], "greater than or equal to 1"),
    (["list", "--owner", ""], "--owner must be in the format"),
    (["renew", "id", "--period-ms", "-1"], "greater than or equal to 0"),
    (["expire", "id", "--period-ms", "-1"], "greater than or equal to 0"),
    (["expire"], "Missing argument 'TOKEN'"),
]


@pytest.mark.parametrize(("arguments", "problem"), INVALID)
def test_invalid_options_are_usage_errors(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(commands.app, ["tokens", *arguments])
    assert result.exit_code == 2
    assert problem in result.output
