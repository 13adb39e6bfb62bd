"""``format("odradek_delta")``: Delta tables as a data source of Spark."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class DeltaSource(DataSource):
    """Delta tables, written exactly once and read by versions."""

    @classmethod
    def name(cls) -> str:
        return "odradek_delta"
