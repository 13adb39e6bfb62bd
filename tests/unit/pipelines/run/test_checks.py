"""Checks whether a pipeline can run."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.client.admin.topics import TopicDescription
from odradek.client.values import PartitionInfo
from odradek.model.acl_operations import AclOperation
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


def described(*leaders: int, allowed: frozenset[AclOperation] | None = None) -> TopicDescription:
    partitions = tuple(PartitionInfo("t", n, leader, (1,), (1,)) for n, leader in enumerate(leaders))
    return TopicDescription("t", None, False, partitions, allowed)


def failed(check: Check) -> tuple[str, str]:
    """Return the result and the fix of a failed check."""
    assert not check.ok
    assert check.fix is not None
    return check.found, check.fix


def test_a_missing_package_is_told_with_what_installs_it() -> None:
    checks = list(package_checks(spec_of(), lambda name: name != "pyspark"))
    assert [check.what for check in checks if not check.ok] == ["package pyspark"]
    assert checks[0].fix == 'pip install "odradek[spark]"'
    assert failed_count(checks) == 1


def test_deltalake_is_required_only_for_delta() -> None:
    def names(sink: str) -> list[str]:
        return [check.what for check in package_checks(spec_of(sink=sink), lambda name: True)]

    assert "package deltalake" in names(DELTA)
    assert "package deltalake" not in names('type = "noop"')


def test_topic_with_leaders_passes() -> None:
    assert topic_check("source topic", "t", described(1, 2), AclOperation.READ) == Check(
        "source topic t", True, "2 partitions"
    )
    assert topic_check("source topic", "t", described(1), AclOperation.READ).found == "1 partition"


def test_missing_topic_fails_with_advice() -> None:
    _, fix = failed(topic_check("sink topic", "t", None, AclOperation.WRITE, brokers="b:1"))
    assert fix == "odradek topics create t -b b:1, or correct the name"


def test_auto_created_topic_passes() -> None:
    assert topic_check("sink topic", "t", None, AclOperation.WRITE, is_made=True).ok


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
def test_planning_depends_on_certain_checks_only(what: str, source: str, is_planned: bool) -> None:
    checks = [Check("file", True, "f"), Check(what, False, "wrong")]
    assert can_plan(spec_of(source), checks) is is_planned


def test_partition_without_leader_fails() -> None:
    finding, _ = failed(topic_check("source topic", "t", described(1, -1), AclOperation.READ))
    assert finding == "no leader for partition 1"


def test_denied_operations_fail() -> None:
    topic = described(1, allowed=frozenset({AclOperation.DESCRIBE, AclOperation.READ}))
    assert topic_check("source topic", "t", topic, AclOperation.READ).ok
    finding, fix = failed(topic_check("sink topic", "t", topic, AclOperation.WRITE))
    assert finding == "WRITE is not allowed"
    assert "topic t" in fix
    assert failed(group_check("g", {AclOperation.DESCRIBE}))[0] == "READ is not allowed"
    assert group_check("g", None).ok
    assert group_check("g", {AclOperation.READ}).ok


def test_directory_exists_or_can_be_created(tmp_path: Path) -> None:
    assert directory_check("sink path", str(tmp_path)).ok
    assert directory_check("sink path", str(tmp_path / "a" / "b")).found.endswith("(will be created)")


def test_file_as_directory_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert "is a file" in failed(directory_check("sink path", str(tmp_path / "a")))[0]


def test_unwritable_directory_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "is not writable" in failed(directory_check("checkpoint", str(tmp_path / "a")))[0]


def test_differently_partitioned_table_fails() -> None:
    assert table_check("lake", ["day"], ["day"], ["id", "day"]).ok
    assert table_check("lake", [], ["day"], ["id", "day"]).ok
    assert failed(table_check("lake", ["hour"], ["day"], ["id"]))[0] == "lake is partitioned by day"
    assert failed(table_check("lake", ["hour"], [], ["id"]))[0] == "lake is partitioned by nothing"


def test_upsert_keys_must_be_columns() -> None:
    assert key_check(["id"], ["id", "day"]).ok
    assert failed(key_check(["id", "no"], ["id"]))[0] == "the table has no no"


def test_port_in_use_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert str(port) in failed(port_check(port))[0]
    assert port_check(port).ok
