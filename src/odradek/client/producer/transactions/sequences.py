"""Sequences of an idempotent producer: its identity, and the next sequence of each partition.

A broker accepts a producer's batches of a partition only in the order of their sequences, and recognizes
duplicates by them. So each partition tracks its batches that have a sequence and are not completed, in the
order of assignment, also where sequences wrap at 2^31 - 1.

A batch that failed although a broker may have written it leaves the sequences of its partition *unresolved*:
later batches get no sequence until responses show that it was written, or the producer continues with a
higher epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.client.producer.transactions.transaction_manager_port import SequencedBatch
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, UNKNOWN_OFFSET, TopicPartition

SEQUENCE_COUNT: Final = 1 << 31
"""Sequences go from 0 to 2^31 - 1, then wrap to 0."""
EPOCH_MAX: Final = 32767
IN_FLIGHT_MAX: Final = 5
"""Batches per producer and partition that a broker remembers: it does not recognize older duplicates."""


def later_sequence(sequence: int, count: int) -> int:
    """Return the sequence ``count`` records after another; a negative count goes back."""
    return (sequence + count) % SEQUENCE_COUNT


def is_later(sequence: int, than: int) -> bool:
    """Return whether a sequence comes after another, if they are less than half of all sequences apart."""
    return 0 < (sequence - than) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2


class ProducerIdentity(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    epoch: int

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"producer id {self.producer_id}, epoch {self.epoch}"


NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def partition_of(batch: SequencedBatch) -> TopicPartition:
    return TopicPartition(batch.topic, batch.partition)


def has_sequence(batch: SequencedBatch) -> bool:
    return batch.base_sequence != NO_SEQUENCE


def sequence_after(batch: SequencedBatch) -> int:
    """Return the sequence after a batch's last record."""
    return later_sequence(batch.base_sequence, batch.count)


class _InFlightBatch:
    """A batch with a sequence that is not completed, or that follows one that is not.

    ``is_resequenced`` if its sequence has changed since it was sent: a response is about the old one then.
    ``may_be_written`` if an attempt got no conclusive response.
    """

    __slots__ = ("batch", "is_completed", "is_resequenced", "may_be_written")

    def __init__(self, batch: SequencedBatch) -> None:
        self.batch = batch
        self.is_completed = False
        self.is_resequenced = False
        self.may_be_written = False

    def resequence(self, identity: ProducerIdentity, sequence: int) -> None:
        self.batch.producer_id, self.batch.producer_epoch = identity
        self.batch.base_sequence = sequence
        self.is_resequenced = True


class PartitionSequences:
    """The sequences of one partition.

    ``last_acked`` is the sequence of the last record known to be written, ``unresolved_after`` the sequence
    after the last batch that failed with an unknown result; None if there is none.
    """

    __slots__ = ("_in_flight", "acked_offset", "identity", "last_acked", "next_sequence", "unresolved_after")

    def __init__(self) -> None:
        self.identity = NO_IDENTITY
        self.next_sequence = 0
        self.last_acked: int | None = None
        self.acked_offset = UNKNOWN_OFFSET
        self.unresolved_after: int | None = None
        self._in_flight: list[_InFlightBatch] = []

    @property
    def in_flight(self) -> list[SequencedBatch]:
        return [entry.batch for entry in self._in_flight if not entry.is_completed]

    @property
    def has_in_flight(self) -> bool:
        return bool(self._in_flight)

    @property
    def may_send_more(self) -> bool:
        """True if a new batch may be sent while others are in flight.

        A broker that does not know a producer accepts any sequence from it: so the first batch goes alone, or
        a later one could overtake it when the leader changes. The same holds for batches that will be sent
        again with another sequence. And the oldest batch in flight must stay among those that a broker
        remembers, so later ones count even if they are completed.
        """
        if (
            self.last_acked is None
            or self.unresolved_after is not None
            or len(self._in_flight) >= IN_FLIGHT_MAX
        ):
            return False
        return True not in [entry.is_resequenced for entry in self._in_flight]

    def is_first(self, batch: SequencedBatch) -> bool:
        """Return whether no earlier batch is in flight."""
        return not self._in_flight or self._in_flight[0].batch is batch

    def is_next(self, sequence: int) -> bool:
        """Return whether a sequence follows the last record known to be written."""
        return sequence == (0 if self.last_acked is None else later_sequence(self.last_acked, 1))

    def is_resequenced(self, batch: SequencedBatch) -> bool:
        entry = self._find(batch)
        return entry is not None and entry.is_resequenced

    def may_be_written(self, batch: SequencedBatch) -> bool:
        entry = self._find(batch)
        return entry is not None and entry.may_be_written

    def mark_maybe_written(self, batch: SequencedBatch) -> None:
        """Note an attempt without a conclusive response."""
        entry = self._find(batch)
        if entry is not None:
            entry.may_be_written = True

    def assign(self, batch: SequencedBatch) -> None:
        """Assign a sequence to a batch that is about to be sent, unless it has one."""
        if not has_sequence(batch):
            batch.producer_id, batch.producer_epoch = self.identity
            batch.base_sequence = self.next_sequence
            self.next_sequence = sequence_after(batch)
            self._in_flight.append(_InFlightBatch(batch))
        elif (entry := self._find(batch)) is not None:
            entry.is_resequenced = False

    def reset(self, identity: ProducerIdentity) -> None:
        """Start sequences at 0 with a new identity, also for the batches in flight."""
        self.identity = identity
        self.next_sequence = 0
        self._in_flight = [entry for entry in self._in_flight if not entry.is_completed]
        for entry in self._in_flight:
            entry.resequence(identity, self.next_sequence)
            self.next_sequence = sequence_after(entry.batch)
        self.last_acked = self.unresolved_after = None

    def acknowledge(self, batch: SequencedBatch, base_offset: int) -> None:
        """Note a written batch. If it was written with an old sequence, later ones take over its new one."""
        entry = self._find(batch)
        if base_offset != UNKNOWN_OFFSET:
            self.acked_offset = max(self.acked_offset, base_offset + batch.count - 1)
        if entry is not None and entry.is_resequenced:
            self.remove_and_adjust(batch)
        elif (batch.producer_id, batch.producer_epoch) == self.identity:
            last = later_sequence(sequence_after(batch), -1)
            if self.last_acked is None or is_later(last, self.last_acked):
                self.last_acked = last
        self._complete(entry)

    def remove(self, batch: SequencedBatch) -> None:
        """Note a completed batch."""
        self._complete(self._find(batch))

    def _complete(self, entry: _InFlightBatch | None) -> None:
        if entry is not None:
            entry.is_completed = True
        while self._in_flight and self._in_flight[0].is_completed:
            del self._in_flight[0]

    def remove_and_adjust(self, batch: SequencedBatch) -> None:
        """Remove a batch that will never be written with its sequence, and move later sequences down."""
        is_later_batch = False
        for entry in self._in_flight:
            if is_later_batch and not entry.is_completed:
                lower = later_sequence(entry.batch.base_sequence, -batch.count)
                entry.resequence(self.identity, lower)
            is_later_batch = is_later_batch or entry.batch is batch
        if is_later_batch:
            self.next_sequence = later_sequence(self.next_sequence, -batch.count)
        self.remove(batch)

    def mark_unresolved(self, batch: SequencedBatch) -> None:
        """Remove a failed batch that may have been written.

        If it was never sent with its current sequence, nothing can have been written with that one.
        """
        if self.is_resequenced(batch):
            self.remove_and_adjust(batch)
            return
        after = sequence_after(batch)
        if self.unresolved_after is None or is_later(after, self.unresolved_after):
            self.unresolved_after = after
        self.remove(batch)

    def replace(self, batch: SequencedBatch, parts: list[SequencedBatch]) -> None:
        """Replace a batch by its parts, which share its sequences."""
        entry = self._find(batch)
        if entry is not None:
            index = self._in_flight.index(entry)
            self._in_flight[index : index + 1] = [_InFlightBatch(part) for part in parts]

    def _find(self, batch: SequencedBatch) -> _InFlightBatch | None:
        for entry in self._in_flight:
            if entry.batch is batch:
                return entry
        return None


