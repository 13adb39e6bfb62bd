"""The numbers of an idempotent producer: who it is, and which sequence each partition's next batch gets.

A broker takes a producer's batches of a partition only in the order of their sequences, and knows by them
what it has written already. So each partition remembers the batches that have numbers and no final answer
yet, in the order of sequences: the one in which they were numbered, also where sequences wrap at 2^31 - 1.

A batch that was given up although a broker may have written it leaves its partition's numbers *in doubt*: the
partition's next batches get none until later answers show that it was written, or everything begins anew with
a higher epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.client.producer.transactions.transaction_manager_port import NumberedBatch
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, UNKNOWN_OFFSET, TopicPartition

SEQUENCE_COUNT: Final = 1 << 31
"""Sequences go from 0 to 2^31 - 1, and then begin again."""
EPOCH_MAX: Final = 32767
IN_FLIGHT_MAX: Final = 5
"""Batches of a producer that a broker remembers in a partition: beyond these it could not tell where a
repeated one was written."""


def later_sequence(sequence: int, count: int) -> int:
    """The sequence ``count`` records after another; a negative count goes back."""
    return (sequence + count) % SEQUENCE_COUNT


def is_later(sequence: int, than: int) -> bool:
    """Whether a sequence comes after another, if they are less than half of all sequences apart."""
    return 0 < (sequence - than) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2


class ProducerIdentity(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    epoch: int

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"producer id {self.producer_id}, epoch {self.epoch}"


NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def partition_of(batch: NumberedBatch) -> TopicPartition:
    return TopicPartition(batch.topic, batch.partition)


def is_numbered(batch: NumberedBatch) -> bool:
    return batch.base_sequence != NO_SEQUENCE


def sequence_after(batch: NumberedBatch) -> int:
    """The sequence that follows a batch's last record."""
    return later_sequence(batch.base_sequence, batch.count)


class _Flight:
    """A batch with numbers, without a final answer or numbered after one that has none.

    ``is_renumbered`` says that it has got other numbers since it left: an answer is about the old ones then.
    ``may_be_written`` says that an attempt got no answer, or none that tells.
    """

    __slots__ = ("batch", "is_over", "is_renumbered", "may_be_written")

    def __init__(self, batch: NumberedBatch) -> None:
        self.batch = batch
        self.is_over = False
        self.is_renumbered = False
        self.may_be_written = False

    def renumber(self, identity: ProducerIdentity, sequence: int) -> None:
        self.batch.producer_id, self.batch.producer_epoch = identity
        self.batch.base_sequence = sequence
        self.is_renumbered = True


