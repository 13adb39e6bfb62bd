"""Exceptions of the transaction manager."""

from __future__ import annotations

from typing import Final

from odradek.client.errors import broker_error
from odradek.client.producer.transactions.requests import TxnRequestType
from odradek.client.producer.transactions.sequences import ProducerIdentity
from odradek.model.client_errors import (
    ClientClosed,
    ClientError,
    CommitFailed,
    FatalProducerError,
    InvalidState,
    ProducerFenced,
    TransactionAborted,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode

_STALE_MEMBER: Final = frozenset(
    {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
)
_FATAL_FOR_BATCHES: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_ADVICE: Final = "close this producer and create a new one"


def producer_name(transactional_id: str | None) -> str:
    return (
        "the producer"
        if transactional_id is None
        else f"the producer of transactional id {transactional_id!r}"
    )


def is_fatal_error(error: BaseException) -> bool:
    """Return whether the error of a batch is fatal for the producer."""
    if isinstance(error, ClientError) and error.code is not None:
        return error.code in _FATAL_FOR_BATCHES
    return isinstance(error, UnsupportedVersion | FatalProducerError)


def fatal_producer_error(
    transactional_id: str | None, identity: ProducerIdentity, cause: BaseException
) -> FatalProducerError:
    """Return the fatal error of a producer."""
    code = cause.code if isinstance(cause, ClientError) else None
    if isinstance(cause, ProducerFenced) or code is ErrorCode.PRODUCER_FENCED:
        return producer_fenced(transactional_id, identity)
    if isinstance(cause, FatalProducerError):
        return cause
    error = FatalProducerError(
        f"fatal error of {producer_name(transactional_id)}: {cause}; {_ADVICE}", code=code, retriable=False
    )
    error.__cause__ = cause
    return error


def producer_fenced(transactional_id: str | None, identity: ProducerIdentity) -> ProducerFenced:
    return ProducerFenced(
        f"{producer_name(transactional_id)} ({identity}) has been fenced: another producer was initialized "
        "with the same transactional.id, or its transaction exceeded transaction.timeout.ms and was aborted; "
        "close this producer, and create a new one only if it is meant to take over",
        code=ErrorCode.PRODUCER_FENCED,
        retriable=False,
    )


def copy_error(error: ClientError) -> ClientError:
    """Return a copy of a lasting error: each caller gets its own exception."""
    copied = type(error)(str(error), code=error.code, retriable=error.retriable)
    copied.__cause__ = error.__cause__
    return copied


def abort_required(call: str, error: ClientError) -> InvalidState:
    """Return the error of a call in a failed transaction."""
    invalid = InvalidState(
        f"{call}: the transaction has failed and can only be aborted; call abort_transaction ({error})",
        code=error.code,
        retriable=False,
    )
    invalid.__cause__ = error
    return invalid


def transaction_aborted(transactional_id: str | None) -> TransactionAborted:
    return TransactionAborted(
        f"record not sent: the transaction of {producer_name(transactional_id)} is being aborted"
    )


def unresolved_error(*, can_bump: bool) -> ClientError:
    """Return the error for sent batches that failed without a known result."""
    what = "sent records failed without a response, and may or may not be written"
    advice = "abort the transaction" if can_bump else "the coordinator is too old to bump the producer epoch"
    return ClientError(f"{what}; {advice}", retriable=False)


def request_error(request_type: TxnRequestType, code: ErrorCode, key: object) -> ClientError:
    """Return the error of a response; ``key`` is the partition, group or transactional id."""
    what = f"cannot {request_type.value}" if key is None else f"cannot {request_type.value} ({key})"
    if request_type is TxnRequestType.COMMIT_OFFSETS and code in _STALE_MEMBER:
        return CommitFailed(
            f"{what}: {code.name}: the consumer is no longer a member of the group; abort the transaction",
            code=code,
        )
    hint = "transaction.timeout.ms must be <= transaction.max.timeout.ms of the broker"
    return broker_error(code, what, message=hint if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT else None)


def producer_closed() -> ClientClosed:
    return ClientClosed("the producer has been closed")
