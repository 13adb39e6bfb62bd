"""Names of the source's options: those of Spark's own Kafka source, and Odradek's. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from odradek.config.client import CONSUMER
from odradek.spark.options.client_settings import PREFIX

_SPARK_NAMES: Final = (
    *("assign", "subscribe", "subscribePattern"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy",),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("failOnDataLoss", "includeHeaders", "groupIdPrefix"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxRecordsPerPartition"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *("kafkaConsumer.pollTimeoutMs", "partition.metadata.cache.ttl.ms"),
)
_ODRADEK_NAMES: Final = ("groupOffsetsFallback", "commitGroup", "expectedTopicIds")
OPTION_NAMES: Final = {name.lower(): name for name in (*_SPARK_NAMES, *_ODRADEK_NAMES)}

_HINTS: Final = {
    "topic": "use subscribe",
    "topics": "use subscribe, with topics separated by commas",
    "path": "use subscribe",
    "brokers": "use kafka.bootstrap.servers",
    "schema": "use .schema(…) with columns of the source",
    "checkpointlocation": "it is an option of writeStream",
    "guarantee": "it is an option of the sink",
}


def unknown_option_errors(names: Iterable[str]) -> list[str]:
    """Return an error message for each unknown option. ``kafka.*`` is checked by ``client_settings``."""
    return [
        _unknown(name)
        for name in sorted(map(str.lower, names))
        if name not in OPTION_NAMES and not name.startswith(PREFIX)
    ]


def _unknown(name: str) -> str:
    if name in _HINTS:
        return f"{name} is not an option of the source: {_HINTS[name]}"
    if name in CONSUMER.by_name:
        return f"{name} is not an option of the source: client options have a prefix, as in {PREFIX}{name}"
    nearest = get_close_matches(name, OPTION_NAMES, 1)
    hint = f"; did you mean {OPTION_NAMES[nearest[0]]}?" if nearest else ""
    return f"{name} is not an option of the source{hint}"
