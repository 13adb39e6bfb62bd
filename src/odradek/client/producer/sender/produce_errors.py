"""What an answer means for a batch: written, to be cut, to be sent again, or given up. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.client.errors import broker_error
from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.model.client_errors import ClientError, RequestRefused
from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.records.codec import ProducerBatch

_ABOUT_SINGLE_RECORDS = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})


class BatchAction(enum.Enum):
    WRITTEN = "the records are in the log"
    SPLIT = "too large: cut it and send the pieces"
    RETRY = "send it again later"
    FAIL = "tell the program"


def batch_action(
    batch: ProducerBatch,
    code: ErrorCode,
    log_start_offset: int,
    *,
    may_be_tried: bool,
    order: TransactionManagerPort | None,
) -> BatchAction:
    """``may_be_tried``: attempts and time are left, and nobody has given the batch up in the meantime."""
    if code is ErrorCode.NONE:
        return BatchAction.WRITTEN
    if code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.done:
        return BatchAction.SPLIT
    if may_be_tried:
        again = code.retriable if order is None else order.may_retry(batch, code, log_start_offset)
        if again:
            return BatchAction.RETRY
    # The broker has these records from an earlier attempt, and forgot where it put them.
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return BatchAction.WRITTEN
    return BatchAction.FAIL


def batch_error(batch: ProducerBatch, code: ErrorCode, message: str | None, broker: str) -> ClientError:
    """What to tell the program about a batch that was refused."""
    what = f"{batch.count} record(s) for {batch.topic}-{batch.partition}"
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        message = message or "this producer may not write idempotently"
    return broker_error(code, what, message=message, broker=broker)


def record_errors(
    batch: ProducerBatch, code: ErrorCode, told: Sequence[Any], broker: str
) -> tuple[Mapping[int, BaseException], BaseException] | None:
    """Errors by record, and the one of all others, where a broker names the records at fault."""
    if not told or code not in _ABOUT_SINGLE_RECORDS:
        return None
    where = f"{batch.topic}-{batch.partition}"
    named: dict[int, BaseException] = {
        one.batch_index: broker_error(
            code, f"a record for {where}", message=one.batch_index_error_message, broker=broker
        )
        for one in told
    }
    others = RequestRefused(
        f"a record for {where} was not written because others of its batch were refused",
        code=code,
        broker=broker,
        retriable=True,
    )
    return named, others
