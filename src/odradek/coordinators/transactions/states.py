"""The states of a transactional id, their numbers in the log, and which may follow which."""

from __future__ import annotations

import enum
from typing import Final


class State(enum.Enum):
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


BY_NUMBER: Final = tuple(State)
NUMBERS: Final = {state: number for number, state in enumerate(BY_NUMBER)}
STATE_NAMES: Final = frozenset(state.value for state in State)

MAY_COME_FROM: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.ONGOING: frozenset({State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: frozenset({State.ONGOING, State.PREPARE_EPOCH_FENCE}),
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
}
"""An id that is new comes into being as ``EMPTY``."""

AT_REST: Final = MAY_COME_FROM[State.DEAD]
"""Nothing is open: a producer may come, a transaction may begin, the id may be forgotten."""
PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""How the transaction ends is settled, and its partitions are to be told."""
