"""Where a producer may stand, what it may be asked there, and what coordinators' errors mean."""

from __future__ import annotations

from itertools import product

import pytest

from odradek.client.producer.transactions.errors import failed_step
from odradek.client.producer.transactions.requests import MEANINGS, PRIORITY, Meaning, Step, gravest, meaning
from odradek.client.producer.transactions.standing import Standing
from odradek.client.producer.transactions.states import (
    COMPLETING,
    MAY_COME_FROM,
    ONGOING,
    State,
    check_move,
    what_is_needed,
)
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
    "init_transactions": {State.UNINITIALIZED},
    "begin_transaction": {State.READY},
    "send": {State.IN_TRANSACTION},
    "send_offsets_to_transaction": {State.IN_TRANSACTION},
    "commit_transaction": {State.IN_TRANSACTION},
    "abort_transaction": {State.IN_TRANSACTION, State.ABORTABLE_ERROR},
}
MOVES = {
    (State.UNINITIALIZED, State.INITIALIZING),
    (State.INITIALIZING, State.READY),
    (State.INITIALIZING, State.ABORTABLE_ERROR),
    (State.READY, State.UNINITIALIZED),
    (State.READY, State.IN_TRANSACTION),
    (State.IN_TRANSACTION, State.COMMITTING),
    (State.IN_TRANSACTION, State.ABORTING),
    (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
    (State.COMMITTING, State.READY),
    (State.COMMITTING, State.ABORTABLE_ERROR),
    (State.ABORTING, State.READY),
    (State.ABORTING, State.INITIALIZING),
    (State.ABORTABLE_ERROR, State.ABORTING),
    (State.ABORTABLE_ERROR, State.ABORTABLE_ERROR),
    (State.ABORTABLE_ERROR, State.UNINITIALIZED),
    *((state, State.FATAL_ERROR) for state in State),
}


@pytest.mark.parametrize(("old", "new"), list(product(State, State)))
def test_a_producer_moves_along_the_table_and_nowhere_else(old: State, new: State) -> None:
    if (old, new) in MOVES:
        check_move(old, new)
    else:
        with pytest.raises(AssertionError, match=f"from {old.name} to {new.name}"):
            check_move(old, new)


def test_every_state_can_be_reached_and_only_the_last_one_is_never_left() -> None:
    reached = {State.UNINITIALIZED}
    for _ in State:
        reached |= {new for new, olds in MAY_COME_FROM.items() if olds & reached}
    assert reached == set(State)
    left = {old for new, olds in MAY_COME_FROM.items() for old in olds if old is not new}
    assert left == set(State) - {State.FATAL_ERROR}
    assert COMPLETING < ONGOING


def _standing(state: State) -> Standing:
    standing = Standing("t")
    standing.state = state
    if state is State.ABORTABLE_ERROR:
        standing.error = ClientError("a record was too large")
    elif state is State.FATAL_ERROR:
        standing.error = FatalProducerError("it is over")
    return standing


@pytest.mark.parametrize(("call", "state"), list(product(ALLOWED, State)))
def test_a_call_is_allowed_or_refused_with_what_to_do_instead(call: str, state: State) -> None:
    standing = _standing(state)
    if state in ALLOWED[call]:
        standing.refuse(call)
    elif state is State.FATAL_ERROR:
        with pytest.raises(FatalProducerError, match="it is over"):
            standing.refuse(call)
    else:
        with pytest.raises(InvalidState, match=f"^{call}: ") as refused:
            standing.refuse(call)
        if state is State.ABORTABLE_ERROR:
            assert "call abort_transaction" in str(refused.value)
            assert "too large" in str(refused.value)


@pytest.mark.parametrize("call", ALLOWED)
def test_a_producer_without_transactions_may_only_send(call: str) -> None:
    standing = Standing(None)
    if call == "send":
        standing.refuse(call)
    else:
        with pytest.raises(InvalidState, match=r"transactional\.id"):
            standing.refuse(call)


def test_every_caller_of_a_producer_at_its_end_gets_an_exception_of_its_own() -> None:
    standing = _standing(State.FATAL_ERROR)
    raised = []
    for _ in range(2):
        with pytest.raises(FatalProducerError) as refused:
            standing.refuse("send")
        raised.append(refused.value)
    assert raised[0] is not raised[1]
    assert raised[0] is not standing.error


@pytest.mark.parametrize("state", State)
def test_batches_that_were_never_sent_fail_where_a_transaction_fails_or_is_aborted(state: State) -> None:
    reason = _standing(state).abort_reason
    if state is State.ABORTABLE_ERROR:
        assert str(reason) == "a record was too large"
    else:
        assert isinstance(reason, TransactionAborted) == (state is State.ABORTING)


def test_words_are_there_for_the_states_a_call_is_not_made_for() -> None:
    told = {State.ABORTABLE_ERROR, State.FATAL_ERROR}
    for call, state in product(ALLOWED, State):
        needed = what_is_needed(call, state)
        assert (needed is None) == (state in ALLOWED[call] | told)


@pytest.mark.parametrize(("step", "code"), list(product(Step, ErrorCode)))
def test_every_error_of_a_coordinator_has_a_meaning(step: Step, code: ErrorCode) -> None:
    found = meaning(step, code)
    if code is ErrorCode.NONE:
        assert found is Meaning.DONE
    elif code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
        assert found is Meaning.FENCED
    elif code.retriable:
        assert found in (Meaning.RETRY, Meaning.FIND_COORDINATOR)
    else:
        assert found not in (Meaning.DONE, Meaning.RETRY, Meaning.FIND_COORDINATOR)


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        (Step.INIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Meaning.RETRY),
        (Step.INIT, ErrorCode.CONCURRENT_TRANSACTIONS, Meaning.RETRY),
        (Step.INIT, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Meaning.REFUSED),
        (Step.BUMP, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.REFUSED),
        (Step.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, Meaning.FATAL),
        (Step.ADD_PARTITIONS, ErrorCode.OPERATION_NOT_ATTEMPTED, Meaning.ABORT),
        (Step.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Meaning.ABORT),
        (Step.ADD_PARTITIONS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.FATAL),
        (Step.ADD_PARTITIONS, ErrorCode.INVALID_TXN_STATE, Meaning.FATAL),
        (Step.ADD_PARTITIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING, Meaning.ABORT_AND_BUMP),
        (Step.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, Meaning.ABORT),
        (Step.ADD_OFFSETS, ErrorCode.UNKNOWN_PRODUCER_ID, Meaning.ABORT_AND_BUMP),
        (Step.ADD_OFFSETS, ErrorCode.INVALID_TXN_STATE, Meaning.FATAL),
        (Step.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, Meaning.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, Meaning.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, Meaning.ABORT),
        (Step.COMMIT_OFFSETS, ErrorCode.REQUEST_TIMED_OUT, Meaning.FIND_COORDINATOR),
        (Step.COMMIT_OFFSETS, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, Meaning.FATAL),
        (Step.END, ErrorCode.INVALID_TXN_STATE, Meaning.FATAL),
        (Step.END, ErrorCode.NOT_COORDINATOR, Meaning.FIND_COORDINATOR),
        (Step.END, ErrorCode.TRANSACTION_ABORTABLE, Meaning.ABORT),
        (Step.END, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.FATAL),
    ],
)
def test_errors_mean_what_they_mean_to_kafka(step: Step, code: ErrorCode, expected: Meaning) -> None:
    assert meaning(step, code) is expected


