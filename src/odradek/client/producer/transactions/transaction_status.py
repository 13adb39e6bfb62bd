"""Status of the transaction manager: its state, its error, and the calls that are valid now."""

from __future__ import annotations

from odradek.client.producer.transactions.errors import abort_required, copy_error, transaction_aborted
from odradek.client.producer.transactions.states import (
    COMPLETING,
    ONGOING,
    TxnManagerState,
    check_transition,
    invalid_call_reason,
)
from odradek.model.client_errors import ClientError, InvalidState


class TransactionStatus:
    """A state with its error.

    ``can_bump`` if the coordinator supports bumping the epoch of a transactional id, ``needs_bump`` if it
    must be bumped after the transaction.
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
        """The error with which unsent batches fail."""
        if self.state is TxnManagerState.ABORTABLE_ERROR:
            return self.error
        return transaction_aborted(self.transactional_id) if self.state is TxnManagerState.ABORTING else None

    def transition(self, new: TxnManagerState, error: ClientError | None = None) -> None:
        check_transition(self.state, new)
        self.state, self.error = new, error

    def fail_transaction(self, error: ClientError) -> None:
        """Fail the transaction. The first error is kept; without effect if it is being aborted."""
        if self.state in (TxnManagerState.IN_TRANSACTION, TxnManagerState.COMMITTING):
            self.transition(TxnManagerState.ABORTABLE_ERROR, error)

    def check_call(self, call: str) -> None:
        """Raise if a call is invalid now."""
        if self.transactional_id is None and call != "send":
            raise InvalidState(f"transactional.id must be set for {call}, got None")
        if self.error is not None and self.is_fatal:
            raise copy_error(self.error)
        if self.state is TxnManagerState.ABORTABLE_ERROR and call != "abort_transaction":
            assert self.error is not None
            raise (
                abort_required(call, self.error)
                if self.transactional_id is not None
                else copy_error(self.error)
            )
        if self.transactional_id is not None:
            reason = invalid_call_reason(call, self.state)
            if reason is not None:
                raise InvalidState(f"{call}: {reason}")
