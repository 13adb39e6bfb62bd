"""Streams into a Delta table: every row once, despite replays."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek.spark.delta.delta_source import DeltaSource
from odradek.spark.delta.sink.writer import StreamWriter
from odradek.spark.delta.upserts import upsert_into

WAIT_S = 110


def table_rows(path: str) -> list[dict[str, Any]]:
    return pa.table(DeltaTable(path).scan()).to_pylist()


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """Return a function that adds JSON files, one per batch, and returns a stream of them."""
    directory = tmp_path / "feed"
    directory.mkdir()

    def add(*batches: list[dict[str, Any]], schema: str = "id long, name string") -> DataFrame:
        for rows in batches:
            number = len(list(directory.iterdir()))
            target = directory / f"{number:05d}.json"
            target.write_text("\n".join(json.dumps(row) for row in rows))
            # Spark orders files by modification time.
            os.utime(target, (number, number))
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(directory))

    return add


def rows(start: int, end: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number % 3}"} for number in range(start, end)]


def drain(frame: DataFrame, path: str, checkpoint: str, mode: str = "append", **options: str) -> None:
    """Run a query over all available rows."""
    writer = frame.writeStream.format(options.pop("format", "odradek_delta")).outputMode(mode)
    query = writer.option("checkpointLocation", checkpoint).options(**options)
    assert query.trigger(availableNow=True).start(path).awaitTermination(WAIT_S), "the query did not end"


def remove_commits(checkpoint: str, *batches: int) -> None:
    """Simulate a crash after the table's commit and before Spark's."""
    for batch in batches:
        (Path(checkpoint) / "commits" / str(batch)).unlink()
        (Path(checkpoint) / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_replayed_batch_appends_rows_once(
    feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str
) -> None:
    table = str(tmp_path / "table")
    drain(feed(rows(0, 10), rows(10, 20)), table, checkpoint)
    remove_commits(checkpoint, 1)
    drain(feed(rows(20, 30)), table, checkpoint)
    assert Counter(row["id"] for row in table_rows(table)) == Counter(range(30))
    # The files of the replayed batch are removed.
    on_disk = {entry.name for entry in Path(table).glob("*.parquet")}
    assert on_disk == {Path(uri).name for uri in DeltaTable(table).file_uris()}
    # Another checkpoint is another query, whose batches are new to the table.
    drain(feed(), table, f"{checkpoint}-2")
    assert Counter(row["id"] for row in table_rows(table)) == Counter([*range(30), *range(30)])


def test_complete_mode_replaces_the_table_in_one_commit(
    feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str
) -> None:
    table = str(tmp_path / "table")
    drain(feed(rows(0, 3)).groupBy("name").count(), table, checkpoint, "complete")
    drain(feed(rows(3, 9)).groupBy("name").count(), table, checkpoint, "complete")
    assert {row["name"]: row["count"] for row in table_rows(table)} == {"n0": 3, "n1": 3, "n2": 3}
    version = DeltaTable(table).version()
    remove_commits(checkpoint, 1)
    drain(feed().groupBy("name").count(), table, checkpoint, "complete")
    assert DeltaTable(table).version() == version


def test_upsert_replaces_rows_by_key(feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str) -> None:
    table = str(tmp_path / "table")
    first = [{"id": 1, "name": "a"}, {"id": None, "name": "nobody"}, {"id": 2, "name": "b"}]
    second = [{"id": 2, "name": "b2"}, {"id": 3, "name": "c"}, {"id": None, "name": "someone"}]
    drain(feed(first, second), table, checkpoint, keys="id")
    remove_commits(checkpoint, 1)
    drain(feed(), table, checkpoint, keys="id")
    result = {row["id"]: row["name"] for row in table_rows(table)}
    assert result == {1: "a", 2: "b2", 3: "c", None: "someone"}
    assert len(table_rows(table)) == 4
    assert not list(Path(table, "_odradek_staging").glob("*/*"))


def test_update_mode_upserts_with_foreach_batch(
    feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str
) -> None:
    table = str(tmp_path / "table")

    def run(frame: DataFrame) -> None:
        counts = frame.groupBy("name").agg(f.count("*").alias("seen"))
        writer = counts.writeStream.outputMode("update").foreachBatch(upsert_into(table, "name"))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S), "the query did not end"

    run(feed(rows(0, 3), rows(3, 5)))
    version = DeltaTable(table).version()
    remove_commits(checkpoint, 1)
    run(feed())
    assert DeltaTable(table).version() == version
    assert {row["name"]: row["seen"] for row in table_rows(table)} == {"n0": 2, "n1": 2, "n2": 1}


class FailingAround(DeltaSource):
    """Source whose driver dies once before the commit and once after it."""

    @classmethod
    def name(cls) -> str:
        return "failing_delta"

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        directory = Path(self.options.pop("storage.fail_in"))
        writer = super().streamWriter(schema, overwrite)

        class Failing(StreamWriter):
            def commit(self, messages: Sequence[object], batchId: int) -> None:
                if not (directory / "before").exists():
                    (directory / "before").touch()
                    raise RuntimeError("died before the commit")
                super().commit(messages, batchId)
                if not (directory / "after").exists():
                    (directory / "after").touch()
                    raise RuntimeError("died after the commit")

        return Failing(writer._table)


def test_failure_before_or_after_the_commit_loses_and_duplicates_nothing(
    spark: SparkSession, feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str
) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(FailingAround)
    table = str(tmp_path / "table")
    frame = feed(rows(0, 10))
    for death in ("before", "after"):
        with pytest.raises(StreamingQueryException, match=f"died {death} the commit"):
            drain(frame, table, checkpoint, format="failing_delta", **{"storage.fail_in": str(tmp_path)})
    drain(feed(rows(10, 12)), table, checkpoint, format="failing_delta", **{"storage.fail_in": str(tmp_path)})
    assert Counter(row["id"] for row in table_rows(table)) == Counter(range(12))


def test_changed_schema_is_rejected_or_merged_on_request(
    spark: SparkSession, feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str
) -> None:
    table = str(tmp_path / "table")
    drain(feed(rows(0, 3)), table, checkpoint)
    wide = feed(rows(3, 6)).withColumn("extra", f.lit(1.5)).withColumn("name", f.lit("x"))
    files = sorted(Path(table).rglob("*"))
    with pytest.raises(
        StreamingQueryException, match=r"extra double is new \(set the option mergeSchema=true"
    ):
        drain(wide, table, checkpoint)
    with pytest.raises(
        StreamingQueryException, match="name is string in the table and bigint in the DataFrame"
    ):
        drain(wide.withColumn("name", f.col("id")), table, checkpoint)
    assert sorted(Path(table).rglob("*")) == files
    drain(wide, table, checkpoint, mergeSchema="true")
    result = {row["id"]: row["extra"] for row in table_rows(table)}
    assert result == {0: None, 1: None, 2: None, 3: 1.5, 4: 1.5, 5: 1.5}


def test_compaction_and_vacuum_between_batches_change_no_row(
    feed: Callable[..., DataFrame], tmp_path: Path, checkpoint: str
) -> None:
    table = str(tmp_path / "table")
    frame = feed(*(rows(start, start + 5) for start in range(0, 25, 5)))
    drain(frame, table, checkpoint, compactEvery="2", vacuumHours="1")
    assert Counter(row["id"] for row in table_rows(table)) == Counter(range(25))
    operations = [entry["operation"] for entry in DeltaTable(table).history()]
    assert operations.count("OPTIMIZE") == 2
    assert len(DeltaTable(table).file_uris()) == 1
    remove_commits(checkpoint, 4)
    drain(feed(), table, checkpoint, compactEvery="2")
    assert Counter(row["id"] for row in table_rows(table)) == Counter(range(25))
