"""WriteTxnMarkers, versions 0 and 1: append transaction markers to local partitions. v1 is flexible.

Sent by coordinators on other brokers, and by operators to abort a hanging transaction. Partitions succeed or
fail independently; the response waits until the markers are committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from odradek.broker.coordinators.transaction_marker_writer import Codes, TxnMarkerEntry
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.acl_operations import AclOperation
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

Result = WriteTxnMarkersResponse | PendingResponse[WriteTxnMarkersResponse]


def write_txn_markers(request: WriteTxnMarkersRequest, context: RequestContext) -> Result:
    if not context.is_allowed_on_cluster(AclOperation.ALTER, log_if_denied=False):
        context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    pending: PendingResponse[WriteTxnMarkersResponse] = PendingResponse()
    by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
    remaining = len(request.markers)
    if not remaining:
        return WriteTxnMarkersResponse()

    def on_result(producer_id: int, codes: Codes) -> None:
        nonlocal remaining
        remaining -= 1
        by_producer[producer_id].update(codes)
        if remaining == 0:
            pending.complete(WriteTxnMarkersResponse([_result(*item) for item in by_producer.items()]))

    for marker in request.markers:
        by_producer.setdefault(marker.producer_id, {})
    for marker in request.markers:
        marker_entry = TxnMarkerEntry(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result
        )
        context.broker.marker_writer.write(
            marker_entry, _partitions(marker), partial(on_result, marker.producer_id)
        )
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


def error_response(
    request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [_result(marker.producer_id, dict.fromkeys(_partitions(marker), code)) for marker in request.markers]
    )