class PartitionSequences:
    """The numbers of one partition.

    ``acked`` is the sequence of the last record known to be written, ``doubt`` the sequence after the last
    batch that was given up without knowing whether it was; None while there is none.
    """

    __slots__ = ("_flights", "acked", "acked_offset", "doubt", "identity", "next_sequence")

    def __init__(self) -> None:
        self.identity = NOBODY
        self.next_sequence = 0
        self.acked: int | None = None
        self.acked_offset = UNKNOWN_OFFSET
        self.doubt: int | None = None
        self._flights: list[_Flight] = []

    @property
    def in_flight(self) -> list[NumberedBatch]:
        return [flight.batch for flight in self._flights if not flight.is_over]

    @property
    def has_in_flight(self) -> bool:
        return bool(self._flights)

    @property
    def may_grow(self) -> bool:
        """Whether a new batch may leave while others are in flight.

        A broker that knows nothing of a producer takes any sequence from it: so the first batch goes alone,
        or a later one could overtake it where a partition gets another leader. The same goes for batches
        that will be sent again with other numbers. And the oldest in flight must stay among those that a
        broker remembers, so later ones count even if they have their answer.
        """
        if self.acked is None or self.doubt is not None or len(self._flights) >= IN_FLIGHT_MAX:
            return False
        return True not in [flight.is_renumbered for flight in self._flights]

    def is_first(self, batch: NumberedBatch) -> bool:
        """Whether nothing that was numbered before a batch waits for its answer."""
        return not self._flights or self._flights[0].batch is batch

    def is_next(self, sequence: int) -> bool:
        """Whether a sequence follows the last record that is known to be written."""
        return sequence == (0 if self.acked is None else later_sequence(self.acked, 1))

    def is_renumbered(self, batch: NumberedBatch) -> bool:
        flight = self._flight(batch)
        return flight is not None and flight.is_renumbered

    def may_be_written(self, batch: NumberedBatch) -> bool:
        flight = self._flight(batch)
        return flight is not None and flight.may_be_written

    def note_silence(self, batch: NumberedBatch) -> None:
        """An attempt ended in a way that does not tell whether the batch was written."""
        flight = self._flight(batch)
        if flight is not None:
            flight.may_be_written = True

    def leave(self, batch: NumberedBatch) -> None:
        """A batch leaves for the broker, with new numbers unless it has some."""
        if not is_numbered(batch):
            batch.producer_id, batch.producer_epoch = self.identity
            batch.base_sequence = self.next_sequence
            self.next_sequence = sequence_after(batch)
            self._flights.append(_Flight(batch))
        elif (flight := self._flight(batch)) is not None:
            flight.is_renumbered = False

    def begin_anew(self, identity: ProducerIdentity) -> None:
        """Sequences from 0 on, also for the batches in flight, as a producer the broker does not know yet."""
        self.identity = identity
        self.next_sequence = 0
        self._flights = [flight for flight in self._flights if not flight.is_over]
        for flight in self._flights:
            flight.renumber(identity, self.next_sequence)
            self.next_sequence = sequence_after(flight.batch)
        self.acked = self.doubt = None

    def acknowledge(self, batch: NumberedBatch, base_offset: int) -> None:
        """A batch is written. If that was under older numbers, the new ones are free for those after it."""
        flight = self._flight(batch)
        if base_offset != UNKNOWN_OFFSET:
            self.acked_offset = max(self.acked_offset, base_offset + batch.count - 1)
        if flight is not None and flight.is_renumbered:
            self.close_gap(batch)
        elif (batch.producer_id, batch.producer_epoch) == self.identity:
            last = later_sequence(sequence_after(batch), -1)
            if self.acked is None or is_later(last, self.acked):
                self.acked = last
        self._end(flight)

    def remove(self, batch: NumberedBatch) -> None:
        """The fate of a batch is known."""
        self._end(self._flight(batch))

    def _end(self, flight: _Flight | None) -> None:
        if flight is not None:
            flight.is_over = True
        while self._flights and self._flights[0].is_over:
            del self._flights[0]

    def close_gap(self, batch: NumberedBatch) -> None:
        """A batch will never be written under its numbers: it is done with, and those after it move down."""
        after = False
        for flight in self._flights:
            if after and not flight.is_over:
                lower = later_sequence(flight.batch.base_sequence, -batch.count)
                flight.renumber(self.identity, lower)
            after = after or flight.batch is batch
        if after:
            self.next_sequence = later_sequence(self.next_sequence, -batch.count)
        self.remove(batch)

    def put_in_doubt(self, batch: NumberedBatch) -> None:
        """A batch is given up, and nobody knows whether it was written.

        If it never left under the numbers it has now, nothing can have been written under those.
        """
        if self.is_renumbered(batch):
            self.close_gap(batch)
            return
        after = sequence_after(batch)
        if self.doubt is None or is_later(after, self.doubt):
            self.doubt = after
        self.remove(batch)

    def replace(self, batch: NumberedBatch, parts: list[NumberedBatch]) -> None:
        """Parts of a batch take its place, and its numbers one after the other."""
        flight = self._flight(batch)
        if flight is not None:
            at = self._flights.index(flight)
            self._flights[at : at + 1] = [_Flight(part) for part in parts]

    def _flight(self, batch: NumberedBatch) -> _Flight | None:
        for flight in self._flights:
            if flight.batch is batch:
                return flight
        return None


class Sequences:
    """The producer's identity, and the numbers of all partitions it writes to.

    ``needs_bump`` holds the partitions that can go on with a higher epoch only.
    """

    def __init__(self) -> None:
        self.identity = NOBODY
        self.needs_bump: set[TopicPartition] = set()
        self._partitions: dict[TopicPartition, PartitionSequences] = {}

    def of(self, partition: TopicPartition) -> PartitionSequences:
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = PartitionSequences()
        return found

    def may_leave(self, batch: NumberedBatch) -> bool:
        """Whether the numbers allow a batch to leave.

        One that has been sent before leaves once all that were numbered before it are answered; a new one
        while those in flight are few enough, and nothing is in doubt.
        """
        if not self.identity.is_known:
            return False
        numbers = self.of(partition_of(batch))
        if is_numbered(batch):
            return numbers.is_first(batch)
        if not numbers.has_in_flight:
            return numbers.doubt is None
        return numbers.identity == self.identity and numbers.may_grow

    def leave(self, batch: NumberedBatch) -> None:
        numbers = self.of(partition_of(batch))
        if numbers.identity != self.identity and not numbers.has_in_flight:
            numbers.begin_anew(self.identity)
        numbers.leave(batch)

    def settled(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Partitions in doubt whose batches are all answered: those that turned out well, and the others.

        If the last answer was about the last sequence given out, what was given up has been written.
        """
        over = [(p, n) for p, n in self._partitions.items() if n.doubt is not None and not n.has_in_flight]
        well = [partition for partition, numbers in over if numbers.is_next(numbers.next_sequence)]
        for _, numbers in over:
            numbers.doubt = None
        return well, [partition for partition, _ in over if partition not in well]

    def bump(self) -> bool:
        """Go on with the next epoch; False after the last one, when a new id is needed."""
        producer_id, epoch = self.identity
        if epoch >= EPOCH_MAX:
            self.identity = NOBODY
            return False
        self.become(ProducerIdentity(producer_id, epoch + 1))
        return True

    def become(self, identity: ProducerIdentity) -> None:
        """Go on as somebody else; partitions that can go on in no other way begin anew at once."""
        self.identity = identity
        for partition in self.needs_bump:
            self.of(partition).begin_anew(identity)
        self.needs_bump.clear()

    def forget(self, partition: TopicPartition) -> None:
        self._partitions.pop(partition, None)

    def forget_all(self) -> None:
        self._partitions.clear()
        self.needs_bump.clear()
