"""The states of a transactional id, their numbers in the log, and which may follow which."""

from __future__ import annotations

import enum
from typing import Final


class TransactionState(enum.Enum):
    """In the order of their numbers. Values are the names that Kafka's tools show.

    ``DEAD`` and ``PREPARE_EPOCH_FENCE`` are on the way only and never written: a dead id's record is removed,
    and a transaction that is fenced is aborted in the same step.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


BY_NUMBER: Final = tuple(TransactionState)
NUMBERS: Final = {state: number for number, state in enumerate(BY_NUMBER)}
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
"""An id that is new comes into being as ``EMPTY``."""

AT_REST: Final = VALID_PREVIOUS_STATES[TransactionState.DEAD]
"""Nothing is open: a producer may come, a transaction may begin, the id may be forgotten."""
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""How the transaction ends is settled, and its partitions are to be told."""
