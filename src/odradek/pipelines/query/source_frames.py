"""The rows of a pipeline's source as a DataFrame: what its transform is given, and rows nobody can read."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, Offsets
from odradek.pipelines.checkpoint.start_offsets import START_FILE
from odradek.pipelines.checkpoint.topic_ids import TOPICS_FILE
from odradek.pipelines.query import json_values
from odradek.pipelines.query.value_sample import SchemaRefused
from odradek.pipelines.spec.model import Source, Spec, Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Window = tuple[Offsets, Offsets]


class SourceFrames(NamedTuple):
    """What is read. ``dead`` are raw records with a reason; None unless the file names a topic for them."""

    rows: DataFrame
    dead: DataFrame | None


def source_frame(
    spark: SparkSession, spec: Spec, *, streaming: bool, window: Window | None = None
) -> DataFrame:
    """The rows that a transform is given; one that cannot be read stops the query."""
    return source_frames(spark, spec, streaming=streaming, window=window).rows


def source_frames(
    spark: SparkSession, spec: Spec, *, streaming: bool, window: Window | None = None
) -> SourceFrames:
    """All that is read, parsed as the file says."""
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
    except PySparkException as wrong:
        words = str(wrong).strip().splitlines()[0]
        raise SchemaRefused(f"{spec.file.name}: [source] watermark on {watermark.column}: {words}") from None


def _parsed(spark: SparkSession, spec: Spec, checkpoint: Checkpoint, raw: DataFrame) -> SourceFrames:
    from pyspark.sql import functions as F

    form = spec.source.value.format
    if form == "text":
        return SourceFrames(raw.withColumn("value", F.col("value").cast("string")), None)
    if form != "json":
        return SourceFrames(raw, None)
    schema = json_values.value_schema(spark, spec, checkpoint)
    parsed = json_values.with_parsed(raw, schema)
    if spec.dead_letter is None:
        checked = parsed.filter(json_values.readable_or_stop(schema))
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
        chosen = reader.format("parquet").schema(source.schema)
    else:
        chosen = reader.format("odradek_delta")
    loaded: DataFrame = chosen.options(**source.options).load(source.path)
    return loaded


def topic_options(
    spec: Spec, handed_over: str | None = None, topic_ids: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options of a stream from topics; the file's own ``options`` win. Pure."""
    source = spec.source
    return _merged(
        {
            **_choice(source),
            **(_start(source) if handed_over is None else {"startingOffsets": handed_over}),
            "maxOffsetsPerTrigger": str(source.max_per_trigger),
            "kafka.group.id": spec.observe.group,
            "commitGroup": "true",
            **({"expectedTopicIds": json.dumps(topic_ids)} if topic_ids else {}),
        },
        source.options,
    )


def window_options(spec: Spec, window: Window | None) -> dict[str, str]:
    """The options of one look at topics between two offsets of each partition, or at all there is. Pure."""
    options = _choice(spec.source)
    if window is not None:
        named = {topic: sorted(map(int, offsets)) for topic, offsets in sorted(window[0].items())}
        for choice in ("subscribe", "subscribePattern"):
            options.pop(choice, None)
        options["assign"] = json.dumps(named)
        options["startingOffsets"], options["endingOffsets"] = map(_offsets_json, window)
    return _merged(options, spec.source.options)


def _offsets_json(offsets: Mapping[str, Mapping[Any, int]]) -> str:
    return json.dumps({topic: {str(one): of[one] for one in of} for topic, of in offsets.items()})


def _choice(source: Source) -> dict[str, str]:
    options = {"kafka.bootstrap.servers": source.brokers, "kafka.isolation.level": source.isolation}
    if source.headers:
        options["includeHeaders"] = "true"
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    elif source.assign:
        options["assign"] = json.dumps({topic: list(of) for topic, of in source.assign.items()})
    else:
        options["subscribe"] = ",".join(source.topics)
    return options


def _start(source: Source) -> dict[str, str]:
    if source.start in ("earliest", "latest", "group"):
        return {"startingOffsets": source.start}
    if source.start == "offsets":
        return {"startingOffsets": _offsets_json(source.start_offsets)}
    at = datetime.datetime.fromisoformat(source.start)
    return {
        "startingTimestamp": str(int(at.timestamp() * 1000)),
        # A time after the last record means: from now on.
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _merged(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Options without regard to case; what was given wins."""
    named = {name.lower() for name in given}
    return {**{name: value for name, value in ours.items() if name.lower() not in named}, **given}
