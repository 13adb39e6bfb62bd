"""The schema of JSON values found by looking at the newest records of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.model.ids import TopicPartition
from odradek.pipelines.spec.model import Spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from odradek.client.blocking.consumer import Consumer

_CORRUPT: Final = "_odradek_corrupt"
_POLL_S: Final = 2.0
"""Records that do not come within this do not count: a sample is no promise."""


class SchemaRefused(Exception):
    """The schema of JSON values cannot be used; the words say what to do."""


def sample_starts(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows_max: int
) -> dict[TopicPartition, int]:
    """Where to begin, so that about ``rows_max`` newest offsets are read, dealt evenly. Pure."""
    share = max(1, -(-rows_max // max(1, len(ends))))
    return {one: max(starts.get(one, 0), end - share) for one, end in ends.items()}


def sampled_schema(spark: SparkSession, spec: Spec) -> StructType:
    """What Spark infers of a sample; raises SchemaRefused if there is nothing to infer from."""
    values = _newest_values(spec)
    if not values:
        raise SchemaRefused(
            f'{spec.file.name}: schema = "sample" finds no records in the topics. Give a schema in DDL, or '
            "produce some records first"
        )
    inferred = spark.read.option("columnNameOfCorruptRecord", _CORRUPT).json(
        spark.sparkContext.parallelize(values, 1)
    )
    schema = inferred.drop(_CORRUPT).schema
    if not schema.fields:
        raise SchemaRefused(f"{spec.file.name}: none of {len(values)} records sampled is a JSON object")
    return schema


def _newest_values(spec: Spec) -> list[str]:
    from odradek import Consumer, OffsetSpec
    from odradek.config.client import CONSUMER
    from odradek.pipelines.clusters import settings_for, source_admin, source_partitions

    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        starts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    begin = sample_starts(
        {one: found.offset for one, found in starts.items()},
        {one: found.offset for one, found in ends.items()},
        spec.source.value.sample_rows,
    )
    settings = settings_for(CONSUMER, spec.source.brokers, spec.source.options)
    settings |= {"isolation.level": spec.source.isolation, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        return _values(consumer, begin, {one: found.offset for one, found in ends.items()})


def _values(
    consumer: Consumer, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[str]:
    consumer.assign(list(begin))
    for one, offset in begin.items():
        consumer.seek(one, offset)
    values: list[str] = []
    while any(consumer.position(one) < end for one, end in ends.items()):
        polled = consumer.poll(timeout_s=_POLL_S)
        if not polled:
            break
        values += [bytes(record.value).decode(errors="replace") for record in polled if record.value]
    return values
