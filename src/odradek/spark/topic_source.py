"""``format("odradek")``: the Spark DataSource for topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class TopicSource(DataSource):
    """DataSource with the options and columns of Spark's own Kafka source and sink.

    Other modules are imported on use: Spark imports this one in every session.
    """

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        from odradek.spark.options.source_options import QueryType, read_source_options
        from odradek.spark.source.schema import source_schema

        return source_schema(read_source_options(self.options, QueryType.SCHEMA).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from odradek.spark.options.source_options import QueryType, read_source_options
        from odradek.spark.source.reader import TopicReader
        from odradek.spark.source.schema import check_schema

        check_schema(schema)
        return TopicReader(read_source_options(self.options, QueryType.BATCH), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from odradek.spark.options.source_options import QueryType, read_source_options
        from odradek.spark.source.schema import check_schema
        from odradek.spark.source.stream_reader import TopicStreamReader

        check_schema(schema)
        return TopicStreamReader(read_source_options(self.options, QueryType.STREAM), schema)

    # Spark passes these two arguments by position in one place and by name in another.

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from odradek.spark.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from odradek.spark.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)
