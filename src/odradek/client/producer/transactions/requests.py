"""The requests of a producer with an id: how they are built, in which order they go, and what answers mean.

An answer's errors are looked up in one table per request (``TXN_ERROR_ACTIONS``); what no table names is
retried if its error is retriable, and else ends the producer.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from odradek.client.producer.transactions.sequences import NOBODY, ProducerIdentity
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
"""Later versions are spoken among brokers."""
NO_TRANSACTION_TIMEOUT_MS: Final = (1 << 31) - 1
"""What a producer without transactions says for the duration of its transactions."""


class TxnErrorAction(enum.Enum):
    """What an error in an answer calls for."""

    DONE = enum.auto()
    RETRY = enum.auto()
    FIND_COORDINATOR = enum.auto()
    """Retry with the broker that is the coordinator now."""
    FENCED = enum.auto()
    """Another producer has taken the transactional id: the end."""
    FATAL = enum.auto()
    ABORT = enum.auto()
    """The transaction must be aborted."""
    ABORT_AND_BUMP = enum.auto()
    """It must be aborted, and the next one needs a higher epoch; the end where there can be none."""
    REFUSED = enum.auto()
    """The application may ask again once somebody has given it the right."""


class TxnRequestType(enum.Enum):
    """The kinds of requests; values are words for the user."""

    INIT = "get a producer id"
    ADD_PARTITIONS = "add partitions to the transaction"
    ADD_OFFSETS = "add a group's offsets to the transaction"
    COMMIT_OFFSETS = "commit a group's offsets in the transaction"
    END = "end the transaction"
    BUMP = "get the producer's next epoch"


PRIORITY: Final[Mapping[TxnRequestType, int]] = {
    TxnRequestType.INIT: 1,
    TxnRequestType.ADD_PARTITIONS: 2,
    TxnRequestType.ADD_OFFSETS: 2,
    TxnRequestType.COMMIT_OFFSETS: 2,
    TxnRequestType.END: 3,
    TxnRequestType.BUMP: 4,
}
"""A smaller number goes first, equal ones in the order they were asked for: partitions and offsets are added
in the order of the application's calls, the end comes after all that belongs to a transaction, a bump then.
"""

_E: Final = ErrorCode
_EVERYWHERE: Final[Mapping[ErrorCode, TxnErrorAction]] = {
    _E.NONE: TxnErrorAction.DONE,
    _E.NOT_COORDINATOR: TxnErrorAction.FIND_COORDINATOR,
    _E.COORDINATOR_NOT_AVAILABLE: TxnErrorAction.FIND_COORDINATOR,
    # CoordinatorLookup of old brokers call a fenced producer's epoch invalid.
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
        # Whatever else is wrong is wrong with one partition only.
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
        # The group has gone on without the consumer whose offsets these are.
        _E.FENCED_INSTANCE_ID: TxnErrorAction.ABORT,
        _E.UNKNOWN_MEMBER_ID: TxnErrorAction.ABORT,
        _E.ILLEGAL_GENERATION: TxnErrorAction.ABORT,
    },
    TxnRequestType.END: {**_EVERYWHERE, **_LOST_ID},
}


def txn_error_action(step: TxnRequestType, code: ErrorCode) -> TxnErrorAction:
    found = TXN_ERROR_ACTIONS[step].get(code)
    if found is not None:
        return found
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
    step: TxnRequestType, errors: Mapping[TopicPartition | None, ErrorCode]
) -> tuple[TopicPartition | None, ErrorCode]:
    """The error of an answer that decides what comes of the request, and the partition that has it.

    A partition that was not even tried says less than the one for whose sake that was so.
    """

    def gravity(item: tuple[TopicPartition | None, ErrorCode]) -> tuple[int, bool]:
        code = item[1]
        return _BY_GRAVITY.index(txn_error_action(step, code)), code is ErrorCode.OPERATION_NOT_ATTEMPTED

    return min(errors.items(), key=gravity, default=(None, ErrorCode.NONE))


def init_request(
    transactional_id: str | None, timeout_ms: int, identity: ProducerIdentity = NOBODY
) -> InitProducerIdRequest:
    """Ask for an id; with the one held so far, ask for its next epoch."""
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
            AddPartitionsToTxnTopic(name=topic, partitions=[one.partition for one in those])
            for topic, those in groupby(sorted(partitions), lambda one: one.topic)
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
                name=topic, partitions=[_committed(one.partition, offsets[one]) for one in those]
            )
            for topic, those in groupby(sorted(offsets), lambda one: one.topic)
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


def errors_in(step: TxnRequestType, answer: Any) -> dict[TopicPartition | None, ErrorCode]:
    """The errors of an answer by partition; those of answers about one thing have none."""
    if step is TxnRequestType.ADD_PARTITIONS:
        return {
            TopicPartition(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
    if step is TxnRequestType.COMMIT_OFFSETS:
        return {
            TopicPartition(topic.name, one.partition_index): ErrorCode(one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }
    return {None: ErrorCode(answer.error_code)}
