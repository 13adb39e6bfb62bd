"""The sink of a pipeline: its DataFrame, options and query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState
from odradek.pipelines.query import dead_letters
from odradek.pipelines.query.json_values import RECORD
from odradek.pipelines.spec.durations import duration_ms, spark_interval
from odradek.pipelines.spec.model import Spec, replaces_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from odradek.pipelines.query.source_frames import SourceFrames

_SECURITY_PREFIXES: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
_RECORD_COLUMNS: Final = ("key", "headers", "timestamp")
_JSON: Final = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_MISSING_MARKERS: Final = "missingMarkers"
_FORMATS: Final = {"topic": "odradek", "delta": "odradek_delta"}


class InvalidSink(Exception):
    """Raised when the rows of the transform do not match the sink."""


def sink_frame(rows: DataFrame, source: SourceFrames, spec: Spec) -> DataFrame:
    """Return the DataFrame that the sink writes: rows of the transform, and dead letters."""
    sink_rows = topic_rows(rows, spec) if spec.sink.type == "topic" else rows
    if source.dead is None or spec.dead_letter is None:
        return sink_rows
    if spec.sink.type == "topic":
        dead = dead_letters.as_topic_rows(source.dead, spec.dead_letter.topic)
        # Valid rows come first: their partition ids must not depend on dead letters.
        return sink_rows.unionByName(dead, allowMissingColumns=True)
    return dead_letters.with_dead_column(sink_rows, source.dead)


def topic_rows(rows: DataFrame, spec: Spec) -> DataFrame:
    """Return rows with the sink's topic, a key, and a value: the column value, or all columns as JSON."""
    from pyspark.sql import functions as F

    names = rows.columns
    if spec.sink.key is not None and spec.sink.key not in names:
        raise InvalidSink(
            f"[sink] key must be a column of the transform ({', '.join(names)}), got {spec.sink.key}"
        )
    columns = [F.lit(spec.sink.topic).alias("topic")]
    if "value" in names:
        columns.append(F.col("value").cast("binary").alias("value"))
        columns += [_cast(name) for name in _RECORD_COLUMNS if name in names and name != "key"]
    else:
        fields = [_quoted(name) for name in names if name != RECORD]
        columns.append(F.to_json(F.struct(*fields), _JSON).cast("binary").alias("value"))
    key = _key(rows, spec)
    return rows.select(*columns) if key is None else rows.select(*columns, key.alias("key"))


def _quoted(name: str) -> Column:
    """Return a column by its name, which may contain dots."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`").alias(name)


def _cast(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name).cast("timestamp").alias(name) if name == "timestamp" else F.col(name)


def _key(rows: DataFrame, spec: Spec) -> Column | None:
    """Return the key: the configured column, the column key, or the key of the source record."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    name = spec.sink.key or ("key" if "key" in rows.columns and "value" in rows.columns else None)
    if name is not None:
        column = _quoted(name)
        is_binary = isinstance(rows.schema[name].dataType, BinaryType)
        return column if is_binary else column.cast("string").cast("binary")
    record = rows.schema[RECORD].dataType if RECORD in rows.columns else None
    if isinstance(record, StructType) and "key" in record.fieldNames():
        return F.col(RECORD).getField("key")
    return None


def sink_options(spec: Spec) -> dict[str, str]:
    """Return the options of the sink's format; the file's options take precedence. Pure."""
    sink = spec.sink
    if sink.type == "topic":
        defaults = {
            "kafka.bootstrap.servers": sink.brokers,
            "guarantee": sink.guarantee,
            **shared_security_options(spec),
        }
        return {**defaults, **sink.options}
    if sink.type == "delta":
        return _delta_options(spec)
    if sink.type == "parquet":
        return {"path": sink.path or "", **sink.options}
    return dict(sink.options)


def streaming_options(spec: Spec, state: CheckpointState) -> dict[str, str]:
    """Return the options of the sink's format for a query whose checkpoint is in this state. Pure.

    If the last batch is committed, the next one is new and cannot have been written, so missing markers do
    not matter.
    """
    options = sink_options(spec)
    uses_markers = spec.sink.type == "topic" and spec.sink.guarantee == "exactly_once"
    if uses_markers and state.unfinished is None:
        names = {name.lower() for name in options}
        options |= {} if _MISSING_MARKERS.lower() in names else {_MISSING_MARKERS: "write"}
    return options


def _delta_options(spec: Spec) -> dict[str, str]:
    sink = spec.sink
    options = {"path": sink.path or ""}
    if sink.keys:
        options["keys"] = ",".join(sink.keys)
    if sink.partition_by:
        options["partitionBy"] = ",".join(sink.partition_by)
    if sink.compact_every:
        options["compactEvery"] = str(sink.compact_every)
        options["vacuumHours"] = str(sink.vacuum_hours)
    client = {"kafka.bootstrap.servers": sink.brokers, **shared_security_options(spec)}
    if spec.dead_letter is not None:
        client |= {name: value for name, value in sink.options.items() if name.startswith("kafka.")}
        options["deadLetterTopic"] = spec.dead_letter.topic
        options |= {f"deadLetter.{name}": value for name, value in client.items()}
    own_options = {name: value for name, value in sink.options.items() if not name.startswith("kafka.")}
    return {**options, **own_options}


def shared_security_options(spec: Spec) -> Mapping[str, str]:
    """Return the source's security options, if the sink has the same brokers."""
    if spec.sink.brokers != spec.source.brokers:
        return {}
    return {name: value for name, value in spec.source.options.items() if name.startswith(_SECURITY_PREFIXES)}


def start_query(frame: DataFrame, spec: Spec, *, once: bool) -> StreamingQuery:
    """Start the query; with ``once`` it ends when all available records are written."""
    interval_ms = duration_ms(spec.trigger) or 0
    trigger: dict[str, Any] = (
        {"availableNow": True} if once else {"processingTime": spark_interval(interval_ms)}
    )
    writer = (
        frame.writeStream.queryName(spec.name)
        .option("checkpointLocation", Checkpoint(spec.checkpoint).spark_location)
        .outputMode(spec.sink.mode)
        .trigger(**trigger)
    )
    if replaces_rows(spec):
        return writer.foreachBatch(_upsert_function(spec)).start()
    options = streaming_options(spec, Checkpoint(spec.checkpoint).state())
    writer = writer.format(_FORMATS.get(spec.sink.type, spec.sink.type)).options(**options)
    if spec.sink.type == "parquet" and spec.sink.partition_by:
        writer = writer.partitionBy(*spec.sink.partition_by)
    return writer.start()


def _upsert_function(spec: Spec) -> Callable[[DataFrame, int], None]:
    from odradek.spark.delta.upserts import upsert_into

    options = sink_options(spec)
    path, keys = options.pop("path"), options.pop("keys")
    return upsert_into(path, keys, name=spec.name, options=options)


def write_batch(frame: DataFrame, spec: Spec, replay_id: str) -> None:
    """Write a window of the source again; once per id, if the sink is exactly once."""
    writer = frame.write.format(_FORMATS.get(spec.sink.type, spec.sink.type)).mode("append")
    writer = writer.options(**sink_options(spec))
    if spec.sink.type in _FORMATS:
        writer = writer.option("sinkId", replay_id)
    if spec.sink.type == "parquet" and spec.sink.partition_by:
        writer = writer.partitionBy(*spec.sink.partition_by)
    if spec.sink.type == "console":
        frame.show()
    else:
        writer.save()
