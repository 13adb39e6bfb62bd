"""Transaction state of a cleaning pass over the batches of a log.

Batches of an aborted transaction are discarded at once. A marker may be discarded once the pass finds no
batch of its transaction before it: as long as there is one, consumers need the marker and, for an aborted
transaction, its entry in the transaction index, which ``take_kept`` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.records.control_records import ControlRecordType
from odradek.records.layout import BatchHeader


class CleanedTransactionMetadata:
    """Transaction state of a pass, which must visit all transactional and control batches in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction], from_offset: int) -> None:
        ahead = {entry for entry in aborted if entry.last_offset >= from_offset}
        self._ahead: deque[AbortedTransaction] = deque(sorted(ahead, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of records belongs to an aborted transaction."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and header.last_offset <= aborted.last_offset:
            self._with_batches.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_drop_marker(self, header: BatchHeader, kind: ControlRecordType | None) -> bool:
        """Return whether a marker's transaction has no batch left; ``kind`` is None for an empty batch."""
        self._advance_to(header.last_offset)
        producer_id = header.producer_id
        if kind is None:
            return True
        if kind is ControlRecordType.COMMIT:
            has_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_batches
        if kind is not ControlRecordType.ABORT:
            return False
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._with_batches:
            return True
        self._with_batches.discard(producer_id)
        self._kept.append(aborted)
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers were retained since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def _advance_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0].first_offset <= offset:
            aborted = self._ahead.popleft()
            previous = self._aborted.get(aborted.producer_id)
            if previous is None or previous.last_offset < aborted.first_offset:
                self._aborted[aborted.producer_id] = aborted
