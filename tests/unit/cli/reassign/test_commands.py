"""Options and files of ``odradek reassign``, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from odradek import commands
from odradek.cli.errors import CommandFailed
from odradek.cli.reassign.execute import save_rollback
from odradek.cli.reassign.plan import Move
from odradek.model.ids import TopicPartition

MOVES = [Move(TopicPartition("a", 0), (1, 2), (3,))]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--broker-list", "1"], "exactly one of --topics, --topics-to-move-json-file and --all-topics"),
        (["--broker-list", "1", "--topics", "a", "--all-topics"], "exactly one of --topics"),
        (["--broker-list", "1,", "--topics", "a"], "--broker-list must be broker ids with commas between"),
        (["--broker-list", "x", "--topics", "a"], "--broker-list must be broker ids with commas between"),
        (["--broker-list", "1", "--topics", "a,a"], "--topics must be distinct names"),
        (["--broker-list", "1", "--topics", "a,"], "--topics must be distinct names"),
    ],
)
def test_usage_errors_of_generate(options: list[str], problem: str) -> None:
    result = CliRunner().invoke(commands.app, ["reassign", "generate", *options])
    assert result.exit_code == 2
    assert problem in result.output


@pytest.mark.parametrize("name", ["execute", "verify", "cancel"])
def test_file_is_read_before_any_request(name: str, tmp_path: Path) -> None:
    file = tmp_path / "move.json"
    command = ["reassign", name, "--reassignment-json-file", str(file)]
    missing = CliRunner().invoke(commands.app, command)
    assert missing.exit_code == 1
    assert "move.json cannot be read" in missing.output
    file.write_text('{"partitions": [\n}')
    malformed = CliRunner().invoke(commands.app, command)
    assert malformed.exit_code == 1
    assert "move.json must be JSON, got line 2 column 1" in malformed.output


def test_rollback_is_saved_beside_the_file_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "move.json"
    first = save_rollback(file, MOVES)
    second = save_rollback(file, [MOVES[0]._replace(before=(9,))])
    assert [first.name, second.name] == ["move.rollback.json", "move.rollback-2.json"]
    (partition,) = json.loads(first.read_text())["partitions"]
    assert partition == {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    with pytest.raises(CommandFailed, match="cannot be written"):
        save_rollback(tmp_path / "missing" / "move.json", MOVES)