def test_every_step_has_its_place_in_the_order_and_its_errors() -> None:
    assert set(PRIORITY) == set(MEANINGS) == set(Step)
    order = [Step.INIT, Step.ADD_PARTITIONS, Step.END, Step.BUMP]
    assert [PRIORITY[step] for step in order] == sorted(PRIORITY[step] for step in order)
    assert PRIORITY[Step.ADD_PARTITIONS] == PRIORITY[Step.ADD_OFFSETS] == PRIORITY[Step.COMMIT_OFFSETS]


def test_the_gravest_error_decides_and_one_that_was_tried_before_one_that_was_not() -> None:
    places = [TopicPartition("orders", number) for number in range(3)]
    errors = dict(
        zip(
            places,
            (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_TOPIC_EXCEPTION),
            strict=True,
        )
    )
    assert gravest(Step.ADD_PARTITIONS, dict(errors)) == (places[2], ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert gravest(Step.ADD_PARTITIONS, {**errors, places[0]: ErrorCode.PRODUCER_FENCED})[0] == places[0]
    assert gravest(Step.COMMIT_OFFSETS, {}) == (None, ErrorCode.NONE)


def test_refusals_have_the_class_that_a_program_looks_for() -> None:
    place = TopicPartition("orders", 0)
    assert isinstance(failed_step(Step.END, ErrorCode.PRODUCER_FENCED, "t"), ProducerFenced)
    assert isinstance(failed_step(Step.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, place), CommitFailed)
    told = failed_step(Step.INIT, ErrorCode.INVALID_TRANSACTION_TIMEOUT, "t")
    assert "transaction.max.timeout.ms" in str(told)
