"""WriteTxnMarkers, versions 0 and 1: end transactions in partitions that are led here. v1 is flexible.

Sent by the coordinators of other brokers, and by whoever looks after the cluster, to abort a transaction that
hangs. Each partition succeeds or fails alone; the answer waits until the markers are committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from odradek.broker.coordinators.transaction_marker_writer import Codes, Ending
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Result = WriteTxnMarkersResponse | Pending[WriteTxnMarkersResponse]


def write_txn_markers(request: WriteTxnMarkersRequest, call: Call) -> Result:
    pending: Pending[WriteTxnMarkersResponse] = Pending()
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    left = len(request.markers)
    if not left:
        return WriteTxnMarkersResponse()

    def told(producer_id: int, codes: Codes) -> None:
        nonlocal left
        left -= 1
        by_producer[producer_id].update(codes)
        if left == 0:
            pending.complete(WriteTxnMarkersResponse([_result(*one) for one in by_producer.items()]))

    for marker in request.markers:
        by_producer.setdefault(marker.producer_id, {})
    for marker in request.markers:
        ending = Ending(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result
        )
        call.broker.markers.write(ending, _partitions(marker), partial(told, marker.producer_id))
    return pending


def _partitions(marker: WritableTxnMarker) -> Iterable[TopicPartition]:
    named = (
        TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
    )
    return dict.fromkeys(named)


def _result(producer_id: int, codes: Codes) -> WritableTxnMarkerResult:
    by_topic: dict[str, WritableTxnMarkerTopicResult] = {}
    for (topic, index), code in codes.items():
        result = by_topic.setdefault(topic, WritableTxnMarkerTopicResult(topic, []))
        result.partitions.append(WritableTxnMarkerPartitionResult(index, code))
    return WritableTxnMarkerResult(producer_id, list(by_topic.values()))


def refuse(request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [_result(marker.producer_id, dict.fromkeys(_partitions(marker), code)) for marker in request.markers]
    )
