"""The names of the source's options: those of Spark's own Kafka source, and ours. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from odradek.config.client import CONSUMER
from odradek.spark.options.client_settings import PREFIX

_SPARKS: Final = (
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
_OURS: Final = ("groupOffsetsFallback", "commitGroup", "expectedTopicIds")
NAMES: Final = {name.lower(): name for name in (*_SPARKS, *_OURS)}

_SAID_OTHERWISE: Final = {
    "topic": "the option of a source is subscribe",
    "topics": "use subscribe, with commas between topics",
    "path": "topics have no path: use subscribe",
    "brokers": "use kafka.bootstrap.servers",
    "schema": "use .schema(…), which must name some of the source's columns",
    "checkpointlocation": "it belongs to writeStream",
    "guarantee": "it belongs to the sink",
}


def unknown_names(names: Iterable[str]) -> list[str]:
    """What to say of names that no option has. Those of ``kafka.*`` are judged elsewhere."""
    return [
        _unknown(name)
        for name in sorted(map(str.lower, names))
        if name not in NAMES and not name.startswith(PREFIX)
    ]


def _unknown(name: str) -> str:
    if name in _SAID_OTHERWISE:
        return f"{name} is not an option of the source: {_SAID_OTHERWISE[name]}"
    if name in CONSUMER.by_name:
        return f"{name} is not an option of the source: say {PREFIX}{name}, as of all options of the client"
    nearest = get_close_matches(name, NAMES, 1)
    hint = f"; did you mean {NAMES[nearest[0]]}?" if nearest else ""
    return f"{name} is not an option of the source{hint}"
