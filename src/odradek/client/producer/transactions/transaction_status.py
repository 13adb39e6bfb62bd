"""Where a producer with an id stands: its state, what has gone wrong, and which calls make sense now."""

from __future__ import annotations

from odradek.client.producer.transactions.errors import abort_needed, aborted, told_again
from odradek.client.producer.transactions.states import (
    COMPLETING,
    ONGOING,
    TxnManagerState,
    check_move,
    what_is_needed,
)
from odradek.model.client_errors import ClientError, InvalidState


class TransactionStatus:
    """A state with its error.

    ``can_bump`` says that the coordinator knows how to give a transactional id its next epoch, ``needs_bump``
    that it must do so after the transaction.
    """

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.state = TxnManagerState.UNINITIALIZED
        self.error: ClientError | None = None
        self.can_bump = False
        self.needs_bump = False

    @property
    def is_fatal(self) -> bool:
        return self.state is TxnManagerState.FATAL_ERROR

    @property
    def is_completing(self) -> bool:
        return self.state in COMPLETING

    @property
    def is_ongoing(self) -> bool:
        return self.state in ONGOING

    @property
    def abort_reason(self) -> ClientError | None:
        """With what batches fail that will never be sent."""
        if self.state is TxnManagerState.ABORTABLE_ERROR:
            return self.error
        return aborted(self.transactional_id) if self.state is TxnManagerState.ABORTING else None

    def move(self, new: TxnManagerState, error: ClientError | None = None) -> None:
        check_move(self.state, new)
        self.state, self.error = new, error

    def must_abort(self, error: ClientError) -> None:
        """The transaction has failed. The first error is kept; where it is being aborted, nothing is new."""
        if self.state in (TxnManagerState.IN_TRANSACTION, TxnManagerState.COMMITTING):
            self.move(TxnManagerState.ABORTABLE_ERROR, error)

    def refuse(self, call: str) -> None:
        """Raise, if a call makes no sense now."""
        if self.transactional_id is None and call != "send":
            raise InvalidState(
                f"{call}: the producer has no transactional.id; give it one to use transactions"
            )
        if self.error is not None and self.is_fatal:
            raise told_again(self.error)
        if self.state is TxnManagerState.ABORTABLE_ERROR and call != "abort_transaction":
            assert self.error is not None
            raise (
                abort_needed(call, self.error)
                if self.transactional_id is not None
                else told_again(self.error)
            )
        if self.transactional_id is not None:
            needed = what_is_needed(call, self.state)
            if needed is not None:
                raise InvalidState(f"{call}: {needed}")
