"""Actions and exceptions for the error codes of Produce responses. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.client.errors import broker_error
from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.model.client_errors import ClientError, RequestRefused
from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch

_RECORD_ERROR_CODES = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})


class BatchAction(enum.Enum):
    WRITTEN = "the records are in the log"
    SPLIT = "too large: split the batch and send the parts"
    RETRY = "send it again later"
    FAIL = "fail the records"


def batch_action(
    batch: ProducerBatch,
    code: ErrorCode,
    log_start_offset: int,
    *,
    can_retry: bool,
    transaction_manager: TransactionManagerPort | None,
) -> BatchAction:
    """Return what to do with a batch; ``can_retry`` if attempts and time are left and it is not done."""
    if code is ErrorCode.NONE:
        return BatchAction.WRITTEN
    if code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.done:
        return BatchAction.SPLIT
    if can_retry:
        retries = (
            code.retriable
            if transaction_manager is None
            else transaction_manager.may_retry(batch, code, log_start_offset)
        )
        if retries:
            return BatchAction.RETRY
    # The broker has these records from an earlier attempt, but no longer knows their offsets.
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return BatchAction.WRITTEN
    return BatchAction.FAIL


def batch_error(batch: ProducerBatch, code: ErrorCode, message: str | None, broker: str) -> ClientError:
    """Return the exception for the records of a rejected batch."""
    what = f"{batch.count} record(s) for {batch.topic}-{batch.partition}"
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        message = message or "this producer is not authorized for idempotent writes"
    return broker_error(code, what, message=message, broker=broker)


def record_errors(
    batch: ProducerBatch, code: ErrorCode, errors: Sequence[Any], broker: str
) -> tuple[Mapping[int, BaseException], BaseException] | None:
    """Return exceptions by record index, and that of all other records, if the broker named records."""
    if not errors or code not in _RECORD_ERROR_CODES:
        return None
    partition = f"{batch.topic}-{batch.partition}"
    by_index: dict[int, BaseException] = {
        error.batch_index: broker_error(
            code, f"record for {partition}", message=error.batch_index_error_message, broker=broker
        )
        for error in errors
    }
    others = RequestRefused(
        f"record for {partition} was not written because other records of its batch were rejected",
        code=code,
        broker=broker,
        retriable=True,
    )
    return by_index, others
