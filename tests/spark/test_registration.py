"""Spark finds the data sources by itself."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", ["odradek", "odradek_delta"])
def test_the_formats_are_known_without_a_word_of_the_user(spark: SparkSession, name: str) -> None:
    found = spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name)
    assert found
