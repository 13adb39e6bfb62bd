"""Files and commits of the Delta sink, without Spark."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import errno
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark.delta import storage
from odradek.spark.delta.errors import (
    CommitConflict,
    InvalidRows,
    StorageFailed,
    TableNotFound,
    TableOptionError,
)
from odradek.spark.delta.options import SinkOptions, read_sink_options
from odradek.spark.delta.sink import parquet_files
from odradek.spark.delta.sink import writer as writing
from odradek.spark.delta.sink.commits import AppTransaction, check_not_stale
from odradek.spark.delta.sink.parquet_files import ParquetFiles
from odradek.spark.delta.sink.statistics import lower_bound, upper_bound
from odradek.spark.delta.sink.writer import StreamWriter, TableWriter
from odradek.spark.delta.storage import absolute_path, file_system, open_table, storage_error_message
from odradek.spark.sink.markers import StaleCheckpoint


def frame_of(**columns: pa.DataType) -> StructType:
    frame: StructType = from_arrow_schema(pa.schema(columns), prefer_timestamp_ntz=True)
    return frame


FRAME = frame_of(id=pa.int64(), day=pa.string())


def sink(path: Path, **options: str) -> SinkOptions:
    return read_sink_options({"path": str(path), **options})


def writer(path: Path, frame: StructType = FRAME, *, overwrite: bool = False, **options: Any) -> TableWriter:
    return TableWriter(sink(path, **options), frame, overwrite=overwrite)


def batch(*ids: int | None, day: str | None = "mon") -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "day": pa.array([day] * len(ids), pa.string())})


def ids(path: Path) -> list[int]:
    numbers: list[int] = sorted(pa.table(DeltaTable(str(path)).scan())["id"].to_pylist())
    return numbers


def append(path: Path, version: int, *numbers: int, name: str = "app", **options: Any) -> None:
    table = writer(path, **options)
    table.commit([table.write(iter([batch(*numbers)]))], AppTransaction(name, version))


def test_replayed_batch_adds_no_rows_and_leaves_no_files(tmp_path: Path) -> None:
    append(tmp_path / "t", 0, 1, 2)
    append(tmp_path / "t", 0, 1, 2)
    append(tmp_path / "t", 1, 3)
    append(tmp_path / "t", 0, 1, 2)
    assert ids(tmp_path / "t") == [1, 2, 3]
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 2
    append(tmp_path / "t", 0, 4, name="another")
    assert ids(tmp_path / "t") == [1, 2, 3, 4]


def stream(path: Path, batch_id: int, *numbers: int) -> None:
    table = writer(path)
    message = dataclasses.replace(table.write(iter([batch(*numbers)])), query_id="query")
    StreamWriter(table).commit([message], batch_id)


def test_stale_checkpoint_is_rejected(tmp_path: Path) -> None:
    for batch_id in range(4):
        stream(tmp_path / "t", batch_id, batch_id)
    stream(tmp_path / "t", 3, 3)
    with pytest.raises(StaleCheckpoint, match=r"batch 2, but .* up to batch 3.*newest checkpoint"):
        stream(tmp_path / "t", 2, 100)
    assert ids(tmp_path / "t") == [0, 1, 2, 3]


def test_upsert_with_a_stale_checkpoint_is_rejected(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(tmp_path / "t", 3, 1, name="odradek:query")
    check_not_stale(path, "odradek:query", 3, {})
    check_not_stale(path, "another:query", 2, {})
    check_not_stale(str(tmp_path / "none"), "odradek:query", 2, {})
    with pytest.raises(StaleCheckpoint, match=r"batch 2, but .* up to batch 3"):
        check_not_stale(path, "odradek:query", 2, {})


def test_batch_without_rows_creates_the_table_but_no_version(tmp_path: Path) -> None:
    for version in range(3):
        table = writer(tmp_path / "t")
        table.commit([table.write(iter([]))], AppTransaction("app", version))
    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_overwrite_without_rows_empties_the_table(tmp_path: Path) -> None:
    append(tmp_path / "t", 0, 1, 2)
    table = writer(tmp_path / "t", overwrite=True)
    table.commit([table.write(iter([]))], AppTransaction("app", 1))
    assert ids(tmp_path / "t") == []


def test_files_of_a_failed_batch_are_removed_unless_a_commit_was_attempted(tmp_path: Path) -> None:
    table = writer(tmp_path / "t")
    message = table.write(iter([batch(1)]))
    StreamWriter(table).abort([message], 0)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    StreamWriter(table).abort([message, None], 0)
    assert not list((tmp_path / "t").glob("*.parquet"))


def test_concurrent_writers_all_succeed(tmp_path: Path) -> None:
    append(tmp_path / "t", 0, 0)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for version in range(5):
                append(tmp_path / "t", version, number * 10 + version, name=f"app{number}")
        except Exception as error:  # noqa: BLE001 - asserted in the test's thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert ids(tmp_path / "t") == [
        0,
        *(number * 10 + version for number in (1, 2, 3) for version in range(5)),
    ]


def test_concurrent_attempts_at_a_batch_add_it_once(tmp_path: Path) -> None:
    append(tmp_path / "t", 0, 0)
    attempts = [writer(tmp_path / "t") for _ in range(3)]
    messages = [attempt.write(iter([batch(7)])) for attempt in attempts]
    threads = [
        threading.Thread(target=attempt.commit, args=([message], AppTransaction("app", 1)))
        for attempt, message in zip(attempts, messages, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(tmp_path / "t") == [0, 7]


def test_commit_conflicts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake.exceptions import CommitFailedError

    def lose(*_args: object, **_options: object) -> None:
        raise CommitFailedError("taken")

    append(tmp_path / "t", 0, 0)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", lose)
    with pytest.raises(CommitConflict, match=r"2 times \(taken\).*maxCommitAttempts"):
        append(tmp_path / "t", 1, 1, maxCommitAttempts="2")


def test_every_type_round_trips(tmp_path: Path) -> None:
    part = pa.struct([("a", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    frame = frame_of(
        i=pa.int32(), s=pa.int16(), b=pa.int8(), f=pa.float32(), d=pa.float64(), x=pa.binary(),
        flag=pa.bool_(), day=pa.date32(), at=pa.timestamp("us", "UTC"), plain=pa.timestamp("us"),
        price=pa.decimal128(20, 4), parts=pa.list_(part), named=pa.map_(pa.string(), pa.float64()),
        **{"odd name.x": pa.string()},
    )  # fmt: skip
    moment = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456)  # noqa: DTZ001 - a time without a zone
    row = {
        "i": 1, "s": 2, "b": 3, "f": 0.5, "d": float("nan"), "x": b"\0", "flag": True,
        "day": datetime.date(2026, 1, 31), "at": moment.replace(tzinfo=datetime.UTC), "plain": moment,
        "price": decimal.Decimal("1.2345"), "parts": [{"a": 1, "t": moment.replace(tzinfo=datetime.UTC)}],
        "named": [("k", 1.0)], "odd name.x": "y",
    }  # fmt: skip
    session_schema = to_arrow_schema(frame, timezone="Europe/Berlin")
    rows = pa.RecordBatch.from_pylist([row, dict.fromkeys(row)], schema=session_schema)
    table = writer(tmp_path / "t", frame)
    table.commit([table.write(iter([rows]))], None)
    back = pa.table(DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset().to_table()).to_pylist()
    assert repr(back[0]) == repr({**row, "at": back[0]["at"], "parts": back[0]["parts"]})
    assert back[0]["at"] == row["at"]
    assert back[1] == dict.fromkeys(row)


def test_partition_values_round_trip(tmp_path: Path) -> None:
    table = writer(tmp_path / "t", partitionBy="day")
    batches = [batch(1, 2, day="a/b c%é"), batch(3, day=None), batch(4, day="a/b c%é")]
    table.commit([table.write(iter(batches))], None)
    rows = pa.table(DeltaTable(str(tmp_path / "t")).scan()).to_pylist()
    days = {row["id"]: row["day"] for row in rows}
    assert days == {1: "a/b c%é", 2: "a/b c%é", 3: None, 4: "a/b c%é"}
    assert len(DeltaTable(str(tmp_path / "t")).file_uris()) == 2
    with pytest.raises(TableOptionError, match="is partitioned by day, got id"):
        writer(tmp_path / "t", partitionBy="id")
    assert writer(tmp_path / "t").partition_by == ("day",)


def test_readers_can_skip_files_by_their_statistics(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {
            "id": pa.array([5, None, 9]),
            "x": pa.array([1.0, float("nan"), 2.0]),
            "s": pa.array([{"n": 1}, {"n": 4}, None], pa.struct([("n", pa.int32())])),
            "t": pa.array([[1], None, [2, 3]], pa.list_(pa.int32())),
        }
    )
    table = writer(tmp_path / "t", from_arrow_schema(rows.schema))
    stats = json.loads(table.write(iter([rows])).files[0].stats)
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"id": 5, "s": {"n": 1}}
    assert stats["maxValues"] == {"id": 9, "s": {"n": 4}}
    assert stats["nullCount"] == {"id": 1, "x": 0, "s": {"n": 1}}


@given(st.text())
def test_string_bounds_never_exclude_a_value(text: str) -> None:
    assert lower_bound(text, pa.string()) <= text
    upper = upper_bound(text, pa.string())
    assert upper is None or upper >= text


def test_a_large_task_writes_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_ROW_GROUP_BYTES", 1)
    table = writer(tmp_path / "t", fileBytes="1")
    message = table.write(iter([batch(number) for number in range(4)]))
    assert [file.row_count for file in message.files] == [1, 1, 1, 1]


def test_open_files_are_bounded_and_no_row_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_BUFFERED_BYTES_MAX", 1)
    monkeypatch.setattr(parquet_files, "_OPEN_MAX", 2)
    table = writer(tmp_path / "t", partitionBy="day")
    table.commit([table.write(iter([batch(number, day=str(number % 5)) for number in range(20)]))], None)
    assert ids(tmp_path / "t") == list(range(20))


class _FullDisk:
    """File system with space for ``room`` files."""

    def __init__(self, inner: Any, room: int) -> None:
        self._inner = inner
        self._room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open_output_stream(self, path: str) -> Any:
        self._room -= 1
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._inner.open_output_stream(path)


def test_full_disk_raises_with_advice_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "_ROW_GROUP_BYTES", 1)
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    disk = _FullDisk(file_system(str(tmp_path), {}), room=1)
    files = ParquetFiles(disk, schema, (), table_path="lake/t", file_bytes=1, compression="zstd")
    files.write(batch(1))
    with pytest.raises(StorageFailed, match=r"lake/t is full .*free space .*same checkpoint"):
        files.write(batch(2))
    files.discard()
    assert not list(tmp_path.iterdir())


def test_failed_task_leaves_no_file(tmp_path: Path) -> None:
    def batches() -> Any:
        yield batch(1)
        raise RuntimeError("the rows end here")

    with pytest.raises(RuntimeError, match="end here"):
        writer(tmp_path / "t").write(batches())
    assert not list((tmp_path / "t").iterdir())


def test_not_null_column_rejects_nulls(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.string())])
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1], "day": ["a"]}, schema=schema))
    append(tmp_path / "t", 0, 2)
    with pytest.raises(InvalidRows, match=r"column id .* must not be null"):
        writer(tmp_path / "t").write(iter([batch(None)]))
    assert ids(tmp_path / "t") == [1, 2]


def test_unknown_columns_and_conflicting_options_are_rejected(tmp_path: Path) -> None:
    conflicts: tuple[tuple[dict[str, Any], str], ...] = (
        ({"keys": "nobody"}, r"keys must .* got nobody"),
        ({"partitionBy": "x"}, "got x"),
    )
    for options, message in conflicts:
        with pytest.raises(TableOptionError, match=message):
            writer(tmp_path / "t", **options)
    with pytest.raises(TableOptionError, match="replace the whole table"):
        writer(tmp_path / "t", keys="id", overwrite=True)


def test_errors_for_missing_tables(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="does not exist"):
        open_table(str(tmp_path / "none"), {})
    with pytest.raises(TableNotFound, match="is not a Delta table"):
        open_table(str(tmp_path), {})
    with pytest.raises(TableNotFound, match="must be a local path or a supported URI"):
        open_table("nowhere://x/y", {})
    assert absolute_path("file:///a%20b/c") == "/a b/c"
    assert absolute_path("s3://x/y") == "s3://x/y"
    assert Path(absolute_path("x")).is_absolute()


def test_storage_errors_name_the_options_to_check() -> None:
    assert "storage.* options" in storage_error_message(
        "s3://b/t", OSError("Generic S3 error: Connection refused")
    )
    assert "denied" in storage_error_message("t", PermissionError(errno.EACCES, "Permission denied"))
    unreachable = {
        "aws_endpoint_url": "http://127.0.0.1:1", "aws_region": "x", "aws_access_key_id": "a",
        "aws_secret_access_key": "b", "aws_allow_http": "true", "max_retries": "0",
    }  # fmt: skip
    with pytest.raises(StorageFailed, match=r"check the path and the storage\.\* options"):
        open_table("s3://bucket/t", unreachable)


def test_retry_after_a_lost_response_finds_its_own_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake.exceptions import CommitFailedError

    append(tmp_path / "t", 0, 0)
    real = DeltaTable.create_write_transaction

    def commit_and_lose_response(table: DeltaTable, *args: Any, **options: Any) -> None:
        real(table, *args, **options)
        raise CommitFailedError("the response was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit_and_lose_response)
    append(tmp_path / "t", 1, 1)
    assert ids(tmp_path / "t") == [0, 1]


def test_delta_file_system_for_object_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (storage, writing, parquet_files):
        monkeypatch.setattr(module, "is_local", lambda _path: False)
    uri = f"file://{tmp_path}"
    for keys in ("", "id,day"):
        for version in (0, 0, 1):
            options = {"path": uri, "partitionBy": "day", "keys": keys}
            table = TableWriter(read_sink_options(options), FRAME, overwrite=False)
            message = table.write(iter([batch(version, 7, day="a:b")]))
            table.commit([message], AppTransaction(f"app{keys}", version))
    assert ids(tmp_path) == [0, 1, 7, 7]
    assert not [entry for entry in tmp_path.rglob("_odradek_staging/*/*") if entry.is_file()]


def test_concurrent_upserts_all_succeed(tmp_path: Path) -> None:
    def run(number: int) -> None:
        for version in range(3):
            append(tmp_path / "t", version, number, 100, name=f"app{number}", keys="id")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    assert ids(tmp_path / "t") == [0, 1, 2, 100]


def test_app_transactions_survive_delta_checkpoints(tmp_path: Path) -> None:
    append(tmp_path / "t", 0, 1)
    table = DeltaTable(str(tmp_path / "t"))
    table.create_checkpoint()
    for entry in (tmp_path / "t" / "_delta_log").glob("*.json"):
        entry.unlink()
    append(tmp_path / "t", 0, 1)
    assert ids(tmp_path / "t") == [1]


def test_path_below_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match=r"check the path"):
        writer(tmp_path / "file" / "t").write(iter([batch(1)]))


def test_sink_options_can_be_replaced(tmp_path: Path) -> None:
    options = sink(tmp_path, compactEvery="3")
    assert dataclasses.replace(options, path="x").compact_every == 3
