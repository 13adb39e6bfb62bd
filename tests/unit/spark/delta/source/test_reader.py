"""Batch and streaming reads of a Delta table, without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StructType

from odradek.spark.delta import maintenance
from odradek.spark.delta.delta_source import DeltaSource
from odradek.spark.delta.errors import HistoryLost, SchemaMismatch, TableChanged, TableOptionError
from odradek.spark.delta.options import read_source_options
from odradek.spark.delta.source.reader import TableReader, read_schema
from odradek.spark.delta.source.stream_reader import TableStreamReader


def put(path: Path, *ids: int, **options: Any) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "day": [f"d{number % 2}" for number in ids]})
    write_deltalake(str(path), rows, mode="append", **options)


def stream(path: Path, **options: str) -> TableStreamReader:
    source = read_source_options({"path": str(path), **options})
    return TableStreamReader(source, read_schema(source))


def read(reader: Any, partitions: list[Any]) -> list[int]:
    """Return the rows that executors would read, with a pickled copy of the reader."""
    copy = pickle.loads(pickle.dumps(reader)) if isinstance(reader, TableReader) else reader
    return sorted(
        number for part in partitions for batch in copy.read(part) for number in batch.column(0).to_pylist()
    )


class Query:
    """Calls a stream reader as Spark does."""

    def __init__(self, reader: TableStreamReader, start: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.start = start if start is not None else reader.initialOffset()
        self.plans: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def next(self) -> list[int]:
        end = self.reader.latestOffset(self.start, self.reader.getDefaultReadLimit())
        self.plans.append((self.start, end))
        rows = read(self.reader, list(self.reader.partitions(self.start, end)))
        self.start = end
        return rows


def test_table_is_read_at_latest_version_version_or_timestamp(tmp_path: Path) -> None:
    put(tmp_path / "t", 1, 2, partition_by=["day"])
    put(tmp_path / "t", 3)

    def read_ids(**options: str) -> list[int]:
        source = read_source_options({"path": str(tmp_path / "t"), **options})
        reader = TableReader(source, read_schema(source))
        return read(reader, list(reader.partitions()))

    assert read_ids() == [1, 2, 3]
    assert read_ids(partitionBytes="1") == [1, 2, 3]
    assert read_ids(versionAsOf="0") == [1, 2]
    assert read_ids(timestampAsOf="2999-01-01") == [1, 2, 3]
    with pytest.raises(TableOptionError, match="does not have version 9"):
        read_ids(versionAsOf="9")
    with pytest.raises(TableOptionError, match="must be a time such as"):
        read_ids(timestampAsOf="yesterday")


def test_requested_columns_are_selected_ordered_and_filled(tmp_path: Path) -> None:
    put(tmp_path / "t", 1, partition_by=["day"])
    wider = pa.table({"id": [2], "day": ["x"], "more": [0.5]})
    write_deltalake(str(tmp_path / "t"), wider, mode="append", schema_mode="merge")
    source = DeltaSource({"path": str(tmp_path / "t")})
    requested = from_arrow_schema(pa.schema([("more", pa.float64()), ("day", pa.string())]))
    reader: Any = source.reader(requested)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(rows, key=str) == [{"more": 0.5, "day": "x"}, {"more": None, "day": "d1"}]
    with pytest.raises(SchemaMismatch, match="nobody is not in the table"):
        source.reader(from_arrow_schema(pa.schema([("nobody", pa.string())])))


def test_stream_reads_a_snapshot_and_then_added_files(tmp_path: Path) -> None:
    put(tmp_path / "t", 1, 2)
    put(tmp_path / "t", 3)
    query = Query(stream(tmp_path / "t"))
    assert query.next() == []
    put(tmp_path / "t", 4)
    assert query.next() == [1, 2, 3, 4]
    put(tmp_path / "t", 5)
    put(tmp_path / "t", 6)
    assert query.next() == [5, 6]
    assert query.next() == []
    assert query.start == {"files": 0, "snapshot": False, "version": 5}
    assert query.reader.reportLatestOffset() == query.start


def test_partitions_of_a_batch_are_deterministic(tmp_path: Path) -> None:
    put(tmp_path / "t", 1, 2)
    query = Query(stream(tmp_path / "t", maxFilesPerTrigger="1"))
    for number in range(3, 6):
        query.next()
        put(tmp_path / "t", number)
    maintenance.compact(str(tmp_path / "t"))
    for start, end in query.plans:
        before = [part.files for part in query.reader.partitions(start, end)]
        assert before == [part.files for part in stream(tmp_path / "t").partitions(start, end)]


def test_query_starts_at_its_checkpoint(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    put(tmp_path / "t", 2)
    resumed = Query(stream(tmp_path / "t"), {"version": 1})
    assert resumed.next() == [2]
    assert Query(stream(tmp_path / "t", startingVersion="1")).start["version"] == 1
    latest = Query(stream(tmp_path / "t", startingVersion="latest"))
    put(tmp_path / "t", 3)
    assert (latest.next(), latest.next()) == ([], [3])


def test_batches_respect_limits(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / "t", number)
    query = Query(stream(tmp_path / "t", startingVersion="0", maxVersionsPerTrigger="3"))
    assert [query.next() for _ in range(3)] == [[], [0, 1, 2], [3]]
    query = Query(stream(tmp_path / "t", maxFilesPerTrigger="3"))
    assert [len(query.next()) for _ in range(3)] == [0, 3, 1]
    assert query.reader.getDefaultReadLimit() == ReadMaxFiles(3)
    everything = stream(tmp_path / "t", maxFilesPerTrigger="1").latestOffset(
        {"version": 0}, ReadAllAvailable()
    )
    assert everything["version"] == 4


def test_available_now_ends_at_the_version_of_its_start(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    query = Query(stream(tmp_path / "t"))
    query.reader.prepareForTriggerAvailableNow()
    put(tmp_path / "t", 2)
    assert [query.next() for _ in range(3)] == [[], [1], []]


def test_compaction_is_skipped_and_changes_are_rejected(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    put(tmp_path / "t", 2)
    query = Query(stream(tmp_path / "t"))
    assert [query.next(), query.next()] == [[], [1, 2]]
    compaction = maintenance.compact(str(tmp_path / "t"))
    assert (compaction.files_added, compaction.files_removed) == (1, 2)
    put(tmp_path / "t", 3)
    assert query.next() == [3]
    DeltaTable(str(tmp_path / "t")).delete("id = 1")
    with pytest.raises(TableChanged, match=r"version 4 .* changes rows \(DELETE\).*skipChangeCommits=true"):
        query.next()
    resumed = Query(stream(tmp_path / "t", skipChangeCommits="true"), query.start)
    put(tmp_path / "t", 4)
    assert resumed.next() == [4]


def test_vacuumed_files_raise_or_are_skipped(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    put(tmp_path / "t", 2)
    maintenance.compact(str(tmp_path / "t"))
    listed = maintenance.vacuum(str(tmp_path / "t"), retention_hours=0)
    assert len(listed) == 2
    assert maintenance.vacuum(str(tmp_path / "t"), retention_hours=0, dry_run=False) == listed
    with pytest.raises(HistoryLost, match="by vacuum"):
        Query(stream(tmp_path / "t"), {"version": 0}).next()
    assert Query(stream(tmp_path / "t", failOnDataLoss="false"), {"version": 0}).next() == []
    assert Query(stream(tmp_path / "t")).next() == []


def test_removed_versions_are_reported_with_their_numbers(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / "t", number)
    for version in (0, 1):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    source = read_source_options({"path": str(tmp_path / "t"), "failOnDataLoss": "true"})
    schema = from_arrow_schema(pa.schema([("id", pa.int64())]))
    with pytest.raises(HistoryLost, match="versions 0 to 1 of the table"):
        Query(TableStreamReader(source, schema), {"version": 0}).next()
    loose = read_source_options({"path": str(tmp_path / "t"), "failOnDataLoss": "false"})
    assert Query(TableStreamReader(loose, schema), {"version": 0}).next() == [2, 3]


def test_recreated_table_is_detected(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    with pytest.raises(
        HistoryLost, match=r"latest version .* is 0, but this stream continues with version 5"
    ):
        Query(stream(tmp_path / "t"), {"version": 5}).next()
    with pytest.raises(HistoryLost, match=r"version 5 .* with which this stream starts") as raised:
        stream(tmp_path / "t").partitions({"version": 5, "snapshot": True}, {"version": 6})
    assert "new checkpoint" in str(raised.value)
    assert Query(stream(tmp_path / "t"), {"version": 1}).next() == []


def test_column_type_change_fails_the_stream(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    query = Query(stream(tmp_path / "t"))
    assert [query.next(), query.next()] == [[], [1]]
    retyped = pa.table({"id": ["x"], "day": ["y"]})
    write_deltalake(str(tmp_path / "t"), retyped, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaMismatch, match=r"version 1 .* changes id to string \(read as bigint\)"):
        query.next()


def test_versions_older_than_a_column_are_read_with_nulls(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    wider = pa.table({"id": [2], "day": ["x"], "more": [0.5]})
    write_deltalake(str(tmp_path / "t"), wider, mode="append", schema_mode="merge")
    query = Query(stream(tmp_path / "t", startingVersion="0"))
    assert [query.next(), query.next()] == [[], [1, 2]]


def test_vacuum_removes_uncommitted_files_but_not_staged_ones(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    orphan, staged = tmp_path / "t" / "lost.parquet", tmp_path / "t" / "_odradek_staging" / "x.parquet"
    staged.parent.mkdir()
    for file in (orphan, staged):
        file.write_bytes(b"x")
    maintenance.vacuum(str(tmp_path / "t"), retention_hours=0, dry_run=False)
    assert (orphan.exists(), staged.exists()) == (False, True)
    assert len(DeltaTable(str(tmp_path / "t")).file_uris()) == 1


def test_table_stream_reader_pickles(tmp_path: Path) -> None:
    put(tmp_path / "t", 1)
    reader = stream(tmp_path / "t")
    assert isinstance(pickle.loads(pickle.dumps(reader))._schema, StructType)


@pytest.mark.parametrize(
    ("batch_id", "every", "due"), [(0, 1, False), (1, 1, True), (4, 2, True), (5, 2, False), (4, 0, False)]
)
def test_maintenance_is_due_every_n_batches(batch_id: int, every: int, due: bool) -> None:
    assert maintenance.is_due(batch_id, every) is due


def test_failed_maintenance_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    maintenance.after_batch(str(tmp_path / "none"), {}, target_bytes=1, vacuum_hours=None)
    assert "table_maintenance_failed" in caplog.text


def test_file_as_table_path_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("no table")
    with pytest.raises(TableOptionError, match=r"must be a directory, got the file .*lake"):
        stream(tmp_path / "lake")
