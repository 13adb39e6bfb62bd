"""What a partition remembers of idempotent producers: their epochs, their last batches, their transactions.

A producer numbers its records per partition. A batch is taken if it follows the producer's last one; a batch
of the same epoch and the same numbers as one of the last five is a repetition, and is answered with the
offsets it got the first time; anything else is out of order. A producer that is not remembered (new or
expired) may begin with any number; a new epoch of a remembered one begins with 0. While a transaction is
open, its producer writes nothing outside of it. A marker ends it; markers of a coordinator that was replaced
are refused.

Batches without a producer id never come here: the caller asks ``producer_id >= 0`` first.

Invariants: ``check…`` changes nothing, ``appended`` and ``ended`` refuse nothing, so what was once written is
taken as it is, live, on a follower and on recovery alike. A ``ProducerStateEntry`` never changes, it is
replaced: a
list of them is what they were at that moment, whatever is appended later. At most ``producers_max`` producers
are remembered, those that appended last, and those with open transactions.
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

BATCHES_KEPT: Final = 5
"""As many as a producer may have in flight; older batches cannot be repetitions of an honest one."""
PRODUCERS_MAX: Final = 100_000
"""Per partition: some 110 MB if reached. A producer forgotten early may repeat a batch unnoticed."""
SEQUENCE_MAX: Final = INT32_MAX
NO_COORDINATOR_EPOCH: Final = -1
PASSED_OVER_MAX: Final = 64
"""Producers with open transactions that are passed over in search of one to forget."""

_tuple: Final = tuple.__new__  # a named tuple's own constructor takes twice the time


class BatchMetadata(NamedTuple):
    """A batch in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry(NamedTuple):
    """One producer id in one partition. ``batches`` holds the last ones of its epoch, oldest first."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    transaction_first_offset: int = UNKNOWN_OFFSET
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Last offset of its last batch; -1 if no batch of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else UNKNOWN_OFFSET

    def find(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The remembered batch with exactly these numbers."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_producers", "producers_max", "transactions")

    def __init__(
        self, producers: Iterable[ProducerStateEntry] = (), *, producers_max: int = PRODUCERS_MAX
    ) -> None:
        self.producers_max = producers_max
        # The one that appended longest ago first.
        self._producers = OrderedDict((producer.producer_id, producer) for producer in producers)
        first_offsets = (one.transaction_first_offset for one in self._producers.values())
        self.transactions = UnstableTransactions(offset for offset in first_offsets if offset >= 0)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    @property
    def max_producer_id(self) -> int:
        """The largest producer id; -1 if there is none."""
        return max(self._producers, default=-1)

    def entries(self) -> list[ProducerStateEntry]:
        """All of them; quick, however many there are. In no order."""
        return list(dict.values(self._producers))

    # Judging.

    def check(self, header: BatchHeader) -> BatchMetadata | None:
        """Judge a batch that a client wants to append: None to go ahead, or the earlier append it repeats.

        Raises OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE.
        """
        producer = self._producers.get(header[10])
        if producer is None:
            return None
        first = header[12]
        if header[11] == producer[1]:
            batches = producer[5]
            last = batches[-1][1] if batches else NO_SEQUENCE
            if first != last + 1 and (first != 0 or last != SEQUENCE_MAX):
                return _repeated(producer, header)
        else:
            _check_epoch(producer, header)
            if first != 0 and producer.producer_epoch != NO_PRODUCER_EPOCH:
                raise BrokerError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"epoch {header.producer_epoch} of producer {header.producer_id} must begin with "
                    f"sequence 0, not {first}; its epoch here was {producer.producer_epoch}",
                )
        if producer[4] >= 0:
            _check_transactional(producer, header)
        return None

    def check_unnumbered(self, header: BatchHeader) -> None:
        """The check for records of a coordinator, whose batches have no sequences."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            _check_epoch(producer, header)
            _check_transactional(producer, header)

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        _check_epoch(producer, header)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} is older than {producer.coordinator_epoch}, "
                f"the last one that ended a transaction of producer {header.producer_id} here",
            )

    # Remembering.

    def appended(self, header: BatchHeader) -> None:
        """Remember a batch of records that is in the log, with the offsets it has there."""
        _, first_offset, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = header
        last_sequence = (sequence + delta) & INT32_MAX if sequence != NO_SEQUENCE else NO_SEQUENCE
        kept = _tuple(BatchMetadata, (sequence, last_sequence, first_offset, first_offset + delta, timestamp))
        producer = self._producers.get(producer_id)
        batches: tuple[BatchMetadata, ...] = (kept,)
        if producer is None:
            coordinator_epoch, transaction = NO_COORDINATOR_EPOCH, UNKNOWN_OFFSET
        else:
            _, last_epoch, coordinator_epoch, _, transaction, earlier = producer
            if epoch == last_epoch:
                batches = (*earlier[1 - BATCHES_KEPT :], kept)
        if attributes & TRANSACTIONAL_BIT and transaction < 0:
            transaction = first_offset
            self.transactions.begin(first_offset)
        self._producers[producer_id] = _tuple(
            ProducerStateEntry, (producer_id, epoch, coordinator_epoch, timestamp, transaction, batches)
        )
        if producer is not None:
            self._producers.move_to_end(producer_id)
        elif len(self._producers) > self.producers_max:
            self._forget_one()

    def ended(self, header: BatchHeader, marker: EndTransactionMarker) -> AbortedTransaction | None:
        """Remember a marker that is in the log; give the transaction that it aborted, if it did.

        A marker without a transaction, whose records went elsewhere, is remembered for its epochs alone.
        """
        known = self._producers.get(header.producer_id)
        producer = known or ProducerStateEntry(header.producer_id, header.producer_epoch)
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
        if known is None and len(self._producers) > self.producers_max:
            self._forget_one()
        if first_offset < 0:
            return None
        last_stable_offset = self.transactions.end(first_offset, header.base_offset)
        if marker.commits:
            return None
        return AbortedTransaction(header.producer_id, first_offset, header.base_offset, last_stable_offset)

    def _forget_one(self) -> None:
        """Forget who appended longest ago, but for those with open transactions: who would end them?"""
        for producer in islice(self._producers.values(), PASSED_OVER_MAX):
            if producer.transaction_first_offset < 0:
                del self._producers[producer.producer_id]
                return

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers whose last batch is that old, but for those in a transaction; give the number."""
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
            f"epoch {header.producer_epoch} of producer {header.producer_id} is older than "
            f"the last one seen, {producer.producer_epoch}",
        )


def _check_transactional(producer: ProducerStateEntry, header: BatchHeader) -> None:
    if producer.transaction_first_offset >= 0 and not header.is_transactional:
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {producer.producer_id} has a transaction open since offset "
            f"{producer.transaction_first_offset} and may write nothing outside of it",
        )


def _repeated(producer: ProducerStateEntry, header: BatchHeader) -> BatchMetadata | None:
    """What a batch repeats that does not follow the last one; None if this producer may do as it likes."""
    repeated = producer.find(header.base_sequence, header.last_sequence)
    if repeated is None and producer.producer_epoch != NO_PRODUCER_EPOCH:
        raise BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {header.base_sequence} of producer {header.producer_id} does not follow "
            f"{producer.last_sequence}, its last one here",
        )
    return repeated
