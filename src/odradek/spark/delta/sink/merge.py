"""Upserts: rows are staged as Parquet files by tasks, and merged by key in one commit.

Staged files are below ``_odradek_staging`` in the table's directory, which is not part of the table (and
ignored by vacuum); the commit removes them. Invariant: one row per key and batch. If a batch has more, the
one with the greatest ``orderBy`` is used; without that option it is an error: the result would be random.
"""

from __future__ import annotations

import contextlib
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from odradek.spark.delta.errors import InvalidRows
from odradek.spark.delta.options import SinkOptions
from odradek.spark.delta.sink.commits import AppTransaction, commit_once, commit_properties
from odradek.spark.delta.sink.parquet_files import WrittenFile
from odradek.spark.delta.storage import file_system

STAGING: Final = "_odradek_staging/"
_ROW: Final = "\0row"


def merge_files(
    options: SinkOptions,
    schema: StructType,
    files: list[WrittenFile],
    app_transaction: AppTransaction | None,
) -> bool:
    """Merge staged files into the table; return False if the table already has this batch."""
    if not files:
        return commit_once(options, schema, app_transaction, None)
    staged = pyarrow.dataset.dataset(
        [file.path for file in files],
        format="parquet",
        filesystem=file_system(options.path, options.storage_options),
    )
    keys = staged.to_table(columns=list(options.keys))
    predicate = merge_condition(options.keys, has_nulls=any(column.null_count for column in keys.columns))
    has_duplicates = keys.group_by(list(options.keys)).aggregate([]).num_rows < keys.num_rows

    def merge(table: DeltaTable) -> None:
        rows = latest_rows(staged.to_table(), options) if has_duplicates else staged.scanner().to_reader()
        merger = table.merge(
            rows,
            predicate,
            source_alias="s",
            target_alias="t",
            commit_properties=commit_properties(app_transaction),
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return commit_once(options, schema, app_transaction, merge)


def merge_condition(keys: tuple[str, ...], *, has_nulls: bool) -> str:
    """Return the merge condition; nulls are equal."""
    equal = "IS NOT DISTINCT FROM" if has_nulls else "="
    quoted = ['"' + key.replace('"', '""') + '"' for key in keys]
    return " AND ".join(f"t.{key} {equal} s.{key}" for key in quoted)


def latest_rows(rows: pa.Table, options: SinkOptions) -> pa.Table:
    """Return one row per key: the one with the greatest ``orderBy``."""
    if options.order_by is None:
        counted = rows.group_by(list(options.keys)).aggregate([([], "count_all")])
        duplicates = counted.filter(pc.greater(counted["count_all"], 1))
        example = {key: duplicates[key][0].as_py() for key in options.keys}
        raise InvalidRows(
            f"{duplicates.num_rows} keys have several rows in one batch, such as {example}: set the option"
            " orderBy to a column whose greatest value wins, or aggregate to one row per key; nothing was"
            " committed"
        )
    # Rows with a null orderBy come first.
    is_ordered = pc.is_valid(rows[options.order_by])
    order = pc.sort_indices(
        pa.table({"is_ordered": is_ordered, "order": rows[options.order_by]}),
        [("is_ordered", "ascending"), ("order", "ascending")],
    )
    ordered = rows.take(order).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    last = ordered.group_by(list(options.keys)).aggregate([(_ROW, "max")])
    return ordered.take(last[f"{_ROW}_max"]).drop_columns([_ROW])


def remove_staging(file_system: pa.fs.FileSystem, folders: set[str]) -> None:
    """Remove the staged files of a batch, also of failed attempts."""
    for folder in folders:
        # Best effort: remaining files are in no table.
        with contextlib.suppress(OSError):
            file_system.delete_dir(folder.rstrip("/"))
