"""``format("odradek")``: topics as a data source of Spark."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class TopicSource(DataSource):
    """Topics, read and written with the options and columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "odradek"
