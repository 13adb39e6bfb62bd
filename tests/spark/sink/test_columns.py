"""Columns that the sink writes, in batch and streaming queries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from aiokafka.partitioner import murmur2
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topic_content import committed_records, committed_values, make_topic


def write(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("odradek").mode("append").options(
        **{"kafka.bootstrap.servers": bootstrap, **options}
    ).save()


def write_error(frame: DataFrame, bootstrap: str, **options: str) -> str:
    with pytest.raises(PySparkException) as raised:
        write(frame, bootstrap, **options)
    return str(raised.value)


def test_keys_values_headers_and_timestamps_are_written_unchanged(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic)
    frame = spark.sql(
        """select 'ö' as value, cast('k' as binary) as key,
           timestamp '2024-02-29 12:00:00.123456' as timestamp,
           array(named_struct('key', 'lang', 'value', cast('de' as binary)),
                 named_struct('key', 'none', 'value', cast(null as binary))) as headers
           union all select cast(null as string), null, null, null"""
    )
    before = datetime.now(UTC)
    write(frame.coalesce(1), bootstrap, topic=topic)
    full, empty = committed_records(bootstrap, topic)
    assert (full.key, full.value) == (b"k", "ö".encode())
    assert full.headers == (("lang", b"de"), ("none", None))
    assert full.timestamp == int(datetime(2024, 2, 29, 12, 0, 0, 123_000, UTC).timestamp() * 1000)
    assert (empty.key, empty.value, empty.headers) == (None, None, ())
    assert empty.timestamp >= int(before.timestamp() * 1000)


def test_binary_values_and_string_keys_are_sent_and_other_columns_ignored(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic)
    write(spark.sql("select X'00ff' as value, 'k' as key, 7 as offset"), bootstrap, topic=topic)
    (record,) = committed_records(bootstrap, topic)
    assert (record.key, record.value) == (b"k", b"\x00\xff")


def test_keys_are_partitioned_as_by_other_clients(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 7)
    keys = [b"", b"\xff\x00", *(f"castle {number}".encode() for number in range(100))]
    rows = [(bytearray(key), "v", None) for key in keys]
    frame = spark.createDataFrame(rows, "key binary, value string, partition int")
    write(frame, bootstrap, topic=topic)
    partitions = {record.key: record.partition for record in committed_records(bootstrap, topic)}
    assert partitions == {key: (murmur2(key) & 0x7FFF_FFFF) % 7 for key in keys}


def test_columns_topic_and_partition_are_used(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, f"{topic}-a", 3)
    make_topic(bootstrap, f"{topic}-b", 3)
    rows = [(f"{topic}-a", 2, "k", "1"), (f"{topic}-b", 0, "k", "2"), (f"{topic}-a", 1, "k", "3")]
    write(spark.createDataFrame(rows, "topic string, partition int, key string, value string"), bootstrap)
    records = {
        (name, record.partition, record.value)
        for name in ("a", "b")
        for record in committed_records(bootstrap, f"{topic}-{name}")
    }
    assert records == {("a", 2, b"1"), ("b", 0, b"2"), ("a", 1, b"3")}


def test_option_topic_overrides_the_column_in_spark(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    write(spark.sql("select 'nowhere' as topic, 'v' as value"), bootstrap, topic=topic)
    assert committed_values(bootstrap, topic) == [b"v"]


def test_more_rows_than_buffer_memory_are_written(spark: SparkSession, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 2)
    frame = spark.range(20_000).selectExpr("concat(cast(id as string), repeat('x', 200)) as value")
    write(frame.coalesce(1), bootstrap, topic=topic, **{"kafka.buffer.memory": "262144"})
    values = committed_values(bootstrap, topic)
    assert values == sorted(f"{number}{'x' * 200}".encode() for number in range(20_000))


def test_invalid_columns_and_options_are_rejected_with_advice(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    plain = spark.sql("select 'v' as value")
    assert "requires a column value" in write_error(spark.sql("select 1 as id"), bootstrap, topic=topic)
    assert "no topic: set the option topic" in write_error(plain, bootstrap)
    assert "must be string or binary, got int" in write_error(
        spark.sql("select 1 value"), bootstrap, topic=topic
    )
    assert "did you mean guarantee?" in write_error(plain, bootstrap, topic=topic, garantee="x")
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        plain.write.format("odradek").mode("overwrite").options(
            **{"kafka.bootstrap.servers": bootstrap, "topic": topic}
        ).save()


def test_row_without_topic_and_too_large_row_fail_the_task(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic)
    nowhere = spark.createDataFrame([(topic, "first"), (None, "second")], "topic string, value string")
    assert "value 'second') has no topic" in write_error(nowhere.coalesce(1), bootstrap)
    large = spark.sql("select repeat('x', 2000000) as value")
    assert "raise kafka.max.request.size" in write_error(large, bootstrap, topic=topic)


def test_append_and_complete_output_modes(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_topic(bootstrap, topic)
    files = str(tmp_path_factory.mktemp("input"))
    spark.range(5).selectExpr("cast(id as string) as value").write.mode("append").text(files)
    lines = spark.readStream.schema("value string").text(files)
    counted = lines.groupBy().count().selectExpr("concat('count ', count) as value")
    for mode, frame in (("append", lines), ("complete", counted)):
        query = (
            frame.writeStream.format("odradek")
            .outputMode(mode)
            .options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic})
            .option("checkpointLocation", f"{checkpoint}/{mode}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert committed_values(bootstrap, topic) == [b"0", b"1", b"2", b"3", b"4", b"count 5"]
