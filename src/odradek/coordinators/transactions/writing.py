"""Transitions on their way into the log, and transactions on their way to an end.

A transition that the log refused is forgotten, and whoever asked for it may ask again. One of which nobody
knows whether it will count keeps its transactional id busy until it is applied: a second one, judged by the
state before it, could end a transaction twice. If it is not even known to be in the log, it is written again,
which changes nothing if it is.

Invariant: a prepared transaction whose markers are not being written, or whose end is not, is looked at again
soon. ``go_on`` finds what is to be done next from what is known, wherever things stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from odradek.coordinators.transactions.commands import MarkersWritten, WriteMarkers
from odradek.coordinators.transactions.records import transaction_entry
from odradek.coordinators.transactions.states import State
from odradek.coordinators.transactions.transactional_id import Fate, TransactionalId, Transition
from odradek.coordinators.transactions.turn import Turn
from odradek.coordinators.transactions.verdicts import completed
from odradek.model.errors import ErrorCode

LOOK_AGAIN_MS: Final = 1_000
"""Until something that was refused or takes too long is looked at again."""

_TOLD: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What clients are told when the log refuses: they know coordinators, and nothing of their partitions."""

_FATES: Final[dict[ErrorCode, Fate]] = {
    ErrorCode.REQUEST_TIMED_OUT: Fate.LATE,
    ErrorCode.KAFKA_STORAGE_ERROR: Fate.DOUBTFUL,
}
"""With these an entry may be in the log: it waits for replicas, or perhaps for a flush that failed."""


class LookAgain(NamedTuple):
    """The timer of a transactional id that did not get on."""

    transactional_id: str


class Change(NamedTuple):
    one: TransactionalId
    transition: Transition


class Write:
    """Transitions of some ids in one append. ``answer`` makes of the code it ends with what is answered."""

    __slots__ = ("_answer", "_to", "changes")

    def __init__(
        self, changes: Sequence[Change], to: Any = None, answer: Callable[[ErrorCode], Any] | None = None
    ) -> None:
        self.changes = changes
        self._to = to
        self._answer = answer

    def committed(self, turn: Turn) -> None:
        self._tell(ErrorCode.NONE, turn)
        for one, _ in self.changes:
            # Of a transition that was written twice the first counts, and another may have begun since.
            if one.under_way is None:
                go_on(one, turn)

    def refused(self, code: ErrorCode, turn: Turn) -> None:
        self._tell(_TOLD.get(code, code), turn)
        for one, transition in self.changes:
            if one.under_way is transition:
                one.refused(_FATES.get(code))
            if one.is_busy:
                turn.arm(LookAgain(one.name), LOOK_AGAIN_MS)

    def abandoned(self, turn: Turn) -> None:
        """The partition is led elsewhere now."""
        self._tell(ErrorCode.NOT_COORDINATOR, turn)

    def _tell(self, code: ErrorCode, turn: Turn) -> None:
        if self._answer is not None:
            turn.reply(self._to, self._answer(code))


def write(
    changes: Sequence[Change],
    turn: Turn,
    to: Any = None,
    answer: Callable[[ErrorCode], Any] | None = None,
) -> None:
    """Begin transitions, in one append; ``to`` is answered when it ends, if anybody waits for that."""
    for one, transition in changes:
        one.begin(transition)
    _append(Write(changes, to, answer), turn)


def _append(note: Write, turn: Turn) -> None:
    entries = (transaction_entry(one.name, transition.target) for one, transition in note.changes)
    turn.append(tuple(entries), note)


def go_on(one: TransactionalId, turn: Turn) -> None:
    """Do what is to be done next, if it is known: an id that is at rest needs nothing."""
    if one.under_way is not None:
        if one.fate is Fate.DOUBTFUL:
            _append(Write([Change(one, one.under_way)]), turn)
        else:
            turn.arm(LookAgain(one.name), LOOK_AGAIN_MS)
    elif one.is_prepared:
        if one.task is None:
            _ask_for_markers(one, turn)
        if not one.unmarked:
            write([Change(one, completed(one, turn.now.wall_ms))], turn)


def _ask_for_markers(one: TransactionalId, turn: Turn) -> None:
    stored = one.stored
    assert stored is not None
    one.task = WriteMarkers(
        one.name,
        stored.producer_id,
        stored.producer_epoch,
        stored.state is State.PREPARE_COMMIT,
        tuple(sorted(stored.partitions)),
    )
    one.unmarked = set(stored.partitions)
    if one.unmarked:
        turn.perform(one.task)


def note_markers(one: TransactionalId | None, command: MarkersWritten, turn: Turn) -> ErrorCode:
    """A task of an earlier transaction, or of an earlier leader, says nothing of this one."""
    if one is None or one.task is not command.task:
        return ErrorCode.INVALID_TXN_STATE
    was_unmarked = bool(one.unmarked)
    one.unmarked.difference_update(command.partitions)
    if was_unmarked and not one.unmarked:
        go_on(one, turn)
    return ErrorCode.NONE
