"""The file of partitions for ``odradek elect-leaders``, and its options."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from odradek import commands
from odradek.cli.elect_leaders import parse_partitions
from odradek.cli.errors import CommandFailed
from odradek.model.ids import TopicPartition

ALL = "--all-topic-partitions"


def test_partitions_of_a_file() -> None:
    text = '{"partitions": [{"topic": "a", "partition": 1}, {"topic": "b", "partition": 0}], "version": 1}'
    assert parse_partitions(text, "f.json") == [TopicPartition("a", 1), TopicPartition("b", 0)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", r"f.json must contain .*, got JSONDecodeError"),
        ("{}", "got KeyError"),
        ("[]", "got TypeError"),
        ('{"partitions": [{"topic": "a"}]}', "got KeyError"),
        ('{"partitions": [{"topic": "a", "partition": "0"}]}', "partition a number, got a-0"),
        ('{"partitions": [{"topic": "a", "partition": true}]}', "partition a number, got a-True"),
        ('{"partitions": [{"topic": 1, "partition": 0}]}', "topic must be a string"),
        ('{"partitions": []}', "at least one partition, got none"),
        (
            '{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 0}]}',
            "each partition once, got a-0 twice",
        ),
    ],
)
def test_invalid_file_is_reported(text: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem):
        parse_partitions(text, "f.json")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "exactly one of --topic, --path-to-json-file and --all-topic-partitions is required"),
        ([ALL, "--topic", "a", "--partition", "0"], "exactly one of"),
        ([ALL, "--path-to-json-file", "f.json"], "exactly one of"),
        (["--topic", "a"], "--topic and --partition must be used together"),
        ([ALL, "--partition", "0"], "--topic and --partition must be used together"),
    ],
)
def test_options_that_exclude_each_other(options: list[str], problem: str) -> None:
    result = CliRunner().invoke(commands.app, ["elect-leaders", "--election-type", "preferred", *options])
    assert result.exit_code == 2
    assert problem in result.output
