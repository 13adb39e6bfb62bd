"""Schema of JSON values inferred from the newest records of a topic."""

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
"""Sampling stops after this time without a record."""


class InvalidSchema(Exception):
    """Raised for an invalid schema of JSON values."""


def sample_starts(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows_max: int
) -> dict[TopicPartition, int]:
    """Return start offsets for about ``rows_max`` newest offsets, spread evenly over partitions. Pure."""
    share = max(1, -(-rows_max // max(1, len(ends))))
    return {partition: max(starts.get(partition, 0), end - share) for partition, end in ends.items()}


def sampled_schema(spark: SparkSession, spec: Spec) -> StructType:
    """Return the schema that Spark infers from a sample; raise InvalidSchema without records."""
    values = _newest_values(spec)
    if not values:
        raise InvalidSchema(
            f'{spec.file.name}: schema = "sample" requires records, but the topics are empty. Declare a DDL '
            "schema, or produce some records first"
        )
    inferred = spark.read.option("columnNameOfCorruptRecord", _CORRUPT).json(
        spark.sparkContext.parallelize(values, 1)
    )
    schema = inferred.drop(_CORRUPT).schema
    if not schema.fields:
        raise InvalidSchema(f"{spec.file.name}: none of {len(values)} sampled records is a JSON object")
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
        {partition: result.offset for partition, result in starts.items()},
        {partition: result.offset for partition, result in ends.items()},
        spec.source.value.sample_rows,
    )
    settings = settings_for(CONSUMER, spec.source.brokers, spec.source.options)
    settings |= {"isolation.level": spec.source.isolation, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        return _values(consumer, begin, {partition: result.offset for partition, result in ends.items()})


def _values(
    consumer: Consumer, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[str]:
    consumer.assign(list(begin))
    for partition, offset in begin.items():
        consumer.seek(partition, offset)
    values: list[str] = []
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        polled = consumer.poll(timeout_s=_POLL_S)
        if not polled:
            break
        values += [bytes(record.value).decode(errors="replace") for record in polled if record.value]
    return values
