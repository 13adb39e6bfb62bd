"""A user's schema chooses among the source's columns."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from odradek import ConfigError
from odradek.spark.source.schema import check_schema, source_schema


def test_the_columns_are_those_of_sparks_own_source() -> None:
    assert source_schema(include_headers=False).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int>"
    )
    headers = source_schema(include_headers=True).fields[-1]
    assert headers.simpleString() == "headers:array<struct<key:string,value:binary>>"
    assert all(column.nullable for column in source_schema(include_headers=True).fields)


@pytest.mark.parametrize("names", [["offset", "key"], ["headers"], ["value"]])
def test_columns_can_be_chosen_in_any_order_and_headers_among_them(names: list[str]) -> None:
    columns = {column.name: column for column in source_schema(include_headers=True).fields}
    check_schema(StructType([columns[name] for name in names]))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType().add("vlaue", "binary"), "the source has no column vlaue; did you mean value?"),
        (StructType().add("value", "string"), "column value is binary, not string"),
        (StructType().add("value", "binary").add("value", "binary"), "column value is there twice"),
    ],
)
def test_other_columns_are_refused_with_the_right_ones(schema: StructType, words: str) -> None:
    with pytest.raises(ConfigError, match=r"chosen among: key binary, value binary, .*offset bigint") as told:
        check_schema(schema)
    assert words in str(told.value)
