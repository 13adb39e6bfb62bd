"""WriteTxnMarkers, key 27: write the end markers of transactions to partitions. Versions 0 and 1; between
brokers.
"""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, int64, message, string, structure


@structure
class WritableTxnMarkerTopic:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@structure
class WritableTxnMarker:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()


@message(versions=range(0, 2), flexible=1)
class WriteTxnMarkersRequest:
    """v1 is flexible."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@structure
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@structure
class WritableTxnMarkerTopicResult:
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@structure
class WritableTxnMarkerResult:
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(versions=range(0, 2), flexible=1)
class WriteTxnMarkersResponse:
    """An error per producer and partition. v1 is flexible."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
