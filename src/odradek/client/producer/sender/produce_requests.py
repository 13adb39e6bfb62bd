"""Produce requests of batches, and the partition responses of each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.model.errors import ErrorCode
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch

PRODUCE_KEY: Final = 0


def produce_request(
    batches: Sequence[ProducerBatch],
    finish: Callable[[ProducerBatch], memoryview],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    """Return one request with all batches, at most one per partition, without copying them."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        partition = PartitionProduceData(batch.partition, finish(batch))
        topics.setdefault(batch.topic, []).append(partition)
    return ProduceRequest(
        transactional_id,
        acks,
        timeout_ms,
        [TopicProduceData(name, partitions) for name, partitions in topics.items()],
    )


def match_responses(
    batches: Sequence[ProducerBatch], response: ProduceResponse
) -> Iterable[tuple[ProducerBatch, PartitionProduceResponse]]:
    """Return each batch with its partition response; an error for partitions missing in the response."""
    if len(response.responses) == 1:
        # Brokers respond in the order of the request, which is the order of batches for a single topic.
        name, partitions = response.responses[0].name, response.responses[0].partition_responses
        indexes = [batch.partition for batch in batches]
        if [partition.index for partition in partitions] == indexes and {
            batch.topic for batch in batches
        } == {name}:
            return zip(batches, partitions, strict=True)
    return _match_by_partition(batches, response)


def _match_by_partition(
    batches: Sequence[ProducerBatch], response: ProduceResponse
) -> Iterator[tuple[ProducerBatch, PartitionProduceResponse]]:
    responses: dict[tuple[str, int], Any] = {
        (topic.name, partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    for batch in batches:
        partition = responses.get((batch.topic, batch.partition))
        yield batch, _missing_response(batch) if partition is None else partition


def _missing_response(batch: ProducerBatch) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        batch.partition,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        -1,
        error_message="the Produce response has no entry for this partition",
    )
