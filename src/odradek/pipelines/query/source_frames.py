"""DataFrames of a pipeline's source: the input of its transform, and records that cannot be parsed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, Offsets
from odradek.pipelines.checkpoint.start_offsets import START_FILE
from odradek.pipelines.checkpoint.topic_ids import TOPICS_FILE
from odradek.pipelines.query import json_values
from odradek.pipelines.query.value_sample import InvalidSchema
from odradek.pipelines.spec.model import Source, Spec, Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Window = tuple[Offsets, Offsets]


class SourceFrames(NamedTuple):
    """Parsed rows, and in ``dead`` the unparsable records with a reason; None without a dead-letter topic."""

    rows: DataFrame
    dead: DataFrame | None


def source_frames(
    spark: SparkSession, spec: Spec, *, streaming: bool, window: Window | None = None
) -> SourceFrames:
    """Return the frames of a source, parsed as configured."""
    checkpoint = Checkpoint(spec.checkpoint)
    raw = _raw(spark, spec, checkpoint, streaming=streaming, window=window)
    frames = _parsed(spark, spec, checkpoint, raw)
    watermark = spec.source.watermark
    if watermark is None or not streaming:
        return frames
    return frames._replace(rows=_watermarked(frames.rows, watermark, spec))


def _watermarked(rows: DataFrame, watermark: Watermark, spec: Spec) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        return rows.withWatermark(watermark.column, watermark.delay)
    except PySparkException as error:
        message = str(error).strip().splitlines()[0]
        raise InvalidSchema(
            f"{spec.file.name}: [source] watermark on {watermark.column}: {message}"
        ) from None


def _parsed(spark: SparkSession, spec: Spec, checkpoint: Checkpoint, raw: DataFrame) -> SourceFrames:
    from pyspark.sql import functions as F

    value_format = spec.source.value.format
    if value_format == "text":
        return SourceFrames(raw.withColumn("value", F.col("value").cast("string")), None)
    if value_format != "json":
        return SourceFrames(raw, None)
    schema = json_values.value_schema(spark, spec, checkpoint)
    parsed = json_values.with_parsed(raw, schema)
    if spec.dead_letter is None:
        checked = parsed.filter(json_values.valid_or_fail(schema))
        return SourceFrames(json_values.fields_and_record(checked, schema), None)
    from odradek.pipelines.query.dead_letters import unreadable_records

    readable = parsed.filter(~json_values.is_unreadable())
    return SourceFrames(json_values.fields_and_record(readable, schema), unreadable_records(parsed, schema))


def _raw(
    spark: SparkSession, spec: Spec, checkpoint: Checkpoint, *, streaming: bool, window: Window | None
) -> DataFrame:
    source = spec.source
    reader: Any = spark.readStream if streaming else spark.read
    if source.type == "table":
        return _table(reader, source)
    if streaming:
        options = topic_options(
            spec, checkpoint.read_sidecar(START_FILE), checkpoint.read_sidecar_json(TOPICS_FILE)
        )
    else:
        options = window_options(spec, window)
    loaded: DataFrame = reader.format("odradek").options(**options).load()
    return loaded


def _table(reader: Any, source: Source) -> DataFrame:
    if source.format == "parquet":
        table_reader = reader.format("parquet").schema(source.schema)
    else:
        table_reader = reader.format("odradek_delta")
    loaded: DataFrame = table_reader.options(**source.options).load(source.path)
    return loaded


def topic_options(
    spec: Spec, reset_start: str | None = None, topic_ids: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the source options of a stream; the file's ``options`` take precedence. Pure."""
    source = spec.source
    return _merged(
        {
            **_selection(source),
            **(_start(source) if reset_start is None else {"startingOffsets": reset_start}),
            "maxOffsetsPerTrigger": str(source.max_per_trigger),
            "kafka.group.id": spec.observe.group,
            "commitGroup": "true",
            **({"expectedTopicIds": json.dumps(topic_ids)} if topic_ids else {}),
        },
        source.options,
    )


def window_options(spec: Spec, window: Window | None) -> dict[str, str]:
    """Return the source options of a batch read: all records, or those within a window of offsets. Pure."""
    options = _selection(spec.source)
    if window is not None:
        assignment = {topic: sorted(map(int, offsets)) for topic, offsets in sorted(window[0].items())}
        for option in ("subscribe", "subscribePattern"):
            options.pop(option, None)
        options["assign"] = json.dumps(assignment)
        options["startingOffsets"], options["endingOffsets"] = map(_offsets_json, window)
    return _merged(options, spec.source.options)


def _offsets_json(offsets: Mapping[str, Mapping[Any, int]]) -> str:
    return json.dumps(
        {
            topic: {str(partition): offset for partition, offset in partitions.items()}
            for topic, partitions in offsets.items()
        }
    )


def _selection(source: Source) -> dict[str, str]:
    options = {"kafka.bootstrap.servers": source.brokers, "kafka.isolation.level": source.isolation}
    if source.headers:
        options["includeHeaders"] = "true"
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    elif source.assign:
        options["assign"] = json.dumps({topic: list(numbers) for topic, numbers in source.assign.items()})
    else:
        options["subscribe"] = ",".join(source.topics)
    return options


def _start(source: Source) -> dict[str, str]:
    if source.start in ("earliest", "latest", "group"):
        return {"startingOffsets": source.start}
    if source.start == "offsets":
        return {"startingOffsets": _offsets_json(source.start_offsets)}
    start = datetime.datetime.fromisoformat(source.start)
    return {
        "startingTimestamp": str(int(start.timestamp() * 1000)),
        # After the last record, start at the log end.
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _merged(defaults: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Merge options without regard to case; ``options`` take precedence."""
    names = {name.lower() for name in options}
    return {**{name: value for name, value in defaults.items() if name.lower() not in names}, **options}
