"""States of the transaction manager, and the valid transitions between them.

A producer without transactions only uses the first three states and the error states.
"""

from __future__ import annotations

import enum
from typing import Final


class TxnManagerState(enum.Enum):
    """State of a transaction manager; values are for messages."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a failed transaction"
    FATAL_ERROR = "failed"


VALID_SOURCES: Final[dict[TxnManagerState, frozenset[TxnManagerState]]] = {
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
"""From ``ABORTING`` to ``INITIALIZING``: the epoch is bumped after the abort, as sequences were unresolved.
From ``INITIALIZING`` to ``ABORTABLE_ERROR``: authorization failed, and the application may try again."""

COMPLETING: Final = frozenset({TxnManagerState.COMMITTING, TxnManagerState.ABORTING})
ONGOING: Final = COMPLETING | {TxnManagerState.IN_TRANSACTION, TxnManagerState.ABORTABLE_ERROR}
"""States with an open transaction, from the application's point of view."""


def check_transition(old: TxnManagerState, new: TxnManagerState) -> None:
    if old not in VALID_SOURCES[new]:
        raise AssertionError(f"invalid transition from {old.name} to {new.name}")


_INVALID_CALLS: Final[dict[str, dict[TxnManagerState, str]]] = {
    "init_transactions": {
        TxnManagerState.INITIALIZING: "the producer is being initialized",
        TxnManagerState.READY: "the producer is already initialized; call begin_transaction",
        TxnManagerState.IN_TRANSACTION: "the producer is already initialized and in a transaction",
        TxnManagerState.COMMITTING: "a transaction is being committed",
        TxnManagerState.ABORTING: "a transaction is being aborted",
    },
    "begin_transaction": {
        TxnManagerState.UNINITIALIZED: "call init_transactions first",
        TxnManagerState.INITIALIZING: "init_transactions has not succeeded yet; call it again",
        TxnManagerState.IN_TRANSACTION: "a transaction is already open; commit or abort it first",
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
    _INVALID_CALLS[_call] = dict(_INVALID_CALLS["send"])


def invalid_call_reason(call: str, state: TxnManagerState) -> str | None:
    """Return why a call is invalid in a state, and what to do instead; None if it is valid.

    Not for the two error states, whose own error is raised.
    """
    return _INVALID_CALLS[call].get(state)
