"""The Produce request of one round to one broker, and its answer matched with the batches."""

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
    from odradek.records.codec import ProducerBatch

PRODUCE_KEY: Final = 0


def produce_request(
    batches: Sequence[ProducerBatch],
    finish: Callable[[ProducerBatch], memoryview],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    """One request with all batches, at most one for each partition; their bytes are not copied."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        part = PartitionProduceData(batch.partition, finish(batch))
        topics.setdefault(batch.topic, []).append(part)
    return ProduceRequest(
        transactional_id, acks, timeout_ms, [TopicProduceData(name, parts) for name, parts in topics.items()]
    )


def matched(
    batches: Sequence[ProducerBatch], answer: ProduceResponse
) -> Iterable[tuple[ProducerBatch, PartitionProduceResponse]]:
    """Each batch with its part of the answer; a broker that says nothing about one has failed on it."""
    if len(answer.responses) == 1:
        # Brokers answer in the order of the request, which is the order of batches if there is one topic.
        name, parts = answer.responses[0].name, answer.responses[0].partition_responses
        places = [one.partition for one in batches]
        if [part.index for part in parts] == places and {one.topic for one in batches} == {name}:
            return zip(batches, parts, strict=True)
    return _looked_up(batches, answer)


def _looked_up(
    batches: Sequence[ProducerBatch], answer: ProduceResponse
) -> Iterator[tuple[ProducerBatch, PartitionProduceResponse]]:
    told: dict[tuple[str, int], Any] = {
        (topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses
    }
    for batch in batches:
        found = told.get((batch.topic, batch.partition))
        yield batch, _silence(batch) if found is None else found


def _silence(batch: ProducerBatch) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        batch.partition,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        -1,
        error_message="the answer does not mention this partition",
    )
