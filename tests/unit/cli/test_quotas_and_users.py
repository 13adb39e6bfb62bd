"""Options of ``odradek quotas`` and ``odradek users`` that are usage errors."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from odradek import commands

INVALID = [
    (["quotas", "set", "producer_byte_rate=1"], "at least one of --user, --client-id, --ip"),
    (["quotas", "remove", "producer_byte_rate"], "at least one of --user, --client-id, --ip"),
    (["quotas", "set", "--user", "a", "producer_byte_rate"], "must be NAME=VALUE"),
    (
        ["quotas", "set", "--user", "a", "producer_byte_rate=x"],
        "producer_byte_rate must be a number, got 'x'",
    ),
    (["quotas", "list", "--user", "a", "--default-user"], "--user and --default-user must not be combined"),
    (["users", "add", "alice", "--mechanism", "PLAIN"], "one of SCRAM-SHA-256, SCRAM-SHA-512, got 'PLAIN'"),
    (["users", "add", "alice", "--iterations", "4095"], "greater than or equal to 4096"),
    (["users", "add", "alice"], "the password must not be empty"),
]


@pytest.mark.parametrize(("arguments", "problem"), INVALID)
def test_invalid_options_are_usage_errors(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(commands.app, arguments, input="\n")
    assert result.exit_code == 2
    assert problem in result.output
