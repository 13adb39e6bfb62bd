"""Whether a pipeline could run, decided from what was found."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.client.admin.topics import TopicDescription
from odradek.client.values import PartitionInfo
from odradek.model.acl_operations import Operation
from odradek.pipelines.run.checks import (
    Check,
    directory_check,
    failed_count,
    group_check,
    key_check,
    package_checks,
    port_check,
    table_check,
    topic_check,
)
from odradek.pipelines.run.plan_check import can_plan

DELTA = 'type = "delta"\npath = "lake"'


def described(*leaders: int, allowed: frozenset[Operation] | None = None) -> TopicDescription:
    partitions = tuple(PartitionInfo("t", n, leader, (1,), (1,)) for n, leader in enumerate(leaders))
    return TopicDescription("t", None, False, partitions, allowed)


def refused(check: Check) -> tuple[str, str]:
    """What is wrong and what to do, of a check that must have failed."""
    assert not check.ok
    assert check.fix is not None
    return check.found, check.fix


def test_a_missing_package_is_told_with_what_installs_it() -> None:
    checks = list(package_checks(spec_of(), lambda name: name != "pyspark"))
    assert [one.what for one in checks if not one.ok] == ["package pyspark"]
    assert checks[0].fix == 'pip install "odradek[spark]"'
    assert failed_count(checks) == 1


def test_deltalake_is_needed_only_for_delta() -> None:
    def names(sink: str) -> list[str]:
        return [one.what for one in package_checks(spec_of(sink=sink), lambda name: True)]

    assert "package deltalake" in names(DELTA)
    assert "package deltalake" not in names('type = "noop"')


def test_a_topic_with_leaders_is_fine() -> None:
    assert topic_check("source topic", "t", described(1, 2), Operation.READ) == Check(
        "source topic t", True, "2 partitions"
    )
    assert topic_check("source topic", "t", described(1), Operation.READ).found == "1 partition"


def test_a_topic_that_is_not_there_is_told_with_what_makes_it() -> None:
    _, fix = refused(topic_check("sink topic", "t", None, Operation.WRITE, brokers="b:1"))
    assert fix == "odradek topics create t -b b:1, or correct the name"


def test_a_topic_that_brokers_make_by_themselves_is_no_fault() -> None:
    assert topic_check("sink topic", "t", None, Operation.WRITE, is_made=True).ok


@pytest.mark.parametrize(
    ("what", "source", "is_planned"),
    [
        ("source topic t", "", True),
        ("source brokers", "", True),
        ("checkpoint content", "", True),
        ("package pyspark", "", False),
        ("Java", "", False),
        ("transform", "", False),
        ("source table", 'type = "table"\npath = "lake"', False),
        (
            "source topic t",
            'brokers = "b:1"\ntopics = ["t"]\nvalue = {format = "json", schema = "sample"}',
            False,
        ),
    ],
)
def test_spark_plans_the_query_whatever_else_is_wrong_if_it_can(
    what: str, source: str, is_planned: bool
) -> None:
    checks = [Check("file", True, "f"), Check(what, False, "wrong")]
    assert can_plan(spec_of(source), checks) is is_planned


def test_a_partition_without_a_leader_is_named() -> None:
    found, _ = refused(topic_check("source topic", "t", described(1, -1), Operation.READ))
    assert found == "no leader for partition 1"


def test_what_is_not_allowed_is_named() -> None:
    one = described(1, allowed=frozenset({Operation.DESCRIBE, Operation.READ}))
    assert topic_check("source topic", "t", one, Operation.READ).ok
    found, fix = refused(topic_check("sink topic", "t", one, Operation.WRITE))
    assert found == "WRITE is not allowed"
    assert "topic t" in fix
    assert refused(group_check("g", {Operation.DESCRIBE}))[0] == "READ is not allowed"
    assert group_check("g", None).ok
    assert group_check("g", {Operation.READ}).ok


def test_a_folder_is_there_or_can_be_made(tmp_path: Path) -> None:
    assert directory_check("sink path", str(tmp_path)).ok
    assert directory_check("sink path", str(tmp_path / "a" / "b")).found.endswith("(will be made)")


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert "is a file" in refused(directory_check("sink path", str(tmp_path / "a")))[0]


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "cannot be written to" in refused(directory_check("checkpoint", str(tmp_path / "a")))[0]


def test_a_table_partitioned_otherwise_is_told() -> None:
    assert table_check("lake", ["day"], ["day"], ["id", "day"]).ok
    assert table_check("lake", [], ["day"], ["id", "day"]).ok
    assert refused(table_check("lake", ["hour"], ["day"], ["id"]))[0] == "lake is partitioned by day"
    assert refused(table_check("lake", ["hour"], [], ["id"]))[0] == "lake is partitioned by nothing"


def test_keys_are_columns_of_the_table() -> None:
    assert key_check(["id"], ["id", "day"]).ok
    assert refused(key_check(["id", "no"], ["id"]))[0] == "the table has no no"


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert str(port) in refused(port_check(port))[0]
    assert port_check(port).ok
