"""The words in which a producer with an id tells what has happened, and what can be done now."""

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

_GROUP_WENT_ON: Final = frozenset(
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
_CLOSE_IT: Final = "close this producer and make a new one"


def producer_named(transactional_id: str | None) -> str:
    return (
        "the producer"
        if transactional_id is None
        else f"the producer of transactional id {transactional_id!r}"
    )


def ends_the_producer(error: BaseException) -> bool:
    """Whether a batch failed in a way that no later batch can do better."""
    if isinstance(error, ClientError) and error.code is not None:
        return error.code in _FATAL_FOR_BATCHES
    return isinstance(error, UnsupportedVersion | FatalProducerError)


def fatal(
    transactional_id: str | None, identity: ProducerIdentity, cause: BaseException
) -> FatalProducerError:
    """The end of a producer, by whatever caused it."""
    code = cause.code if isinstance(cause, ClientError) else None
    if isinstance(cause, ProducerFenced) or code is ErrorCode.PRODUCER_FENCED:
        return fenced(transactional_id, identity)
    if isinstance(cause, FatalProducerError):
        return cause
    error = FatalProducerError(
        f"{producer_named(transactional_id)} cannot go on: {cause}; {_CLOSE_IT}", code=code, retriable=False
    )
    error.__cause__ = cause
    return error


def fenced(transactional_id: str | None, identity: ProducerIdentity) -> ProducerFenced:
    return ProducerFenced(
        f"{producer_named(transactional_id)} ({identity}) has been fenced: another one has been initialized "
        "with the same id since, or its transaction took longer than transaction.timeout.ms and was aborted; "
        "close this producer, and make a new one only if it is meant to take over",
        code=ErrorCode.PRODUCER_FENCED,
        retriable=False,
    )


def told_again(error: ClientError) -> ClientError:
    """An error that stays, for one more caller: each gets an exception of its own."""
    again = type(error)(str(error), code=error.code, retriable=error.retriable)
    again.__cause__ = error.__cause__
    return again


def abort_needed(call: str, error: ClientError) -> InvalidState:
    """A call in a transaction that has failed."""
    refused = InvalidState(
        f"{call}: the transaction has failed and can only be aborted; call abort_transaction ({error})",
        code=error.code,
        retriable=False,
    )
    refused.__cause__ = error
    return refused


def aborted(transactional_id: str | None) -> TransactionAborted:
    return TransactionAborted(
        f"not sent: the transaction of {producer_named(transactional_id)} is being aborted"
    )


def doubtful(*, can_go_on: bool) -> ClientError:
    """Batches were given up after they had been sent, and nobody knows whether they were written."""
    what = "records that were sent have got no answer and are not tried again"
    then = "abort the transaction" if can_go_on else "the coordinator is too old to bump the producer's epoch"
    return ClientError(f"{what}; {then}", retriable=False)


def failed_step(step: TxnRequestType, code: ErrorCode, about: object) -> ClientError:
    """A coordinator's broker_error; ``about`` is the partition, group or transactional id."""
    what = f"cannot {step.value}" if about is None else f"cannot {step.value} ({about})"
    if step is TxnRequestType.COMMIT_OFFSETS and code in _GROUP_WENT_ON:
        return CommitFailed(
            f"{what}: {code.name}: the group has gone on without this consumer; abort the transaction",
            code=code,
        )
    hint = "transaction.timeout.ms is more than the broker's transaction.max.timeout.ms"
    return broker_error(code, what, message=hint if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT else None)


def closed() -> ClientClosed:
    return ClientClosed("the producer has been closed")
