"""The states of a producer with an id, and which may follow which.

A producer without transactions knows the first three only, and the last; the others are about the transaction
that the application has begun.
"""

from __future__ import annotations

import enum
from typing import Final


class TxnManagerState(enum.Enum):
    """Where a producer stands; values are words for the user."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that has failed"
    FATAL_ERROR = "at its end"


MAY_COME_FROM: Final[dict[TxnManagerState, frozenset[TxnManagerState]]] = {
    TxnManagerState.UNINITIALIZED: frozenset({TxnManagerState.READY, TxnManagerState.ABORTABLE_ERROR}),
    TxnManagerState.INITIALIZING: frozenset({TxnManagerState.UNINITIALIZED, TxnManagerState.ABORTING}),
    TxnManagerState.READY: frozenset(
        {TxnManagerState.INITIALIZING, TxnManagerState.COMMITTING, TxnManagerState.ABORTING}
    ),
    TxnManagerState.IN_TRANSACTION: frozenset({TxnManagerState.READY}),
    TxnManagerState.COMMITTING: frozenset({TxnManagerState.IN_TRANSACTION}),
    TxnManagerState.ABORTING: frozenset({TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTABLE_ERROR}),
    TxnManagerState.ABORTABLE_ERROR: frozenset(
        {
            TxnManagerState.INITIALIZING,
            TxnManagerState.IN_TRANSACTION,
            TxnManagerState.COMMITTING,
            TxnManagerState.ABORTABLE_ERROR,
        }
    ),
    TxnManagerState.FATAL_ERROR: frozenset(TxnManagerState),
}
"""From ``ABORTING`` to ``INITIALIZING``: the epoch is bumped after the abort, as sequences were in doubt.
From ``INITIALIZING`` to ``ABORTABLE_ERROR``: the producer may not have the id, and may ask again."""

COMPLETING: Final = frozenset({TxnManagerState.COMMITTING, TxnManagerState.ABORTING})
ONGOING: Final = COMPLETING | {TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTABLE_ERROR}
"""A transaction is open, as far as the application is concerned."""


def check_move(old: TxnManagerState, new: TxnManagerState) -> None:
    if old not in MAY_COME_FROM[new]:
        raise AssertionError(f"a producer cannot go from {old.name} to {new.name}")


_NEEDED: Final[dict[str, dict[TxnManagerState, str]]] = {
    "init_transactions": {
        TxnManagerState.INITIALIZING: "the producer is being initialized",
        TxnManagerState.READY: "the producer is initialized already; call begin_transaction",
        TxnManagerState.IN_TRANSACTION: "the producer is initialized already, and in a transaction",
        TxnManagerState.COMMITTING: "a transaction is being committed",
        TxnManagerState.ABORTING: "a transaction is being aborted",
    },
    "begin_transaction": {
        TxnManagerState.UNINITIALIZED: "call init_transactions first",
        TxnManagerState.INITIALIZING: "init_transactions has not succeeded yet; call it again",
        TxnManagerState.IN_TRANSACTION: "a transaction is open already; commit or abort it first",
        TxnManagerState.COMMITTING: "the last transaction is being committed; call commit_transaction again",
        TxnManagerState.ABORTING: "the last transaction is being aborted; call abort_transaction again",
    },
    "send": {
        TxnManagerState.UNINITIALIZED: "call init_transactions, then begin_transaction first",
        TxnManagerState.INITIALIZING: "init_transactions has not succeeded yet; call it again",
        TxnManagerState.READY: "call begin_transaction first",
        TxnManagerState.COMMITTING: "the transaction is being committed",
        TxnManagerState.ABORTING: "the transaction is being aborted",
    },
}
for _call in ("send_offsets_to_transaction", "commit_transaction", "abort_transaction"):
    _NEEDED[_call] = dict(_NEEDED["send"])


def what_is_needed(call: str, state: TxnManagerState) -> str | None:
    """Why a call makes no sense in a state, and what would; None where it does.

    A transaction that has failed may only be aborted, and a producer at its end does nothing: these two have
    an error of their own to tell.
    """
    return _NEEDED[call].get(state)
