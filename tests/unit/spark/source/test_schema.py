"""Columns of the topic source, and selection by a user's schema."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from odradek import ConfigError
from odradek.spark.source.schema import check_schema, source_schema


def test_columns_equal_those_of_sparks_own_source() -> None:
    assert source_schema(include_headers=False).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int>"
    )
    headers = source_schema(include_headers=True).fields[-1]
    assert headers.simpleString() == "headers:array<struct<key:string,value:binary>>"
    assert all(column.nullable for column in source_schema(include_headers=True).fields)


@pytest.mark.parametrize("names", [["offset", "key"], ["headers"], ["value"]])
def test_columns_can_be_selected_in_any_order(names: list[str]) -> None:
    columns = {column.name: column for column in source_schema(include_headers=True).fields}
    check_schema(StructType([columns[name] for name in names]))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("vlaue", "binary"), "the source has no column vlaue; did you mean value?"),
        (StructType().add("value", "string"), "column value must be binary, got string"),
        (StructType().add("value", "binary").add("value", "binary"), "duplicate column value"),
    ],
)
def test_other_columns_are_rejected(schema: StructType, message: str) -> None:
    with pytest.raises(ConfigError, match=r"source are: key binary, value binary, .*offset bigint") as raised:
        check_schema(schema)
    assert message in str(raised.value)
