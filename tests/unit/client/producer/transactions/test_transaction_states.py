"""States of the transaction manager, valid calls, and actions for coordinator errors."""

from __future__ import annotations

from itertools import product

import pytest

from odradek.client.producer.transactions.errors import request_error
from odradek.client.producer.transactions.requests import (
    PRIORITY,
    TXN_ERROR_ACTIONS,
    TxnErrorAction,
    TxnRequestType,
    gravest,
    txn_error_action,
)
from odradek.client.producer.transactions.states import (
    COMPLETING,
    ONGOING,
    VALID_SOURCES,
    TxnManagerState,
    check_transition,
    invalid_call_reason,
)
from odradek.client.producer.transactions.transaction_status import TransactionStatus
from odradek.model.client_errors import (
    ClientError,
    CommitFailed,
    FatalProducerError,
    InvalidState,
    ProducerFenced,
    TransactionAborted,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

ALLOWED = {
    "init_transactions": {TxnManagerState.UNINITIALIZED},
    "begin_transaction": {TxnManagerState.READY},
    "send": {TxnManagerState.IN_TRANSACTION},
    "send_offsets_to_transaction": {TxnManagerState.IN_TRANSACTION},
    "commit_transaction": {TxnManagerState.IN_TRANSACTION},
    "abort_transaction": {TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTABLE_ERROR},
}
MOVES = {
    (TxnManagerState.UNINITIALIZED, TxnManagerState.INITIALIZING),
    (TxnManagerState.INITIALIZING, TxnManagerState.READY),
    (TxnManagerState.INITIALIZING, TxnManagerState.ABORTABLE_ERROR),
    (TxnManagerState.READY, TxnManagerState.UNINITIALIZED),
    (TxnManagerState.READY, TxnManagerState.IN_TRANSACTION),
    (TxnManagerState.IN_TRANSACTION, TxnManagerState.COMMITTING),
    (TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTING),
    (TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTABLE_ERROR),
    (TxnManagerState.COMMITTING, TxnManagerState.READY),
    (TxnManagerState.COMMITTING, TxnManagerState.ABORTABLE_ERROR),
    (TxnManagerState.ABORTING, TxnManagerState.READY),
    (TxnManagerState.ABORTING, TxnManagerState.INITIALIZING),
    (TxnManagerState.ABORTABLE_ERROR, TxnManagerState.ABORTING),
    (TxnManagerState.ABORTABLE_ERROR, TxnManagerState.ABORTABLE_ERROR),
    (TxnManagerState.ABORTABLE_ERROR, TxnManagerState.UNINITIALIZED),
    *((state, TxnManagerState.FATAL_ERROR) for state in TxnManagerState),
}


@pytest.mark.parametrize(("old", "new"), list(product(TxnManagerState, TxnManagerState)))
def test_only_listed_state_transitions_are_allowed(old: TxnManagerState, new: TxnManagerState) -> None:
    if (old, new) in MOVES:
        check_transition(old, new)
    else:
        with pytest.raises(AssertionError, match=f"from {old.name} to {new.name}"):
            check_transition(old, new)


def test_every_state_is_reachable_and_only_fatal_error_is_final() -> None:
    reached = {TxnManagerState.UNINITIALIZED}
    for _ in TxnManagerState:
        reached |= {new for new, olds in VALID_SOURCES.items() if olds & reached}
    assert reached == set(TxnManagerState)
    left = {old for new, olds in VALID_SOURCES.items() for old in olds if old is not new}
    assert left == set(TxnManagerState) - {TxnManagerState.FATAL_ERROR}
    assert COMPLETING < ONGOING


def _status(state: TxnManagerState) -> TransactionStatus:
    status = TransactionStatus("t")
    status.state = state
    if state is TxnManagerState.ABORTABLE_ERROR:
        status.error = ClientError("a record was too large")
    elif state is TxnManagerState.FATAL_ERROR:
        status.error = FatalProducerError("fatal")
    return status


@pytest.mark.parametrize(("call", "state"), list(product(ALLOWED, TxnManagerState)))
def test_call_in_a_wrong_state_is_rejected_with_advice(call: str, state: TxnManagerState) -> None:
    status = _status(state)
    if state in ALLOWED[call]:
        status.check_call(call)
    elif state is TxnManagerState.FATAL_ERROR:
        with pytest.raises(FatalProducerError, match="fatal"):
            status.check_call(call)
    else:
        with pytest.raises(InvalidState, match=f"^{call}: ") as raised:
            status.check_call(call)
        if state is TxnManagerState.ABORTABLE_ERROR:
            assert "call abort_transaction" in str(raised.value)
            assert "too large" in str(raised.value)


@pytest.mark.parametrize("call", ALLOWED)
def test_producer_without_transactional_id_may_only_send(call: str) -> None:
    status = TransactionStatus(None)
    if call == "send":
        status.check_call(call)
    else:
        with pytest.raises(InvalidState, match=r"transactional\.id"):
            status.check_call(call)


def test_fatal_error_is_raised_as_a_new_exception_each_time() -> None:
    status = _status(TxnManagerState.FATAL_ERROR)
    errors = []
    for _ in range(2):
        with pytest.raises(FatalProducerError) as raised:
            status.check_call("send")
        errors.append(raised.value)
    assert errors[0] is not errors[1]
    assert errors[0] is not status.error


@pytest.mark.parametrize("state", TxnManagerState)
def test_abort_reason_by_state(
    state: TxnManagerState,
) -> None:
    reason = _status(state).abort_reason
    if state is TxnManagerState.ABORTABLE_ERROR:
        assert str(reason) == "a record was too large"
    else:
        assert isinstance(reason, TransactionAborted) == (state is TxnManagerState.ABORTING)


def test_every_wrong_state_has_advice() -> None:
    error_states = {TxnManagerState.ABORTABLE_ERROR, TxnManagerState.FATAL_ERROR}
    for call, state in product(ALLOWED, TxnManagerState):
        reason = invalid_call_reason(call, state)
        assert (reason is None) == (state in ALLOWED[call] | error_states)


@pytest.mark.parametrize(("request_type", "code"), list(product(TxnRequestType, ErrorCode)))
def test_every_coordinator_error_has_an_action(request_type: TxnRequestType, code: ErrorCode) -> None:
    action = txn_error_action(request_type, code)
    if code is ErrorCode.NONE:
        assert action is TxnErrorAction.DONE
    elif code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
        assert action is TxnErrorAction.FENCED
    elif code.retriable:
        assert action in (TxnErrorAction.RETRY, TxnErrorAction.FIND_COORDINATOR)
    else:
        assert action not in (TxnErrorAction.DONE, TxnErrorAction.RETRY, TxnErrorAction.FIND_COORDINATOR)


@pytest.mark.parametrize(
    ("request_type", "code", "expected"),
    [
        (TxnRequestType.INIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, TxnErrorAction.RETRY),
        (TxnRequestType.INIT, ErrorCode.CONCURRENT_TRANSACTIONS, TxnErrorAction.RETRY),
        (TxnRequestType.INIT, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, TxnErrorAction.REFUSED),
        (TxnRequestType.BUMP, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TxnErrorAction.REFUSED),
        (TxnRequestType.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, TxnErrorAction.FATAL),
        (TxnRequestType.ADD_PARTITIONS, ErrorCode.OPERATION_NOT_ATTEMPTED, TxnErrorAction.ABORT),
        (TxnRequestType.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, TxnErrorAction.ABORT),
        (
            TxnRequestType.ADD_PARTITIONS,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            TxnErrorAction.FATAL,
        ),
        (TxnRequestType.ADD_PARTITIONS, ErrorCode.INVALID_TXN_STATE, TxnErrorAction.FATAL),
        (TxnRequestType.ADD_PARTITIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING, TxnErrorAction.ABORT_AND_BUMP),
        (TxnRequestType.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, TxnErrorAction.ABORT),
        (TxnRequestType.ADD_OFFSETS, ErrorCode.UNKNOWN_PRODUCER_ID, TxnErrorAction.ABORT_AND_BUMP),
        (TxnRequestType.ADD_OFFSETS, ErrorCode.INVALID_TXN_STATE, TxnErrorAction.FATAL),
        (TxnRequestType.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, TxnErrorAction.ABORT),
        (TxnRequestType.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, TxnErrorAction.ABORT),
        (TxnRequestType.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, TxnErrorAction.ABORT),
        (TxnRequestType.COMMIT_OFFSETS, ErrorCode.REQUEST_TIMED_OUT, TxnErrorAction.FIND_COORDINATOR),
        (TxnRequestType.COMMIT_OFFSETS, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, TxnErrorAction.FATAL),
        (TxnRequestType.END, ErrorCode.INVALID_TXN_STATE, TxnErrorAction.FATAL),
        (TxnRequestType.END, ErrorCode.NOT_COORDINATOR, TxnErrorAction.FIND_COORDINATOR),
        (TxnRequestType.END, ErrorCode.TRANSACTION_ABORTABLE, TxnErrorAction.ABORT),
        (TxnRequestType.END, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TxnErrorAction.FATAL),
    ],
)
def test_error_actions_match_kafka(
    request_type: TxnRequestType, code: ErrorCode, expected: TxnErrorAction
) -> None:
    assert txn_error_action(request_type, code) is expected


def test_every_request_type_has_a_priority_and_error_actions() -> None:
    assert set(PRIORITY) == set(TXN_ERROR_ACTIONS) == set(TxnRequestType)
    order = [TxnRequestType.INIT, TxnRequestType.ADD_PARTITIONS, TxnRequestType.END, TxnRequestType.BUMP]
    assert [PRIORITY[request_type] for request_type in order] == sorted(
        PRIORITY[request_type] for request_type in order
    )
    assert (
        PRIORITY[TxnRequestType.ADD_PARTITIONS]
        == PRIORITY[TxnRequestType.ADD_OFFSETS]
        == PRIORITY[TxnRequestType.COMMIT_OFFSETS]
    )


def test_gravest_error_decides() -> None:
    partitions = [TopicPartition("orders", number) for number in range(3)]
    errors: dict[TopicPartition | None, ErrorCode] = dict(
        zip(
            partitions,
            (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_TOPIC_EXCEPTION),
            strict=True,
        )
    )
    assert gravest(TxnRequestType.ADD_PARTITIONS, dict(errors)) == (
        partitions[2],
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
    assert (
        gravest(TxnRequestType.ADD_PARTITIONS, {**errors, partitions[0]: ErrorCode.PRODUCER_FENCED})[0]
        == partitions[0]
    )
    assert gravest(TxnRequestType.COMMIT_OFFSETS, {}) == (None, ErrorCode.NONE)


def test_request_errors_have_the_expected_classes() -> None:
    partition = TopicPartition("orders", 0)
    assert isinstance(request_error(TxnRequestType.END, ErrorCode.PRODUCER_FENCED, "t"), ProducerFenced)
    assert isinstance(
        request_error(TxnRequestType.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, partition), CommitFailed
    )
    error_states = request_error(TxnRequestType.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, "t")
    assert "transaction.max.timeout.ms" in str(error_states)
