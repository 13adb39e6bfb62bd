"""The JSON files of ``odradek reassign``."""

from __future__ import annotations

import json

import pytest

from odradek.cli.errors import CommandFailed
from odradek.cli.reassign.assignment_json import (
    Reassignment,
    format_reassignment,
    parse_reassignment,
    parse_topics_to_move,
)
from odradek.model.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def entry(topic: object = "a", partition: object = 0, replicas: object = (1, 2), **fields: object) -> str:
    partitions = [{"topic": topic, "partition": partition, "replicas": replicas, **fields}]
    return json.dumps({"version": 1, "partitions": partitions})


def test_file_of_topics_to_move() -> None:
    text = '{"topics": [{"topic": "b"}, {"topic": "a"}], "version": 1}'
    assert parse_topics_to_move(text, "f.json") == ["b", "a"]


def test_line_is_the_same_as_that_of_kafkas_tool() -> None:
    assert format_reassignment({B0: (3,), A1: (1, 2)}) == (
        '{"version":1,"partitions":['
        '{"topic":"a","partition":1,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"b","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
    )


def test_formatted_reassignment_is_parsed() -> None:
    targets = {A0: (3, 1), A1: (1, 2), B0: (2,)}
    assert parse_reassignment(format_reassignment(targets), "f.json") == Reassignment(targets, {})


def test_version_and_log_dirs_may_be_missing() -> None:
    text = '{"partitions": [{"topic": "a", "partition": 0, "replicas": [2, 1]}]}'
    assert parse_reassignment(text, "f.json") == Reassignment({A0: (2, 1)}, {})


def test_log_dirs_of_replicas_without_those_that_brokers_choose() -> None:
    text = entry(replicas=[1, 2, 3], log_dirs=["any", "/d2", "/d3"])
    assert parse_reassignment(text, "f.json").log_dirs == {A0: {2: "/d2", 3: "/d3"}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"partitions": [\n{"topic": "a",\n"partition": }]}', "f.json must be JSON, got line 3 column 14: "),
        ("", "got line 1 column 1: "),
        ("[" * 100_000, "f.json must be JSON, got too many nested values"),
        ("[]", r'f.json must be an object with "partitions", got \[\]'),
        ("{}", '"partitions" must be a non-empty list, got null'),
        ('{"partitions": []}', r"non-empty list, got \[\]"),
        ('{"version": 2, "partitions": []}', "version must be 1, got 2"),
        ('{"partitions": ["a"]}', r'partitions\[0\] must have "topic" with a string, got "a"'),
        (entry(topic=1), '"topic" with a string'),
        (entry(partition="0"), '"partition" with a number'),
        (entry(partition=True), '"partition" with a number'),
        (entry(replicas=None), '"replicas" must be a non-empty list of broker ids, got null'),
        (entry(replicas=[]), '"replicas" must be a non-empty list'),
        (entry(replicas=["1"]), '"replicas" must be a non-empty list'),
        (entry(replicas=[1, 2, 1]), r"partitions\[0\]: replicas of a-0 must be distinct, got 1 twice"),
        (entry(log_dirs=["any"]), '"log_dirs" must have a path or "any" for each of 2 replicas'),
        (entry(log_dirs="any"), '"log_dirs" must have'),
        (entry(log_dirs=["any", 7]), '"log_dirs" must have'),
    ],
)
def test_invalid_reassignment_is_reported_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem) as raised:
        parse_reassignment(text, "f.json")
    assert "\n" not in str(raised.value)


def test_partition_twice_is_reported() -> None:
    text = json.dumps({"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}] * 2})
    with pytest.raises(CommandFailed, match=r"f\.json must name each partition once, got a-0 twice"):
        parse_reassignment(text, "f.json")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "f.json must be JSON, got line 1"),
        ('{"topics": []}', '"topics" must be a non-empty list'),
        ('{"topics": ["a"]}', r'topics\[0\] must have "topic" with a string, got "a"'),
        ('{"topics": [{"topic": "a"}, {"topic": "a"}]}', "must name each topic once, got a twice"),
    ],
)
def test_invalid_topics_to_move_are_reported(text: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem):
        parse_topics_to_move(text, "f.json")
