"""Producer state of a partition: epochs, last batches and open transactions of idempotent producers.

A producer numbers its records per partition. A batch is accepted if it follows the producer's last one. A
batch with the epoch and sequences of one of the last five is a duplicate and gets the offsets of the first
append. Anything else is out of order. An unknown producer (new or expired) may start with any sequence; a new
epoch of a known producer starts with 0. While a transaction is open, its producer appends nothing outside of
it. A marker ends the transaction; markers of a fenced coordinator are rejected.

Batches without a producer id are not passed in: the caller checks ``producer_id >= 0``.

Invariants: ``check…`` changes nothing; ``update`` and ``complete_transaction`` reject nothing, so that
batches have the same effect on a leader, on a follower and in recovery. An entry is immutable and gets
replaced: a list of entries is a consistent snapshot. At most ``producers_max`` producers are kept: those that
appended last and those with open transactions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from odradek.log.producers.unstable_transactions import UnstableTransactions
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, UNKNOWN_OFFSET
from odradek.records.control_records import EndTransactionMarker
from odradek.records.layout import INT32_MAX, TRANSACTIONAL_BIT, BatchHeader

BATCHES_RETAINED_MAX: Final = 5
"""Maximum in-flight batches of an idempotent producer; older batches are not retried."""
PRODUCERS_MAX: Final = 100_000
"""Limit per partition, about 110 MB. Duplicates of an evicted producer are not detected."""
SEQUENCE_MAX: Final = INT32_MAX
NO_COORDINATOR_EPOCH: Final = -1
SKIPPED_MAX: Final = 64
"""Producers with open transactions that are skipped in search of one to evict."""

_tuple: Final = tuple.__new__  # half the time of a named tuple's own constructor


class BatchMetadata(NamedTuple):
    """Sequences and offsets of an appended batch."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry(NamedTuple):
    """State of one producer id in one partition. ``batches`` are the last ones of its epoch, oldest first."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    transaction_first_offset: int = UNKNOWN_OFFSET
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the retained batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


class ProducerStates:
    """Producer state entries of one partition."""

    __slots__ = ("_producers", "producers_max", "transactions")

    def __init__(
        self, producers: Iterable[ProducerStateEntry] = (), *, producers_max: int = PRODUCERS_MAX
    ) -> None:
        self.producers_max = producers_max
        # Ordered by last append, oldest first.
        self._producers = OrderedDict((producer.producer_id, producer) for producer in producers)
        first_offsets = (entry.transaction_first_offset for entry in self._producers.values())
        self.transactions = UnstableTransactions(offset for offset in first_offsets if offset >= 0)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    @property
    def max_producer_id(self) -> int:
        """Largest producer id; -1 if there is none."""
        return max(self._producers, default=-1)

    def entries(self) -> list[ProducerStateEntry]:
        """Return all entries, unordered. Fast for any number of them."""
        return list(dict.values(self._producers))

    # Validation.

    def check(self, header: BatchHeader) -> BatchMetadata | None:
        """Validate a batch from a client; return the earlier batch if it is a duplicate, otherwise None.

        Raises OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        first = header.base_sequence
        if header.producer_epoch == producer[1]:
            batches = producer[5]
            last = batches[-1][1] if batches else NO_SEQUENCE
            if first != last + 1 and (first != 0 or last != SEQUENCE_MAX):
                return _find_duplicate(producer, header)
        else:
            _check_epoch(producer, header)
            if first != 0 and producer.producer_epoch != NO_PRODUCER_EPOCH:
                raise BrokerError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"first sequence in epoch {header.producer_epoch} of producer {header.producer_id} "
                    f"must be 0, got {first}; its last epoch was {producer.producer_epoch}",
                )
        if producer[4] >= 0:
            _check_transactional(producer, header)
        return None

    def check_coordinator_batch(self, header: BatchHeader) -> None:
        """Validate a batch from a coordinator, which has no sequences."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            _check_epoch(producer, header)
            _check_transactional(producer, header)

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Validate a marker. Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        _check_epoch(producer, header)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch of producer {header.producer_id} must be >= "
                f"{producer.coordinator_epoch}, got {marker.coordinator_epoch}",
            )

    # Updates.

    def update(self, header: BatchHeader) -> None:
        """Record an appended batch of records."""
        _, first_offset, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        last_sequence = (sequence + delta) & INT32_MAX if sequence != NO_SEQUENCE else NO_SEQUENCE
        batch = _tuple(
            BatchMetadata, (sequence, last_sequence, first_offset, first_offset + delta, timestamp)
        )
        producer = self._producers.get(producer_id)
        batches: tuple[BatchMetadata, ...] = (batch,)
        if producer is None:
            coordinator_epoch, transaction = NO_COORDINATOR_EPOCH, UNKNOWN_OFFSET
        else:
            _, last_epoch, coordinator_epoch, _, transaction, earlier = producer
            if epoch == last_epoch:
                batches = (*earlier[1 - BATCHES_RETAINED_MAX :], batch)
        if attributes & TRANSACTIONAL_BIT and transaction < 0:
            transaction = first_offset
            self.transactions.begin(first_offset)
        self._producers[producer_id] = _tuple(
            ProducerStateEntry, (producer_id, epoch, coordinator_epoch, timestamp, transaction, batches)
        )
        if producer is not None:
            self._producers.move_to_end(producer_id)
        elif len(self._producers) > self.producers_max:
            self._evict_oldest()

    def complete_transaction(
        self, header: BatchHeader, marker: EndTransactionMarker
    ) -> AbortedTransaction | None:
        """Record an appended marker; return the transaction if it was aborted.

        A marker without a transaction in this partition only updates the epochs.
        """
        previous = self._producers.get(header.producer_id)
        producer = previous or ProducerStateEntry(header.producer_id, header.producer_epoch)
        first_offset = producer.transaction_first_offset
        is_same_epoch = producer.producer_epoch == header.producer_epoch
        self._producers[header.producer_id] = ProducerStateEntry(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            header.max_timestamp,
            UNKNOWN_OFFSET,
            producer.batches if is_same_epoch else (),
        )
        if previous is None and len(self._producers) > self.producers_max:
            self._evict_oldest()
        if first_offset < 0:
            return None
        last_stable_offset = self.transactions.end(first_offset, header.base_offset)
        if marker.commits:
            return None
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, last_stable_offset)

    def _evict_oldest(self) -> None:
        """Evict the producer that appended longest ago, except those with open transactions."""
        for producer in islice(self._producers.values(), SKIPPED_MAX):
            if producer.transaction_first_offset < 0:
                del self._producers[producer.producer_id]
                return

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers idle for ``expiration_ms``, except those in a transaction; return the number."""
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_first_offset < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)


def _check_epoch(producer: ProducerStateEntry, header: BatchHeader) -> None:
    if header.producer_epoch < producer.producer_epoch:
        raise BrokerError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch of producer {header.producer_id} must be >= {producer.producer_epoch}, "
            f"got {header.producer_epoch}",
        )


def _check_transactional(producer: ProducerStateEntry, header: BatchHeader) -> None:
    if producer.transaction_first_offset >= 0 and not header.is_transactional:
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {producer.producer_id} has a transaction open since offset "
            f"{producer.transaction_first_offset}: batches must be transactional",
        )


def _find_duplicate(producer: ProducerStateEntry, header: BatchHeader) -> BatchMetadata | None:
    """Return the duplicate of a batch that is not the next one; None if the producer has no known epoch."""
    duplicate = producer.find(header.base_sequence, header.last_sequence)
    if duplicate is None and producer.producer_epoch != NO_PRODUCER_EPOCH:
        raise BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence of producer {header.producer_id} must follow {producer.last_sequence}, "
            f"got {header.base_sequence}",
        )
    return duplicate
