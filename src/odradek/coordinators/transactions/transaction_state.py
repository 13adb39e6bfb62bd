"""States of a transactional id, their ids in the log, and the valid transitions."""

from __future__ import annotations

import enum
from typing import Final


class TransactionState(enum.Enum):
    """States in the order of their ids. Values are the names shown by Kafka's tools.

    ``DEAD`` and ``PREPARE_EPOCH_FENCE`` are transient and never written: the record of a dead id is a
    tombstone, and a fenced transaction is aborted in the same step.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES_BY_ID: Final = tuple(TransactionState)
STATE_IDS: Final = {state: state_id for state_id, state in enumerate(STATES_BY_ID)}
STATE_NAMES: Final = frozenset(state.value for state in TransactionState)

VALID_PREVIOUS_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}
    ),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""A new id starts as ``EMPTY``."""

IDLE: Final = VALID_PREVIOUS_STATES[TransactionState.DEAD]
"""No transaction is open: a producer may be initialized, a transaction may begin, the id may expire."""
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome of the transaction is decided, and markers are to be written to its partitions."""
