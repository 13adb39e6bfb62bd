"""Fetched records that wait to be read, in the order in which they came.

Chunks are added by the event loop. They are read inside ``poll``, which a blocking consumer does in the
application's own thread, so that records need not pass from thread to thread. What makes that safe:

- The loop only appends to the queue and looks at copies of it; only the reader takes chunks out, reads them
  and advances positions.
- Assignment, pauses, and positions of partitions that are being read change only inside calls of the
  application, which makes one at a time. In the background only positions change that wait for a reset or a
  validation, and nothing is read from those.

A chunk is read from where its partition's position is. After a seek, a reset or the loss of a partition its
offset fits no more, and it is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from odradek.client.consumer.positions.partition_state import FetchPosition, TopicPartitionState
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.model.client_errors import ClientError, RecordCorrupt, SerializationFailed
from odradek.model.ids import TopicPartition
from odradek.records.codec import ColumnBuilder, ConsumerRecord, RecordReader

COMPLETED_FETCHES_MAX: Final = 2
"""Chunks of one partition: the one being read, and the one that was fetched meanwhile."""

AnyRecord: TypeAlias = "ConsumerRecord[Any, Any]"
"""A record whose key and value may have been deserialized."""

Deserialize: TypeAlias = Callable[["AnyRecord"], "AnyRecord"]

ReadChunk = Callable[["CompletedFetch", int], int | None]
"""Reads at most so many records of a chunk; gives how many, or None to have the chunk dropped."""


class CompletedFetch:
    """What one fetch brought of one partition."""

    __slots__ = ("_given_back", "end_offset", "partition", "reader", "size_bytes")
    is_deserialized: ClassVar[bool] = False

    def __init__(
        self, partition: TopicPartition, reader: RecordReader, size_bytes: int, end_offset: int | None
    ) -> None:
        self.partition = partition
        self.reader = reader
        self.size_bytes = size_bytes
        self.end_offset = end_offset
        """Where the next fetch may begin; None if that is only known when all is read."""
        self._given_back: list[AnyRecord] = []

    @property
    def next_offset(self) -> int:
        return self._given_back[0].offset if self._given_back else self.reader.next_offset

    @property
    def leader_epoch(self) -> int:
        """That of the record before ``next_offset``."""
        return self.reader.leader_epoch

    @property
    def has_given_back(self) -> bool:
        return bool(self._given_back)

    @property
    def given_back_count(self) -> int:
        return len(self._given_back)

    @property
    def is_read(self) -> bool:
        return not self._given_back and self.reader.exhausted

    def take(self, records_max: int) -> list[AnyRecord]:
        if not self._given_back:
            return self.reader.take(records_max)
        records, self._given_back = self._given_back[:records_max], self._given_back[records_max:]
        return records

    def give_back(self, records: list[AnyRecord]) -> None:
        """Take back what could not be returned to the application."""
        self._given_back = records + self._given_back


class Waiting(NamedTuple):
    """What waits to be read of one partition."""

    fetch_count: int
    end_offset: int | None
    size_bytes: int


_NOTHING: Final = Waiting(0, None, 0)


class FetchBuffer:
    """``drained`` is called when there is room for another fetch."""

    def __init__(
        self,
        subscription: SubscriptionState,
        drained: Callable[[], None],
        deserialize: Deserialize | None = None,
    ) -> None:
        self._subscription = subscription
        self._drained = drained
        self._deserialize = deserialize
        self._chunks: deque[CompletedFetch] = deque()
        self.bytes_read = 0
        self.records_read = 0

    # The loop's side.

    def add(self, chunk: CompletedFetch) -> None:
        self._chunks.append(chunk)

    def waiting(self) -> dict[TopicPartition, Waiting]:
        """By partition, how much is here and where it ends."""
        found: dict[TopicPartition, Waiting] = {}
        for chunk in list(self._chunks):
            before = found.get(chunk.partition, _NOTHING)
            found[chunk.partition] = Waiting(
                before.fetch_count + 1, chunk.end_offset, before.size_bytes + chunk.size_bytes
            )
        return found

    @property
    def size_bytes(self) -> int:
        return sum(chunk.size_bytes for chunk in list(self._chunks))

    # The reader's side.

    def has_readable(self) -> bool:
        """Whether a read would give something, or raise."""
        assigned = self._subscription.assigned
        return any(
            (each := assigned.get(chunk.partition)) is not None
            and each.is_fetchable
            and each.position is not None
            and each.position.offset == chunk.next_offset
            for chunk in list(self._chunks)
        )

    def drop_stale(self) -> None:
        """Drop what does not follow from a position any more, so that its partition is fetched again."""
        expected: dict[TopicPartition, int | None] = {}
        for partition, each in self._subscription.assigned.items():
            is_read = each.has_valid_position and not each.pending_revocation
            expected[partition] = each.position.offset if is_read and each.position is not None else None
        for _ in range(len(self._chunks)):
            chunk = self._chunks.popleft()
            if expected.get(chunk.partition) == chunk.next_offset:
                expected[chunk.partition] = chunk.end_offset
                self._chunks.append(chunk)

    def take(self, records_max: int) -> list[AnyRecord]:
        """At most so many records, in order within their partitions.

        Raises RecordCorrupt or SerializationFailed if the very next record cannot be given; it stays next.
        """
        taken: list[AnyRecord] = []

        def read(chunk: CompletedFetch, count_max: int) -> int:
            nonlocal taken
            records = chunk.take(count_max)
            if self._deserialize is not None and records and not chunk.is_deserialized:
                records = self._deserialized(chunk, records, self._deserialize)
            if taken:
                taken.extend(records)
            else:
                taken = records
            return len(records)

        self._read(records_max, read)
        return taken

    def take_columns(self, rows_max: int, into: ColumnBuilder) -> int:
        """The same into columns, undeserialized; gives the number of rows.

        Fewer also if the columns are full, or where a partition's reader wants to stop.
        """

        def read(chunk: CompletedFetch, count_max: int) -> int | None:
            if chunk.has_given_back:
                return None  # what was decoded and given back cannot become columns: it is fetched again
            stop_offset = self._subscription.of(chunk.partition).stop_offset
            return chunk.reader.take_columns(count_max, into, stop_offset)

        return self._read(rows_max, read, into)

    def put_back(self, chunk: CompletedFetch) -> None:
        """Have records read next that were taken and not given to the application."""
        count = chunk.given_back_count
        self.records_read -= count
        before = next((each for each in list(self._chunks) if each.partition == chunk.partition), None)
        if before is not None and before.is_deserialized and before.next_offset == chunk.end_offset:
            before.give_back(chunk.take(count))  # else a piece would be left of each time
        else:
            self._chunks.appendleft(chunk)

    def clear(self) -> None:
        self._chunks.clear()

    def _read(self, count_max: int, read: ReadChunk, into: ColumnBuilder | None = None) -> int:
        count, was_drained, aside = 0, False, list[CompletedFetch]()
        chunks = self._chunks
        try:
            while chunks and count < count_max and not (into is not None and into.is_full):
                chunk = chunks[0]
                each = self._subscription.assigned.get(chunk.partition)
                if each is None or not _fits(each, chunk):
                    chunks.popleft()
                    was_drained = True
                elif each.paused or each.has_stopped:
                    aside.append(chunks.popleft())
                else:
                    count += self._read_one(each, chunk, count_max - count, read, into)
                    was_drained = was_drained or not chunks or chunks[0] is not chunk
        except ClientError:
            if not count:
                raise  # what came before the broken record is returned first, and this is met again
        finally:
            chunks.extend(aside)
            if was_drained:
                self._drained()
        return count

    def _read_one(
        self,
        each: TopicPartitionState,
        chunk: CompletedFetch,
        count_max: int,
        read: ReadChunk,
        into: ColumnBuilder | None,
    ) -> int:
        start_offset, bytes_left = chunk.next_offset, chunk.reader.bytes_left
        count = read(chunk, count_max)
        if count is None:
            self._chunks.popleft()
            return 0
        if not count and chunk.next_offset == start_offset and not (into is not None and into.is_full):
            raise RecordCorrupt(
                f"no whole batch in {chunk.size_bytes} bytes fetched of {chunk.partition} at offset"
                f" {start_offset}"
            )
        # The position first: whoever plans a fetch now sees either the chunk, or where it ended.
        before = each.position
        assert before is not None, "a partition that is fetched has a position"
        each.advance(
            FetchPosition(chunk.next_offset, chunk.leader_epoch, before.leader_id, before.leader_epoch)
        )
        self.records_read += count
        self.bytes_read += bytes_left - chunk.reader.bytes_left
        if chunk.is_read:
            self._chunks.popleft()
            self._subscription.serve_last(chunk.partition)
        return count

    def _deserialized(
        self, chunk: CompletedFetch, records: list[AnyRecord], deserialize: Deserialize
    ) -> list[AnyRecord]:
        """Records as the application wants them; those from the first that fails on stay in their chunk."""
        made: list[AnyRecord] = []
        for index, record in enumerate(records):
            try:
                made.append(deserialize(record))
            except Exception as cause:  # a user's function may raise anything
                chunk.give_back(records[index:])
                if not made:
                    raise SerializationFailed(
                        f"the record at offset {record.offset} of {chunk.partition} cannot be deserialized; "
                        f"seek past it to go on: {cause}"
                    ) from cause
                break
        return made


def _fits(each: TopicPartitionState, chunk: CompletedFetch) -> bool:
    position = each.position
    return (
        each.has_valid_position
        and not each.pending_revocation
        and position is not None
        and position.offset == chunk.next_offset
    )
