"""The states of a producer with an id, and which may follow which.

A producer without transactions knows the first three only, and the last; the others are about the transaction
that the application has begun.
"""

from __future__ import annotations

import enum
from typing import Final


class State(enum.Enum):
    """Where a producer stands; values are words for the user."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that has failed"
    FATAL_ERROR = "at its end"


MAY_COME_FROM: Final[dict[State, frozenset[State]]] = {
    State.UNINITIALIZED: frozenset({State.READY, State.ABORTABLE_ERROR}),
    State.INITIALIZING: frozenset({State.UNINITIALIZED, State.ABORTING}),
    State.READY: frozenset({State.INITIALIZING, State.COMMITTING, State.ABORTING}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.COMMITTING: frozenset({State.IN_TRANSACTION}),
    State.ABORTING: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR}),
    State.ABORTABLE_ERROR: frozenset(
        {State.INITIALIZING, State.IN_TRANSACTION, State.COMMITTING, State.ABORTABLE_ERROR}
    ),
    State.FATAL_ERROR: frozenset(State),
}
"""From ``ABORTING`` to ``INITIALIZING``: the epoch is bumped after the abort, as sequences were in doubt.
From ``INITIALIZING`` to ``ABORTABLE_ERROR``: the producer may not have the id, and may ask again."""

COMPLETING: Final = frozenset({State.COMMITTING, State.ABORTING})
ONGOING: Final = COMPLETING | {State.IN_TRANSACTION, State.ABORTABLE_ERROR}
"""A transaction is open, as far as the application is concerned."""


def check_move(old: State, new: State) -> None:
    if old not in MAY_COME_FROM[new]:
        raise AssertionError(f"a producer cannot go from {old.name} to {new.name}")


_NEEDED: Final[dict[str, dict[State, str]]] = {
    "init_transactions": {
        State.INITIALIZING: "the producer is being initialized",
        State.READY: "the producer is initialized already; call begin_transaction",
        State.IN_TRANSACTION: "the producer is initialized already, and in a transaction",
        State.COMMITTING: "a transaction is being committed",
        State.ABORTING: "a transaction is being aborted",
    },
    "begin_transaction": {
        State.UNINITIALIZED: "call init_transactions first",
        State.INITIALIZING: "init_transactions has not succeeded yet; call it again",
        State.IN_TRANSACTION: "a transaction is open already; commit or abort it first",
        State.COMMITTING: "the last transaction is being committed; call commit_transaction again",
        State.ABORTING: "the last transaction is being aborted; call abort_transaction again",
    },
    "send": {
        State.UNINITIALIZED: "call init_transactions, then begin_transaction first",
        State.INITIALIZING: "init_transactions has not succeeded yet; call it again",
        State.READY: "call begin_transaction first",
        State.COMMITTING: "the transaction is being committed",
        State.ABORTING: "the transaction is being aborted",
    },
}
for _call in ("send_offsets_to_transaction", "commit_transaction", "abort_transaction"):
    _NEEDED[_call] = dict(_NEEDED["send"])


def what_is_needed(call: str, state: State) -> str | None:
    """Why a call makes no sense in a state, and what would; None where it does.

    A transaction that has failed may only be aborted, and a producer at its end does nothing: these two have
    an error of their own to tell.
    """
    return _NEEDED[call].get(state)