class Sequences:
    """The producer's identity, and the sequences of all partitions it writes to.

    ``needs_bump`` holds the partitions that can only continue with a higher epoch.
    """

    def __init__(self) -> None:
        self.identity = NO_IDENTITY
        self.needs_bump: set[TopicPartition] = set()
        self._partitions: dict[TopicPartition, PartitionSequences] = {}

    def of(self, partition: TopicPartition) -> PartitionSequences:
        sequences = self._partitions.get(partition)
        if sequences is None:
            sequences = self._partitions[partition] = PartitionSequences()
        return sequences

    def may_send(self, batch: SequencedBatch) -> bool:
        """Return whether the sequences allow a batch to be sent.

        A retry is sent once all earlier batches are completed; a new batch while few enough are in flight and
        no sequence is unresolved.
        """
        if not self.identity.is_known:
            return False
        sequences = self.of(partition_of(batch))
        if has_sequence(batch):
            return sequences.is_first(batch)
        if not sequences.has_in_flight:
            return sequences.unresolved_after is None
        return sequences.identity == self.identity and sequences.may_send_more

    def assign(self, batch: SequencedBatch) -> None:
        sequences = self.of(partition_of(batch))
        if sequences.identity != self.identity and not sequences.has_in_flight:
            sequences.reset(self.identity)
        sequences.assign(batch)

    def take_resolved(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return unresolved partitions without batches in flight: those written completely, and the others.

        If the last acknowledged sequence is the last one assigned, the failed batches have been written.
        """
        idle = [
            (partition, sequences)
            for partition, sequences in self._partitions.items()
            if sequences.unresolved_after is not None and not sequences.has_in_flight
        ]
        written = [partition for partition, sequences in idle if sequences.is_next(sequences.next_sequence)]
        for _, sequences in idle:
            sequences.unresolved_after = None
        return written, [partition for partition, _ in idle if partition not in written]

    def bump(self) -> bool:
        """Continue with the next epoch; return False after the last one, when a new producer id is needed."""
        producer_id, epoch = self.identity
        if epoch >= EPOCH_MAX:
            self.identity = NO_IDENTITY
            return False
        self.set_identity(ProducerIdentity(producer_id, epoch + 1))
        return True

    def set_identity(self, identity: ProducerIdentity) -> None:
        """Continue with a new identity; partitions that need it are reset."""
        self.identity = identity
        for partition in self.needs_bump:
            self.of(partition).reset(identity)
        self.needs_bump.clear()

    def forget(self, partition: TopicPartition) -> None:
        self._partitions.pop(partition, None)

    def forget_all(self) -> None:
        self._partitions.clear()
        self.needs_bump.clear()
