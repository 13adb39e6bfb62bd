"""Delta tables through Spark: batch reads, and streams while the table grows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek import Consumer, TopicPartition
from odradek.spark.delta import maintenance

EVERY_TYPE = """
    id, cast(id % 3 as int) AS part, timestamp_micros(id * 1234567) AS at,
    cast(timestamp_micros(id) AS timestamp_ntz) AS plain, date_add(date'2026-01-31', cast(id AS int)) AS day,
    cast(id / 7 AS decimal(20,4)) AS price, cast(cast(id AS string) AS binary) AS raw,
    named_struct('a', id, 't', timestamp_micros(id)) AS inner, array(id, null) AS many, map('k', id) AS named,
    if(id % 2 = 0, null, concat('n', id)) AS name
"""


def table(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("odradek_delta").options(**options).load(str(path))


def test_written_table_is_readable_by_us_and_by_delta_rs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(0, 50, numPartitions=2).createOrReplaceTempView("numbers")
    frame = spark.sql(f"SELECT {EVERY_TYPE} FROM numbers")
    for _ in range(2):
        writer = frame.write.format("odradek_delta").option("partitionBy", "part").option("sinkId", "load-1")
        writer.mode("append").save(str(path))
    expected = sorted(frame.toArrow().to_pylist(), key=lambda row: row["id"])
    our_rows = sorted(
        table(spark, path).select(frame.columns).toArrow().to_pylist(), key=lambda row: row["id"]
    )
    delta_rs_rows = DeltaTable(str(path)).to_pyarrow_table(columns=frame.columns).to_pylist()
    assert our_rows == expected
    assert sorted(delta_rs_rows, key=lambda row: row["id"]) == expected
    selected = spark.read.format("odradek_delta").schema("name string, part int").load(str(path))
    assert selected.where("part = 1 AND name IS NULL").count() == 8


def test_overwrite_keeps_older_versions_readable(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for mode, end in (("append", 3), ("overwrite", 5)):
        spark.range(end).write.format("odradek_delta").mode(mode).save(str(path))
    assert table(spark, path).count() == 5
    newest = DeltaTable(str(path)).version()
    assert table(spark, path, versionAsOf=str(newest - 1)).count() == 3


def test_stream_reads_every_row_once_while_the_table_grows_and_is_compacted(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"

    def run() -> None:
        frame = spark.readStream.format("odradek_delta").option("maxFilesPerTrigger", "2").load(str(source))
        writer = frame.writeStream.format("odradek_delta").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(str(sink))
        assert query.awaitTermination(110), "the query did not end"

    for number in range(3):
        write_deltalake(str(source), pa.table({"id": pa.array([number], pa.int64())}), mode="append")
    run()
    write_deltalake(str(source), pa.table({"id": pa.array([3], pa.int64())}), mode="append")
    maintenance.compact(str(source))
    maintenance.vacuum(str(sink), retention_hours=0, dry_run=False)
    write_deltalake(str(source), pa.table({"id": pa.array([4], pa.int64())}), mode="append")
    run()
    ids = pa.table(DeltaTable(str(sink)).scan())["id"].to_pylist()
    assert Counter(ids) == Counter(range(5))
    offsets = sorted((Path(checkpoint) / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    last = json.loads(offsets[-1].read_text().splitlines()[-1])
    assert last == {"files": 0, "snapshot": False, "version": 6}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versionAsOf": "soon"}, "versionAsOf must be an integer >= 0, got 'soon'"),
        ({"partitonBytes": "1"}, "did you mean partitionBytes"),
    ],
)
def test_invalid_delta_options_are_reported_by_name(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        table(spark, tmp_path, **options)


def test_missing_table_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="is not a Delta table"):
        table(spark, tmp_path)


def test_dead_letters_reach_their_topic_and_not_the_table(
    spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str
) -> None:
    rows = spark.createDataFrame([(1, None), (2, "{broken"), (3, None)], "id int, bad string")
    dead = f.when(
        f.col("bad").isNotNull(),
        f.struct(
            f.lit(b"k").alias("key"),
            f.encode("bad", "utf-8").alias("value"),
            f.lit("no JSON").alias("reason"),
        ),
    )
    writer = rows.select("id", dead.alias("_dead")).write.format("odradek_delta").mode("append")
    settings = {"deadLetterTopic": topic, "deadLetter.kafka.bootstrap.servers": bootstrap}
    writer.options(**settings).save(str(tmp_path / "t"))
    assert sorted(pa.table(DeltaTable(str(tmp_path / "t")).scan())["id"].to_pylist()) == [1, 3]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.poll(timeout_s=30)
    assert (record.key, record.value) == (b"k", b"{broken")
    assert list(record.headers) == [("dead.reason", b"no JSON")]


def test_mismatched_schema_is_rejected_before_writing(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.format("odradek_delta").mode("append").save(str(tmp_path / "t"))
    files = sorted(Path(tmp_path, "t").rglob("*"))
    with pytest.raises((AnalysisException, PythonException), match="id is bigint in the table and string"):
        spark.range(1).selectExpr("cast(id AS string) id").write.format("odradek_delta").mode("append").save(
            str(tmp_path / "t")
        )
    assert sorted(Path(tmp_path, "t").rglob("*")) == files
