"""Rows that replace those of the same keys: staged as Parquet files by executors, merged in one commit.

Staged files lie below ``_odradek_staging`` in the table's folder, which is no part of the table (and which
vacuum passes by); the commit removes them. Invariant: one row a key and batch. Where a batch has more, the
greatest ``orderBy`` wins; without that option the batch is refused, for the table would depend on chance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from odradek.spark.delta.errors import InvalidRows
from odradek.spark.delta.options import SinkOptions, read_sink_options
from odradek.spark.delta.sink.commits import Application, check_went_back, commit_once, properties
from odradek.spark.delta.sink.parquet_files import WrittenFile
from odradek.spark.delta.storage import file_system

STAGING: Final = "_odradek_staging/"
_ROW: Final = "\0row"


def upsert_into(
    path: str, keys: str, *, name: str = "odradek", options: Mapping[str, str] | None = None
) -> Callable[[DataFrame, int], None]:
    """What ``foreachBatch`` needs to upsert in update mode, which Spark refuses to every sink in Python.

    Exactly once like the sink: the query's id and the batch's number go with each commit.
    """
    given = {**(options or {}), "keys": keys}
    checked: set[str] = set()

    def upsert(frame: DataFrame, batch_id: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if f"{query_id}" not in checked:
            # Once: after its first batch a query only goes on.
            storage_options = read_sink_options({"path": path, **given}).storage_options
            check_went_back(path, f"{name}:{query_id}", batch_id, storage_options)
            checked.add(f"{query_id}")
        numbered = {"sinkId": f"{name}:{query_id}", "sinkVersion": str(batch_id)}
        frame.write.format("odradek_delta").options(**given, **numbered).mode("append").save(path)

    return upsert


def merge_files(
    options: SinkOptions,
    schema: StructType,
    files: list[WrittenFile],
    application: Application | None,
) -> bool:
    """Merge staged files into the table; False if the table holds this batch already."""
    if not files:
        return commit_once(options, schema, application, None)
    staged = pyarrow.dataset.dataset(
        [file.path for file in files],
        format="parquet",
        filesystem=file_system(options.path, options.storage_options),
    )
    keys = staged.to_table(columns=list(options.keys))
    predicate = match(options.keys, has_nulls=any(column.null_count for column in keys.columns))
    has_twins = keys.group_by(list(options.keys)).aggregate([]).num_rows < keys.num_rows

    def merge(table: DeltaTable) -> None:
        rows = newest(staged.to_table(), options) if has_twins else staged.scanner().to_reader()
        merger = table.merge(
            rows, predicate, source_alias="s", target_alias="t", commit_properties=properties(application)
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return commit_once(options, schema, application, merge)


def match(keys: tuple[str, ...], *, has_nulls: bool) -> str:
    """The condition on which a row replaces another; nulls are equal here."""
    equal = "IS NOT DISTINCT FROM" if has_nulls else "="
    quoted = ['"' + key.replace('"', '""') + '"' for key in keys]
    return " AND ".join(f"t.{key} {equal} s.{key}" for key in quoted)


def newest(rows: pa.Table, options: SinkOptions) -> pa.Table:
    """One row a key: the one with the greatest ``orderBy``."""
    if options.order_by is None:
        counted = rows.group_by(list(options.keys)).aggregate([([], "count_all")])
        twins = counted.filter(pc.greater(counted["count_all"], 1))
        example = {key: twins[key][0].as_py() for key in options.keys}
        raise InvalidRows(
            f"{twins.num_rows} keys have several rows in one batch, such as {example}: set the option orderBy"
            " to a column whose greatest value wins, or aggregate the rows to one a key; nothing was"
            " committed"
        )
    # A row without an order comes before all that have one.
    is_ordered = pc.is_valid(rows[options.order_by])
    order = pc.sort_indices(
        pa.table({"is_ordered": is_ordered, "order": rows[options.order_by]}),
        [("is_ordered", "ascending"), ("order", "ascending")],
    )
    ordered = rows.take(order).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    last = ordered.group_by(list(options.keys)).aggregate([(_ROW, "max")])
    return ordered.take(last[f"{_ROW}_max"]).drop_columns([_ROW])


def remove_staging(file_system: Any, folders: set[str]) -> None:
    """Remove what a batch has staged, files of lost attempts too."""
    for folder in folders:
        # Best effort: what stays is in no table and in nobody's way.
        with contextlib.suppress(OSError):
            file_system.delete_dir(folder.rstrip("/"))
