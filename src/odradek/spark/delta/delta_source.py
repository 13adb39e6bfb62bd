"""``format("odradek_delta")``: the Spark DataSource for Delta tables.

Spark imports this module in every session, so everything else is imported on use.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from odradek.spark.delta.options import SourceOptions
    from odradek.spark.delta.sink.writer import BatchWriter, StreamWriter, TableWriter


class DeltaSource(DataSource):
    """DataSource for Delta tables: exactly-once writes, and reads by version."""

    @classmethod
    def name(cls) -> str:
        return "odradek_delta"

    def schema(self) -> StructType:
        from odradek.spark.delta.source.reader import read_schema

        return read_schema(self._source_options())

    def reader(self, schema: StructType) -> DataSourceReader:
        from odradek.spark.delta.source.reader import TableReader

        options = self._source_options()
        return TableReader(options, self._requested_schema(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from odradek.spark.delta.source.stream_reader import TableStreamReader

        options = self._source_options()
        return TableStreamReader(options, self._requested_schema(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from odradek.spark.delta.sink.writer import BatchWriter

        return BatchWriter(self._table_writer(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from odradek.spark.delta.sink.writer import StreamWriter

        return StreamWriter(self._table_writer(schema, overwrite))

    def _source_options(self) -> SourceOptions:
        from odradek.spark.delta.options import read_source_options
        from odradek.spark.delta.storage import absolute_path

        options = read_source_options(self.options)
        return dataclasses.replace(options, path=absolute_path(options.path))

    @staticmethod
    def _requested_schema(options: SourceOptions, schema: StructType) -> StructType:
        from odradek.spark.delta.schemas import check_requested_schema
        from odradek.spark.delta.source.reader import read_schema

        return check_requested_schema(read_schema(options), schema, options.path)

    def _table_writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        from odradek.spark.delta.options import read_sink_options
        from odradek.spark.delta.sink.writer import TableWriter
        from odradek.spark.delta.storage import absolute_path

        options = read_sink_options(self.options)
        return TableWriter(
            dataclasses.replace(options, path=absolute_path(options.path)), schema, overwrite=overwrite
        )
