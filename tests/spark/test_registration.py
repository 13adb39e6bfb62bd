"""Discovery of the data sources by Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", ["odradek", "odradek_delta"])
def test_formats_are_discovered_by_spark(spark: SparkSession, name: str) -> None:
    assert spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name)
