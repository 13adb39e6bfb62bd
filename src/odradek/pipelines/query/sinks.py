"""The end of a pipeline: its rows as the sink takes them, and the query that writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState
from odradek.pipelines.query import dead_letters
from odradek.pipelines.query.json_values import RECORD
from odradek.pipelines.spec.durations import span_ms, spark_interval
from odradek.pipelines.spec.model import Spec, replaces_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from odradek.pipelines.query.source_frames import SourceFrames

_SECRETS: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
_SENT: Final = ("key", "headers", "timestamp")
_JSON: Final = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_MISSING_MARKERS: Final = "missingMarkers"
_FORMATS: Final = {"topic": "odradek", "delta": "odradek_delta"}


class InvalidSink(Exception):
    """The rows of the transform do not fit the sink; the words say what is missing."""


def outgoing(rows: DataFrame, source: SourceFrames, spec: Spec) -> DataFrame:
    """What the sink writes: rows of the transform, and dead letters with them."""
    sent = topic_rows(rows, spec) if spec.sink.type == "topic" else rows
    if source.dead is None or spec.dead_letter is None:
        return sent
    if spec.sink.type == "topic":
        dead = dead_letters.as_topic_rows(source.dead, spec.dead_letter.topic)
        # Good rows come first: their tasks keep their numbers whether or not there are dead letters.
        return sent.unionByName(dead, allowMissingColumns=True)
    return dead_letters.with_dead_column(sent, source.dead)


def topic_rows(rows: DataFrame, spec: Spec) -> DataFrame:
    """Rows with the sink's topic, a key, and a value: the column of that name, or all columns as JSON."""
    from pyspark.sql import functions as F

    names = rows.columns
    if spec.sink.key is not None and spec.sink.key not in names:
        raise InvalidSink(
            f"[sink] key is {spec.sink.key}, and there is no such column; there are {', '.join(names)}"
        )
    columns = [F.lit(spec.sink.topic).alias("topic")]
    if "value" in names:
        columns.append(F.col("value").cast("binary").alias("value"))
        columns += [_cast(name) for name in _SENT if name in names and name != "key"]
    else:
        sent = [_quoted(name) for name in names if name != RECORD]
        columns.append(F.to_json(F.struct(*sent), _JSON).cast("binary").alias("value"))
    key = _key(rows, spec)
    return rows.select(*columns) if key is None else rows.select(*columns, key.alias("key"))


def _quoted(name: str) -> Column:
    """A column by its name, which may have dots in it."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`").alias(name)


def _cast(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name).cast("timestamp").alias(name) if name == "timestamp" else F.col(name)


def _key(rows: DataFrame, spec: Spec) -> Column | None:
    """The key column: the one named, the one called so, or that of the record the row came from."""
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
    """The options of the sink's format; the file's own win. Pure."""
    sink = spec.sink
    if sink.type == "topic":
        ours = {"kafka.bootstrap.servers": sink.brokers, "guarantee": sink.guarantee, **shared_secrets(spec)}
        return {**ours, **sink.options}
    if sink.type == "delta":
        return _delta_options(spec)
    if sink.type == "parquet":
        return {"path": sink.path or "", **sink.options}
    return dict(sink.options)


def streaming_options(spec: Spec, state: CheckpointState) -> dict[str, str]:
    """The options of the sink's format for a query whose checkpoint is in this state. Pure.

    If its last batch was finished, the next one is new, and cannot have been written: that markers of the
    query are gone does not matter then.
    """
    options = sink_options(spec)
    is_marked = spec.sink.type == "topic" and spec.sink.guarantee == "exactly_once"
    if is_marked and state.unfinished is None:
        given = {name.lower() for name in options}
        options |= {} if _MISSING_MARKERS.lower() in given else {_MISSING_MARKERS: "write"}
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
    client = {"kafka.bootstrap.servers": sink.brokers, **shared_secrets(spec)}
    if spec.dead_letter is not None:
        client |= {name: value for name, value in sink.options.items() if name.startswith("kafka.")}
        options["deadLetterTopic"] = spec.dead_letter.topic
        options |= {f"deadLetter.{name}": value for name, value in client.items()}
    return {**options, **{name: of for name, of in sink.options.items() if not name.startswith("kafka.")}}


def shared_secrets(spec: Spec) -> Mapping[str, str]:
    """How the source proves who it is counts for the same brokers at the other end too."""
    if spec.sink.brokers != spec.source.brokers:
        return {}
    return {name: value for name, value in spec.source.options.items() if name.startswith(_SECRETS)}


def start_query(frame: DataFrame, spec: Spec, *, once: bool) -> StreamingQuery:
    """Begin to write; with ``once`` the query ends when all that is there now is written."""
    pace = span_ms(spec.trigger) or 0
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": spark_interval(pace)}
    writer = (
        frame.writeStream.queryName(spec.name)
        .option("checkpointLocation", Checkpoint(spec.checkpoint).spark_place)
        .outputMode(spec.sink.mode)
        .trigger(**trigger)
    )
    if replaces_rows(spec):
        return writer.foreachBatch(_upserts(spec)).start()
    options = streaming_options(spec, Checkpoint(spec.checkpoint).state())
    writer = writer.format(_FORMATS.get(spec.sink.type, spec.sink.type)).options(**options)
    if spec.sink.type == "parquet" and spec.sink.partition_by:
        writer = writer.partitionBy(*spec.sink.partition_by)
    return writer.start()


def _upserts(spec: Spec) -> Callable[[DataFrame, int], None]:
    from odradek.spark.delta.sink.merge import upsert_into

    options = sink_options(spec)
    path, keys = options.pop("path"), options.pop("keys")
    return upsert_into(path, keys, name=spec.name, options=options)


def write_batch(frame: DataFrame, spec: Spec, replay_id: str) -> None:
    """Write a window of the source again: once for each id, where the sink can tell."""
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
