"""DescribeProducers, version 0: producer state of partitions.

Served by any replica. Yields to the event loop for partitions with very many producers.
"""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.cluster.topic_names import check_topic_name
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

PRODUCERS_PER_BATCH: Final = 500
"""Producers described before yielding to the event loop: about a millisecond."""


async def describe_producers(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        entries = [await _describe(topic.name, index, context) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(topic.name, entries))
    return response


async def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    replica_manager = context.broker.replica_manager
    try:
        check_topic_name(topic)
        context.require(AclOperation.READ, AclResourceType.TOPIC, topic)
        partition = replica_manager.get_partition(topic, index)
        if partition is None:
            raise replica_manager.partition_error(topic, index)
    except BrokerError as error:
        return PartitionResponse(index, error.code, error.message)
    entry = PartitionResponse(index)
    for count, producer in enumerate(partition.producers.entries(), 1):
        entry.active_producers.append(_producer_state(producer))
        if count % PRODUCERS_PER_BATCH == 0:
            await asyncio.sleep(0)
    return entry


def _producer_state(producer: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def error_response(
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
