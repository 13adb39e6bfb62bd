"""Where a producer may stand, what it may be asked there, and what coordinators' errors mean."""

from __future__ import annotations

from itertools import product

import pytest

from odradek.client.producer.transactions.errors import failed_step
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
    MAY_COME_FROM,
    ONGOING,
    TxnManagerState,
    check_move,
    what_is_needed,
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
def test_a_producer_moves_along_the_table_and_nowhere_else(
    old: TxnManagerState, new: TxnManagerState
) -> None:
    if (old, new) in MOVES:
        check_move(old, new)
    else:
        with pytest.raises(AssertionError, match=f"from {old.name} to {new.name}"):
            check_move(old, new)


def test_every_state_can_be_reached_and_only_the_last_one_is_never_left() -> None:
    reached = {TxnManagerState.UNINITIALIZED}
    for _ in TxnManagerState:
        reached |= {new for new, olds in MAY_COME_FROM.items() if olds & reached}
    assert reached == set(TxnManagerState)
    left = {old for new, olds in MAY_COME_FROM.items() for old in olds if old is not new}
    assert left == set(TxnManagerState) - {TxnManagerState.FATAL_ERROR}
    assert COMPLETING < ONGOING


def _status(state: TxnManagerState) -> TransactionStatus:
    standing = TransactionStatus("t")
    standing.state = state
    if state is TxnManagerState.ABORTABLE_ERROR:
        standing.error = ClientError("a record was too large")
    elif state is TxnManagerState.FATAL_ERROR:
        standing.error = FatalProducerError("it is over")
    return standing


@pytest.mark.parametrize(("call", "state"), list(product(ALLOWED, TxnManagerState)))
def test_a_call_is_allowed_or_refused_with_what_to_do_instead(call: str, state: TxnManagerState) -> None:
    standing = _status(state)
    if state in ALLOWED[call]:
        standing.refuse(call)
    elif state is TxnManagerState.FATAL_ERROR:
        with pytest.raises(FatalProducerError, match="it is over"):
            standing.refuse(call)
    else:
        with pytest.raises(InvalidState, match=f"^{call}: ") as refused:
            standing.refuse(call)
        if state is TxnManagerState.ABORTABLE_ERROR:
            assert "call abort_transaction" in str(refused.value)
            assert "too large" in str(refused.value)


@pytest.mark.parametrize("call", ALLOWED)
def test_a_producer_without_transactions_may_only_send(call: str) -> None:
    standing = TransactionStatus(None)
    if call == "send":
        standing.refuse(call)
    else:
        with pytest.raises(InvalidState, match=r"transactional\.id"):
            standing.refuse(call)


def test_every_caller_of_a_producer_at_its_end_gets_an_exception_of_its_own() -> None:
    standing = _status(TxnManagerState.FATAL_ERROR)
    raised = []
    for _ in range(2):
        with pytest.raises(FatalProducerError) as refused:
            standing.refuse("send")
        raised.append(refused.value)
    assert raised[0] is not raised[1]
    assert raised[0] is not standing.error


@pytest.mark.parametrize("state", TxnManagerState)
def test_batches_that_were_never_sent_fail_where_a_transaction_fails_or_is_aborted(
    state: TxnManagerState,
) -> None:
    reason = _status(state).abort_reason
    if state is TxnManagerState.ABORTABLE_ERROR:
        assert str(reason) == "a record was too large"
    else:
        assert isinstance(reason, TransactionAborted) == (state is TxnManagerState.ABORTING)


def test_words_are_there_for_the_states_a_call_is_not_made_for() -> None:
    told = {TxnManagerState.ABORTABLE_ERROR, TxnManagerState.FATAL_ERROR}
    for call, state in product(ALLOWED, TxnManagerState):
        needed = what_is_needed(call, state)
        assert (needed is None) == (state in ALLOWED[call] | told)


@pytest.mark.parametrize(("step", "code"), list(product(TxnRequestType, ErrorCode)))
def test_every_error_of_a_coordinator_has_a_meaning(step: TxnRequestType, code: ErrorCode) -> None:
    found = txn_error_action(step, code)
    if code is ErrorCode.NONE:
        assert found is TxnErrorAction.DONE
    elif code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
        assert found is TxnErrorAction.FENCED
    elif code.retriable:
        assert found in (TxnErrorAction.RETRY, TxnErrorAction.FIND_COORDINATOR)
    else:
        assert found not in (TxnErrorAction.DONE, TxnErrorAction.RETRY, TxnErrorAction.FIND_COORDINATOR)


@pytest.mark.parametrize(
    ("step", "code", "expected"),
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
def test_errors_mean_what_they_mean_to_kafka(
    step: TxnRequestType, code: ErrorCode, expected: TxnErrorAction
) -> None:
    assert txn_error_action(step, code) is expected


def test_every_step_has_its_place_in_the_order_and_its_errors() -> None:
    assert set(PRIORITY) == set(TXN_ERROR_ACTIONS) == set(TxnRequestType)
    order = [TxnRequestType.INIT, TxnRequestType.ADD_PARTITIONS, TxnRequestType.END, TxnRequestType.BUMP]
    assert [PRIORITY[step] for step in order] == sorted(PRIORITY[step] for step in order)
    assert (
        PRIORITY[TxnRequestType.ADD_PARTITIONS]
        == PRIORITY[TxnRequestType.ADD_OFFSETS]
        == PRIORITY[TxnRequestType.COMMIT_OFFSETS]
    )


def test_the_gravest_error_decides_and_one_that_was_tried_before_one_that_was_not() -> None:
    places = [TopicPartition("orders", number) for number in range(3)]
    errors = dict(
        zip(
            places,
            (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_TOPIC_EXCEPTION),
            strict=True,
        )
    )
    assert gravest(TxnRequestType.ADD_PARTITIONS, dict(errors)) == (
        places[2],
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
    assert (
        gravest(TxnRequestType.ADD_PARTITIONS, {**errors, places[0]: ErrorCode.PRODUCER_FENCED})[0]
        == places[0]
    )
    assert gravest(TxnRequestType.COMMIT_OFFSETS, {}) == (None, ErrorCode.NONE)


def test_refusals_have_the_class_that_a_program_looks_for() -> None:
    place = TopicPartition("orders", 0)
    assert isinstance(failed_step(TxnRequestType.END, ErrorCode.PRODUCER_FENCED, "t"), ProducerFenced)
    assert isinstance(
        failed_step(TxnRequestType.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, place), CommitFailed
    )
    told = failed_step(TxnRequestType.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, "t")
    assert "transaction.max.timeout.ms" in str(told)
