"""What a partition remembers of idempotent producers: their epochs and their last batches.

A producer numbers its records per partition. A batch is taken if it follows the producer's last one; a batch
of the same epoch and the same numbers as one of the last five is a repetition, and is answered with the
offsets it got the first time; anything else is out of order. A producer that is not remembered (new, expired,
or its records are gone) may begin with any number; a new epoch of a remembered one begins with 0.

Batches without a producer id never come here: the caller asks ``producer_id >= 0`` first.

Invariants: ``check`` changes nothing, ``appended`` refuses nothing, so what was once written is taken as it
is, live, on a follower and on recovery alike; at most ``producers_max`` producers are remembered, those that
appended last.

Transactions will add to ``Producer`` (``transaction_first_offset`` already keeps one from expiring) and to
the checks; snapshots will go over ``ProducerStates`` and back through ``restore``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, UNKNOWN_OFFSET

BATCHES_KEPT: Final = 5
"""As many as a producer may have in flight; older batches cannot be repetitions of an honest one."""
PRODUCERS_MAX: Final = 100_000
"""Per partition: some 50 MB if reached. A producer forgotten early may repeat a batch unnoticed."""
SEQUENCE_MAX: Final = 2**31 - 1


class ProducedBatch(Protocol):
    """What of a batch's header matters here."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


class KeptBatch(NamedTuple):
    """A batch in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer id in one partition. ``batches`` holds the last ones of its epoch, oldest first."""

    __slots__ = ("batches", "last_timestamp", "producer_epoch", "producer_id", "transaction_first_offset")

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[KeptBatch] = []
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_first_offset = UNKNOWN_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, first_sequence: int, last_sequence: int) -> KeptBatch | None:
        """The remembered batch with exactly these numbers."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def keep(self, producer_epoch: int, batch: KeptBatch) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
        elif len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_producers", "producers_max")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self.producers_max = producers_max
        # The one that appended longest ago first.
        self._producers: OrderedDict[int, Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(self, batch: ProducedBatch) -> KeptBatch | None:
        """Judge a batch that a client wants to append: None to go ahead, or the earlier append it repeats.

        Raises OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_PRODUCER_EPOCH.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return None
        if batch.producer_epoch == producer.producer_epoch:
            last, first = producer.last_sequence, batch.base_sequence
            if first == last + 1 or (first == 0 and last == SEQUENCE_MAX):
                return None
            return _repeated(producer, batch)
        self.check_epoch(batch)
        if batch.base_sequence != 0 and producer.producer_epoch != NO_PRODUCER_EPOCH:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"epoch {batch.producer_epoch} of producer {batch.producer_id} must begin with sequence 0, "
                f"not {batch.base_sequence}; its epoch here was {producer.producer_epoch}",
            )
        return None

    def check_epoch(self, batch: ProducedBatch) -> None:
        """The check for appends by a coordinator, whose batches have no sequences; the first for clients'."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None and batch.producer_epoch < producer.producer_epoch:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {batch.producer_epoch} of producer {batch.producer_id} is older than "
                f"the last one seen, {producer.producer_epoch}",
            )

    def appended(self, batch: ProducedBatch) -> None:
        """Remember a batch that is in the log, with the offsets it has there."""
        producer_id = batch.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = Producer(producer_id, batch.producer_epoch)
            self.restore(producer)
        else:
            self._producers.move_to_end(producer_id)
        producer.keep(
            batch.producer_epoch,
            KeptBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp,
            ),
        )

    def restore(self, producer: Producer) -> None:
        """Take a producer in as it is; if there are too many, the one that appended longest ago goes."""
        self._producers[producer.producer_id] = producer
        if len(self._producers) > self.producers_max:
            self._producers.popitem(last=False)

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

    def clear(self) -> None:
        """Forget all: the log is emptied, or cut and about to be read again."""
        self._producers.clear()


def _repeated(producer: Producer, batch: ProducedBatch) -> KeptBatch | None:
    """What a batch repeats that does not follow the last one; None if this producer may do as it likes."""
    repeated = producer.find(batch.base_sequence, batch.last_sequence)
    if repeated is None and producer.producer_epoch != NO_PRODUCER_EPOCH:
        raise BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {batch.base_sequence} of producer {batch.producer_id} does not follow "
            f"{producer.last_sequence}, its last one here",
        )
    return repeated
