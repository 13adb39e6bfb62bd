"""Reasons for values that cannot be parsed: the field and the cause."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from odradek.pipelines.query.dead_letters import unreadable_records
from odradek.pipelines.query.json_values import valid_or_fail, with_parsed

SCHEMA = "id bigint, at timestamp, amount double, place struct<name string, floor int>"
GOOD = b'{"id": 1, "at": "2026-01-31T12:00:00Z", "amount": 1.5, "place": {"name": "inn", "floor": 2}}'
REASONS = {
    b"": "the value is empty",
    b"no JSON": "the value is not a JSON object: no JSON",
    b"[1, 2]": "the value is not a JSON object: [1, 2]",
    b'{"id": 1': 'the value is not a JSON object: {"id": 1',
    b'{"id": 1, "amount": "much"}': "field amount must be double, got much",
    b'{"id": "one", "amount": "much"}': "field id must be bigint, got one",
    b'{"at": "yesterday"}': "field at must be timestamp, got yesterday",
    b'{"id": {"a": 1}}': 'field id must be bigint, got {"a":1}',
    b'{"place": "inn"}': "field place must be struct<name:string,floor:int>, got inn",
    b'{"place": {"name": "inn", "floor": "top"}}': "field place must be struct<name:string,floor:int>, "
    'got {"name":"inn","floor":"top"}',
    b"x" * 500: f"the value is not a JSON object: {'x' * 100}",
}


def struct(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def test_unreadable_reason_names_field_and_cause(spark: SparkSession) -> None:
    schema = struct(SCHEMA)
    values = [GOOD, None, *REASONS]
    rows = [("t", 0, number, value) for number, value in enumerate(values)]
    raw = spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary")
    dead = unreadable_records(with_parsed(raw, schema), schema).collect()
    assert {bytes(row.value): row.reason for row in dead} == REASONS


def test_query_without_dead_letters_fails_with_the_same_reason(spark: SparkSession) -> None:
    schema = struct(SCHEMA)
    raw = spark.createDataFrame(
        [("t", 3, 7, b'{"id": "one"}')], "topic string, partition int, offset bigint, value binary"
    )
    checked = with_parsed(raw, schema).filter(valid_or_fail(schema))
    with pytest.raises(Exception, match="topic t, partition 3, offset 7: field id must be bigint, got one"):
        checked.collect()
