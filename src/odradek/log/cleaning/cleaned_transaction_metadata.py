"""Which transactions a batch belongs to, while a log is gone over from one batch to the next.

Batches of an aborted transaction go at once. A marker may go once no batch of its transaction was met before
it in the same pass: as long as there are some, readers need the marker, and of an aborted one also its entry
in the index of aborted transactions, which ``take_kept`` gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.records.control_records import ControlRecordType
from odradek.records.layout import BatchHeader


class CleanedTransactionMetadata:
    """Told of every transactional and control batch from ``from_offset`` on, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction], from_offset: int) -> None:
        ahead = {one for one in aborted if one.last_offset >= from_offset}
        self._ahead: deque[AbortedTransaction] = deque(sorted(ahead, key=lambda one: one.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records is part of an aborted transaction."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and header.last_offset <= aborted.last_offset:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_drop_marker(self, header: BatchHeader, kind: ControlRecordType | None) -> bool:
        """Whether nothing is left of the transaction that a marker ends; ``None`` is one without records."""
        self._reach(header.last_offset)
        producer_id = header.producer_id
        if kind is None:
            return True
        if kind is ControlRecordType.COMMIT:
            was_met = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_met
        if kind is not ControlRecordType.ABORT:
            return False
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._met:
            return True
        self._met.discard(producer_id)
        self._kept.append(aborted)
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers were met since the last call and have to stay."""
        kept, self._kept = self._kept, []
        return kept

    def _reach(self, offset: int) -> None:
        while self._ahead and self._ahead[0].first_offset <= offset:
            aborted = self._ahead.popleft()
            known = self._aborted.get(aborted.producer_id)
            if known is None or known.last_offset < aborted.first_offset:
                self._aborted[aborted.producer_id] = aborted
