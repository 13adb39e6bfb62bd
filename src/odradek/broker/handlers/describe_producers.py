"""DescribeProducers, version 0: what partitions remember of the producers that write to them.

Any replica answers. Partitions with very many producers are gone over in turns.
"""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.broker.requests.dispatcher import Call
from odradek.cluster.topic_names import check_topic_name
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

PRODUCERS_A_TURN: Final = 500
"""Described before others on the loop have their turn: about a millisecond."""


async def describe_producers(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        entries = [await _described(topic.name, index, call) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(topic.name, entries))
    return response


async def _described(topic: str, index: int, call: Call) -> PartitionResponse:
    replicas = call.broker.replicas
    try:
        check_topic_name(topic)
        partition = replicas.find(topic, index)
        if partition is None:
            raise replicas.partition_error(topic, index)
    except BrokerError as refused:
        return PartitionResponse(index, refused.code, refused.message)
    found = PartitionResponse(index)
    for count, producer in enumerate(partition.log.producers.entries(), 1):
        found.active_producers.append(_state(producer))
        if count % PRODUCERS_A_TURN == 0:
            await asyncio.sleep(0)
    return found


def _state(producer: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def refuse(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [PartitionResponse(index, code, message) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
