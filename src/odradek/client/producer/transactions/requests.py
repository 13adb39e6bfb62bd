"""Requests of the transaction manager: building them, their priority, and the errors of their responses.

The action for an error is looked up in a table per request type (``TXN_ERROR_ACTIONS``); an error that is not
in the table is retried if it is retriable, and fatal otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from odradek.client.producer.transactions.sequences import NO_IDENTITY, ProducerIdentity
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ADD_PARTITIONS_VERSION_MAX: Final = 3
"""Later versions are for inter-broker use."""
NO_TRANSACTION_TIMEOUT_MS: Final = (1 << 31) - 1
"""The transaction timeout of a producer without transactions."""


class TxnErrorAction(enum.Enum):
    """Action for the error of a response."""

    DONE = enum.auto()
    RETRY = enum.auto()
    FIND_COORDINATOR = enum.auto()
    """Retry after a new coordinator lookup."""
    FENCED = enum.auto()
    """Fatal: another producer has taken over the transactional id."""
    FATAL = enum.auto()
    ABORT = enum.auto()
    """The transaction must be aborted."""
    ABORT_AND_BUMP = enum.auto()
    """It must be aborted, and the epoch bumped; fatal if the coordinator does not support that."""
    REFUSED = enum.auto()
    """Not authorized; the application may try again."""


class TxnRequestType(enum.Enum):
    """Types of requests; values are for messages."""

    INIT = "get a producer id"
    ADD_PARTITIONS = "add partitions to the transaction"
    ADD_OFFSETS = "add a group's offsets to the transaction"
    COMMIT_OFFSETS = "commit a group's offsets in the transaction"
    END = "end the transaction"
    BUMP = "bump the producer epoch"


PRIORITY: Final[Mapping[TxnRequestType, int]] = {
    TxnRequestType.INIT: 1,
    TxnRequestType.ADD_PARTITIONS: 2,
    TxnRequestType.ADD_OFFSETS: 2,
    TxnRequestType.COMMIT_OFFSETS: 2,
    TxnRequestType.END: 3,
    TxnRequestType.BUMP: 4,
}
"""Lower numbers go first, equal ones in order: partitions and offsets are added in the order of the
application's calls, then the transaction ends, then the epoch is bumped.
"""

_E: Final = ErrorCode
_EVERYWHERE: Final[Mapping[ErrorCode, TxnErrorAction]] = {
    _E.NONE: TxnErrorAction.DONE,
    _E.NOT_COORDINATOR: TxnErrorAction.FIND_COORDINATOR,
    _E.COORDINATOR_NOT_AVAILABLE: TxnErrorAction.FIND_COORDINATOR,
    # Old coordinators return this for a fenced producer.
    _E.INVALID_PRODUCER_EPOCH: TxnErrorAction.FENCED,
    _E.PRODUCER_FENCED: TxnErrorAction.FENCED,
    _E.TRANSACTION_ABORTABLE: TxnErrorAction.ABORT,
}
_LOST_ID: Final[Mapping[ErrorCode, TxnErrorAction]] = {
    _E.UNKNOWN_PRODUCER_ID: TxnErrorAction.ABORT_AND_BUMP,
    _E.INVALID_PRODUCER_ID_MAPPING: TxnErrorAction.ABORT_AND_BUMP,
}
_INIT: Final = {
    **_EVERYWHERE,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TxnErrorAction.REFUSED,
    _E.CLUSTER_AUTHORIZATION_FAILED: TxnErrorAction.REFUSED,
}
TXN_ERROR_ACTIONS: Final[Mapping[TxnRequestType, Mapping[ErrorCode, TxnErrorAction]]] = {
    TxnRequestType.INIT: _INIT,
    TxnRequestType.BUMP: _INIT,
    TxnRequestType.ADD_PARTITIONS: {
        **_EVERYWHERE,
        **_LOST_ID,
        # All other errors are about a single partition.
        **{
            code: TxnErrorAction.ABORT
            for code in ErrorCode
            if not code.retriable
            and code not in _EVERYWHERE
            and code not in _LOST_ID
            and code not in (_E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.INVALID_TXN_STATE)
        },
    },
    TxnRequestType.ADD_OFFSETS: {
        **_EVERYWHERE,
        **_LOST_ID,
        _E.GROUP_AUTHORIZATION_FAILED: TxnErrorAction.ABORT,
    },
    TxnRequestType.COMMIT_OFFSETS: {
        **_EVERYWHERE,
        _E.REQUEST_TIMED_OUT: TxnErrorAction.FIND_COORDINATOR,
        _E.GROUP_AUTHORIZATION_FAILED: TxnErrorAction.ABORT,
        # The consumer is no longer a member of the group's current generation.
        _E.FENCED_INSTANCE_ID: TxnErrorAction.ABORT,
        _E.UNKNOWN_MEMBER_ID: TxnErrorAction.ABORT,
        _E.ILLEGAL_GENERATION: TxnErrorAction.ABORT,
    },
    TxnRequestType.END: {**_EVERYWHERE, **_LOST_ID},
}


def txn_error_action(request_type: TxnRequestType, code: ErrorCode) -> TxnErrorAction:
    action = TXN_ERROR_ACTIONS[request_type].get(code)
    if action is not None:
        return action
    return TxnErrorAction.RETRY if code.retriable else TxnErrorAction.FATAL


_BY_GRAVITY: Final = (
    TxnErrorAction.FENCED,
    TxnErrorAction.FATAL,
    TxnErrorAction.ABORT_AND_BUMP,
    TxnErrorAction.ABORT,
    TxnErrorAction.REFUSED,
    TxnErrorAction.FIND_COORDINATOR,
    TxnErrorAction.RETRY,
    TxnErrorAction.DONE,
)


def gravest(
    request_type: TxnRequestType, errors: Mapping[TopicPartition | None, ErrorCode]
) -> tuple[TopicPartition | None, ErrorCode]:
    """Return the partition and error of a response that decide about the request.

    OPERATION_NOT_ATTEMPTED counts less than the error that caused it.
    """

    def gravity(item: tuple[TopicPartition | None, ErrorCode]) -> tuple[int, bool]:
        code = item[1]
        return _BY_GRAVITY.index(
            txn_error_action(request_type, code)
        ), code is ErrorCode.OPERATION_NOT_ATTEMPTED

    return min(errors.items(), key=gravity, default=(None, ErrorCode.NONE))


def init_request(
    transactional_id: str | None, timeout_ms: int, identity: ProducerIdentity = NO_IDENTITY
) -> InitProducerIdRequest:
    """Return the request for a producer id; with the current identity, for its next epoch."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms if transactional_id is not None else NO_TRANSACTION_TIMEOUT_MS,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
    )


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[entry.partition for entry in entries])
            for topic, entries in groupby(sorted(partitions), lambda entry: entry.topic)
        ],
    )


def add_offsets_request(
    transactional_id: str, identity: ProducerIdentity, group_id: str
) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def commit_offsets_request(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic, partitions=[_committed(entry.partition, offsets[entry]) for entry in entries]
            )
            for topic, entries in groupby(sorted(offsets), lambda entry: entry.topic)
        ],
    )


def _committed(partition: int, offset: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def end_request(transactional_id: str, identity: ProducerIdentity, *, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )


def response_errors(request_type: TxnRequestType, response: Any) -> dict[TopicPartition | None, ErrorCode]:
    """Return the errors of a response by partition; by None if it has a single error."""
    if request_type is TxnRequestType.ADD_PARTITIONS:
        return {
            TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
    if request_type is TxnRequestType.COMMIT_OFFSETS:
        return {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }
    return {None: ErrorCode(response.error_code)}
